//! Checks of indices and divisors, before the kernels that depend on them.
//!
//! A check is one pass over a tensor: a reduction to one unsigned number, which is compared once.
//! So the loops of the kernel itself have no branch. If the tensor is not in memory because its
//! nodes are fused into the kernel, the pass also computes its elements.

use kernpack::DataType;
use kernpack_compiler::ir::dtype::NOTHING;
use kernpack_compiler::ir::{CallKind, Expr, I32, I64, IterVar, Stmt, StmtNode, Tensor, U32, U64, Var};
use kernpack_compiler::te;

use super::Kernels;
use super::inside::seen;
use super::kernel::kernel;
use crate::dynamic::Formula;
use crate::error::{Result, fail};
use crate::fuse::Group;
use crate::graph::{Graph, ValueId};
use crate::op::checks::{Check, Demand};
use crate::op::{element_tensor, statements};

/// The number of bytes of the result of a check.
const RESULT: usize = 8;

/// A call of a check.
#[derive(Clone)]
pub(super) struct CheckCall {
    /// The index of its function.
    pub(super) number: usize,
    /// The function: inputs, the result, scratch memory.
    function: String,
    /// The values that it reads.
    pub(super) inputs: Vec<ValueId>,
    /// Sizes of memory blocks in bytes: the result, and memory that the tasks of a region share.
    pub(super) scratch: Vec<usize>,
    /// True if all tasks of a region run it.
    pub(super) is_task: bool,
    dtype: DataType,
    /// The largest result without an error, which may follow from the extents of dimensions with
    /// ranges.
    most: Formula,
    kind: &'static str,
    text: String,
}

impl CheckCall {
    /// Returns the call with the addresses of its inputs and of its memory.
    pub(super) fn call(&self, inputs: impl Iterator<Item = Expr>, memory: impl Iterator<Item = Expr>) -> Stmt {
        Stmt::evaluate(Expr::call(CallKind::Function, &self.function, NOTHING, inputs.chain(memory)))
    }

    /// Returns the statement that reports an error unless the result at an address is valid.
    /// `extents` are those of the dimensions with ranges.
    pub(super) fn outcome(&self, result: Expr, extents: &[Var]) -> Stmt {
        let buffer = seen("misfit", self.dtype);
        let alias = Stmt::from_node(StmtNode::Alias { buffer: buffer.clone(), data: result });
        let most = self
            .most
            .fixed()
            .map_or_else(|| self.most.expr(extents).cast(self.dtype), |most| Expr::constant(self.dtype, most));
        let fits = statements::element(&buffer, 0).less_equal(most);
        Stmt::seq([alias, Stmt::assert(fits, self.kind, [self.text.as_str().into()])])
    }
}

