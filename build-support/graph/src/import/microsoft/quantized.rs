//! Operators on bytes with a scale and a zero point for each tensor: dequantized, computed and
//! quantized again, in one kernel.

use super::dynamic::check_columns;
use super::product::chosen;
use super::{Contributed, Site, of_domain};
use crate::attrs::Attr;
use crate::error::{Result, require};
use crate::graph::ValueId;
use kernpack_compiler::ir::{I8, U8};

/// The operators of this family.
pub(super) const OPERATORS: &[Contributed] = &[
    of_domain("QGemm", gemm),
    of_domain("QLinearAdd", |site| binary(site, "Add")),
    of_domain("QLinearAveragePool", |site| {
        let counts = site.attrs.flag("ceil_mode", false)? && site.attrs.flag("count_include_pad", false)?;
        require!(
            !counts,
            "attributes `ceil_mode` and `count_include_pad` are both 1, which is not supported: onnxruntime then also counts what is behind the padding"
        );
        let attrs = chosen(site, &["auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"]);
        pool(site, "AveragePool", &attrs)
    }),
    of_domain("QLinearConcat", concat),
    of_domain("QLinearGlobalAveragePool", |site| pool(site, "GlobalAveragePool", &[])),
    of_domain("QLinearLeakyRelu", |site| {
        let alpha = site.attrs.float32("alpha", 0.01)?;
        unary(site, |site, x| site.node("LeakyRelu", &[("alpha", Attr::Float(alpha))], &[x]))
    }),
    of_domain("QLinearMul", |site| binary(site, "Mul")),
    of_domain("QLinearSigmoid", |site| unary(site, |site, x| site.node("Sigmoid", &[], &[x]))),
    of_domain("QLinearSoftmax", |site| unary(site, softmax)),
    of_domain("QLinearWhere", choose),
];

/// Checks that an input is one number.
pub(super) fn check_number(site: &Site<'_>, index: usize, what: &str) -> Result<()> {
    let Some(id) = site.optional(index) else { return Ok(()) };
    let shape = site.shape(id);
    require!(shape.is_empty() || shape == [1], "input {index}, {what}, is {shape:?}: expected one number");
    Ok(())
}

/// Checks that an input has bytes.
fn check_bytes(site: &Site<'_>, index: usize) -> Result<()> {
    let dtype = site.dtype(site.input(index)?);
    require!(dtype == I8 || dtype == U8, "input {index} is {dtype}: expected int8 or uint8");
    Ok(())
}

/// Dequantizes an input, followed by its scale and its zero point.
fn dequantized(site: &mut Site<'_>, index: usize) -> Result<ValueId> {
    check_bytes(site, index)?;
    check_number(site, index + 1, "a scale")?;
    check_number(site, index + 2, "a zero point")?;
    let inputs = [Some(site.input(index)?), Some(site.input(index + 1)?), site.optional(index + 2)];
    site.with_optional("DequantizeLinear", &[], &inputs)
}

/// Quantizes by the scale and the zero point that begin at an input, to the type of `like`.
fn quantized(site: &mut Site<'_>, x: ValueId, index: usize, like: ValueId) -> Result<ValueId> {
    check_number(site, index, "a scale")?;
    check_number(site, index + 1, "a zero point")?;
    let number = if site.dtype(like) == I8 { 3 } else { 2 };
    let inputs = [Some(x), Some(site.input(index)?), site.optional(index + 1)];
    site.with_optional("QuantizeLinear", &[("output_dtype", Attr::Int(number))], &inputs)
}

