use core::fmt;
use core::str::FromStr;

use super::{Any, AnyView, Arg, Changed, FromAny, IntoAny, Mismatch, Schema, Shown, ToArg, TypeSchema};
use crate::abi::{DLDevice, TVMFFIAny, TVMFFIAnyPayload, device_type, type_index};
use crate::{Error, Result};

/// A device that holds a tensor's data: its kind and its index.
///
/// ```
/// use kernpack::Device;
/// assert_eq!(Device::cuda(1).to_string(), "cuda:1");
/// assert_eq!("cuda:1".parse::<Device>().unwrap(), Device::cuda(1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Device(DLDevice);

impl Device {
    /// The CPU.
    pub const CPU: Self = Self::new(device_type::CPU, 0);

    /// Any device; `device_type` is one of [`device_type`](mod@device_type).
    pub const fn new(device_type: i32, index: i32) -> Self {
        Self(DLDevice { device_type, device_id: index })
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
    pub const fn as_raw(self) -> DLDevice {
        self.0
    }

    /// The kind of the device: one of [`device_type`](mod@device_type).
    pub const fn device_type(self) -> i32 {
        self.0.device_type
    }

    /// The index of the device among those of its kind.
    pub const fn index(self) -> i32 {
        self.0.device_id
    }

    /// Maximum number of remote sessions in a process at a time.
    pub const MAX_SESSIONS: usize = 32;

    /// Distance between the device kinds of two consecutive sessions: kinds of devices are numbered
    /// from 0 to 127.
    #[doc(hidden)]
    pub const SESSION_STEP: usize = 128;

    /// Returns this device as a device of the remote session with this number: its kind is that of
    /// the remote machine plus `128 * (session + 1)`, as in Apache TVM. `None` for a device of a
    /// session, and for a session number of 32 or more.
    ///
    /// ```
    /// use kernpack::Device;
    /// let remote = Device::cuda(1).in_session(2).unwrap();
    /// assert_eq!((remote.device_type(), remote.session()), (2 + 3 * 128, Some(2)));
    /// assert_eq!(remote.to_string(), "remote[2]-cuda:1");
    /// assert_eq!(remote.without_session(), Device::cuda(1));
    /// ```
    pub const fn in_session(self, session: usize) -> Option<Self> {
        let kind = self.device_type();
        if session >= Self::MAX_SESSIONS || kind < 0 || kind >= Self::SESSION_STEP as i32 {
            return None;
        }
        Some(Self::new(kind + (Self::SESSION_STEP * (session + 1)) as i32, self.index()))
    }

    /// The number of the remote session that this device belongs to; `None` for a device of this
    /// process, and for a kind outside the range of sessions.
    pub const fn session(self) -> Option<usize> {
        let step = Self::SESSION_STEP as i32;
        match self.device_type() / step {
            above @ 1.. if above as usize <= Self::MAX_SESSIONS => Some(above as usize - 1),
            _ => None,
        }
    }

    /// The device under the name that it has on its own machine.
    pub const fn without_session(self) -> Self {
        match self.session() {
            Some(_) => Self::new(self.device_type() % Self::SESSION_STEP as i32, self.index()),
            None => self,
        }
    }

    /// Returns whether the CPU can access the data with ordinary loads and stores.
    pub const fn is_host_accessible(self) -> bool {
        matches!(
            self.0.device_type,
            device_type::CPU | device_type::CUDA_HOST | device_type::ROCM_HOST | device_type::CUDA_MANAGED
        )
    }
}

/// Kinds of devices by name.
const NAMES: [(i32, &str); 16] = [
    (device_type::CPU, "cpu"),
    (device_type::CUDA, "cuda"),
    (device_type::CUDA_HOST, "cuda_host"),
    (device_type::OPENCL, "opencl"),
    (device_type::VULKAN, "vulkan"),
    (device_type::METAL, "metal"),
    (device_type::VPI, "vpi"),
    (device_type::ROCM, "rocm"),
    (device_type::ROCM_HOST, "rocm_host"),
    (device_type::EXT_DEV, "ext_dev"),
    (device_type::CUDA_MANAGED, "cuda_managed"),
    (device_type::ONE_API, "oneapi"),
    (device_type::WEBGPU, "webgpu"),
    (device_type::HEXAGON, "hexagon"),
    (device_type::MAIA, "maia"),
    (device_type::TRN, "trn"),
];

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(session) = self.session() {
            return write!(f, "remote[{session}]-{}", self.without_session());
        }
        match NAMES.iter().find(|(kind, _)| *kind == self.0.device_type) {
            Some((_, name)) => write!(f, "{name}:{}", self.0.device_id),
            None => write!(f, "device_type_{}:{}", self.0.device_type, self.0.device_id),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    /// Parses `cuda:1`, or `cuda` for the first device of a kind.
    fn from_str(text: &str) -> Result<Self> {
        let (name, index) = text.split_once(':').unwrap_or((text, "0"));
        let kind = NAMES.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind);
        match (kind, index.parse()) {
            (Some(kind), Ok(index)) if index >= 0 => Ok(Self::new(kind, index)),
            _ => Err(crate::error!(
                ValueError,
                "'{text}' names no device; write a kind and an index, such as cpu:0 or cuda:1"
            )),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Schema for Device {
    const TYPE: TypeSchema = TypeSchema::new("Device");
    const STORAGE: crate::value::Storage = crate::value::Storage::Plain;
}

impl<'a> FromAny<'a> for Device {
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        match value.type_index() {
            // SAFETY: the type index names the member.
            type_index::DEVICE => Ok(Self(unsafe { value.as_raw().payload.v_device })),
            _ => Err(Mismatch::TYPE),
        }
    }
}

impl IntoAny for Device {
    fn into_any(self) -> Any {
        let payload = TVMFFIAnyPayload { v_device: self.0 };
        // SAFETY: a device does not own anything.
        unsafe { Any::from_raw(TVMFFIAny { type_index: type_index::DEVICE, small_len: 0, payload }) }
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::Device(*self)
    }

    #[inline]
    fn changed(&mut self) -> Changed<'_> {
        Changed::Device(self)
    }
}

impl ToArg for Device {
    fn to_arg(&self) -> Arg<'_> {
        Arg::owned(self.into_any())
    }
}
