//! Tests with the stock `libtvm_ffi` and Apache TVM: in their processes, and comparisons of
//! registrations.

mod apache_tvm;
mod host;
mod introspection;
