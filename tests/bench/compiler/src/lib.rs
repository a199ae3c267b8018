//! The kernels that `cargo xtask bench compiler` measures; `build.rs` defines them.

kernpack::library!();
