//! Kernels in OpenCL C, on an OpenCL device of this machine, compared with the interpreter.
//! `cargo xtask test` ensures that there is at least PoCL.

mod fallback;
mod machine;
mod programs;
mod schedules;
