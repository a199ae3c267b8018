//! The part of the check that runs in a separate process: the build script, started again, with
//! [`VARIABLE`] set.
//!
//! A separate process is used because some drivers end the process, and others hang. The build
//! script's `main` does not run in it: [`start`] runs before `main`, and ends the process. The
//! output after [`MARK`] is its answer; drivers print text, too.
//!
//! `["list", LIBRARY]`: a line for each device, its values separated by tabs: number of the
//! platform, of the device, name of the platform, of the device, version of the driver, version of
//! OpenCL.
//!
//! `["build", LIBRARY, PLATFORM, DEVICE, FILE]`: the first line is `ok`, or the function that
//! failed and its status; then the compiler's log.

use std::ffi::{c_char, c_uint, c_void};
use std::io::Write as _;
use std::ptr::{null, null_mut};

use kernpack_formats::device_image::opencl_options;
use opencl_sys::cl_function_types as ty;
use opencl_sys::{
    CL_DEVICE_AVAILABLE, CL_DEVICE_COMPILER_AVAILABLE, CL_DEVICE_NAME, CL_DEVICE_NOT_FOUND, CL_DEVICE_TYPE_ALL,
    CL_DEVICE_VERSION, CL_DRIVER_VERSION, CL_PLATFORM_NAME, CL_PLATFORM_NOT_FOUND_KHR, CL_PROGRAM_BUILD_LOG,
    cl_device_id, cl_int, cl_platform_id,
};

/// The variable that is set in the process that queries the drivers: its task, as a JSON array.
pub(super) const VARIABLE: &str = "KERNPACK_OPENCL_WORKER";

/// The mark before the answer.
pub(super) const MARK: &str = "\u{1}kernpack-opencl\n";

/// Makes the linker run `start` before `main`.
#[used]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
pub(super) static AT_START: extern "C" fn() = start;

/// Performs the task in [`VARIABLE`] and ends the process. Returns immediately if it is not set.
pub(crate) extern "C" fn start() {
    let Some(words) = std::env::var_os(VARIABLE) else { return };
    let words: Vec<String> = words.to_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let answer = match words.as_slice() {
        ["list", library] => Library::open(library).map(|library| list(&library)),
        ["build", library, platform, device, file] => {
            Library::open(library).and_then(|library| build(&library, platform, device, file))
        }
        _ => Err(format!("{VARIABLE} is not what kernpack-build sets")),
    };
    let (text, status) = match answer {
        Ok(text) => (text, 0),
        Err(text) => (text, 1),
    };
    let mut out = std::io::stdout().lock();
    let written = write!(out, "{MARK}{text}").and_then(|()| out.flush());
    unsafe extern "C" {
        fn _exit(status: cl_int) -> !;
    }
    // Some drivers fail when they are unloaded, which `exit` would do.
    // SAFETY: ends the process; everything is written.
    unsafe { _exit(if written.is_ok() { status } else { 1 }) }
}

/// A loaded OpenCL library.
struct Library(libloading::Library);

/// Loads the OpenCL function with this name.
macro_rules! function {
    ($library:expr, $name:ident: $type:ident) => {
        // SAFETY: OpenCL fixes the type of the function of this name, and the library stays loaded.
        unsafe { $library.0.get::<ty::$type>(stringify!($name)) }
            .ok()
            .and_then(|function| *function)
            .ok_or_else(|| format!("the OpenCL library has no {}", stringify!($name)))
    };
}

impl Library {
    fn open(name: &str) -> Result<Self, String> {
        // SAFETY: loading runs the constructors of the library, which is the purpose of this
        // process.
        let library = unsafe { libloading::Library::new(name) };
        library.map(Self).map_err(|_| format!("{name} cannot be loaded"))
    }

    fn platforms(&self) -> Result<Vec<cl_platform_id>, String> {
        let get = function!(self, clGetPlatformIDs: clGetPlatformIDs_t)?;
        // SAFETY: the list has as many places as it says.
        let platforms = handles(CL_PLATFORM_NOT_FOUND_KHR, |count, list, found| unsafe { get(count, list, found) });
        platforms.map_err(|status| format!("clGetPlatformIDs failed ({status})"))
    }

    /// Returns the devices of a platform. A failed platform has none, which does not affect the
    /// others.
    fn devices(&self, platform: cl_platform_id) -> Result<Vec<cl_device_id>, String> {
        let get = function!(self, clGetDeviceIDs: clGetDeviceIDs_t)?;
        // SAFETY: the platform is one of the library, and the list has as many places as it says.
        let devices = handles(CL_DEVICE_NOT_FOUND, |count, list, found| unsafe {
            get(platform, CL_DEVICE_TYPE_ALL, count, list, found)
        });
        Ok(devices.unwrap_or_default())
    }
}

