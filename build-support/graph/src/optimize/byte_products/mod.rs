//! Replaces products of quantized values by byte products: `MatMulInteger`, `QLinearMatMul`, and
//! `MatMul` or `Gemm` of dequantized values. Convolutions are handled the same way.
//!
//! If the second factor is constant, its bytes are packed as the compiler's rule `dot` reads them,
//! and the contribution of zero points to the sums is computed from it here.

mod convolution;
mod panels;
mod product;

use std::sync::Arc;

use kernpack_compiler::ir::{F32, I8, U8};

use self::panels::Panels;
use self::product::PRODUCT;
use crate::attrs::Attrs;
use crate::constant::Constant;
use crate::error::Result;
use crate::graph::{Dequantized, Graph, ValueId};
use crate::op::NodeOp;

/// A product with a known second factor.
struct Found {
    a: ValueId,
    a_zero: Option<ValueId>,
    /// Two-dimensional bytes: rows and columns, or columns and rows.
    b: ValueId,
    b_zero: Option<ValueId>,
    is_turned: bool,
    /// The factor of sums, as floats: one number, or one for each column.
    scale: Option<Vec<f32>>,
    /// A value that is added to the scaled sums.
    bias: Option<ValueId>,
    /// The zero point of a byte result.
    y_zero: Option<ValueId>,
}

impl Graph {
    /// Replaces products that compute the same with floats, or with wider integers, by byte
    /// products.
    ///
    /// # Errors
    /// Only errors of tensors.
    pub(crate) fn byte_products(&mut self) -> Result<()> {
        for number in 0..self.nodes.len() {
            let Some(found) = self.found(number)? else {
                self.convolve_bytes(number)?;
                continue;
            };
            let Some(inputs) = self.inputs_of(&found)? else { continue };
            self.replace_node(number, (&PRODUCT).into(), Attrs::default(), inputs);
        }
        // Nothing else reads the records, which keep the dequantized values in memory.
        self.dequantized.clear();
        Ok(())
    }

    /// Replaces a node by one of another operator with the same name and outputs.
    fn replace_node(&mut self, number: usize, op: NodeOp, attrs: Attrs, inputs: Vec<Option<ValueId>>) {
        let node = &mut self.nodes[number];
        node.op = op;
        node.attrs = Arc::new(attrs);
        node.reads = inputs.iter().map(Option::is_some).collect();
        node.inputs = inputs;
        node.body = None;
    }

    fn found(&self, number: usize) -> Result<Option<Found>> {
        let node = &self.nodes[number];
        let input = |index: usize| node.inputs.get(index).copied().flatten();
        let (Some(first), Some(second)) = (input(0), input(1)) else { return Ok(None) };
        Ok(match node.op.name() {
            "MatMulInteger" => Some(Found {
                a: first,
                a_zero: input(2),
                b: second,
                b_zero: input(3),
                is_turned: false,
                scale: None,
                bias: None,
                y_zero: None,
            }),
            "QLinearMatMul" => self.linear(number),
            "MatMul" | "Gemm" => self.of_dequantized(number, first, second)?,
            _ => None,
        })
    }

    /// Inputs: a, its scale and zero point, b, its scale and zero point, scale and zero point of
    /// the result.
    fn linear(&self, number: usize) -> Option<Found> {
        let [Some(a), Some(a_scale), a_zero, Some(b), Some(b_scale), b_zero, Some(y_scale), Some(y_zero)] =
            self.nodes[number].inputs[..]
        else {
            return None;
        };
        let (a_scale, y_scale) = (self.single(a_scale)?, self.single(y_scale)?);
        let scale = self.floats(b_scale)?.into_iter().map(|b| a_scale * b / y_scale).collect();
        self.known_int(y_zero)?;
        Some(Found { a, a_zero, b, b_zero, is_turned: false, scale: Some(scale), bias: None, y_zero: Some(y_zero) })
    }

