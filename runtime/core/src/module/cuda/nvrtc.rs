//! Compilation of CUDA C++ with NVRTC, NVIDIA's compiler as a library, found at run time through
//! cudarc.
//!
//! The library is searched by the dynamic linker and in `CUDA_HOME`, `CUDA_PATH` and
//! `/usr/local/cuda`; one that is already in the process (PyTorch loads it) is used. Headers come
//! from the toolkit that it belongs to. Calls go to the library directly, for the same reasons as
//! those to the driver.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use std::env;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cudarc::nvrtc::sys;
use cudarc::nvrtc::sys::nvrtcProgram;

use crate::embedded::dynamic_linker::{Scope, file_at, flags};
use crate::{Error, Result};

/// A status of NVRTC; 0 is success.
type Status = u32;

/// Library folders of CUDA toolkits, relative to the toolkit's folder.
const LIBRARY_FOLDERS: [&str; 3] = ["lib64", "lib", "targets/x86_64-linux/lib"];
/// Header folders of CUDA toolkits: their own, and since CUDA 13 those of C++ (`cuda/std/...`).
const HEADER_FOLDERS: [&str; 2] = ["include", "include/cccl"];

macro_rules! nvrtc_functions {
    ($($field:ident: $symbol:ident($($argument:ty),*);)*) => {
        /// NVRTC's functions.
        struct Nvrtc {
            $($field: unsafe extern "C" fn($($argument),*) -> Status,)*
            error_string: unsafe extern "C" fn(Status) -> *const c_char,
            /// Header folders.
            headers: Vec<PathBuf>,
        }

        $(const _: unsafe fn($($argument),*) -> sys::nvrtcResult = sys::$symbol;)*

        impl Nvrtc {
            /// Looks up every function.
            ///
            /// # Safety
            /// The library is present.
            #[inline]
            unsafe fn find() -> Result<Self> {
                // SAFETY: NVRTC defines these types for the names.
                unsafe {
                    Ok(Self {
                        $($field: symbol(stringify!($symbol))?,)*
                        error_string: symbol("nvrtcGetErrorString")?,
                        headers: header_folders(),
                    })
                }
            }
        }
    };
}

nvrtc_functions! {
    architecture_count: nvrtcGetNumSupportedArchs(*mut c_int);
    architectures: nvrtcGetSupportedArchs(*mut c_int);
    create: nvrtcCreateProgram(
        *mut nvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char);
    compile: nvrtcCompileProgram(nvrtcProgram, c_int, *const *const c_char);
    destroy: nvrtcDestroyProgram(*mut nvrtcProgram);
    log_size: nvrtcGetProgramLogSize(nvrtcProgram, *mut usize);
    log: nvrtcGetProgramLog(nvrtcProgram, *mut c_char);
    cubin_size: nvrtcGetCUBINSize(nvrtcProgram, *mut usize);
    cubin: nvrtcGetCUBIN(nvrtcProgram, *mut c_char);
    ptx_size: nvrtcGetPTXSize(nvrtcProgram, *mut usize);
    ptx: nvrtcGetPTX(nvrtcProgram, *mut c_char);
}

/// Looks up a function of NVRTC.
///
/// # Safety
/// The library is present, and `F` is the type of a pointer to the function `name`.
#[inline]
unsafe fn symbol<F: Copy>(name: &str) -> Result<F> {
    // SAFETY: promised by the caller.
    match unsafe { sys::culib().get::<F>(name.as_bytes()) } {
        Ok(function) => Ok(*function),
        Err(_) => Err(crate::error!(RuntimeError, "NVRTC lacks the function {name}; install CUDA 12 or newer")),
    }
}

/// A program of NVRTC, destroyed when dropped.
struct Program {
    nvrtc: &'static Nvrtc,
    handle: nvrtcProgram,
}

