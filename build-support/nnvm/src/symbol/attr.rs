//! Attributes as texts: declarations of operator parameters, and parsing of values.

use kernpack::DataType;
use kernpack_compiler::ir::{F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
use kernpack_graph::{GraphError, Result, fail};

/// The type of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An integer.
    Int,
    /// An integer, or `None`.
    OptionalInt,
    /// A float.
    Float,
    /// `True` or `False`, or 1 and 0.
    Bool,
    /// Text.
    Text,
    /// Integers: `(1, 1)`.
    Ints,
    /// Floats: `(0.5, 2.0)`.
    Floats,
    /// Lists of integers: `((0, 0), (1, 1))`.
    Lists,
    /// An element type: `float32`.
    DataType,
}

/// A parameter of an operator.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// Its default. Without one, the parameter is required.
    pub default: Option<&'static str>,
}

impl Param {
    /// A required parameter.
    pub const fn required(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, default: None }
    }

    /// A parameter with a default.
    pub const fn new(name: &'static str, kind: Kind, default: &'static str) -> Self {
        Self { name, kind, default: Some(default) }
    }

    /// Checks that a text is a value of this parameter.
    ///
    /// # Errors
    /// Returns a description of the expected value.
    pub fn check(&self, text: &str) -> Result<()> {
        self.normalized(text).map(drop).map_err(|error| error.within(&format!("attribute `{}`", self.name)))
    }

    /// Returns the value of a text in the one spelling that equal values have.
    pub(super) fn normalized(&self, text: &str) -> Result<String> {
        Ok(match self.kind {
            Kind::Int => int(text)?.to_string(),
            Kind::OptionalInt => format!("{:?}", optional_int(text)?),
            Kind::Float => float(text)?.to_string(),
            Kind::Bool => boolean(text)?.to_string(),
            Kind::Text => text.to_owned(),
            Kind::Ints => ints_text(&ints(text)?),
            Kind::Floats => format!("{:?}", floats(text)?),
            Kind::Lists => format!("{:?}", lists(text)?),
            Kind::DataType => data_type(text)?.to_string(),
        })
    }
}

/// Parses an integer.
///
/// # Errors
/// Returns an error if the text is not an integer.
pub fn int(text: &str) -> Result<i64> {
    let text = text.trim();
    // Python writes sizes of type long with an L.
    let digits = text.strip_suffix(['L', 'l']).unwrap_or(text);
    digits.parse().map_err(|_| GraphError::new(format!("expected an integer, got `{text}`")))
}

/// Parses an integer or `None`.
///
/// # Errors
/// Returns an error if the text is neither.
pub fn optional_int(text: &str) -> Result<Option<i64>> {
    if text.trim() == "None" { Ok(None) } else { int(text).map(Some) }
}

/// Parses a float.
///
/// # Errors
/// Returns an error if the text is not a float.
pub fn float(text: &str) -> Result<f64> {
    let text = text.trim();
    text.strip_suffix('f')
        .filter(|rest| !rest.ends_with(|letter: char| letter.is_alphabetic()) && !rest.is_empty())
        .unwrap_or(text)
        .parse()
        .map_err(|_| GraphError::new(format!("expected a number, got `{text}`")))
}

/// Parses a boolean.
///
/// # Errors
/// Returns an error if the text is not a boolean.
pub fn boolean(text: &str) -> Result<bool> {
    match text.trim() {
        "True" | "true" | "1" => Ok(true),
        "False" | "false" | "0" => Ok(false),
        other => fail!("expected `True` or `False`, got `{other}`"),
    }
}

/// Splits a list in parentheses or square brackets. A single value is a list with one element.
fn parts(text: &str) -> Result<Vec<&str>> {
    let trimmed = text.trim();
    let inner = match (trimmed.chars().next(), trimmed.chars().last()) {
        (Some('('), Some(')')) | (Some('['), Some(']')) if trimmed.len() >= 2 => &trimmed[1..trimmed.len() - 1],
        (Some(first), _) if !"([)],".contains(first) => return Ok(vec![trimmed]),
        _ => fail!("expected a list like `(1, 2)`, got `{text}`"),
    };
    let (mut depth, mut begin, mut found) = (0_i64, 0, Vec::new());
    for (position, letter) in inner.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                found.push(inner[begin..position].trim());
                begin = position + 1;
            }
            _ => {}
        }
    }
    let last = inner[begin..].trim();
    // Python writes a tuple with one element with a trailing comma.
    if !last.is_empty() {
        found.push(last);
    }
    if depth != 0 || found.iter().any(|part| part.is_empty()) {
        fail!("expected a list like `(1, 2)`, got `{text}`");
    }
    Ok(found)
}

