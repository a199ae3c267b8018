//! Convolutions of bytes over images whose channels are in groups of four:
//! `[.., channel / 4, .., row, pixel, channel % 4]`. The image includes its padding, and is split
//! by the remainders of the stride, so that adjacent results read adjacent pixels: a sum over
//! `[channel / 4, window.., channel % 4]`.
//!
//! The rows of the product are output channels, with four bytes of weights each; columns are pixels
//! of an image plane in whole rows, whose last few are unused. The last columns overlap with the
//! previous ones, so that nothing is read after the image.

use super::super::TargetDescription;
use super::super::code::{Code, Inputs, for_each, in_vectors, serial};
use super::super::pattern::{Computed, axis_of, depends_on, extent_from_zero, extent_of};
use super::super::row_tiles::Rows;
use super::super::shared_kind;
use super::{DEPTH, factors, kernel, written};
use crate::arith::{Analyzer, detect_linear};
use crate::ir::{
    Buffer, Expr, ExprNode, ForKind, I8, I32, IterVar, Operation, Stmt, Tensor, U8, Var, VarMap, substitute,
};

/// A convolution with its epilogue, as functions of positions.
pub(super) struct Convolution {
    out: Operation,
    /// The axes of the result: those of the batch, the output channel, the row and the pixel; and
    /// their extents. That of the output channel is known.
    axes: Vec<(Var, Expr)>,
    /// The reduction axes without the last one, which has the four channels.
    loops: Vec<(Var, i64)>,
    part: Var,
    pub(super) source: Expr,
    pub(super) weight: Expr,
    /// The number of pixels in a row of the image.
    pitch: Expr,
    pub(super) value: Expr,
    sum: Var,
}

pub(super) fn describe(
    parts: &Computed,
    out: &Computed,
    core_op: &Operation,
    out_op: &Operation,
    is_whole: bool,
) -> Result<Convolution, String> {
    let fail = |reason: &str| Err(reason.to_owned());
    let (x, y) = factors(parts)?;
    let own: &[IterVar] = if is_whole { &parts.axes } else { &out.axes };
    let ([.., channel, row, pixel], [loops @ .., part]) = (&parts.axes[..], &parts.reduce_axes[..]) else {
        return fail("it has no channels and pixels");
    };
    let (source, weight) = match (depends_on(&x, pixel), depends_on(&y, pixel)) {
        (true, false) => (x, y),
        (false, true) => (y, x),
        _ => return fail("its pixels are not those of one factor"),
    };
    if (source.dtype(), weight.dtype()) != (U8, I8) || extent_of(part) != Some(DEPTH) {
        return fail("its channels do not lie beside each other by four");
    }
    let (ExprNode::TensorRead { tensor, indices }, ExprNode::TensorRead { indices: weights, .. }) =
        (&*source, &*weight)
    else {
        return fail("its factors are not read as they are");
    };
    // Weights: [output channel, reduction axes.., four channels].
    let sums: Vec<IterVar> = [channel].into_iter().chain(loops).chain([part]).cloned().collect();
    let in_order =
        weights.len() == sums.len() && weights.iter().zip(&sums).all(|(index, axis)| index == *axis.var.expr());
    let last = indices.len().saturating_sub(1);
    if !in_order || last < 3 || indices.get(last).is_none_or(|index| axis_of(&index, &parts.reduce_axes) != Some(part))
    {
        return fail("its weights do not lie as the sum goes");
    }
    // The image: its last axes are rows, pixels, four channels; the strides are 1.
    let analyzer = Analyzer::new();
    for (place, index) in indices.iter().enumerate().take(last) {
        for (axis, at) in [(row, last - 2), (pixel, last - 1)] {
            let form = detect_linear(&index, core::slice::from_ref(&axis.var), &analyzer);
            let factor = form.and_then(|form| form.coefficients.first().and_then(|factor| factor.as_int()));
            if factor != Some(i64::from(place == at)) {
                return fail("its pixels are not beside each other");
            }
        }
        if depends_on(&index, part) || depends_on(&index, channel) {
            return fail("its image depends on the output channel");
        }
    }
    let Some(pitch) = tensor.shape.get(last - 1) else { return fail("its image has no rows") };
    let constant = |axis: &IterVar| {
        extent_from_zero(axis)?.as_int().ok_or_else(|| "its channels or its window have no constant extent".to_owned())
    };
    let (mut axes, mut sums) = (Vec::new(), Vec::new());
    // The result may have fewer channels and pixels than the convolution.
    for axis in own {
        axes.push((axis.var.clone(), extent_from_zero(axis)?));
    }
    constant(&own[own.len() - 3])?;
    for axis in loops {
        sums.push((axis.var.clone(), constant(axis)?));
    }
    let renamed: VarMap =
        parts.axes.iter().zip(own).map(|(axis, own)| (axis.var.clone(), own.var.expr().clone())).collect();
    let sum = Var::new("sum", I32);
    let value = written(out, core_op, &sum, is_whole)?;
    Ok(Convolution {
        out: out_op.clone(),
        axes,
        loops: sums,
        part: part.var.clone(),
        source: substitute(&source, &renamed),
        weight: substitute(&weight, &renamed),
        pitch,
        value,
        sum,
    })
}

