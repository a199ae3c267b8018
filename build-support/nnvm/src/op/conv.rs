//! Convolutions.

use kernpack_compiler::ir::Tensor;
use kernpack_graph::op::{Operand, element_tensor};
use kernpack_graph::{Attr, Result, fail, require};
use linkme::distributed_slice;

use super::call::operand;
use super::infer::{is_known, set};
use super::nn::{count_with_bias, relayout, with_bias};
use super::pattern;
use crate::layout::Layout;
use crate::symbol::registry::{OPERATORS, Registrar};
use crate::symbol::{Arity, Compute, Kind, Native, Param, PartialShape, Use};

#[distributed_slice(OPERATORS)]
static CONVOLUTION: fn(&mut Registrar) = register;

/// The attributes of a convolution.
pub(crate) struct Window {
    /// Output channels.
    pub(crate) channels: i64,
    /// Extents of a window.
    pub(crate) kernel: [i64; 2],
    /// Steps from one window to the next.
    pub(crate) strides: [i64; 2],
    /// The padding above, left, below and right.
    pub(crate) padding: [i64; 4],
    /// Steps within a window.
    pub(crate) dilation: [i64; 2],
    /// Groups of channels.
    pub(crate) groups: i64,
}

fn pair(used: &Use, name: &str, least: i64) -> Result<[i64; 2]> {
    let values = used.ints_of(name, 2)?;
    let pair = [values[0], values[1]];
    require!(pair.iter().all(|value| (least..1 << 30).contains(value)), "attribute `{name}` is {values:?}");
    Ok(pair)
}

/// Reads the padding: one number for all sides, two for both axes, or four: above, left, below,
/// right.
pub(super) fn padding(used: &Use) -> Result<[i64; 4]> {
    let values = used.ints("padding")?;
    let padding = match values[..] {
        [all] => [all; 4],
        [rows, columns] => [rows, columns, rows, columns],
        [above, left, below, right] => [above, left, below, right],
        _ => fail!("attribute `padding` has {} numbers: 1, 2 or 4 are expected", values.len()),
    };
    require!(padding.iter().all(|value| (0..1 << 30).contains(value)), "attribute `padding` is {values:?}");
    Ok(padding)
}

impl Window {
    /// Reads the attributes.
    pub(crate) fn new(used: &Use) -> Result<Self> {
        let (channels, groups) = (used.int("channels")?, used.int("groups")?);
        require!(channels > 0 && groups > 0 && channels % groups == 0, "{channels} channels in {groups} groups");
        Ok(Self {
            channels,
            kernel: pair(used, "kernel_size", 1)?,
            strides: pair(used, "strides", 1)?,
            padding: padding(used)?,
            dilation: pair(used, "dilation", 1)?,
            groups,
        })
    }

    /// Returns the extent of a window with its gaps.
    pub(super) fn reach(&self, axis: usize) -> i64 {
        (self.kernel[axis] - 1) * self.dilation[axis] + 1
    }

    /// Returns the rows and columns of the result, or 0 if those of the data are not known.
    pub(super) fn results(&self, rows_columns: [i64; 2]) -> Result<[i64; 2]> {
        let mut results = [0; 2];
        for axis in 0..2 {
            let extent = rows_columns[axis];
            if extent == 0 {
                continue;
            }
            let free = extent + self.padding[axis] + self.padding[axis + 2] - self.reach(axis);
            require!(free >= 0, "a window of {} is larger than an axis of {extent} with its padding", self.reach(axis));
            results[axis] = free / self.strides[axis] + 1;
        }
        Ok(results)
    }

    pub(super) fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![
            ("strides", Attr::Ints(self.strides.to_vec())),
            ("pads", Attr::Ints(self.padding.to_vec())),
            ("dilations", Attr::Ints(self.dilation.to_vec())),
            ("group", Attr::Int(self.groups)),
        ]
    }
}

/// Returns the layout in an attribute. `__undef__` is that of the data.
pub(super) fn layout(used: &Use, name: &str) -> Result<Layout> {
    let text = used.text(name)?;
    if text == "__undef__" { Layout::parse(&used.text("layout")?) } else { Layout::parse(&text) }
}

/// Returns the whole axes of a shape that may not be known.
fn axes(layout: &Layout, shape: &[i64], order: &str) -> Result<Vec<i64>> {
    if shape.is_empty() { Ok(vec![0; order.len()]) } else { layout.extents(shape, order) }
}

/// Sets a shape in a layout, as far as it is known.
fn set_in(shape: &mut PartialShape, layout: &Layout, extents: &[i64], order: &str) -> Result<()> {
    let found = layout.shape(extents, order)?;
    set(shape, &found)
}

