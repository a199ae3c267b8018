//! Devices: where tensors live and kernels run.
//!
//! A kind of device is a [`DeviceApi`]: attributes, memory, copies, streams and events. Kinds
//! register themselves (`kernpack::device_api!`), and every library of the process uses the first
//! one that was registered for a kind, so that one library can copy a tensor that another one
//! allocated.
//!
//! The CPU is always available. `cuda` and `opencl` are enabled by the Cargo features of the same
//! names; both load the vendor's library when they are first used, so it is not required to build
//! or to load.
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

/// Kinds of devices, numbered as in DLPack: the arguments of [`Device::new`](crate::Device::new)
/// and [`api`].
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
