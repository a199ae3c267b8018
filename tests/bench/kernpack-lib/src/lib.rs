//! Our benchmark library: `add` and `fail`, functions that take one argument of some type, and a
//! type.

use kernpack::{Result, bail, packed_func};

pub mod arguments;
pub mod record;

kernpack::library!();

/// Adds two integers.
#[packed_func]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Fails with any code.
#[packed_func]
fn fail(code: i64) -> Result<i64> {
    bail!(ValueError, "code {} is not allowed", code)
}
