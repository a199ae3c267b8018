//! Bounds checks: proofs that reads of tensors are in bounds.
//!
//! [`check`] examines each read of the operations of a kernel. A proved read costs nothing. A read
//! that is certainly out of bounds is an error. Where the result depends on sizes, a condition on
//! them is checked at the entry of the kernel. The remaining reads depend on data, or on conditions
//! that the analysis does not understand: their tensors are recorded, and the reads are checked one
//! by one (`schedule::read_checks`).
//!
//! The proofs apply to the elements that readers need. A schedule may compute more of an
//! intermediate result, up to the whole of it: where reads are not in bounds for the whole,
//! elements that would read out of bounds are skipped.

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

/// The checks that the reads of a kernel need at run time.
#[derive(Default)]
pub(crate) struct Checks {
    /// The conditions on sizes and scalars.
    pub(crate) entry: Vec<EntryCheck>,
    /// The tensors whose reads are checked one by one, by [`Tensor::key`].
    pub(crate) reads: HashSet<(usize, i64)>,
    /// The tensors that are read out of bounds only by elements that are not needed: these are not
    /// computed.
    pub(crate) partly: HashSet<(usize, i64)>,
    /// The sizes and scalars that the arguments of the kernel determine.
    pub(crate) known: HashSet<Var>,
    /// True for a device, where reads cannot be checked one by one: it is an error if the loops do
    /// not prove them.
    pub(crate) on_device: bool,
}

/// Adds a tensor and all tensors that it depends on: an operation may be computed wherever it is
/// read, so its own reads are out of bounds in the same places.
fn add(found: &mut HashSet<(usize, i64)>, tensor: &Tensor) {
    let mut left = vec![tensor.clone()];
    while let Some(tensor) = left.pop() {
        if found.insert(tensor.key()) {
            left.extend(input_tensors(&tensor.op));
        }
    }
}

/// Returns the checks for the reads of all operations that the outputs depend on. `known` contains
/// the sizes and scalars that the arguments of the kernel determine.
///
/// # Errors
/// Returns an error for reads that are certainly out of bounds.
pub(crate) fn check(kernel: &str, outputs: &[Tensor], known: &HashSet<Var>) -> Result<Checks> {
    let mut domains = domain::Domains::of_outputs(outputs);
    let mut checks = Checks { known: known.clone(), ..Checks::default() };
    let mut errors = Vec::new();
    let ops: Vec<Operation> = outputs.iter().map(|output| output.op.clone()).collect();
    // Readers come first: they determine which elements of the others are computed.
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
