//! Weights in the form of kernels: in fewer bits than the rest of a model, if the build script
//! requests it, and matrices packed in panels.
//!
//! Matrices of products and filters of convolutions are stored in half precision or bfloat16, and
//! widened when they are read. Computations stay in single precision.

use std::collections::HashMap;
use std::sync::Arc;

use kernpack::DataType;
use kernpack_compiler::ir::{BF16, F16, F32};

use crate::attrs::Attr;
use crate::constant::{Constant, element_bytes};
use crate::error::{Result, require};
use crate::graph::{Graph, ValueId};
use crate::op::half::WIDENING;
use crate::op::matmul::{PANELS, WIDTH};

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

/// Packs a matrix in panels, `[column / 16][row][column % 16]`, padded with zeros after the last
/// column.
fn panels(matrix: &Constant) -> Result<Option<Constant>> {
    let &[rows, columns] = matrix.shape() else { return Ok(None) };
    let (width, bytes) = (usize::try_from(WIDTH).unwrap_or(1), element_bytes(matrix.dtype()));
    let (Ok(row_count), Ok(length)) = (usize::try_from(rows), usize::try_from(columns)) else { return Ok(None) };
    let count = length.div_ceil(width);
    let mut packed = vec![0_u8; count * row_count * width * bytes];
    for row in 0..row_count {
        for panel in 0..count {
            let (from, to) = (panel * width, length.min((panel + 1) * width));
            let source = &matrix.bytes()[(row * length + from) * bytes..(row * length + to) * bytes];
            let place = (panel * row_count + row) * width * bytes;
            packed[place..place + source.len()].copy_from_slice(source);
        }
    }
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Constant::new(matrix.dtype(), &[count, rows, WIDTH], packed).map(Some)
}

impl Graph {
    /// Replaces subnormal numbers in the weights of matrix products and convolutions by zeros.
    pub(crate) fn flush_weights(&mut self) {
        let weights = self.nodes.iter().filter(|node| WIDENING.contains(&node.op.name()));
        let mut ids: Vec<ValueId> = weights.filter_map(|node| node.inputs.get(1).copied().flatten()).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            if let Some(flushed) = self.values[id].known.as_ref().and_then(Constant::flushed) {
                self.values[id].known = Some(flushed);
            }
        }
    }

    /// Packs known matrices of products in the order in which the compiler's rule `panels` reads
    /// them, so that no call copies them.
    ///
    /// # Errors
    /// Only errors of tensors.
    pub(crate) fn lay_out_weights(&mut self) -> Result<()> {
        let others = self.read_otherwise(&["Gemm", "MatMul"]);
        let mut done: HashMap<ValueId, Option<ValueId>> = HashMap::new();
        let mut reads = self.reads();
        for number in 0..self.nodes.len() {
            let node = &self.nodes[number];
            let (Some(Some(a)), Some(Some(id))) = (node.inputs.first().copied(), node.inputs.get(1).copied()) else {
                continue;
            };
            let fits = ["Gemm", "MatMul"].contains(&node.op.name())
                && !others.get(id).copied().unwrap_or(true)
                && !node.attrs.flag("transA", false)?
                && !node.attrs.flag("transB", false)?;
            let shape = &self.values[a].shape;
            if !fits || self.values[a].dtype != F32 || shape.len() < 2 || shape.contains(&0) {
                continue;
            }
            let Some(known) = self.values[id].known.clone() else { continue };
            let &[rows, columns] = known.shape() else { continue };
            // Matrices with a few columns are not packed: panels would mostly contain zeros.
            if ![F32, F16, BF16].contains(&known.dtype()) || columns < 2 * WIDTH || rows < WIDTH {
                continue;
            }
            let packed = match done.get(&id) {
                Some(packed) => *packed,
                None => {
                    let name = format!("{}.panels", self.values[id].name);
                    let packed = panels(&known)?.map(|packed| self.add_known(&name, packed));
                    done.insert(id, packed);
                    packed
                }
            };
            drop(known);
            let Some(packed) = packed else { continue };
            let node = &mut self.nodes[number];
            let mut attrs = (*node.attrs).clone();
            attrs.set(PANELS, Attr::Int(columns));
            node.attrs = Arc::new(attrs);
            self.replace_input(&mut reads, number, 1, packed);
        }
        Ok(())
    }

    /// Returns true for each value that is read as anything other than the second input of these
    /// operators.
    pub(crate) fn read_otherwise(&self, operators: &[&str]) -> Vec<bool> {
        let mut others = vec![false; self.values.len()];
        for node in &self.nodes {
            for (index, id) in node.inputs.iter().enumerate() {
                if let Some(id) = id {
                    others[*id] |= index != 1 || !operators.contains(&node.op.name());
                }
            }
        }
        for (_, id) in &self.outputs {
            others[*id] = true;
        }
        others
    }
}
