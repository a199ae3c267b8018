//! The source and the result of Winograd's algorithm for an image. Transforms work on vectors of
//! channels, so blocks of channels x pixels of a row are transposed when they are read and written.

use super::super::super::code::{Code, Inputs, Vectors, in_vectors, memory, serial};
use super::super::Convolution;
use crate::ir::{Buffer, Expr, ForKind, Stmt, Var};

/// An image.
pub(super) struct Image<'a> {
    pub(super) convolution: &'a Convolution,
    pub(super) inputs: &'a Inputs,
    pub(super) out: &'a Buffer,
    /// The indices of the image.
    pub(super) batch: &'a [Expr],
    pub(super) vectors: Vectors,
}

impl Image<'_> {
    /// Emits the copy of a block of the source, from a channel, row and column on: `write` stores
    /// the channels of a pixel. Pixels after the `extents` of the source are zeros.
    pub(super) fn read(
        &self,
        channel: &Expr,
        (y, x): (&Expr, &Expr),
        extents: &[Expr; 2],
        write: impl Fn(i64, Expr) -> Stmt,
        code: &mut Code,
    ) {
        let Self { convolution, inputs, batch, vectors, .. } = *self;
        let lanes = vectors.lanes;
        let block = memory("block", vectors.dtype, &[lanes, lanes], "local");
        code.alloc(&block);
        code.push(serial("channel", lanes, |own, code| {
            code.push(in_vectors("x", lanes, lanes, |lane| {
                let x = x + lane;
                let value = inputs.loads(&convolution.source(batch, &(channel + own), y, &x));
                let inside = y.less(&extents[0]).and(x.less(&extents[1]));
                let value = Expr::if_then_else(inside, value, Expr::float(vectors.dtype, 0.0));
                Stmt::store(block.clone(), own * lanes + lane, value)
            }));
        }));
        let rows = (0..lanes).map(|row| code.bind("row", vectors.load(&block, Expr::int(row * lanes)))).collect();
        for (x, column) in vectors.transposed(rows, code).into_iter().enumerate() {
            code.push(write(x as i64, column));
        }
    }

    /// Emits the results of a block of channels and pixels of a row: `pixels` has them from `start`
    /// on, `[pixel][channel]`. Columns before `limit` are written.
    pub(super) fn write(
        &self,
        (pixels, start): (&Buffer, &Expr),
        channel: &Expr,
        (y, x): (&Expr, &Expr),
        limit: Option<&Expr>,
        code: &mut Code,
    ) {
        let Self { convolution, inputs, out, batch, vectors } = *self;
        let lanes = vectors.lanes;
        let turned = memory("turned", vectors.dtype, &[lanes, lanes], "local");
        code.alloc(&turned);
        let rows = (0..lanes).map(|x| code.bind("row", vectors.load(pixels, start + x * lanes))).collect();
        for (channel, values) in vectors.transposed(rows, code).into_iter().enumerate() {
            code.push(vectors.store(&turned, Expr::int(channel as i64 * lanes), values));
        }
        code.push(serial("channel", lanes, |own, code| {
            let channel = channel + own;
            let lane = Var::index("x");
            let x = x + &lane;
            let sum = Expr::load(&turned, own * lanes + &lane);
            let value = inputs.loads(&convolution.value(batch, &channel, y, &x, &sum));
            let index = out.flat_index(&convolution.indices(batch, &channel, y, &x));
            let mut store = Stmt::store(out.clone(), index, value);
            if let Some(limit) = limit {
                store = Stmt::if_then(x.less(limit).likely(), store, None);
            }
            code.push(Stmt::for_loop(lane, 0, lanes, ForKind::Vectorized, store));
        }));
    }
}
