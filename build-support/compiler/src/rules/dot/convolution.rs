//! Convolutions of bytes over images whose channels are in groups of four:
//! `[.., channel / 4, .., row, pixel, channel % 4]`. The image includes its padding, and is split
//! by the remainders of the stride, so that adjacent results read adjacent pixels: a sum over
//! `[channel / 4, window.., channel % 4]`.
//!
//! The rows of the product are output channels, with four bytes of weights each; columns are pixels
//! of an image plane in whole rows, whose last few are unused. The last columns overlap with the
//! previous ones, so that nothing is read after the image.

use super::super::TargetDescription;
use super::super::code::{Code, Inputs, for_each, in_vectors, memory, serial};
use super::super::pattern::{Computed, axis_of, depends_on, extent_of};
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
    /// their extents.
    axes: Vec<(Var, i64)>,
    /// The reduction axes without the last one, which has the four channels.
    loops: Vec<(Var, i64)>,
    part: Var,
    pub(super) source: Expr,
    pub(super) weight: Expr,
    /// The number of pixels in a row of the image.
    pitch: i64,
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
    let Some(pitch) = tensor.shape.get(last - 1).and_then(|extent| extent.as_int()) else {
        return fail("its image has no constant extents");
    };
    let constant = |axis: &IterVar| match (extent_of(axis), &axis.dom) {
        (Some(extent), Some(dom)) if extent > 0 && dom.min.is_int(0) => Ok(extent),
        _ => Err("an axis has no constant extent".to_owned()),
    };
    let (mut axes, mut sums) = (Vec::new(), Vec::new());
    // The result may have fewer channels and pixels than the convolution.
    for axis in own {
        axes.push((axis.var.clone(), constant(axis)?));
    }
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
        let columns = (height - 1) * self.pitch + width;
        let shape = kernel::Shape::of(target, Some(*channels), true);
        let panel = shape.columns(shape.units);
        if columns < panel {
            return Err(format!("its image has fewer than {panel} pixels"));
        }
        let images: i64 = batch.iter().map(|(_, extent)| extent).product();
        let batch = Rows(batch.iter().map(|(var, extent)| (var.clone(), Expr::int(*extent))).collect());
        let terms: i64 = self.loops.iter().map(|(_, extent)| extent).product::<i64>() * DEPTH;
        let work = images.saturating_mul(channels * columns).saturating_mul(terms) / if shape.bytes { 32 } else { 8 };
        let kind = shared_kind(target, Some(work));
        let (outer, inner) = if images > 1 { (kind, ForKind::Serial) } else { (ForKind::Serial, kind) };
        let inputs = Inputs::of([&self.source, &self.weight, &self.value]);
        let tiles = (channels + shape.height - 1) / shape.height;
        let last_height = channels - shape.height * (tiles - 1);
        Ok(inputs.operation(&format!("{}.dot", self.out.name()), &self.out, |inputs, out| {
            for_each("image", images, outer, |image, code| {
                let image = Image { of: self, shape: &shape, inputs, out, batch: batch.at(image) };
                code.push(for_each("tile", tiles, inner, |tile, code| {
                    let first = tile * shape.height;
                    let of_height = |height: i64| {
                        let mut code = Code::default();
                        image.channels(&first, height, columns, &mut code);
                        code.finish()
                    };
                    code.push(if last_height == shape.height {
                        of_height(shape.height)
                    } else {
                        Stmt::if_then(tile.less(tiles - 1), of_height(shape.height), Some(of_height(last_height)))
                    });
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
    fn channels(&self, first: &Expr, height: i64, columns: i64, code: &mut Code) {
        let Convolution { axes, pitch, value, sum, .. } = self.of;
        let [.., (channel, _), (row, rows), (pixel, width)] = &axes[..] else { unreachable!("it has pixels") };
        let panel = self.shape.columns(self.shape.units);
        let panels = (columns + panel - 1) / panel;
        let sums = memory("rows", I32, &[height, columns], "global");
        code.alloc(&sums);
        code.push(serial("panel", panels, |at, code| {
            let start = code.bind("start", (at * panel).min(columns - panel));
            self.tile(first, height, &start, (&sums, columns), code);
        }));
        code.push(serial("row", height, |own, code| {
            code.push(serial("y", *rows, |y, code| {
                code.push(in_vectors("x", *width, self.shape.lanes, |x| {
                    let element = Expr::load(&sums, own * columns + y * *pitch + x);
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

    /// Emits the sums of some output channels and a panel of pixels.
    fn tile(&self, first: &Expr, height: i64, start: &Expr, (sums, columns): (&Buffer, i64), code: &mut Code) {
        let Convolution { axes, loops, part, source, weight, .. } = self.of;
        let [.., (channel, _), (row, _), (pixel, _)] = &axes[..] else { unreachable!("it has pixels") };
        let vars: Vec<(Var, i64)> = loops.iter().map(|(var, extent)| (Var::index(var.name()), *extent)).collect();
        let mut values = self.batch.clone();
        values.extend([(row.clone(), Expr::int(0)), (pixel.clone(), Expr::int(0)), (part.clone(), Expr::int(0))]);
        values.extend(loops.iter().zip(&vars).map(|((var, extent), (own, _))| {
            (var.clone(), if *extent == 1 { Expr::int(0) } else { own.expr().clone() })
        }));
        let (image, from) = self.buffer_and_index(source, &values);
        let elements = |own: i64| {
            let mut values = values.clone();
            values.insert(channel.clone(), first + own);
            self.buffer_and_index(weight, &values)
        };
        let tile = kernel::Tile::new(self.shape, height, self.shape.units, code);
        let mut inner = Code::default();
        let columns_of = |at: i64| (image.clone(), &from + (start + at * self.shape.unit) * DEPTH);
        tile.add(columns_of, elements, &mut inner);
        let body =
            vars.iter().rev().filter(|(_, extent)| *extent != 1).fold(inner.finish(), |body, (var, extent)| {
                Stmt::for_loop(var.clone(), 0, *extent, ForKind::Serial, body)
            });
        code.push(body);
        for (row, at, vector) in tile.sums() {
            let index = (start + (row * columns + at)).ramp(1, self.shape.lanes as u16);
            code.push(Stmt::store(sums.clone(), index, vector));
        }
    }
}
