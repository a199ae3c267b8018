//! `LabelEncoder`: a table from keys to values, either of which may be texts.

use std::collections::HashMap;

use kernpack_compiler::ir::{DataTypeExt, F32, I64};

use super::{Run, TextValue, Texts, tensor_attribute};
use crate::attrs::{Attr, Attrs};
use crate::constant::{Constant, element_bytes};
use crate::error::{Result, fail, require};
use crate::onnx;

/// A key for comparing values: all NaNs are equal, and so are both zeros.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Text(String),
    Int(i64),
    Float(u64),
}

fn keys(value: &TextValue) -> Result<Vec<Key>> {
    let float = |value: f64| Key::Float(if value.is_nan() { f64::NAN } else { value + 0.0 }.to_bits());
    Ok(match value {
        TextValue::Texts(texts) => texts.texts.iter().cloned().map(Key::Text).collect(),
        TextValue::Numbers(numbers) if numbers.dtype().is_float() => {
            numbers.to_floats()?.into_iter().map(float).collect()
        }
        TextValue::Numbers(numbers) => numbers.to_ints()?.into_iter().map(Key::Int).collect(),
    })
}

/// Returns the list in one of four attributes: texts, integers, floats, or a tensor.
fn list(node: &onnx::Node<'_>, attrs: &Attrs, what: &str) -> Result<TextValue> {
    let count = |count: usize| [i64::try_from(count).unwrap_or(i64::MAX)];
    let mut found = Vec::new();
    if let Some(Attr::Texts(texts)) = attrs.get(&format!("{what}_strings")) {
        found.push(TextValue::Texts(Texts::new(&count(texts.len()), texts.clone())?));
    }
    if let Some(Attr::Ints(ints)) = attrs.get(&format!("{what}_int64s")) {
        found.push(TextValue::Numbers(Constant::of_ints(ints)));
    }
    if let Some(Attr::Floats(floats)) = attrs.get(&format!("{what}_floats")) {
        found.push(TextValue::Numbers(Constant::of_floats(floats)));
    }
    found.extend(tensor_attribute(node, &format!("{what}_tensor"))?);
    match <[TextValue; 1]>::try_from(found) {
        Ok([list]) => Ok(list),
        Err(found) => fail!("expected one list of {what}, got {}", found.len()),
    }
}

/// Returns the default for a key that is not in the table: the one of the node, or the usual one of
/// the type.
fn default(node: &onnx::Node<'_>, attrs: &Attrs, values: &TextValue) -> Result<TextValue> {
    if let Some(given) = tensor_attribute(node, "default_tensor")? {
        require!(
            given.shape() == [1] || given.shape().is_empty(),
            "attribute `default_tensor` has to have one element"
        );
        return Ok(given);
    }
    Ok(match values {
        TextValue::Texts(_) => {
            TextValue::Texts(Texts::new(&[1], vec![attrs.text("default_string", "_Unused")?.to_owned()])?)
        }
        TextValue::Numbers(numbers) => TextValue::Numbers(match numbers.dtype() {
            dtype if dtype == I64 => Constant::of_ints(&[attrs.int("default_int64", -1)?]),
            dtype if dtype == F32 => match attrs.get("default_float") {
                Some(Attr::Float(value)) => Constant::of_floats(&[*value]),
                _ => Constant::of_floats(&[-0.0]),
            },
            // -1, or minus zero.
            dtype if dtype.is_integer() => Constant::new(dtype, &[1], vec![0xff; element_bytes(dtype)])?,
            dtype => {
                let mut bytes = vec![0; element_bytes(dtype)];
                if let Some(last) = bytes.last_mut() {
                    *last = 0x80;
                }
                Constant::new(dtype, &[1], bytes)?
            }
        }),
    })
}

pub(super) fn encoder(node: &onnx::Node<'_>, attrs: &Attrs) -> Result<Run> {
    let (from, values) = (list(node, attrs, "keys")?, list(node, attrs, "values")?);
    let default = default(node, attrs, &values)?;
    let keys_of_table = keys(&from)?;
    let count = match &values {
        TextValue::Texts(texts) => texts.texts.len(),
        TextValue::Numbers(numbers) => numbers.len(),
    };
    require!(keys_of_table.len() == count, "{} keys and {count} values", keys_of_table.len());
    let mut table = HashMap::new();
    for (index, key) in keys_of_table.into_iter().enumerate() {
        table.entry(key).or_insert(index);
    }
    Ok(Box::new(move |inputs| {
        let input = super::operators::needed(inputs, 0)?;
        let found = keys(input)?.into_iter().map(|key| table.get(&key).copied());
        Ok(vec![match (&values, &default) {
            (TextValue::Texts(values), TextValue::Texts(default)) => {
                let texts = found.map(|index| index.map_or(&default.texts[0], |index| &values.texts[index]).clone());
                TextValue::Texts(Texts::new(input.shape(), texts.collect())?)
            }
            (TextValue::Numbers(values), TextValue::Numbers(default)) => {
                require!(
                    values.dtype() == default.dtype(),
                    "values are {}, the default {}",
                    values.dtype(),
                    default.dtype()
                );
                let width = element_bytes(values.dtype());
                let bytes: Vec<u8> = found
                    .flat_map(|index| match index {
                        Some(index) => &values.bytes()[index * width..(index + 1) * width],
                        None => default.bytes(),
                    })
                    .copied()
                    .collect();
                TextValue::Numbers(Constant::new(values.dtype(), input.shape(), bytes)?)
            }
            (values, default) => fail!("values are {}, and the default {}", values.kind(), default.kind()),
        }])
    }))
}
