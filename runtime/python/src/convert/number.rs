//! Numbers: Python's, and objects that behave like one.

use core::ptr;

use kernpack_core::Any;
use kernpack_core::abi::{TVMFFIAny, TVMFFIByteArray, TVMFFIObject};
use kernpack_core::embedded::{self, big_int};
use kernpack_core::value::python_number;

use super::keep::{Keep, kept};
use crate::cpython::capi::{Py, PyObject, constant};
use crate::cpython::exception::Aside;
use crate::cpython::interpreter::with_lock;
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::signature::refused::Refused;
use crate::signature::wanted::Kind;

/// The value of an `int`, or of a class derived from it.
///
/// # Safety
/// `object` is alive and an `int`.
pub(crate) unsafe fn integer(py: Py, object: *mut PyObject) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller.
    unsafe {
        let value = py.PyLong_AsLongLong(object);
        if value == -1 && !py.PyErr_Occurred().is_null() {
            return big(py, object);
        }
        Ok((TVMFFIAny::int(value), Keep::Nothing))
    }
}

/// Converts an integer outside the range of `i64`; the corresponding exception is set.
///
/// # Safety
/// `object` is alive and an `int`.
#[cold]
pub(crate) unsafe fn big(py: Py, object: *mut PyObject) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller. The methods are those of `int` itself, even if a derived
    // class overrides it.
    unsafe {
        if py.PyErr_ExceptionMatches(py.PyExc_OverflowError()) == 0 {
            return Err(Raised.into());
        }
        py.PyErr_Clear();
        let int = py.PyLong_Type();
        let bits = py.attribute(int, c"bit_length")?;
        let bits = py.call(bits.as_ptr(), [Owned::share(py, object)])?;
        let bits = py.PyLong_AsLongLong(bits.as_ptr());
        // One more for the sign, in whole words.
        let size = (bits.max(0) / 64 + 1) * 8;
        let method = py.attribute(int, c"to_bytes")?;
        let size = Owned::take(py, py.PyLong_FromLongLong(size))?;
        let arguments = py.tuple([Owned::share(py, object), size, py.text(byte_order())?])?;
        let named = signed(py)?;
        let bytes = Owned::take(py, py.PyObject_Call(method.as_ptr(), arguments.as_ptr(), named.as_ptr()))?;
        let (mut start, mut length) = (ptr::null_mut(), 0);
        if py.PyBytes_AsStringAndSize(bytes.as_ptr(), &mut start, &mut length) != 0 {
            return Err(Raised.into());
        }
        Ok(kept(big_int::from_words(core::slice::from_raw_parts(start.cast(), length as usize))?))
    }
}

/// Converts a big integer to an `int`.
///
/// # Safety
/// `value` is a valid integer.
pub(crate) unsafe fn from_big(py: Py, value: &TVMFFIAny) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the words live as long as the value.
    unsafe {
        let TVMFFIByteArray { data, size } = big_int::content(value);
        let method = py.attribute(py.PyLong_Type(), c"from_bytes")?;
        let bytes = Owned::take(py, py.PyBytes_FromStringAndSize(data.cast(), size as isize))?;
        let arguments = py.tuple([bytes, py.text(byte_order())?])?;
        let named = signed(py)?;
        Owned::take(py, py.PyObject_Call(method.as_ptr(), arguments.as_ptr(), named.as_ptr()))
    }
}

fn byte_order() -> &'static str {
    if cfg!(target_endian = "little") { "little" } else { "big" }
}

fn signed(py: Py) -> PyResult<Owned> {
    // SAFETY: a new dict; name and value are alive.
    unsafe {
        let named = Owned::take(py, py.PyDict_New())?;
        let name = py.text("signed")?;
        if py.PyDict_SetItem(named.as_ptr(), name.as_ptr(), py._Py_TrueStruct()) != 0 {
            return Err(Raised);
        }
        Ok(named)
    }
}

/// The value of a `float`, or of a class derived from it.
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn float(py: Py, object: *mut PyObject) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller.
    unsafe {
        let value = py.PyFloat_AsDouble(object);
        if value == -1.0 && !py.PyErr_Occurred().is_null() {
            return Err(Raised.into());
        }
        Ok((TVMFFIAny::float(value), Keep::Nothing))
    }
}

/// The number of an object that behaves like one: NumPy's bool, by `__index__`, and by `__float__`
/// if a float is accepted.
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn like(py: Py, object: *mut PyObject, kind: Kind) -> Result<Option<(TVMFFIAny, Keep)>, Refused> {
    // SAFETY: promised by the caller.
    unsafe {
        if matches!(kind, Kind::Bool | Kind::Any | Kind::Unknown) && is_numpy_bool(py, object)? {
            return match py.PyObject_IsTrue(object) {
                -1 => Err(Raised.into()),
                value => Ok(Some((TVMFFIAny::bool(value != 0), Keep::Nothing))),
            };
        }
        let is_time = matches!(kind, Kind::Duration | Kind::Time);
        if is_time {
            refuse_counts(py, object)?;
        }
        let is_float = is_time || matches!(kind, Kind::Float | Kind::Complex);
        // A value of an unknown type may be for a field that is a number.
        let is_integer = matches!(kind, Kind::Any | Kind::Unknown | Kind::Bool | Kind::Enum | Kind::Other);
        if (is_float || is_integer) && py.PyIndex_Check(object) != 0 {
            let index = Owned::take(py, py.PyNumber_Index(object))?;
            let (view, keep) = integer(py, index.as_ptr())?;
            return Ok(Some((view, keep)));
        }
        if is_float && py.attribute_if_any(object, c"__float__")?.is_some() {
            return float(py, object).map(Some);
        }
        Ok(None)
    }
}