fn infer(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    let kernel_layout = layout(used, "kernel_layout")?;
    // The channels of a weight determine those of unknown data.
    let known = kernel_layout.extents(&ins[1], "OIHW").ok().map(|weight| weight[1]);
    infer_with(used, ins, outs, known, |window, [channels, depth]| {
        kernel_layout.shape(&[channels, depth, window.kernel[0], window.kernel[1]], "OIHW")
    })
}

/// Infers the shapes of a convolution. `depth` are the channels of a group if the weight determines
/// them, and the closure computes the weight's shape from the channels of the result and those of a
/// group of the data.
pub(super) fn infer_with(
    used: &Use,
    ins: &mut [PartialShape],
    outs: &mut [PartialShape],
    depth: Option<i64>,
    weight: impl FnOnce(&Window, [i64; 2]) -> Result<Vec<i64>>,
) -> Result<()> {
    let window = Window::new(used)?;
    let (data_layout, out_layout) = (layout(used, "layout")?, layout(used, "out_layout")?);
    let mut data = axes(&data_layout, &ins[0], "NCHW")?;
    let mut result = axes(&out_layout, &outs[0], "NCHW")?;
    // Backwards, if a step of 1 makes the result unique.
    if data[0] == 0 {
        data[0] = result[0];
    }
    for axis in 0..2 {
        if data[2 + axis] == 0 && result[2 + axis] != 0 && window.strides[axis] == 1 {
            let grown = window.padding[axis] + window.padding[axis + 2];
            data[2 + axis] = result[2 + axis] + window.reach(axis) - 1 - grown;
        }
    }
    if let Some(depth) = depth
        && data[1] == 0
    {
        data[1] = depth * window.groups;
    }
    require!(data[1] % window.groups == 0, "{} channels of the data in {} groups", data[1], window.groups);
    let [rows, columns] = window.results([data[2], data[3]])?;
    result = vec![data[0], window.channels, rows, columns];
    set(&mut ins[1], &weight(&window, [window.channels, data[1] / window.groups])?)?;
    set_in(&mut ins[0], &data_layout, &data, "NCHW")?;
    set_in(&mut outs[0], &out_layout, &result, "NCHW")?;
    set_bias(ins, &out_layout, window.channels)
}

fn set_bias(ins: &mut [PartialShape], out_layout: &Layout, channels: i64) -> Result<()> {
    let Some(bias) = ins.get_mut(2) else { return Ok(()) };
    // A convolution in NCHW16c takes its bias in C16c; one axis of all channels is accepted, too.
    let blocked = out_layout.only('C')?;
    if bias.len() == 1 || blocked.axes().len() == 1 {
        return set(bias, &[channels]);
    }
    set(bias, &blocked.shape(&[channels], "C")?)
}

fn infer_types(
    used: &Use,
    ins: &mut [Option<kernpack::DataType>],
    outs: &mut [Option<kernpack::DataType>],
) -> Result<()> {
    let wanted = used.text("out_dtype")?;
    let known = ins.iter().find_map(|dtype| *dtype);
    if wanted == "same" {
        let known = known.or(outs[0]);
        for dtype in ins.iter_mut().chain(outs.iter_mut()) {
            *dtype = dtype.or(known);
        }
        return Ok(());
    }
    let wanted = used.data_type("out_dtype")?;
    outs[0] = Some(wanted);
    for dtype in ins.iter_mut().take(2) {
        *dtype = dtype.or(known);
    }
    if let Some(bias) = ins.get_mut(2) {
        *bias = bias.or(Some(wanted));
    }
    Ok(())
}

/// Converts to the layout that operators of models take.
fn in_plain(x: &Operand, from: &Layout, to: &str) -> Result<Operand> {
    let to = Layout::parse(to)?;
    if *from == to { Ok(x.clone()) } else { Ok(operand(&relayout(x, from, &to)?)) }
}

/// Converts to the type of the sums.
fn widened(call: &Compute, x: Operand) -> Result<Operand> {
    let wanted = call.used.text("out_dtype")?;
    if wanted == "same" {
        return Ok(x);
    }
    let dtype = call.used.data_type("out_dtype")?;
    Ok(if x.dtype == dtype { x } else { operand(&element_tensor(&x.shape, |position| x.at(position).cast(dtype))) })
}