impl Kernels<'_> {
    /// Returns the checks of the nodes of a group, in the order of the nodes.
    pub(super) fn checks(&mut self, graph: &Graph, group: &Group) -> Result<Vec<CheckCall>> {
        let mut calls = Vec::new();
        for number in &group.nodes {
            let node = &graph.nodes[*number];
            for (place, check) in graph.checks(node)?.into_iter().enumerate() {
                let Some(id) = node.inputs[check.input] else { continue };
                if graph.values[id].known.is_some() && graph.known_misfit(node, &check)?.is_none() {
                    continue;
                }
                calls.push(self.check(graph, group, (*number, place), &check, id)?);
            }
        }
        Ok(calls)
    }

    /// Returns the call of a check. `place` is the index of its node, and its own among those of
    /// the node.
    fn check(
        &mut self,
        graph: &Graph,
        group: &Group,
        place: (usize, usize),
        check: &Check,
        id: ValueId,
    ) -> Result<CheckCall> {
        let node = &graph.nodes[place.0];
        let mut dtype = U64;
        let most = most_of(check);
        // The same check in each reading of a graph with ranges.
        let in_reading = |other: &Graph| match other.checks(&other.nodes[place.0])?.get(place.1) {
            Some(found) if found.input == check.input => Ok(found.clone()),
            _ => fail!("{}: its checks depend on the extents of the dimensions", node.place()),
        };
        // Elements beyond the data-dependent extents of a value are not checked.
        let extents = graph.extents.get(&id).copied();
        let outputs: Vec<ValueId> = core::iter::once(id).chain(extents).collect();
        let own = format!("{}.check{}", self.name, self.functions.len());
        let (function, inputs) = kernel(
            graph,
            group,
            &outputs,
            |reading, tensors| {
                dtype = type_of(tensors[0].dtype, most);
                let (check, shape) = (in_reading(reading)?, &reading.values[id].shape);
                Ok(vec![result(&check, shape, &tensors[0], tensors.get(1), dtype)])
            },
            &own,
            self,
        )?;
        let number = self.add(function, &own, &node.place());
        let name = &graph.values[id].name;
        let (most, message) = match &graph.ranges {
            None => (Formula::of_constant(most), check.message(name, None)),
            Some(ranges) => {
                let checks: Vec<Check> =
                    ranges.readings(graph).map(|(_, graph)| in_reading(graph)).collect::<Result<_>>()?;
                let numbers: Vec<i64> = checks.iter().map(most_of).collect();
                let messages: Vec<String> = checks.iter().map(|check| check.message(name, None)).collect();
                (ranges.formula(&numbers)?, ranges.text(&messages))
            }
        };
        Ok(CheckCall {
            number,
            function: self.functions[number].name.to_string(),
            inputs,
            scratch: vec![RESULT],
            is_task: false,
            dtype,
            most,
            kind: check.demand.error_kind(),
            text: format!("{}: {message}", node.place()),
        })
    }
}

/// Returns the largest result of a check without an error.
fn most_of(check: &Check) -> i64 {
    match check.demand {
        Demand::NotZero => 0,
        // If no value is allowed, each existing element counts 1.
        Demand::Within { low, high, .. } => (high - low).max(0),
    }
}

/// Returns the type of the result: as wide as the elements, so that vectors of them have the same
/// number of lanes.
fn type_of(element: DataType, most: i64) -> DataType {
    if (element.bits() < 32 || element == I32) && i32::try_from(most).is_ok() { U32 } else { U64 }
}

/// Returns the largest distance of an element from the least allowed one; for divisors, 1 if one of
/// them is zero.
fn result(check: &Check, shape: &[i64], elements: &Tensor, extents: Option<&Tensor>, dtype: DataType) -> Tensor {
    let column = check.column.map(Expr::int);
    let loops = &shape[..shape.len() - usize::from(column.is_some())];
    let axes: Vec<IterVar> = loops.iter().map(|extent| te::reduce_axis(0, *extent, "checked")).collect();
    let position: Vec<Expr> = axes.iter().map(IterVar::expr).chain(column).collect();
    let element = elements.at(&position[..]);
    let zero = || Expr::constant(dtype, 0);
    let misfit = match check.demand {
        Demand::NotZero => {
            let is_zero = element.equals(Expr::constant(elements.dtype, 0));
            Expr::select(is_zero, Expr::constant(dtype, 1), zero())
        }
        Demand::Within { low, high, except, .. } => {
            // Values below the least one become very large numbers.
            let wide = if dtype == U32 { I32 } else { I64 };
            let distance = element.cast(wide).cast(dtype);
            let distance = if high < low {
                Expr::constant(dtype, 1)
            } else if low == 0 {
                distance
            } else {
                distance + Expr::constant(dtype, -low)
            };
            match except {
                Some(except) => Expr::select(element.cast(I64).equals(except), zero(), distance),
                None => distance,
            }
        }
    };
    let misfit = extents.iter().fold(misfit, |misfit, extents| {
        position.iter().zip(0_i64..).fold(misfit, |misfit, (index, axis)| {
            Expr::select(index.less(extents.at(&[Expr::int(axis)][..])), misfit, zero())
        })
    });
    element_tensor(&[], |_| if axes.is_empty() { misfit } else { te::reduce_max(misfit, &axes[..]) })
}
