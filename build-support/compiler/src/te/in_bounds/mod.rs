//! Reads of tensors, proved to lie inside of their extents.
//!
//! [`check`] looks at each read of the operations of a kernel. A read that is proved costs nothing. One that is certainly
//! outside is an error. Where sizes decide, a condition on them is checked at the entry of the kernel. What is left
//! depends on data, or on conditions that are not understood: those tensors are named, and their reads are checked one by
//! one (`schedule::read_checks`).

mod domain;
mod reads;

use std::collections::HashSet;

use crate::error::{CompileError, Result};
use crate::ir::{Expr, Operation, OperationNode, Tensor, Var};
use crate::te::operation::{input_tensors, post_order};

/// A condition that the arguments of a kernel have to satisfy.
pub(crate) struct EntryCheck {
    pub(crate) condition: Expr,
    pub(crate) message: String,
}

/// The checks that the reads of a kernel need when it is called.
#[derive(Default)]
pub(crate) struct Checks {
    /// Conditions on sizes and numbers.
    pub(crate) entry: Vec<EntryCheck>,
    /// The tensors whose reads are checked one by one, by [`Tensor::key`].
    pub(crate) reads: HashSet<(usize, i64)>,
    /// The sizes and numbers that the arguments of the kernel have.
    pub(crate) known: HashSet<Var>,
}

impl Checks {
    fn add(&mut self, tensor: &Tensor) {
        // An operation may be computed wherever it is read, so what it reads is outside where it is.
        if !self.reads.insert(tensor.key()) {
            return;
        }
        for input in input_tensors(&tensor.op) {
            self.add(&input);
        }
    }
}

/// The checks for the reads of all operations that outputs depend on. `known`: the sizes and numbers that the arguments
/// of the kernel have.
///
/// # Errors
/// Reads that are certainly out of bounds.
pub(crate) fn check(kernel: &str, outputs: &[Tensor], known: &HashSet<Var>) -> Result<Checks> {
    let mut domains = domain::Domains::of_outputs(outputs);
    let mut checks = Checks { known: known.clone(), ..Checks::default() };
    let mut errors = Vec::new();
    let ops: Vec<Operation> = outputs.iter().map(|output| output.op.clone()).collect();
    // Readers come first: they say which elements of the others are computed.
    for op in post_order(&ops).iter().rev() {
        let domain = domains.of(op);
        match &**op {
            OperationNode::Compute { .. } => {
                let mut reads = reads::Reads::new(kernel, op, &domain, known, &mut domains);
                reads.visit_op(op);
                checks.entry.append(&mut reads.entry);
                errors.append(&mut reads.errors);
                for tensor in std::mem::take(&mut reads.unknown) {
                    checks.add(&tensor);
                }
            }
            _ => domains.enter(op, &domain),
        }
    }
    CompileError::all(errors).map_or(Ok(checks), Err)
}
