//! Domains: the elements of an operation that are computed.

use std::collections::HashMap;

use kernpack::structural;

use crate::arith::{Analyzer, IntSet};
use crate::ir::{Expr, Operation, OperationNode, Range, Tensor};

/// The elements that are computed: a range for each dimension that contains all of them.
#[derive(Clone)]
pub(super) struct Domain {
    pub(super) ranges: Vec<Range>,
    /// True if the first and last elements are computed whenever no range is empty.
    pub(super) exact: bool,
}

impl Domain {
    /// All elements of a tensor.
    pub(super) fn whole(tensor: &Tensor) -> Self {
        Self { ranges: tensor.shape.iter().map(Range::until).collect(), exact: true }
    }

    /// Returns true if the domain is the whole tensor; its first and last elements may not be
    /// computed.
    pub(super) fn is_whole(&self, tensor: &Tensor) -> bool {
        self.ranges.len() == tensor.shape.len() && self.is(&Self::whole(tensor))
    }

    fn is(&self, other: &Self) -> bool {
        same_ranges(&self.ranges, &other.ranges)
    }
}

fn same_ranges(a: &[Range], b: &[Range]) -> bool {
    let same = |a: &Expr, b: &Expr| structural::equal(a, b).unwrap_or(false);
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(&a.min, &b.min) && same(&a.extent, &b.extent))
}

/// The domains of operations, which are determined by their readers.
pub(super) struct Domains {
    of: HashMap<Operation, Domain>,
    analyzer: Analyzer,
}

impl Domains {
    pub(super) fn of_outputs(outputs: &[Tensor]) -> Self {
        let mut domains = Self { of: HashMap::new(), analyzer: Analyzer::new() };
        outputs.iter().for_each(|output| domains.read(output, Domain::whole(output)));
        domains
    }

    /// The domain of an operation whose readers were all processed.
    pub(super) fn of(&self, op: &Operation) -> Domain {
        self.of.get(op).cloned().unwrap_or_else(|| Domain { exact: false, ..Domain::whole(&op.output(0)) })
    }

    /// Adds the reads of an operation that is not an expression: all of its inputs; for a scan, of
    /// its updates only the later steps.
    pub(super) fn enter(&mut self, op: &Operation, domain: &Domain) {
        match &**op {
            OperationNode::Scan { init, update, scan_axis, inputs, .. } => {
                // Steps are computed up to the last one that is read, with all elements of each.
                let is_all = |tensor: &Tensor, from: usize| {
                    let whole = Domain::whole(tensor);
                    let own = domain.ranges.get(from..).zip(whole.ranges.get(from..));
                    domain.exact && own.is_some_and(|(a, b)| same_ranges(a, b))
                };
                for tensor in init.iter() {
                    self.read(&tensor, Domain { exact: is_all(&tensor, 1), ..Domain::whole(&tensor) });
                }
                for tensor in inputs.iter() {
                    self.read(&tensor, Domain { exact: false, ..Domain::whole(&tensor) });
                }
                for tensor in update.iter() {
                    let mut part = Domain { exact: is_all(&tensor, 1), ..Domain::whole(&tensor) };
                    let first = part.ranges.first_mut().zip(domain.ranges.first());
                    if let (Some((first, read)), Some(steps)) = (first, &scan_axis.dom) {
                        *first = Range::new(&steps.min, &read.min + &read.extent - &steps.min);
                    }
                    self.read(&tensor, part);
                }
            }
            OperationNode::Extern { inputs, .. } => {
                for tensor in inputs.iter() {
                    self.read(&tensor, Domain::whole(&tensor));
                }
            }
            _ => {}
        }
    }

    /// Adds a read of elements of a tensor.
    pub(super) fn read(&mut self, tensor: &Tensor, mut part: Domain) {
        if matches!(*tensor.op, OperationNode::Placeholder { .. }) {
            return;
        }
        for range in &mut part.ranges {
            *range = Range::new(self.analyzer.simplify(&range.min), self.analyzer.simplify(&range.extent));
        }
        let Some(known) = self.of.get(&tensor.op) else {
            self.of.insert(tensor.op.clone(), part);
            return;
        };
        if known.is(&part) {
            let exact = known.exact || part.exact;
            let ranges = part.ranges;
            self.of.insert(tensor.op.clone(), Domain { ranges, exact });
            return;
        }
        let set = |range: &Range| IntSet::interval(&range.min, &range.min + &range.extent - 1);
        let mut all = Domain { ranges: Vec::new(), exact: false };
        for ((a, b), extent) in known.ranges.iter().zip(&part.ranges).zip(tensor.shape.iter()) {
            let both = set(a).union(&set(b), &self.analyzer);
            all.ranges.push(match (both.min(), both.max()) {
                (Some(min), Some(max)) => {
                    Range::new(self.analyzer.simplify(min), self.analyzer.simplify(&(max - min + 1)))
                }
                _ => Range::until(extent),
            });
        }
        // One of the parts may contain the other.
        all.exact = known.exact && known.is(&all) || part.exact && part.is(&all);
        self.of.insert(tensor.op.clone(), all);
    }
}
