//! OpenCL devices, modules and kernels, on any device of this machine; `cargo xtask test` ensures
//! that there is at least PoCL, with two devices (`.cargo/config.toml`).

mod devices;
mod images;
mod kernels;
mod machine;
mod tensors;
