//! Convolutions whose result has the channels before the pixels, like `NCHW`: a sum over input
//! channels and a window of `source * weights`, where the weights depend on the output channel.
//! Operations before it, such as padding, and an elementwise epilogue are fused.

mod depthwise;
mod direct;
mod few_pixels;
mod filters;
mod flat;
mod planes;
mod pointwise;
mod ranged;
mod winograd;

pub use filters::{FilterForm, Filters};

use super::code::{Inputs, current};
use super::pattern::{
    Computed, axis_of, computed, depends_on, extent_of, is_injective, is_reduction, readers, reads, with_sum,
};
use super::reduction::source_of;
use super::{Outcome, TargetDescription, decline};
use crate::arith::{Analyzer, detect_linear};
use crate::error::Result;
use crate::ir::visit::uses_var;
use crate::ir::{
    BinaryOp, Buffer, DataTypeExt, Expr, ExprNode, IterVar, Operation, OperationNode, Stmt, Tensor, Var, VarMap,
    substitute,
};
use crate::schedule::{Attach, Schedule, StageId};

/// The number of output channels that are adjacent in packed weights.
const PANEL: i64 = 16;

/// The reason why rules for known extents decline a convolution.
const OF_ANY_EXTENTS: &str = "the extents of its image are known only when it runs";

/// The reason why the other rules decline a depthwise convolution.
const OF_EACH_CHANNEL: &str = "its source depends on the output channel";

/// A spatial dimension of the image.
pub(crate) struct Spatial {
    /// The number of result pixels, or 0 if it is known only when the kernel runs.
    pub(crate) extent: i64,
    /// The stride, in pixels of the source.
    pub(crate) stride: i64,
    /// The dilation, in pixels of the source.
    pub(crate) dilation: i64,
    /// The number of pixels of the window.
    pub(crate) window: i64,
}

impl Spatial {
    /// The number of source pixels.
    pub(crate) fn source(&self) -> i64 {
        self.stride * (self.extent - 1) + self.dilation * (self.window - 1) + 1
    }

    /// Returns true for a window of three adjacent pixels with stride 1.
    fn is_for_winograd(&self) -> bool {
        (self.window, self.stride, self.dilation) == (3, 1, 1)
    }
}

/// A convolution over two dimensions, with fused operations, as functions of positions.
pub(crate) struct Convolution {
    /// The operation that is computed.
    pub(crate) out: Operation,
    /// The extents of the dimensions before the channel.
    pub(crate) batch: Vec<Expr>,
    /// The number of output channels.
    pub(crate) channels: i64,
    /// The number of input channels.
    pub(crate) depth: i64,
    /// The rows and the columns.
    pub(crate) spatial: [Spatial; 2],
    /// The number of rows, and of columns, of the result.
    image: [Expr; 2],
    batch_vars: Vec<Var>,
    channel: Var,
    depth_var: Var,
    positions: [Var; 2],
    windows: [Var; 2],
    pixels: [Var; 2],
    sum: Var,
    source: Expr,
    weight: Expr,
    value: Expr,
    /// Weights that were transformed at compile time, and the number of pixels along one side of a
    /// tile.
    tiles: Option<(Tensor, i64)>,
    /// True if each output channel reads a single input channel, which it determines.
    is_depthwise: bool,
}

fn with(pairs: impl IntoIterator<Item = (Var, Expr)>, expr: &Expr) -> Expr {
    substitute(expr, &pairs.into_iter().collect::<VarMap>())
}

impl Convolution {
    /// Returns true if the extents of the image are known only when the kernel runs.
    fn has_any_extents(&self) -> bool {
        self.image.iter().any(|extent| extent.as_int().is_none())
    }

    fn batched<'a>(&'a self, batch: &'a [Expr]) -> impl Iterator<Item = (Var, Expr)> + 'a {
        self.batch_vars.iter().cloned().zip(batch.iter().cloned())
    }

