//! Data types as text: `TVMFFIDataTypeFromString` and `TVMFFIDataTypeToString`.

use std::sync::Once;

use kernpack::abi::{DLDataType, TVMFFIAny, TVMFFIByteArray};
use kernpack::{Any, Function, Result, bail, host};

use crate::call::{bytes_of, check_status};

/// Four bytes behind a zero are a data type, everything else is a text. What can be read can be written, and the other way round.
pub fn check(input: &[u8]) {
    define_custom_types();
    match *input {
        [0, code, bits, low, high] => {
            let dtype = DLDataType { code, bits, lanes: u16::from_le_bytes([low, high]) };
            let Ok(written) = write(dtype) else { return };
            // Some types have a text that stands for a simpler one, which has the same text then.
            if let Ok(read) = read(bytes_of(&written)) {
                assert!(bytes_of(&write(read).expect("a text that was read")) == bytes_of(&written));
            }
        }
        _ => {
            let Ok(dtype) = read(input) else { return };
            let written = write(dtype).expect("what was read can be written");
            let again = read(bytes_of(&written)).expect("what was written can be read");
            assert_eq!(again, dtype, "{}", String::from_utf8_lossy(bytes_of(&written)));
        }
    }
}

/// A frontend's types: `custom[name]`, whose code follows from the name's length.
fn define_custom_types() {
    static DEFINED: Once = Once::new();
    DEFINED.call_once(|| {
        let code = Function::from_fn(|name: String| -> Result<i64> {
            match name.len() {
                len @ 0..=100 => Ok(150 + len as i64),
                _ => bail!(ValueError, "no type has so long a name"),
            }
        });
        let name = Function::from_fn(|code: i64| "n".repeat((code - 150).clamp(0, 100) as usize));
        Function::register_global("dtype.get_custom_type_code", &code).expect("the name is free");
        Function::register_global("dtype.get_custom_type_name", &name).expect("the name is free");
    });
}

fn read(text: &[u8]) -> Result<DLDataType> {
    let text = TVMFFIByteArray { data: text.as_ptr().cast(), size: text.len() };
    let mut dtype = DLDataType { code: 0, bits: 0, lanes: 0 };
    // SAFETY: both live for the call.
    let status = unsafe { (host::api().data_type_from_string)(&text, &mut dtype) };
    check_status("TVMFFIDataTypeFromString", status).map(|()| dtype)
}

fn write(dtype: DLDataType) -> Result<Any> {
    let mut text = TVMFFIAny::NONE;
    // SAFETY: both live for the call.
    let status = unsafe { (host::api().data_type_to_string)(&dtype, &mut text) };
    // SAFETY: nothing, or a text that is ours.
    check_status("TVMFFIDataTypeToString", status).map(|()| unsafe { Any::from_raw(text) })
}
