//! Dequantized weights: their values are computed while a graph is built, and their bytes are
//! recorded, for the pass that replaces products by byte products.

use kernpack_compiler::ir::{F32, I8, U8};

use crate::constant::{Constant, num_elements};
use crate::error::Result;
use crate::graph::{Dequantized, Graph, Node, ValueId};

impl Graph {
    /// Returns the result of `DequantizeLinear` of known bytes, with one scale or one for each
    /// index of an axis. It is computed here because weights are many, and the evaluator is slow
    /// for each element. `None` if it is another node.
    ///
    /// # Errors
    /// Returns an error for an attribute of another type, and for an invalid shape.
    pub(crate) fn dequantized_bytes(&self, node: &Node) -> Result<Option<Constant>> {
        let known = |index: usize| node.inputs.get(index).copied().flatten().map(|id| self.values[id].known.as_ref());
        let (true, Some(Some(bytes)), Some(Some(scale))) = (node.op.name() == "DequantizeLinear", known(0), known(1))
        else {
            return Ok(None);
        };
        let is_plain = [I8, U8].contains(&bytes.dtype()) && scale.dtype() == F32 && scale.shape().len() < 2;
        if !is_plain || node.attrs.int("block_size", 0)? != 0 || node.attrs.int("output_dtype", 0)? != 0 {
            return Ok(None);
        }
        let scales: Vec<f32> = scale.to_floats()?.into_iter().map(|value| value as f32).collect();
        let zeros = match known(2) {
            Some(Some(zeros)) if zeros.len() == scales.len() => zeros.to_ints()?,
            Some(_) => return Ok(None),
            None => vec![0; scales.len()],
        };
        // The number of consecutive elements with the same scale.
        let run = if scales.len() == 1 {
            bytes.len()
        } else {
            let rank = i64::try_from(bytes.shape().len()).unwrap_or(0);
            let axis = node.attrs.int("axis", 1)?;
            let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).unwrap_or(usize::MAX);
            match bytes.shape().get(axis) {
                Some(extent) if usize::try_from(*extent) == Ok(scales.len()) => {
                    num_elements(&bytes.shape()[axis + 1..])?
                }
                _ => return Ok(None),
            }
        };
        let is_signed = bytes.dtype() == I8;
        let mut values = Vec::with_capacity(4 * bytes.len());
        for (place, part) in bytes.bytes().chunks(run.max(1)).enumerate() {
            let (scale, zero) = (scales[place % scales.len()], zeros[place % scales.len()]);
            for byte in part {
                let value = if is_signed { i64::from(byte.cast_signed()) } else { i64::from(*byte) };
                values.extend_from_slice(&((value - zero) as f32 * scale).to_le_bytes());
            }
        }
        Constant::new(F32, bytes.shape(), values).map(Some)
    }

    /// Records the bytes that known results of a node were dequantized from.
    ///
    /// # Errors
    /// Returns an error for an attribute of another type.
    pub(crate) fn keep_bytes(&mut self, node: &Node, results: &[Option<ValueId>]) -> Result<()> {
        let (true, [Some(result)]) = (node.op.name() == "DequantizeLinear", results) else { return Ok(()) };
        let (Some(Some(bytes)), Some(Some(scale))) = (node.inputs.first(), node.inputs.get(1)) else { return Ok(()) };
        if self.values[*result].known.is_none() || ![I8, U8].contains(&self.values[*bytes].dtype) {
            return Ok(());
        }
        let zero = node.inputs.get(2).copied().flatten();
        let axis = node.attrs.int("axis", 1)?;
        self.dequantized.insert(*result, Dequantized { bytes: *bytes, scale: *scale, zero, axis });
        Ok(())
    }
}
