//! A computed operation, prepared for evaluation element by element.

use std::rc::Rc;

use super::Machine;
use super::program::{Frame, NodeId, Program, Sources};
use super::sources::Source;
use super::values::{Elements, Value};
use crate::error::{CompileError, ErrorKind, Result, fail};
use crate::ir::{ExprNode, Operation, OperationNode, Tensor};

pub(super) struct CompiledOp {
    op: Operation,
    shape: Vec<usize>,
    program: Program,
    axes: Vec<usize>,
    body: Body,
    sources: Vec<Rc<Source>>,
}

enum Body {
    Plain(Vec<NodeId>),
    Reduce(Reduction),
}

struct Reduction {
    /// For each axis: slot, first value, number of values.
    axes: Vec<(usize, i64, i64)>,
    values: Vec<NodeId>,
    condition: NodeId,
    begin: Vec<NodeId>,
    lhs: Vec<usize>,
    rhs: Vec<usize>,
    results: Vec<NodeId>,
}

impl Sources for [Rc<Source>] {
    fn read(&self, source: usize, indices: &[i64]) -> Result<Value> {
        self[source].read(indices)
    }
}

struct Borrowed<'a>(&'a [Rc<Source>]);

impl Sources for Borrowed<'_> {
    fn read(&self, source: usize, indices: &[i64]) -> Result<Value> {
        self.0.read(source, indices)
    }
}

impl CompiledOp {
    pub(super) fn new(
        machine: &Machine,
        op: &Operation,
        shape: &[usize],
        find: &dyn Fn(&Tensor) -> Result<Rc<Source>>,
    ) -> Result<Self> {
        let OperationNode::Compute { axes, bodies, .. } = &**op else {
            fail!(Run, "evaluate: `{}` is not computed by an expression", op.name());
        };
        let mut program = machine.program();
        let axes = axes.iter().map(|axis| program.slot(&axis.var)).collect();
        let first = bodies.get(0).unwrap_or_else(|| unreachable!("an operation has a body"));
        let body = match &*first {
            ExprNode::Reduce { reducer, sources, axes, condition, init, .. } => {
                let mut reduce_axes = Vec::with_capacity(axes.len());
                for axis in axes.iter() {
                    let Some(dom) = &axis.dom else { fail!(Run, "evaluate: axis `{}` has no range", axis.name()) };
                    let range = (machine.scalar(&dom.min)?, machine.scalar(&dom.extent)?);
                    reduce_axes.push((program.slot(&axis.var), range.0, range.1));
                }
                let mut add = |exprs: &kernpack::Array<crate::ir::Expr>| -> Result<Vec<NodeId>> {
                    exprs.iter().map(|expr| program.add(&expr)).collect()
                };
                let values = add(sources)?;
                let begin = add(if init.is_empty() { &reducer.identity } else { init })?;
                let condition = program.add(condition)?;
                let lhs = reducer.lhs.iter().map(|var| program.slot(&var)).collect();
                let rhs = reducer.rhs.iter().map(|var| program.slot(&var)).collect();
                let results: Result<Vec<NodeId>> = reducer.results.iter().map(|expr| program.add(&expr)).collect();
                Body::Reduce(Reduction { axes: reduce_axes, values, condition, begin, lhs, rhs, results: results? })
            }
            _ => Body::Plain(bodies.iter().map(|body| program.add(&body)).collect::<Result<_>>()?),
        };
        let sources = program.reads.iter().map(find).collect::<Result<_>>()?;
        Ok(Self { op: op.clone(), shape: shape.to_vec(), program, axes, body, sources })
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub(super) fn frame(&self) -> Frame {
        self.program.frame()
    }

    /// Evaluates all elements of all outputs.
    pub(super) fn whole(&self) -> Result<Vec<Elements>> {
        let outputs = self.op.outputs();
        let mut elements: Vec<Elements> =
            outputs.iter().map(|tensor| Elements::zeros(tensor.dtype, &self.shape)).collect();
        let count = elements.first().map_or(0, Elements::len);
        let mut frame = self.frame();
        let mut at = vec![0i64; self.shape.len()];
        for index in 0..count {
            for (output, value) in elements.iter_mut().zip(self.element(&mut frame, &at)?) {
                output.set(index, value);
            }
            advance(&mut at, &self.shape);
        }
        Ok(elements)
    }

    /// Evaluates one element of all outputs.
    pub(super) fn element(&self, frame: &mut Frame, at: &[i64]) -> Result<Vec<Value>> {
        for (&slot, &index) in self.axes.iter().zip(at) {
            frame.set(slot, Value::Int(index));
        }
        let values = match &self.body {
            Body::Plain(bodies) => bodies.iter().map(|&body| self.value(body, frame)).collect(),
            Body::Reduce(reduction) => self.reduced(reduction, frame),
        };
        values.map_err(|error| self.located(&error, at))
    }

    fn value(&self, node: NodeId, frame: &mut Frame) -> Result<Value> {
        self.program.value(node, frame, &Borrowed(&self.sources))
    }

    fn reduced(&self, reduction: &Reduction, frame: &mut Frame) -> Result<Vec<Value>> {
        let mut partial: Vec<Value> =
            reduction.begin.iter().map(|&node| self.value(node, frame)).collect::<Result<_>>()?;
        if reduction.axes.iter().any(|&(_, _, extent)| extent <= 0) {
            return Ok(partial);
        }
        for &(slot, min, _) in &reduction.axes {
            frame.set(slot, Value::Int(min));
        }
        let mut at: Vec<i64> = vec![0; reduction.axes.len()];
        let mut next = Vec::with_capacity(partial.len());
        loop {
            if self.value(reduction.condition, frame)?.is_true() {
                next.clear();
                for &node in &reduction.values {
                    next.push(self.value(node, frame)?);
                }
                for (index, &value) in next.iter().enumerate() {
                    frame.set(reduction.lhs[index], partial[index]);
                    frame.set(reduction.rhs[index], value);
                }
                for (place, &node) in partial.iter_mut().zip(&reduction.results) {
                    *place = self.value(node, frame)?;
                }
            }
            let mut dimension = at.len();
            loop {
                let Some(lower) = dimension.checked_sub(1) else { return Ok(partial) };
                dimension = lower;
                let (slot, min, extent) = reduction.axes[dimension];
                at[dimension] += 1;
                if at[dimension] < extent {
                    frame.set(slot, Value::Int(min + at[dimension]));
                    break;
                }
                at[dimension] = 0;
                frame.set(slot, Value::Int(min));
            }
        }
    }

    /// Adds the element at which an error occurred.
    fn located(&self, error: &CompileError, at: &[i64]) -> CompileError {
        if error.what().starts_with("evaluate: ") {
            return error.clone();
        }
        CompileError::new(ErrorKind::Run, format!("evaluate: `{}` at {at:?}: {}", self.op.name(), error.what()))
            .at(self.op.span())
    }
}

/// Advances to the next element, in row-major order.
pub(super) fn advance(at: &mut [i64], shape: &[usize]) {
    for dimension in (0..at.len()).rev() {
        at[dimension] += 1;
        if at[dimension] < shape[dimension] as i64 {
            return;
        }
        at[dimension] = 0;
    }
}
