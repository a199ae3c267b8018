//! Reads of tensors, proved to lie inside of their extents.
//!
//! [`check`] looks at each read of the operations of a kernel. A read that is proved costs nothing. One that is certainly
//! outside is an error. Where sizes decide, a condition on them is checked at the entry of the kernel. What is left
//! depends on data, or on conditions that are not understood: those tensors are named, and their reads are checked one by
//! one (`schedule::read_checks`).
//!
//! The proofs are about the elements that readers need. A schedule may compute more of an intermediate result, up to the
//! whole of it: where reads are not in bounds for the whole, elements that would read outside are left out.

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
    /// The tensors that only elements which nothing needs read outside: those are not computed.
    pub(crate) partly: HashSet<(usize, i64)>,
    /// The sizes and numbers that the arguments of the kernel have.
    pub(crate) known: HashSet<Var>,
}

/// Adds a tensor and all that it depends on: an operation may be computed wherever it is read, so what it reads is outside
/// where it is.
fn add(found: &mut HashSet<(usize, i64)>, tensor: &Tensor) {
    let mut left = vec![tensor.clone()];
    while let Some(tensor) = left.pop() {
        if found.insert(tensor.key()) {
            left.extend(input_tensors(&tensor.op));
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
                let unknown = std::mem::take(&mut reads.unknown);
                unknown.iter().for_each(|tensor| add(&mut checks.reads, tensor));
                if !domain.is_whole(&op.output(0)) {
                    let own = reads::unproved(kernel, op, known, &checks.entry);
                    own.iter().for_each(|tensor| add(&mut checks.partly, tensor));
                }
            }
            _ => domains.enter(op, &domain),
        }
    }
    CompileError::all(errors).map_or(Ok(checks), Err)
}
