//! The OpenCL devices of this machine.

use kernpack::abi::device_type;
use kernpack::device;
use kernpack::{Device, Error};

/// Whether a test may say that it can not run here: not where someone has promised OpenCL.
fn may_skip() -> bool {
    std::env::var_os("CI").is_none() && std::env::var("KERNPACK_OPENCL").as_deref() != Ok("require")
}

fn skip(error: &Error) {
    assert!(may_skip(), "{error}");
    // Not through println!, which the harness hides.
    let line = format!("skipped: {}: {}\n", std::thread::current().name().unwrap_or("a test"), error.message());
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
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
