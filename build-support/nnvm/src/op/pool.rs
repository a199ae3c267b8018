//! Pooling, and image resizing.

use kernpack_compiler::ir::{Expr, I64, Tensor};
use kernpack_compiler::te;
use kernpack_graph::op::{Operand, element_tensor};
use kernpack_graph::{Attr, Result, fail, require};
use linkme::distributed_slice;

use super::call::operand;
use super::conv::{layout, padding};
use super::infer::{is_known, set};
use super::nn::relayout;
use super::pattern;
use crate::layout::Layout;
use crate::symbol::registry::{OPERATORS, Registrar};
use crate::symbol::{Compute, Kind, Native, Param, PartialShape, Use};

#[distributed_slice(OPERATORS)]
static POOL: fn(&mut Registrar) = register;

/// The windows of a pooling.
pub(super) struct Pool {
    pub(super) kernel: Vec<i64>,
    pub(super) strides: Vec<i64>,
    /// Includes the additional padding of `ceil_mode`.
    pub(super) padding: [i64; 4],
}

impl Pool {
    pub(super) fn new(used: &Use) -> Result<Self> {
        let (kernel, strides) = (used.ints_of("pool_size", 2)?, used.ints_of("strides", 2)?);
        let in_range = kernel.iter().chain(&strides).all(|value| (1..1 << 30).contains(value));
        require!(in_range, "windows of {kernel:?} in steps of {strides:?}");
        let mut padding = padding(used)?;
        if used.flag("ceil_mode")? {
            // As many rows as complete the last window.
            for axis in 0..2 {
                padding[2 + axis] += strides[axis] - 1;
            }
        }
        Ok(Self { kernel, strides, padding })
    }

    fn results(&self, data: &[i64]) -> Result<Vec<i64>> {
        let mut result = data[..2].to_vec();
        for axis in 0..2 {
            let free = data[2 + axis] + self.padding[axis] + self.padding[2 + axis] - self.kernel[axis];
            require!(free >= 0, "a window of {:?} is larger than {data:?} with its padding", self.kernel);
            result.push(free / self.strides[axis] + 1);
        }
        Ok(result)
    }
}

/// The layout of the attribute. Data with one more axis has a part of its channels there:
/// `NCHW16c`.
fn layout_of(used: &Use, shape: &[i64]) -> Result<Layout> {
    let own = layout(used, "layout")?;
    match shape {
        [outer @ .., part] if outer.len() == own.axes().len() && own.part('C') == 1 => {
            Layout::parse(&format!("{own}{part}c"))
        }
        _ => Ok(own),
    }
}

fn infer_in_layout(
    used: &Use,
    ins: &mut [PartialShape],
    outs: &mut [PartialShape],
    result: impl FnOnce(&[i64]) -> Result<Vec<i64>>,
) -> Result<()> {
    if !is_known(&ins[0]) {
        return Ok(());
    }
    let layout = layout_of(used, &ins[0])?;
    let shape = layout.shape(&result(&layout.extents(&ins[0], "NCHW")?)?, "NCHW")?;
    set(&mut outs[0], &shape)
}

fn infer(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    infer_in_layout(used, ins, outs, |data| Pool::new(used)?.results(data))
}

fn infer_global(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    infer_in_layout(used, ins, outs, |data| Ok(vec![data[0], data[1], 1, 1]))
}

/// Computes in NCHW, and returns the result in the layout of the data.
fn in_layout(call: &Compute, compute: impl FnOnce(&Operand) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (own, plain) = (layout_of(&call.used, &x.shape)?, Layout::parse("NCHW")?);
    if own == plain {
        return Ok(vec![compute(x)?]);
    }
    let result = compute(&operand(&relayout(x, &own, &plain)?))?;
    Ok(vec![relayout(&operand(&result), &plain, &own)?])
}

fn pool(call: &Compute, name: &str) -> Result<Vec<Tensor>> {
    let pool = Pool::new(&call.used)?;
    let mut attrs = vec![
        ("kernel_shape", Attr::Ints(pool.kernel)),
        ("strides", Attr::Ints(pool.strides)),
        ("pads", Attr::Ints(pool.padding.to_vec())),
    ];
    if name == "AveragePool" {
        attrs.push(("count_include_pad", Attr::Int(i64::from(call.used.flag("count_include_pad")?))));
    }
    in_layout(call, |x| call.run(name, &attrs, core::slice::from_ref(x)))
}

fn global(call: &Compute, name: &str) -> Result<Vec<Tensor>> {
    in_layout(call, |x| call.run(name, &[], core::slice::from_ref(x)))
}