/// Compiles source code for an architecture, such as (9, 0): to a cubin, or to PTX (which ends with
/// NUL) if the device is newer than NVRTC.
///
/// # Errors
/// Returns a RuntimeError if NVRTC is missing, or the compiler's error.
#[inline]
pub(super) fn compile(source: &[u8], architecture: (i32, i32)) -> Result<Vec<u8>> {
    let nvrtc = Nvrtc::get()?;
    let source = CString::new(source).map_err(|_| Error::runtime_error("the CUDA source contains a NUL byte"))?;
    let (target, is_cubin) = nvrtc.target(architecture)?;
    let mut options = vec![c"-std=c++17".to_owned(), text(format!("-arch={target}"))?];
    for folder in &nvrtc.headers {
        options.push(text([b"-I".as_slice(), folder.as_os_str().as_bytes()].concat())?);
    }
    let program = Program::new(nvrtc, &source)?;
    let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the program is alive, and the options end with NUL.
    let status = unsafe { (nvrtc.compile)(program.handle, pointers.len() as c_int, pointers.as_ptr()) };
    if status != 0 {
        let log = program.output(nvrtc.log_size, nvrtc.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let log = log.trim_end_matches('\0').trim();
        let error = nvrtc.error(status, format_args!("the CUDA source cannot be compiled for {target}"));
        return Err(if log.is_empty() { error } else { crate::error!(RuntimeError, "{}:\n{log}", error.message()) });
    }
    if is_cubin { program.output(nvrtc.cubin_size, nvrtc.cubin) } else { program.output(nvrtc.ptx_size, nvrtc.ptx) }
}

#[inline]
fn text(bytes: impl Into<Vec<u8>>) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::runtime_error("an option of NVRTC contains a NUL byte"))
}

impl Nvrtc {
    /// Returns NVRTC, found once.
    #[inline]
    fn get() -> Result<&'static Self> {
        static NVRTC: OnceLock<Result<Nvrtc>> = OnceLock::new();
        NVRTC.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    #[cold]
    #[inline]
    fn load() -> Result<Self> {
        open_from_toolkit();
        // SAFETY: loading NVIDIA's library runs its constructors; once it is found it stays loaded.
        if !unsafe { sys::is_culib_present() } {
            return Err(crate::error!(
                RuntimeError,
                "the image is CUDA source, and NVRTC, which compiles it, was not found (libnvrtc.so); install the CUDA toolkit and set \
                 CUDA_HOME, or `pip install nvidia-cuda-nvrtc` and put its folder into LD_LIBRARY_PATH, or carry compiled code \
                 (fatbin)"
            ));
        }
        open_builtins();
        // SAFETY: it is present.
        unsafe { Self::find() }
    }

    /// Returns the architecture to compile for, and true if the output is a cubin.
    #[inline]
    fn target(&self, (major, minor): (i32, i32)) -> Result<(String, bool)> {
        let wanted = major * 10 + minor;
        let mut count = 0;
        // SAFETY: the result is writable.
        self.check(unsafe { (self.architecture_count)(&mut count) }, "its architectures cannot be counted")?;
        let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: there is room for the reported number of architectures.
        self.check(unsafe { (self.architectures)(known.as_mut_ptr()) }, "its architectures cannot be listed")?;
        if known.contains(&wanted) {
            // The code runs on this device only, so it may use features that only this architecture
            // has (`wgmma`, ...).
            let own = if major >= 9 { "a" } else { "" };
            return Ok((format!("sm_{wanted}{own}"), true));
        }
        match known.iter().filter(|architecture| **architecture < wanted).max() {
            Some(architecture) => Ok((format!("compute_{architecture}"), false)),
            None => Err(crate::error!(
                RuntimeError,
                "NVRTC has no code for sm_{wanted}, the device's architecture; install a version of it that has, or carry \
                 compiled code (fatbin)"
            )),
        }
    }

    #[inline]
    fn check(&self, status: Status, what: &str) -> Result<()> {
        if status == 0 { Ok(()) } else { Err(self.error(status, format_args!("NVRTC: {what}"))) }
    }

    #[cold]
    #[inline]
    fn error(&self, status: Status, what: core::fmt::Arguments<'_>) -> Error {
        // SAFETY: the function accepts any status; its strings live forever.
        let name = unsafe {
            let name = (self.error_string)(status);
            if name.is_null() { "an unknown error".into() } else { CStr::from_ptr(name).to_string_lossy() }
        };
        crate::error!(RuntimeError, "{what}: {name}")
    }
}

