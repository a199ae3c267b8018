//! Convolution of images whose extents are known only when the kernel runs: direct, as a product of
//! the weights of output channels with the pixels of the window.
//!
//! A task computes some rows of an image. It copies the pixels that they need, with the padding, as
//! many rows as half of the L2 cache holds; pixels that adjacent results read lie beside each
//! other, also where columns have a stride. Tiles of channels x pixels stay in registers over all
//! input channels and the window; a last tile with few pixels has one vector.

use super::super::code::{Code, Inputs, Vectors, for_each, in_vectors, serial};
use super::super::row_tiles::Rows;
use super::super::{TargetDescription, shared_kind};
use super::{Convolution, direct};
use crate::ir::{Buffer, Expr, ForKind, Operation, Stmt, Var, substitute};

/// The maximum number of rows of a task.
const MOST_ROWS: i64 = 16;

/// The tiling of the convolution.
struct Plan<'a> {
    convolution: &'a Convolution,
    vectors: Vectors,
    /// The output channels and vectors of a register tile.
    height: i64,
    wide: i64,
}

/// Rows of an image.
struct Band<'a> {
    plan: &'a Plan<'a>,
    inputs: &'a Inputs,
    out: &'a Buffer,
    /// The indices of the image.
    image: Vec<Expr>,
    /// The first row of the result.
    first: Expr,
    /// The number of rows of the source for each input channel, of pixels that a row reads, and of
    /// copied pixels for each remainder of their position by the stride.
    rows: Expr,
    reach: Expr,
    pitch: Expr,
    /// The copied pixels: `[input channel][row][position % stride][position / stride]`.
    pixels: Buffer,
}

/// Returns the operation.
pub(super) fn operation(convolution: &Convolution, target: &TargetDescription) -> Operation {
    let [rows, columns] = &convolution.spatial;
    let dtype = convolution.out.output(0).dtype;
    let vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()) };
    let bytes = i64::from(dtype.bits()) / 8;
    let terms = convolution.depth * rows.window * columns.window;
    let (height, wide) = direct::shape(target, convolution.channels, terms * bytes, 2);
    let plan = Plan { convolution, vectors, height, wide };
    let kind = shared_kind(target, None);
    convolution.operation("ranged", |inputs, out| {
        let mut code = Code::default();
        let [all, width] = &convolution.image;
        let reach = rows.dilation * (rows.window - 1);
        let pixels = (width - 1) * columns.stride + (columns.dilation * (columns.window - 1) + 1);
        let pitch = code.bind("pitch", pixels.ceil_div(columns.stride));
        // As many rows as half of the cache holds, with those that the window needs besides.
        let row_bytes = &pitch * (convolution.depth * columns.stride * bytes);
        let held = Expr::int(target.l2_bytes / 2).floor_div(row_bytes.max(1));
        let count = (held - reach).floor_div(rows.stride).max(1).min(MOST_ROWS).min(all.max(1));
        let count = code.bind("rows", count);
        let bands = code.bind("bands", (all + &count - 1).floor_div(&count));
        let images = Rows(convolution.batch_vars.iter().cloned().zip(convolution.batch.iter().cloned()).collect());
        code.push(for_each("band", images.total() * &bands, kind, |number, code| {
            let values = images.at(&number.floor_div(&bands));
            let first = code.bind("first", number.floor_mod(&bands) * &count);
            let own = code.bind("own", count.min(all - &first));
            let source_rows = code.bind("source_rows", (&own - 1) * rows.stride + (reach + 1));
            let size = &source_rows * &pitch * (convolution.depth * columns.stride);
            let copied = Buffer::new("pixels", dtype, [&size + wide * vectors.lanes], "global");
            code.alloc(&copied);
            let image = images.0.iter().map(|(var, _)| substitute(var.expr(), &values)).collect();
            let (rows, reach, pitch) = (source_rows, pixels.clone(), pitch.clone());
            let band = Band { plan: &plan, inputs, out, image, first, rows, reach, pitch, pixels: copied };
            band.copy(code);
            // The last vectors also load elements after the last row. Their results are not stored.
            for vector in 0..wide {
                code.push(vectors.store(&band.pixels, &size + vector * vectors.lanes, vectors.splat(0.0)));
            }
            band.tiles(&own, code);
        }));
        code.finish()
    })
}

