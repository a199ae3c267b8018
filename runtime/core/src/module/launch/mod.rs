//! Launching of the kernels of device images, for all kinds of devices.
//!
//! A kernel is an ordinary packed function ([`ImageKernel`] is its closure); [the module
//! above](super) documents the interface for callers. A kind of device implements [`DeviceCode`];
//! everything else (tables, checks, conversion, handles, messages, typed launches) is here. A call
//! passes, in this order:
//!
//! 1. the kernel's own arguments: a tensor for a pointer (or None, or a plain `void*`), a number
//!    for a scalar;
//! 2. one extent for each launch parameter tag, in the order of the function table;
//! 3. the number of bytes of dynamic shared memory, if the kernel uses any.
//!
//! Everything is checked against the table before launch: numbers for the range of the parameter's
//! type, tensors for their device and for gaps. All tensors must be on one device, and the kernel
//! runs there, in the environment's current stream of that device. Without a tensor, it runs on the
//! thread's current device of its kind ([`set_current_device`]), which is the first one by default.
//! Extents are at least 1: there is no empty launch. A tensor may be empty; the kernel gets its
//! address, which may be NULL. The table does not contain the element type of a buffer, so the
//! caller is responsible for it, as well as for plain pointers.
//!
//! After the first launch of a kernel on a device, a launch does not take a lock or allocate (up to
//! 24 arguments, and 16 devices).

mod arguments;
mod code;
mod config;
mod current_device;
mod float;
mod handles;
mod kernel;
mod launcher;
pub(crate) mod metadata;
mod param;
mod signature;
mod tags;

pub(crate) use code::{DeviceCode, KernelArg, RawKernel};
pub use config::{Extents, LaunchConfig};
pub(crate) use kernel::ImageKernel;
pub use launcher::KernelLauncher;
pub(crate) use launcher::{launch, name_arguments};
pub(crate) use signature::Signature;

use crate::value::Device;

/// Makes a device this thread's current one of its kind: kernels whose arguments do not determine a
/// device run there.
#[inline]
pub fn set_current_device(device: Device) {
    current_device::set(device);
}

#[cfg(test)]
mod tests;
