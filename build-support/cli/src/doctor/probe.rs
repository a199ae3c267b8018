//! Queries a device library, in a separate process. Drivers run their own code when they are loaded
//! and queried, and some end the process.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use libloading::{Library, Symbol};
use serde_json::{Value, json};

use crate::Result;

type Probe = fn() -> Result<Value>;

/// The available probes: the name and the function.
const PROBES: [(&str, Probe); 3] = [("cuda", cuda), ("nvrtc", nvrtc), ("opencl", opencl)];

/// The maximum number of devices in the list.
const MOST: usize = 64;

/// Returns the answer as JSON: `missing` (the library does not exist), `problem`, or the result.
pub(crate) fn probe(word: &str) -> Result<String> {
    let (_, ask) = PROBES.iter().find(|(name, _)| *name == word).ok_or_else(|| format!("unknown probe '{word}'"))?;
    let answer = ask().unwrap_or_else(|problem| json!({ "problem": problem }));
    Ok(format!("{answer}\n"))
}

/// Opens the first library that exists, or returns `None`.
fn open(names: &[&str]) -> Result<Option<(Library, String)>> {
    let mut problem = None;
    for name in names {
        // SAFETY: loading runs the library's constructors, which is the purpose of this process.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(Some((library, (*name).to_owned()))),
            Err(error) => {
                // The message of the dynamic linker is the source of the error.
                let text = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                // A library that exists but lacks another one is broken, not missing.
                if !text.starts_with(&format!("{name}: cannot open")) && cfg!(target_os = "linux") {
                    problem = problem.or(Some(text));
                }
            }
        }
    }
    problem.map_or(Ok(None), Err)
}

/// Returns a function of the library.
///
/// # Safety
/// `T` is the function's type.
unsafe fn function<'a, T>(library: &'a Library, name: &str) -> Result<Symbol<'a, T>> {
    // SAFETY: promised by the caller.
    unsafe { library.get(name.as_bytes()) }.map_err(|_| format!("it has no function {name}"))
}

/// Returns the driver's version, and its devices.
fn cuda() -> Result<Value> {
    let names = ["libcuda.so.1", "libcuda.so", "nvcuda.dll"];
    let Some((library, file)) = open(&names)? else { return Ok(json!({ "missing": names[0] })) };
    let check = |name: &str, code: c_int| match code {
        0 => Ok(()),
        100 => Err(format!("{name}: the driver sees no device (CUDA error 100)")),
        999 => Err(format!(
            "{name}: unknown error (CUDA error 999); another process may hold the device, or it needs a reset"
        )),
        code => Err(format!("{name} failed with CUDA error {code}")),
    };
    let (mut version, mut count) = (0, 0);
    let mut devices = Vec::new();
    // SAFETY: the functions have these types in every driver (cuda.h); out-pointers are valid for
    // the calls, and the name's buffer has the size that is passed.
    unsafe {
        let get_version = function::<unsafe extern "C" fn(*mut c_int) -> c_int>(&library, "cuDriverGetVersion")?;
        check("cuDriverGetVersion", get_version(&mut version))?;
        let init = function::<unsafe extern "C" fn(c_uint) -> c_int>(&library, "cuInit")?;
        check("cuInit", init(0))?;
        let get_count = function::<unsafe extern "C" fn(*mut c_int) -> c_int>(&library, "cuDeviceGetCount")?;
        check("cuDeviceGetCount", get_count(&mut count))?;
        let get_name =
            function::<unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int>(&library, "cuDeviceGetName")?;
        let get_attribute =
            function::<unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int>(&library, "cuDeviceGetAttribute")?;
        for device in 0..count.min(MOST as c_int) {
            let mut name = [0; 256];
            check("cuDeviceGetName", get_name(name.as_mut_ptr(), 255, device))?;
            let (mut major, mut minor) = (0, 0);
            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
            check("cuDeviceGetAttribute", get_attribute(&mut major, 75, device))?;
            check("cuDeviceGetAttribute", get_attribute(&mut minor, 76, device))?;
            let name = CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned();
            devices.push(format!("{name} (sm_{major}{minor})"));
        }
    }
    let version = format!("{}.{}", version / 1000, version % 1000 / 10);
    Ok(json!({ "file": file, "version": version, "devices": devices }))
}

