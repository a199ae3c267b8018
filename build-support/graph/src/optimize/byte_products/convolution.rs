//! Byte convolutions: `ConvInteger`, `QLinearConv`, and `Conv` of dequantized values, with known
//! weights whose zero point is that of signed bytes.

use kernpack_compiler::ir::{F32, I8, I32, U8};

use crate::constant::Constant;
use crate::error::Result;
use crate::graph::{Graph, ValueId};
use crate::op::{BYTE_CONV, CHANNELS};

/// A convolution with known weights.
struct Found {
    x: ValueId,
    x_zero: Option<ValueId>,
    w: ValueId,
    w_zero: Option<ValueId>,
    /// The factor of sums: one number, or one for each output channel.
    scale: Option<Vec<f32>>,
    /// A float for each output channel that is added to the scaled sums.
    bias: Option<ValueId>,
    /// A number that is added to the sums.
    added: Option<ValueId>,
    y_zero: Option<ValueId>,
}

/// Weights in the layout of the operator.
struct Filters {
    bytes: Constant,
    /// The sum of each output channel.
    sums: Vec<i64>,
}

impl Filters {
    /// Packs weights `[output channel, channel, row, column]`. Returns `None` if their zero points
    /// are not in the middle.
    fn of(weights: &Constant, zeros: &[i64]) -> Result<Option<Self>> {
        let &[filters, channels, rows, columns] = weights.shape() else { return Ok(None) };
        let middle = if weights.dtype() == U8 { 128 } else { 0 };
        let fits = [I8, U8].contains(&weights.dtype()) && zeros.iter().all(|zero| *zero == middle);
        if !fits || weights.is_empty() {
            return Ok(None);
        }
        let blocks = (channels + CHANNELS - 1) / CHANNELS;
        let shape = [filters, blocks, rows, columns, CHANNELS];
        let count = |extent: i64| usize::try_from(extent).unwrap_or(0);
        let (channels, window, part) = (count(channels), count(rows * columns), count(CHANNELS));
        let each = count(blocks) * window * part;
        let mut bytes = vec![0_u8; count(filters) * each];
        let mut sums = vec![0_i64; count(filters)];
        for (place, byte) in weights.bytes().iter().enumerate() {
            let (filter, channel, at) = (place / (channels * window), place / window % channels, place % window);
            let byte = if middle == 0 { *byte } else { byte ^ 0x80 };
            bytes[filter * each + (channel / part * window + at) * part + channel % part] = byte;
            sums[filter] += i64::from(byte.cast_signed());
        }
        Ok(Some(Self { bytes: Constant::new(I8, &shape, bytes)?, sums }))
    }
}

impl Graph {
    /// Replaces convolutions that compute the same with floats, or with wider integers, by byte
    /// convolutions.
    ///
    /// # Errors
    /// Only errors of tensors.
    pub(super) fn convolve_bytes(&mut self, number: usize) -> Result<()> {
        let Some(found) = self.found_convolution(number)? else { return Ok(()) };
        let Some(inputs) = self.inputs_of_convolution(&found)? else { return Ok(()) };
        let mut attrs = (*self.nodes[number].attrs).clone();
        attrs.set("group", crate::attrs::Attr::Int(1));
        self.replace_node(number, (&BYTE_CONV).into(), attrs, inputs);
        Ok(())
    }