    /// An element of the source, by image, channel and pixel, where pixels are counted from the
    /// first one of a window.
    pub(crate) fn source(&self, batch: &[Expr], depth: &Expr, y: &Expr, x: &Expr) -> Expr {
        let [py, px] = &self.positions;
        let own = [(self.depth_var.clone(), depth.clone()), (py.clone(), y.clone()), (px.clone(), x.clone())];
        with(self.batched(batch).chain(own), &self.source)
    }

    /// An element of the source of a depthwise convolution, by image, output channel and pixel.
    fn own_source(&self, batch: &[Expr], channel: &Expr, y: &Expr, x: &Expr) -> Expr {
        let own = [(self.channel.clone(), channel.clone())];
        with(own, &self.source(batch, &Expr::int(0), y, x))
    }

    /// A weight.
    pub(crate) fn weight(&self, channel: &Expr, depth: &Expr, y: &Expr, x: &Expr) -> Expr {
        let [ky, kx] = &self.windows;
        let own = [
            (self.channel.clone(), channel.clone()),
            (self.depth_var.clone(), depth.clone()),
            (ky.clone(), y.clone()),
            (kx.clone(), x.clone()),
        ];
        with(own, &self.weight)
    }

    /// The value that is written for a pixel, given the sum.
    pub(crate) fn value(&self, batch: &[Expr], channel: &Expr, y: &Expr, x: &Expr, sum: &Expr) -> Expr {
        let [py, px] = &self.pixels;
        let own = [
            (self.channel.clone(), channel.clone()),
            (py.clone(), y.clone()),
            (px.clone(), x.clone()),
            (self.sum.clone(), sum.clone()),
        ];
        with(self.batched(batch).chain(own), &self.value)
    }

    /// The indices of an element of the result.
    pub(crate) fn indices(&self, batch: &[Expr], channel: &Expr, y: &Expr, x: &Expr) -> Vec<Expr> {
        let mut indices: Vec<Expr> = batch.iter().chain([channel]).cloned().collect();
        // A convolution over one dimension has a single row.
        if self.out.output(0).shape.len() == indices.len() + 2 {
            indices.push(y.clone());
        }
        indices.push(x.clone());
        indices
    }

    /// The strides of the weights for the output channel, the input channel, and the row and column
    /// of the window; `None` if the layout is not strided.
    pub(crate) fn weight_strides(&self) -> Option<[i64; 4]> {
        let ExprNode::TensorRead { tensor, indices } = &*self.weight else { return None };
        let buffer = Buffer::new("w", tensor.dtype, tensor.shape.iter(), "global");
        let vars = [self.channel.clone(), self.depth_var.clone(), self.windows[0].clone(), self.windows[1].clone()];
        let form = detect_linear(&buffer.flat_index(&indices.to_vec()), &vars, &Analyzer::new())?;
        let strides: Vec<i64> = form.coefficients.iter().map(|factor| factor.as_int()).collect::<Option<_>>()?;
        strides.try_into().ok().filter(|_| form.base.is_int(0))
    }

    /// The weights, if those of an output channel are in the order of the sum, and channels are
    /// consecutive.
    pub(crate) fn weights_in_rows(&self) -> Option<Tensor> {
        let ExprNode::TensorRead { tensor, .. } = &*self.weight else { return None };
        let [_, columns] = &self.spatial;
        let window = self.spatial[0].window * columns.window;
        let is_wanted = |[o, c, y, x]: [i64; 4]| {
            o == self.depth * window
                && c == window
                && (y == columns.window || self.spatial[0].window == 1)
                && (x == 1 || columns.window == 1)
        };
        self.weight_strides().is_some_and(is_wanted).then(|| tensor.clone())
    }