/// Converts the inputs to plain layouts, and the result back to its own.
fn convolve(call: &Compute, name: &str, weights: &str, attrs: &[(&str, Attr)]) -> Result<Vec<Tensor>> {
    let (data_layout, kernel_layout) = (layout(&call.used, "layout")?, layout(&call.used, "kernel_layout")?);
    let out_layout = if name == "Conv" { layout(&call.used, "out_layout")? } else { data_layout.clone() };
    let mut inputs = vec![
        widened(call, in_plain(call.input(0)?, &data_layout, "NCHW")?)?,
        widened(call, in_plain(call.input(1)?, &kernel_layout, weights)?)?,
    ];
    if let Some(bias) = call.inputs.get(2) {
        inputs.push(if bias.rank() == 1 { bias.clone() } else { in_plain(bias, &out_layout.only('C')?, "C")? });
    }
    let result = call.run(name, attrs, &inputs)?;
    let plain = Layout::parse("NCHW")?;
    Ok(vec![if out_layout == plain { result } else { relayout(&operand(&result), &plain, &out_layout)? }])
}

fn conv(call: &Compute) -> Result<Vec<Tensor>> {
    convolve(call, "Conv", "OIHW", &Window::new(&call.used)?.attrs())
}

fn infer_transposed(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    let window = Window::new(used)?;
    let (data_layout, kernel_layout) = (layout(used, "layout")?, layout(used, "kernel_layout")?);
    if !is_known(&ins[0]) {
        return Ok(());
    }
    let more = pair(used, "output_padding", 0)?;
    let data = data_layout.extents(&ins[0], "NCHW")?;
    let mut result = vec![data[0], window.channels];
    for axis in 0..2 {
        let full = window.strides[axis] * (data[2 + axis] - 1) + window.reach(axis) + more[axis];
        let extent = full - window.padding[axis] - window.padding[axis + 2];
        require!(extent > 0, "the padding is larger than the result");
        result.push(extent);
    }
    let weight = [data[1], window.channels / window.groups, window.kernel[0], window.kernel[1]];
    set_in(&mut ins[1], &kernel_layout, &weight, "OIHW")?;
    set_in(&mut outs[0], &data_layout, &result, "NCHW")?;
    set_bias(ins, &data_layout, window.channels)
}

fn transposed(call: &Compute) -> Result<Vec<Tensor>> {
    let mut attrs = Window::new(&call.used)?.attrs();
    attrs.push(("output_padding", Attr::Ints(pair(&call.used, "output_padding", 0)?.to_vec())));
    convolve(call, "ConvTranspose", "OIHW", &attrs)
}

/// The attributes that all convolutions share.
const PARAMS: [Param; 8] = [
    Param::required("channels", Kind::Int),
    Param::required("kernel_size", Kind::Ints),
    Param::new("strides", Kind::Ints, "(1, 1)"),
    Param::new("padding", Kind::Ints, "(0, 0)"),
    Param::new("dilation", Kind::Ints, "(1, 1)"),
    Param::new("groups", Kind::Int, "1"),
    Param::new("layout", Kind::Text, "NCHW"),
    Param::new("kernel_layout", Kind::Text, "OIHW"),
];

const USE_BIAS: Param = Param::new("use_bias", Kind::Bool, "True");
const OUT_TYPE: Param = Param::new("out_dtype", Kind::Text, "same");

/// The attributes of a conv2d.
pub(super) fn params() -> Vec<Param> {
    let out_layout = Param::new("out_layout", Kind::Text, "__undef__");
    PARAMS.into_iter().chain([USE_BIAS, out_layout, OUT_TYPE]).collect()
}

fn register(operators: &mut Registrar) {
    let params = params();
    for (name, doc) in [
        ("conv2d", "a convolution over rows and columns: weight is (channels, channels of a group, kernel)"),
        ("_contrib_conv2d_NCHWc", "a convolution in a layout with split channels, as AlterOpLayout chooses it"),
    ] {
        let _ = operators
            .add(name)
            .describe(doc)
            .arguments(&["data", "weight", "bias"])
            .params(&params)
            .inputs(Arity::Native(count_with_bias))
            .level(2)
            .set("FListInputNames", Native::Names(with_bias))
            .set("FInferShape", Native::InferShape(infer))
            .set("FInferType", Native::InferType(infer_types))
            .set("FTVMCompute", Native::Compute(conv))
            .value("TOpPattern", pattern::OUT_FUSABLE);
    }
    let more = Param::new("output_padding", Kind::Ints, "(0, 0)");
    let params: Vec<Param> = PARAMS.into_iter().chain([USE_BIAS, more, OUT_TYPE]).collect();
    let _ = operators
        .add("conv2d_transpose")
        .describe("a transposed convolution: weight is (channels of the data, channels of a group, kernel)")
        .arguments(&["data", "weight", "bias"])
        .params(&params)
        .inputs(Arity::Native(count_with_bias))
        .level(2)
        .set("FListInputNames", Native::Names(with_bias))
        .set("FInferShape", Native::InferShape(infer_transposed))
        .set("FInferType", Native::InferType(infer_types))
        .set("FTVMCompute", Native::Compute(transposed))
        .value("TOpPattern", pattern::OUT_FUSABLE);
}
