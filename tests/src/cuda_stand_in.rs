//! The stand-in for the CUDA driver: `c/fake_libcuda.c`, compiled and loaded, so that the runtime
//! finds it in place of a real one.

use std::ffi::{CStr, CString, c_char, c_long, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The stand-in of this process.
pub struct StandIn {
    take_log: unsafe extern "C" fn() -> *mut c_char,
    free_log: unsafe extern "C" fn(*mut c_char),
    live: unsafe extern "C" fn(i32) -> c_long,
    fail: unsafe extern "C" fn(*const c_char, u32),
    alone: Mutex<()>,
}

/// Exclusive access of a test to the stand-in, whose log is shared.
pub struct Session<'a> {
    stand_in: &'a StandIn,
    _alone: MutexGuard<'a, ()>,
}

/// The objects that the stand-in counts.
#[derive(Clone, Copy)]
pub enum Live {
    /// Loaded modules.
    Modules = 0,
    /// Streams.
    Streams = 1,
    /// Events.
    Events = 2,
    /// Blocks of memory.
    Blocks = 3,
}

/// Compiles the stand-in into `folder`, with a file name that contains the process id.
pub fn compile(folder: &str, name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/fake_libcuda.c");
    let library = Path::new(folder).join(format!("{name}-{}.so", std::process::id()));
    // cudarc looks for this name first, and finds the library that is loaded under it.
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-Wl,-soname,libcuda.so"])
        .args(flags)
        .arg("-o")
        .arg(&library)
        .arg(&source)
        .status()
        .expect("a C compiler named cc is needed");
    assert!(status.success());
    library
}

/// Loads a library for the rest of the process.
pub fn open(library: &Path) -> *mut c_void {
    let path = CString::new(library.to_str().expect("a path in UTF-8")).expect("a path without NUL");
    // SAFETY: the library has no constructors, or the caller trusts it.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "{}", library.display());
    handle
}

impl StandIn {
    /// The stand-in, compiled into `folder` and loaded once; the file is removed.
    pub fn load(folder: &str) -> &'static Self {
        static STAND_IN: OnceLock<StandIn> = OnceLock::new();
        STAND_IN.get_or_init(|| {
            let library = compile(folder, "libcuda_stand_in", &[]);
            let handle = open(&library);
            let _ = std::fs::remove_file(library);
            let symbol = |name: &CStr| {
                // SAFETY: a plain lookup.
                let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
                assert!(!symbol.is_null(), "{name:?}");
                symbol
            };
            // SAFETY: the stand-in defines the functions with these types.
            unsafe {
                Self {
                    take_log: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut c_char>(symbol(
                        c"fake_cuda_take_log",
                    )),
                    free_log: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_char)>(symbol(
                        c"fake_cuda_free_log",
                    )),
                    live: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(i32) -> c_long>(symbol(
                        c"fake_cuda_live",
                    )),
                    fail: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char, u32)>(symbol(
                        c"fake_cuda_fail",
                    )),
                    alone: Mutex::new(()),
                }
            }
        })
    }

    /// Waits until no other test uses the stand-in, and clears the log.
    pub fn session(&'static self) -> Session<'static> {
        let alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let session = Session { stand_in: self, _alone: alone };
        session.log();
        session
    }
}

impl Session<'_> {
    /// The calls since the last call of this function.
    pub fn log(&self) -> String {
        // SAFETY: the log is a C string, which is ours until it is freed.
        unsafe {
            let text = (self.stand_in.take_log)();
            let log = CStr::from_ptr(text).to_str().expect("a log in UTF-8").to_owned();
            (self.stand_in.free_log)(text);
            log
        }
    }

    /// The number of live objects of a kind.
    pub fn live(&self, what: Live) -> i64 {
        // SAFETY: this is one of the stand-in's counters.
        unsafe { (self.stand_in.live)(what as i32) }
    }

    /// Makes the next call of a function of the driver return `status` without any effect.
    pub fn fail(&self, function: &CStr, status: u32) {
        // SAFETY: the name is copied.
        unsafe { (self.stand_in.fail)(function.as_ptr(), status) }
    }
}