impl Convolution {
    /// Returns the operation that computes the convolution by statements, or the reason why there
    /// is none.
    pub(super) fn operation(&self, target: &TargetDescription) -> Result<Operation, String> {
        let [batch @ .., (_, channels), (_, height), (_, width)] = &self.axes[..] else {
            return Err("it has no channels and pixels".into());
        };
        let Some(channels) = channels.as_int() else { return Err("its channels have no constant extent".into()) };
        let columns = (height - 1) * &self.pitch + width;
        let shape = kernel::Shape::of(target, Some(channels), true);
        let panel = shape.columns(shape.units);
        if columns.as_int().is_some_and(|columns| columns < panel) {
            return Err(format!("its image has fewer than {panel} pixels"));
        }
        let batch = Rows(batch.to_vec());
        let terms: i64 = self.loops.iter().map(|(_, extent)| extent).product::<i64>() * DEPTH;
        let work = batch.count().zip(columns.as_int()).map(|(images, columns)| {
            images.saturating_mul(channels * columns).saturating_mul(terms) / if shape.bytes { 32 } else { 8 }
        });
        let kind = shared_kind(target, work);
        let (outer, inner) = if batch.count() == Some(1) { (ForKind::Serial, kind) } else { (kind, ForKind::Serial) };
        let inputs = Inputs::of([&self.source, &self.weight, &self.value]);
        let tiles = Rows(vec![(Var::index("channel"), Expr::int(channels))]);
        Ok(inputs.operation(&format!("{}.dot", self.out.name()), &self.out, |inputs, out| {
            for_each("image", batch.total(), outer, |image, code| {
                let image = Image { of: self, shape: &shape, inputs, out, batch: batch.at(image) };
                code.push(for_each("tile", tiles.tiles(shape.height), inner, |tile, code| {
                    let first = code.bind("first", tile * shape.height);
                    code.push(tiles.tile(&first, shape.height, |channels| {
                        let mut code = Code::default();
                        image.channels(&channels.first, channels.height, &columns, &mut code);
                        code.finish()
                    }));
                }));
            })
        }))
    }
}

/// One image of a batch.
struct Image<'a> {
    of: &'a Convolution,
    shape: &'a kernel::Shape,
    inputs: &'a Inputs,
    out: &'a Buffer,
    batch: VarMap,
}

