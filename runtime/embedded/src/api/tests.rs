//! Tests of the results that C callers get for wrong arguments, failures and panics.

use core::ptr::{null, null_mut};

use super::guard::status;
use super::table;
use crate::abi::{TVMFFIByteArray, TVMFFIErrorCell};
use crate::cells::failure::Failure;
use crate::cells::{body, dec_ref, new_string_object};
use crate::tables::raised;

fn raised_error() -> (String, String, String) {
    let error = raised::take_raised();
    assert!(!error.is_null());
    // SAFETY: the reference is ours.
    unsafe {
        let cell = body::<TVMFFIErrorCell>(error);
        let text = |array: TVMFFIByteArray| String::from_utf8(array.as_slice().to_vec()).unwrap();
        let texts = (text(cell.kind), text(cell.message), text(cell.backtrace));
        dec_ref(error);
        texts
    }
}

#[test]
fn failures_and_panics_are_raised() {
    assert_eq!(status("TVMFFITest", || Err(Failure::value("bad"))), -1);
    let (kind, message, backtrace) = raised_error();
    assert_eq!((kind.as_str(), message.as_str()), ("ValueError", "bad"));
    let first = backtrace.lines().next().unwrap_or_default();
    assert!(first.contains("tests.rs\", line ") && first.ends_with(", in TVMFFITest"), "{backtrace}");
    assert_eq!(status("TVMFFITest", || panic!("no {}", 7)), -1);
    let (kind, message, _) = raised_error();
    assert_eq!((kind.as_str(), message.as_str()), ("InternalError", "TVMFFITest panicked: no 7"));
}

#[test]
fn null_arguments_are_reported() {
    let api = table();
    // SAFETY: the test checks NULL.
    unsafe {
        assert_eq!((api.object_inc_ref)(null_mut()) + (api.object_dec_ref)(null_mut()), 0);
        assert_eq!((api.function_get_global)(null(), null_mut()), -1);
        assert_eq!(raised_error().1, "the argument `out` is NULL");
        assert_eq!((api.function_call)(null_mut(), null_mut(), 0, null_mut()), -1);
        assert_eq!(raised_error().1, "the argument `func` is NULL");
        assert_eq!((api.env_register_c_api)(null(), null_mut()), -1);
        assert_eq!(raised_error().1, "the argument `name` is NULL");
        let mut out = null_mut();
        assert_eq!((api.tensor_from_dlpack)(null_mut(), 0, 0, &raw mut out), -1);
        assert_eq!(raised_error().1, "FromDLPack: the tensor is NULL");
        assert!((api.get_type_info)(1 << 20).is_null());
        assert!(raised_error().1.contains("type_index=1048576"));
        assert_eq!((api.type_get_or_alloc_index)(null(), -1, 1, 0, 1, 64), -1);
        assert_eq!(raised_error().1, "the argument `type_key` is NULL");
        (api.error_set_raised_from_c_str)(c"KeyError".as_ptr(), c"k".as_ptr());
        assert_eq!(raised_error().1, "k");
        let parts = [c"a ".as_ptr(), null_mut(), c"b".as_ptr()];
        (api.error_set_raised_from_c_str_parts)(c"KeyError".as_ptr(), parts.as_ptr(), 3);
        let (kind, message, _) = raised_error();
        assert_eq!((kind.as_str(), message.as_str()), ("KeyError", "a b"));
        let (mut error, text) = (null_mut(), TVMFFIByteArray::new(b"text"));
        assert_eq!((api.error_create)(&raw const text, &raw const text, null(), &raw mut error), 0);
        (api.error_set_raised)(error);
        dec_ref(error);
        assert_eq!(raised_error().0, "text");
    }
}

#[test]
fn wrong_object_types_are_reported() {
    let api = table();
    let string = new_string_object(b"no tensor");
    let mut out = null_mut();
    // SAFETY: the object is alive.
    unsafe {
        assert_eq!((api.tensor_to_dlpack)(string, &raw mut out), -1);
        assert_eq!(raised_error().1, "the argument `from` must be an object of type index 70, not 65");
        dec_ref(string);
    }
}
