//! The texts of the corpus, with our implementation and with the stock library: the results are the
//! same, errors included.

use core::ffi::CStr;
use std::ffi::CString;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use kernpack::sys::abi::{
    ApiTable, DLDataType, TVMFFIAny, TVMFFIByteArray, TVMFFIErrorCell, TVMFFIObjectHandle, type_index,
};
use kernpack::sys::embedded::{body, text_of};
use kernpack::{sys::embedded, sys::provider};
use kernpack_skip::skip;

/// Our errors in cases that crash the stock library: it follows a node that contains itself until
/// the stack overflows, and looks up the name of a kind that has none.
const STOCK_DIES: [&str; 2] = ["is a part of itself", "an access step of unknown kind"];

/// One of the two implementations.
struct Implementation<'a>(&'a ApiTable);

/// A value, or the text of an error.
type Outcome = Result<TVMFFIAny, String>;

const NONE: TVMFFIAny = TVMFFIAny::NONE;

// Values are not released: the values of each implementation are read by no other code, and the
// process ends soon.
impl Implementation<'_> {
    fn outcome(&self, status: i32, value: TVMFFIAny) -> Outcome {
        if status == 0 {
            return Ok(value);
        }
        let mut error: TVMFFIObjectHandle = core::ptr::null_mut();
        // SAFETY: a failed call has raised an error, whose cell both implementations lay out as the
        // ABI defines it.
        unsafe {
            (self.0.error_move_from_raised)(&mut error);
            let cell = body::<TVMFFIErrorCell>(error);
            Err(format!("{}: {}", lossy(bytes(&cell.kind)), lossy(bytes(&cell.message))))
        }
    }

    fn text(&self, text: &[u8]) -> TVMFFIAny {
        let mut value = NONE;
        let array = TVMFFIByteArray { data: text.as_ptr().cast(), size: text.len() };
        // SAFETY: both live for the call.
        assert_eq!(unsafe { (self.0.string_from_byte_array)(&array, &mut value) }, 0);
        value
    }

    fn call(&self, name: &str, arguments: &[TVMFFIAny]) -> Outcome {
        let array = TVMFFIByteArray { data: name.as_ptr().cast(), size: name.len() };
        let (mut function, mut result) = (core::ptr::null_mut(), NONE);
        // SAFETY: everything lives for the calls; the arguments are values of this implementation.
        unsafe {
            assert_eq!((self.0.function_get_global)(&array, &mut function), 0);
            assert!(!function.is_null(), "{name} is missing");
            let status =
                (self.0.function_call)(function, arguments.as_ptr().cast_mut(), arguments.len() as i32, &mut result);
            self.outcome(status, result)
        }
    }

    fn dtype(&self, input: &[u8]) -> String {
        let mut dtype = DLDataType { code: 0, bits: 0, lanes: 0 };
        if let [0, code, bits, low, high] = *input {
            dtype = DLDataType { code, bits, lanes: u16::from_le_bytes([low, high]) };
        } else {
            let array = TVMFFIByteArray { data: input.as_ptr().cast(), size: input.len() };
            // SAFETY: both live for the call.
            let status = unsafe { (self.0.data_type_from_string)(&array, &mut dtype) };
            if let Err(error) = self.outcome(status, NONE) {
                return error;
            }
        }
        let mut written = NONE;
        // SAFETY: both live for the call.
        let status = unsafe { (self.0.data_type_to_string)(&dtype, &mut written) };
        format!("{dtype:?} {}", shown(&self.outcome(status, written)))
    }

    fn json(&self, input: &[u8]) -> String {
        let value = match self.call("ffi.json.Parse", &[self.text(input)]) {
            Ok(value) => value,
            Err(error) => return error,
        };
        let indent = TVMFFIAny::int(2);
        let mut said = String::new();
        for outcome in [
            self.call("ffi.json.Stringify", &[value, NONE]),
            self.call("ffi.json.Stringify", &[value, indent]),
            self.call("ffi.ReprPrint", &[value]),
            self.call("ffi.RecursiveHash", &[value]),
            self.call("ffi.StructuralHash", &[value, TVMFFIAny::bool(false), TVMFFIAny::bool(false)]),
        ] {
            let _ = writeln!(said, "{}", shown(&outcome));
        }
        said
    }

    fn json_graph(&self, input: &[u8]) -> String {
        let value = match self.call("ffi.FromJSONGraphString", &[self.text(input)]) {
            Ok(value) => value,
            Err(error) => return error,
        };
        let mut said = String::new();
        for outcome in [
            self.call("ffi.ToJSONGraphString", &[value, NONE]),
            self.call("ffi.ReprPrint", &[value]),
            self.call("ffi.RecursiveHash", &[value]),
            self.call("ffi.StructuralHash", &[value, TVMFFIAny::bool(true), TVMFFIAny::bool(false)]),
            self.call("ffi.DeepCopy", &[value]).and_then(|copy| self.call("ffi.ToJSONGraphString", &[copy, NONE])),
        ] {
            let _ = writeln!(said, "{}", shown(&outcome));
        }
        said
    }
}

