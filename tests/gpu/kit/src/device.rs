//! The attributes of the device, as the driver reports them.

use kernpack::device::{self, DeviceAttribute, device_type};
use kernpack::{Any, Device};

use crate::{GPU, Result};

pub(crate) fn run() -> Result {
    let count = device::api(device_type::CUDA)?.device_count()?;
    println!("{count} CUDA devices");
    for attribute in DeviceAttribute::ALL {
        let value: Any = device::attribute(GPU, attribute)?;
        println!("{attribute:?}: {value:?}");
    }
    for (place, exists) in [
        (GPU, true),
        (Device::cuda(count), false),
        (Device::new(device_type::CUDA_HOST, 0), true),
        (Device::new(device_type::CUDA_HOST, 1), false),
        (Device::new(device_type::CUDA_MANAGED, 0), true),
    ] {
        if device::exists(place) != exists {
            return Err(format!("{place}: expected that it exists: {exists}").into());
        }
    }
    Ok(())
}
