//! The operators of texts.

use kernpack_compiler::ir::{BOOLEAN, I64};
use regex_lite::Regex;

use super::{Run, TextValue, Texts, cast, label, tensor_attribute};
use crate::attrs::{Attr, Attrs};
use crate::constant::{Constant, num_elements};
use crate::error::{GraphError, Result, fail, require};
use crate::onnx;
use crate::op::broadcast;

/// The maximum number of parts of all texts of a tensor.
const MOST_PARTS: usize = 1 << 24;

/// Returns the function of a node. Tables and patterns are created once.
///
/// # Errors
/// Returns an error for an operator without texts, and for invalid attributes.
pub(super) fn prepare(node: &onnx::Node<'_>, attrs: &Attrs) -> Result<Run> {
    Ok(match (node.domain.as_str(), node.op_type.as_str()) {
        ("", "Constant") => constant(node, attrs)?,
        ("", "Identity") => Box::new(|inputs| Ok(vec![needed(inputs, 0)?.clone()])),
        ("", "Cast") => {
            let to = attrs.needed_int("to")?;
            Box::new(move |inputs| Ok(vec![cast::cast(needed(inputs, 0)?, to)?]))
        }
        ("", "CastLike") => Box::new(|inputs| Ok(vec![cast::cast_like(needed(inputs, 0)?, needed(inputs, 1)?)?])),
        ("", "Equal") => Box::new(|inputs| {
            let equal = |a: &str, b: &str| u8::from(a == b);
            let (shape, bytes) = pairs(texts(inputs, 0)?, texts(inputs, 1)?, equal)?;
            Ok(vec![TextValue::Numbers(Constant::new(BOOLEAN, &shape, bytes)?)])
        }),
        ("", "StringConcat") => Box::new(|inputs| {
            let (shape, joined) = pairs(texts(inputs, 0)?, texts(inputs, 1)?, |a, b| format!("{a}{b}"))?;
            Ok(vec![TextValue::Texts(Texts::new(&shape, joined)?)])
        }),
        ("", "StringSplit") => {
            let delimiter = attrs.text("delimiter", "")?.to_owned();
            let most = attrs.find_int("maxsplit")?;
            Box::new(move |inputs| split(texts(inputs, 0)?, &delimiter, most))
        }
        ("", "RegexFullMatch") => {
            let pattern = attrs.text("pattern", "")?;
            let failed = |error| GraphError::new(format!("attribute `pattern` is not a pattern: {error}"));
            let pattern = Regex::new(&format!(r"\A(?:{pattern})\z")).map_err(failed)?;
            Box::new(move |inputs| {
                let texts = texts(inputs, 0)?;
                let bytes: Vec<u8> = texts.texts.iter().map(|text| u8::from(pattern.is_match(text))).collect();
                Ok(vec![TextValue::Numbers(Constant::new(BOOLEAN, &texts.shape, bytes)?)])
            })
        }
        ("", "StringNormalizer") => normalizer(attrs)?,
        ("ai.onnx.ml", "LabelEncoder") => label::encoder(node, attrs)?,
        _ => fail!("it is not supported in a model of texts: cut the model before it, and import what is behind"),
    })
}

/// Returns a required input.
pub(super) fn needed<'v>(inputs: &[Option<&'v TextValue>], index: usize) -> Result<&'v TextValue> {
    inputs.get(index).copied().flatten().ok_or_else(|| GraphError::new(format!("input {index} is missing")))
}

/// Returns an input of texts.
fn texts<'v>(inputs: &[Option<&'v TextValue>], index: usize) -> Result<&'v Texts> {
    match needed(inputs, index)? {
        TextValue::Texts(texts) => Ok(texts),
        other => fail!("input {index}: expected texts, got {}", other.kind()),
    }
}

/// Applies a function to two texts for each element, broadcast by the rules of NumPy.
fn pairs<T>(a: &Texts, b: &Texts, function: impl Fn(&str, &str) -> T) -> Result<(Vec<i64>, Vec<T>)> {
    let shape = broadcast(&[&a.shape, &b.shape])?;
    let count = num_elements(&shape)?;
    let place = |texts: &Texts, number: usize| {
        let (mut rest, mut place, mut stride) = (number, 0, 1);
        let skipped = shape.len() - texts.shape.len();
        for (axis, extent) in shape.iter().enumerate().rev() {
            let extent = usize::try_from(*extent).unwrap_or(1).max(1);
            if axis >= skipped && texts.shape[axis - skipped] != 1 {
                place += rest % extent * stride;
                stride *= extent;
            }
            rest /= extent;
        }
        place
    };
    let element = |number| function(&a.texts[place(a, number)], &b.texts[place(b, number)]);
    Ok((shape.clone(), (0..count).map(element).collect()))
}

