//! `DynamicQuantizeLSTM`: an LSTM with bytes as weights, whose input is quantized by its range.
//!
//! The state is not quantized: its products are those with the dequantized weights, in single
//! precision. onnxruntime quantizes the state in each step, by the range of the batches that a
//! thread has, so that its results depend on the number of threads.

use super::Site;
use crate::attrs::Attr;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::import::quantize::quantized_by_range;

/// The name of the operator.
pub(super) const NAME: &str = "DynamicQuantizeLSTM";

/// Returns the inputs of an LSTM with floats. Inputs: those of an LSTM, with transposed weights,
/// then scale and zero point of the weights of the input, and of those of the state.
pub(super) fn inputs(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let x = site.input(0)?;
    require!(!site.shape(x).contains(&0), "an input {:?} has no elements", site.shape(x));
    let [bytes, scale, zero] = quantized_by_range(&mut site.emitter, x)?;
    let x = site.node("DequantizeLinear", &[], &[bytes, scale, zero])?;
    let (weights, recurrence) = (weights(site, 1, 8)?, weights(site, 2, 10)?);
    let rest = (3..8).map(|index| site.optional(index));
    Ok([Some(x), Some(weights), Some(recurrence)].into_iter().chain(rest).collect())
}

/// Returns the weights of an input as floats, `[direction, column, row]`. Their scale and their
/// zero point begin at another input: one number for each direction, or one for each column.
fn weights(site: &mut Site<'_>, index: usize, scales: usize) -> Result<ValueId> {
    let all = site.input(index)?;
    let shape = site.shape(all);
    let [directions, _, columns] = shape[..] else {
        fail!("input {index}, the weights, is {shape:?}: expected three dimensions")
    };
    for other in [scales, scales + 1] {
        let own = site.shape(site.input(other)?);
        let fits = own == [directions] || own == [directions, 1] || own == [directions, columns];
        require!(fits, "input {other} is {own:?}: expected [{directions}] or [{directions}, {columns}]");
    }
    let mut parts = Vec::new();
    for direction in 0..directions {
        let mut own = Vec::new();
        for id in [all, site.input(scales)?, site.input(scales + 1)?] {
            own.push(site.emitter.slice(id, 0, direction)?);
        }
        let part = site.node("DequantizeLinear", &[("axis", Attr::Int(1))], &own)?;
        parts.push(site.node("Transpose", &[("perm", Attr::Ints(vec![1, 0]))], &[part])?);
    }
    site.emitter.stack(&parts, 0)
}
