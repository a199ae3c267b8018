//! Checks that loading a library creates no error value and takes no backtrace, which would be
//! expensive where a negative result is expected, such as for a type key that is not registered
//! yet.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use core::ffi::{c_char, c_int, c_void};

use kernpack::sys::abi::{
    ApiTable, DLDataType, DLManagedTensor, DLManagedTensorVersioned, DLPackManagedTensorAllocator, DLTensor, SafeCall,
    TVMFFIAny, TVMFFIByteArray, TVMFFIFieldInfo, TVMFFIMethodInfo, TVMFFIObjectHandle, TVMFFIStreamHandle,
    TVMFFITypeAttrColumn, TVMFFITypeInfo, TVMFFITypeMetadata, TVMFFIVersion, for_each_function,
};
use kernpack::{ObjRef, Object};
use kernpack_tests::stock;

/// A type that this program registers.
#[derive(Object)]
#[object(key = "quiet_load.Thing")]
#[repr(C)]
pub struct Thing {
    #[field(default = 3)]
    pub count: i64,
}

/// The C functions that failed, or that make or raise errors.
static FAILED: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// The result of a C function.
trait Outcome {
    fn is_failure(&self) -> bool {
        false
    }
}

impl Outcome for c_int {
    fn is_failure(&self) -> bool {
        *self == -1
    }
}

impl Outcome for () {}
impl<T> Outcome for *const T {}
impl<T> Outcome for *mut T {}
impl<T> Outcome for Option<T> {}

/// Functions that call our own implementation, and record failures.
macro_rules! watched {
    (
        required { $($(#[doc = $doc:literal])+ $name:ident : $field:ident ( $($arg:ident : $type:ty),* ) $(-> $ret:ty)?;)* }
        optional { $($rest:tt)* }
    ) => {
        $(
            unsafe extern "C" fn $field($($arg: $type),*) $(-> $ret)? {
                // SAFETY: the caller's promises are those that the function requires.
                let outcome = unsafe { (kernpack::sys::embedded::table().$field)($($arg),*) };
                let name = stringify!($name);
                #[allow(clippy::unit_arg, reason = "some functions return nothing")]
                if outcome.is_failure() || name.starts_with("TVMFFIError") || name == "TVMFFIBacktrace" {
                    FAILED.lock().unwrap().push(name);
                }
                outcome
            }
        )*
        fn watched_table() -> ApiTable {
            ApiTable { $($field,)* ..*kernpack::sys::embedded::table() }
        }
    };
}
for_each_function!(watched);

unsafe extern "C" {
    /// Passes the table of a host to a library; this program has this function, too.
    fn __kernpack_api_v1(table: *const ApiTable) -> *const ApiTable;
}

#[test]
fn no_function_of_the_host_fails() {
    let table = Box::leak(Box::new(watched_table()));
    // SAFETY: the table lives forever. No other code in this program has used the runtime.
    assert_eq!(unsafe { __kernpack_api_v1(table) }, &raw const *table, "{:?}", kernpack::load_problems());
    let thing = ObjRef::new(Thing { count: 4 });
    assert_eq!(thing.count, 4);
    let library = std::env::current_exe().unwrap().with_file_name("libobjects.so");
    let library = std::ffi::CString::new(library.into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: the library is one of ours, whose handshake has this type, and it is never unloaded.
    unsafe {
        let library = libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!library.is_null());
        let join = libc::dlsym(library, c"__kernpack_api_v1".as_ptr());
        let join: unsafe extern "C" fn(*const ApiTable) -> *const ApiTable = core::mem::transmute(join);
        assert_eq!(join(table), &raw const *table);
    }
    assert_eq!(*FAILED.lock().unwrap(), [""; 0]);
    // Failures are detected.
    assert!(kernpack::reflect::TypeInfo::by_key(b"quiet_load.Unknown").is_err());
    assert!(FAILED.lock().unwrap().contains(&"TVMFFITypeKeyToIndex"));
}

/// Counts the backtraces that the stock library takes: it is preloaded, so that the library's own
/// calls are counted as well.
const COUNTER: &str = r#"
#include <dlfcn.h>
#include <stddef.h>

int kernpack_test_backtraces;

const void *TVMFFIBacktrace(const char *file, int line, const char *function, int cross) {
  static const struct { const char *data; size_t size; } none = { "", 0 };
  kernpack_test_backtraces++;
  return &none;
}
"#;

/// Loads a library, and queries an unknown type, to check that backtraces are counted.
const LOAD: &str = r#"
import ctypes, sys, tvm_ffi
counter = ctypes.c_int.in_dll(ctypes.CDLL(None), "kernpack_test_backtraces")
before = counter.value
tvm_ffi.load_module(sys.argv[1])
loaded = counter.value
key, index = ctypes.create_string_buffer(b"quiet_load.Unknown"), ctypes.c_int()
class ByteArray(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]
array = ByteArray(ctypes.addressof(key), len(key.value))
stock = ctypes.CDLL(sys.argv[2])
assert stock.TVMFFITypeKeyToIndex(ctypes.byref(array), ctypes.byref(index)) == -1
print(loaded - before, counter.value > loaded)
"#;

#[test]
fn the_stock_library_takes_no_backtrace() {
    let Some(python) = stock::stock_python() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, counter) = (folder.join("count_backtraces.c"), folder.join("count_backtraces.so"));
    std::fs::write(&source, COUNTER).unwrap();
    let status = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&counter).arg(&source).status();
    assert!(status.expect("a C compiler named cc is needed").success());
    let find = "import tvm_ffi.libinfo as info; print(info.find_libtvm_ffi())";
    let found = Command::new(&python).args(["-c", find]).output().unwrap();
    let stock = String::from_utf8(found.stdout).unwrap();
    let library = std::env::current_exe().unwrap().with_file_name("libobjects.so");
    let output = Command::new(&python)
        .args(["-c", LOAD])
        .arg(library)
        .arg(stock.trim())
        .env("LD_PRELOAD", &counter)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "0 True", "{}", String::from_utf8_lossy(&output.stderr));
}
