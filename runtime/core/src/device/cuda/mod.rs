//! CUDA devices, through the driver API.
//!
//! Three kinds of devices: `cuda`, and the two kinds of memory that it shares with the CPU,
//! `cuda_host` (pinned) and `cuda_managed`. The driver is loaded when one of them is first used;
//! neither building nor loading requires CUDA.
//!
//! Contexts are the primary contexts, so memory, streams and events are shared with PyTorch, the
//! CUDA runtime and cudarc: a stream is a `CUstream`, and an address is a device address.

mod api;
mod copy;
pub(crate) mod device;
pub(crate) mod driver;
mod memory;

use api::CudaApi;
use memory::Memory;

use super::DeviceKindInfo;
use crate::abi::device_type;

/// The device kinds of this module.
pub(super) static KINDS: [DeviceKindInfo; 3] =
    // SAFETY: the driver's memory, streams and events, under the driver's rules: `cuMemFree` waits
    // for the device's work, and a destroyed stream or event stays alive until its work is done.
    unsafe {
        [
            DeviceKindInfo::new(device_type::CUDA, || Box::new(CudaApi { memory: Memory::Device })),
            DeviceKindInfo::new(device_type::CUDA_HOST, || Box::new(CudaApi { memory: Memory::Pinned })),
            DeviceKindInfo::new(device_type::CUDA_MANAGED, || Box::new(CudaApi { memory: Memory::Managed })),
        ]
    };
