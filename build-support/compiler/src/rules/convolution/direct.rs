//! Direct convolution: the rows of a product are output channels, its columns are pixels, and the
//! sum is over input channels and the window.
//!
//! The source is copied once, with its padding, so that pixels that adjacent results read are
//! adjacent. Vectors for all positions of the window are loaded directly from the copy, and weights
//! are read in place. The mapping of the product's columns to the image is a [`Layout`].

use super::super::TargetDescription;
use super::super::code::{Code, Inputs, Vectors, for_each, in_vectors, memory, serial};
use super::super::tile::tile;
use super::Convolution;
use super::planes::Copied;
use crate::ir::{Buffer, Expr, ForKind, Operation, Stmt, Var};

/// The approximate cost of copying a vector, relative to a multiply-add.
const COPY: i64 = 4;

/// The mapping of the product's columns to the image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Image rows are separate: they consist of whole vectors. Results are written from registers.
    Rows,
    /// All pixels are one row: for each column of the window there is a copy with exactly the
    /// pixels of the result. Results are written from registers.
    Flat,
    /// All pixels are one row, with a few unused ones at the end of each image row. Results are
    /// staged in memory.
    Staged,
}

impl Layout {
    fn of(convolution: &Convolution, lanes: i64) -> Self {
        let [rows, columns] = &convolution.spatial;
        if columns.extent % lanes == 0 {
            return Self::Rows;
        }
        // For each image row and input channel: the pixels that are computed but unused, and those
        // that are copied once more.
        let not_kept = (Copied::of(convolution, false, 0).pitch() - columns.extent)
            * rows.window
            * columns.window
            * convolution.channels;
        let copied =
            (columns.window - columns.window.min(columns.stride)) * columns.extent * rows.stride.min(rows.window);
        if convolution.value_is_flat() && not_kept > copied * COPY { Self::Flat } else { Self::Staged }
    }
}

/// The tiling of the product.
struct Plan {
    layout: Layout,
    vectors: Vectors,
    /// The kind of loops that can be distributed over threads.
    shared: ForKind,
    /// The rows of a register tile, and the number of such tiles.
    height: i64,
    tiles: i64,
    /// The vectors of a register tile.
    wide: i64,
    /// The pixels of a line of columns, and the number of such lines.
    width: i64,
    lines: i64,
    /// The number of bytes of the L2 cache that a chunk may use.
    chunk_bytes: i64,
    copied: Copied,
}

pub(super) fn operation(convolution: &Convolution, target: &TargetDescription) -> Operation {
    let dtype = convolution.out.output(0).dtype;
    let vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()) };
    let [rows, columns] = &convolution.spatial;
    let channels = convolution.channels;
    let layout = Layout::of(convolution, vectors.lanes);
    let is_apart = layout == Layout::Flat;
    let (width, lines) = match layout {
        Layout::Rows => (columns.extent, rows.extent),
        Layout::Flat => (rows.extent * columns.extent, 1),
        // Consecutive rows, without the end of the last one.
        Layout::Staged => ((rows.extent - 1) * Copied::of(convolution, false, 0).pitch() + columns.extent, 1),
    };
    let terms = convolution.depth * rows.window * columns.window;
    let few = (width + vectors.lanes - 1) / vectors.lanes;
    let (height, wide) = shape(target, channels, terms * i64::from(dtype.bits()) / 8, few);
    let plan = Plan {
        layout,
        vectors,
        shared: convolution.shared_kind(target),
        height,
        tiles: (channels + height - 1) / height,
        wide,
        width,
        lines,
        chunk_bytes: target.l2_bytes / 4,
        copied: Copied::of(convolution, is_apart, wide * vectors.lanes),
    };
    convolution.operation("direct", |inputs, out| {
        over_batch(&convolution.batch, &mut Vec::new(), &|batch, code| {
            let image = Image { plan: &plan, convolution, inputs, batch, out };
            plan.copied.fill((convolution, inputs, batch), vectors, plan.shared, code);
            // Elements after the last plane are read by the last vectors, though the results are
            // unused.
            for vector in 0..wide {
                let index = Expr::int(plan.copied.size() + vector * vectors.lanes);
                code.push(vectors.store(&plan.copied.buffer, index, vectors.splat(0.0)));
            }
            if layout == Layout::Staged { image.staged(code) } else { image.chunks(code) }
        })
    })
}

/// The product for one image.
struct Image<'a> {
    plan: &'a Plan,
    convolution: &'a Convolution,
    inputs: &'a Inputs,
    batch: &'a [Expr],
    out: &'a Buffer,
}

