//! The OpenCL devices of this machine.

use kernpack::device;
use kernpack::device::device_type;
use kernpack::{Device, Error};

/// Says that a test cannot run here; a panic where OpenCL was promised.
fn skip(error: &Error) {
    assert!(std::env::var("KERNPACK_OPENCL").as_deref() != Ok("require"), "{error}");
    let test = std::thread::current();
    kernpack_tests::skip::skip(format_args!("{}: {}", test.name().unwrap_or("a test"), error.message()));
}

/// All devices; None, and a line that says so, when there is none.
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
