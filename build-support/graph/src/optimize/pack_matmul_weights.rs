//! Packs the weights of matrix products in panels, the order in which the compiler's rule `panels`
//! reads them.

use std::collections::HashMap;
use std::sync::Arc;

use kernpack_compiler::ir::{BF16, F16, F32};

use crate::attrs::Attr;
use crate::constant::{Constant, element_bytes};
use crate::error::Result;
use crate::graph::{Graph, ValueId};
use crate::op::matmul::{PANELS, WIDTH};

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
    /// Packs known matrices of products in the order in which the compiler's rule `panels` reads
    /// them, so that no call copies them.
    ///
    /// # Errors
    /// Only errors of tensors.
    pub(crate) fn pack_matmul_weights(&mut self) -> Result<()> {
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
}
