//! Devices: where tensors live and kernels run.
//!
//! A kind of device is a [`DeviceApi`]: attributes, memory, copies, streams and events. Kinds register themselves
//! (`kernpack::device_api!`), and every library of the process uses the first one that was registered for a kind, so
//! that a tensor that one library allocates can be copied by another.
//!
//! The CPU is always there. `cuda` and `opencl` come with the Cargo features of their names; both look for the vendor's library
//! when they are first used, so neither is needed to build or to load.
//!
//! ```
//! use kernpack::{Device, device};
//! assert!(device::exists(Device::CPU));
//! assert!(!device::exists(Device::cuda(99)));
//! ```

mod api;
mod attribute;
mod copy;
mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
mod event;
mod memory;
#[cfg(feature = "opencl")]
pub(crate) mod opencl;
mod registry;
mod stream;
mod table;
pub(crate) mod workspace;

/// Kinds of devices, as DLPack numbers them: what [`Device::new`](crate::Device::new) and [`api`] take.
#[doc(inline)]
pub use crate::abi::device_type;

pub use api::{DeviceApi, Place, RawEvent, RawStream};
pub use attribute::DeviceAttribute;
pub use copy::copy;
pub use cpu::set_huge_pages;
pub use event::Event;
pub use memory::DeviceMemory;
pub(crate) use registry::api_of_another;
#[cfg(any(feature = "cuda", feature = "opencl"))]
pub(crate) use registry::register_own;
pub use registry::{DeviceKindInfo, api, attribute, current_stream, exists, offer_kind};
pub use stream::Stream;
