//! Beside the stock `libtvm_ffi`, and Apache TVM: in their processes, and what ours registers
//! against what theirs does.

mod apache_tvm;
mod host;
mod introspection;
