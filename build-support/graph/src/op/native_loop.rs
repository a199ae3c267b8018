//! The operators of nodes with graphs inside: loops whose body is compiled once, and conditionals.
//! See `graph.rs`.

use super::{Operator, Pattern};
use crate::error::fail;

/// A loop with a number of iterations, a condition, or both.
pub(crate) static LOOP: Operator = Operator {
    name: "Loop",
    pattern: Pattern::Opaque,
    make: |_| fail!("a node with a graph inside has no tensor expressions"),
};

/// A loop over slices of its inputs.
pub(crate) static SCAN: Operator = Operator { name: "Scan", ..LOOP };

/// A conditional with two graphs.
pub(crate) static IF: Operator = Operator { name: "If", ..LOOP };
