//! The smallest library, for measurements of size: one function.

kernpack::library!();

/// Adds two integers.
#[kernpack::packed_func]
fn add(a: i64, b: i64) -> i64 {
    a + b
}