impl Band<'_> {
    /// Emits the copy of the source.
    fn copy(&self, code: &mut Code) {
        let Plan { convolution, vectors, .. } = self.plan;
        let [rows, columns] = &convolution.spatial;
        let start = &self.first * rows.stride;
        code.push(serial("c", convolution.depth, |c, code| {
            code.push(serial("row", self.rows.clone(), |row, code| {
                for remainder in 0..columns.stride {
                    let place = ((c * &self.rows + row) * columns.stride + remainder) * &self.pitch;
                    let place = code.bind("place", place);
                    code.push(in_vectors("x", self.pitch.clone(), vectors.lanes, |x| {
                        let at = x * columns.stride + remainder;
                        let pixel = self.inputs.loads(&convolution.source(&self.image, c, &(&start + row), &at));
                        let is_read = at.less(&self.reach);
                        let pixel = match columns.stride {
                            1 => pixel,
                            // The last element for a remainder may be behind the image.
                            _ => Expr::if_then_else(is_read, pixel, Expr::float(vectors.dtype, 0.0)),
                        };
                        Stmt::store(self.pixels.clone(), &place + x, pixel)
                    }));
                }
            }));
        }));
    }

    /// Emits the results of all channels of some rows.
    fn tiles(&self, rows: &Expr, code: &mut Code) {
        let Plan { convolution, vectors, height, wide } = *self.plan;
        let (width, across) = (&convolution.image[1], wide * vectors.lanes);
        let channels = Rows(vec![(convolution.channel.clone(), Expr::int(convolution.channels))]);
        code.push(serial("tile", channels.tiles(height), |tile, code| {
            let channel = code.bind("channel", tile * height);
            code.push(channels.tile(&channel, height, |channels| {
                serial("y", rows.clone(), |y, code| {
                    code.push(serial("panel", width.ceil_div(across), |panel, code| {
                        let x = code.bind("x", panel * across);
                        let of_width = |wide: i64| {
                            let mut code = Code::default();
                            self.tile((&channels.first, channels.height), (y, &x), wide, &mut code);
                            code.finish()
                        };
                        let is_narrow = (width - &x).less_equal(vectors.lanes);
                        code.push(match wide {
                            1 => of_width(1),
                            _ => Stmt::if_then(is_narrow, of_width(1), Some(of_width(wide))),
                        });
                    }));
                })
            }));
        }));
    }

    /// Emits a register tile of channels and pixels of a row.
    fn tile(&self, (channel, height): (&Expr, i64), (y, x): (&Expr, &Expr), wide: i64, code: &mut Code) {
        let Plan { convolution, vectors, .. } = *self.plan;
        let [rows, columns] = &convolution.spatial;
        let (c, ky, kx) = (Var::index("c"), Var::index("ky"), Var::index("kx"));
        let loops = [(&c, convolution.depth), (&ky, rows.window), (&kx, columns.window)]
            .map(|(var, extent)| (var.clone(), Expr::int(extent)));
        let row = y * rows.stride + ky.expr() * rows.dilation;
        let step = kx.expr() * columns.dilation;
        let line = (c.expr() * &self.rows + row) * columns.stride + step.floor_mod(columns.stride);
        let base = line * &self.pitch + x + step.floor_div(columns.stride);
        let y = code.bind("y", &self.first + y);
        vectors.tile(
            (height, wide),
            (&loops, None),
            |number| self.inputs.loads(&convolution.weight(&(channel + number), c.expr(), ky.expr(), kx.expr())),
            |vector| vectors.load(&self.pixels, &base + vector * vectors.lanes),
            |number, vector, (sums, at)| {
                let lane = Var::index("x");
                let (pixel, channel) = (x + vector * vectors.lanes + &lane, channel + number);
                let sum = Expr::load(sums, at + &lane);
                let value = convolution.value(&self.image, &channel, &y, &pixel, &sum);
                let index = self.out.flat_index(&convolution.indices(&self.image, &channel, &y, &pixel));
                let store = Stmt::store(self.out.clone(), index, self.inputs.loads(&value));
                let store = Stmt::if_then(pixel.less(&convolution.image[1]).likely(), store, None);
                Stmt::for_loop(lane, 0, vectors.lanes, ForKind::Vectorized, store)
            },
            code,
        );
    }
}
