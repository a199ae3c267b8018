//! The start of a file that `kernpack-build` of another minor version writes for
//! `kernpack::library!()`: the private module of its version, with a comment about the error.

use kernpack as __kernpack;

pub mod kernels {
    use super::__kernpack::__private_v0_2 as _; // not found: kernpack and kernpack-build need the same version in Cargo.toml (0.2)

    mod blur_parts {
        use super::super::__kernpack::__private_v0_2 as __k;

        pub static KERNEL: __k::Kernel = __k::kernel("blur");
    }
}

fn main() {}
