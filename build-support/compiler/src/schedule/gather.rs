//! Regions of tensors: the elements that the readers of an operation access, and the ranges of the
//! operation's axes that compute them.

use std::collections::{HashMap, HashSet};

use super::infer_bound::own_range;
use super::pass_down::RangeMap;
use crate::arith::{Analyzer, IntSet, SetMap};
use crate::error::Result;
use crate::ir::mutate::{Mutate, mutate_expr_parts};
use crate::ir::shared::Memo;
use crate::ir::visit::{Visit, for_each_expr, walk_expr};
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, IterVar, Operation, OperationNode, Range, Tensor, Var};
use crate::te::operation::{bodies_once, input_tensors, root_axes};

/// The regions that are read of each result of an operation: a set for each dimension, which is
/// empty before the first read.
pub(crate) struct TensorRegions {
    outputs: Vec<Vec<IntSet>>,
}

impl TensorRegions {
    pub(crate) fn new(op: &Operation) -> Self {
        let outputs = op.outputs().iter().map(|tensor| vec![IntSet::Nothing; tensor.shape.len()]).collect();
        Self { outputs }
    }

    fn add(&mut self, output: usize, dimension: usize, set: &IntSet, analyzer: &Analyzer) {
        if let Some(region) = self.outputs.get_mut(output).and_then(|dims| dims.get_mut(dimension)) {
            *region = untangled(region.union(&untangled(set.clone()), analyzer));
        }
    }

    /// Adds the regions that a reader accesses. The analyzer has facts about the loops around the
    /// place where the ends are computed.
    pub(crate) fn add_all(&mut self, reads: Self, analyzer: &Analyzer) {
        for (output, dims) in reads.outputs.into_iter().enumerate() {
            for (dimension, set) in dims.into_iter().enumerate() {
                let set = match set {
                    IntSet::Nothing => continue,
                    IntSet::Interval { min, max } => IntSet::Interval {
                        min: min.map(|min| without_faults(&min, analyzer)),
                        max: max.map(|max| without_faults(&max, analyzer)),
                    },
                };
                self.add(output, dimension, &set, analyzer);
            }
        }
    }

    /// The union of the sets of one dimension over all results.
    fn of_dimension(&self, dimension: usize, analyzer: &Analyzer) -> IntSet {
        self.outputs.iter().fold(IntSet::Nothing, |all, dims| match dims.get(dimension) {
            Some(set) => all.union(set, analyzer),
            None => all,
        })
    }
}

/// A visitor of each read of an operation's tensors in an expression; shared parts are visited
/// once.
struct Reads<'a, F> {
    op: &'a Operation,
    found: F,
    visited: HashSet<usize>,
}

impl<F: FnMut(&Tensor, &[Expr])> Visit for Reads<'_, F> {
    fn visit_expr(&mut self, expr: &Expr) {
        if !self.visited.insert(expr.address()) {
            return;
        }
        if let ExprNode::TensorRead { tensor, indices } = &**expr
            && tensor.op == *self.op
        {
            (self.found)(tensor, &indices.to_vec());
        }
        walk_expr(self, expr);
    }
}

/// Calls a closure with each read of an operation's tensors in its readers' bodies.
pub(crate) fn for_each_read(bodies: &[Expr], op: &Operation, found: impl FnMut(&Tensor, &[Expr])) {
    let mut reads = Reads { op, found, visited: HashSet::new() };
    bodies.iter().for_each(|body| reads.visit_expr(body));
}

