//! OpenCL devices, modules and kernels, on whatever device this machine has; `cargo xtask test`
//! ensures that it is PoCL at least, with two devices (`.cargo/config.toml`).

mod devices;
mod images;
mod kernels;
mod machine;
mod tensors;
