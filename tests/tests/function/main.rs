//! Functions: registrations, conversions of arguments, loops over tensors, and robustness of the
//! process.

mod conversions;
mod parallel;
mod registry;
mod robust;
