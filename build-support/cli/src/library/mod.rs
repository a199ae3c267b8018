//! A library of packed functions as data: its ELF file, its import tree, and, on request, its
//! description when it is loaded.

pub(crate) mod architecture;
pub(crate) mod file;
pub(crate) mod inspection;
pub(crate) mod loaded;
pub(crate) mod model;
pub(crate) mod shape;
pub(crate) mod signature;
pub(crate) mod tree;
