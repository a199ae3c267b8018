//! Narrows weights to fewer bits than the rest of a model, if the build script requests it.
//!
//! Matrices of products and filters of convolutions are stored in half precision or bfloat16, and
//! widened when they are read. Computations stay in single precision.

use std::collections::HashMap;

use kernpack::DataType;
use kernpack_compiler::ir::{BF16, F16, F32};

use crate::constant::Constant;
use crate::error::{Result, require};
use crate::graph::{Graph, ValueId};
use crate::op::half::WIDENING;

/// The minimum number of elements for which it is worthwhile.
const LEAST: usize = 256;

/// Returns the bits of a number in half precision: the nearest one, half to even. A number that is
/// too large is infinite.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, size) = ((bits >> 16) as u16 & 0x8000, bits & 0x7fff_ffff);
    sign | match size {
        0x7f80_0001.. => 0x7e00,
        0x4780_0000.. => 0x7c00,
        // Rounding up may carry into the exponent, and even reach infinity.
        0x3880_0000.. => ((size + 0xfff + (size >> 13 & 1) - 0x3800_0000) >> 13) as u16,
        // In a sum with 0.5 the last bit is that of the smallest number.
        _ => ((f32::from_bits(size) + 0.5).to_bits() - 0x3f00_0000) as u16,
    }
}

/// Returns the bits of a number as bfloat16: the nearest one, half to even.
fn brain(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        (bits >> 16) as u16 | 0x40
    } else {
        ((u64::from(bits) + 0x7fff + u64::from(bits >> 16 & 1)) >> 16) as u16
    }
}

/// Converts the numbers to a narrower type. Returns `None` if a finite one becomes infinite.
fn narrowed(constant: &Constant, dtype: DataType) -> Result<Option<Constant>> {
    let mut bytes = Vec::with_capacity(constant.bytes().len() / 2);
    for word in constant.bytes().chunks_exact(4) {
        let value = f32::from_le_bytes(word.try_into().expect("four bytes"));
        let bits = if dtype == F16 { half(value) } else { brain(value) };
        let infinity = if dtype == F16 { 0x7c00 } else { 0x7f80 };
        if bits & 0x7fff == infinity && value.is_finite() {
            return Ok(None);
        }
        bytes.extend_from_slice(&bits.to_le_bytes());
    }
    Constant::new(dtype, constant.shape(), bytes).map(Some)
}

impl Graph {
    /// Converts the weights of matrix products and convolutions to another type. Weights with
    /// numbers that it cannot represent are kept, with a warning.
    ///
    /// # Errors
    /// Returns an error for a type that is not supported for weights.
    pub(crate) fn narrow_weights(&mut self, dtype: DataType) -> Result<()> {
        require!([F16, BF16, F32].contains(&dtype), "weights are kept as float16, bfloat16 or float32, not as {dtype}");
        if dtype == F32 {
            return Ok(());
        }
        // Weights with other readers are kept anyway.
        let others = self.read_otherwise(&WIDENING);
        let mut done: HashMap<ValueId, Option<ValueId>> = HashMap::new();
        let mut reads = self.reads();
        for number in 0..self.nodes.len() {
            let node = &self.nodes[number];
            let Some(Some(id)) = node.inputs.get(1).copied() else { continue };
            let is_weight = WIDENING.contains(&node.op.name()) && !others.get(id).copied().unwrap_or(true);
            let Some(known) = self.values[id].known.clone().filter(|known| known.dtype() == F32) else { continue };
            // Matrices that are still transposed have a few outputs: they are small.
            let is_turned = node.op.name() == "Gemm" && node.attrs.flag("transB", false)?;
            if !is_weight || is_turned || known.len() < LEAST {
                continue;
            }
            let narrow = match done.get(&id) {
                Some(narrow) => *narrow,
                None => {
                    let name = self.values[id].name.clone();
                    let narrow = narrowed(&known, dtype)?;
                    if narrow.is_none() {
                        self.warnings.push(format!(
                            "weights '{name}' have numbers that {dtype} does not have: they stay {}",
                            F32
                        ));
                    }
                    let narrow = narrow.map(|narrow| self.add_known(&name, narrow));
                    done.insert(id, narrow);
                    narrow
                }
            };
            drop(known);
            if let Some(narrow) = narrow {
                self.replace_input(&mut reads, number, 1, narrow);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_even() {
        let rows: [(f32, u16, u16); 14] = [
            (0.0, 0, 0),
            (-0.0, 0x8000, 0x8000),
            (1.0, 0x3c00, 0x3f80),
            (-2.5, 0xc100, 0xc020),
            (65504.0, 0x7bff, 0x4780),
            (65519.0, 0x7bff, 0x4780),
            (65520.0, 0x7c00, 0x4780),
            (1e30, 0x7c00, 0x714a),
            (f32::INFINITY, 0x7c00, 0x7f80),
            (1.0 + 1.0 / 2048.0, 0x3c00, 0x3f80),
            (1.0 + 3.0 / 2048.0, 0x3c02, 0x3f80),
            (1.0 / 16_777_216.0, 1, 0x3380),
            (0.5 / 16_777_216.0, 0, 0x3300),
            (1.5 / 16_777_216.0, 2, 0x33c0),
        ];
        for (value, expected, brained) in rows {
            assert_eq!((half(value), brain(value)), (expected, brained), "{value}");
        }
        assert_eq!(half(f32::NAN) & 0x7e00, 0x7e00);
        assert!(brain(f32::NAN) & 0x7fff > 0x7f80);
        // All numbers of half precision are converted exactly.
        for bits in (0..0x7c00_u16).step_by(7) {
            let (exponent, fraction) = (i32::from(bits >> 10), f32::from(bits & 0x3ff));
            let value =
                if exponent == 0 { fraction * 2f32.powi(-24) } else { (1024.0 + fraction) * 2f32.powi(exponent - 25) };
            assert_eq!((half(value), half(-value)), (bits, bits | 0x8000));
        }
    }
}
