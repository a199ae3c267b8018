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

/// Converts the numbers to a narrower type. Returns `None` if a finite one becomes infinite.
fn narrowed(constant: &Constant, dtype: DataType) -> Result<Option<Constant>> {
    let mut bytes = Vec::with_capacity(constant.bytes().len() / 2);
    for word in constant.bytes().chunks_exact(4) {
        let value = f32::from_le_bytes(word.try_into().expect("four bytes"));
        let bits =
            if dtype == F16 { kernpack::F16::from(value).to_bits() } else { kernpack::BF16::from(value).to_bits() };
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