/// Parses integers.
///
/// # Errors
/// Returns an error if the text is not a list of integers.
pub fn ints(text: &str) -> Result<Vec<i64>> {
    parts(text)?.into_iter().map(int).collect()
}

/// Parses floats.
///
/// # Errors
/// Returns an error if the text is not a list of numbers.
pub fn floats(text: &str) -> Result<Vec<f64>> {
    parts(text)?.into_iter().map(float).collect()
}

/// Parses lists of integers.
///
/// # Errors
/// Returns an error if the text is not a list of lists.
pub fn lists(text: &str) -> Result<Vec<Vec<i64>>> {
    parts(text)?.into_iter().map(ints).collect()
}

/// Formats integers like NNVM: `(1, 1)`, `(3,)`, `()`.
pub fn ints_text(values: &[i64]) -> String {
    match values {
        [one] => format!("({one},)"),
        _ => format!("({})", values.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// The element types that NNVM has numbers for, in the order of the numbers.
pub const DATA_TYPES: [DataType; 11] = [F32, F64, F16, U8, I32, I8, I64, I16, U16, U32, U64];

/// Parses an element type.
///
/// # Errors
/// Returns an error for an unknown name.
pub fn data_type(text: &str) -> Result<DataType> {
    text.trim().parse().map_err(|_| GraphError::new(format!("expected an element type like `float32`, got `{text}`")))
}

/// Returns NNVM's number of an element type. -1 if it is not known, or if NNVM does not have it.
pub fn type_code(dtype: Option<DataType>) -> i64 {
    let place = dtype.and_then(|dtype| DATA_TYPES.iter().position(|known| *known == dtype));
    place.and_then(|place| i64::try_from(place).ok()).unwrap_or(-1)
}

/// Returns the element type of NNVM's number, or `None` for -1.
///
/// # Errors
/// Returns an error for another number.
pub fn type_of_code(code: i64) -> Result<Option<DataType>> {
    if code == -1 {
        return Ok(None);
    }
    match usize::try_from(code).ok().and_then(|code| DATA_TYPES.get(code)) {
        Some(dtype) => Ok(Some(*dtype)),
        None => fail!("{code} is not an element type: they have the numbers 0 to 10, and -1 is unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_values() {
        for (text, expected) in [
            ("(1, 2)", Some(vec![1, 2])),
            ("[1,2]", Some(vec![1, 2])),
            ("(3,)", Some(vec![3])),
            ("()", Some(vec![])),
            ("7", Some(vec![7])),
            (" ( 1L , -1 ) ", Some(vec![1, -1])),
            ("(1,,2)", None),
            ("(1", None),
            ("(1))", None),
            ("", None),
            ("(a)", None),
        ] {
            assert_eq!(ints(text).ok(), expected, "{text}");
        }
        assert_eq!(lists("((0, 0), (1, 2))").unwrap(), [[0, 0], [1, 2]]);
        assert_eq!(floats("(0.5, 1e-3f)").unwrap(), [0.5, 1e-3]);
        assert_eq!(ints(&ints_text(&[3])).unwrap(), [3]);
        assert_eq!((ints_text(&[]), ints_text(&[1, 2])), ("()".to_owned(), "(1, 2)".to_owned()));
        assert!(boolean("yes").is_err() && boolean("True").unwrap() && !boolean("0").unwrap());
        assert_eq!((optional_int("None").unwrap(), optional_int("4").unwrap()), (None, Some(4)));
        assert_eq!(type_of_code(type_code(Some(I8))).unwrap(), Some(I8));
        assert_eq!(float("inf").unwrap(), f64::INFINITY);
    }
}