    /// The weights, if they are packed in blocks of 16 output channels,
    /// `[channel / 16][depth][y][x][channel % 16]`.
    pub(crate) fn weights_in_panels(&self) -> Option<Tensor> {
        let ExprNode::TensorRead { tensor, indices } = &*self.weight else { return None };
        let [block, depth, y, x, lane] = &indices.to_vec()[..] else { return None };
        let is_part = |index: &Expr, wanted: BinaryOp| matches!(&**index, ExprNode::Binary { op, a, b, .. } if *op == wanted && b.is_int(PANEL) && a == self.channel.expr());
        let is_plain = |index: &Expr, var: &Var, extent: i64| extent == 1 && index.is_int(0) || index == var.expr();
        let [rows, columns] = &self.spatial;
        let shape: Option<Vec<i64>> = tensor.shape.iter().map(|extent| extent.as_int()).collect();
        let is_wanted = is_part(block, BinaryOp::FloorDiv)
            && is_part(lane, BinaryOp::FloorMod)
            && is_plain(depth, &self.depth_var, self.depth)
            && is_plain(y, &self.windows[0], rows.window)
            && is_plain(x, &self.windows[1], columns.window)
            && shape.is_some_and(|shape| {
                shape[..] == [self.channels / PANEL, self.depth, rows.window, columns.window, PANEL]
            });
        is_wanted.then(|| tensor.clone())
    }

    /// The kind of loops that can be distributed over threads.
    pub(crate) fn shared_kind(&self, target: &TargetDescription) -> crate::ir::ForKind {
        self.shared_kind_of(1, target)
    }

    /// The same for a convolution whose multiplications take `times` times as long.
    fn shared_kind_of(&self, times: i64, target: &TargetDescription) -> crate::ir::ForKind {
        let [rows, columns] = &self.spatial;
        let terms = self.depth * rows.window * columns.window;
        let images = self.batch.iter().try_fold(1i64, |product, extent| product.checked_mul(extent.as_int()?));
        let multiplications = images.map(|images| {
            images.saturating_mul(self.channels * rows.extent * columns.extent).saturating_mul(terms * times) / 4
        });
        super::shared_kind(target, multiplications)
    }

    /// Creates the operation that computes the convolution by statements.
    pub(crate) fn operation(&self, name: &str, body: impl FnOnce(&Inputs, &Buffer) -> Stmt) -> Operation {
        self.operation_of(&self.weight, name, body)
    }

    /// Like [`Self::operation`], with another expression for the weights.
    fn operation_of(&self, weight: &Expr, name: &str, body: impl FnOnce(&Inputs, &Buffer) -> Stmt) -> Operation {
        let inputs = Inputs::of([&self.source, weight, &self.value]);
        inputs.operation(&format!("{}.{name}", self.out.name()), &self.out, body)
    }
}

/// Schedules a convolution as a product of the weights with the pixels of the window.
pub(crate) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let convolution = match find(schedule, id)? {
        Ok(convolution) if convolution.is_depthwise => decline!("{OF_EACH_CHANNEL}"),
        Ok(convolution) if convolution.has_any_extents() => {
            let operation = flat::operation(&convolution, target);
            schedule.replace(id, &operation.unwrap_or_else(|| ranged::operation(&convolution, target)))?;
            return Ok(Outcome::Applied);
        }
        Ok(convolution) => convolution,
        Err(reason) => decline!("{reason}"),
    };
    let operation = few_pixels::of_panels(&convolution, target)
        .or_else(|_| pointwise::operation(&convolution, target))
        .or_else(|_| few_pixels::operation(&convolution, target))
        .unwrap_or_else(|_| direct::operation(&convolution, target));
    schedule.replace(id, &operation)?;
    Ok(Outcome::Applied)
}

/// Schedules a depthwise convolution.
pub(crate) fn apply_depthwise(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let convolution = match find(schedule, id)? {
        Ok(convolution) if !convolution.is_depthwise => decline!("its output channels read all input channels"),
        Ok(convolution) => convolution,
        Err(reason) => decline!("{reason}"),
    };
    if convolution.has_any_extents() {
        decline!("{OF_ANY_EXTENTS}");
    }
    match depthwise::operation(&convolution, target) {
        Ok(operation) => schedule.replace(id, &operation)?,
        Err(reason) => decline!("{reason}"),
    }
    Ok(Outcome::Applied)
}

