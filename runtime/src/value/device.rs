use core::fmt;

use super::{Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema};
use crate::abi::{DLDevice, TVMFFIAny, TVMFFIAnyPayload, device_type, type_index};

/// Where a tensor's data is: kind of device and index.
///
/// ```
/// use kernpack::Device;
/// assert_eq!(Device::cuda(1).to_string(), "cuda:1");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Device(DLDevice);

impl Device {
    /// The CPU.
    pub const CPU: Self = Self::new(device_type::CPU, 0);

    /// Any device; `kind` is one of [`device_type`].
    pub const fn new(kind: i32, index: i32) -> Self {
        Self(DLDevice { device_type: kind, device_id: index })
    }

    /// The CUDA device with this index.
    pub const fn cuda(index: i32) -> Self {
        Self::new(device_type::CUDA, index)
    }

    /// Wraps the ABI's struct.
    pub const fn from_raw(raw: DLDevice) -> Self {
        Self(raw)
    }

    /// The ABI's struct.
    pub const fn raw(self) -> DLDevice {
        self.0
    }

    /// One of [`device_type`].
    pub const fn kind(self) -> i32 {
        self.0.device_type
    }

    /// Which one of its kind.
    pub const fn index(self) -> i32 {
        self.0.device_id
    }

    /// Whether ordinary loads and stores reach the data.
    pub const fn is_host_accessible(self) -> bool {
        matches!(
            self.0.device_type,
            device_type::CPU | device_type::CUDA_HOST | device_type::ROCM_HOST | device_type::CUDA_MANAGED
        )
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.0.device_type {
            device_type::CPU => "cpu",
            device_type::CUDA => "cuda",
            device_type::CUDA_HOST => "cuda_host",
            device_type::OPENCL => "opencl",
            device_type::VULKAN => "vulkan",
            device_type::METAL => "metal",
            device_type::VPI => "vpi",
            device_type::ROCM => "rocm",
            device_type::ROCM_HOST => "rocm_host",
            device_type::EXT_DEV => "ext_dev",
            device_type::CUDA_MANAGED => "cuda_managed",
            device_type::ONE_API => "oneapi",
            device_type::WEBGPU => "webgpu",
            device_type::HEXAGON => "hexagon",
            device_type::MAIA => "maia",
            device_type::TRN => "trn",
            other => return write!(f, "device_type_{other}:{}", self.0.device_id),
        };
        write!(f, "{kind}:{}", self.0.device_id)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Schema for Device {
    const TYPE: TypeSchema = TypeSchema::new("Device");
}

impl<'a> FromAny<'a> for Device {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        match value.type_index() {
            // SAFETY: the type index names the member.
            type_index::DEVICE => Ok(Self(unsafe { value.raw().payload.v_device })),
            _ => Err(Mismatch::Type),
        }
    }
}

impl IntoAny for Device {
    fn into_any(self) -> Any {
        let payload = TVMFFIAnyPayload { v_device: self.0 };
        // SAFETY: a device owns nothing.
        unsafe { Any::from_raw(TVMFFIAny { type_index: type_index::DEVICE, small_len: 0, payload }) }
    }
}

impl ToArg for Device {
    fn to_arg(&self) -> Arg<'_> {
        Arg::owned(self.into_any())
    }
}
