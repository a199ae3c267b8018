//! Global functions and types that do not walk through a graph of objects: containers, strings,
//! integers of any size, JSON, modules, the function table.

pub(crate) mod big_int;
pub(crate) mod containers;
pub(crate) mod convert;
pub(crate) mod global_functions;
pub(crate) mod json;
pub(crate) mod maps;
pub(crate) mod module_type;
pub(crate) mod modules;
pub(crate) mod values;
