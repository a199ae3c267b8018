//! Operators that prepare features.

use kernpack_compiler::ir::{DataTypeExt, F32, F64, I64};

use super::site::int;
use crate::attrs::Attr;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::import::site::Site;
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
fn width(site: &Site<'_>) -> Result<i64> {
    let x = site.input(0)?;
    match site.shape(x).last() {
        Some(width) => Ok(*width),
        None => fail!("expected features, got a number without dimensions"),
    }
}

/// `(x - offset) * scale`. Doubles are rounded at the end.
pub(super) fn scaler(site: &mut Site<'_>) -> Result<ValueId> {
    let (x, width) = (site.input(0)?, width(site)?);
    let dtype = if site.dtype(x) == F64 { F64 } else { F32 };
    let mut x = site.cast(x, dtype)?;
    for (name, op) in [("offset", "Sub"), ("scale", "Mul")] {
        let values = site.attrs.floats(name)?;
        if !values.is_empty() {
            check_count(name, values.len(), width)?;
            let wide: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
            let values = site.constant(&wide, &[int(values.len())], dtype)?;
            x = site.binary(op, x, values)?;
        }
    }
    site.cast(x, F32)
}

/// Divides each row by its norm, unless that is zero.
pub(super) fn normalizer(site: &mut Site<'_>) -> Result<ValueId> {
    let x = site.input(0)?;
    let rank = site.shape(x).len();
    require!((1..=2).contains(&rank), "expected rows of features, got {:?}", site.shape(x));
    let x = site.cast(x, F32)?;
    let axes = site.emitter.ints(&[-1]);
    let norm = match site.attrs.text("norm", "MAX")? {
        "MAX" => site.binary("ReduceMax", x, axes)?,
        "L1" => site.binary("ReduceL1", x, axes)?,
        "L2" => site.binary("ReduceL2", x, axes)?,
        other => fail!("attribute `norm` is `{other}`, not MAX, L1 or L2"),
    };
    let (is_zero, one) = (site.with("Equal", norm, 0.0)?, site.float(1.0, norm)?);
    let norm = site.node("Where", &[], &[is_zero, one, norm])?;
    site.binary("Div", x, norm)
}

/// Replaces elements that stand for missing ones.
pub(super) fn imputer(site: &mut Site<'_>) -> Result<ValueId> {
    let (x, width) = (site.input(0)?, width(site)?);
    let (floats, ints) =
        (site.attrs.floats("imputed_value_floats")?, site.attrs.ints("imputed_value_int64s")?.unwrap_or_default());
    let dtype = site.dtype(x);
    let (is_missing, imputed) = if dtype.is_float() {
        require!(
            !floats.is_empty() && ints.is_empty(),
            "expected attribute `imputed_value_floats` for an input of {dtype}"
        );
        check_count("imputed_value_floats", floats.len(), width)?;
        let replaced = site.attrs.float("replaced_value_float", 0.0)?;
        let is_missing = if replaced.is_nan() { site.unary("IsNaN", x)? } else { site.with("Equal", x, replaced)? };
        let wide: Vec<f64> = floats.iter().map(|value| f64::from(*value)).collect();
        (is_missing, site.constant(&wide, &[int(wide.len())], dtype)?)
    } else {
        require!(dtype == I64, "expected an input of float32, float64 or int64, got {dtype}");
        require!(
            !ints.is_empty() && floats.is_empty(),
            "expected attribute `imputed_value_int64s` for an input of {dtype}"
        );
        check_count("imputed_value_int64s", ints.len(), width)?;
        let replaced = site.attrs.int("replaced_value_int64", 0)?;
        let replaced = site.emitter.int(replaced)?;
        (site.binary("Equal", x, replaced)?, site.emitter.ints(&ints))
    };
    site.node("Where", &[], &[is_missing, imputed, x])
}

/// Joins inputs as columns of floats, each with a number of columns that is cut off or filled with
/// zeros.
pub(super) fn vectorizer(site: &mut Site<'_>) -> Result<ValueId> {
    let widths = match site.attrs.ints("inputdimensions")? {
        Some(widths) => widths,
        None => fail!("attribute `inputdimensions` is missing"),
    };
    let count = site.inputs.len();
    require!(
        count > 0 && widths.len() == count,
        "attribute `inputdimensions` has {} numbers for {count} inputs",
        widths.len()
    );
    let mut columns = Vec::new();
    for (index, width) in widths.iter().enumerate() {
        let width = crate::op::bounds::bounded("attribute `inputdimensions`", *width)?;
        require!(width >= 0, "attribute `inputdimensions` has {width}");
        let x = site.input(index)?;
        let shape = site.shape(x).to_vec();
        require!(!shape.is_empty(), "input {index} has no dimensions");
        let rows = if shape.len() == 1 { 1 } else { shape[0] };
        let own = shape[usize::from(shape.len() > 1)..].iter().product();
        let x = site.reshaped(x, &[rows, own])?;
        let mut x = site.cast(x, F32)?;
        if own > width {
            let [begin, end, axis] = [0, width, 1].map(|number| site.emitter.ints(&[number]));
            x = site.node("Slice", &[], &[x, begin, end, axis])?;
        } else if own < width {
            let pads = site.emitter.ints(&[0, 0, 0, width - own]);
            x = site.node("Pad", &[], &[x, pads])?;
        }
        columns.push(x);
    }
    site.columns(&columns)
}

/// A new last axis with a one at the place of the category, and zeros.
pub(super) fn one_hot(site: &mut Site<'_>) -> Result<ValueId> {
    let x = site.input(0)?;
    let categories = site.attrs.ints("cats_int64s")?.unwrap_or_default();
    let has_texts = !site.attrs.texts("cats_strings")?.is_empty();
    require!(!has_texts, "categories that are texts are not supported: export the model with integer categories");
    require!(!categories.is_empty(), "attribute `cats_int64s` is missing");
    let mut sorted: Vec<(i64, i64)> = categories.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    let twice = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0);
    require!(twice.is_none(), "attribute `cats_int64s` has {} twice", twice.map_or(0, |pair| pair[0].0));
    let mut shape = site.shape(x).to_vec();
    shape.push(1);
    let x = site.cast(x, I64)?;
    let count = int(categories.len());
    if site.attrs.flag("zeros", true)? {
        let (x, categories) = (site.reshaped(x, &shape)?, site.emitter.ints(&categories));
        let is_own = site.binary("Equal", x, categories)?;
        return site.cast(is_own, F32);
    }
    // The number of the category; one that is unknown has the number behind the last one, which the
    // next node does not accept.
    let keys: Vec<i64> = sorted.iter().map(|(category, _)| *category).collect();
    let numbers: Vec<i64> = sorted.iter().map(|(_, number)| *number).chain([count; 2]).collect();
    let (keys, numbers) = (site.emitter.ints(&keys), site.emitter.ints(&numbers));
    let found = site.own(&LOOKUP, crate::attrs::Attrs::default(), &[x, keys, numbers])?;
    let places = site.emitter.ints(&(0..count).collect::<Vec<_>>());
    let place = site.node("Gather", &[("axis", Attr::Int(0))], &[places, found])?;
    let place = site.reshaped(place, &shape)?;
    let is_own = site.binary("Equal", place, places)?;
    site.cast(is_own, F32)
}
