//! Python objects that hold objects of the library, and the classes that were created for them.

pub(crate) mod container;
pub(crate) mod edge;
pub(crate) mod member;
pub(crate) mod table;
pub(crate) mod wrap;
