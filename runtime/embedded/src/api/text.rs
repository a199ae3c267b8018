//! Strings and bytes, and values that are written as text or bytes: data types, big integers.

use core::ffi::c_int;

use super::guard::{plain_status, write_to};
use super::parameters::{checked, writable};
use crate::abi::{DLDataType, TVMFFIAny, TVMFFIByteArray, type_index};
use crate::cells::release::bytes_at;
use crate::cells::{big_int, dtype, new_bytes, new_string};

// SAFETY of all functions: the callers follow the C header, see the module above.

pub(super) unsafe extern "C" fn string_from_byte_array(input: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int {
    // SAFETY: see above.
    write_to("TVMFFIStringFromByteArray", out, || unsafe { Ok(new_string(bytes_at(input, "input")?)) })
}

pub(super) unsafe extern "C" fn bytes_from_byte_array(input: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int {
    // SAFETY: see above.
    write_to("TVMFFIBytesFromByteArray", out, || unsafe { Ok(new_bytes(bytes_at(input, "input")?)) })
}

pub(super) unsafe extern "C" fn data_type_from_string(text: *const TVMFFIByteArray, out: *mut DLDataType) -> c_int {
    // SAFETY: see above.
    write_to("TVMFFIDataTypeFromString", out, || unsafe { dtype::parse(bytes_at(text, "str")?) })
}

pub(super) unsafe extern "C" fn data_type_to_string(dtype: *const DLDataType, out: *mut TVMFFIAny) -> c_int {
    // The string is an object even if it is short, as callers of the stock library expect.
    // SAFETY: see above.
    write_to("TVMFFIDataTypeToString", out, || unsafe {
        let text = dtype::new_text_object(*checked(dtype, "dtype")?)?;
        Ok(TVMFFIAny::pointer(type_index::STR, text.cast()))
    })
}

pub(super) unsafe extern "C" fn big_int_from_byte_array(input: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe {
            out.write(TVMFFIAny::NONE);
            out.write(big_int::from_words(bytes_at(input, "input")?)?);
        }
        Ok(())
    };
    plain_status("TVMFFIBigIntFromByteArray", run())
}

pub(super) unsafe extern "C" fn big_int_get_content_byte_array(value: *const TVMFFIAny) -> TVMFFIByteArray {
    // SAFETY: see above.
    unsafe { big_int::content(value) }
}
