//! Kernels that build scripts compiled into this library: CPU kernels ([`Kernel`]) and kernels of
//! device images ([`DeviceKernel`]).

mod cpu;
mod device;
mod mismatch;
pub(crate) mod model;
mod typed;

pub use cpu::{HostKernelTypes, Kernel, KernelInfo, host_kernel_metadata, kernel_doc, register_kernel};
pub use device::{DeviceKernel, DeviceKernelInfo, ImageStatus, call_device_kernel, device_kernel_metadata};
pub use mismatch::{explained, explained_views};
pub use typed::{call_kernel, extent_of, kernel_arg, launch_kernel};
