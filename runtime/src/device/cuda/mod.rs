//! CUDA devices, through the driver API.
//!
//! Three kinds of devices: `cuda`, and the two kinds of memory that it shares with the host, `cuda_host` (pinned) and
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

use crate::abi::device_type;

// SAFETY: the driver's memory, streams and events, under the driver's rules: `cuMemFree` waits for the device's work, and an ended
// stream or event stays until its work is done.
crate::device_api!(unsafe device_type::CUDA, || CudaApi { memory: Memory::Device });
// SAFETY: as above.
crate::device_api!(unsafe device_type::CUDA_HOST, || CudaApi { memory: Memory::Pinned });
// SAFETY: as above.
crate::device_api!(unsafe device_type::CUDA_MANAGED, || CudaApi { memory: Memory::Managed });
