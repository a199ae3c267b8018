//! The program that compiles OpenCL C on a device: kernpack-build has rustc make it, and starts it where there is OpenCL.
//!
//! A process of its own, because drivers bring LLVMs of their own, which do not get along with the one in a build script, and because some
//! end the process. It needs nothing but the standard library. What it prints behind `MARK` is its answer; drivers print, too.
//!
//! `list LIBRARY`: a line for each device, its values separated by tabs: number of the platform, of the device, name of the platform,
//! of the device, version of the driver, version of OpenCL.
//! `build LIBRARY PLATFORM DEVICE FILE`: the first line is `ok`, or which function failed and its status; then what the compiler said.
//!
//! Names, types and numbers are those of Khronos' headers of OpenCL 3.0 (CL/cl.h).

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::io::Write as _;

const MARK: &str = "\u{1}kernpack-opencl\n";

const DEVICE_NOT_FOUND: c_int = -1;
const PLATFORM_NOT_FOUND_KHR: c_int = -1001;
const PLATFORM_NAME: c_uint = 0x0902;
const DEVICE_AVAILABLE: c_uint = 0x1027;
const DEVICE_COMPILER_AVAILABLE: c_uint = 0x1028;
const DEVICE_NAME: c_uint = 0x102B;
const DRIVER_VERSION: c_uint = 0x102D;
const DEVICE_VERSION: c_uint = 0x102F;
const DEVICE_TYPE_ALL: u64 = 0xFFFF_FFFF;
const PROGRAM_BUILD_LOG: c_uint = 0x1183;
const RTLD_NOW: c_int = 2;

type Handle = *mut c_void;
type Info = unsafe extern "C" fn(Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> Handle;
    fn dlsym(library: Handle, name: *const c_char) -> Handle;
    fn _exit(status: c_int) -> !;
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let answer = match texts.as_slice() {
        ["list", library] => open(library).map(|library| list(&library)),
        ["build", library, platform, device, file] => {
            open(library).and_then(|library| build(&library, platform, device, file))
        }
        _ => Err("list LIBRARY, or build LIBRARY PLATFORM DEVICE FILE".to_owned()),
    };
    let (text, status) = match answer {
        Ok(text) => (text, 0),
        Err(text) => (text, 1),
    };
    let mut out = std::io::stdout().lock();
    let written = write!(out, "{MARK}{text}").and_then(|()| out.flush());
    // Some drivers fail when they are unloaded; nobody needs that.
    // SAFETY: ends the process; everything is written.
    unsafe { _exit(if written.is_ok() { status } else { 1 }) }
}

/// A loaded OpenCL library.
struct Library(Handle);

fn open(name: &str) -> Result<Library, String> {
    let text = CString::new(name).map_err(|_| "the name of the library has a zero byte".to_owned())?;
    // SAFETY: loading runs the constructors of the library, which is what this process is for.
    let handle = unsafe { dlopen(text.as_ptr(), RTLD_NOW) };
    if handle.is_null() { Err(format!("{name} cannot be loaded")) } else { Ok(Library(handle)) }
}

impl Library {
    /// # Safety
    /// `T` is the type of the function of this name.
    unsafe fn function<T: Copy>(&self, name: &str) -> Result<T, String> {
        assert_eq!(size_of::<T>(), size_of::<Handle>());
        let text = CString::new(name).map_err(|_| name.to_owned())?;
        // SAFETY: a plain lookup in a library that stays loaded.
        let symbol = unsafe { dlsym(self.0, text.as_ptr()) };
        if symbol.is_null() {
            return Err(format!("the OpenCL library has no {name}"));
        }
        // SAFETY: a pointer to a function of this type, as the caller promises.
        Ok(unsafe { std::mem::transmute_copy::<Handle, T>(&symbol) })
    }

    /// The handles that a function lists; it is asked for their number first.
    fn handles(
        &self,
        none: c_int,
        ask: impl Fn(c_uint, *mut Handle, *mut c_uint) -> c_int,
    ) -> Result<Vec<Handle>, c_int> {
        let mut count = 0;
        match ask(0, std::ptr::null_mut(), &mut count) {
            0 => {}
            status if status == none => return Ok(Vec::new()),
            status => return Err(status),
        }
        let mut handles = vec![std::ptr::null_mut(); count as usize];
        match ask(count, handles.as_mut_ptr(), std::ptr::null_mut()) {
            0 => Ok(handles),
            status => Err(status),
        }
    }

    fn platforms(&self) -> Result<Vec<Handle>, String> {
        // SAFETY: the type of clGetPlatformIDs.
        let get: unsafe extern "C" fn(c_uint, *mut Handle, *mut c_uint) -> c_int =
            unsafe { self.function("clGetPlatformIDs") }?;
        // SAFETY: the list has as many places as it says.
        let platforms = self.handles(PLATFORM_NOT_FOUND_KHR, |count, list, found| unsafe { get(count, list, found) });
        platforms.map_err(|status| format!("clGetPlatformIDs failed ({status})"))
    }

