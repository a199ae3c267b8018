//! Transposes weights to the order in which products read them.
//!
//! Exporters write dense layers as `Gemm` with `transB`: one row of the matrix for each output.
//! Vectorization over outputs needs them to be contiguous, so known matrices are transposed here.

use std::collections::HashMap;
use std::sync::Arc;

use crate::attrs::Attr;
use crate::constant::{Constant, element_bytes};
use crate::error::Result;
use crate::graph::{Graph, ValueId};

/// The minimum number of outputs. With fewer, each is the sum of a row of the matrix, if the row is
/// long.
const LEAST: i64 = 16;
const LONG: i64 = 64;

impl Graph {
    /// Transposes the known matrices of `Gemm` with `transB`.
    ///
    /// # Errors
    /// Only errors of tensors.
    pub(crate) fn transpose_weights(&mut self) -> Result<()> {
        let mut done: HashMap<ValueId, ValueId> = HashMap::new();
        let mut reads = self.reads();
        for number in 0..self.nodes.len() {
            let node = &self.nodes[number];
            let Some(Some(matrix)) = node.inputs.get(1).copied() else { continue };
            if node.op.name() != "Gemm" || !node.attrs.flag("transB", false)? {
                continue;
            }
            let Some(known) = &self.values[matrix].known else { continue };
            if matches!(known.shape(), [outputs, depth] if *outputs < LEAST && *depth >= LONG) {
                continue;
            }
            let turned = match done.get(&matrix) {
                Some(turned) => *turned,
                None => {
                    let Some(constant) = transposed(known)? else { continue };
                    let name = format!("{}.turned", self.values[matrix].name);
                    let turned = self.add_known(&name, constant);
                    done.insert(matrix, turned);
                    turned
                }
            };
            let node = &mut self.nodes[number];
            let mut attrs = (*node.attrs).clone();
            attrs.set("transB", Attr::Int(0));
            node.attrs = Arc::new(attrs);
            self.replace_input(&mut reads, number, 1, turned);
        }
        Ok(())
    }
}

/// Transposes a matrix. Returns `None` if it is not a matrix.
fn transposed(matrix: &Constant) -> Result<Option<Constant>> {
    let &[rows, columns] = matrix.shape() else { return Ok(None) };
    let width = element_bytes(matrix.dtype());
    let (Ok(count), Ok(length)) = (usize::try_from(rows), usize::try_from(columns)) else { return Ok(None) };
    let bytes = matrix.bytes();
    if width == 0 || bytes.len() != count * length * width {
        return Ok(None);
    }
    let mut turned = Vec::with_capacity(bytes.len());
    for column in 0..length {
        for row in 0..count {
            let place = (row * length + column) * width;
            turned.extend_from_slice(&bytes[place..place + width]);
        }
    }
    Constant::new(matrix.dtype(), &[columns, rows], turned).map(Some)
}