/// Returns the handles that a function lists. It is called for their number first.
fn handles(
    none: cl_int,
    ask: impl Fn(c_uint, *mut *mut c_void, *mut c_uint) -> cl_int,
) -> Result<Vec<*mut c_void>, cl_int> {
    let mut count = 0;
    match ask(0, null_mut(), &mut count) {
        0 => {}
        status if status == none => return Ok(Vec::new()),
        status => return Err(status),
    }
    let mut handles = vec![null_mut(); count as usize];
    match ask(count, handles.as_mut_ptr(), null_mut()) {
        0 => Ok(handles),
        status => Err(status),
    }
}

/// Queries information about an OpenCL object. `ask` gets a size, a buffer and a pointer for the
/// size.
fn info(ask: impl Fn(usize, *mut c_void, *mut usize) -> cl_int) -> Vec<u8> {
    let mut size = 0;
    if ask(0, null_mut(), &mut size) != 0 {
        return Vec::new();
    }
    let mut value = vec![0; size];
    if size > 0 && ask(size, value.as_mut_ptr().cast(), null_mut()) != 0 {
        return Vec::new();
    }
    value
}

/// Converts a text that ends with a zero byte to one line.
fn text(value: &[u8]) -> String {
    let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

fn list(library: &Library) -> String {
    let mut lines = String::new();
    let line = |value: &[u8]| text(value).trim().replace(['\t', '\n'], " ");
    for (number, platform) in library.platforms().unwrap_or_default().into_iter().enumerate() {
        let of_platform = |what| {
            let get = function!(library, clGetPlatformInfo: clGetPlatformInfo_t).ok()?;
            // SAFETY: the platform is one of the library; it writes a size, then as many bytes.
            Some(info(|size, value, found| unsafe { get(platform, what, size, value, found) }))
        };
        let platform_name = line(&of_platform(CL_PLATFORM_NAME).unwrap_or_default());
        for (index, device) in library.devices(platform).unwrap_or_default().into_iter().enumerate() {
            let of_device = |what| {
                let get = function!(library, clGetDeviceInfo: clGetDeviceInfo_t).ok()?;
                // SAFETY: the device is one of the library; it writes a size, then as many bytes.
                Some(info(|size, value, found| unsafe { get(device, what, size, value, found) }))
            };
            let flag = |what| of_device(what).is_some_and(|value| value.iter().any(|byte| *byte != 0));
            if !flag(CL_DEVICE_AVAILABLE) || !flag(CL_DEVICE_COMPILER_AVAILABLE) {
                continue;
            }
            let text = |what| line(&of_device(what).unwrap_or_default());
            let (name, driver, version) = (text(CL_DEVICE_NAME), text(CL_DRIVER_VERSION), text(CL_DEVICE_VERSION));
            lines.push_str(&format!("{number}\t{index}\t{platform_name}\t{name}\t{driver}\t{version}\n"));
        }
    }
    lines
}

fn build(library: &Library, platform: &str, device: &str, file: &str) -> Result<String, String> {
    let code = std::fs::read(file).map_err(|error| format!("{file}: cannot be read: {error}"))?;
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("'{text}' is not a number"));
    let gone = || "the device is no longer there".to_owned();
    let platform = *library.platforms()?.get(number(platform)?).ok_or_else(gone)?;
    let device = *library.devices(platform)?.get(number(device)?).ok_or_else(gone)?;
    let create_context = function!(library, clCreateContext: clCreateContext_t)?;
    let create_program = function!(library, clCreateProgramWithSource: clCreateProgramWithSource_t)?;
    let build_program = function!(library, clBuildProgram: clBuildProgram_t)?;
    let build_info = function!(library, clGetProgramBuildInfo: clGetProgramBuildInfo_t)?;
    let mut status = 0;
    // SAFETY: the device is one of the library.
    let context = unsafe { create_context(null(), 1, &device, None, null_mut(), &mut status) };
    if status != 0 {
        return Ok(format!("clCreateContext failed ({status})\n"));
    }
    let (mut source, size) = (code.as_ptr().cast::<c_char>(), code.len());
    // SAFETY: one text, with its size, which lives for the call.
    let program = unsafe { create_program(context, 1, &mut source, &size, &mut status) };
    if status != 0 {
        return Ok(format!("clCreateProgramWithSource failed ({status})\n"));
    }
    let options = std::ffi::CString::new(opencl_options(code.as_ref())).unwrap_or_default();
    // SAFETY: program and device belong together; the options, those of kernpack's runtime, live
    // for the call.
    let built = unsafe { build_program(program, 1, &device, options.as_ptr(), None, null_mut()) };
    // SAFETY: as above; it writes a size, then as many bytes.
    let log =
        info(|size, value, found| unsafe { build_info(program, device, CL_PROGRAM_BUILD_LOG, size, value, found) });
    let log = text(&log);
    Ok(match built {
        0 => format!("ok\n{log}"),
        status => format!("clBuildProgram failed ({status})\n{log}"),
    })
}
