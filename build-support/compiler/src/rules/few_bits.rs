//! Weights of a few bits as the second operand of a product in panels, with a scale and a zero
//! point for each block of terms and each column:
//! `(B[j / 16 / p, k, j % 16] >> 8 / p * (j / 16 % p) & mask) - Z[k / n, j]) * S[k / n, j]`, where
//! a byte has the weights of `p` panels.
//!
//! Weights are widened in registers when a tile reads them. Scales and zero points of a block are
//! read once for all of its terms.

use super::code::{Inputs, Vectors};
use super::panels::COLUMNS;
use super::pattern::{axis_of, extent_of};
use crate::ir::visit::for_each_expr;
use crate::ir::{BinaryOp, Expr, ExprNode, F32, I32, IterVar, Tensor, U8};

/// The zero point of weights.
enum Offset {
    /// The same for all.
    Number(f64),
    /// One for each block and each column: a read.
    Blocks(Expr),
}

/// Packed weights. Tensors are those that the expressions read.
pub(crate) struct FewBits {
    bytes: Expr,
    offset: Offset,
    scale: Expr,
    /// The number of weights of a byte.
    parts: i64,
    /// The number of terms of a block.
    pub(crate) block: i64,
    /// The number of columns of scales and zero points, with those behind the last column.
    pitch: i64,
}

/// Returns the extents of a tensor, if they are constant.
fn shape_of(tensor: &Tensor) -> Option<Vec<i64>> {
    tensor.shape.iter().map(|extent| extent.as_int()).collect()
}

/// Returns the tensor that an expression reads.
fn tensor_of(read: &Expr) -> Option<&Tensor> {
    match &**read {
        ExprNode::TensorRead { tensor, .. } => Some(tensor),
        _ => None,
    }
}

/// Returns the extents of the tensor of a read at `[k / n, column]`, with `n`.
fn of_blocks(read: &Expr, column: &IterVar, depth: &IterVar) -> Option<(Vec<i64>, i64)> {
    let ExprNode::TensorRead { tensor, indices } = &**read else { return None };
    let [block, at] = &indices.to_vec()[..] else { return None };
    let axes = [column.clone(), depth.clone()];
    let ExprNode::Binary { op: BinaryOp::FloorDiv, a, b, .. } = &**block else { return None };
    let is_read = axis_of(a, &axes) == Some(depth) && axis_of(at, &axes) == Some(column) && tensor.dtype == F32;
    let size = b.as_int().filter(|size| is_read && *size > 0)?;
    Some((shape_of(tensor)?, size))
}

/// Returns the weight of a column: the bits of a byte that has weights of adjacent panels.
pub fn weight_of(byte: &Expr, column: &Expr, bits: i64) -> Expr {
    let wide = byte.cast(I32);
    if bits == 8 {
        return wide.cast(F32);
    }
    let part = column.floor_div(COLUMNS).floor_mod(8 / bits);
    let shifted = Expr::binary(BinaryOp::ShiftRight, wide, (part * bits).cast(I32));
    Expr::binary(BinaryOp::BitAnd, shifted, Expr::constant(I32, (1 << bits) - 1)).cast(F32)
}

