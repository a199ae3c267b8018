//! Convolutions with a window of one pixel: products of the weights with the image in its memory
//! layout. The rows of the product are output channels, its columns are pixels.
//!
//! Only the last pixels are copied, where they do not fill a vector. The image is processed in
//! chunks that stay in the L2 cache while all output channels are computed from them, and the
//! epilogue is applied to the sums while they are in registers.

use super::super::TargetDescription;
use super::super::code::{Code, Inputs, Vectors, for_each, memory, prefetch, serial};
use super::super::pattern::reads;
use super::super::tile::tile;
use super::Convolution;
use super::direct::over_batch;
use crate::arith::{Analyzer, detect_linear};
use crate::ir::visit::{Visit, walk_expr};
use crate::ir::{Buffer, Expr, ExprNode, ForKind, Operation, Stmt, Var};

/// The tiling of the product.
struct Plan {
    vectors: Vectors,
    depth: i64,
    /// The number of output channels.
    channels: i64,
    pixels: i64,
    /// The vectors of a register tile, and the number of such panels of pixels.
    wide: i64,
    panels: i64,
    /// The number of panels that are processed together for all output channels.
    chunk: i64,
    /// The number of whole vectors after the last panel.
    rest: i64,
    /// The number of pixels after the last whole vector, and the lanes of the vector in which they
    /// are computed.
    edge: (i64, i64),
}

/// Returns the convolution as such a product, or the reason why it does not apply.
pub(super) fn operation(convolution: &Convolution, target: &TargetDescription) -> Result<Operation, String> {
    let [rows, columns] = &convolution.spatial;
    if [rows, columns].iter().any(|spatial| (spatial.window, spatial.stride) != (1, 1)) {
        return Err("its window is not a single pixel with stride 1".into());
    }
    if !convolution.source_is_flat() || !convolution.value_is_flat() {
        return Err("its image, or what follows it, is not read pixel after pixel".into());
    }
    let dtype = convolution.out.output(0).dtype;
    let vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()) };
    let pixels = rows.extent * columns.extent;
    let plan = Plan::new(vectors, convolution.depth, convolution.channels, pixels, target);
    let shared = convolution.shared_kind(target);
    let images: Option<Vec<i64>> = convolution.batch.iter().map(|extent| extent.as_int()).collect();
    Ok(convolution.operation("pointwise", |inputs, out| {
        let run = Run { plan: &plan, convolution, inputs, out, target, shared };
        match &images {
            // The images are also distributed over threads.
            Some(images) => run.images(images.iter().product(), &|image| {
                let mut rest = image.clone();
                let mut batch = vec![Expr::int(0); images.len()];
                for (place, extent) in images.iter().enumerate().rev().filter(|(_, extent)| **extent > 1) {
                    let is_last = images[..place].iter().all(|before| *before == 1);
                    batch[place] = if is_last { rest.clone() } else { rest.floor_mod(*extent) };
                    rest = rest.floor_div(*extent);
                }
                batch
            }),
            None => over_batch(&convolution.batch, &mut Vec::new(), &|batch, code| {
                code.push(run.images(1, &|_| batch.to_vec()));
            }),
        }
    }))
}

/// The statements of a whole product.
struct Run<'a> {
    plan: &'a Plan,
    convolution: &'a Convolution,
    inputs: &'a Inputs,
    out: &'a Buffer,
    target: &'a TargetDescription,
    shared: ForKind,
}

