//! The convolution itself: rows of a product are output channels, its columns are pixels, and the sum goes over input channels and the window.
//!
//! The source is copied once, with what is around the image, so that pixels that neighbours of the result read are beside each other: one plane for each
//! remainder of the position by the stride. Columns then run over whole rows of such a plane, with a few pixels at the end of each row that are not kept: the
//! vectors of all positions of the window are loaded from the copy as they are. Weights are read in place.

use super::super::TargetDescription;
use super::super::code::{Code, Vectors, for_each, in_vectors, memory, serial};
use super::super::tile::tile;
use super::Convolution;
use super::planes::Copied;
use crate::ir::{Expr, Operation, Stmt, Var};

pub(super) fn operation(convolution: &Convolution, target: &TargetDescription) -> Operation {
    let dtype = convolution.out.output(0).dtype;
    let vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()) };
    let [rows, columns] = &convolution.spatial;
    let shared = convolution.shared_kind(target);
    let (depth, channels) = (convolution.depth, convolution.channels);
    // Columns of the product, rows one after the other without the end of the last one.
    let pitch = Copied::of(convolution, 0).pitch();
    let width = (rows.extent - 1) * pitch + columns.extent;
    let terms = depth * rows.window * columns.window;
    let few = (width + vectors.lanes - 1) / vectors.lanes;
    let (height, per_row) = shape(target, channels, terms * i64::from(dtype.bits()) / 8, few);
    let panel = per_row * vectors.lanes;
    let panels = (width + panel - 1) / panel;
    let tiles = (channels + height - 1) / height;
    let last_height = channels - height * (tiles - 1);
    let copied = Copied::of(convolution, panel);

    convolution.operation("direct", |inputs, out| {
        let image = |batch: &[Expr], code: &mut Code| {
            copied.fill((convolution, inputs, batch), vectors, shared, code);
            // What the last vectors read behind the last plane is not kept, but it is read.
            for vector in 0..per_row {
                let index = Expr::int(copied.size() + vector * vectors.lanes);
                code.push(vectors.store(&copied.buffer, index, vectors.splat(0.0)));
            }
            // The product, a tile of channels at a time.
            let channels_of = |first: &Expr, height: i64, code: &mut Code| {
                let sums = memory("rows", dtype, &[height, panels * panel], "global");
                code.alloc(&sums);
                let columns_of = |start: &Expr, wide: i64, code: &mut Code| {
                    let (c, ky, kx) = (Var::index("c"), Var::index("ky"), Var::index("kx"));
                    let loops = [(c.clone(), depth), (ky.clone(), rows.window), (kx.clone(), columns.window)];
                    let base = copied.place(convolution, c.expr(), ky.expr(), kx.expr()) + start;
                    vectors.tile(
                        (height, wide),
                        (&loops, None),
                        |row| inputs.loads(&convolution.weight(&(first + row), c.expr(), ky.expr(), kx.expr())),
                        |vector| vectors.load(&copied.buffer, &base + vector * vectors.lanes),
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
                            let sum = Expr::load(&sums, row * (panels * panel) + y * pitch + x);
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
