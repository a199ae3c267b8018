//! The tables of the process: global functions, types with their members and attributes, and each
//! thread's raised error.

pub mod function_table;
pub mod raised;
pub mod type_attr;
mod type_hash;
pub mod type_members;
mod type_registry;
pub mod type_table;
