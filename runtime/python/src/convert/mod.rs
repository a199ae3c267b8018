//! Conversion of Python objects to values, and back.

pub(crate) mod callback;
pub(crate) mod from_python;
pub(crate) mod keep;
pub(crate) mod lent;
pub(crate) mod lent_object;
pub(crate) mod number;
mod origin;
mod parts;
mod standard;
pub(crate) mod to_python;
