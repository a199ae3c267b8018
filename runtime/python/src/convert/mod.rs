//! Conversion of Python objects to values, and back.

pub(crate) mod callback;
pub(crate) mod from_python;
pub(crate) mod keep;
pub(crate) mod lent;
mod number;
mod parts;
mod standard;
pub(crate) mod to_python;