/// Inputs: x, its scale and zero point, the scale and the zero point of the result.
fn unary(
    site: &mut Site<'_>,
    compute: impl FnOnce(&mut Site<'_>, ValueId) -> Result<ValueId>,
) -> Result<Vec<Option<ValueId>>> {
    let x = site.input(0)?;
    let wide = dequantized(site, 0)?;
    let y = compute(site, wide)?;
    quantized(site, y, 3, x).map(|y| vec![Some(y)])
}

/// Inputs: a and b, each with its scale and zero point, the scale and the zero point of the result.
fn binary(site: &mut Site<'_>, op: &str) -> Result<Vec<Option<ValueId>>> {
    let (a, b) = (site.input(0)?, site.input(3)?);
    let (of_a, of_b) = (site.dtype(a), site.dtype(b));
    require!(of_a == of_b, "the inputs have different types: {of_a} and {of_b}");
    let (left, right) = (dequantized(site, 0)?, dequantized(site, 3)?);
    let y = site.node(op, &[], &[left, right])?;
    quantized(site, y, 6, a).map(|y| vec![Some(y)])
}

/// Inputs: a condition, a and b, each with its scale and zero point, the scale and the zero point
/// of the result.
fn choose(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let (condition, a, b) = (site.input(0)?, site.input(1)?, site.input(4)?);
    let (of_a, of_b) = (site.dtype(a), site.dtype(b));
    require!(of_a == of_b, "inputs 1 and 4 have different types: {of_a} and {of_b}");
    let (left, right) = (dequantized(site, 1)?, dequantized(site, 4)?);
    let y = site.node("Where", &[], &[condition, left, right])?;
    quantized(site, y, 7, a).map(|y| vec![Some(y)])
}

/// Moves the channels to the front of the spatial axes and back, if they are last.
fn pool(site: &mut Site<'_>, op: &str, attrs: &[(&str, Attr)]) -> Result<Vec<Option<ValueId>>> {
    let is_last = site.attrs.flag("channels_last", false)?;
    let rank = i64::try_from(site.rank(site.input(0)?)).unwrap_or(0);
    unary(site, |site, mut x| {
        require!(rank >= 3, "expected batches of channels with spatial axes, got {:?}", site.shape(x));
        if is_last {
            let perm = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
            x = site.node("Transpose", &[("perm", Attr::Ints(perm))], &[x])?;
        }
        let y = site.node(op, attrs, &[x])?;
        if !is_last {
            return Ok(y);
        }
        let perm = core::iter::once(0).chain(2..rank).chain([1]).collect();
        site.node("Transpose", &[("perm", Attr::Ints(perm))], &[y])
    })
}

/// Computes the softmax over an axis, or before version 13 of ONNX's operators over all from one
/// on.
fn softmax(site: &mut Site<'_>, x: ValueId) -> Result<ValueId> {
    let (version, axis) = (site.attrs.needed_int("opset")?, site.attrs.int("axis", -1)?);
    if version >= 13 {
        return site.node("Softmax", &[("axis", Attr::Int(axis))], &[x]);
    }
    let shape = site.shape(x);
    let rows = site.node("Flatten", &[("axis", Attr::Int(axis))], &[x])?;
    let y = site.node("Softmax", &[("axis", Attr::Int(-1))], &[rows])?;
    site.reshaped(y, &shape)
}

/// Inputs: the scale and the zero point of the result, then each tensor with its own.
fn concat(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let axis = site.attrs.needed_int("axis")?;
    let count = site.inputs.len();
    require!(
        count >= 5 && count % 3 == 2,
        "expected a scale and a zero point, then tensors with a scale and a zero point each, got {count} inputs"
    );
    let mut parts = Vec::new();
    for index in (2..count).step_by(3) {
        let x = site.input(index)?;
        check_bytes(site, index)?;
        // The same numbers keep their bytes.
        let is_same = is_same(site, 0, index + 1) && is_same(site, 1, index + 2);
        parts.push(if is_same {
            x
        } else {
            let wide = dequantized(site, index)?;
            quantized(site, wide, 0, x)?
        });
    }
    site.node("Concat", &[("axis", Attr::Int(axis))], &parts).map(|y| vec![Some(y)])
}

/// Returns true if two inputs are known to be the same.
fn is_same(site: &Site<'_>, one: usize, other: usize) -> bool {
    let known = |index: usize| site.emitter.graph.values[site.optional(index)?].known.as_ref();
    let (a, b) = (site.optional(one), site.optional(other));
    if a == b {
        return true;
    }
    let (Some(a), Some(b)) = (known(one), known(other)) else { return false };
    a.dtype() == b.dtype() && a.bytes() == b.bytes()
}

/// Inputs: a and b, each with its scale and zero point, integers that are added to the products,
/// the scale and the zero point of the result, which has floats without them.
fn gemm(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let (a, b, alpha) = (site.input(0)?, site.input(3)?, site.attrs.float32("alpha", 1.0)?);
    let (shape_a, shape_b) = (site.shape(a), site.shape(b));
    require!(
        shape_a.len() == 2 && shape_b.len() == 2,
        "expected matrices, got {shape_a:?} and {shape_b:?} in inputs 0 and 3"
    );
    for (index, what) in [(1, "a scale"), (2, "a zero point"), (7, "a scale"), (8, "a zero point")] {
        check_number(site, index, what)?;
    }
    let mut turned = |id: ValueId, name: &str| match site.attrs.flag(name, false)? {
        true => site.node("Transpose", &[("perm", Attr::Ints(vec![1, 0]))], &[id]),
        false => Ok(id),
    };
    let (a, b) = (turned(a, "transA")?, turned(b, "transB")?);
    check_bytes(site, 0)?;
    check_bytes(site, 3)?;
    check_columns(site, 4, "the scale of the second factor", b)?;
    check_columns(site, 5, "the zero point of the second factor", b)?;
    let mut sums = site.with_optional("MatMulInteger", &[], &[Some(a), Some(b), site.optional(2), site.optional(5)])?;
    if let Some(added) = site.optional(6) {
        let (shape, own) = (site.shape(sums), site.shape(added));
        sums = site.node("Add", &[], &[sums, added])?;
        require!(site.shape(sums) == shape, "input 6, {own:?}, is not broadcast to {shape:?}");
    }
    let wide = site.node("Cast", &[("to", Attr::Int(1))], &[sums])?;
    let (a_scale, b_scale) = (site.input(1)?, site.input(4)?);
    let scale = site.node("Mul", &[], &[a_scale, b_scale])?;
    let scale = site.scaled(scale, alpha)?;
    let (y_scale, y_zero) = (site.optional(7), site.optional(8));
    let (Some(y_scale), Some(y_zero)) = (y_scale, y_zero) else {
        let has_none = y_scale.is_none() && y_zero.is_none();
        require!(has_none, "the scale and the zero point of the result, inputs 7 and 8, have to be given together");
        return site.node("Mul", &[], &[wide, scale]).map(|y| vec![Some(y)]);
    };
    // One factor, as onnxruntime has it.
    let factor = site.node("Div", &[], &[scale, y_scale])?;
    let y = site.node("Mul", &[], &[wide, factor])?;
    let one = site.number(1.0, y)?;
    site.node("QuantizeLinear", &[], &[y, one, y_zero]).map(|y| vec![Some(y)])
}
