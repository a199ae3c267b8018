//! The kernels that `cargo xtask bench compiler` times; `build.rs` says what they compute.

kernpack::library!();
