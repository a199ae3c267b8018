//! Numbers as texts, and back.

use kernpack::DataType;
use kernpack_compiler::ir::{DataTypeExt, F32, F64, U64};

use super::{TEXT, TextValue, Texts};
use crate::constant::{Constant, element_bytes};
use crate::error::{Result, fail};
use crate::onnx::dtype_of;

/// Converts a value to another type, by the type's number in ONNX.
pub(super) fn cast(value: &TextValue, to: i64) -> Result<TextValue> {
    match (value, to) {
        (TextValue::Texts(_), TEXT) => Ok(value.clone()),
        (TextValue::Texts(texts), _) => parsed(texts, dtype_of(to)?).map(TextValue::Numbers),
        (TextValue::Numbers(numbers), TEXT) => printed(numbers).map(TextValue::Texts),
        _ => fail!("numbers to numbers is not supported in a model of texts: cut the model before it"),
    }
}

/// Converts a value to the type of another one.
pub(super) fn cast_like(value: &TextValue, like: &TextValue) -> Result<TextValue> {
    match (value, like) {
        (TextValue::Texts(_), TextValue::Texts(_)) => Ok(value.clone()),
        (TextValue::Texts(texts), TextValue::Numbers(like)) => parsed(texts, like.dtype()).map(TextValue::Numbers),
        (_, TextValue::Texts(_)) => cast(value, TEXT),
        _ => fail!("numbers to numbers is not supported in a model of texts: cut the model before it"),
    }
}

/// Formats a float like the evaluator of ONNX: the shortest digits that identify it, with an
/// exponent below 0.0001 and from 10^16 on.
fn float(scientific: &str, plain: String) -> String {
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn printed(numbers: &Constant) -> Result<Texts> {
    let dtype = numbers.dtype();
    let special = |value: f64| match value {
        value if value.is_nan() => Some("nan"),
        value if value.is_infinite() => Some(if value > 0.0 { "inf" } else { "-inf" }),
        _ => None,
    };
    let texts: Vec<String> = if dtype == F32 || dtype == F64 {
        let print = |value: f64| match special(value) {
            Some(text) => text.to_owned(),
            None if dtype == F64 => float(&format!("{value:e}"), value.to_string()),
            None => {
                #[expect(clippy::cast_possible_truncation, reason = "it was a float32")]
                let value = value as f32;
                float(&format!("{value:e}"), value.to_string())
            }
        };
        numbers.to_floats()?.into_iter().map(print).collect()
    } else if dtype.is_integer() {
        let is_unsigned = dtype == U64;
        let print = |bits: i64| if is_unsigned { bits.cast_unsigned().to_string() } else { bits.to_string() };
        numbers.to_int_bits()?.into_iter().map(print).collect()
    } else {
        fail!("{dtype} as text is not supported")
    };
    Texts::new(numbers.shape(), texts)
}

fn parsed(texts: &Texts, dtype: DataType) -> Result<Constant> {
    let width = element_bytes(dtype);
    let mut bytes = Vec::with_capacity(texts.texts.len() * width);
    for text in &texts.texts {
        let trimmed = text.trim();
        let wrong = || -> Result<()> { fail!("'{text}' is not a number of {dtype}") };
        if dtype == F32 {
            match trimmed.parse::<f32>() {
                Ok(value) => bytes.extend(value.to_le_bytes()),
                Err(_) => wrong()?,
            }
        } else if dtype == F64 {
            match trimmed.parse::<f64>() {
                Ok(value) => bytes.extend(value.to_le_bytes()),
                Err(_) => wrong()?,
            }
        } else if dtype.is_integer() && dtype.bits() >= 8 {
            let bits = u32::from(dtype.bits());
            let (least, most) =
                if dtype.is_int() { (-(1_i128 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
            match trimmed.parse::<i128>() {
                Ok(value) if (least..=most).contains(&value) => bytes.extend(&value.to_le_bytes()[..width]),
                _ => wrong()?,
            }
        } else {
            fail!("texts as {dtype} are not supported");
        }
    }
    Constant::new(dtype, &texts.shape, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernpack_compiler::ir::{I8, U8};

    #[test]
    fn floats_as_numpy_prints_them() {
        let values =
            [1.0, -0.5, 0.1, 1e-4, 9.9e-5, 123_456_790.0, 1e16, 9.999_999e15, f32::MIN_POSITIVE, -0.0, f32::NAN];
        let numbers = Constant::of_floats(&values);
        let expected = [
            "1.0",
            "-0.5",
            "0.1",
            "0.0001",
            "9.9e-05",
            "123456790.0",
            "1e+16",
            "9999999000000000.0",
            "1.1754944e-38",
            "-0.0",
            "nan",
        ];
        assert_eq!(printed(&numbers).unwrap().texts, expected);
    }

    #[test]
    fn texts_that_are_numbers() {
        let texts = |list: &[&str]| {
            Texts::new(&[i64::try_from(list.len()).unwrap()], list.iter().map(|text| (*text).to_owned()).collect())
                .unwrap()
        };
        let floats = parsed(&texts(&["1.5", "NaN", "+INF", "-inf", " 2e3 "]), F32).unwrap().to_floats().unwrap();
        assert!(floats[1].is_nan());
        assert_eq!((floats[0], floats[2], floats[3], floats[4]), (1.5, f64::INFINITY, f64::NEG_INFINITY, 2000.0));
        assert_eq!(parsed(&texts(&["-128", "127"]), I8).unwrap().to_ints().unwrap(), [-128, 127]);
        assert_eq!(parsed(&texts(&["256"]), U8).unwrap_err().to_string(), "'256' is not a number of uint8");
        assert!(parsed(&texts(&["one"]), F64).is_err() && parsed(&texts(&["1.5"]), I8).is_err());
    }
}