fn constant(node: &onnx::Node<'_>, attrs: &Attrs) -> Result<Run> {
    let value = match (tensor_attribute(node, "value")?, attrs.get("value_string"), attrs.get("value_strings")) {
        (Some(value), None, None) => value,
        (None, Some(Attr::Text(text)), None) => TextValue::Texts(Texts::new(&[], vec![text.clone()])?),
        (None, None, Some(Attr::Texts(texts))) => {
            let count = i64::try_from(texts.len()).unwrap_or(i64::MAX);
            TextValue::Texts(Texts::new(&[count], texts.clone())?)
        }
        _ => fail!("expected one of the attributes `value`, `value_string` and `value_strings`"),
    };
    Ok(Box::new(move |_| Ok(vec![value.clone()])))
}

/// Splits a text. An empty delimiter means any white space, which is trimmed at both ends except
/// after the last split.
fn parts<'t>(text: &'t str, delimiter: &str, most: Option<usize>) -> Vec<&'t str> {
    let most = most.unwrap_or(usize::MAX).saturating_add(1);
    if !delimiter.is_empty() {
        return text.splitn(most, delimiter).collect();
    }
    let (mut found, mut rest) = (Vec::new(), text.trim_start());
    while !rest.is_empty() && found.len() + 1 < most {
        let (part, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        found.push(part);
        rest = behind.trim_start();
    }
    if !rest.is_empty() {
        found.push(rest);
    }
    found
}

/// Splits each text along a new last axis, padded with empty texts, and returns the numbers of
/// parts.
fn split(texts: &Texts, delimiter: &str, most: Option<i64>) -> Result<Vec<TextValue>> {
    let most = match most {
        Some(most) => match usize::try_from(most) {
            Ok(most) => Some(most),
            Err(_) => fail!("attribute `maxsplit` is {most}"),
        },
        None => None,
    };
    let split: Vec<Vec<&str>> = texts.texts.iter().map(|text| parts(text, delimiter, most)).collect();
    let longest = split.iter().map(Vec::len).max().unwrap_or(0);
    require!(
        longest.saturating_mul(split.len()) <= MOST_PARTS,
        "{} texts with up to {longest} parts are more than {MOST_PARTS} parts",
        split.len()
    );
    let counts: Vec<u8> = split.iter().flat_map(|parts| (parts.len() as u64).to_le_bytes()).collect();
    let padded = split.iter().flat_map(|parts| (0..longest).map(|index| parts.get(index).copied().unwrap_or("")));
    let mut shape = texts.shape.clone();
    shape.push(i64::try_from(longest).unwrap_or(i64::MAX));
    let padded = Texts::new(&shape, padded.map(str::to_owned).collect())?;
    Ok(vec![TextValue::Texts(padded), TextValue::Numbers(Constant::new(I64, &texts.shape, counts)?)])
}

/// Converts the case of texts, and removes some of them. Attribute `locale` selects the rules of a
/// language, which ASCII texts do not need: those of Unicode are used.
fn normalizer(attrs: &Attrs) -> Result<Run> {
    let change: fn(&str) -> String = match attrs.text("case_change_action", "NONE")? {
        "NONE" => str::to_owned,
        "LOWER" => str::to_lowercase,
        "UPPER" => str::to_uppercase,
        other => fail!("attribute `case_change_action` is `{other}`, and has to be NONE, LOWER or UPPER"),
    };
    let as_compared: fn(&str) -> String =
        if attrs.flag("is_case_sensitive", false)? { str::to_owned } else { str::to_lowercase };
    let dropped: Vec<String> = match attrs.get("stopwords") {
        None => Vec::new(),
        Some(Attr::Texts(words)) => words.iter().map(|word| as_compared(word)).collect(),
        // An empty list has no other information than its kind.
        Some(Attr::Floats(none)) if none.is_empty() => Vec::new(),
        Some(_) => fail!("attribute `stopwords` is not a list of texts"),
    };
    Ok(Box::new(move |inputs| {
        let texts = texts(inputs, 0)?;
        let mut shape = match texts.shape[..] {
            [_] => Vec::new(),
            [1, _] => vec![1],
            _ => fail!("expected texts [C] or [1, C], got {:?}", texts.shape),
        };
        let kept = texts.texts.iter().filter(|text| !dropped.contains(&as_compared(text)));
        let mut kept: Vec<String> = kept.map(|text| change(text)).collect();
        if kept.is_empty() {
            kept.push(String::new());
        }
        shape.push(i64::try_from(kept.len()).unwrap_or(i64::MAX));
        Ok(vec![TextValue::Texts(Texts::new(&shape, kept)?)])
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut() {
        for (text, delimiter, most, expected) in [
            ("a-b--c", "-", None, &["a", "b", "", "c"][..]),
            ("a-b--c", "-", Some(1), &["a", "b--c"]),
            ("", "-", None, &[""]),
            ("", "", None, &[]),
            ("  o n n x ", "", None, &["o", "n", "n", "x"]),
            ("  o n  n x ", "", Some(2), &["o", "n", "n x "]),
            (" o ", "", Some(0), &["o "]),
            ("a\u{2003}b", "", None, &["a", "b"]),
        ] {
            assert_eq!(parts(text, delimiter, most), expected, "{text:?} {delimiter:?} {most:?}");
        }
    }
}