/// Schedules a convolution with a window of 3 x 3 with Winograd's algorithm, which needs a quarter
/// of the multiplications.
pub(crate) fn apply_winograd(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let convolution = match find(schedule, id)? {
        Ok(convolution) if convolution.is_depthwise => decline!("{OF_EACH_CHANNEL}"),
        Ok(convolution) => convolution,
        Err(reason) => decline!("{reason}"),
    };
    let found = match convolution.has_any_extents() {
        true => winograd::ranged::operation(&convolution, target),
        false => winograd::operation(&convolution, target),
    };
    match found {
        Ok(operation) => schedule.replace(id, &operation)?,
        Err(reason) => decline!("{reason}"),
    }
    Ok(Outcome::Applied)
}

/// Returns the convolution that a stage computes, or the reason why there is none.
fn find(schedule: &Schedule, id: StageId) -> Result<core::result::Result<Convolution, String>> {
    let out_name = schedule[id].name().to_owned();
    let no = |reason: String| Ok(Err(reason));
    let core = if is_reduction(schedule[id].operation()) {
        id
    } else {
        let found: Vec<StageId> = schedule
            .stages()
            .filter(|&other| {
                schedule[other].attach == Attach::Root
                    && is_reduction(schedule[other].operation())
                    && readers(schedule, other) == [id]
                    && !schedule[other].is_output
            })
            .collect();
        let [core] = found[..] else { return no(format!("`{out_name}` has no convolution of its own")) };
        core
    };
    // Stages that only the convolution reads are inlined, because the source is copied anyway.
    let mut inlined = schedule.clone();
    loop {
        let next = inlined.stages().find(|&other| {
            other != core
                && other != id
                && !inlined[other].is_output
                && inlined[other].attach == Attach::Root
                && is_injective(inlined[other].operation())
                && !stands_for_tiles(inlined[other].operation())
                && computed(inlined[other].operation()).is_some()
                && readers(&inlined, other).iter().all(|reader| *reader == core)
        });
        let Some(next) = next else { break };
        inlined.stage(next).compute_inline()?;
    }
    let normal = inlined.normalize()?;
    let (Some(parts), Some(out)) = (computed(normal[core].operation()), computed(normal[id].operation())) else {
        return no(format!("`{out_name}` is not computed by one expression"));
    };
    let core_op = normal[core].operation().clone();
    let out_op = schedule[id].operation().clone();
    Ok(describe(&parts, &out, &core_op, &out_op, core == id)
        .map(|convolution| convolution.current(schedule, &normal))
        .map_err(|reason| format!("`{}`: {reason}", core_op.name())))
}

/// Returns true if the operation represents weights that were transformed at compile time.
fn stands_for_tiles(op: &Operation) -> bool {
    matches!(&**op, OperationNode::Compute { attrs, .. } if attrs.get(filters::TILES).is_some())
}

impl Convolution {
    /// The same convolution with the tensors of the schedule itself, of which `normal` is a copy.
    fn current(mut self, schedule: &Schedule, normal: &Schedule) -> Self {
        for expr in [&mut self.source, &mut self.weight, &mut self.value] {
            *expr = current(expr, schedule, normal);
        }
        if let ExprNode::TensorRead { tensor, .. } = &*self.weight {
            self.tiles = filters::tiles_of(tensor);
        }
        self
    }
}

/// The access pattern of an operand along an axis of the result: the factor of the axis in the
/// index, and the reduction axis that is added to it, with its factor.
fn window_of(source: &Expr, axis: &IterVar, reduce_axes: &[IterVar]) -> Option<(i64, Option<(IterVar, i64)>)> {
    let mut index = reads(source).into_iter().flat_map(|(_, indices)| indices).find(|index| depends_on(index, axis))?;
    // Sources with gaps between their pixels are read at quotients of positions.
    while let ExprNode::Binary { op: BinaryOp::FloorDiv, a, b, .. } = &*index {
        if b.as_int().is_none() {
            break;
        }
        index = a.clone();
    }
    let partners: Vec<&IterVar> = reduce_axes.iter().filter(|reduce| depends_on(&index, reduce)).collect();
    let vars: Vec<Var> = [axis].into_iter().chain(partners.iter().copied()).map(|axis| axis.var.clone()).collect();
    let form = detect_linear(&index, &vars, &Analyzer::new())?;
    let factors: Vec<i64> = form.coefficients.iter().map(|factor| factor.as_int()).collect::<Option<_>>()?;
    match (&partners[..], &factors[..]) {
        ([], [stride]) => Some((*stride, None)),
        ([partner], [stride, dilation]) => Some((*stride, Some(((*partner).clone(), *dilation)))),
        _ => None,
    }
}

