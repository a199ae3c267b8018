//! CUDA devices, through the driver API.
//!
//! Three kinds of devices: `cuda`, and the two kinds of memory that it shares with the CPU, `cuda_host` (pinned) and
//! `cuda_managed`. The driver is looked for when one of them is first used; nothing of CUDA is needed to build or to load.
//!
//! Contexts are the primary ones, so memory, streams and events are those of PyTorch, of the CUDA runtime and of cudarc: a
//! `CUstream` is a stream here, and an address is an address.

mod api;
mod copy;
pub(crate) mod device;
pub(crate) mod driver;
mod memory;

use api::CudaApi;
use memory::Memory;

use super::DeviceKindInfo;
use crate::abi::device_type;

/// The kinds of devices here.
pub(super) static KINDS: [DeviceKindInfo; 3] =
    // SAFETY: the driver's memory, streams and events, under the driver's rules: `cuMemFree` waits for the device's work, and an ended
    // stream or event stays until its work is done.
    unsafe {
        [
            DeviceKindInfo::new(device_type::CUDA, || Box::new(CudaApi { memory: Memory::Device })),
            DeviceKindInfo::new(device_type::CUDA_HOST, || Box::new(CudaApi { memory: Memory::Pinned })),
            DeviceKindInfo::new(device_type::CUDA_MANAGED, || Box::new(CudaApi { memory: Memory::Managed })),
        ]
    };
