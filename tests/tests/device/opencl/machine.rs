//! The OpenCL devices of this machine.

use kernpack::device;
use kernpack::device::device_type;
use kernpack::{Device, Error};

/// Reports that a test cannot run here; panics if OpenCL was expected.
fn skip(error: &Error) {
    assert!(std::env::var("KERNPACK_OPENCL").as_deref() != Ok("require"), "{error}");
    kernpack_tests::skip::skip(error.message());
}

/// All devices; if there is none, prints a line and returns `None`.
pub(crate) fn devices() -> Option<Vec<Device>> {
    let count = device::api(device_type::OPENCL).and_then(|api| api.device_count());
    match count {
        Ok(count) => Some((0..count).map(|index| Device::new(device_type::OPENCL, index)).collect()),
        Err(error) => {
            skip(&error);
            None
        }
    }
}

/// The first device.
pub(crate) fn first() -> Option<Device> {
    devices().map(|devices| devices[0])
}

/// The first two devices.
pub(crate) fn two() -> Option<[Device; 2]> {
    match devices()?[..] {
        [first, second, ..] => Some([first, second]),
        _ => {
            skip(&Error::runtime_error("there is only one OpenCL device"));
            None
        }
    }
}
