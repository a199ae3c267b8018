//! The convolution itself: rows of a product are output channels, its columns are pixels, and the sum goes over input channels and the window.
//!
//! The source is copied once, with what is around the image, so that pixels that neighbours of the result read are beside each other: one plane for each
//! remainder of the position by the stride. Columns then run over whole rows of such a plane, with a few pixels at the end of each row that are not kept: the
//! vectors of all positions of the window are loaded from the copy as they are. Weights are read in place.

use super::super::TargetDescription;
use super::super::code::{Code, Vectors, for_each, in_vectors, memory, serial};
use super::super::tile::tile;
use super::{Convolution, Spatial};
use crate::ir::{Expr, Operation, Stmt, Var};

/// The planes of one dimension.
struct Planes {
    /// Remainders by the stride that the window has.
    remainders: Vec<i64>,
    /// For each position of the window: which plane, and how many pixels further.
    positions: Vec<(i64, i64)>,
    /// Pixels of a plane.
    extent: i64,
}

impl Planes {
    fn of(spatial: &Spatial) -> Self {
        let mut remainders = Vec::new();
        let mut positions = Vec::new();
        for window in 0..spatial.window {
            let at = window * spatial.dilation;
            let remainder = at % spatial.stride;
            let plane = remainders.iter().position(|other| *other == remainder).unwrap_or_else(|| {
                remainders.push(remainder);
                remainders.len() - 1
            });
            positions.push((plane as i64, at / spatial.stride));
        }
        let furthest = positions.iter().map(|(_, offset)| *offset).max().unwrap_or(0);
        Self { remainders, positions, extent: spatial.extent + furthest }
    }

    /// Plane and offset as expressions of the position in the window.
    fn position(&self, spatial: &Spatial, window: &Expr) -> (Expr, Expr) {
        if let ([(plane, offset)], true) = (&self.positions[..], true) {
            return (Expr::int(*plane), Expr::int(*offset));
        }
        let at = window * spatial.dilation;
        if spatial.stride == 1 {
            return (Expr::int(0), at);
        }
        // Planes are in the order in which the window meets them: with gaps of 1 that is the remainder itself.
        if spatial.dilation == 1 {
            return (at.floor_mod(spatial.stride), at.floor_div(spatial.stride));
        }
        let pick = |part: fn(&(i64, i64)) -> i64| {
            let last = Expr::int(self.positions.last().map_or(0, part));
            self.positions.iter().enumerate().rev().skip(1).fold(last, |rest, (index, position)| {
                Expr::select(window.equals(index as i64), Expr::int(part(position)), rest)
            })
        };
        (pick(|position| position.0), pick(|position| position.1))
    }
}

