//! Libraries that are made at run time, and those for 64-bit ARM. This program links LLVM.

mod aarch64_machine;
mod length;
mod on_aarch64;
mod packers;