    /// The devices of a platform; none of one that fails, the others still have theirs.
    fn devices(&self, platform: Handle) -> Result<Vec<Handle>, String> {
        // SAFETY: the type of clGetDeviceIDs.
        let get: unsafe extern "C" fn(Handle, u64, c_uint, *mut Handle, *mut c_uint) -> c_int =
            unsafe { self.function("clGetDeviceIDs") }?;
        // SAFETY: the platform is one of the library, and the list has as many places as it says.
        let devices = self.handles(DEVICE_NOT_FOUND, |count, list, found| unsafe {
            get(platform, DEVICE_TYPE_ALL, count, list, found)
        });
        Ok(devices.unwrap_or_default())
    }

    /// What the function `name` says about an object.
    fn info(&self, name: &str, object: Handle, what: c_uint) -> Result<Vec<u8>, String> {
        // SAFETY: clGetPlatformInfo and clGetDeviceInfo have this type.
        let get: Info = unsafe { self.function(name) }?;
        let mut size = 0;
        // SAFETY: the object is one of the library; it writes a size, then as many bytes.
        let mut status = unsafe { get(object, what, 0, std::ptr::null_mut(), &mut size) };
        let mut value = vec![0u8; size];
        if status == 0 && size > 0 {
            // SAFETY: as above.
            status = unsafe { get(object, what, size, value.as_mut_ptr().cast(), std::ptr::null_mut()) };
        }
        if status == 0 { Ok(value) } else { Err(format!("{name} failed ({status})")) }
    }

    fn text(&self, name: &str, object: Handle, what: c_uint) -> String {
        let value = self.info(name, object, what).unwrap_or_default();
        let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(value).trim().replace(['\t', '\n'], " ")
    }
}

fn list(library: &Library) -> String {
    let mut lines = String::new();
    for (number, platform) in library.platforms().unwrap_or_default().into_iter().enumerate() {
        let platform_name = library.text("clGetPlatformInfo", platform, PLATFORM_NAME);
        for (index, device) in library.devices(platform).unwrap_or_default().into_iter().enumerate() {
            let flag =
                |what| library.info("clGetDeviceInfo", device, what).is_ok_and(|value| value.iter().any(|b| *b != 0));
            if !flag(DEVICE_AVAILABLE) || !flag(DEVICE_COMPILER_AVAILABLE) {
                continue;
            }
            let text = |what| library.text("clGetDeviceInfo", device, what);
            let (name, driver, version) = (text(DEVICE_NAME), text(DRIVER_VERSION), text(DEVICE_VERSION));
            lines.push_str(&format!("{number}\t{index}\t{platform_name}\t{name}\t{driver}\t{version}\n"));
        }
    }
    lines
}

fn build(library: &Library, platform: &str, device: &str, file: &str) -> Result<String, String> {
    let code = std::fs::read(file).map_err(|error| format!("{file}: cannot be read: {error}"))?;
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("'{text}' is no number"));
    let gone = || "the device is no longer there".to_owned();
    let platform = *library.platforms()?.get(number(platform)?).ok_or_else(gone)?;
    let device = *library.devices(platform)?.get(number(device)?).ok_or_else(gone)?;
    type CreateContext = unsafe extern "C" fn(
        *const isize,
        c_uint,
        *const Handle,
        Option<unsafe extern "C" fn()>,
        Handle,
        *mut c_int,
    ) -> Handle;
    type CreateProgram = unsafe extern "C" fn(Handle, c_uint, *mut *const c_char, *const usize, *mut c_int) -> Handle;
    type BuildProgram = unsafe extern "C" fn(
        Handle,
        c_uint,
        *const Handle,
        *const c_char,
        Option<unsafe extern "C" fn()>,
        Handle,
    ) -> c_int;
    type BuildInfo = unsafe extern "C" fn(Handle, Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;
    // SAFETY: the types of the functions; all objects are the library's, texts and places live for the calls, and the options are
    // those of kernpack's runtime.
    unsafe {
        let create_context: CreateContext = library.function("clCreateContext")?;
        let create_program: CreateProgram = library.function("clCreateProgramWithSource")?;
        let build_program: BuildProgram = library.function("clBuildProgram")?;
        let build_info: BuildInfo = library.function("clGetProgramBuildInfo")?;
        let mut status = 0;
        let context = create_context(std::ptr::null(), 1, &device, None, std::ptr::null_mut(), &mut status);
        if status != 0 {
            return Ok(format!("clCreateContext failed ({status})\n"));
        }
        let (mut text, size) = (code.as_ptr().cast::<c_char>(), code.len());
        let program = create_program(context, 1, &mut text, &size, &mut status);
        if status != 0 {
            return Ok(format!("clCreateProgramWithSource failed ({status})\n"));
        }
        let built = build_program(program, 1, &device, c"".as_ptr(), None, std::ptr::null_mut());
        let mut size = 0;
        let mut log = Vec::new();
        if build_info(program, device, PROGRAM_BUILD_LOG, 0, std::ptr::null_mut(), &mut size) == 0 {
            log = vec![0u8; size];
            let _ = build_info(program, device, PROGRAM_BUILD_LOG, size, log.as_mut_ptr().cast(), std::ptr::null_mut());
        }
        let log = String::from_utf8_lossy(log.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
        Ok(match built {
            0 => format!("ok\n{log}"),
            status => format!("clBuildProgram failed ({status})\n{log}"),
        })
    }
}