/// Resizes images: the nearest element, or linear interpolation between two of each axis.
fn resized(x: &Operand, size: [i64; 2], method: &str, align: bool) -> Result<Tensor> {
    let &[n, c, rows, columns] = &x.shape[..] else { fail!("expected images, got {:?}", x.shape) };
    let from = [rows, columns];
    require!(
        ["NEAREST_NEIGHBOR", "BILINEAR"].contains(&method),
        "method `{method}` is unknown: it is `NEAREST_NEIGHBOR` or `BILINEAR`"
    );
    let nearest = method == "NEAREST_NEIGHBOR";
    Ok(element_tensor(&[n, c, size[0], size[1]], |p| {
        if nearest {
            let place = |axis: usize| (&p[2 + axis] * from[axis]).floor_div(size[axis]);
            return x.at(&[p[0].clone(), p[1].clone(), place(0), place(1)]);
        }
        // Two places of each axis, and the distance from the first one.
        let places = |axis: usize| -> (Expr, Expr, Expr) {
            let ratio = if align && size[axis] > 1 {
                (from[axis] - 1) as f64 / (size[axis] - 1) as f64
            } else {
                from[axis] as f64 / size[axis] as f64
            };
            let exact = p[2 + axis].cast(x.dtype) * te::constant(ratio, x.dtype);
            let below = te::floor(&exact);
            let first = below.cast(I64).max(0).min(from[axis] - 1);
            let second = (&first + 1).min(from[axis] - 1);
            (first, second, exact - below)
        };
        let ((top, bottom, down), (left, right, along)) = (places(0), places(1));
        let at = |row: &Expr, column: &Expr| x.at(&[p[0].clone(), p[1].clone(), row.clone(), column.clone()]);
        let one = te::constant(1.0, x.dtype);
        let row = |row: &Expr| at(row, &left) * (&one - &along) + at(row, &right) * &along;
        row(&top) * (&one - &down) + row(&bottom) * &down
    }))
}

fn size(used: &Use) -> Result<[i64; 2]> {
    let size = used.ints_of("size", 2)?;
    require!(size.iter().all(|extent| (1..1 << 30).contains(extent)), "attribute `size` is {size:?}");
    Ok([size[0], size[1]])
}

fn scaled(used: &Use, data: &[i64]) -> Result<[i64; 2]> {
    let scale = used.int("scale")?;
    require!((1..1 << 16).contains(&scale), "attribute `scale` is {scale}");
    Ok([data[2].saturating_mul(scale), data[3].saturating_mul(scale)])
}

const NCHW: Param = Param::new("layout", Kind::Text, "NCHW");

/// The attributes of a max_pool2d.
pub(super) const PARAMS: [Param; 5] = [
    Param::required("pool_size", Kind::Ints),
    Param::new("strides", Kind::Ints, "(1, 1)"),
    Param::new("padding", Kind::Ints, "(0, 0)"),
    NCHW,
    Param::new("ceil_mode", Kind::Bool, "False"),
];

fn register(operators: &mut Registrar) {
    let _ = operators
        .add("max_pool2d")
        .describe("the largest element of each window")
        .arguments(&["data"])
        .params(&PARAMS)
        .level(2)
        .set("FInferShape", Native::InferShape(infer))
        .set("FTVMCompute", Native::Compute(|call| pool(call, "MaxPool")))
        .value("TOpPattern", pattern::OUT_FUSABLE);
    let include = Param::new("count_include_pad", Kind::Bool, "False");
    let params: Vec<Param> = PARAMS.into_iter().chain([include]).collect();
    let _ = operators
        .add("avg_pool2d")
        .describe("the mean of each window")
        .arguments(&["data"])
        .params(&params)
        .level(2)
        .set("FInferShape", Native::InferShape(infer))
        .set("FTVMCompute", Native::Compute(|call| pool(call, "AveragePool")))
        .value("TOpPattern", pattern::OUT_FUSABLE);
    let _ = operators
        .add("global_max_pool2d")
        .describe("the largest element of each channel")
        .arguments(&["data"])
        .params(&[NCHW])
        .level(2)
        .set("FInferShape", Native::InferShape(infer_global))
        .set("FTVMCompute", Native::Compute(|call| global(call, "GlobalMaxPool")))
        .value("TOpPattern", pattern::OUT_FUSABLE);
    let _ = operators
        .add("global_avg_pool2d")
        .describe("the mean of each channel")
        .arguments(&["data"])
        .params(&[NCHW])
        .level(2)
        .set("FInferShape", Native::InferShape(infer_global))
        .set("FTVMCompute", Native::Compute(|call| global(call, "GlobalAveragePool")))
        .value("TOpPattern", pattern::OUT_FUSABLE);
    let _ = operators
        .add("upsampling")
        .describe("images enlarged by a factor")
        .arguments(&["data"])
        .params(&[Param::required("scale", Kind::Int), NCHW, Param::new("method", Kind::Text, "NEAREST_NEIGHBOR")])
        .level(1)
        .set(
            "FInferShape",
            Native::InferShape(|used, ins, outs| {
                infer_in_layout(used, ins, outs, |data| {
                    let [rows, columns] = scaled(used, data)?;
                    Ok(vec![data[0], data[1], rows, columns])
                })
            }),
        )
        .set(
            "FTVMCompute",
            Native::Compute(|call| {
                let method = call.used.text("method")?;
                in_layout(call, |x| resized(x, scaled(&call.used, &x.shape)?, &method, false))
            }),
        )
        .value("TOpPattern", pattern::INJECTIVE);
    let params = [
        Param::required("size", Kind::Ints),
        NCHW,
        Param::new("method", Kind::Text, "BILINEAR"),
        Param::new("align_corners", Kind::Bool, "False"),
    ];
    let _ = operators
        .add("resize")
        .describe("images of another size")
        .arguments(&["data"])
        .params(&params)
        .level(1)
        .set(
            "FInferShape",
            Native::InferShape(|used, ins, outs| {
                infer_in_layout(used, ins, outs, |data| {
                    let [rows, columns] = size(used)?;
                    Ok(vec![data[0], data[1], rows, columns])
                })
            }),
        )
        .set(
            "FTVMCompute",
            Native::Compute(|call| {
                let (method, align) = (call.used.text("method")?, call.used.flag("align_corners")?);
                in_layout(call, |x| resized(x, size(&call.used)?, &method, align))
            }),
        )
        .value("TOpPattern", pattern::INJECTIVE);
}
