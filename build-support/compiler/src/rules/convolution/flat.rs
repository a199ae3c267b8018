//! Convolutions with a window of one pixel, of images whose extents are known only when the kernel
//! runs: all pixels of an image are one row, which is read in place.
//!
//! A task computes some pixels of an image, which stay in the L2 cache while all output channels
//! are computed from them. Only the last pixels are copied, where they do not fill the vectors of a
//! register tile.

use super::super::code::{Code, Inputs, Vectors, for_each, in_vectors, memory, serial};
use super::super::row_tiles::Rows;
use super::super::tile::tile;
use super::super::{TargetDescription, shared_kind};
use super::{Convolution, pointwise};
use crate::ir::{Buffer, Expr, ForKind, Operation, Stmt, Var, substitute};

/// The tiling of the convolution.
struct Plan<'a> {
    convolution: &'a Convolution,
    vectors: Vectors,
    /// The output channels and vectors of a register tile.
    height: i64,
    wide: i64,
}

/// Pixels of an image.
struct Part<'a> {
    plan: &'a Plan<'a>,
    inputs: &'a Inputs,
    out: &'a Buffer,
    /// The indices of the image.
    batch: Vec<Expr>,
    /// The first pixel, and the number of all pixels of the image.
    first: Expr,
    total: Expr,
    /// The number of register tiles in a row, and of pixels after them.
    panels: Expr,
    rest: Expr,
    /// The last pixels: `[input channel][pixel]`.
    ends: Buffer,
}

/// Returns the operation, or `None` if the image is not one row.
pub(super) fn operation(convolution: &Convolution, target: &TargetDescription) -> Option<Operation> {
    let is_pixel = convolution.spatial.iter().all(|spatial| (spatial.window, spatial.stride) == (1, 1));
    if !is_pixel || !convolution.source_is_flat() || !convolution.value_is_flat() {
        return None;
    }
    let dtype = convolution.out.output(0).dtype;
    let vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()) };
    let (_, wide) = tile(target, Some(convolution.channels), None);
    let (height, _) = pointwise::heights(target, convolution.channels, wide);
    let across = wide * vectors.lanes;
    let panel_bytes = convolution.depth * across * i64::from(dtype.bits()) / 8;
    // The pixels of a task: a multiple of those of a register tile.
    let chunk = (target.l2_bytes / 4 / panel_bytes).max(1) * across;
    let plan = Plan { convolution, vectors, height, wide };
    let kind = shared_kind(target, None);
    Some(convolution.operation("flat", |inputs, out| {
        let mut code = Code::default();
        let [rows, columns] = &convolution.image;
        let total = code.bind("pixels", rows * columns);
        let parts = code.bind("parts", total.ceil_div(chunk));
        let images = Rows(convolution.batch_vars.iter().cloned().zip(convolution.batch.iter().cloned()).collect());
        code.push(for_each("part", images.total() * &parts, kind, |number, code| {
            let values = images.at(&number.floor_div(&parts));
            let first = code.bind("first", number.floor_mod(&parts) * chunk);
            let own = code.bind("own", (&total - &first).min(chunk));
            let panels = code.bind("panels", own.floor_div(across));
            let rest = code.bind("rest", &own - &panels * across);
            let ends = memory("ends", dtype, &[convolution.depth * across], "global");
            code.alloc(&ends);
            let batch = images.0.iter().map(|(var, _)| substitute(var.expr(), &values)).collect();
            let total = total.clone();
            Part { plan: &plan, inputs, out, batch, first, total, panels, rest, ends }.compute(code);
        }));
        code.finish()
    }))
}

impl Part<'_> {
    /// Emits the results of all channels.
    fn compute(&self, code: &mut Code) {
        let Plan { convolution, vectors, height, wide, .. } = *self.plan;
        let (lanes, across) = (vectors.lanes, wide * vectors.lanes);
        let end = code.bind("end", &self.first + &self.panels * across);
        let copy = serial("c", convolution.depth, |c, code| {
            code.push(in_vectors("x", across, lanes, |x| {
                let pixel = self.inputs.loads(&convolution.source(&self.batch, c, &Expr::int(0), &(&end + x)));
                let pixel = Expr::if_then_else(x.less(&self.rest), pixel, Expr::float(vectors.dtype, 0.0));
                Stmt::store(self.ends.clone(), c * across + x, pixel)
            }));
        });
        code.push(Stmt::if_then(self.rest.greater(0), copy, None));
        let channels = Rows(vec![(convolution.channel.clone(), Expr::int(convolution.channels))]);
        code.push(serial("tile", channels.tiles(height), |tile, code| {
            let channel = code.bind("channel", tile * height);
            code.push(channels.tile(&channel, height, |channels| {
                let of = |wide: i64, start: &Expr, is_end: bool| {
                    let mut code = Code::default();
                    self.tile((&channels.first, channels.height), (wide, start), is_end, &mut code);
                    code.finish()
                };
                let mut code = Code::default();
                code.push(serial("panel", self.panels.clone(), |panel, code| {
                    let start = code.bind("start", &self.first + panel * across);
                    code.push(of(wide, &start, false));
                }));
                let whole = of(wide, &end, true);
                let last = match wide {
                    1 => whole,
                    _ => Stmt::if_then(self.rest.less_equal(lanes), of(1, &end, true), Some(whole)),
                };
                code.push(Stmt::if_then(self.rest.greater(0), last, None));
                code.finish()
            }));
        }));
    }

    /// Emits a register tile of channels and pixels, from `start` on; those at the end are read
    /// from their copy.
    fn tile(&self, (channel, height): (&Expr, i64), (wide, start): (i64, &Expr), is_end: bool, code: &mut Code) {
        let Plan { convolution, vectors, wide: all, .. } = *self.plan;
        let (zero, lanes) = (Expr::int(0), vectors.lanes);
        let c = Var::index("c");
        vectors.tile(
            (height, wide),
            (&[(c.clone(), Expr::int(convolution.depth))], None),
            |row| self.inputs.loads(&convolution.weight(&(channel + row), c.expr(), &zero, &zero)),
            |vector| match is_end {
                true => vectors.load(&self.ends, c.expr() * (all * lanes) + vector * lanes),
                false => {
                    let pixel = start + vector * lanes;
                    vectors.along(&self.inputs.loads(&convolution.source(&self.batch, c.expr(), &zero, &pixel)))
                }
            },
            |row, vector, (sums, at)| {
                let lane = Var::index("x");
                let (pixel, channel) = (start + vector * lanes + &lane, channel + row);
                let sum = Expr::load(sums, at + &lane);
                let value = convolution.value(&self.batch, &channel, &zero, &pixel, &sum);
                let index = self.out.flat_index(&convolution.indices(&self.batch, &channel, &zero, &pixel));
                let store = Stmt::store(self.out.clone(), index, self.inputs.loads(&value));
                let store = match is_end {
                    true => Stmt::if_then(pixel.less(&self.total).likely(), store, None),
                    false => store,
                };
                Stmt::for_loop(lane, 0, lanes, ForKind::Vectorized, store)
            },
            code,
        );
    }
}
