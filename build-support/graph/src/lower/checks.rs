//! Checks of indices and divisors, before the kernels that depend on them.
//!
//! A check is one pass over a tensor: a reduction to one unsigned number, which is compared once.
//! So the loops of the kernel itself have no branch. If the tensor is not in memory because its
//! nodes are fused into the kernel, the pass also computes its elements.

use kernpack::DataType;
use kernpack_compiler::ir::dtype::NOTHING;
use kernpack_compiler::ir::{CallKind, Expr, I32, I64, IterVar, Stmt, StmtNode, Tensor, U32, U64};
use kernpack_compiler::te;

use super::Kernels;
use super::inside::seen;
use super::kernel::kernel;
use crate::error::Result;
use crate::fuse::Group;
use crate::graph::{Graph, Node, ValueId};
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
    /// The largest result without an error.
    most: i64,
    kind: &'static str,
    text: String,
}

impl CheckCall {
    /// Returns the call with the addresses of its inputs and of its memory.
    pub(super) fn call(&self, inputs: impl Iterator<Item = Expr>, memory: impl Iterator<Item = Expr>) -> Stmt {
        Stmt::evaluate(Expr::call(CallKind::Function, &self.function, NOTHING, inputs.chain(memory)))
    }

    /// Returns the statement that reports an error unless the result at an address is valid.
    pub(super) fn outcome(&self, result: Expr) -> Stmt {
        let buffer = seen("misfit", self.dtype);
        let alias = Stmt::from_node(StmtNode::Alias { buffer: buffer.clone(), data: result });
        let fits = statements::element(&buffer, 0).less_equal(Expr::constant(self.dtype, self.most));
        Stmt::seq([alias, Stmt::assert(fits, self.kind, [self.text.as_str().into()])])
    }
}

impl Kernels<'_> {
    /// Returns the checks of the nodes of a group, in the order of the nodes.
    pub(super) fn checks(&mut self, graph: &Graph, group: &Group) -> Result<Vec<CheckCall>> {
        let mut calls = Vec::new();
        for number in &group.nodes {
            let node = &graph.nodes[*number];
            for check in graph.checks(node)? {
                let Some(id) = node.inputs[check.input] else { continue };
                if graph.values[id].known.is_some() && graph.known_misfit(node, &check)?.is_none() {
                    continue;
                }
                calls.push(self.check(graph, group, node, &check, id)?);
            }
        }
        Ok(calls)
    }

    fn check(&mut self, graph: &Graph, group: &Group, node: &Node, check: &Check, id: ValueId) -> Result<CheckCall> {
        let shape = &graph.values[id].shape;
        let mut dtype = U64;
        let most = match check.demand {
            Demand::NotZero => 0,
            // If no value is allowed, each existing element counts 1.
            Demand::Within { low, high, .. } => (high - low).max(0),
        };
        // Elements beyond the data-dependent extents of a value are not checked.
        let extents = graph.extents.get(&id).copied();
        let outputs: Vec<ValueId> = core::iter::once(id).chain(extents).collect();
        let own = format!("{}.check{}", self.name, self.functions.len());
        let (function, inputs) = kernel(
            graph,
            group,
            &outputs,
            |tensors| {
                dtype = type_of(tensors[0].dtype, most);
                vec![result(check, shape, &tensors[0], tensors.get(1), dtype)]
            },
            &own,
            self,
        )?;
        let number = self.add(function, &own, &node.place());
        let name = &graph.values[id].name;
        Ok(CheckCall {
            number,
            function: self.functions[number].name.to_string(),
            inputs,
            scratch: vec![RESULT],
            is_task: false,
            dtype,
            most,
            kind: check.demand.error_kind(),
            text: format!("{}: {}", node.place(), check.message(name, None)),
        })
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
