//! Convolutions with few pixels and many channels: vectors span output channels, and the rows of
//! the product are pixels. Rows of an image of 7 pixels do not fill vectors, but channels do.
//!
//! The source is copied as for the [direct](super::direct) convolution, unless the window is a
//! single pixel. A panel of weights is transposed and stays in the L2 cache while the pixels are
//! processed; its sums are transposed back when they are written. Weights whose innermost dimension
//! is the output channel, or that are packed in [panels](super::FilterForm::Panels), are read in
//! place.

use super::super::TargetDescription;
use super::super::code::{Code, Inputs, Vectors, for_each, memory, prefetch, serial};
use super::direct::over_batch;
use super::planes::{Copied, pitch_of};
use super::{Convolution, PANEL, Spatial};
use crate::ir::{Buffer, Expr, ExprNode, ForKind, Operation, Stmt, Tensor, Var};

/// The maximum number of pixels of a register tile. Its width is one vector: with two, LLVM does
/// not keep the sums of three loops in registers.
const MOST: i64 = 14;

struct Plan {
    vectors: Vectors,
    /// The image rows of a register tile.
    rows: i64,
    /// The number of weights of an output channel.
    terms: i64,
    /// The weights to prefetch, if those of the next output channels follow the current ones in
    /// memory.
    ahead: Option<Tensor>,
}

/// Checks that vectors of `lanes` output channels are profitable; otherwise returns the reason.
pub(super) fn fits([rows, columns]: &[Spatial; 2], channels: i64, terms: i64, lanes: i64) -> Result<(), String> {
    let pixels = rows.extent * columns.extent;
    if lanes < 8 || columns.extent > MOST || pixels < 16 || channels % lanes != 0 {
        return Err("its pixels fill vectors, or its channels do not".into());
    }
    let width = (rows.extent - 1) * pitch_of(columns) + columns.extent;
    if (width + lanes - 1) / lanes * lanes * 100 < pixels * 112 || terms < 64 {
        return Err("vectors of its pixels have few that are not kept".into());
    }
    Ok(())
}

/// Returns true if the convolution is a product of the weights with the image in its memory layout.
fn is_pointwise(convolution: &Convolution) -> bool {
    let [rows, columns] = &convolution.spatial;
    [rows, columns].iter().all(|spatial| (spatial.window, spatial.stride) == (1, 1)) && convolution.source_is_flat()
}

/// Returns the convolution in this form for packed weights and a window of a single pixel. Others
/// are fastest as [products](super::pointwise) over the pixels.
pub(super) fn of_panels(convolution: &Convolution, target: &TargetDescription) -> Result<Operation, String> {
    if !is_pointwise(convolution) || convolution.weights_in_panels().is_none() {
        return Err("its window is not a single pixel, or its weights are not in panels".into());
    }
    operation(convolution, target)
}

/// Returns the convolution in this form, or the reason why it does not apply.
pub(super) fn operation(convolution: &Convolution, target: &TargetDescription) -> Result<Operation, String> {
    let [rows, columns] = &convolution.spatial;
    let dtype = convolution.out.output(0).dtype;
    let vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()) };
    let (lanes, channels) = (vectors.lanes, convolution.channels);
    if target.vector_registers < 32 {
        return Err("there are few registers".into());
    }
    let terms = convolution.depth * rows.window * columns.window;
    fits(&convolution.spatial, channels, terms, lanes)?;
    let copied = (!is_pointwise(convolution)).then(|| Copied::of(convolution, false, 0));
    if !convolution.value_is_flat() {
        return Err("what follows it is not read pixel after pixel".into());
    }
    let in_rows = convolution.weights_in_rows().filter(|_| terms % lanes == 0);
    let in_panels = convolution.weights_in_panels().filter(|_| PANEL % lanes == 0);
    let in_place = in_panels.is_some() || convolution.weight_strides().is_some_and(|[o, ..]| o == 1);
    if !in_place && in_rows.is_none() {
        return Err("its weights lie in another order".into());
    }
    let ahead = in_panels.or(in_rows.filter(|_| !in_place));
    let shared = convolution.shared_kind(target);
    let plan = Plan { vectors, rows: (MOST / columns.extent).clamp(1, rows.extent), terms, ahead };
    Ok(convolution.operation("few_pixels", |inputs, out| {
        let packed = memory("weights", dtype, &[terms * lanes], "global");
        over_batch(&convolution.batch, &mut Vec::new(), &|batch, code| {
            if let Some(copied) = &copied {
                copied.fill((convolution, inputs, batch), vectors, shared, code);
            }
            code.push(for_each("panel", channels / lanes, shared, |at, code| {
                let first = code.bind("channel", at * lanes);
                if !in_place {
                    plan.pack(convolution, inputs, &packed, &first, code);
                }
                let weights = if in_place { None } else { Some(&packed) };
                let source = (convolution, inputs, batch);
                let results = plan.products(source, copied.as_ref(), (weights, &first), code);
                plan.write((convolution, inputs, batch), &results, &first, out, code);
            }));
        })
    }))
}

impl Plan {
    /// Packs the weights of a panel, transposed: `[term][output channel]`.
    fn pack(&self, convolution: &Convolution, inputs: &Inputs, to: &Buffer, first: &Expr, code: &mut Code) {
        let Self { vectors, terms, .. } = *self;
        let lanes = vectors.lanes;
        let zero = Expr::int(0);
        code.alloc(to);
        code.push(serial("term", terms / lanes, |term, code| {
            let at = |row: i64| {
                let start = inputs.loads(&convolution.weight(&(first + row), &zero, &zero, &zero));
                let ExprNode::Load { buffer, index, .. } = &*start else {
                    unreachable!("weights are read as they are")
                };
                vectors.load(buffer, index + term * lanes)
            };
            let rows = (0..lanes).map(|row| code.bind("row", at(row))).collect();
            for (own, column) in vectors.transposed(rows, code).into_iter().enumerate() {
                code.push(vectors.store(to, (term * lanes + own as i64) * lanes, column));
            }
        }));
    }

