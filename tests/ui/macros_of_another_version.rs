//! The attributes of Kernpack 0.1, told that `kernpack` is a crate of another minor version: one without the private module of 0.1.

mod kernpack_0_2 {
    #[allow(unused_imports)]
    pub use kernpack::{Any, AnyView, Error, Function, Object, Result};
}

#[kernpack::packed_func(crate = crate::kernpack_0_2)]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

fn main() {}
