//! A library that extends an existing system with a type, functions that take and return functions,
//! functions on objects of another library, and a device.
//!
//! The scenario is that of `apps/extension` in Apache TVM, which is in C++.
//!
//! | function | what it shows |
//! |---|---|
//! | [`IntVector`](int_vector::IntVector) | a type whose content only its methods reach |
//! | [`bind_add`](callback::bind_add), [`map_vector`](callback::map_vector) | functions as arguments and as results |
//! | [`sym_add`](symbolic::sym_add), [`variables`](symbolic::variables) | objects of the library `expr`, and of Apache TVM |
//! | [`placeholder`](tensor::placeholder), [`add_one`](tensor::add_one) | objects in fields of objects: `x.op.name` |
//! | [`device_api`](device::device_api), [`to_device`](device::to_device) | the device type `ext_dev` |

kernpack::library!(with = [expr]);

pub mod callback;
pub mod device;
pub mod int_vector;
mod memory;
pub mod symbolic;
pub mod tensor;
