//! Functions: what is registered, how arguments are converted, loops over tensors, and what must
//! not break a process.

mod conversions;
mod parallel;
mod registry;
mod robust;