    fn of_dequantized(&self, number: usize, first: ValueId, second: ValueId) -> Result<Option<Found>> {
        let node = &self.nodes[number];
        let is_gemm = node.op.name() == "Gemm";
        let plain = !node.attrs.flag("transA", false)?
            && node.attrs.float("alpha", 1.0)? == 1.0
            && node.attrs.float("beta", 1.0)? == 1.0;
        let Some(Dequantized { bytes, scale: b_scale, zero: b_zero, axis }) = self.dequantized.get(&second) else {
            return Ok(None);
        };
        let Some(producer) = self.values[first].producer.map(|number| &self.nodes[number]) else { return Ok(None) };
        let ([Some(a), Some(a_scale), rest @ ..], true) =
            (&producer.inputs[..], producer.op.name() == "DequantizeLinear" && (plain || !is_gemm))
        else {
            return Ok(None);
        };
        let is_turned = is_gemm && node.attrs.flag("transB", false)?;
        // A scale for each column, if there are several.
        let rank = i64::try_from(self.values[*bytes].shape.len()).unwrap_or(0);
        let axis = if *axis < 0 { axis + rank } else { *axis };
        let (Some(a_scale), Some(b_scale)) = (self.single(*a_scale), self.floats(*b_scale)) else { return Ok(None) };
        let is_float = self.values[first].dtype == F32;
        if !is_float || b_scale.len() > 1 && axis != i64::from(!is_turned) {
            return Ok(None);
        }
        Ok(Some(Found {
            a: *a,
            a_zero: rest.first().copied().flatten(),
            b: *bytes,
            b_zero: *b_zero,
            is_turned,
            scale: Some(b_scale.into_iter().map(|b| a_scale * b).collect()),
            bias: if is_gemm { node.inputs.get(2).copied().flatten() } else { None },
            y_zero: None,
        }))
    }

    fn floats(&self, id: ValueId) -> Option<Vec<f32>> {
        // Scales of blocks have the same rank as the tensor.
        let known = self.values[id].known.as_ref().filter(|known| known.dtype() == F32 && known.shape().len() < 2)?;
        Some(known.to_floats().ok()?.into_iter().map(|value| value as f32).collect())
    }

    fn single(&self, id: ValueId) -> Option<f32> {
        self.floats(id).filter(|values| values.len() == 1).map(|values| values[0])
    }

    fn known_int(&self, id: ValueId) -> Option<i64> {
        let known = self.values[id].known.as_ref().filter(|known| known.len() == 1)?;
        known.to_ints().ok().map(|values| values[0])
    }

    /// Returns the inputs of the product's node, or `None` if the operator does not support it.
    fn inputs_of(&mut self, found: &Found) -> Result<Option<Vec<Option<ValueId>>>> {
        let is_byte = |id: ValueId| [I8, U8].contains(&self.values[id].dtype);
        if !is_byte(found.a) || !is_byte(found.b) || self.values[found.a].shape.len() < 2 {
            return Ok(None);
        }
        let Some(known) = self.values[found.b].known.clone() else { return Ok(None) };
        let zeros = match found.b_zero.map(|id| self.values[id].known.as_ref().map(Constant::to_ints)) {
            Some(Some(zeros)) => zeros?,
            Some(None) => return Ok(None),
            None => vec![0],
        };
        let Some(panels) = Panels::of(&known, found.is_turned, &zeros)? else { return Ok(None) };
        let scales = found.scale.as_ref().map_or(1, Vec::len);
        if scales != 1 && scales != panels.columns || panels.columns == 0 || panels.rows == 0 {
            return Ok(None);
        }
        // A known zero point of the first factor is included in the number that is subtracted from
        // the sums.
        let shift = if self.values[found.a].dtype == I8 { 128 } else { 0 };
        let zero = match found.a_zero {
            None => Some(0),
            Some(id) => self.known_int(id),
        };
        let a_zero = match (zero, found.a_zero) {
            (None, Some(id)) if self.values[id].shape.iter().product::<i64>() == 1 => Some(id),
            (None, _) => return Ok(None),
            (Some(_), _) => None,
        };
        let factor = zero.map(|zero| zero + shift);
        let columns = i64::try_from(panels.columns).unwrap_or(0);
        let ints = |values: Vec<i64>| -> Result<Constant> {
            let bytes: Vec<u8> = values.into_iter().flat_map(|value| (value as i32).to_le_bytes()).collect();
            Constant::new(kernpack_compiler::ir::I32, &[columns], bytes)
        };
        let offsets = ints(panels.sums.iter().map(|sum| sum.wrapping_mul(factor.unwrap_or(1))).collect())?;
        let rows = if panels.zeros.iter().all(|zero| *zero == 0) { None } else { Some(ints(panels.zeros.clone())?) };
        let name = self.values[found.b].name.clone();
        let bytes = self.add_known(&format!("{name}.panels"), panels.bytes);
        let offsets = self.add_known(&format!("{name}.offsets"), offsets);
        let rows = rows.map(|rows| self.add_known(&format!("{name}.zeros"), rows));
        let scale = match &found.scale {
            Some(values) => {
                let constant = Constant::of_floats(values);
                Some(self.add_known(&format!("{name}.scale"), constant))
            }
            None => None,
        };
        Ok(Some(vec![Some(found.a), Some(bytes), Some(offsets), a_zero, rows, scale, found.bias, found.y_zero]))
    }
}
