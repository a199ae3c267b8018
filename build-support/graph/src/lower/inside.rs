//! Kernels of a graph inside a node: functions that loops and conditionals share.

use kernpack::DataType;
use kernpack_compiler::ir::dtype::NOTHING;
use kernpack_compiler::ir::{Buffer, BufferNode, CallKind, Expr, LoweredFunc, POINTER, Stmt, Var};

use super::entry::{Layout, Place, behind, int};
use super::{Step, Weights};
use crate::constant::{Constant, element_bytes};
use crate::graph::{Graph, Node, ValueId};

/// A node with graphs inside as a function. Its parameters are the inputs of the node, the outputs
/// that have elements, private memory, and known values of the graphs.
pub(super) struct Made {
    pub(super) function: LoweredFunc,
    /// The function that a loop calls in each iteration.
    pub(super) round: Option<LoweredFunc>,
    /// The outputs of the node that are parameters.
    pub(super) outputs: Vec<ValueId>,
    /// The number of bytes of each block of memory.
    pub(super) scratch: Vec<usize>,
    /// Values that the kernels of the graphs read.
    pub(super) known: Vec<Constant>,
}

/// Returns numbered pointers with a name.
pub(super) fn numbered(kind: &str, count: usize) -> Vec<Var> {
    (0..count).map(|number| Var::new(format!("{kind}{number}"), POINTER)).collect()
}

/// Returns the outputs of a node that have elements, with their indices.
pub(super) fn outputs_with_elements(graph: &Graph, node: &Node) -> Vec<(usize, ValueId)> {
    let all = node.outputs.iter().enumerate().filter_map(|(number, id)| Some((number, (*id)?)));
    all.filter(|(_, id)| !graph.values[*id].shape.contains(&0)).collect()
}

/// Returns known values with their offsets.
pub(super) fn known_of(weights: &Weights) -> Vec<(usize, Constant)> {
    weights.tensors().map(|(offset, tensor)| (offset, tensor.clone())).collect()
}

/// Returns a buffer for the memory at a pointer.
pub(super) fn seen(name: &str, dtype: DataType) -> Buffer {
    let node = Buffer::new(name, dtype, [Expr::int(1)], "global").to_node();
    let alignment = i64::try_from(element_bytes(dtype)).unwrap_or(1);
    Buffer::from_node(BufferNode { data_alignment: alignment, ..node })
}

/// A graph inside a node, and the places of its values.
pub(super) struct Inside<'a> {
    pub(super) body: &'a Graph,
    pub(super) steps: &'a [Step],
    pub(super) layout: &'a Layout,
    /// The addresses of its inputs and outputs.
    pub(super) arguments: &'a [Expr],
    /// The start of its temporary memory.
    pub(super) arena: &'a Var,
    /// Known values with their offsets, and their addresses.
    pub(super) known: &'a [(usize, Constant)],
    pub(super) known_vars: &'a [Var],
}

impl Inside<'_> {
    /// Returns the calls of its kernels, with their checks.
    pub(super) fn calls(&self) -> Vec<Stmt> {
        let Self { steps, layout, arena, .. } = *self;
        let pointer = |id: &ValueId| self.pointer(*id);
        let at = |offset: &usize| behind(arena, int(*offset));
        let mut calls = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            for (check, own) in step.checks.iter().zip(&layout.check_scratch[number]) {
                calls.push(check.call(check.inputs.iter().map(pointer), own.iter().map(at)));
                calls.extend(own.first().map(|result| check.outcome(at(result), &[])));
            }
            let own = layout.scratch[number].iter().map(at);
            let known = layout.known[number].iter().map(|offset| self.weights(*offset));
            let all = step.inputs.iter().chain(&step.outputs).map(pointer).chain(own).chain(known);
            calls.push(Stmt::evaluate(Expr::call(CallKind::Function, &step.function, NOTHING, all)));
        }
        calls
    }

    fn weights(&self, offset: usize) -> Expr {
        match self.known.iter().position(|(own, _)| *own == offset) {
            Some(number) => self.known_vars[number].expr().clone(),
            None => self.arena.expr().clone(),
        }
    }

    fn pointer(&self, id: ValueId) -> Expr {
        match self.layout.places.get(&self.body.memory_of(id)) {
            Some(Place::Argument(number)) => self.arguments[*number].clone(),
            Some(Place::Arena(offset)) => behind(self.arena, int(*offset)),
            Some(Place::Weights(offset)) => self.weights(*offset),
            // A value without elements is never read.
            None => self.arena.expr().clone(),
        }
    }
}