impl Run<'_> {
    /// Emits `count` images; `batch_of` returns the indices of an image.
    fn images(&self, count: i64, batch_of: &dyn Fn(&Expr) -> Vec<Expr>) -> Stmt {
        let Self { plan, convolution, inputs, out, .. } = *self;
        let dtype = plan.vectors.dtype;
        let (edge, edge_lanes) = plan.edge;
        let mut whole = Code::default();
        let ends = memory("ends", dtype, &[count * plan.depth * edge_lanes], "global");
        if edge > 0 {
            whole.alloc(&ends);
            whole.push(serial("n", count, |image, code| {
                code.push(serial("c", plan.depth, |c, code| {
                    code.push(serial("x", edge_lanes, |x, code| {
                        let pixel = x + (plan.pixels - edge);
                        let value = inputs.loads(&convolution.source(&batch_of(image), c, &Expr::int(0), &pixel));
                        let value = Expr::if_then_else(x.less(edge), value, Expr::float(dtype, 0.0));
                        code.push(Stmt::store(ends.clone(), (image * plan.depth + c) * edge_lanes + x, value));
                    }));
                }));
            }));
        }
        let chunks = (plan.panels + plan.chunk - 1) / plan.chunk;
        let (height, tiles) = heights(self.target, plan.channels, plan.wide);
        let last_height = plan.channels - height * (tiles - 1);
        whole.push(for_each("part", count * chunks.max(1) * tiles, self.shared, |part, code| {
            let at = if tiles == 1 { Expr::int(0) } else { part.floor_mod(tiles) };
            let rest = part.floor_div(tiles);
            let chunk = if chunks <= 1 { Expr::int(0) } else { rest.floor_mod(chunks) };
            let image = if count == 1 { Expr::int(0) } else { rest.floor_div(chunks.max(1)) };
            let first = code.bind("channel", at.clone() * height);
            let batch = batch_of(&image);
            let own = Part { plan, convolution, inputs, batch: &batch, out, ends: &ends, image: &image };
            let of = |height: i64| {
                let mut code = Code::default();
                own.channels((&first, height), (&chunk, chunks), &mut code);
                code.finish()
            };
            code.push(if last_height == height {
                of(height)
            } else {
                Stmt::if_then(at.less(tiles - 1), of(height), Some(of(last_height)))
            });
        }));
        whole.finish()
    }
}

impl Plan {
    fn new(vectors: Vectors, depth: i64, channels: i64, pixels: i64, target: &TargetDescription) -> Self {
        let lanes = vectors.lanes;
        let whole = pixels / lanes;
        let mut wide = tile(target, Some(channels), None).1;
        if target.vector_registers >= 32 && whole % wide != 0 && whole % 3 == 0 && whole < 12 {
            // All vectors of a small image are in panels.
            wide = 3;
        }
        wide = wide.min(whole.max(1));
        let panels = whole / wide;
        let panel_bytes = depth * wide * lanes * i64::from(vectors.dtype.bits()) / 8;
        let most = (target.l2_bytes / 4 / panel_bytes.max(1)).clamp(1, panels.max(1));
        let chunks = (panels + most - 1) / most;
        let chunk = if chunks == 0 { 1 } else { (panels + chunks - 1) / chunks };
        let edge = pixels % lanes;
        let edge_lanes = if edge == 0 { 0 } else { (edge as u64).next_power_of_two().max(4).min(lanes as u64) as i64 };
        Self { vectors, depth, channels, pixels, wide, panels, chunk, rest: whole % wide, edge: (edge, edge_lanes) }
    }
}

/// The rows of a register tile with this number of vectors, and the number of such tiles. A height
/// that divides the rows is preferred if it is not much smaller, because a single copy of the code
/// is then sufficient.
pub(super) fn heights(target: &TargetDescription, rows: i64, wide: i64) -> (i64, i64) {
    let most = ((target.vector_registers - wide - 1) / wide).clamp(1, 14).min(rows);
    let divisor = (1..=most).rev().find(|height| rows % height == 0).unwrap_or(1);
    if divisor * 3 >= most * 2 {
        return (divisor, rows / divisor);
    }
    let tiles = (rows + most - 1) / most;
    ((rows + tiles - 1) / tiles, tiles)
}

/// The work for one image.
struct Part<'a> {
    plan: &'a Plan,
    convolution: &'a Convolution,
    inputs: &'a Inputs,
    batch: &'a [Expr],
    out: &'a Buffer,
    ends: &'a Buffer,
    image: &'a Expr,
}

