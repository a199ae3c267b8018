//! Conversion of JSON text to values and back.
//!
//! Objects become maps and arrays become arrays; numbers without a fraction or exponent become
//! integers if they fit. As an extension of JSON, `NaN`, `Infinity` and `-Infinity` are numbers.
//! Neither direction recurses, so nesting is only bounded by memory.

mod number;
mod parse;
mod shared;
mod text;
mod write;

pub use number::{write_float, write_integer};
pub use parse::parse;
pub use write::{write, write_string};
