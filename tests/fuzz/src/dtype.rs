//! Data types as text: `TVMFFIDataTypeFromString` and `TVMFFIDataTypeToString`.

use std::sync::Once;

use kernpack::sys::abi::{DLDataType, TVMFFIAny, TVMFFIByteArray, dtype_code};
use kernpack::{Any, Function, Result, bail, sys::provider};

use crate::call::{bytes_of, check_status};

/// Four bytes after a zero are a data type, everything else is a text. A type that can be read can
/// be written, and vice versa.
pub fn check(input: &[u8]) {
    define_custom_types();
    match *input {
        [0, code, bits, low, high] => {
            let dtype = DLDataType { code, bits, lanes: u16::from_le_bytes([low, high]) };
            if let Ok(written) = write(dtype)
                && let Ok(read) = read(bytes_of(&written))
            {
                check_written(read);
            }
        }
        _ => {
            if let Ok(dtype) = read(input) {
                check_written(dtype);
            }
        }
    }
}

/// Checks that a type that was read can be written, and that the text is read back unchanged.
///
/// As in the stock library, floats of 8 and fewer bits are read with a count of lanes only, though
/// one of more than 32767 is written as a multiple of the vector length.
fn check_written(dtype: DLDataType) {
    let written = write(dtype).expect("what was read can be written");
    let small_float = (dtype_code::FLOAT8_E3M4..CUSTOM_BEGIN).contains(&dtype.code);
    if small_float && (dtype.lanes as i16) < -1 {
        read(bytes_of(&written)).expect_err("floats of 8 and fewer bits have no scalable vectors");
        return;
    }
    let again = read(bytes_of(&written)).expect("what was written can be read");
    assert_eq!(again, as_written(dtype), "{}", String::from_utf8_lossy(bytes_of(&written)));
}

/// The type that the text of a type expresses: custom types have no bits, handles neither bits nor
/// lanes, and fewer than two lanes are one.
fn as_written(dtype: DLDataType) -> DLDataType {
    let DLDataType { code, bits, lanes } = dtype;
    let one_lane = matches!(lanes as i16, -1..=1);
    let lanes = if one_lane { 1 } else { lanes };
    match code {
        dtype_code::OPAQUE_HANDLE if (bits, dtype.lanes) == (0, 0) => dtype,
        dtype_code::OPAQUE_HANDLE => DLDataType { code, bits: 64, lanes: 1 },
        CUSTOM_BEGIN.. => DLDataType { code, bits: 32, lanes },
        _ => DLDataType { code, bits, lanes },
    }
}

/// The first code for custom types.
const CUSTOM_BEGIN: u8 = 129;

/// Registers custom types of a frontend: `custom[name]`, whose code follows from the name's length.
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
    let status = unsafe { (provider::api().data_type_from_string)(&text, &mut dtype) };
    check_status("TVMFFIDataTypeFromString", status).map(|()| dtype)
}

fn write(dtype: DLDataType) -> Result<Any> {
    let mut text = TVMFFIAny::NONE;
    // SAFETY: both live for the call.
    let status = unsafe { (provider::api().data_type_to_string)(&dtype, &mut text) };
    // SAFETY: null, or a text that we own.
    check_status("TVMFFIDataTypeToString", status).map(|()| unsafe { Any::from_raw(text) })
}
