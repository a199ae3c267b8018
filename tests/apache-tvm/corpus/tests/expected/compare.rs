//! Calls, and the comparison with their expected results.

use kernpack::sys::abi::{TVMFFIAny, type_index};
use kernpack::sys::provider;
use kernpack::{DataType, Error, Function};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::{base64, stand_ins};

/// The result of a call: a value, or an error's kind and text.
type Outcome = Result<TVMFFIAny, (String, String)>;

fn run(function: &Function, arguments: &Arguments, count: usize, is_null: bool) -> Outcome {
    let mut result = TVMFFIAny::NONE;
    let args = if is_null { core::ptr::null() } else { arguments.values.as_ptr() };
    stand_ins::begin(
        arguments.regions.iter().map(|(index, region)| (*index, region.address(), region.size())).collect(),
    );
    // SAFETY: the function is alive; the arguments are those of the corpus for it, or ones that it
    // must refuse before it reads them.
    let status = unsafe {
        (provider::api().function_call)(function.as_ptr().cast(), args.cast_mut(), count as i32, &mut result)
    };
    if status == 0 {
        return Ok(result);
    }
    let error = Error::take_raised();
    Err((error.kind().to_string(), error.message().to_string()))
}

fn expected_error(value: &Value) -> Option<(String, String)> {
    let text = |index: usize| value[index].as_str().map(str::to_owned);
    Some((text(0)?, text(1)?))
}

/// Makes a call that must be refused. Returns the difference to the expected error.
pub(crate) fn refusal(function: &Function, base: &Value, check: &Value) -> Option<String> {
    let mut list = base.as_array().cloned().unwrap_or_default();
    let change = &check["change"];
    if let Some(index) = change["arg"].as_u64().and_then(|index| usize::try_from(index).ok()) {
        let argument = list.get_mut(index)?;
        if !change["with"].is_null() {
            *argument = change["with"].clone();
        }
        for (field, value) in change["set"].as_object().into_iter().flatten() {
            argument[field] = value.clone();
        }
    }
    let count = change["num_args"].as_u64().map_or(list.len(), |count| count as usize);
    while list.len() < count {
        list.push(serde_json::json!({"t": "int", "v": 1}));
    }
    let arguments = Arguments::of(&list)?;
    let found = run(function, &arguments, count, change["args_null"] == true);
    let expected = expected_error(&check["error"]);
    match found {
        Err(error) if Some(&error) == expected.as_ref() => None,
        Err((kind, text)) => Some(format!("{kind}: {text} in place of {}", check["error"])),
        Ok(_) => Some(format!("was not refused with {}", check["error"])),
    }
}

/// Makes a call with recorded results. Returns `None` if it is skipped, else the difference, if
/// any.
pub(crate) fn call(function: &Function, list: &Value, expected: &Value) -> Option<Option<String>> {
    let mut arguments = Arguments::of(list.as_array()?)?;
    let packed = expected["packed_calls"].as_array();
    let has_tensor = |call: &Value| call[1].as_array().is_some_and(|args| args.iter().any(|arg| arg[0] == 7));
    if packed.is_some_and(|calls| calls.iter().any(has_tensor)) {
        return None;
    }
    let memory = expected["memory"].as_array()?;
    for (index, region) in &mut arguments.regions {
        let row = memory.iter().find(|row| row["arg"].as_u64() == Some(*index as u64))?;
        region.fill(&base64::decode(row["before"].as_str()?));
    }
    let found = run(function, &arguments, arguments.values.len(), false);
    let packed_calls = stand_ins::calls();
    Some(difference(&arguments, memory, found, packed_calls, expected))
}