/// Lets the conversions of Rust to numbers read Python objects: an `Any` keeps a number of a
/// derived class as it is.
pub(crate) fn register() {
    python_number::register(|handle, is_float| {
        let number = with_lock(|py| {
            let _aside = Aside::new(py);
            // SAFETY: the handle is that of an opaque object, which the caller keeps alive.
            unsafe { number_of(py, handle.cast(), is_float) }
        });
        number.flatten()
    });
}

/// The number of an `int` or `float`, or of an object of a class derived from one or that behaves
/// like one, as for a parameter; an integer if a float is not accepted.
///
/// # Safety
/// `object` is alive.
unsafe fn number_of(py: Py, object: *mut PyObject, is_float: bool) -> Option<Any> {
    // SAFETY: promised by the caller; the functions are only called for objects of the class that
    // they are for.
    let made = unsafe {
        let class = py.type_of(object);
        if py.PyType_GetFlags(class) & constant::LONG_SUBCLASS != 0 {
            integer(py, object).map(Some)
        } else if is_float && py.PyType_IsSubtype(class, py.PyFloat_Type()) != 0 {
            float(py, object).map(Some)
        } else {
            like(py, object, if is_float { Kind::Float } else { Kind::Other })
        }
    };
    match made {
        Ok(Some((_, Keep::Value(value)))) => Some(value),
        // SAFETY: a plain number, which owns nothing.
        Ok(Some((view, _))) => Some(unsafe { Any::from_raw(view) }),
        Ok(None) => None,
        Err(_) => {
            // SAFETY: the lock is held; the caller reports that the value does not convert.
            unsafe { py.PyErr_Clear() };
            None
        }
    }
}

/// Refuses NumPy's times and time spans, whose number is a count of their unit, such as
/// nanoseconds, and not of seconds.
///
/// # Safety
/// `object` is alive.
unsafe fn refuse_counts(py: Py, object: *mut PyObject) -> Result<(), Refused> {
    for name in ["timedelta64", "datetime64"] {
        // SAFETY: promised by the caller.
        if unsafe { is_of_numpy(py, object, &[name])? } {
            let clause = format!(
                "expected an object of Python's module datetime, got NumPy's {name}; use value.astype('{name}[us]').item()"
            );
            return Err(Refused::Because { kind: "TypeError", clause });
        }
    }
    Ok(())
}

/// # Safety
/// `object` is alive.
unsafe fn is_numpy_bool(py: Py, object: *mut PyObject) -> PyResult<bool> {
    // SAFETY: promised by the caller.
    unsafe { is_of_numpy(py, object, &["bool", "bool_"]) }
}

/// Returns true for an object of a class of NumPy with one of these names.
///
/// # Safety
/// `object` is alive.
unsafe fn is_of_numpy(py: Py, object: *mut PyObject, names: &[&str]) -> PyResult<bool> {
    // SAFETY: promised by the caller.
    unsafe {
        let name = py.class_name(object);
        if !names.contains(&&*name) {
            return Ok(false);
        }
        let module = py.attribute_if_any(py.class_of(object).as_ptr(), c"__module__")?;
        Ok(module.is_some_and(|module| py.str_of(module.as_ptr()) == "numpy"))
    }
}

/// Creates a shape for a slice: start, stop and step, with the bounds of sequences where it has
/// none. As for Python's own sequences, a number beyond 64 bits is the nearest one in range.
///
/// # Safety
/// `object` is a live `slice`.
#[inline(never)]
pub(super) unsafe fn slice(py: Py, object: *mut PyObject) -> PyResult<*mut TVMFFIObject> {
    let number = |name, otherwise| -> PyResult<i64> {
        // SAFETY: promised by the caller; `__index__` returns an `int`, or the call raises.
        unsafe {
            let value = py.attribute(object, name)?;
            if value.as_ptr() == py.none() {
                return Ok(otherwise);
            }
            let index = Owned::take(py, py.PyNumber_Index(value.as_ptr()))?;
            let mut overflow = 0;
            let number = py.PyLong_AsLongLongAndOverflow(index.as_ptr(), &mut overflow);
            Ok(match overflow {
                0 => number,
                1.. => i64::MAX,
                _ => i64::MIN,
            })
        }
    };
    let step = number(c"step", 1)?;
    if step == 0 {
        return Err(py.raise(py.PyExc_ValueError(), "slice step cannot be zero"));
    }
    let (first, last) = if step < 0 { (i64::MAX, i64::MIN) } else { (0, i64::MAX) };
    Ok(embedded::shape::new_shape(&[number(c"start", first)?, number(c"stop", last)?, step]))
}