    fn found_convolution(&self, number: usize) -> Result<Option<Found>> {
        let node = &self.nodes[number];
        let input = |index: usize| node.inputs.get(index).copied().flatten();
        let (Some(first), Some(second)) = (input(0), input(1)) else { return Ok(None) };
        if !node.op.name().contains("Conv") || node.attrs.int("group", 1)? != 1 {
            return Ok(None);
        }
        Ok(match node.op.name() {
            "ConvInteger" => Some(Found {
                x: first,
                x_zero: input(2),
                w: second,
                w_zero: input(3),
                scale: None,
                bias: None,
                added: None,
                y_zero: None,
            }),
            "QLinearConv" => {
                let (Some(x_scale), Some(w), Some(w_scale)) = (input(1), input(3), input(4)) else { return Ok(None) };
                let (Some(y_scale), Some(y_zero)) = (input(6), input(7)) else { return Ok(None) };
                let (Some(x_scale), Some(w_scale), Some(y_scale)) =
                    (self.single(x_scale), self.floats(w_scale), self.single(y_scale))
                else {
                    return Ok(None);
                };
                let scale = w_scale.into_iter().map(|w| x_scale * w / y_scale).collect();
                let is_known = self.known_int(y_zero).is_some();
                is_known.then_some(Found {
                    x: first,
                    x_zero: input(2),
                    w,
                    w_zero: input(5),
                    scale: Some(scale),
                    bias: None,
                    added: input(8),
                    y_zero: Some(y_zero),
                })
            }
            "Conv" => {
                let Some(weights) = self.dequantized.get(&second) else { return Ok(None) };
                let Some(producer) = self.values[first].producer.map(|number| &self.nodes[number]) else {
                    return Ok(None);
                };
                let ([Some(x), Some(x_scale), rest @ ..], "DequantizeLinear") =
                    (&producer.inputs[..], producer.op.name())
                else {
                    return Ok(None);
                };
                let (Some(x_scale), Some(w_scale)) = (self.single(*x_scale), self.floats(weights.scale)) else {
                    return Ok(None);
                };
                if self.values[first].dtype != F32 || w_scale.len() > 1 && ![0, -4].contains(&weights.axis) {
                    return Ok(None);
                }
                Some(Found {
                    x: *x,
                    x_zero: rest.first().copied().flatten(),
                    w: weights.bytes,
                    w_zero: weights.zero,
                    scale: Some(w_scale.into_iter().map(|w| x_scale * w).collect()),
                    bias: input(2),
                    added: None,
                    y_zero: None,
                })
            }
            _ => None,
        })
    }

    /// Returns the inputs of the convolution's node, or `None` if the operator does not support it.
    fn inputs_of_convolution(&mut self, found: &Found) -> Result<Option<Vec<Option<ValueId>>>> {
        let of_x = &self.values[found.x];
        if ![I8, U8].contains(&of_x.dtype) || of_x.shape.len() != 4 || of_x.shape.contains(&0) {
            return Ok(None);
        }
        let shift = if of_x.dtype == I8 { 128 } else { 0 };
        let Some(weights) = self.values[found.w].known.clone() else { return Ok(None) };
        let zeros = match found.w_zero.map(|id| self.values[id].known.as_ref().map(Constant::to_ints)) {
            Some(Some(zeros)) => zeros?,
            Some(None) => return Ok(None),
            None => vec![0],
        };
        let Some(filters) = Filters::of(&weights, &zeros)? else { return Ok(None) };
        let count = filters.sums.len();
        let fits = |id: Option<ValueId>| id.is_none_or(|id| self.values[id].shape == [weights.shape()[0]]);
        if found.scale.as_ref().is_some_and(|scale| scale.len() != 1 && scale.len() != count)
            || !fits(found.bias)
            || !fits(found.added)
        {
            return Ok(None);
        }
        let zero = match found.x_zero {
            None => Some(0),
            Some(id) => self.known_int(id),
        };
        if zero.is_none() && found.x_zero.is_some_and(|id| self.values[id].shape.iter().product::<i64>() != 1) {
            return Ok(None);
        }
        // The zero point is kept, because the image is padded with it. A known one is included in
        // the number that is subtracted from the sums.
        let factor = zero.map_or(1, |zero| zero + shift);
        let bytes: Vec<u8> =
            filters.sums.iter().flat_map(|sum| (sum.wrapping_mul(factor) as i32).to_le_bytes()).collect();
        let offsets = Constant::new(I32, &[weights.shape()[0]], bytes)?;
        let name = self.values[found.w].name.clone();
        let packed = self.add_known(&format!("{name}.filters"), filters.bytes);
        let offsets = self.add_known(&format!("{name}.offsets"), offsets);
        let scale = found.scale.as_ref().map(|values| Constant::of_floats(values));
        let scale = scale.map(|scale| self.add_known(&format!("{name}.scale"), scale));
        Ok(Some(vec![
            Some(found.x),
            Some(packed),
            Some(offsets),
            found.x_zero,
            scale,
            found.bias,
            found.y_zero,
            found.added,
        ]))
    }
}