impl Part<'_> {
    /// Emits some output channels of a chunk; after the last chunk also the remaining pixels.
    fn channels(&self, (first, height): (&Expr, i64), (chunk, chunks): (&Expr, i64), code: &mut Code) {
        let Plan { vectors, panels, wide, rest, edge, pixels, .. } = *self.plan;
        let lanes = vectors.lanes;
        if panels > 0 {
            let own = self.plan.chunk;
            let begin = chunk * own;
            let count =
                if panels % own == 0 { Expr::int(own) } else { (Expr::int(panels) - &begin).min(Expr::int(own)) };
            code.push(serial("panel", count, |panel, code| {
                let start = (&begin + panel) * (wide * lanes);
                self.tile(vectors, (first, height), (&start, wide, None), code);
            }));
        }
        let mut last = Code::default();
        if rest > 0 {
            last.push(serial("rest", 1, |_, code| {
                self.tile(vectors, (first, height), (&Expr::int(panels * wide * lanes), rest, None), code);
            }));
        }
        if edge.0 > 0 {
            let narrow = Vectors { lanes: edge.1, ..vectors };
            last.push(serial("edge", 1, |_, code| {
                self.tile(narrow, (first, height), (&Expr::int(pixels - edge.0), 1, Some(edge.0)), code);
            }));
        }
        if rest > 0 || edge.0 > 0 {
            let last = last.finish();
            code.push(if chunks > 1 { Stmt::if_then(chunk.equals(chunks - 1), last, None) } else { last });
        }
    }

    /// Emits a register tile: output channels starting at `first`, pixels starting at `start`. With
    /// `edge`, the tile contains the last pixels, and only that number of them exists.
    fn tile(
        &self,
        vectors: Vectors,
        (first, height): (&Expr, i64),
        (start, wide, edge): (&Expr, i64, Option<i64>),
        code: &mut Code,
    ) {
        let (convolution, zero) = (self.convolution, Expr::int(0));
        let c = Var::index("c");
        let source = self.inputs.loads(&convolution.source(self.batch, c.expr(), &zero, start));
        // With few pixels, most of the time is spent waiting for the weights.
        let next = convolution.weights_in_rows().filter(|_| self.plan.pixels <= 256).map(|weights| {
            let first = (first + height).min(self.plan.channels - height);
            prefetch(&self.inputs.buffer(&weights), first * self.plan.depth + c.expr() * height)
        });
        vectors.tile(
            (height, wide),
            (&[(c.clone(), Expr::int(self.plan.depth))], next),
            |row| self.inputs.loads(&convolution.weight(&(first + row), c.expr(), &zero, &zero)),
            |vector| match (&*source, edge) {
                (_, Some(_)) => vectors.load(self.ends, (self.image * self.plan.depth + c.expr()) * vectors.lanes),
                (ExprNode::Load { buffer, index, .. }, None) => vectors.load(buffer, index + vector * vectors.lanes),
                _ => unreachable!("the image is read as it is"),
            },
            |row, vector, (sums, at)| {
                let lane = Var::index("x");
                let pixel = start + vector * vectors.lanes + &lane;
                let channel = first + row;
                let sum = Expr::load(sums, at + &lane);
                let value = self.inputs.loads(&convolution.value(self.batch, &channel, &zero, &pixel, &sum));
                let index = self.out.flat_index(&convolution.indices(self.batch, &channel, &zero, &pixel));
                let mut store = Stmt::store(self.out.clone(), index, value);
                if let Some(edge) = edge.filter(|edge| *edge < vectors.lanes) {
                    store = Stmt::if_then(lane.expr().less(edge).likely(), store, None);
                }
                Stmt::for_loop(lane, 0, vectors.lanes, ForKind::Vectorized, store)
            },
            code,
        );
    }
}

impl Convolution {
    /// Returns true if the image is contiguous: row `y`, column `x` is at the position of row 0,
    /// column `y * columns + x`.
    pub(super) fn source_is_flat(&self) -> bool {
        matches!(&*self.source, ExprNode::TensorRead { .. }) && self.reads_flat(&self.source, &self.positions, true)
    }

    /// Returns true if the tensors that the epilogue reads are contiguous in the same way.
    pub(super) fn value_is_flat(&self) -> bool {
        let mut other = OutsideOfReads { vars: &self.pixels, found: false };
        other.visit_expr(&self.value);
        !other.found && self.reads_flat(&self.value, &self.pixels, false)
    }

    fn reads_flat(&self, expr: &Expr, vars: &[Var; 2], always: bool) -> bool {
        let [rows, columns] = &self.image;
        let analyzer = Analyzer::new();
        reads(expr).iter().all(|(tensor, indices)| {
            let buffer = Buffer::new("image", tensor.dtype, tensor.shape.iter(), "global");
            let index = buffer.flat_index(indices);
            let Some(form) = detect_linear(&index, vars, &analyzer) else { return false };
            let [y, x] = &form.coefficients[..] else { return false };
            if x.is_int(1) {
                rows.is_int(1) || analyzer.can_prove_equal(y, columns)
            } else {
                x.is_int(0) && y.is_int(0) && !always
            }
        })
    }
}

/// Searches for variables that are used outside of indices of tensor reads.
struct OutsideOfReads<'a> {
    vars: &'a [Var],
    found: bool,
}

impl Visit for OutsideOfReads<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        match &**expr {
            ExprNode::TensorRead { .. } => {}
            ExprNode::Var { .. } => self.found |= self.vars.iter().any(|var| var.expr() == expr),
            _ => walk_expr(self, expr),
        }
    }
}
