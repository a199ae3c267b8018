//! Setters of the fields of builtin types: they check and convert a value as the stock library's
//! do, then store it.

use core::ffi::c_void;

use super::field::check;
use super::signature::{INT, OPTIONAL_OBJECT, STRING, Type};
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::embedded::release::{release, to_owned};
use crate::function::guard_nameless;
use crate::value::AnyView;
use crate::{Result, embedded};

/// The type of an object field, for [`set_object`].
pub(crate) trait ObjectField {
    /// The type of the stored values. [`Accepts::Optional`](super::signature::Accepts) for a field
    /// that may hold `None`, which is NULL.
    const TYPE: &'static Type;
}

/// An object of any type, or `None`.
pub(crate) struct OptionalObject;

impl ObjectField for OptionalObject {
    const TYPE: &'static Type = &OPTIONAL_OBJECT;
}

// SAFETY of the setters: the ABI's convention: `field` is the address of a field of this kind in an
// object that no other code uses meanwhile, `value` a valid view.

/// Stores any value.
///
/// # Safety
/// The ABI's convention of setters.
pub(crate) unsafe extern "C" fn set_any(field: *mut c_void, value: *const TVMFFIAny) -> i32 {
    // SAFETY: see above.
    guard_nameless(|| unsafe { store(field, &*value) })
}

/// Stores text.
///
/// # Safety
/// The ABI's convention of setters.
pub(crate) unsafe extern "C" fn set_text(field: *mut c_void, value: *const TVMFFIAny) -> i32 {
    // SAFETY: see above.
    guard_nameless(|| unsafe {
        check(&AnyView::from_raw(*value), &STRING)?;
        store(field, &*value)
    })
}

/// Stores a 64-bit integer.
///
/// # Safety
/// The ABI's convention of setters.
pub(crate) unsafe extern "C" fn set_i64(field: *mut c_void, value: *const TVMFFIAny) -> i32 {
    // SAFETY: see above.
    guard_nameless(|| unsafe {
        check(&AnyView::from_raw(*value), &INT)?;
        field.cast::<i64>().write((*value).bits().cast_signed());
        Ok(())
    })
}

/// Stores a 32-bit integer; higher bits are truncated, as in C++.
///
/// # Safety
/// The ABI's convention of setters.
pub(crate) unsafe extern "C" fn set_i32(field: *mut c_void, value: *const TVMFFIAny) -> i32 {
    // SAFETY: see above.
    guard_nameless(|| unsafe {
        check(&AnyView::from_raw(*value), &INT)?;
        field.cast::<i32>().write((*value).bits() as i32);
        Ok(())
    })
}

/// Stores an object.
///
/// # Safety
/// The ABI's convention of setters.
pub(crate) unsafe extern "C" fn set_object<T: ObjectField>(field: *mut c_void, value: *const TVMFFIAny) -> i32 {
    // SAFETY: see above.
    guard_nameless(|| unsafe { store_object(field.cast(), &*value, T::TYPE) })
}

unsafe fn store(field: *mut c_void, value: &TVMFFIAny) -> Result<()> {
    // SAFETY: see above; the old value is released when the new one is in its place.
    unsafe {
        let new = to_owned(value)?;
        release(field.cast::<TVMFFIAny>().replace(new));
    }
    Ok(())
}

unsafe fn store_object(field: *mut *mut TVMFFIObject, value: &TVMFFIAny, expected: &Type) -> Result<()> {
    // SAFETY: see above. The type accepts only objects and `None`.
    unsafe {
        check(&AnyView::from_raw(*value), expected)?;
        let new = to_owned(value)?;
        let object = if new.type_index == type_index::NONE { core::ptr::null_mut() } else { new.payload.v_obj };
        let old = field.replace(object);
        if !old.is_null() {
            embedded::dec_ref(old);
        }
    }
    Ok(())
}
