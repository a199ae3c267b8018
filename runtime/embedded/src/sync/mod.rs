//! The synchronization primitives of tables and reference counts, whose readers take no lock.
//! `tests/loom` checks these protocols.

pub mod atomic;
pub mod name_table;
pub(crate) mod outgrown;
pub(crate) mod ref_count;
pub mod set_once;
pub mod shared_ref;
