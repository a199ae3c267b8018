//! Operators of onnxruntime: those of the domain `com.microsoft`, and
//! `SimplifiedLayerNormalization` in the domain of ONNX itself.
//!
//! They are compositions of operators of ONNX, which are fused into the kernels that one operator
//! would have.
//!
//! Source: `docs/ContribOperators.md` of onnxruntime 1.32, and results of that version where the
//! documentation leaves a meaning open.

use super::site::Site;
use super::{Importer, Item};
use crate::attrs::Attrs;
use crate::constant::Constant;
use crate::error::{Result, require};
use crate::graph::ValueId;
use crate::onnx::{self, versions::NEWEST};

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
        let mut site = Site::new(&mut self.graph, name, attrs, inputs, &node.outputs);
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

impl Site<'_> {
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

    /// Returns the indices of an axis from one on, up to another.
    fn part(&mut self, x: ValueId, axis: i64, from: i64, to: i64) -> Result<ValueId> {
        let [from, to, axes] = [from, to, axis].map(|number| self.emitter.ints(&[number]));
        self.node("Slice", &[], &[x, from, to, axes])
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