    /// Emits the sums of a panel: `[pixel][output channel]`, padded with zeros to whole vectors of
    /// pixels.
    fn products(
        &self,
        (convolution, inputs, batch): (&Convolution, &Inputs, &[Expr]),
        copied: Option<&Copied>,
        (packed, first): (Option<&Buffer>, &Expr),
        code: &mut Code,
    ) -> Buffer {
        let Self { vectors, .. } = *self;
        let lanes = vectors.lanes;
        let [rows, columns] = &convolution.spatial;
        let pixels = rows.extent * columns.extent;
        let whole = (pixels + lanes - 1) / lanes * lanes;
        let results = memory("results", vectors.dtype, &[whole * lanes], "global");
        code.alloc(&results);
        for behind in pixels..whole {
            code.push(vectors.store(&results, Expr::int(behind * lanes), vectors.splat(0.0)));
        }
        let tile = |y: &Expr, count: i64, code: &mut Code| {
            let (c, ky, kx) = (Var::index("c"), Var::index("ky"), Var::index("kx"));
            let all = [(&c, convolution.depth), (&ky, rows.window), (&kx, columns.window)]
                .map(|(var, extent)| (var.clone(), Expr::int(extent)));
            let (loops, term) = match copied {
                Some(_) => (&all[..], (c.expr() * rows.window + ky.expr()) * columns.window + kx.expr()),
                None => (&all[..1], c.expr().clone()),
            };
            // Weights are read once: while this panel is computed, the next one is loaded from
            // memory.
            let next = self.ahead.as_ref().map(|weights| {
                let tiles = (rows.extent + self.rows - 1) / self.rows;
                let share = (lanes + tiles - 1) / tiles;
                let panel = (first + lanes).min(convolution.channels - lanes) * self.terms;
                let step = (y.floor_div(self.rows) * self.terms + &term) * share;
                prefetch(&inputs.buffer(weights), panel + step.min(self.terms * lanes - 1))
            });
            vectors.tile(
                (count * columns.extent, 1),
                (loops, next),
                |pixel| match copied {
                    Some(copied) => {
                        let base = copied.place(convolution, c.expr(), ky.expr(), kx.expr()) + y * copied.pitch();
                        let place = pixel / columns.extent * copied.pitch() + pixel % columns.extent;
                        Expr::load(&copied.buffer, base + place)
                    }
                    // Pixels are consecutive, as if they were one row.
                    None => {
                        let pixel = y * columns.extent + pixel;
                        inputs.loads(&convolution.source(batch, c.expr(), &Expr::int(0), &pixel))
                    }
                },
                |_| match packed {
                    Some(packed) => vectors.load(packed, &term * lanes),
                    None => {
                        let [ky, kx] = if copied.is_some() {
                            [ky.expr().clone(), kx.expr().clone()]
                        } else {
                            [0, 0].map(Expr::int)
                        };
                        let start = inputs.loads(&convolution.weight(first, c.expr(), &ky, &kx));
                        let ExprNode::Load { buffer, index, .. } = &*start else {
                            unreachable!("weights are read as they are")
                        };
                        vectors.load(buffer, index.clone())
                    }
                },
                |pixel, _, (sums, at)| {
                    let place = (y * columns.extent + pixel) * lanes;
                    vectors.store(&results, place, vectors.load(sums, at))
                },
                code,
            );
        };
        let (full, rest) = (rows.extent / self.rows, rows.extent % self.rows);
        code.push(serial("rows", full, |at, code| tile(&(at * self.rows), self.rows, code)));
        if rest > 0 {
            code.push(serial("rows", 1, |_, code| tile(&Expr::int(full * self.rows), rest, code)));
        }
        results
    }

    /// Writes the results of a panel, one vector of pixels at a time.
    fn write(
        &self,
        (convolution, inputs, batch): (&Convolution, &Inputs, &[Expr]),
        results: &Buffer,
        first: &Expr,
        out: &Buffer,
        code: &mut Code,
    ) {
        let Self { vectors, .. } = *self;
        let lanes = vectors.lanes;
        let pixels = convolution.spatial[0].extent * convolution.spatial[1].extent;
        let zero = Expr::int(0);
        code.push(serial("group", (pixels + lanes - 1) / lanes, |group, code| {
            let turned = memory("turned", vectors.dtype, &[lanes, lanes], "local");
            code.alloc(&turned);
            let at = |row: i64| vectors.load(results, (group * lanes + row) * lanes);
            let rows = (0..lanes).map(|row| code.bind("row", at(row))).collect();
            for (channel, values) in vectors.transposed(rows, code).into_iter().enumerate() {
                code.push(vectors.store(&turned, Expr::int(channel as i64 * lanes), values));
            }
            code.push(serial("channel", lanes, |own, code| {
                let lane = Var::index("x");
                let pixel = group * lanes + &lane;
                let channel = first + own;
                let sum = Expr::load(&turned, own * lanes + &lane);
                let value = inputs.loads(&convolution.value(batch, &channel, &zero, &pixel, &sum));
                let index = out.flat_index(&convolution.indices(batch, &channel, &zero, &pixel));
                let mut store = Stmt::store(out.clone(), index, value);
                if pixels % lanes != 0 {
                    store = Stmt::if_then(pixel.less(pixels).likely(), store, None);
                }
                code.push(Stmt::for_loop(lane, 0, lanes, ForKind::Vectorized, store));
            }));
        }));
    }
}
