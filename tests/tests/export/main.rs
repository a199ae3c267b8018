//! Libraries that are exported at run time, and libraries for 64-bit ARM. This program links LLVM.

mod aarch64_machine;
mod length;
mod on_aarch64;
mod packers;