/// The regions of an operation's tensors that one reader accesses when its root axes take these
/// sets.
pub(crate) fn propagate(reader: &Operation, op: &Operation, sets: &SetMap, analyzer: &Analyzer) -> TensorRegions {
    let mut regions = TensorRegions::new(op);
    match &**reader {
        OperationNode::Placeholder { .. } => {}
        OperationNode::Compute { bodies, .. } => {
            for_each_read(&bodies_once(bodies), op, |tensor, indices| {
                for (dimension, (index, extent)) in indices.iter().zip(tensor.shape.iter()).enumerate() {
                    // Reads outside of the tensor do not happen: a condition guards those indices.
                    let set = match IntSet::evaluate(index, sets, analyzer) {
                        IntSet::Nothing => continue,
                        set => set.clipped(&Range::until(extent), analyzer),
                    };
                    regions.add(tensor.value_index as usize, dimension, &set, analyzer);
                }
            });
        }
        OperationNode::Extern { inputs, .. } => {
            for tensor in inputs.iter().filter(|tensor| tensor.op == *op) {
                for (dimension, extent) in tensor.shape.iter().enumerate() {
                    regions.add(
                        tensor.value_index as usize,
                        dimension,
                        &IntSet::of_range(&Range::until(extent)),
                        analyzer,
                    );
                }
            }
        }
        OperationNode::Scan { scan_axis, init, update, spatial_axes, .. } => {
            let set_of = |var: &Var| sets.get(var).cloned().unwrap_or_else(IntSet::everything);
            let mut spatial = spatial_axes.iter();
            for (init, update) in init.iter().zip(update.iter()) {
                let axes: Vec<IterVar> = spatial.by_ref().take(update.shape.len().saturating_sub(1)).collect();
                if init.op == *op {
                    let steps = init.shape.get(0).unwrap_or_else(|| Expr::int(1));
                    regions.add(init.value_index as usize, 0, &IntSet::of_range(&Range::until(steps)), analyzer);
                }
                if update.op == *op {
                    regions.add(update.value_index as usize, 0, &set_of(&scan_axis.var), analyzer);
                }
                for (dimension, axis) in axes.iter().enumerate() {
                    for tensor in [&init, &update].into_iter().filter(|tensor| tensor.op == *op) {
                        regions.add(tensor.value_index as usize, dimension + 1, &set_of(&axis.var), analyzer);
                    }
                }
            }
        }
    }
    regions
}

/// The ranges of an operation's root axes that compute these regions.
///
/// # Errors
/// Returns no errors at present: for regions without an end, the range is the whole dimension.
pub(crate) fn gather(op: &Operation, regions: &TensorRegions, analyzer: &Analyzer) -> Result<RangeMap> {
    let mut ranges = RangeMap::new();
    match &**op {
        OperationNode::Compute { axes, reduce_axes, .. } => {
            for (dimension, axis) in axes.iter().enumerate() {
                let set = regions.of_dimension(dimension, analyzer);
                ranges.insert(axis.clone(), covering(&set, &axis, analyzer));
            }
            for axis in reduce_axes.iter() {
                ranges.insert(axis.clone(), own_range(&axis));
            }
        }
        OperationNode::Scan { scan_axis, update, spatial_axes, .. } => {
            let own = own_range(scan_axis);
            let steps =
                regions.of_dimension(0, analyzer).cover_range(Some(&own), analyzer).unwrap_or_else(|| own.clone());
            let extent = analyzer.simplify(&(&steps.min + &steps.extent - &own.min));
            let whole = analyzer.can_prove(&extent.greater_equal(&own.extent));
            ranges.insert(scan_axis.clone(), if whole { own } else { Range::new(&own.min, extent) });
            let fixed = fixed_axes(op);
            let mut spatial = spatial_axes.iter();
            for (state, tensor) in update.iter().enumerate() {
                for dimension in 1..tensor.shape.len() {
                    let Some(axis) = spatial.next() else { break };
                    let range = match &regions.outputs[state][dimension] {
                        // A step reads the elements that it computes here, and no others, of the
                        // previous step.
                        set if fixed.contains(&axis) => covering(set, &axis, analyzer),
                        _ => own_range(&axis),
                    };
                    ranges.insert(axis, range);
                }
            }
        }
        OperationNode::Placeholder { .. } | OperationNode::Extern { .. } => {
            for axis in root_axes(op) {
                let range = own_range(&axis);
                ranges.insert(axis, range);
            }
        }
    }
    Ok(ranges)
}

/// The set without ends that contain more than a few cases: the whole dimension is cheaper than
/// loops with such ends, and proofs about them.
fn untangled(set: IntSet) -> IntSet {
    let simple = |end: Option<Expr>| {
        end.filter(|end| {
            let mut cases = 0;
            for_each_expr(end, |part| {
                let is_case = matches!(**part, ExprNode::Binary { op: BinaryOp::Min | BinaryOp::Max, .. })
                    || matches!(**part, ExprNode::Select { .. } | ExprNode::IfThenElse { .. });
                cases += u32::from(is_case);
            });
            cases <= MOST_CASES
        })
    };
    match set {
        IntSet::Nothing => IntSet::Nothing,
        IntSet::Interval { min, max } => IntSet::Interval { min: simple(min), max: simple(max) },
    }
}