/// Returns the compiler's version, and the architectures that it supports.
fn nvrtc() -> Result<Value> {
    let names = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];
    let Some((library, file)) = open(&names)? else { return Ok(json!({ "missing": names[0] })) };
    let (mut major, mut minor, mut count) = (0, 0, 0);
    let mut architectures = Vec::new();
    // SAFETY: the functions have these types in NVRTC 11.2 and newer (nvrtc.h); the array has as
    // many elements as the library reports.
    unsafe {
        let get_version = function::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(&library, "nvrtcVersion")?;
        if get_version(&mut major, &mut minor) != 0 {
            return Err("nvrtcVersion failed".to_owned());
        }
        let get_count = function::<unsafe extern "C" fn(*mut c_int) -> c_int>(&library, "nvrtcGetNumSupportedArchs")?;
        let get = function::<unsafe extern "C" fn(*mut c_int) -> c_int>(&library, "nvrtcGetSupportedArchs")?;
        if get_count(&mut count) == 0 && (1..=1024).contains(&count) {
            architectures.resize(count as usize, 0);
            if get(architectures.as_mut_ptr()) != 0 {
                architectures.clear();
            }
        }
    }
    let architectures: Vec<String> = architectures.iter().map(|number| format!("sm_{number}")).collect();
    Ok(json!({ "file": file, "version": format!("{major}.{minor}"), "architectures": architectures }))
}

type Handle = *mut c_void;
type GetIds = unsafe extern "system" fn(c_uint, *mut Handle, *mut c_uint) -> c_int;
type GetDeviceIds = unsafe extern "system" fn(Handle, u64, c_uint, *mut Handle, *mut c_uint) -> c_int;
type GetInfo = unsafe extern "system" fn(Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;

/// Returns a text of OpenCL about a platform or a device.
///
/// # Safety
/// `get` is clGetPlatformInfo or clGetDeviceInfo, and the handle is of the matching kind.
unsafe fn info(get: &Symbol<'_, GetInfo>, handle: Handle, key: c_uint) -> String {
    let mut text = [0_u8; 1024];
    let mut size = 0;
    // SAFETY: the buffer has the size that is passed; the rest is the caller's promise.
    let code = unsafe { get(handle, key, text.len(), text.as_mut_ptr().cast(), &mut size) };
    if code != 0 {
        return "unknown".to_owned();
    }
    let text = text.get(..size).unwrap_or_default();
    String::from_utf8_lossy(text).trim_end_matches('\0').trim().to_owned()
}

/// Returns the platforms, with their devices.
fn opencl() -> Result<Value> {
    let names = ["libOpenCL.so.1", "libOpenCL.so", "/System/Library/Frameworks/OpenCL.framework/OpenCL", "OpenCL.dll"];
    let Some((library, file)) = open(&names)? else { return Ok(json!({ "missing": names[0] })) };
    const NO_PLATFORM: c_int = -1001;
    const ALL_DEVICES: u64 = 0xffff_ffff;
    let (mut platforms, mut devices) = (Vec::new(), Vec::new());
    // SAFETY: the functions have these types in every OpenCL (cl.h); arrays have as many elements
    // as the passed count.
    unsafe {
        let get_platforms = function::<GetIds>(&library, "clGetPlatformIDs")?;
        let platform_info = function::<GetInfo>(&library, "clGetPlatformInfo")?;
        let get_devices = function::<GetDeviceIds>(&library, "clGetDeviceIDs")?;
        let device_info = function::<GetInfo>(&library, "clGetDeviceInfo")?;
        let mut handles = [std::ptr::null_mut(); MOST];
        let mut count = 0;
        match get_platforms(MOST as c_uint, handles.as_mut_ptr(), &mut count) {
            0 => {}
            NO_PLATFORM => count = 0,
            code => return Err(format!("clGetPlatformIDs failed with OpenCL error {code}")),
        }
        for platform in handles.into_iter().take(count as usize) {
            // CL_PLATFORM_NAME, CL_PLATFORM_VERSION.
            platforms.push(format!(
                "{}, {}",
                info(&platform_info, platform, 0x902),
                info(&platform_info, platform, 0x901)
            ));
            let mut handles = [std::ptr::null_mut(); MOST];
            let mut count = 0;
            if get_devices(platform, ALL_DEVICES, MOST as c_uint, handles.as_mut_ptr(), &mut count) != 0 {
                continue;
            }
            for device in handles.into_iter().take(count as usize) {
                // CL_DEVICE_NAME, CL_DEVICE_VERSION.
                devices.push(format!(
                    "{} ({})",
                    info(&device_info, device, 0x102b),
                    info(&device_info, device, 0x102f)
                ));
            }
        }
    }
    Ok(json!({ "file": file, "platforms": platforms, "devices": devices }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_broken_libraries() {
        assert!(matches!(open(&["libkernpack-no-such.so.1", "libkernpack-no-other.so"]), Ok(None)));
        let file = std::env::temp_dir().join(format!("kernpack-probe-{}.so", std::process::id()));
        std::fs::write(&file, "no library").unwrap();
        let problem = open(&[file.to_str().unwrap()]).map(|found| found.is_some()).unwrap_err();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(problem, format!("{}: file too short", file.display()));
        assert_eq!(probe("gpu").unwrap_err(), "unknown probe 'gpu'");
    }
}
