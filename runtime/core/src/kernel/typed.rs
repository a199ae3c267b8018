//! Functions that a generated module `kernels::typed` calls: kernels whose arguments have names and
//! types.

use super::{DeviceKernel, Kernel};
use crate::layout;
use crate::module::launch::LaunchConfig;
use crate::value::{AnyView, Arg, DataType, FromAny, ToArg};
use crate::{Error, Result};

/// Converts an argument for the call.
#[inline]
pub fn kernel_arg<T: ToArg + ?Sized>(value: &T) -> Arg<'_> {
    value.to_arg()
}

/// The extent of an argument along `axis`, if the argument is a tensor with this axis.
#[inline]
pub fn extent_of(value: &AnyView<'_>, axis: usize) -> Option<i64> {
    layout::Layout::of(layout::dl_tensor(value)?).ok()?.shape.get(axis).copied()
}

/// Calls a CPU kernel after checking that its tensors have the declared element types.
///
/// # Errors
/// Returns a TypeError that contains the kernel and the argument, or the kernel's error.
#[inline]
pub fn call_kernel<const N: usize, R: for<'a> FromAny<'a>>(kernel: &Kernel, args: [Arg<'_>; N]) -> Result<R> {
    let info = kernel.info();
    if let Some(types) = &info.types
        && let Some((index, problem)) = wrong_element(&args, types.elements)
    {
        let name = types.names.get(index).copied().unwrap_or_default();
        return Err(Error::type_error(format!("{}: argument '{name}': {problem}", info.shown())));
    }
    kernel.call_as(args)
}

/// Launches a device kernel after checking that its tensors have the element types of its source.
///
/// # Errors
/// Returns a TypeError that contains the kernel and the argument, or the launch's error.
#[inline]
pub fn launch_kernel<const N: usize>(
    kernel: &DeviceKernel,
    config: impl Into<LaunchConfig>,
    args: [Arg<'_>; N],
) -> Result<()> {
    let info = kernel.info();
    // A missing kernel is an error, whatever the arguments.
    kernel.function()?;
    if let Some((index, problem)) = wrong_element(&args, info.elements) {
        let name = info.arg_names.get(index).copied().unwrap_or_default();
        return Err(Error::type_error(format!("{} kernel '{}': argument '{name}': {problem}", info.kind, info.name)));
    }
    kernel.launch_with(&config.into(), args)
}

/// Returns the index of the first tensor with a wrong element type, and a description of the
/// problem.
#[inline]
fn wrong_element(args: &[Arg<'_>], elements: &[&str]) -> Option<(usize, String)> {
    args.iter().zip(elements).enumerate().filter(|(_, (_, element))| !element.is_empty()).find_map(
        |(index, (arg, element))| {
            let raw = arg.as_raw();
            // SAFETY: a view is transparent over the raw struct, and what it borrows lives as long
            // as the argument.
            let view = unsafe { &*(&raw const raw).cast::<AnyView<'_>>() };
            let dtype = layout::element_type(view)?;
            (!is_called(dtype, element)).then(|| (index, format!("expected a tensor of {element}, got one of {dtype}")))
        },
    )
}

/// The names of data types in declarations, by type code and bits.
const NAMES: [(u8, u8, &str); 13] = [
    (0, 8, "int8"),
    (0, 16, "int16"),
    (0, 32, "int32"),
    (0, 64, "int64"),
    (1, 8, "uint8"),
    (1, 16, "uint16"),
    (1, 32, "uint32"),
    (1, 64, "uint64"),
    (2, 16, "float16"),
    (2, 32, "float32"),
    (2, 64, "float64"),
    (4, 16, "bfloat16"),
    (6, 8, "bool"),
];

/// Returns whether a data type has this name. Runs on every call, so the usual types do not
/// allocate.
#[inline]
fn is_called(dtype: DataType, name: &str) -> bool {
    let raw = dtype.as_raw();
    let known = NAMES.iter().find(|(code, bits, _)| (*code, *bits, 1) == (raw.code, raw.bits, raw.lanes));
    known.map_or_else(|| dtype.to_string() == name, |(_, _, known)| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types() {
        for (code, bits, name) in NAMES {
            let dtype = DataType::scalar(code, bits);
            assert_eq!(dtype.to_string(), name);
            for (_, _, other) in NAMES {
                assert_eq!(is_called(dtype, other), other == name, "{name} {other}");
            }
        }
        let float8 = DataType::scalar(10, 8);
        assert!(is_called(float8, &float8.to_string()) && !is_called(float8, "float16"));
    }
}