/// The expression without divisions by 0. An end of a region is also computed where the loops over
/// the region do not run: there the extent of a fused axis can be 0.
fn without_faults(expr: &Expr, analyzer: &Analyzer) -> Expr {
    struct Safe<'a> {
        analyzer: &'a Analyzer,
        memo: Memo,
    }

    impl Mutate for Safe<'_> {
        fn memo(&mut self) -> Option<&mut Memo> {
            Some(&mut self.memo)
        }

        fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
            let expr = mutate_expr_parts(self, expr)?;
            match &*expr {
                ExprNode::Binary {
                    op: op @ (BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod),
                    a,
                    b,
                    ..
                } if b.as_int().is_none() && b.dtype().is_int() && !self.analyzer.can_prove(&b.greater(0)) => {
                    let is_natural = self.analyzer.can_prove(&b.greater_equal(0));
                    let divisor = if is_natural { b.max(1) } else { Expr::select(b.equals(0), 1, b) };
                    Ok(Expr::binary(*op, a, divisor))
                }
                _ => Ok(expr),
            }
        }
    }

    Safe { analyzer, memo: Memo::default() }.mutate_expr(expr).unwrap_or_else(|_| expr.clone())
}

/// The maximum number of minima and maxima in one end of a region.
const MOST_CASES: u32 = 3;

/// The range of an axis for a set; the axis's own range if the set provably equals it.
fn covering(set: &IntSet, axis: &IterVar, analyzer: &Analyzer) -> Range {
    let own = own_range(axis);
    let set = if set.is_nothing() { set.clone() } else { set.clipped(&own, analyzer) };
    if set.matches(&own, analyzer) {
        return own;
    }
    set.cover_range(Some(&own), analyzer).unwrap_or(own)
}

/// The spatial axes of a scan along which a step at an index reads the states only at this index: a
/// part of such an axis can be computed separately.
fn fixed_axes(op: &Operation) -> HashSet<IterVar> {
    let OperationNode::Scan { update, state, spatial_axes, .. } = &**op else {
        return HashSet::new();
    };
    // The axis of the scan, by the dimension of a state.
    let mut axis_of = HashMap::new();
    let mut spatial = spatial_axes.iter();
    for (number, tensor) in update.iter().enumerate() {
        for dimension in 1..tensor.shape.len() {
            if let Some(axis) = spatial.next() {
                axis_of.insert((number, dimension), axis);
            }
        }
    }
    let mut fixed: HashSet<IterVar> = spatial_axes.iter().collect();
    // The axis of the scan that each dimension of a tensor follows; `None` if it is not exactly one
    // axis.
    let mut labels: HashMap<(usize, i64), Vec<Option<IterVar>>> = HashMap::new();
    let mut open: Vec<Tensor> = Vec::new();
    for (number, tensor) in update.iter().enumerate() {
        let dims = (0..tensor.shape.len()).map(|dimension| axis_of.get(&(number, dimension)).cloned());
        labels.insert(tensor.key(), dims.collect());
        open.push(tensor);
    }
    let states: HashMap<(usize, i64), usize> =
        state.iter().enumerate().map(|(number, tensor)| (tensor.key(), number)).collect();
    while let Some(tensor) = open.pop() {
        let own = labels[&tensor.key()].clone();
        for input in input_tensors(&tensor.op) {
            let mut dims: Option<Vec<Option<IterVar>>> = None;
            match &*tensor.op {
                OperationNode::Compute { axes, bodies, .. } => {
                    for_each_read(&bodies_once(bodies), &input.op, |read, indices| {
                        if !read.is(&input) {
                            return;
                        }
                        let here = indices.iter().map(|index| {
                            let position = axes.iter().position(|axis| axis.var.expr() == index)?;
                            own.get(position).cloned().flatten()
                        });
                        dims = Some(match dims.take() {
                            None => here.collect(),
                            Some(dims) => here.zip(dims).map(|(a, b)| a.filter(|a| Some(a) == b.as_ref())).collect(),
                        });
                    });
                }
                // The operation reads the whole input.
                _ => dims = Some(vec![None; input.shape.len()]),
            }
            let Some(dims) = dims else { continue };
            if let Some(&number) = states.get(&input.key()) {
                for (dimension, label) in dims.iter().enumerate().skip(1) {
                    let axis = axis_of.get(&(number, dimension));
                    if let Some(axis) = axis.filter(|axis| label.as_ref() != Some(axis)) {
                        fixed.remove(axis);
                    }
                }
                continue;
            }
            let merged: Vec<_> = match labels.get(&input.key()) {
                None => dims,
                Some(known) => {
                    known.iter().zip(&dims).map(|(a, b)| a.clone().filter(|a| Some(a) == b.as_ref())).collect()
                }
            };
            if labels.get(&input.key()) != Some(&merged) {
                labels.insert(input.key(), merged);
                open.push(input);
            }
        }
    }
    fixed
}
