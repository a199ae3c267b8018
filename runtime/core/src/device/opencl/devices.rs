//! The OpenCL devices of this machine in their order: GPUs, then accelerators, then CPUs, then
//! others, and among these in the order in which the platforms list them.

use opencl_sys::{
    CL_DEVICE_AVAILABLE, CL_DEVICE_NAME, CL_DEVICE_NOT_FOUND, CL_DEVICE_TYPE, CL_DEVICE_TYPE_ACCELERATOR,
    CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU, CL_PLATFORM_NAME, CL_PLATFORM_NOT_FOUND_KHR,
};

use super::device::OpenClDevice;
use super::info;
use super::library::{Failure, Library, cl_call};

/// Environment variable that selects and orders the devices: `PLATFORM` or `PLATFORM:DEVICE`,
/// separated by commas. Each is a number, or a part of a name, case-insensitive.
const DEVICES_VARIABLE: &str = "KERNPACK_OPENCL_DEVICES";

/// A device that a platform lists.
struct Found {
    platform: usize,
    platform_name: String,
    /// Index of the device in its platform.
    number: usize,
    id: usize,
    name: String,
    rank: u32,
}

/// Finds all devices. The error contains the reason that there is none and the remedy.
pub(super) fn find(library: &'static Library) -> Result<Vec<OpenClDevice>, String> {
    let platforms = info::handles(CL_PLATFORM_NOT_FOUND_KHR, |count, ids, found| {
        // SAFETY: `ids` has room for `count` platforms.
        unsafe { cl_call!(library, clGetPlatformIDs(count, ids, found)) }
    });
    let platforms = platforms.map_err(|why| format!("the OpenCL platforms cannot be listed: {why}"))?;
    if platforms.is_empty() {
        return Err(
            "the OpenCL loader finds no platform; install the driver of the device (Debian and Ubuntu, for the CPU: \
                    pocl-opencl-icd; for a GPU: its vendor's), which puts a file into /etc/OpenCL/vendors"
                .to_owned(),
        );
    }
    let mut found = Vec::new();
    let mut platform_names = Vec::new();
    for (platform, id) in platforms.into_iter().enumerate() {
        // SAFETY: the library returned this platform.
        let name = unsafe { info::of_platform(library, id, CL_PLATFORM_NAME) };
        let platform_name = name.map_or_else(|_| format!("platform {platform}"), |name| info::text(&name));
        // A platform that fails does not contribute devices; the others still do.
        let ids = info::handles(CL_DEVICE_NOT_FOUND, |count, ids, found| {
            // SAFETY: the library returned this platform, and `ids` has room for `count` devices.
            unsafe { cl_call!(library, clGetDeviceIDs(id, CL_DEVICE_TYPE_ALL, count, ids, found)) }
        });
        for (number, id) in ids.unwrap_or_default().into_iter().enumerate() {
            if let Ok(Some((name, rank))) = describe(library, id) {
                let platform_name = platform_name.clone();
                found.push(Found { platform, platform_name, number, id: id.expose_provenance(), name, rank });
            }
        }
        platform_names.push(platform_name);
    }
    if found.is_empty() {
        return Err(format!(
            "no OpenCL platform has a device that can be used (platforms: {}); install the driver of the device, and see that \
             this user may open it",
            platform_names.join(", ")
        ));
    }
    let wish = std::env::var(DEVICES_VARIABLE).unwrap_or_default();
    let order = if wish.trim().is_empty() {
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by_key(|&position| found[position].rank);
        order
    } else {
        chosen(&wish, &found)?
    };
    let devices = order.into_iter().zip(0..).map(|(position, index)| {
        let Found { id, name, .. } = &found[position];
        OpenClDevice::new(library, index, core::ptr::with_exposed_provenance_mut(*id), name.clone())
    });
    Ok(devices.collect())
}

/// Returns the name and rank of a device; None if it cannot be used at the moment.
fn describe(library: &Library, id: opencl_sys::cl_device_id) -> Result<Option<(String, u32)>, Failure> {
    // SAFETY: the library returned this device.
    let ask = |what| unsafe { info::of_device(library, id, what) };
    if info::number(&ask(CL_DEVICE_AVAILABLE)?)? == 0 {
        return Ok(None);
    }
    let kind = info::number(&ask(CL_DEVICE_TYPE)?)?;
    let ranks = [CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_CPU];
    let rank = ranks.iter().zip(0..).find(|(bit, _)| kind & **bit != 0).map_or(3, |(_, rank)| rank);
    Ok(Some((info::text(&ask(CL_DEVICE_NAME)?), rank)))
}

/// Returns the indices of the devices that the variable requests, each once.
fn chosen(wish: &str, found: &[Found]) -> Result<Vec<usize>, String> {
    let mut order = Vec::new();
    for item in wish.split(',').map(str::trim) {
        let (platform, device) = match item.split_once(':') {
            Some((platform, device)) => (platform.trim(), Some(device.trim())),
            None => (item, None),
        };
        let fits = |found: &Found| {
            matches(platform, found.platform, &found.platform_name)
                && device.is_none_or(|device| matches(device, found.number, &found.name))
        };
        let positions: Vec<usize> = (0..found.len()).filter(|&position| fits(&found[position])).collect();
        if positions.is_empty() {
            let there = found
                .iter()
                .map(|found| format!("{}:{} ({}: {})", found.platform, found.number, found.platform_name, found.name));
            return Err(format!(
                "{DEVICES_VARIABLE}: '{item}' fits no device; there are {}",
                there.collect::<Vec<_>>().join(", ")
            ));
        }
        order.extend(positions.into_iter().filter(|position| !order.contains(position)).collect::<Vec<_>>());
    }
    Ok(order)
}

/// Returns whether a requested device, a number or a part of a name, matches.
fn matches(wish: &str, number: usize, name: &str) -> bool {
    match wish.parse::<usize>() {
        Ok(wanted) => wanted == number,
        Err(_) => !wish.is_empty() && name.to_lowercase().contains(&wish.to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_choose_devices() {
        let device = |platform: usize, platform_name: &str, number, name: &str, rank| Found {
            platform,
            platform_name: platform_name.to_owned(),
            number,
            id: 0,
            name: name.to_owned(),
            rank,
        };
        let found = [
            device(0, "Portable Computing Language", 0, "pthread-EPYC", 2),
            device(0, "Portable Computing Language", 1, "basic-EPYC", 2),
            device(1, "NVIDIA CUDA", 0, "H200", 0),
        ];
        #[rustfmt::skip]
        let rows: &[(&str, Result<&[usize], &str>)] = &[
            ("0", Ok(&[0, 1])),
            ("1,0", Ok(&[2, 0, 1])),
            ("portable:1", Ok(&[1])),
            ("Portable : basic , nvidia", Ok(&[1, 2])),
            ("0:1,0", Ok(&[1, 0])),
            ("nvidia:h200", Ok(&[2])),
            ("amd", Err("KERNPACK_OPENCL_DEVICES: 'amd' fits no device; there are 0:0 (Portable Computing Language: pthread-EPYC), \
                         0:1 (Portable Computing Language: basic-EPYC), 1:0 (NVIDIA CUDA: H200)")),
            ("0:", Err("KERNPACK_OPENCL_DEVICES: '0:' fits no device; there are 0:0 (Portable Computing Language: pthread-EPYC), \
                        0:1 (Portable Computing Language: basic-EPYC), 1:0 (NVIDIA CUDA: H200)")),
        ];
        for (wish, expected) in rows {
            let order = chosen(wish, &found);
            assert_eq!(order.as_deref().map_err(String::as_str), *expected, "{wish}");
        }
    }
}
