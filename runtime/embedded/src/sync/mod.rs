//! What tables and reference counts are made of, so that readers take no lock. `tests/loom` checks these protocols.

pub mod atomic;
pub mod name_table;
pub(crate) mod outgrown;
pub(crate) mod ref_count;
pub mod set_once;
pub mod shared_ref;
