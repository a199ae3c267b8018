//! Operators of onnxruntime: those of the domain `com.microsoft`, and
//! `SimplifiedLayerNormalization` in the domain of ONNX itself.
//!
//! They are compositions of operators of ONNX, which are fused into the kernels that one operator
//! would have.
//!
//! Source: `docs/ContribOperators.md` of onnxruntime 1.32, and results of that version where the
//! documentation leaves a meaning open.

use super::emit::Emitter;
use super::{Importer, Item};
use crate::attrs::{Attr, Attrs};
use crate::constant::Constant;
use crate::error::{GraphError, Result, fail, require};
use crate::graph::ValueId;
use crate::onnx::{self, versions::NEWEST};
use kernpack::DataType;
use std::cell::Cell;

mod activation;
mod attention;
mod blocks;
mod dynamic;
mod group_query;
mod lstm;
mod mask;
mod norm;
mod product;
mod quantized;
mod rotary;

/// The domain.
const DOMAIN: &str = "com.microsoft";

/// Returns the results of a node. Missing ones are `None`.
type Make = fn(&mut Site<'_>) -> Result<Vec<Option<ValueId>>>;

/// An operator.
struct Contributed {
    domain: &'static str,
    name: &'static str,
    make: Make,
}

const fn of_domain(name: &'static str, make: Make) -> Contributed {
    Contributed { domain: DOMAIN, name, make }
}

/// The operators, by family.
const FAMILIES: &[&[Contributed]] = &[
    activation::OPERATORS,
    attention::OPERATORS,
    blocks::OPERATORS,
    dynamic::OPERATORS,
    group_query::OPERATORS,
    norm::OPERATORS,
    product::OPERATORS,
    quantized::OPERATORS,
    rotary::OPERATORS,
];

fn find(domain: &str, name: &str) -> Option<&'static Contributed> {
    FAMILIES.iter().flat_map(|family| family.iter()).find(|known| known.domain == domain && known.name == name)
}

/// Returns true for an operator of this module.
pub(super) fn has(domain: &str, name: &str) -> bool {
    find(domain, name).is_some() || domain == DOMAIN && name == lstm::NAME
}

impl<'a> Importer<'_, 'a> {
    /// Imports a node of onnxruntime. `None` for a node of another domain.
    pub(super) fn contributed(
        &mut self,
        node: &onnx::Node<'a>,
        name: &str,
        inputs: &[Option<ValueId>],
        attrs: &Attrs,
    ) -> Result<Option<Vec<Option<Item>>>> {
        if !has(&node.domain, &node.op_type) {
            return Ok(None);
        }
        for (index, id) in inputs.iter().enumerate() {
            let is_sized = id.is_some_and(|id| self.graph.extents.contains_key(&id));
            require!(
                !is_sized,
                "the extents of input {index} depend on what the model is called with, which is not supported here"
            );
        }
        let before = self.graph.nodes.len();
        let emitter = Emitter { graph: &mut self.graph, name };
        let mut site = Site { emitter, inputs, attrs, outputs: &node.outputs, asked: Cell::new(0) };
        let Some(operator) = find(&node.domain, &node.op_type) else {
            let inputs = lstm::inputs(&mut site)?;
            site.check_inputs()?;
            let floats = onnx::Node { op_type: "LSTM".into(), ..node.clone() };
            return self.recurrent(&floats, &inputs, attrs, NEWEST).map(Some);
        };
        let made = (operator.make)(&mut site)?;
        site.check_inputs()?;
        for (index, (output, id)) in node.outputs.iter().zip(&made).enumerate() {
            let Some(id) = *id else {
                require!(output.is_empty(), "output {index} is not supported");
                continue;
            };
            // A result that the node computes has the name that the model gives it.
            if !output.is_empty() && self.graph.values[id].producer.is_some_and(|number| number >= before) {
                self.graph.values[id].name.clone_from(output);
            }
        }
        require!(node.outputs.iter().skip(made.len()).all(String::is_empty), "output {} is not supported", made.len());
        Ok(Some(made.into_iter().map(|id| id.map(Item::Tensor)).collect()))
    }
}

/// A node while it is replaced by others.
struct Site<'s> {
    emitter: Emitter<'s>,
    inputs: &'s [Option<ValueId>],
    attrs: &'s Attrs,
    outputs: &'s [String],
    /// The number of inputs that the operator has, as far as it has asked for them.
    asked: Cell<usize>,
}