fn describe(
    parts: &Computed,
    out: &Computed,
    core_op: &Operation,
    out_op: &Operation,
    is_whole: bool,
) -> core::result::Result<Convolution, String> {
    let fail = |reason: &str| Err(reason.to_owned());
    let dtype = out_op.output(0).dtype;
    let ExprNode::Reduce { reducer, sources, condition, init, .. } = &*parts.body else {
        return fail("it is not a reduction");
    };
    let is_sum = reducer.results.len() == 1
        && sources.len() == 1
        && matches!(reducer.results.get(0).as_deref(), Some(ExprNode::Binary { op: BinaryOp::Add, .. }));
    if !is_sum || !condition.is_true() || !init.is_empty() {
        return fail("it is not a plain sum");
    }
    let summed = source_of(&parts.body).expect("a reduction has a source");
    let ExprNode::Binary { op: BinaryOp::Mul, a, b, .. } = &*summed else {
        return fail("what is summed is not a product");
    };
    if !matches!(dtype.bits(), 32 | 64) || !dtype.is_float() || core_op.output(0).dtype != dtype {
        return fail("its elements are not f32 or f64");
    }
    // The axes of the convolution, expressed as those of the result.
    let out_of: Vec<Expr> = if is_whole {
        parts.axes.iter().map(|axis| axis.var.expr().clone()).collect()
    } else {
        let sums: Vec<_> = reads(&out.body).into_iter().filter(|(tensor, _)| tensor.op == *core_op).collect();
        let Some((_, first)) = sums.first() else { return fail("it is not read by the result") };
        let same = |a: &Expr, b: &Expr| kernpack::structural::equal(a, b).unwrap_or(false);
        if sums.iter().any(|(_, indices)| !indices.iter().zip(first).all(|(a, b)| same(a, b))) {
            return fail("the result reads it at several places");
        }
        first.clone()
    };
    let result_axes = if is_whole { &parts.axes } else { &out.axes };
    // The axis of the convolution for each axis of the result; axes of extent 1 may be left out.
    let mut role: Vec<Option<IterVar>> = vec![None; result_axes.len()];
    let mut left_out: Vec<Var> = Vec::new();
    for (index, axis) in out_of.iter().zip(&parts.axes) {
        match axis_of(index, result_axes) {
            Some(found) => {
                let place = result_axes.iter().position(|other| other == found).expect("it is one of them");
                if extent_of(found) != extent_of(axis) || role[place].replace(axis.clone()).is_some() {
                    return fail("the result does not read all of it");
                }
            }
            None if index.is_int(0) && extent_of(axis) == Some(1) => left_out.push(axis.var.clone()),
            None => return fail("the result does not read it by its axes"),
        }
    }
    let (source, weight) = match (is_weight(a, parts), is_weight(b, parts)) {
        (false, true) => (a, b),
        (true, false) => (b, a),
        (true, true) => return fail("it has no window and no image"),
        (false, false) => return fail("neither operand has weights"),
    };
    let in_weight = |axis: &IterVar| depends_on(weight, axis);
    let in_source = |axis: &IterVar| depends_on(source, axis);
    let channels: Vec<usize> = (0..role.len()).filter(|&place| role[place].as_ref().is_some_and(in_weight)).collect();
    let [channel] = channels[..] else { return fail("it has no output channel, or several") };
    let is_depthwise = role[channel].as_ref().is_some_and(in_source);
    let inner = role.len() - 1 - channel;
    if inner == 0 || inner > 2 {
        return fail("its pixels are not one or two dimensions behind the channels");
    }
    let [channel_axis, ..] = &result_axes[channel..] else { return fail("it has no channels") };
    let Some(count) = extent_of(channel_axis) else { return fail("its channels have no constant extent") };
    let mut left: Vec<IterVar> = parts.reduce_axes.clone();
    let mut values = VarMap::new();
    let analyzer = Analyzer::new();
    let (mut spatial, mut positions, mut windows, mut pixels) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut image = Vec::new();
    let mut has_window = inner == 2;
    if inner == 1 {
        spatial.push(Spatial { extent: 1, stride: 1, dilation: 1, window: 1 });
        positions.push(Var::index("y"));
        windows.push(Var::index("ky"));
        pixels.push(Var::index("oy"));
        image.push(Expr::int(1));
    }
    for place in channel + 1..role.len() {
        let result_axis = &result_axes[place];
        let Some(total) = result_axis.dom.as_ref().map(|dom| dom.extent.clone()) else {
            return fail("its image has no extents");
        };
        let extent = total.as_int().unwrap_or(0);
        if total.as_int().is_some_and(|extent| extent < 1) {
            return fail("its image has no pixels");
        }
        image.push(total);
        let position = Var::index(if place + 1 == role.len() { "x" } else { "y" });
        pixels.push(result_axis.var.clone());
        let Some(axis) = &role[place] else {
            if extent != 1 {
                return fail("its pixels are repeated");
            }
            windows.push(Var::index("k"));
            positions.push(position);
            spatial.push(Spatial { extent, stride: 1, dilation: 1, window: 1 });
            continue;
        };
        let Some((stride, partner)) = window_of(source, axis, &parts.reduce_axes) else {
            return fail("its source is not read at sums of pixels and window");
        };
        if stride < 1 {
            return fail("its stride is not positive");
        }
        let mut entry = Spatial { extent, stride, dilation: 1, window: 1 };
        match partner {
            None if stride == 1 => {
                values.insert(axis.var.clone(), position.expr().clone());
                windows.push(Var::index("k"));
            }
            None => return fail("it has a stride without a window"),
            Some((reduce, dilation)) => {
                let Some(window) = extent_of(&reduce).filter(|window| *window > 0) else {
                    return fail("its window has no constant extents");
                };
                if dilation < 1 || !left.contains(&reduce) || !reduce.dom.as_ref().is_some_and(|dom| dom.min.is_int(0))
                {
                    return fail("its window is not read forwards from 0");
                }
                has_window = true;
                left.retain(|other| *other != reduce);
                (entry.dilation, entry.window) = (dilation, window);
                // The position is `stride * axis + dilation * reduce`: it is solved for one axis,
                // and the other one must disappear.
                if stride == 1 {
                    let solved = position.expr() - &(reduce.var.expr() * dilation);
                    values.insert(axis.var.clone(), solved);
                } else if dilation == 1 {
                    let solved = position.expr() - &(axis.var.expr() * stride);
                    values.insert(reduce.var.clone(), solved);
                } else {
                    return fail("it has both a stride and a dilation");
                }
                windows.push(reduce.var.clone());
            }
        }
        positions.push(position);
        spatial.push(entry);
    }
    if !has_window {
        return fail("it has no window");
    }
    let (depth, depth_var) = match &left[..] {
        [] if is_depthwise => (1, Var::index("c")),
        [axis] => {
            let (Some(depth), true) = (extent_of(axis), axis.dom.as_ref().is_some_and(|dom| dom.min.is_int(0))) else {
                return fail("its input channels have no constant extent");
            };
            if is_depthwise && depth != 1 {
                return fail(OF_EACH_CHANNEL);
            }
            if !is_depthwise && (!in_source(axis) || !in_weight(axis)) {
                return fail("an operand does not depend on the input channels");
            }
            (depth, axis.var.clone())
        }
        _ => return fail("it does not sum over one axis of input channels besides the window"),
    };
    if depth < 1 || count < 1 {
        return fail("it is empty");
    }
    let roles = (0..role.len())
        .filter_map(|place| Some((role[place].clone()?.var.clone(), result_axes[place].var.expr().clone())));
    let rename: VarMap = roles.chain(left_out.into_iter().map(|var| (var, Expr::int(0)))).collect();
    // The source as a function of positions only.
    let moved = analyzer.simplify(&substitute(source, &values));
    let gone = |var: &Var| {
        let is_position = positions.contains(var);
        !is_position
            && (role[channel + 1..].iter().flatten().any(|axis| axis.var == *var)
                || windows.contains(var) && parts.reduce_axes.iter().any(|axis| axis.var == *var))
    };
    if uses_var(&moved, gone) {
        return fail("its source is not a function of the position in the image");
    }
    let sum = Var::new("sum", dtype);
    let value = if is_whole { sum.expr().clone() } else { with_sum(core_op, &sum, &out.body).map_err(|_| "no")? };
    let batch: Vec<&IterVar> = result_axes[..channel].iter().collect();
    Ok(Convolution {
        out: out_op.clone(),
        batch: batch
            .iter()
            .map(|axis| axis.dom.as_ref().map_or_else(|| Expr::int(1), |dom| dom.extent.clone()))
            .collect(),
        channels: count,
        depth,
        spatial: spatial.try_into().map_err(|_| "it has no two dimensions")?,
        image: image.try_into().map_err(|_| "it has no two dimensions")?,
        batch_vars: batch.iter().map(|axis| axis.var.clone()).collect(),
        channel: channel_axis.var.clone(),
        depth_var,
        positions: positions.try_into().map_err(|_| "it has no two dimensions")?,
        windows: windows.try_into().map_err(|_| "it has no two dimensions")?,
        pixels: pixels.try_into().map_err(|_| "it has no two dimensions")?,
        sum,
        source: substitute(&moved, &rename),
        weight: substitute(weight, &rename),
        value,
        tiles: None,
        is_depthwise,
    })
}