impl Program {
    #[inline]
    fn new(nvrtc: &'static Nvrtc, source: &CStr) -> Result<Self> {
        let mut handle = ptr::null_mut();
        // SAFETY: the result is writable, the strings end with NUL, and there are no headers.
        let status =
            unsafe { (nvrtc.create)(&mut handle, source.as_ptr(), c"image.cu".as_ptr(), 0, ptr::null(), ptr::null()) };
        nvrtc.check(status, "a program cannot be made")?;
        Ok(Self { nvrtc, handle })
    }

    /// Returns an output of the compilation: queries its size, then copies the bytes.
    #[inline]
    fn output(
        &self,
        size: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> Status,
        copy: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> Status,
    ) -> Result<Vec<u8>> {
        let mut len = 0;
        // SAFETY: the program is alive, and the result is writable.
        self.nvrtc.check(unsafe { size(self.handle, &mut len) }, "the size of its output cannot be read")?;
        let mut bytes = vec![0u8; len];
        // SAFETY: as above; there is room for the reported number of bytes.
        self.nvrtc.check(unsafe { copy(self.handle, bytes.as_mut_ptr().cast()) }, "its output cannot be read")?;
        Ok(bytes)
    }
}

impl Drop for Program {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `create` created it, and it is not used any more.
        unsafe { (self.nvrtc.destroy)(&mut self.handle) };
    }
}

/// Folders of CUDA toolkits.
#[inline]
fn toolkits() -> impl Iterator<Item = PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    named.chain([PathBuf::from("/usr/local/cuda")])
}

/// Opens the NVRTC of a toolkit, unless the process has one; cudarc then finds it by its name.
#[inline]
fn open_from_toolkit() {
    if [c"libnvrtc.so.13", c"libnvrtc.so.12"].into_iter().any(|name| Scope::loaded(name).is_some()) {
        return;
    }
    for toolkit in toolkits() {
        for folder in LIBRARY_FOLDERS {
            for name in ["libnvrtc.so.13", "libnvrtc.so.12"] {
                let path = toolkit.join(folder).join(name);
                let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { continue };
                // SAFETY: as in `load`.
                if unsafe { Scope::open(&path, flags::LAZY | flags::LOCAL) }.is_some() {
                    return;
                }
            }
        }
    }
}

/// Opens the library that NVRTC opens by its bare name when it compiles: it is in NVRTC's folder,
/// which the dynamic linker may not search.
#[inline]
fn open_builtins() {
    let Some(entries) = own_folder().and_then(|folder| folder.read_dir().ok()) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_one = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"libnvrtc-builtins.so."));
        if is_one && let Ok(path) = CString::new(path.as_os_str().as_bytes()) {
            // SAFETY: NVIDIA's library, which NVRTC itself loads if it finds it. If this fails,
            // NVRTC reports it.
            unsafe { Scope::open(&path, flags::LAZY | flags::LOCAL) };
        }
    }
}

/// Returns the folders with CUDA's headers: those of the toolkit that the library belongs to, then
/// those of the toolkits in the environment.
#[inline]
fn header_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for toolkit in own_toolkit().into_iter().chain(toolkits()) {
        if toolkit.join("include/cuda_fp16.h").is_file() {
            folders
                .extend(HEADER_FOLDERS.map(|folder| toolkit.join(folder)).into_iter().filter(|folder| folder.is_dir()));
            break;
        }
    }
    folders
}

/// The toolkit that the library belongs to.
#[inline]
fn own_toolkit() -> Option<PathBuf> {
    own_folder()?.parent().map(Path::to_owned)
}

/// The folder that the library is in.
#[inline]
fn own_folder() -> Option<PathBuf> {
    // SAFETY: the library is present; any of its symbols can be used.
    let address = unsafe { symbol::<*mut core::ffi::c_void>("nvrtcVersion") }.ok()?;
    let path = file_at(address)?;
    Some(Path::new(OsStr::from_bytes(path.to_bytes())).canonicalize().ok()?.parent()?.to_owned())
}
