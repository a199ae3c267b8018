//! A library whose code refers to none of its dependencies.

kernpack::library!();

/// Returns its argument.
#[kernpack::packed_func]
fn same(x: i64) -> i64 {
    x
}
