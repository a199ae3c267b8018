//! Operators that prepare features.

use kernpack_compiler::ir::{DataTypeExt, F32, F64, I64};

use super::parts::{Parts, int};
use crate::attrs::Attr;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::op::ml::LOOKUP;

/// Checks that an attribute has a number for all features, or one for each.
fn check_count(name: &str, count: usize, width: i64) -> Result<()> {
    require!(
        count == 1 || int(count) == width,
        "attribute `{name}` has {count} numbers for {width} features: expected {width} or 1"
    );
    Ok(())
}

/// Returns the extent of the last axis of the first input.
fn width(parts: &Parts<'_>) -> Result<i64> {
    let x = parts.input(0)?;
    match parts.shape(x).last() {
        Some(width) => Ok(*width),
        None => fail!("expected features, got a number without dimensions"),
    }
}

/// `(x - offset) * scale`. Doubles are rounded at the end.
pub(super) fn scaler(parts: &mut Parts<'_>) -> Result<ValueId> {
    let (x, width) = (parts.input(0)?, width(parts)?);
    let dtype = if parts.dtype(x) == F64 { F64 } else { F32 };
    let mut x = parts.cast(x, dtype)?;
    for (name, op) in [("offset", "Sub"), ("scale", "Mul")] {
        let values = parts.floats(name)?;
        if !values.is_empty() {
            check_count(name, values.len(), width)?;
            let wide: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
            let values = parts.constant(&wide, &[int(values.len())], dtype)?;
            x = parts.binary(op, x, values)?;
        }
    }
    parts.cast(x, F32)
}

/// Divides each row by its norm, unless that is zero.
pub(super) fn normalizer(parts: &mut Parts<'_>) -> Result<ValueId> {
    let x = parts.input(0)?;
    let rank = parts.shape(x).len();
    require!((1..=2).contains(&rank), "expected rows of features, got {:?}", parts.shape(x));
    let x = parts.cast(x, F32)?;
    let axes = parts.emitter.ints(&[-1]);
    let norm = match parts.attrs.text("norm", "MAX")? {
        "MAX" => parts.binary("ReduceMax", x, axes)?,
        "L1" => parts.binary("ReduceL1", x, axes)?,
        "L2" => parts.binary("ReduceL2", x, axes)?,
        other => fail!("attribute `norm` is `{other}`, not MAX, L1 or L2"),
    };
    let (is_zero, one) = (parts.with("Equal", norm, 0.0)?, parts.float(1.0, norm)?);
    let norm = parts.node("Where", &[], &[is_zero, one, norm])?;
    parts.binary("Div", x, norm)
}

/// Replaces elements that stand for missing ones.
pub(super) fn imputer(parts: &mut Parts<'_>) -> Result<ValueId> {
    let (x, width) = (parts.input(0)?, width(parts)?);
    let (floats, ints) =
        (parts.floats("imputed_value_floats")?, parts.attrs.ints("imputed_value_int64s")?.unwrap_or_default());
    let dtype = parts.dtype(x);
    let (is_missing, imputed) = if dtype.is_float() {
        require!(
            !floats.is_empty() && ints.is_empty(),
            "expected attribute `imputed_value_floats` for an input of {dtype}"
        );
        check_count("imputed_value_floats", floats.len(), width)?;
        let replaced = parts.attrs.float("replaced_value_float", 0.0)?;
        let is_missing = if replaced.is_nan() { parts.unary("IsNaN", x)? } else { parts.with("Equal", x, replaced)? };
        let wide: Vec<f64> = floats.iter().map(|value| f64::from(*value)).collect();
        (is_missing, parts.constant(&wide, &[int(wide.len())], dtype)?)
    } else {
        require!(dtype == I64, "expected an input of float32, float64 or int64, got {dtype}");
        require!(
            !ints.is_empty() && floats.is_empty(),
            "expected attribute `imputed_value_int64s` for an input of {dtype}"
        );
        check_count("imputed_value_int64s", ints.len(), width)?;
        let replaced = parts.attrs.int("replaced_value_int64", 0)?;
        let replaced = parts.emitter.int(replaced)?;
        (parts.binary("Equal", x, replaced)?, parts.emitter.ints(&ints))
    };
    parts.node("Where", &[], &[is_missing, imputed, x])
}

