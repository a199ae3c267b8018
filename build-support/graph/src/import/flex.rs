//! `FlexAttention` as nodes: products, the graphs that change scores and probabilities, and a
//! softmax between them.

use kernpack_compiler::ir::{BF16, F16, F32, F64};

use super::control::Control;
use super::{Importer, Item};
use crate::attrs::Attr;
use crate::constant::Constant;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::onnx::{AttributeValue, dtype_of};

/// Returns the number of a float type in ONNX.
fn number_of(dtype: kernpack::DataType) -> Result<i64> {
    [(F32, 1), (F16, 10), (F64, 11), (BF16, 16)]
        .into_iter()
        .find(|(known, _)| *known == dtype)
        .map_or_else(|| fail!("expected floats, got {dtype}"), |(_, number)| Ok(number))
}

impl<'a> Importer<'_, 'a> {
    /// Each head of keys serves adjacent heads of queries.
    pub(super) fn flex_attention(&mut self, control: &Control<'_, 'a>) -> Result<Vec<Item>> {
        let mut ids = Vec::new();
        for index in 0..3 {
            ids.push(control.needed(index)?.tensor(&format!("input {index}"))?);
        }
        let &[q, k, v] = &ids[..] else { fail!("expected three inputs") };
        let of = |id: ValueId| (&self.graph.values[id].shape[..], self.graph.values[id].dtype);
        let ((q_shape, dtype), (k_shape, k_type), (v_shape, v_type)) = (of(q), of(k), of(v));
        let (&[batch, heads, length, size], &[k_batch, kv_heads, places, k_size], &[v_batch, v_heads, v_places, width]) =
            (q_shape, k_shape, v_shape)
        else {
            fail!("expected four dimensions, got queries {q_shape:?}, keys {k_shape:?} and values {v_shape:?}")
        };
        require!(dtype == k_type && dtype == v_type, "the inputs have different types: {dtype}, {k_type} and {v_type}");
        let fits = [batch, batch] == [k_batch, v_batch] && size == k_size && [kv_heads, places] == [v_heads, v_places];
        require!(fits, "queries {q_shape:?}, keys {k_shape:?} and values {v_shape:?} do not fit");
        require!(
            kv_heads > 0 && heads % kv_heads == 0,
            "{heads} heads of queries are not a multiple of {kv_heads} heads of keys"
        );
        require!(size > 0, "queries {q_shape:?} have no elements in a head");
        let own = number_of(dtype)?;
        let precision = match control.attribute("softmax_precision") {
            None | Some(AttributeValue::Int(0)) => {
                if dtype == F64 {
                    own
                } else {
                    1
                }
            }
            Some(AttributeValue::Int(number)) => {
                number_of(dtype_of(*number)?).map_err(|error| error.within("attribute `softmax_precision`"))?
            }
            Some(_) => fail!("attribute `softmax_precision` is not an integer"),
        };
        let scale = match control.attribute("scale") {
            None => 1.0 / (size as f64).sqrt(),
            Some(AttributeValue::Float(scale)) => f64::from(*scale),
            Some(_) => fail!("attribute `scale` is not a float"),
        };
        let grouped = [batch, kv_heads, heads / kv_heads * length];
        // Products of narrow floats would lose precision.
        let inner = if precision == 11 { 11 } else { own.min(1) };
        let inner = if own == 11 { 11 } else { inner };
        let mut emitter = self.emitter(control);
        let scale = Constant::new(F64, &[], scale.to_le_bytes().as_slice())?;
        let scale = emitter.graph.add_known("scale", scale);
        let to = |number: i64| [("to", Attr::Int(number))];
        let scale = emitter.node("Cast", &to(inner), &[scale])?;
        let wide = |emitter: &mut super::emit::Emitter<'_>, id| emitter.node("Cast", &to(inner), &[id]);
        let (q, k, v) = (wide(&mut emitter, q)?, wide(&mut emitter, k)?, wide(&mut emitter, v)?);
        // Heads that share keys are rows of one product.
        let joined = emitter.ints(&[grouped[0], grouped[1], grouped[2], size]);
        let q = emitter.node("Reshape", &[("allowzero", Attr::Int(1))], &[q, joined])?;
        let k = emitter.node("Transpose", &[("perm", Attr::Ints(vec![0, 1, 3, 2]))], &[k])?;
        let scores = emitter.node("MatMul", &[], &[q, k])?;
        let scores = emitter.node("Mul", &[], &[scores, scale])?;
        let apart = emitter.ints(&[batch, heads, length, places]);
        let scores = emitter.node("Reshape", &[("allowzero", Attr::Int(1))], &[scores, apart])?;
        let scores = emitter.node("Cast", &to(precision), &[scores])?;
        let scores = self.modified(control, "score_mod", scores)?;
        let mut emitter = self.emitter(control);
        let probabilities = emitter.node("Softmax", &[("axis", Attr::Int(-1))], &[scores])?;
        let probabilities = self.modified(control, "prob_mod", probabilities)?;
        let mut emitter = self.emitter(control);
        let probabilities = emitter.node("Cast", &to(inner), &[probabilities])?;
        let joined = emitter.ints(&[grouped[0], grouped[1], grouped[2], places]);
        let probabilities = emitter.node("Reshape", &[("allowzero", Attr::Int(1))], &[probabilities, joined])?;
        let sums = emitter.node("MatMul", &[], &[probabilities, v])?;
        let apart = emitter.ints(&[batch, heads, length, width]);
        let sums = emitter.node("Reshape", &[("allowzero", Attr::Int(1))], &[sums, apart])?;
        Ok(vec![Item::Tensor(emitter.node("Cast", &to(own), &[sums])?)])
    }

    /// Applies the graph of an attribute to a tensor, if the node has the attribute.
    fn modified(&mut self, control: &Control<'_, 'a>, attribute: &str, id: ValueId) -> Result<ValueId> {
        if control.attribute(attribute).is_none() {
            return Ok(id);
        }
        let graph = control.graph(attribute)?;
        let made = self.inside(control, graph, vec![Item::Tensor(id)]).map_err(|error| error.within(attribute))?;
        let [made] = &made[..] else { fail!("the graph of attribute `{attribute}` has {} outputs, not 1", made.len()) };
        let made = made.tensor(&format!("the result of attribute `{attribute}`"))?;
        let (before, after) = (&self.graph.values[id], &self.graph.values[made]);
        require!(
            before.shape == after.shape && before.dtype == after.dtype,
            "the graph of attribute `{attribute}` makes {}{:?} of {}{:?}: type and shape have to stay",
            after.dtype,
            after.shape,
            before.dtype,
            before.shape
        );
        Ok(made)
    }
}