impl Site<'_> {
    /// Returns an optional input.
    fn optional(&self, index: usize) -> Option<ValueId> {
        self.asked.set(self.asked.get().max(index + 1));
        self.inputs.get(index).copied().flatten()
    }

    /// Returns a required input.
    fn input(&self, index: usize) -> Result<ValueId> {
        self.optional(index).ok_or_else(|| GraphError::new(format!("input {index} is missing")))
    }

    /// Refuses inputs behind the last one that the operator has.
    fn check_inputs(&self) -> Result<()> {
        let behind = (self.asked.get()..self.inputs.len()).find(|index| self.inputs[*index].is_some());
        match behind {
            Some(index) => fail!("input {index} is not supported: the operator does not have it"),
            None => Ok(()),
        }
    }

    /// Returns true if an output is used.
    fn wants(&self, index: usize) -> bool {
        self.outputs.get(index).is_some_and(|name| !name.is_empty())
    }

    /// Refuses an optional input.
    fn refuse(&self, index: usize, what: &str) -> Result<()> {
        require!(self.optional(index).is_none(), "input {index}, {what}, is not supported");
        Ok(())
    }

    /// Refuses a flag that changes the meaning of the node.
    fn refuse_flag(&self, name: &str) -> Result<()> {
        require!(!self.attrs.flag(name, false)?, "attribute `{name}` other than 0 is not supported");
        Ok(())
    }

    fn shape(&self, id: ValueId) -> Vec<i64> {
        self.emitter.graph.values[id].shape.clone()
    }

    fn rank(&self, id: ValueId) -> usize {
        self.emitter.graph.values[id].shape.len()
    }

    fn dtype(&self, id: ValueId) -> DataType {
        self.emitter.graph.values[id].dtype
    }

    /// Adds a node and returns its first output.
    fn node(&mut self, op: &str, attrs: &[(&str, Attr)], inputs: &[ValueId]) -> Result<ValueId> {
        self.emitter.node(op, attrs, inputs)
    }

    /// Adds a node with optional inputs. Returns its outputs, as many as `count`.
    fn several(
        &mut self,
        op: &str,
        attrs: &[(&str, Attr)],
        inputs: &[Option<ValueId>],
        count: usize,
    ) -> Result<Vec<ValueId>> {
        self.emitter.several(op, attrs, inputs, count)
    }

    /// Adds a node with optional inputs and returns its first output.
    fn with(&mut self, op: &str, attrs: &[(&str, Attr)], inputs: &[Option<ValueId>]) -> Result<ValueId> {
        self.several(op, attrs, inputs, 1).map(|made| made[0])
    }

    /// Adds a number without dimensions, of the type of another value.
    fn number(&mut self, value: f32, like: ValueId) -> Result<ValueId> {
        let constant = Constant::of_floats(&[value]).reshaped(&[])?;
        let number = self.emitter.graph.add_known(self.emitter.name, constant);
        self.node("CastLike", &[], &[number, like])
    }

    /// Multiplies by a number, if it is not 1.
    fn scaled(&mut self, x: ValueId, factor: f32) -> Result<ValueId> {
        if factor == 1.0 {
            return Ok(x);
        }
        let factor = self.number(factor, x)?;
        self.node("Mul", &[], &[x, factor])
    }

    /// Adds an optional value.
    fn plus(&mut self, x: ValueId, other: Option<ValueId>) -> Result<ValueId> {
        other.map_or(Ok(x), |other| self.node("Add", &[], &[x, other]))
    }

    /// Gives a value another shape.
    fn reshaped(&mut self, x: ValueId, shape: &[i64]) -> Result<ValueId> {
        let shape = self.emitter.ints(shape);
        self.node("Reshape", &[("allowzero", Attr::Int(1))], &[x, shape])
    }

    /// Adds axes with one element, which are those of the result.
    fn unsqueezed(&mut self, x: ValueId, axes: &[i64]) -> Result<ValueId> {
        let axes = self.emitter.ints(axes);
        self.node("Unsqueeze", &[], &[x, axes])
    }

    /// Broadcasts a value to a shape, if it has another one.
    fn expanded(&mut self, x: ValueId, shape: &[i64]) -> Result<ValueId> {
        let own = self.shape(x);
        if own == shape {
            return Ok(x);
        }
        let wanted = self.emitter.ints(shape);
        let made = self.node("Expand", &[], &[x, wanted])?;
        require!(self.shape(made) == shape, "a value {own:?} is not broadcast to {shape:?}");
        Ok(made)
    }

    /// Returns the indices of an axis from one on, up to another.
    fn part(&mut self, x: ValueId, axis: i64, from: i64, to: i64) -> Result<ValueId> {
        let [from, to, axes] = [from, to, axis].map(|number| self.emitter.ints(&[number]));
        self.node("Slice", &[], &[x, from, to, axes])
    }

    /// Returns an attribute that is a float, in the precision of the file.
    fn float(&self, name: &str, default: f32) -> Result<f32> {
        match self.attrs.get(name) {
            None => Ok(default),
            Some(Attr::Float(value)) => Ok(*value),
            Some(_) => fail!("attribute `{name}` is no float"),
        }
    }

    /// Checks that an input is a vector with as many numbers as the last dimension of `x` has.
    fn check_row(&self, index: usize, what: &str, x: ValueId) -> Result<()> {
        let Some(id) = self.optional(index) else { return Ok(()) };
        let (shape, of) = (self.shape(id), self.shape(x));
        let last = of.last().copied().unwrap_or(1);
        require!(shape == [last], "input {index}, {what}, is {shape:?}: expected [{last}] for {of:?}");
        Ok(())
    }
}