/// Joins inputs as columns of floats, each with a number of columns that is cut off or filled with
/// zeros.
pub(super) fn vectorizer(parts: &mut Parts<'_>) -> Result<ValueId> {
    let widths = match parts.attrs.ints("inputdimensions")? {
        Some(widths) => widths,
        None => fail!("attribute `inputdimensions` is missing"),
    };
    let count = parts.inputs.len();
    require!(
        count > 0 && widths.len() == count,
        "attribute `inputdimensions` has {} numbers for {count} inputs",
        widths.len()
    );
    let mut columns = Vec::new();
    for (index, width) in widths.iter().enumerate() {
        let width = crate::op::bounds::bounded("attribute `inputdimensions`", *width)?;
        require!(width >= 0, "attribute `inputdimensions` has {width}");
        let x = parts.input(index)?;
        let shape = parts.shape(x).to_vec();
        require!(!shape.is_empty(), "input {index} has no dimensions");
        let rows = if shape.len() == 1 { 1 } else { shape[0] };
        let own = shape[usize::from(shape.len() > 1)..].iter().product();
        let x = parts.reshaped(x, &[rows, own])?;
        let mut x = parts.cast(x, F32)?;
        if own > width {
            let [begin, end, axis] = [0, width, 1].map(|number| parts.emitter.ints(&[number]));
            x = parts.node("Slice", &[], &[x, begin, end, axis])?;
        } else if own < width {
            let pads = parts.emitter.ints(&[0, 0, 0, width - own]);
            x = parts.node("Pad", &[], &[x, pads])?;
        }
        columns.push(x);
    }
    parts.columns(&columns)
}

/// A new last axis with a one at the place of the category, and zeros.
pub(super) fn one_hot(parts: &mut Parts<'_>) -> Result<ValueId> {
    let x = parts.input(0)?;
    let categories = parts.attrs.ints("cats_int64s")?.unwrap_or_default();
    let has_texts = !parts.texts("cats_strings")?.is_empty();
    require!(!has_texts, "categories that are texts are not supported: export the model with integer categories");
    require!(!categories.is_empty(), "attribute `cats_int64s` is missing");
    let mut sorted: Vec<(i64, i64)> = categories.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    let twice = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0);
    require!(twice.is_none(), "attribute `cats_int64s` has {} twice", twice.map_or(0, |pair| pair[0].0));
    let mut shape = parts.shape(x).to_vec();
    shape.push(1);
    let x = parts.cast(x, I64)?;
    let count = int(categories.len());
    if parts.attrs.flag("zeros", true)? {
        let (x, categories) = (parts.reshaped(x, &shape)?, parts.emitter.ints(&categories));
        let is_own = parts.binary("Equal", x, categories)?;
        return parts.cast(is_own, F32);
    }
    // The number of the category; one that is unknown has the number behind the last one, which the
    // next node does not accept.
    let keys: Vec<i64> = sorted.iter().map(|(category, _)| *category).collect();
    let numbers: Vec<i64> = sorted.iter().map(|(_, number)| *number).chain([count; 2]).collect();
    let (keys, numbers) = (parts.emitter.ints(&keys), parts.emitter.ints(&numbers));
    let found = parts.own(&LOOKUP, crate::attrs::Attrs::default(), &[x, keys, numbers])?;
    let places = parts.emitter.ints(&(0..count).collect::<Vec<_>>());
    let place = parts.node("Gather", &[("axis", Attr::Int(0))], &[places, found])?;
    let place = parts.reshaped(place, &shape)?;
    let is_own = parts.binary("Equal", place, places)?;
    parts.cast(is_own, F32)
}