/// The text or the number, or the error.
fn shown(outcome: &Outcome) -> String {
    match outcome {
        Ok(value) if value.type_index == type_index::INT => value.bits().cast_signed().to_string(),
        // SAFETY: the value is a text, which stays alive.
        Ok(value) => lossy(unsafe { text_of(value) }.expect("a text")),
        Err(error) => error.clone(),
    }
}

fn lossy(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// # Safety
/// The array is valid.
unsafe fn bytes<'a>(array: &TVMFFIByteArray) -> &'a [u8] {
    // SAFETY: promised by the caller.
    unsafe { core::slice::from_raw_parts(array.data.cast(), array.size) }
}

/// The stock library's functions, from the library in `KERNPACK_TVM_FFI_LIB`.
fn stock() -> Option<ApiTable> {
    // Our implementation serves this process, regardless of libraries that are loaded later.
    provider::serve_embedded();
    let Some(folder) = std::env::var_os("KERNPACK_TVM_FFI_LIB") else {
        skip("set KERNPACK_TVM_FFI_LIB to the folder of the stock libtvm_ffi.so");
        return None;
    };
    let path = CString::new(Path::new(&folder).join("libtvm_ffi.so").into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: loading the stock library runs its constructors; its symbols are the functions of the
    // ABI.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!library.is_null(), "{}", path.to_string_lossy());
        Some(ApiTable::from_symbols(|name: &CStr| libc::dlsym(library, name.as_ptr())).unwrap())
    }
}

/// Compares every input of a target that both implementations accept.
fn compare(target: &str, run: fn(&Implementation<'_>, &[u8]) -> String) {
    let Some(stock) = stock() else { return };
    let (ours, stock) = (Implementation(embedded::table()), Implementation(&stock));
    let mut compared = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)).unwrap() {
        let path = entry.unwrap().path();
        let input = fs::read(&path).unwrap();
        let said = run(&ours, &input);
        // For other bytes in base64, the stock library reads beyond its table.
        let is_odd_base64 = !input.is_ascii() && input.windows(9).any(|window| window == b"ffi.Bytes");
        if STOCK_DIES.iter().any(|text| said.contains(text)) || is_odd_base64 {
            continue;
        }
        assert_eq!(said, run(&stock, &input), "{}", path.display());
        compared += 1;
    }
    assert!(compared >= 20, "only {compared} inputs were compared");
}

#[test]
fn json() {
    compare("json", |implementation, input| implementation.json(input));
}

#[test]
fn json_graph() {
    compare("json_graph", |implementation, input| implementation.json_graph(input));
}

#[test]
fn dtype() {
    compare("dtype", |implementation, input| implementation.dtype(input));
}