/// Returns the read of the bytes of weights, the number of weights of each, and the number of
/// panels.
fn packed(weight: &Expr, column: &IterVar, depth: &IterVar) -> Option<(Expr, i64, i64)> {
    let mut reads = Vec::new();
    for_each_expr(weight, |part| {
        if tensor_of(part).is_some() {
            reads.push(part.clone());
        }
    });
    let [read] = &reads[..] else { return None };
    let ExprNode::TensorRead { tensor, indices } = &**read else { return None };
    let [panel, row, lane] = &indices.to_vec()[..] else { return None };
    let axes = [column.clone(), depth.clone()];
    let divisor = |index: &Expr, wanted: BinaryOp| match &**index {
        ExprNode::Binary { op, a, b, .. } if *op == wanted && axis_of(a, &axes) == Some(column) => b.as_int(),
        _ => None,
    };
    let across = divisor(panel, BinaryOp::FloorDiv)?;
    let parts = [1, 2, 4].into_iter().find(|parts| parts * COLUMNS == across)?;
    let (columns, terms) = (extent_of(column)?, extent_of(depth)?);
    let panels = (columns + across - 1) / across;
    let fits = divisor(lane, BinaryOp::FloorMod) == Some(COLUMNS)
        && axis_of(row, &axes) == Some(depth)
        && tensor.dtype == U8
        && shape_of(tensor)? == [panels, terms, COLUMNS];
    let formula = weight_of(read, column.var.expr(), 8 / parts);
    let is_formula = kernpack::structural::equal(weight, &formula).unwrap_or(false);
    (fits && is_formula).then(|| (read.clone(), parts, panels))
}

impl FewBits {
    /// Reads the parts of an operand.
    pub(crate) fn of(operand: &Expr, column: &IterVar, depth: &IterVar) -> Option<Self> {
        let ExprNode::Binary { op: BinaryOp::Mul, a: shifted, b: scale, .. } = &**operand else { return None };
        let ExprNode::Binary { op: BinaryOp::Sub, a: weight, b: offset, .. } = &**shifted else { return None };
        let (bytes, parts, panels) = packed(weight, column, depth)?;
        let (shape, block) = of_blocks(scale, column, depth)?;
        let terms = extent_of(depth)?;
        let pitch = panels * parts * COLUMNS;
        let fits = terms % block == 0 && shape == [terms / block, pitch];
        let is_same =
            |other: &Expr| of_blocks(other, column, depth).is_some_and(|found| found == (shape.clone(), block));
        let offset = match offset.as_float() {
            Some(number) => Offset::Number(number),
            None if is_same(offset) => Offset::Blocks(offset.clone()),
            None => return None,
        };
        fits.then(|| Self { bytes, offset, scale: scale.clone(), parts, block, pitch })
    }

    /// Returns the reads for modification.
    pub(crate) fn reads(&mut self) -> Vec<&mut Expr> {
        let mut reads = vec![&mut self.bytes, &mut self.scale];
        if let Offset::Blocks(offset) = &mut self.offset {
            reads.push(offset);
        }
        reads
    }

    /// Loads the vector of weights from a column on: that of a term of a block.
    pub(crate) fn load(
        &self,
        inputs: &Inputs,
        vectors: Vectors,
        from: &Expr,
        (block, term): (&Expr, &Expr),
        terms: i64,
    ) -> Expr {
        let lanes = u16::try_from(vectors.lanes).unwrap_or(1);
        let k = block * self.block + term;
        let place = (from.floor_div(COLUMNS * self.parts) * terms + k) * COLUMNS + from.floor_mod(COLUMNS);
        let read = |read: &Expr, place: &Expr| {
            let tensor = tensor_of(read).expect("it is a read");
            Expr::load(&inputs.buffer(tensor), place.ramp(1, lanes))
        };
        let bytes = read(&self.bytes, &place).cast(I32);
        let bits = 8 / self.parts;
        let weights = if self.parts == 1 {
            bytes
        } else {
            let shift = (from.floor_div(COLUMNS).floor_mod(self.parts) * bits).cast(I32).broadcast(lanes);
            let mask = Expr::constant(I32, (1 << bits) - 1).broadcast(lanes);
            Expr::binary(BinaryOp::BitAnd, Expr::binary(BinaryOp::ShiftRight, bytes, shift), mask)
        };
        let place = block * self.pitch + from;
        let offset = match &self.offset {
            Offset::Number(number) => vectors.splat(*number),
            Offset::Blocks(offset) => read(offset, &place),
        };
        (weights.cast(vectors.dtype) - offset) * read(&self.scale, &place)
    }
}
