//! Ten kernels that `build.rs` defines in a few lines each. They are in [`kernels`], typed, and
//! every other language calls them by name.

kernpack::library!();
