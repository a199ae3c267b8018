//! The operators of loops whose body is compiled once: the node has the body, see `graph.rs`.

use super::{Operator, Pattern};
use crate::error::fail;

/// A loop with a number of rounds, a condition, or both.
pub(crate) static LOOP: Operator = Operator {
    name: "Loop",
    pattern: Pattern::Opaque,
    make: |_| fail!("a loop has a graph inside, and no tensor expressions"),
};

/// A loop over slices of its inputs.
pub(crate) static SCAN: Operator = Operator { name: "Scan", ..LOOP };