fn difference(
    arguments: &Arguments,
    memory: &[Value],
    found: Outcome,
    packed_calls: Vec<Value>,
    expected: &Value,
) -> Option<String> {
    match (found, expected_error(&expected["error"])) {
        (Ok(value), None) => {
            if let Some(problem) = result(value, &expected["result"]) {
                return Some(problem);
            }
        }
        (Err(error), Some(wanted)) if error == wanted => {}
        (Err((kind, text)), _) => return Some(format!("{kind}: {text} in place of {}", expected["error"])),
        (Ok(_), Some(_)) => return Some(format!("no error in place of {}", expected["error"])),
    }
    let wanted = expected["packed_calls"].as_array().cloned().unwrap_or_default();
    let packed_calls = Value::Array(packed_calls);
    let wanted = Value::Array(wanted);
    if !is_near(&packed_calls, &wanted) {
        return Some(format!("packed calls {packed_calls} in place of {wanted}"));
    }
    for (index, region) in &arguments.regions {
        if !region.is_intact() {
            return Some(format!("writes outside of argument {index}"));
        }
        let row = memory.iter().find(|row| row["arg"].as_u64() == Some(*index as u64))?;
        let after = row["after"].as_str().or(row["before"].as_str()).unwrap_or_default();
        let after = base64::decode(after);
        if let Some(place) = first_difference(region.dtype, region.bytes(), &after) {
            return Some(format!("argument {index} of {}: element {place}", region.dtype));
        }
    }
    None
}

/// Equality with a tolerance for floats.
fn is_near(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_near(a, b)),
        (Value::Number(x), Value::Number(y)) if x.is_f64() || y.is_f64() => {
            let (x, y) = (x.as_f64().unwrap_or(f64::NAN), y.as_f64().unwrap_or(f64::NAN));
            (x - y).abs() <= 1e-6 * x.abs().max(y.abs()).max(1.0)
        }
        _ => a == b,
    }
}

fn result(value: TVMFFIAny, expected: &Value) -> Option<String> {
    // SAFETY: only the payload of the type index is read.
    let (index, same) = unsafe {
        let same = match value.type_index {
            type_index::NONE => true,
            type_index::FLOAT => {
                let wanted = expected[1].as_f64().unwrap_or(f64::NAN);
                let found = value.payload.v_float64;
                found == wanted || (found - wanted).abs() <= 1e-6 * found.abs().max(1.0)
            }
            type_index::OPAQUE_PTR => expected[1].as_str() == Some(&stand_ins::pointer(value.payload.v_ptr as usize)),
            _ => expected[1].as_i64() == Some(value.payload.v_int64),
        };
        (value.type_index, same)
    };
    let fits = same && expected[0].as_i64() == Some(i64::from(index));
    (!fits).then(|| format!("a result of type {index} in place of {expected}"))
}

/// The first element that differs: integers in any bit, floats by more than 2 units in the last
/// place and the tolerance.
fn first_difference(dtype: DataType, found: &[u8], wanted: &[u8]) -> Option<usize> {
    let raw = dtype.as_raw();
    let bytes = usize::from(raw.bits).div_ceil(8);
    let float = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(wide);
        match (raw.code, raw.bits) {
            (2, 64) => (f64::from_bits(bits), bits, 1e-12),
            (2, 32) => (f32::from_bits(bits as u32).into(), bits, 1e-6),
            (4, 16) => (f32::from_bits((bits as u32) << 16).into(), bits, 0.0),
            (2, 16) => (half(bits as u16), bits, 0.0),
            _ => (0.0, bits, 0.0),
        }
    };
    let is_same = |(a, b): (&[u8], &[u8])| {
        if a == b {
            return true;
        }
        let is_float = matches!(raw.code, 2 | 4) && raw.bits >= 16;
        // Neighbouring small floats.
        if !is_float {
            return raw.code >= 7 && raw.bits == 8 && a[0].abs_diff(b[0]) <= 1;
        }
        let ((x, left, tolerance), (y, right, _)) = (float(a), float(b));
        x.is_nan() && y.is_nan()
            || left.abs_diff(right) <= 2
            || (x - y).abs() <= tolerance * x.abs().max(y.abs()).max(1.0)
    };
    found.chunks(bytes).zip(wanted.chunks(bytes)).position(|pair| !is_same(pair))
}

fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}
