//! Attributes of OpenCL devices, in the terms of [`DeviceAttribute`].

use opencl_sys::{
    CL_DEVICE_EXTENSIONS, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, CL_DEVICE_GLOBAL_MEM_SIZE, CL_DEVICE_IMAGE_PITCH_ALIGNMENT,
    CL_DEVICE_LOCAL_MEM_SIZE, CL_DEVICE_MAX_CLOCK_FREQUENCY, CL_DEVICE_MAX_COMPUTE_UNITS,
    CL_DEVICE_MAX_WORK_GROUP_SIZE, CL_DEVICE_MAX_WORK_ITEM_SIZES, CL_DEVICE_VERSION, CL_DRIVER_VERSION,
};

use super::device::OpenClDevice;
use super::info;
use super::library::Failure;
use crate::Result;
use crate::device::DeviceAttribute;
use crate::value::{Any, IntoAny};

/// `CL_DEVICE_WARP_SIZE_NV` of cl_nv_device_attribute_query.
const WARP_SIZE_NV: u32 = 0x4003;
/// `CL_DEVICE_REGISTERS_PER_BLOCK_NV` of cl_nv_device_attribute_query.
const REGISTERS_PER_BLOCK_NV: u32 = 0x4002;
/// `CL_DEVICE_WAVEFRONT_WIDTH_AMD` of cl_amd_device_attribute_query.
const WAVEFRONT_WIDTH_AMD: u32 = 0x4043;
/// `CL_DEVICE_GLOBAL_FREE_MEMORY_AMD` of cl_amd_device_attribute_query: KiB, as a list.
const GLOBAL_FREE_MEMORY_AMD: u32 = 0x4039;

/// Returns an attribute of a device; None if OpenCL does not provide it.
pub(super) fn attribute(device: &OpenClDevice, attribute: DeviceAttribute) -> Result<Any> {
    // SAFETY: the device is one of the library.
    let ask = |what| unsafe { info::of_device(device.library(), device.id(), what) };
    let number = |what| ask(what).and_then(|value| info::number(&value));
    let int = |value: u64| i64::try_from(value).unwrap_or(i64::MAX).into_any();
    let extensions = || ask(CL_DEVICE_EXTENSIONS).map(|value| info::text(&value));
    let nvidia = || extensions().map(|text| text.contains("cl_nv_device_attribute_query"));
    let amd = || extensions().map(|text| text.contains("cl_amd_device_attribute_query"));
    let value = || -> Result<Any, Failure> {
        Ok(match attribute {
            DeviceAttribute::Exist => 1i64.into_any(),
            DeviceAttribute::MaxThreadsPerBlock => int(number(CL_DEVICE_MAX_WORK_GROUP_SIZE)?),
            DeviceAttribute::WarpSize if nvidia()? => int(number(WARP_SIZE_NV)?),
            DeviceAttribute::WarpSize if amd()? => int(number(WAVEFRONT_WIDTH_AMD)?),
            // OpenCL does not guarantee that any work-items run in lockstep.
            DeviceAttribute::WarpSize => 1i64.into_any(),
            DeviceAttribute::MaxSharedMemoryPerBlock => int(number(CL_DEVICE_LOCAL_MEM_SIZE)?),
            DeviceAttribute::ComputeVersion => {
                let (major, minor) = version(&info::text(&ask(CL_DEVICE_VERSION)?))?;
                format!("{major}.{minor}").into_any()
            }
            DeviceAttribute::DeviceName => device.name().into_any(),
            DeviceAttribute::MaxClockRate => int(number(CL_DEVICE_MAX_CLOCK_FREQUENCY)?.saturating_mul(1000)),
            DeviceAttribute::MultiProcessorCount => int(number(CL_DEVICE_MAX_COMPUTE_UNITS)?),
            DeviceAttribute::MaxThreadDimensions => {
                let value = ask(CL_DEVICE_MAX_WORK_ITEM_SIZES)?;
                let sizes: Result<Vec<u64>, Failure> = value.chunks(size_of::<usize>()).map(info::number).collect();
                let sizes: Vec<String> = sizes?.into_iter().take(3).map(|size| size.to_string()).collect();
                format!("[{}]", sizes.join(", ")).into_any()
            }
            DeviceAttribute::MaxRegistersPerBlock if nvidia()? => int(number(REGISTERS_PER_BLOCK_NV)?),
            DeviceAttribute::ApiVersion => {
                let (major, minor) = version(&info::text(&ask(CL_DEVICE_VERSION)?))?;
                (i64::from(major) * 100 + i64::from(minor) * 10).into_any()
            }
            DeviceAttribute::DriverVersion => info::text(&ask(CL_DRIVER_VERSION)?).into_any(),
            DeviceAttribute::L2CacheSize => int(number(CL_DEVICE_GLOBAL_MEM_CACHE_SIZE)?),
            DeviceAttribute::TotalGlobalMemory => int(number(CL_DEVICE_GLOBAL_MEM_SIZE)?),
            DeviceAttribute::AvailableGlobalMemory if amd()? => {
                let value = ask(GLOBAL_FREE_MEMORY_AMD)?;
                int(info::number(value.get(..size_of::<usize>()).unwrap_or_default())?.saturating_mul(1024))
            }
            DeviceAttribute::ImagePitchAlignment => match number(CL_DEVICE_IMAGE_PITCH_ALIGNMENT) {
                Ok(alignment) => int(alignment),
                // Only devices that create images from buffers have one.
                Err(_) => Any::NONE,
            },
            _ => Any::NONE,
        })
    };
    value().map_err(|why| device.failed(format_args!("its attributes cannot be read"), why))
}

/// Major and minor of `OpenCL 3.0 PoCL ...`.
fn version(text: &str) -> Result<(u16, u16), Failure> {
    let numbers = text.strip_prefix("OpenCL ").and_then(|rest| rest.split_whitespace().next());
    let numbers = numbers.and_then(|numbers| numbers.split_once('.'));
    numbers
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
        .ok_or(Failure::Status(opencl_sys::CL_INVALID_VALUE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        for (text, expected) in [
            ("OpenCL 3.0 PoCL HSTR: pthread-x86_64", Some((3, 0))),
            ("OpenCL 1.2", Some((1, 2))),
            ("OpenCL C 1.2", None),
            ("OpenCL 3", None),
            ("", None),
        ] {
            assert_eq!(version(text).ok(), expected, "{text}");
        }
    }
}
