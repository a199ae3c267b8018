//! The shared parts of all walks through graphs of objects: children, fields, known addresses,
//! hooks that call back, cycles.

pub(crate) mod address_map;
pub(crate) mod children;
pub(crate) mod cycle;
pub(crate) mod field_value;
pub(crate) mod frozen;
pub(crate) mod held_objects;
pub(crate) mod reentry;
pub(crate) mod stack;
pub(crate) mod stack_space;
#[cfg(test)]
pub(crate) mod test_graphs;