/// Returns true if an operand is indexed only by axes, in any order in memory, and not by the last
/// axis of the result: such operands are weights.
fn is_weight(operand: &Expr, parts: &Computed) -> bool {
    // The weights may have fewer bits than the computation.
    let read = match &**operand {
        ExprNode::Cast { value, .. } if value.dtype().is_float() => value,
        _ => operand,
    };
    let ExprNode::TensorRead { tensor, indices } = &**read else { return false };
    let all: Vec<IterVar> = parts.axes.iter().chain(&parts.reduce_axes).cloned().collect();
    // Indices of channel blocks are quotients and remainders.
    let is_block = |index: &Expr| match &**index {
        ExprNode::Binary { op: BinaryOp::FloorDiv | BinaryOp::FloorMod, a, b, .. } => {
            b.is_int(PANEL) && axis_of(a, &parts.axes).is_some()
        }
        _ => false,
    };
    let is_plain = indices.iter().all(|index| index.is_int(0) || axis_of(&index, &all).is_some() || is_block(&index))
        || {
            let buffer = Buffer::new("w", tensor.dtype, tensor.shape.iter(), "global");
            let vars: Vec<Var> = all.iter().map(|axis| axis.var.clone()).collect();
            let analyzer = Analyzer::new();
            for axis in &all {
                if let Some(dom) = &axis.dom {
                    analyzer.bind(&axis.var, dom);
                }
            }
            detect_linear(&buffer.flat_index(&indices.to_vec()), &vars, &analyzer).is_some_and(|form| {
                form.base.as_int().is_some() && form.coefficients.iter().all(|by| by.as_int().is_some())
            })
        };
    let data = parts.axes.iter().filter(|axis| depends_on(operand, axis)).count();
    is_plain
        && data == 1
        && tensor.shape.iter().all(|extent| extent.as_int().is_some())
        && parts.reduce_axes.iter().all(|axis| extent_of(axis) == Some(1) || depends_on(operand, axis))
}
