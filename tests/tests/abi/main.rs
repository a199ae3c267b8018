//! The C ABI: our declarations, our header and our `libtvm_ffi.so`, compared with the stock headers
//! and library.

mod c_header;
mod capi;
mod headers;
mod layouts;
mod same_as_stock;
mod traversal;
