//! Attributes of Kernpack 0.1 with a `kernpack` of another version, without `__private_v0_1`.

mod kernpack_0_2 {
    #[allow(unused_imports)]
    pub use kernpack::{Any, AnyView, Error, Function, Object, Result};
}

#[kernpack::packed_func(crate = crate::kernpack_0_2)]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

fn main() {}
