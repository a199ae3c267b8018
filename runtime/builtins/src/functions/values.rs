//! Functions of single values: shapes, strings, bytes, functions, markers; and of the registrations
//! of a name.

use core::ffi::c_void;
use std::sync::OnceLock;

use crate::abi::{SafeCall, type_index};
use crate::definition::function::{Arguments, Builtin};
use crate::definition::signature::{ARRAY_OF_STRINGS, BYTES, FUNCTION, OBJECT, POINTER, STRING, Signature};
use crate::embedded::{self, function_table, seq, shape, type_table};
use crate::value::Any;
use crate::{Function, Result, error};

#[cfg(feature = "all")]
pub(crate) const BUILTINS: &[Builtin] = &[
    Builtin { name: "ffi.Shape", signature: Signature::Packed, run: new_shape },
    Builtin { name: "ffi.String", signature: Signature::Typed(&[&STRING], &STRING), run: |args| args.owned(0) },
    Builtin { name: "ffi.Bytes", signature: Signature::Typed(&[&BYTES], &BYTES), run: |args| args.owned(0) },
    Builtin {
        name: "ffi.FunctionFromExternC",
        signature: Signature::Typed(&[&POINTER, &POINTER, &POINTER], &FUNCTION),
        run: function_from_extern_c,
    },
    Builtin { name: "ffi.GetGlobalFuncMetadata", signature: Signature::Typed(&[&STRING], &STRING), run: metadata },
    Builtin {
        name: "ffi.GetRegisteredTypeKeys",
        signature: Signature::Typed(&[], &ARRAY_OF_STRINGS),
        run: |_| {
            let keys = type_table::type_keys().into_iter().map(embedded::new_string).collect();
            // SAFETY: a new object; its only reference is transferred to the value.
            Ok(unsafe { Any::from_object(seq::new_array(keys)) })
        },
    },
];

/// The functions that calls of constructors need: every provider has them.
pub(crate) const MARKERS: &[Builtin] = &[
    Builtin { name: "ffi.GetInvalidObject", signature: Signature::Typed(&[], &OBJECT), run: |_| Ok(own_missing()) },
    Builtin {
        name: "ffi.GetKwargsObject",
        signature: Signature::Typed(&[], &OBJECT),
        run: |_| Ok(own_keyword_arguments()),
    },
];

/// The unique object that represents a missing value where `None` is a value.
#[inline]
pub(crate) fn missing() -> Any {
    static MISSING: OnceLock<Any> = OnceLock::new();
    MISSING.get_or_init(|| marker("ffi.GetInvalidObject", own_missing)).clone()
}

/// The unique object that precedes the keyword arguments of a call.
#[inline]
pub(crate) fn keyword_arguments() -> Any {
    static KEYWORD_ARGUMENTS: OnceLock<Any> = OnceLock::new();
    KEYWORD_ARGUMENTS.get_or_init(|| marker("ffi.GetKwargsObject", own_keyword_arguments)).clone()
}

/// A marker object: the result of the process's function of this name, which may be ours; or our
/// own object.
#[inline]
fn marker(function: &str, own: fn() -> Any) -> Any {
    match Function::find_global(function) {
        Ok(Some(function)) => function.call(()).unwrap_or_else(|_| own()),
        _ => own(),
    }
}

/// The object that our function returns if the process uses it.
#[inline]
fn own_missing() -> Any {
    static OWN: OnceLock<Any> = OnceLock::new();
    OWN.get_or_init(new_marker).clone()
}

/// The object that our function returns if the process uses it.
#[inline]
fn own_keyword_arguments() -> Any {
    static OWN: OnceLock<Any> = OnceLock::new();
    OWN.get_or_init(new_marker).clone()
}

#[inline]
fn new_marker() -> Any {
    // SAFETY: a new object; its only reference is transferred to the value.
    unsafe { Any::from_object(embedded::new_object(type_index::OBJECT, ())) }
}

#[inline]
fn new_shape(args: &Arguments<'_>) -> Result<Any> {
    let mut bad = false;
    let dimensions = args.raw().iter().map(|value| {
        bad |= !matches!(value.type_index, type_index::INT | type_index::BOOL);
        value.bits().cast_signed()
    });
    // SAFETY: a new object; its only reference is transferred to the value.
    let shape = unsafe { Any::from_object(shape::new_shape_of(dimensions)) };
    if bad { Err(error!(ValueError, "Expect shape to take list of int arguments")) } else { Ok(shape) }
}

/// Creates a function from a C entry point, its context and its destructor.
#[inline]
fn function_from_extern_c(args: &Arguments<'_>) -> Result<Any> {
    type Deleter = unsafe extern "C" fn(*mut c_void);
    // SAFETY: the caller promises by the function's contract that the pointers have these types;
    // NULL is `None`.
    let (safe_call, deleter) = unsafe {
        (
            core::mem::transmute::<*mut c_void, Option<SafeCall>>(args.pointer(1)),
            core::mem::transmute::<*mut c_void, Option<Deleter>>(args.pointer(2)),
        )
    };
    let Some(safe_call) = safe_call else {
        return Err(error!(ValueError, "argument #1: a function needs an entry point, got NULL"));
    };
    let function = embedded::trampoline_function(args.pointer(0), safe_call, deleter);
    // SAFETY: a new object; its only reference is transferred to the value.
    Ok(unsafe { Any::from_object(function) })
}

/// The metadata that a global function was registered with.
#[inline]
fn metadata(args: &Arguments<'_>) -> Result<Any> {
    match function_table::global_info(args.bytes(0)) {
        // SAFETY: a new owned string.
        Some(info) => Ok(unsafe { Any::from_raw(embedded::new_string(&info.metadata)) }),
        None => {
            let name = String::from_utf8_lossy(args.bytes(0));
            Err(error!(RuntimeError, "Global Function is not found: {name}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Function;
    use crate::embedded::shape;
    use crate::value::{Any, IntoAny};

    fn new_shape(dimensions: &[Any]) -> crate::Result<Any> {
        let dimensions: Vec<_> = dimensions.iter().map(|value| *value.as_view()).collect();
        Function::global("ffi.Shape")?.call(&dimensions[..])
    }

    #[test]
    fn shapes_are_of_integers() {
        for count in [0, 1, 8, 9, 100] {
            let shape = new_shape(&(0..count).map(IntoAny::into_any).collect::<Vec<_>>()).unwrap();
            let object = shape.as_view().object().unwrap();
            // SAFETY: the value keeps the shape alive.
            assert_eq!(unsafe { shape::dimensions(object) }, (0..count).collect::<Vec<_>>());
        }
        let shape = new_shape(&[true.into_any(), 7.into_any()]).unwrap();
        // SAFETY: the value keeps the shape alive.
        assert_eq!(unsafe { shape::dimensions(shape.as_view().object().unwrap()) }, [1, 7]);
        for at in 0..12 {
            let mut dimensions: Vec<_> = (0..12i64).map(IntoAny::into_any).collect();
            dimensions[at] = 1.5.into_any();
            let error = new_shape(&dimensions).unwrap_err();
            assert_eq!(error.to_string(), "ValueError: Expect shape to take list of int arguments");
        }
    }
}
