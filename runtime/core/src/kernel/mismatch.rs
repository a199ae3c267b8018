//! Errors of compiled functions about their arguments, with the values of the call.
//!
//! Compiled code checks its arguments, and its error messages are texts of the build:
//! `Mismatched x.dtype on argument #0 when calling: .., expected int64`. The caller has the
//! arguments, and adds `got int32`.

use crate::Error;
use crate::abi::{DLTensor, TVMFFIAny};
use crate::layout::{Layout, dl_tensor, row_major};
use crate::value::{AnyView, Arg, DataType, Device, type_name};

/// Adds to an error of a compiled function what it got, if the error is about an argument.
#[cold]
pub fn explained(error: Error, args: &[Arg<'_>]) -> Error {
    let views: Vec<TVMFFIAny> = args.iter().map(Arg::as_raw).collect();
    // SAFETY: the arguments keep their values alive.
    unsafe { explained_views(error, &views) }
}

/// Like [`explained`], for views.
///
/// # Safety
/// The views are valid.
#[cold]
pub unsafe fn explained_views(error: Error, views: &[TVMFFIAny]) -> Error {
    // SAFETY: a view is transparent over the raw struct, and valid as the caller promises.
    let views = unsafe { core::slice::from_raw_parts(views.as_ptr().cast::<AnyView<'_>>(), views.len()) };
    match more(error.message(), views) {
        Some(more) => Error::with_backtrace(error.kind(), &format!("{}{more}", error.message()), error.backtrace()),
        None => error,
    }
}

/// Returns the text that is added to a message.
fn more(message: &str, views: &[AnyView<'_>]) -> Option<String> {
    let (start, expected) = message.rsplit_once(",\n  expected ")?;
    let (problem, call) = start.split_once(" on argument #")?;
    let (index, signature) = call.split_once(" when calling:\n  `")?;
    let view = views.get(index.parse::<usize>().ok()?)?;
    if expected.contains(" got ") {
        return None;
    }
    let Some(tensor) = dl_tensor(view) else { return Some(format!(", got {}", type_name(view))) };
    if problem.ends_with(".dtype") {
        let found = DataType::from_raw(tensor.dtype);
        return Some(format!(", got {found}; convert it, in Python with .astype(\"{expected}\")"));
    }
    if problem.ends_with(".device_type") {
        return Some(format!(", got {}", Device::from_raw(tensor.device)));
    }
    let layout = Layout::of(tensor).ok()?;
    if problem.ends_with(".ndim") {
        return Some(format!(" dimensions, got {}: {:?}", layout.shape.len(), layout.shape));
    }
    if problem.ends_with(".strides") {
        let strides = layout.strides.map_or_else(|| row_major(layout.shape), <[i64]>::to_vec);
        let advice = "make it contiguous, in Python with numpy.ascontiguousarray";
        return Some(format!(", got strides {strides:?} of the shape {:?}; {advice}", layout.shape));
    }
    let (_, found) = extent(problem, tensor)?;
    let first = expected.strip_prefix("to match ").and_then(|place| {
        let (name, _) = place.rsplit_once(".shape[")?;
        let other = views.get(parameter(signature, name)?)?;
        extent(place, dl_tensor(other)?)
    });
    let first = first.map_or(String::new(), |(_, extent)| format!(", which is {extent}"));
    Some(format!("{first}, got {found} in the shape {:?}", layout.shape))
}

/// Returns the axis and the extent that text such as `Invalid x.shape[1]` is about.
fn extent(place: &str, tensor: &DLTensor) -> Option<(usize, i64)> {
    let (_, axis) = place.strip_suffix(']')?.rsplit_once(".shape[")?;
    let axis = axis.parse().ok()?;
    Layout::of(tensor).ok()?.shape.get(axis).map(|extent| (axis, *extent))
}

/// Returns the index of a parameter in a signature `f(a: Tensor([n, 4], float32), k: int32)`.
fn parameter(signature: &str, name: &str) -> Option<usize> {
    let (_, parameters) = signature.split_once('(')?;
    let (mut depth, mut index, mut start) = (0_i32, 0, 0);
    for (place, letter) in parameters.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ':' if depth == 0 && parameters[start..place].trim() == name => return Some(index),
            ',' if depth == 0 => {
                index += 1;
                start = place + 1;
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tensor;
    use crate::value::ToArg;

    #[test]
    fn messages_say_what_they_got() {
        let signature = "f(x: Tensor([n, 4], float32), y: Tensor([n, 4], float32), k: int32)";
        let x = Tensor::zeros::<f32>(&[2, 4]).unwrap();
        let y = Tensor::zeros::<i32>(&[3, 5]).unwrap();
        let (mut shape, mut strides) = ([2, 4], [1, 2]);
        let mut turned = *x.dl_tensor();
        (turned.shape, turned.strides) = (shape.as_mut_ptr(), strides.as_mut_ptr());
        let turned = TVMFFIAny {
            type_index: crate::abi::type_index::DL_TENSOR_PTR,
            small_len: 0,
            payload: crate::abi::TVMFFIAnyPayload { v_ptr: (&raw mut turned).cast() },
        };
        // SAFETY: the description of the tensor lives until the end of the test.
        let turned = unsafe { AnyView::from_raw(turned) };
        for (problem, index, expected, got) in [
            ("Mismatched y.dtype", 1, "float32", Some(", got int32; convert it, in Python with .astype(\"float32\")")),
            ("Mismatched y.ndim", 1, "3", Some(" dimensions, got 2: [3, 5]")),
            ("Mismatched y.device_type", 1, "opencl", Some(", got cpu:0")),
            ("Invalid y.shape[1]", 1, "4", Some(", got 5 in the shape [3, 5]")),
            ("Mismatched y.shape[0]", 1, "to match x.shape[0]", Some(", which is 2, got 3 in the shape [3, 5]")),
            ("Mismatched y.shape[0]", 1, "to match z.shape[0]", Some(", got 3 in the shape [3, 5]")),
            ("Invalid y.shape[2]", 1, "4", None),
            ("Mismatched type", 2, "Tensor", Some(", got str")),
            (
                "Mismatched t.strides",
                3,
                "to be compact array",
                Some(
                    ", got strides [1, 2] of the shape [2, 4]; make it contiguous, in Python with numpy.ascontiguousarray",
                ),
            ),
            ("y overlaps another argument", 1, "memory apart from x", None),
            ("Mismatched y.dtype", 4, "float32", None),
        ] {
            let message =
                format!("{problem} on argument #{index} when calling:\n  `{signature}`,\n  expected {expected}");
            let args = [x.to_arg(), y.to_arg(), "seven".to_arg(), turned.to_arg()];
            let explained = explained(Error::value_error(&message), &args);
            assert_eq!(explained.message(), format!("{message}{}", got.unwrap_or_default()));
            // A message that has it already stays as it is.
            assert_eq!(super::explained(explained.clone(), &args).message(), explained.message());
        }
        let other = Error::value_error("radius must be positive, got -1");
        assert_eq!(explained(other, &[]).message(), "radius must be positive, got -1");
    }

    #[test]
    fn parameters_of_a_signature() {
        let signature = "f(a: Tensor([n, 4], float32), by: int32, out: Tensor([2 * n, (n + 1)], float32))";
        for (name, index) in [("a", Some(0)), ("by", Some(1)), ("out", Some(2)), ("n", None)] {
            assert_eq!(parameter(signature, name), index, "{name}");
        }
        assert_eq!(parameter("f()", "a"), None);
    }
}
