//! Arrays of Python as tensors, for a call or for longer, without a copy of the elements.

pub(crate) mod array;
pub(crate) mod exchange;
mod exchange_table;
pub(crate) mod lend;
mod lent_memory;
pub(crate) mod managed;
pub(crate) mod numpy_memory;
pub(crate) mod offer;
mod stored;
