//! Ten kernels that `build.rs` says in a few lines each. They are in [`kernels`], typed, and every other language calls them by name.

kernpack::library!();
