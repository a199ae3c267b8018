//! The C++ half: `tests/c/containers.cc`, compiled against the headers and linked with our library.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use kernpack::sys::abi::{ApiTable, TVMFFIAny, TVMFFIErrorCell, TVMFFIObjectHandle};
use kernpack::sys::embedded::{self, dec_ref};

use super::operation::RawOperation;
use kernpack_tests::symbols::{functions, open, symbol};
use kernpack_tests::{headers, library};

type Handle = TVMFFIObjectHandle;

functions! {
    /// The functions of containers.cc.
    struct Containers {
        fn ArrayChange(array: *mut Handle, operation: *const RawOperation) -> c_int;
        fn ListChange(list: Handle, operation: *const RawOperation) -> c_int;
        fn SeqSize(seq: Handle) -> i64;
        fn SeqCapacity(seq: Handle) -> i64;
        fn SeqGet(seq: Handle, index: i64, out: *mut TVMFFIAny) -> c_int;
        fn SeqElements(seq: Handle, out: *mut TVMFFIAny);
        fn NewArray(values: *const TVMFFIAny, count: i64) -> Handle;
        fn NewList(values: *const TVMFFIAny, count: i64) -> Handle;
        fn NewMap(values: *const TVMFFIAny, count: i64) -> Handle;
        fn NewDict(values: *const TVMFFIAny, count: i64) -> Handle;
        fn MapSet(map: *mut Handle, key: *const TVMFFIAny, value: *const TVMFFIAny);
        fn MapErase(map: *mut Handle, key: *const TVMFFIAny);
        fn MapClear(map: *mut Handle);
        fn DictSet(dict: Handle, key: *const TVMFFIAny, value: *const TVMFFIAny);
        fn DictErase(dict: Handle, key: *const TVMFFIAny);
        fn DictClear(dict: Handle);
        fn MapAt(map: Handle, key: *const TVMFFIAny, out: *mut TVMFFIAny) -> c_int;
        fn MapCount(map: Handle, key: *const TVMFFIAny) -> i64;
        fn MapSize(map: Handle) -> i64;
        fn MapEntries(map: Handle, out: *mut TVMFFIAny);
        fn MapKeysBackwards(map: Handle, out: *mut TVMFFIAny);
        fn MapCopy(map: Handle) -> Handle;
        fn DictCopy(dict: Handle) -> Handle;
        fn Hash(value: *const TVMFFIAny) -> u64;
        fn Equal(left: *const TVMFFIAny, right: *const TVMFFIAny) -> c_int;
        fn CompareStrings(left: *const TVMFFIAny, right: *const TVMFFIAny) -> c_int;
        fn JoinStrings(left: *const TVMFFIAny, right: *const TVMFFIAny, out: *mut TVMFFIAny);
        fn AddIntegers(left: *const TVMFFIAny, right: *const TVMFFIAny, out: *mut TVMFFIAny);
        fn CompareIntegers(left: *const TVMFFIAny, right: *const TVMFFIAny) -> c_int;
        fn NewWeak(object: Handle) -> *mut c_void;
        fn WeakLock(weak: *const c_void) -> Handle;
        fn DropWeak(weak: *mut c_void);
    }
}

static TABLE: OnceLock<ApiTable> = OnceLock::new();

/// The C++ functions. Without headers, prints a line with the reason and returns `None`. The cells
/// of this process use the tables of libtvm_ffi.so from then on, as C++ does.
pub(crate) fn containers() -> Option<&'static Containers> {
    static CONTAINERS: OnceLock<Option<Containers>> = OnceLock::new();
    let containers = CONTAINERS.get_or_init(|| {
        let include_dirs = headers::include_dirs_or_skip()?;
        let output = headers::scratch_dir("layouts").join("libcontainers.so");
        library::compile_cpp("containers.cc", &output, &include_dirs, &["-shared", "-fPIC"]);
        let ffi = open(library::library());
        // SAFETY: the library exports each function of the ABI under its name.
        let table = unsafe { ApiTable::from_symbols(|name| symbol(ffi, name.to_str().unwrap())) }.unwrap();
        embedded::serving::set_serving(TABLE.get_or_init(|| table));
        Some(Containers::load(open(&output)))
    });
    containers.as_ref()
}

/// The error that C++ code raised: its kind and its message.
pub(crate) fn raised() -> (String, String) {
    let mut error = null_mut();
    // SAFETY: the table was loaded before any C++ code ran; we own the reference.
    unsafe {
        (TABLE.get().unwrap().error_move_from_raised)(&mut error);
        assert!(!error.is_null(), "no error is raised");
        let cell = embedded::body::<TVMFFIErrorCell>(error);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let texts = (text(cell.kind.as_slice()), text(cell.message.as_slice()));
        dec_ref(error);
        texts
    }
}
