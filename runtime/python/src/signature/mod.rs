//! Functions and constructors of the library as Python sees them: what their parameters accept, and
//! how their signatures read.

pub(crate) mod callable;
pub(crate) mod constructor;
pub(crate) mod refused;
pub(crate) mod text;
pub(crate) mod wanted;
