//! Items that operators of other crates of this project use (`kernpack-nnvm`). They may change in
//! any version.

pub use crate::constant::{Constant, element_bytes, num_elements};
pub use crate::op::{
    Call, Operand, axis_of, broadcast, element_tensor, extents, extremum, find, flatten, statements, unflatten,
};
pub use crate::tensors::{bytes_of, tensor_of};
pub use crate::{fail, require};
