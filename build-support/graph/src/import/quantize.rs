//! `DynamicQuantizeLinear` as nodes: the range of the tensor, the scale and the zero point, each
//! computed once, and a quantization that can be fused with other operators.

use super::emit::Emitter;
use super::{Importer, Item};
use crate::attrs::Attr;
use crate::constant::Constant;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::onnx;

/// The operators.
pub(super) const NAMES: [&str; 1] = ["DynamicQuantizeLinear"];

impl<'a> Importer<'_, 'a> {
    /// The scale is (max(0, largest) - min(0, smallest)) / 255.
    pub(super) fn dynamic_quantization(
        &mut self,
        node: &onnx::Node<'a>,
        inputs: &[Option<ValueId>],
    ) -> Result<Vec<Option<Item>>> {
        let &[Some(x)] = inputs else { fail!("{}: expected one input, got {}", super::place(node), inputs.len()) };
        let shape = &self.graph.values[x].shape;
        require!(!shape.contains(&0), "{}: {shape:?} has no elements", super::place(node));
        let name = node.outputs.first().map_or("", String::as_str).to_owned();
        let made = quantized_by_range(&mut Emitter { graph: &mut self.graph, name: &name }, x)?;
        Ok(made.into_iter().map(|id| Some(Item::Tensor(id))).collect())
    }
}

/// Returns the bytes of a tensor that has elements, their scale and their zero point.
pub(super) fn quantized_by_range(emitter: &mut Emitter<'_>, x: ValueId) -> Result<[ValueId; 3]> {
    let number = |value: f32| Constant::of_floats(&[value]).reshaped(&[]);
    let (zero, last) = (number(0.0)?, number(255.0)?);
    let (zero, last) = (emitter.graph.add_known("zero", zero), emitter.graph.add_known("last", last));
    let whole = [("keepdims", Attr::Int(0))];
    let largest = emitter.node("ReduceMax", &whole, &[x])?;
    let smallest = emitter.node("ReduceMin", &whole, &[x])?;
    let (largest, smallest) =
        (emitter.node("Max", &[], &[largest, zero])?, emitter.node("Min", &[], &[smallest, zero])?);
    let range = emitter.node("Sub", &[], &[largest, smallest])?;
    let scale = emitter.node("Div", &[], &[range, last])?;
    let below = emitter.node("Sub", &[], &[zero, smallest])?;
    let point = emitter.node("Div", &[], &[below, scale])?;
    let point = emitter.node("Round", &[], &[point])?;
    let point = emitter.node("Clip", &[], &[point, zero, last])?;
    // Unsigned bytes are number 2.
    let point = emitter.node("Cast", &[("to", Attr::Int(2))], &[point])?;
    let bytes = emitter.node("QuantizeLinear", &[], &[x, scale, point])?;
    Ok([bytes, scale, point])
}