impl Image<'_> {
    fn buffer_and_index(&self, read: &Expr, values: &VarMap) -> (Buffer, Expr) {
        match &*substitute(read, values) {
            ExprNode::TensorRead { tensor, indices } => {
                let buffer = self.inputs.buffer(tensor as &Tensor);
                let index = buffer.flat_index(&indices.to_vec());
                (buffer, index)
            }
            _ => unreachable!("factors are read as they are"),
        }
    }

    /// Emits some output channels of all pixels.
    fn channels(&self, first: &Expr, height: i64, columns: &Expr, code: &mut Code) {
        let Convolution { axes, pitch, value, sum, .. } = self.of;
        let [.., (channel, _), (row, rows), (pixel, width)] = &axes[..] else { unreachable!("it has pixels") };
        let panel = self.shape.columns(self.shape.units);
        let sums = Buffer::new("rows", I32, [columns * height], "global");
        code.alloc(&sums);
        let panels = serial("panel", columns.ceil_div(panel), |at, code| {
            let start = code.bind("start", (at * panel).min(columns - panel));
            self.tile(first, height, &start, (&sums, columns), code);
        });
        code.push(match columns.as_int() {
            Some(_) => panels,
            // Panels do not fit into a small image.
            None => Stmt::if_then(
                columns.greater_equal(panel),
                panels,
                Some(self.few_pixels(first, height, (&sums, columns))),
            ),
        });
        code.push(serial("row", height, |own, code| {
            code.push(serial("y", rows.clone(), |y, code| {
                code.push(in_vectors("x", width, self.shape.lanes, |x| {
                    let element = Expr::load(&sums, own * columns + y * pitch + x);
                    let mut values = self.batch.clone();
                    values.extend([
                        (channel.clone(), first + own),
                        (row.clone(), y.clone()),
                        (pixel.clone(), x.clone()),
                        (sum.clone(), element),
                    ]);
                    let indices: Vec<Expr> = axes.iter().map(|(var, _)| substitute(var.expr(), &values)).collect();
                    let written = self.inputs.loads(&substitute(value, &values));
                    Stmt::store(self.out.clone(), self.out.flat_index(&indices), written)
                }));
            }));
        }));
    }

    /// Variables for the loops of the sum, and the values of all axes but the output channel at the
    /// first pixel.
    fn terms(&self) -> (Vec<(Var, i64)>, VarMap) {
        let Convolution { axes, loops, part, .. } = self.of;
        let [.., (row, _), (pixel, _)] = &axes[..] else { unreachable!("it has pixels") };
        let vars: Vec<(Var, i64)> = loops.iter().map(|(var, extent)| (Var::index(var.name()), *extent)).collect();
        let mut values = self.batch.clone();
        values.extend([(row.clone(), Expr::int(0)), (pixel.clone(), Expr::int(0)), (part.clone(), Expr::int(0))]);
        values.extend(loops.iter().zip(&vars).map(|((var, extent), (own, _))| {
            (var.clone(), if *extent == 1 { Expr::int(0) } else { own.expr().clone() })
        }));
        (vars, values)
    }

    /// The weights of an output channel.
    fn weights(&self, values: &VarMap, channel: Expr) -> (Buffer, Expr) {
        let [.., (own, _), _, _] = &self.of.axes[..] else { unreachable!("it has pixels") };
        let mut values = values.clone();
        values.insert(own.clone(), channel);
        self.buffer_and_index(&self.of.weight, &values)
    }

    /// Emits the sums of some output channels and a panel of pixels.
    fn tile(&self, first: &Expr, height: i64, start: &Expr, (sums, columns): (&Buffer, &Expr), code: &mut Code) {
        let (vars, values) = self.terms();
        let (image, from) = self.buffer_and_index(&self.of.source, &values);
        let tile = kernel::Tile::new(self.shape, height, self.shape.units, code);
        let mut inner = Code::default();
        let columns_of = |at: i64| (image.clone(), &from + (start + at * self.shape.unit) * DEPTH);
        tile.add(columns_of, |own| self.weights(&values, first + own), &mut inner);
        code.push(around(&vars, inner.finish()));
        for (row, at, vector) in tile.sums() {
            let index = (start + columns * row + at).ramp(1, self.shape.lanes as u16);
            code.push(Stmt::store(sums.clone(), index, vector));
        }
    }

    /// Emits the sums of some output channels and all pixels, one after another.
    fn few_pixels(&self, first: &Expr, height: i64, (sums, columns): (&Buffer, &Expr)) -> Stmt {
        let (vars, values) = self.terms();
        let (image, from) = self.buffer_and_index(&self.of.source, &values);
        serial("row", height, |own, code| {
            let (weights, begin) = self.weights(&values, first + own);
            code.push(serial("pixel", columns.clone(), |pixel, code| {
                let place = code.bind("place", own * columns + pixel);
                code.push(Stmt::store(sums.clone(), place.clone(), Expr::constant(I32, 0)));
                let inner = serial("k", DEPTH, |part, code| {
                    let pixel = Expr::load(&image, &from + pixel * DEPTH + part).cast(I32);
                    let weight = Expr::load(&weights, &begin + part).cast(I32);
                    code.push(Stmt::store(
                        sums.clone(),
                        place.clone(),
                        Expr::load(sums, place.clone()) + pixel * weight,
                    ));
                });
                code.push(around(&vars, inner));
            }));
        })
    }
}

/// Emits loops around a body; those with one iteration are left out.
fn around(vars: &[(Var, i64)], body: Stmt) -> Stmt {
    let loops = vars.iter().rev().filter(|(_, extent)| *extent != 1);
    loops.fold(body, |body, (var, extent)| Stmt::for_loop(var.clone(), 0, *extent, ForKind::Serial, body))
}
