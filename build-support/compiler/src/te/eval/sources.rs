//! The sources of tensor reads: whole tensors, the current states of a scan, and operations inside
//! a scan, which are evaluated element by element on demand.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use kernpack::Array;

use super::op::CompiledOp;
use super::values::{Elements, Value};
use super::{Machine, find};
use crate::error::{Result, fail, require};
use crate::ir::{IterVar, Operation, OperationNode, Tensor, with_stack};
use crate::te::operation::input_tensors;
use crate::te::scan::scan_body;

/// The identity of a tensor.
pub(super) type Key = (usize, i64);

/// The elements of one tensor.
pub(super) struct Source {
    tensor: Tensor,
    content: Content,
}

enum Content {
    Whole(Elements),
    /// The steps of a scan that are computed so far.
    Steps {
        elements: RefCell<Elements>,
        steps: Cell<usize>,
    },
    /// An operation inside a scan, with the elements that were requested.
    OnDemand {
        op: Rc<CompiledOp>,
        known: Rc<RefCell<HashMap<Vec<i64>, Vec<Value>>>>,
    },
}

impl Source {
    pub(super) fn whole(tensor: &Tensor, elements: Elements) -> Self {
        Self { tensor: tensor.clone(), content: Content::Whole(elements) }
    }

    /// The tensor and its elements, if it is an input.
    pub(super) fn placeholder(&self) -> Option<(&Tensor, &Elements)> {
        match &self.content {
            Content::Whole(elements) => Some((&self.tensor, elements)),
            _ => None,
        }
    }

    /// All elements.
    pub(super) fn elements(&self) -> Result<Elements> {
        match &self.content {
            Content::Whole(elements) => Ok(elements.clone()),
            Content::Steps { elements, .. } => Ok(elements.borrow().clone()),
            Content::OnDemand { .. } => fail!(Run, "evaluate: `{}` is a part of a scan", self.tensor.name()),
        }
    }

    pub(super) fn read(&self, at: &[i64]) -> Result<Value> {
        match &self.content {
            Content::Whole(elements) => Ok(elements.get(self.position(elements.shape(), at)?)),
            Content::Steps { elements, steps } => {
                let elements = elements.borrow();
                let position = self.position(elements.shape(), at)?;
                let computed = steps.get();
                require!(
                    (at[0] as usize) < computed,
                    Run,
                    "reads `{}` at {at:?}, of which {computed} steps are computed",
                    self.tensor.name()
                );
                Ok(elements.get(position))
            }
            Content::OnDemand { op, known } => {
                self.position(op.shape(), at)?;
                let index = self.tensor.value_index as usize;
                if let Some(values) = known.borrow().get(at) {
                    return Ok(values[index]);
                }
                let values = with_stack(|| op.element(&mut op.frame(), at))?;
                let value = values[index];
                known.borrow_mut().insert(at.to_vec(), values);
                Ok(value)
            }
        }
    }

    fn position(&self, shape: &[usize], at: &[i64]) -> Result<usize> {
        let mut position = 0;
        for (&index, &extent) in at.iter().zip(shape) {
            if index < 0 || index >= extent as i64 {
                fail!(Run, "reads `{}` at {at:?}, outside of its shape {shape:?}", self.tensor.name());
            }
            position = position * extent + index as usize;
        }
        Ok(position)
    }
}

/// A scan that is being evaluated.
pub(super) struct ScanBody<'a> {
    pub(super) machine: &'a Machine,
    pub(super) op: &'a Operation,
    pub(super) scan_axis: &'a IterVar,
    pub(super) init: &'a Array<Tensor>,
    pub(super) update: &'a Array<Tensor>,
    pub(super) state: &'a Array<Tensor>,
}

impl ScanBody<'_> {
    pub(super) fn evaluate(&self, order: &[Operation], done: &mut HashMap<Key, Rc<Source>>) -> Result<()> {
        let Some(dom) = &self.scan_axis.dom else { fail!(Run, "evaluate: a scan without a range") };
        let (first, count) = (self.machine.scalar(&dom.min)?, self.machine.scalar(&dom.extent)?);
        let name = self.op.name();
        require!(first >= 0 && count >= 0, Run, "evaluate: `{name}` has {first} steps of init, and {count} after them");
        let begin = first as usize;
        let mut states = Vec::new();
        for (state, init) in self.state.iter().zip(self.init.iter()) {
            let shape = self.machine.shape(&state)?;
            let mut elements = Elements::zeros(state.dtype, &shape);
            let initial = find(done, &init)?.elements()?;
            require!(initial.len() <= elements.len(), Run, "evaluate: init of `{name}` has more steps than the state");
            elements.bytes_mut()[..initial.bytes().len()].copy_from_slice(initial.bytes());
            let content = Content::Steps { elements: RefCell::new(elements), steps: Cell::new(begin) };
            let source = Rc::new(Source { tensor: state.clone(), content });
            done.insert(state.key(), source.clone());
            states.push(source);
        }
        self.prepare_body(order, done)?;
        let updates: Vec<Rc<Source>> = self.update.iter().map(|tensor| find(done, &tensor)).collect::<Result<_>>()?;
        for step in begin..begin + count as usize {
            for (state, update) in states.iter().zip(&updates) {
                self.step(step, state, update)?;
            }
            // All states of a step are computed from earlier steps.
            for state in &states {
                if let Content::Steps { steps, .. } = &state.content {
                    steps.set(step + 1);
                }
            }
        }
        for (index, state) in states.iter().enumerate() {
            let output = self.op.output(index);
            let elements = state.elements()?;
            done.insert(output.key(), Rc::new(Source::whole(&output, elements)));
        }
        Ok(())
    }

    /// Compiles the operations inside, in the graph's order.
    fn prepare_body(&self, order: &[Operation], done: &mut HashMap<Key, Rc<Source>>) -> Result<()> {
        let updates: Vec<Operation> = self.update.iter().map(|tensor| tensor.op.clone()).collect();
        let body = scan_body(&updates, &self.state.to_vec());
        for op in order.iter().filter(|op| body.contains(op)) {
            if !matches!(&**op, OperationNode::Compute { .. }) {
                fail!(Run, "evaluate: `{}` inside a scan is not computed by an expression", op.name());
            }
            for input in input_tensors(op) {
                find(done, &input)?;
            }
            let shape = self.machine.shape(&op.output(0))?;
            let compiled = Rc::new(CompiledOp::new(self.machine, op, &shape, &|tensor| find(done, tensor))?);
            let known = Rc::new(RefCell::new(HashMap::new()));
            for tensor in op.outputs() {
                let content = Content::OnDemand { op: compiled.clone(), known: known.clone() };
                done.insert(tensor.key(), Rc::new(Source { tensor, content }));
            }
        }
        Ok(())
    }

    fn step(&self, step: usize, state: &Source, update: &Source) -> Result<()> {
        let Content::Steps { elements, .. } = &state.content else { unreachable!("a state has steps") };
        let shape = elements.borrow().shape().to_vec();
        let row: usize = shape[1..].iter().product();
        let mut at = vec![0i64; shape.len()];
        at[0] = step as i64;
        for index in 0..row {
            let value = update.read(&at)?;
            elements.borrow_mut().set(step * row + index, value);
            super::op::advance(&mut at[1..], &shape[1..]);
        }
        Ok(())
    }
}