impl Image<'_> {
    /// Emits the product in chunks of columns, which stay in the L2 cache while the channels are
    /// processed.
    fn chunks(&self, code: &mut Code) {
        let Plan { vectors, shared, tiles, wide, width, lines, chunk_bytes, layout, .. } = *self.plan;
        let [rows, columns] = &self.convolution.spatial;
        let across = wide * vectors.lanes;
        let (full, rest) = (width / across, width % across);
        // The units of a chunk: lines, or panels if there is only one line.
        let (units, unit) = if layout == Layout::Rows { (lines, width) } else { (full, across) };
        let bytes = self.convolution.depth * rows.window * columns.window * unit * i64::from(vectors.dtype.bits()) / 8;
        let most = (chunk_bytes / bytes.max(1)).clamp(1, units.max(1));
        let chunks = ((units + most - 1) / most).max(1);
        let size = ((units + chunks - 1) / chunks).max(1);
        code.push(for_each("part", chunks * tiles, shared, |part, code| {
            let at = if tiles == 1 { Expr::int(0) } else { part.floor_mod(tiles) };
            let chunk = if chunks == 1 { Expr::int(0) } else { part.floor_div(tiles) };
            let begin = code.bind("begin", &chunk * size);
            let count =
                if units % size == 0 { Expr::int(size) } else { (Expr::int(units) - &begin).min(Expr::int(size)) };
            self.by_height(&at, code, |first, height, code| {
                let panels = |y: &Expr, from: &Expr, count: Expr, code: &mut Code| {
                    code.push(serial("panel", count, |panel, code| {
                        self.tile((first, height), (wide, None), (y, &((from + panel) * across)), code);
                    }));
                };
                let last = |y: &Expr, code: &mut Code| {
                    let vectors_left = (rest + vectors.lanes - 1) / vectors.lanes;
                    let cut = (rest % vectors.lanes != 0).then_some(rest);
                    code.push(serial("rest", 1, |_, code| {
                        self.tile((first, height), (vectors_left, cut), (y, &Expr::int(full * across)), code);
                    }));
                };
                if layout == Layout::Rows {
                    code.push(serial("y", count.clone(), |own, code| {
                        let y = code.bind("y", &begin + own);
                        if full > 0 {
                            panels(&y, &Expr::int(0), Expr::int(full), code);
                        }
                        if rest > 0 {
                            last(&y, code);
                        }
                    }));
                    return;
                }
                let zero = Expr::int(0);
                if full > 0 {
                    panels(&zero, &begin, count.clone(), code);
                }
                if rest > 0 {
                    let mut inner = Code::default();
                    last(&zero, &mut inner);
                    let inner = inner.finish();
                    code.push(if chunks > 1 { Stmt::if_then(chunk.equals(chunks - 1), inner, None) } else { inner });
                }
            });
        }));
    }

    /// Emits code for the first channel of a tile and its number of channels.
    fn by_height(&self, at: &Expr, code: &mut Code, body: impl Fn(&Expr, i64, &mut Code)) {
        let Plan { height, tiles, .. } = *self.plan;
        let first = code.bind("channel", at * height);
        let last = self.convolution.channels - height * (tiles - 1);
        let of = |height: i64| {
            let mut code = Code::default();
            body(&first, height, &mut code);
            code.finish()
        };
        code.push(if last == height {
            of(height)
        } else {
            Stmt::if_then(at.less(tiles - 1), of(height), Some(of(last)))
        });
    }

    /// Emits a register tile: channels starting at `first`, pixels starting at a position. `cut` is
    /// the number of existing pixels, if some are missing.
    fn tile(
        &self,
        (first, height): (&Expr, i64),
        (wide, cut): (i64, Option<i64>),
        (y, x): (&Expr, &Expr),
        code: &mut Code,
    ) {
        let Plan { vectors, ref copied, .. } = *self.plan;
        let start = code.bind("start", y * copied.pitch() + x);
        self.sums((first, height), wide, &start, code, |row, vector, (sums, at)| {
            let lane = Var::index("x");
            let pixel = x + vector * vectors.lanes + &lane;
            let channel = first + row;
            let value = self.inputs.loads(&self.convolution.value(
                self.batch,
                &channel,
                y,
                &pixel,
                &Expr::load(sums, at + &lane),
            ));
            let index = self.out.flat_index(&self.convolution.indices(self.batch, &channel, y, &pixel));
            let mut store = Stmt::store(self.out.clone(), index, value);
            if let Some(left) = cut.map(|cut| cut - vector * vectors.lanes).filter(|left| *left < vectors.lanes) {
                store = Stmt::if_then(lane.expr().less(left).likely(), store, None);
            }
            Stmt::for_loop(lane, 0, vectors.lanes, ForKind::Vectorized, store)
        });
    }

    /// Emits the sums of a register tile whose columns start at a position in the copy.
    fn sums(
        &self,
        (first, height): (&Expr, i64),
        wide: i64,
        start: &Expr,
        code: &mut Code,
        done: impl Fn(i64, i64, (&Buffer, Expr)) -> Stmt,
    ) {
        let (convolution, vectors, copied) = (self.convolution, self.plan.vectors, &self.plan.copied);
        let [rows, columns] = &convolution.spatial;
        let (c, ky, kx) = (Var::index("c"), Var::index("ky"), Var::index("kx"));
        let loops = [(&c, convolution.depth), (&ky, rows.window), (&kx, columns.window)]
            .map(|(var, extent)| (var.clone(), Expr::int(extent)));
        let base = copied.place(convolution, c.expr(), ky.expr(), kx.expr()) + start;
        vectors.tile(
            (height, wide),
            (&loops, None),
            |row| self.inputs.loads(&convolution.weight(&(first + row), c.expr(), ky.expr(), kx.expr())),
            |vector| vectors.load(&copied.buffer, &base + vector * vectors.lanes),
            done,
            code,
        );
    }

    /// Emits the product in tiles of channels, with unused columns.
    fn staged(&self, code: &mut Code) {
        let Plan { vectors, shared, tiles, wide, width, ref copied, .. } = *self.plan;
        let [rows, columns] = &self.convolution.spatial;
        let (panel, pitch) = (wide * vectors.lanes, copied.pitch());
        let panels = (width + panel - 1) / panel;
        code.push(for_each("tile", tiles, shared, |at, code| {
            self.by_height(at, code, |first, height, code| {
                let sums = memory("rows", vectors.dtype, &[height, panels * panel], "global");
                code.alloc(&sums);
                let columns_of = |start: &Expr, wide: i64, code: &mut Code| {
                    self.sums((first, height), wide, start, code, |row, vector, (tile, at)| {
                        let sum = vectors.load(tile, at);
                        vectors.store(&sums, start + (row * panels * panel + vector * vectors.lanes), sum)
                    });
                };
                // The last columns may need fewer vectors.
                let rest = (width - (panels - 1) * panel + vectors.lanes - 1) / vectors.lanes;
                let full = if rest < wide { panels - 1 } else { panels };
                if full > 0 {
                    code.push(serial("panel", full, |at, code| columns_of(&(at * panel), wide, code)));
                }
                if full < panels {
                    code.push(serial("panel", 1, |_, code| columns_of(&Expr::int(full * panel), rest, code)));
                }
                code.push(serial("row", height, |row, code| {
                    code.push(serial("y", rows.extent, |y, code| {
                        code.push(in_vectors("x", columns.extent, vectors.lanes, |x| {
                            let sum = Expr::load(&sums, row * (panels * panel) + y * pitch + x);
                            let channel = first + row;
                            let convolution = self.convolution;
                            let value = self.inputs.loads(&convolution.value(self.batch, &channel, y, x, &sum));
                            let index = self.out.flat_index(&convolution.indices(self.batch, &channel, y, x));
                            Stmt::store(self.out.clone(), index, value)
                        }));
                    }));
                }));
            });
        }));
    }
}

/// Emits loops over the dimensions before the channels.
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
    Stmt::for_loop(var, 0, extent, ForKind::Serial, inner)
}

/// The rows and vectors of a tile, for `rows` rows in total.
pub(super) fn shape(target: &TargetDescription, rows: i64, row_bytes: i64, vectors: i64) -> (i64, i64) {
    let (mut height, mut wide) = tile(target, Some(rows), Some(row_bytes));
    if vectors <= 4 && vectors > 2 && target.vector_registers >= 32 {
        // All columns at once, so that the weights are read once.
        let most = (target.vector_registers - vectors - 1) / vectors;
        let tiles = (rows + most - 1) / most;
        (height, wide) = ((rows + tiles - 1) / tiles, vectors);
    } else if target.vector_registers >= 32 && height * wide + wide + 1 >= target.vector_registers - 1 {
        // With three loops around the sums, LLVM keeps all of them in registers only if one
        // register is left.
        let tiles = (rows + height - 2) / (height - 1);
        height = (rows + tiles - 1) / tiles;
    }
    (height, wide.min(vectors))
}
