//! Layers of YOLO networks.

use kernpack_compiler::ir::{Expr, Tensor};
use kernpack_compiler::te::{self, reduce_axis};
use kernpack_graph::op::{Operand, element_tensor, flatten, unflatten};
use kernpack_graph::{Result, require};
use linkme::distributed_slice;

use super::call::operand;
use super::infer::{is_known, same_shape, set};
use super::pattern;
use crate::symbol::registry::{OPERATORS, Registrar};
use crate::symbol::{Compute, Kind, Native, Param, PartialShape, Use};

#[distributed_slice(OPERATORS)]
static YOLO: fn(&mut Registrar) = register;

fn stride(used: &Use, data: &[i64]) -> Result<i64> {
    let stride = used.int("stride")?;
    let &[_, channels, rows, columns] = data else { kernpack_graph::fail!("expected images, got {data:?}") };
    require!((1..1 << 15).contains(&stride), "attribute `stride` is {stride}");
    require!(
        rows % stride == 0 && columns % stride == 0 && channels % (stride * stride) == 0,
        "images of {data:?}: rows and columns have to be multiples of stride {stride}, and channels of its square"
    );
    Ok(stride)
}

fn infer_reorg(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    if !is_known(&ins[0]) {
        return Ok(());
    }
    let stride = stride(used, &ins[0])?;
    let data = &ins[0];
    set(&mut outs[0], &[data[0], data[1] * stride * stride, data[2] / stride, data[3] / stride])
}

/// Reorders like darknet's layer: data is read as if it had fewer channels and correspondingly more
/// rows and columns, and written in its own order.
fn reorg(call: &Compute) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let stride = stride(&call.used, &x.shape)?;
    let &[batch, channels, rows, columns] = &x.shape[..] else { unreachable!("checked with the stride") };
    let fewer = channels / (stride * stride);
    let wide = [batch, fewer, rows * stride, columns * stride];
    let result = [batch, channels * stride * stride, rows / stride, columns / stride];
    Ok(vec![element_tensor(&result, |p| {
        let own = unflatten(&flatten(p, &result), &x.shape);
        let (channel, offset) = (own[1].floor_mod(fewer), own[1].floor_div(fewer));
        let row = &own[2] * stride + offset.floor_div(stride);
        let column = &own[3] * stride + offset.floor_mod(stride);
        x.at(&unflatten(&flatten(&[own[0].clone(), channel, row, column], &wide), &x.shape))
    })])
}

/// The parts of a region's channels: for each box its place, its confidence, and its classes.
struct Region {
    boxes: i64,
    coords: i64,
    classes: i64,
    has_background: bool,
    has_softmax: bool,
}

impl Region {
    fn new(used: &Use) -> Result<Self> {
        let (boxes, coords, classes) = (used.int("n")?, used.int("coords")?, used.int("classes")?);
        let in_range = [boxes, coords, classes].iter().all(|count| (1..1 << 20).contains(count)) && coords >= 2;
        require!(in_range, "a region of {boxes} boxes with {coords} coordinates and {classes} classes");
        Ok(Self {
            boxes,
            coords,
            classes,
            has_background: used.flag("background")?,
            has_softmax: used.flag("softmax")?,
        })
    }

    /// Returns the number of channels of one box.
    fn channels(&self) -> i64 {
        self.coords + self.classes + 1
    }

    fn check(&self, data: &[i64]) -> Result<()> {
        let channels = self.boxes * self.channels();
        require!(data.len() == 4 && data[1] == channels, "expected images of {channels} channels, got {data:?}");
        Ok(())
    }
}

fn infer_region(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    same_shape(used, ins, outs)?;
    if is_known(&ins[0]) { Region::new(used)?.check(&ins[0]) } else { Ok(()) }
}

fn region(call: &Compute) -> Result<Vec<Tensor>> {
    let (region, x) = (Region::new(&call.used)?, call.input(0)?);
    region.check(&x.shape)?;
    let (each, first) = (region.channels(), region.coords + i64::from(!region.has_background));
    // The largest of a box's classes, and the sum of the exponentials.
    let parts = if region.has_softmax { Some(softmax(x, &region, first)) } else { None };
    Ok(vec![element_tensor(&x.shape, |p| {
        let (number, part) = (p[1].floor_div(each), p[1].floor_mod(each));
        let own = x.at(p);
        let mut value = own.clone();
        if let Some([largest, sum]) = &parts {
            let at = [p[0].clone(), number, p[2].clone(), p[3].clone()];
            let share = te::exp(&own - largest.at(&at)) / sum.at(&at);
            value = Expr::select(part.greater_equal(first), share, value);
        }
        let mut is_logistic = part.less(2);
        if !region.has_background {
            is_logistic = is_logistic.or(part.equals(region.coords));
        }
        Expr::select(is_logistic, te::sigmoid(&own), value)
    })])
}

fn softmax(x: &Operand, region: &Region, first: i64) -> [Operand; 2] {
    let each = region.channels();
    let shape = [x.shape[0], region.boxes, x.shape[2], x.shape[3]];
    let (k, l) = (reduce_axis(0, each - first, "k"), reduce_axis(0, each - first, "l"));
    let at = |p: &[Expr], class: Expr| x.at(&[p[0].clone(), &p[1] * each + first + class, p[2].clone(), p[3].clone()]);
    let largest = operand(&element_tensor(&shape, |p| te::reduce_max(at(p, k.expr()), &k)));
    let sum = operand(&element_tensor(&shape, |p| te::sum(te::exp(at(p, l.expr()) - largest.at(p)), &l)));
    [largest, sum]
}

fn register(operators: &mut Registrar) {
    let _ = operators
        .add("yolo_reorg")
        .describe("images of fewer rows and columns and more channels, in the order of darknet")
        .arguments(&["data"])
        .params(&[Param::new("stride", Kind::Int, "1")])
        .level(5)
        .set("FInferShape", Native::InferShape(infer_reorg))
        .set("FTVMCompute", Native::Compute(reorg))
        .value("TOpPattern", pattern::INJECTIVE);
    let _ = operators
        .add("yolo_region")
        .describe("of each box: logistic functions of its place and certainty, and shares of its classes")
        .arguments(&["data"])
        .params(&[
            Param::required("n", Kind::Int),
            Param::required("classes", Kind::Int),
            Param::required("coords", Kind::Int),
            Param::required("background", Kind::Bool),
            Param::required("softmax", Kind::Bool),
        ])
        .level(5)
        .set("FInferShape", Native::InferShape(infer_region))
        .set("FTVMCompute", Native::Compute(region))
        .value("TOpPattern", pattern::OPAQUE);
}
