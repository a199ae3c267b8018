//! What the functions of a generated module `kernels::typed` call: kernels whose arguments have names and types.

use super::{DeviceKernel, Kernel};
use crate::layout;
use crate::module::launch::LaunchConfig;
use crate::value::{AnyView, Arg, FromAny, ToArg};
use crate::{Error, Result};

/// An argument as it is passed on.
#[inline]
pub fn kernel_arg<T: ToArg + ?Sized>(value: &T) -> Arg<'_> {
    value.to_arg()
}

/// Calls a cpu kernel, whose tensors must have the element types that its declaration names.
///
/// # Errors
/// TypeError that names the kernel and the argument; what the kernel raises.
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

/// Launches a device kernel, whose tensors must have the element types that its source names.
///
/// # Errors
/// TypeError that names the kernel and the argument; what the launch reports.
#[inline]
pub fn launch_kernel<const N: usize>(
    kernel: &DeviceKernel,
    config: impl Into<LaunchConfig>,
    args: [Arg<'_>; N],
) -> Result<()> {
    let info = kernel.info();
    // A kernel that is not there says so, whatever it is given.
    kernel.function()?;
    if let Some((index, problem)) = wrong_element(&args, info.elements) {
        let name = info.arg_names.get(index).copied().unwrap_or_default();
        return Err(Error::type_error(format!("{} kernel '{}': argument '{name}': {problem}", info.kind, info.name)));
    }
    kernel.launch_with(&config.into(), args)
}

/// The first tensor with elements of another type than the one that is wanted, and what is wrong with it.
#[inline]
fn wrong_element(args: &[Arg<'_>], elements: &[&str]) -> Option<(usize, String)> {
    args.iter().zip(elements).enumerate().filter(|(_, (_, element))| !element.is_empty()).find_map(
        |(index, (arg, element))| {
            let raw = arg.as_raw();
            // SAFETY: a view is transparent over the raw struct, and what it borrows lives as long as the argument.
            let view = unsafe { &*(&raw const raw).cast::<AnyView<'_>>() };
            let dtype = layout::element_type(view)?;
            let name = dtype.to_string();
            (name != *element).then(|| (index, format!("expected a tensor of {element}, got one of {name}")))
        },
    )
}