pub(super) fn operation(convolution: &Convolution, target: &TargetDescription) -> Operation {
    let dtype = convolution.out.output(0).dtype;
    let vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()) };
    let [rows, columns] = &convolution.spatial;
    let shared = convolution.shared_kind(target);
    let (planes_y, planes_x) = (Planes::of(rows), Planes::of(columns));
    let plane = planes_y.extent * planes_x.extent;
    let (count_y, count_x) = (planes_y.remainders.len() as i64, planes_x.remainders.len() as i64);
    let (depth, channels) = (convolution.depth, convolution.channels);
    // Columns of the product, rows one after the other without the end of the last one.
    let width = (rows.extent - 1) * planes_x.extent + columns.extent;
    let terms = depth * rows.window * columns.window;
    let few = (width + vectors.lanes - 1) / vectors.lanes;
    let (height, per_row) = shape(target, channels, terms * i64::from(dtype.bits()) / 8, few);
    let panel = per_row * vectors.lanes;
    let panels = (width + panel - 1) / panel;
    let tiles = (channels + height - 1) / height;
    let last_height = channels - height * (tiles - 1);
    let copied = memory("pixels", dtype, &[depth * count_y * count_x * plane + panel], "global");

    convolution.operation("direct", |inputs, out| {
        let image = |batch: &[Expr], code: &mut Code| {
            code.alloc(&copied);
            // The copy.
            code.push(for_each("c", depth, shared, |c, code| {
                for (a, remainder_y) in planes_y.remainders.iter().enumerate() {
                    for (b, remainder_x) in planes_x.remainders.iter().enumerate() {
                        let base = ((c * count_y + a as i64) * count_x + b as i64) * plane;
                        code.push(serial("y", planes_y.extent, |y, code| {
                            let at_y = y * rows.stride + *remainder_y;
                            code.push(in_vectors("x", planes_x.extent, vectors.lanes, |x| {
                                let at_x = x * columns.stride + *remainder_x;
                                let mut value = inputs.loads(&convolution.source(batch, c, &at_y, &at_x));
                                // Planes are as long as the longest: their ends can be outside of the source.
                                let ends =
                                    [(rows, &planes_y, *remainder_y, &at_y), (columns, &planes_x, *remainder_x, &at_x)];
                                for (spatial, planes, remainder, at) in ends {
                                    if (planes.extent - 1) * spatial.stride + remainder >= spatial.source() {
                                        value = Expr::if_then_else(
                                            at.less(spatial.source()),
                                            value,
                                            Expr::float(dtype, 0.0),
                                        );
                                    }
                                }
                                Stmt::store(copied.clone(), &base + y * planes_x.extent + x, value)
                            }));
                        }));
                    }
                }
            }));
            // What the last vectors read behind the last plane is not kept, but it is read.
            for vector in 0..per_row {
                let index = Expr::int(depth * count_y * count_x * plane + vector * vectors.lanes);
                code.push(vectors.store(&copied, index, vectors.splat(0.0)));
            }
            // The product, a tile of channels at a time.
            let channels_of = |first: &Expr, height: i64, code: &mut Code| {
                let sums = memory("rows", dtype, &[height, panels * panel], "global");
                code.alloc(&sums);
                let columns_of = |start: &Expr, wide: i64, code: &mut Code| {
                    let (c, ky, kx) = (Var::index("c"), Var::index("ky"), Var::index("kx"));
                    let loops = [(c.clone(), depth), (ky.clone(), rows.window), (kx.clone(), columns.window)];
                    let (plane_y, offset_y) = planes_y.position(rows, ky.expr());
                    let (plane_x, offset_x) = planes_x.position(columns, kx.expr());
                    let base = ((c.expr() * count_y + plane_y) * count_x + plane_x) * plane
                        + offset_y * planes_x.extent
                        + offset_x
                        + start;
                    vectors.tile(
                        (height, wide),
                        &loops,
                        |row| inputs.loads(&convolution.weight(&(first + row), c.expr(), ky.expr(), kx.expr())),
                        |vector| vectors.load(&copied, &base + vector * vectors.lanes),
                        |row, vector, (tile, at)| {
                            let sum = vectors.load(tile, at);
                            vectors.store(&sums, start + (row * panels * panel + vector * vectors.lanes), sum)
                        },
                        code,
                    );
                };
                // The last columns may need fewer vectors.
                let rest = (width - (panels - 1) * panel + vectors.lanes - 1) / vectors.lanes;
                let full = if rest < per_row { panels - 1 } else { panels };
                if full > 0 {
                    code.push(serial("panel", full, |at, code| columns_of(&(at * panel), per_row, code)));
                }
                if full < panels {
                    code.push(serial("panel", 1, |_, code| columns_of(&Expr::int(full * panel), rest, code)));
                }
                code.push(serial("row", height, |row, code| {
                    code.push(serial("y", rows.extent, |y, code| {
                        code.push(in_vectors("x", columns.extent, vectors.lanes, |x| {
                            let sum = Expr::load(&sums, row * (panels * panel) + y * planes_x.extent + x);
                            let channel = first + row;
                            let value = inputs.loads(&convolution.value(batch, &channel, y, x, &sum));
                            Stmt::store(out.clone(), out.flat_index(&convolution.indices(batch, &channel, y, x)), value)
                        }));
                    }));
                }));
            };
            code.push(for_each("tile", tiles, shared, |at, code| {
                let first = at * height;
                let whole = |height: i64| {
                    let mut code = Code::default();
                    channels_of(&first, height, &mut code);
                    code.finish()
                };
                if last_height == height {
                    code.push(whole(height));
                } else {
                    code.push(Stmt::if_then(at.less(tiles - 1), whole(height), Some(whole(last_height))));
                }
            }));
        };
        over_batch(&convolution.batch, &mut Vec::new(), &image)
    })
}

/// Loops over the dimensions before the channels.
pub(super) fn over_batch(extents: &[Expr], indices: &mut Vec<Expr>, body: &dyn Fn(&[Expr], &mut Code)) -> Stmt {
    let Some((extent, rest)) = extents.split_first() else {
        let mut code = Code::default();
        body(indices, &mut code);
        return code.finish();
    };
    let mut run = |index: Expr| {
        indices.push(index);
        let inner = over_batch(rest, indices, body);
        indices.pop();
        inner
    };
    if extent.is_int(1) {
        return run(Expr::int(0));
    }
    let var = Var::index("n");
    let inner = run((&var).into());
    Stmt::for_loop(var, 0, extent, crate::ir::ForKind::Serial, inner)
}

/// Rows and vectors of a tile, for `rows` rows in all.
fn shape(target: &TargetDescription, rows: i64, row_bytes: i64, vectors: i64) -> (i64, i64) {
    let (mut height, mut wide) = tile(target, Some(rows), Some(row_bytes));
    if vectors <= 4 && vectors > 2 && target.vector_registers >= 32 {
        // All columns at once: the weights are read once.
        let most = (target.vector_registers - vectors - 1) / vectors;
        let tiles = (rows + most - 1) / most;
        (height, wide) = ((rows + tiles - 1) / tiles, vectors);
    } else if target.vector_registers >= 32 && height * wide + wide + 1 >= target.vector_registers - 1 {
        // Three loops around the sums: LLVM keeps all of them in registers only if one is to spare.
        let tiles = (rows + height - 2) / (height - 1);
        height = (rows + tiles - 1) / tiles;
    }
    (height, wide.min(vectors))
}
