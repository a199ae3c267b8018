//! JSON text to values and back.
//!
//! Objects are maps and arrays are arrays; numbers without a fraction or exponent that fit are integers. Beyond JSON, `NaN`,
//! `Infinity` and `-Infinity` are numbers. Neither direction recurses, so nesting is only bounded by memory.

mod number;
mod parse;
mod shared;
mod text;
mod write;

pub use number::{write_float, write_integer};
pub use parse::parse;
pub use write::{write, write_string};
