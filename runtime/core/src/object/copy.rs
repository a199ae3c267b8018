//! Copies of objects. A copy shares the objects that its fields refer to.

use core::ffi::c_void;

use super::write_access::{self, State};
use super::{Object, TypeDef};
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::embedded;
use crate::function::{Function, guard_nameless, views};
use crate::types::{AttrColumn, call_function};
use crate::value::type_key;
use crate::{Result, bail};

/// Creates an object with the same content as a live object of the type; the result is owned.
pub type CopyFn = unsafe fn(*mut TVMFFIObject) -> *mut TVMFFIObject;

static SHALLOW_COPY: AttrColumn = AttrColumn::new("__ffi_shallow_copy__");

/// The function that copies objects with this value: it stores the value's duplicate in a new
/// object.
pub const fn copy_of<T: Object>() -> Option<CopyFn> {
    match T::DUPLICATE {
        Some(_) => Some(copy::<T>),
        None => None,
    }
}

unsafe fn copy<T: Object>(object: *mut TVMFFIObject) -> *mut TVMFFIObject {
    // SAFETY: the caller passes a live object whose body is a `T`.
    let body = unsafe { embedded::body::<T>(object) };
    match T::DUPLICATE {
        Some(duplicate) => {
            let value = duplicate(body);
            embedded::new_object(value.index_of(), value)
        }
        // `copy_of` does not return a function for such a type.
        None => core::ptr::null_mut(),
    }
}

/// Copies an object of any type with the function that its type registered. No other code has a
/// reference to the copy.
///
/// # Errors
/// Returns a TypeError if the type cannot be copied, or the error of its copy function.
///
/// # Safety
/// The object is alive.
pub(super) unsafe fn shallow_copy(object: *mut TVMFFIObject) -> Result<*mut TVMFFIObject> {
    // SAFETY: promised by the caller; the column keeps the function.
    unsafe {
        let index = (*object).type_index;
        let Some(function) = SHALLOW_COPY.get(index).filter(|value| value.type_index() == type_index::FUNCTION) else {
            bail!(TypeError, "an object of type {} is shared, and cannot be copied to be changed", type_key(index));
        };
        let copied = call_function(function.as_raw().payload.v_obj, &[TVMFFIAny::pointer(index, object.cast())])?;
        if copied.type_index() != index {
            bail!(TypeError, "the copy of an object of type {} is of type {}", type_key(index), copied.type_name());
        }
        let copied = copied.into_raw().payload.v_obj;
        if !embedded::is_unique(copied) {
            embedded::dec_ref(copied);
            bail!(TypeError, "the copy of an object of type {} has other owners", type_key(index));
        }
        write_access::seen(copied);
        Ok(copied)
    }
}

/// The function that a type registers as `__ffi_shallow_copy__`.
pub(super) fn copy_function(def: &'static TypeDef) -> Option<Function> {
    let copy = def.copy?;
    let function = embedded::new_function(call, CopyOf { def, copy });
    // SAFETY: a new function object whose one reference is transferred.
    Some(unsafe { Function::from_raw(function) })
}

struct CopyOf {
    def: &'static TypeDef,
    copy: CopyFn,
}

unsafe extern "C" fn call(this: *mut c_void, args: *const TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the handle is a function object that `copy_function` created; the rest is the ABI's
    // calling convention. The view keeps the object alive, and a reference is counted before its
    // state is checked (`write_access.rs`).
    unsafe {
        let CopyOf { def, copy } = embedded::closure_of(this);
        let views = views(args, num_args);
        guard_nameless(|| {
            let object = match views {
                [view] => view.object(),
                _ => bail!(TypeError, "the copy of a {} takes 1 argument, got {}", def.key, views.len()),
            };
            let Some(object) = object.filter(|object| (**object).type_index == def.index.get()) else {
                bail!(TypeError, "expected {}, got {}", def.key, views[0].type_name());
            };
            embedded::inc_ref_in_order(object);
            let _kept = crate::Any::from_object(object);
            if matches!(write_access::seen(object), State::Incomplete(_)) {
                bail!(TypeError, "an object of type {} cannot be copied before all of its fields have values", def.key);
            }
            let copied = copy(object);
            write_access::complete(copied);
            let copied = crate::Any::from_object(copied);
            result.write(copied.into_raw());
            Ok(())
        })
    }
}
