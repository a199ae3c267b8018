//! Conversions between Python objects and values of Rust.

use core::ffi::c_void;
use core::ptr::NonNull;

use kernpack_core::abi::{TVMFFIAny, TVMFFIObject, TVMFFIOpaqueObjectCell, type_index};
use kernpack_core::value::{AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, Shown, Storage, ToArg, TypeSchema};
use kernpack_core::{Any, Error, Result, embedded};

use super::{Object, absent, with};
use crate::convert::{from_python, to_python};
use crate::cpython::capi::Py;
use crate::cpython::exception;
use crate::cpython::interpreter::Lock;
use crate::cpython::object::{Owned, PyResult};
use crate::signature::refused::Refused;
use crate::signature::wanted::Wanted;

impl Object {
    /// Converts a value of Rust to a Python object, as an argument of a callback is converted: its
    /// type is not declared, so a set becomes a list, and a path a `str`. An `Object` is itself.
    /// The same holds for the arguments of `call`, and for keys and values.
    ///
    /// # Errors
    /// Returns an error for a value without a form in Python.
    pub fn new(value: impl ToArg) -> Result<Self> {
        let value = value.to_arg();
        // SAFETY: the argument is a valid view as long as it lives.
        with(|py| unsafe { converted(py, &value.as_raw()) }.map(Self::of))
    }

    /// Returns `None`.
    ///
    /// # Errors
    /// Returns an error if Python has ended.
    pub fn none() -> Result<Self> {
        // SAFETY: the interpreter's object lives as long as it.
        with(|py| Ok(Self::of(unsafe { Owned::share(py, py.none()) })))
    }

    /// Returns true if the object is `None`.
    ///
    /// # Errors
    /// Returns an error if Python has ended.
    pub fn is_none(&self) -> Result<bool> {
        with(|py| Ok(self.handle() == py.none()))
    }

    /// Converts to a value of Rust, as an argument of a function is converted.
    ///
    /// # Errors
    /// Returns a TypeError or ValueError that names both types if the object does not convert.
    pub fn to<T: for<'a> FromAny<'a>>(&self) -> Result<T> {
        self.value(const { &<T as Schema>::TYPE })?.to()
    }

    /// The value for a type.
    fn value(&self, ty: &'static TypeSchema) -> Result<Any> {
        let lock = Lock::of_any().ok_or_else(absent)?;
        let py = lock.py();
        let _aside = exception::Aside::new(py);
        // SAFETY: the object is alive.
        unsafe { from_python::owned(py, self.handle(), &Wanted::of(ty)) }.map_err(|refused| match refused {
            Refused::Raised(_) => exception::take(py),
            Refused::Because { kind, clause } => Error::new(kind, clause),
        })
    }
}

/// The Python object for a view.
///
/// # Safety
/// The view is valid for the call.
pub(super) unsafe fn converted(py: Py, view: &TVMFFIAny) -> PyResult<Owned> {
    const ANY: TypeSchema = TypeSchema::new("Any");
    // SAFETY: promised by the caller.
    unsafe { to_python::view(py, AnyView::from_raw(*view).lent().as_raw(), &ANY) }
}

impl Schema for Object {
    const TYPE: TypeSchema = TypeSchema::new("ffi.OpaquePyObject");
    const STORAGE: Storage = Storage::Object;

    unsafe fn is_set(place: *const c_void) -> bool {
        // SAFETY: promised by the caller.
        unsafe { !place.cast::<*const c_void>().read().is_null() }
    }
}

/// The opaque object in a value, if it has a Python object.
fn opaque<'a>(value: &'a AnyView<'a>) -> Option<NonNull<TVMFFIObject>> {
    let object = value.object()?;
    // SAFETY: the view keeps the object alive; its type is checked before it is read.
    unsafe {
        let is_one = (*object).type_index == type_index::OPAQUE_PY_OBJECT
            && !embedded::body::<TVMFFIOpaqueObjectCell>(object).handle.is_null();
        is_one.then_some(NonNull::new_unchecked(object))
    }
}

impl<'a> FromAny<'a> for Object {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        let Some(object) = opaque(value) else { return of_value(value) };
        // SAFETY: the view keeps the object alive.
        unsafe { embedded::inc_ref(object.as_ptr()) };
        Ok(Self(object))
    }
}

/// The Python object for a value of another caller, which has converted its own.
#[cold]
fn of_value(value: &AnyView<'_>) -> core::result::Result<Object, Mismatch> {
    // SAFETY: the view is valid for the call.
    let made = with(|py| unsafe { converted(py, value.as_raw()) }.map(Object::of));
    made.map_err(|error| Mismatch::type_note(error.message().to_owned()))
}

impl Schema for &Object {
    const TYPE: TypeSchema = <Object as Schema>::TYPE;
}

/// An object that is borrowed for the duration of a call, without its own reference.
impl<'a> FromAny<'a> for &'a Object {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        if opaque(value).is_none() {
            return Err(Mismatch::TYPE);
        }
        // SAFETY: the view keeps the object alive for `'a`. A handle is transparent over the
        // pointer to it, and such a pointer is in the view itself, or where an rvalue reference
        // points.
        unsafe {
            if value.is_rvalue_ref() {
                return Ok(&*value.as_raw().payload.v_ptr.cast::<Object>());
            }
            Ok(&*(&raw const value.as_raw().payload.v_obj).cast::<Object>())
        }
    }
}

impl IntoAny for Object {
    #[inline]
    fn into_any(self) -> Any {
        let object = core::mem::ManuallyDrop::new(self).0.as_ptr();
        // SAFETY: the value takes over the reference.
        unsafe { Any::from_object(object) }
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::Lent(self.to_arg())
    }
}

impl ToArg for Object {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        let raw = TVMFFIAny::pointer(type_index::OPAQUE_PY_OBJECT, self.0.as_ptr().cast());
        // SAFETY: the object is alive, and lives as long as the borrow.
        Arg::borrowed(unsafe { AnyView::from_raw(raw) })
    }
}
