//! Setters of the containers in an enum's state: `List<Object>`, `Dict<Any, Object>`,
//! `Dict<str, Dict<Object, Any>>`.
//!
//! A list or dict whose content fits is shared; an array or map is copied into one.

use core::ffi::c_void;

use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::definition::signature::type_key;
use crate::embedded::release::retain;
use crate::embedded::{self, list, map, seq};
use crate::function::guard_nameless;
use crate::value::AnyView;
use crate::{Result, bail};

/// Stores the list of entries.
///
/// # Safety
/// The ABI's convention of setters: `field` is the address of such a field in an object under
/// construction, `value` a valid view.
#[inline]
pub(super) unsafe extern "C" fn set_entries(field: *mut c_void, value: *const TVMFFIAny) -> i32 {
    // SAFETY: promised by the caller.
    guard_nameless(|| unsafe { store(field, list_of_objects(&*value)?) })
}

/// Stores the dict of indexes.
///
/// # Safety
/// As for [`set_entries`].
#[inline]
pub(super) unsafe extern "C" fn set_indexes(field: *mut c_void, value: *const TVMFFIAny) -> i32 {
    // SAFETY: promised by the caller.
    guard_nameless(|| unsafe { store(field, dict(&*value, "Dict<Any, ffi.Object>", |_| true, is_object)?) })
}

/// Stores the columns of attributes.
///
/// # Safety
/// As for [`set_entries`].
#[inline]
pub(super) unsafe extern "C" fn set_attrs(field: *mut c_void, value: *const TVMFFIAny) -> i32 {
    let is_text = |key: &TVMFFIAny| matches!(key.type_index, type_index::STR | type_index::SMALL_STR);
    let expected = "Dict<str, Dict<ffi.Object, Any>>";
    // SAFETY: promised by the caller.
    guard_nameless(|| unsafe { store(field, dict(&*value, expected, is_text, |value| is_column(value))?) })
}

#[inline]
unsafe fn store(field: *mut c_void, new: *mut TVMFFIObject) -> Result<()> {
    // SAFETY: the caller passes a field that owns an object, and gives up its reference to the new
    // one.
    unsafe {
        let old = field.cast::<*mut TVMFFIObject>().replace(new);
        if !old.is_null() {
            embedded::dec_ref(old);
        }
    }
    Ok(())
}

#[inline]
fn is_object(value: &TVMFFIAny) -> bool {
    value.type_index == type_index::NONE || value.type_index >= type_index::STATIC_OBJECT_BEGIN
}

#[inline]
unsafe fn is_column(value: &TVMFFIAny) -> bool {
    // SAFETY: the caller passes a live value.
    unsafe {
        value.type_index == type_index::DICT
            && map::shared::contents(value.payload.v_obj).iter().step_by(2).all(is_object)
    }
}

/// Converts to a list; the caller owns the reference.
#[inline]
unsafe fn list_of_objects(value: &TVMFFIAny) -> Result<*mut TVMFFIObject> {
    let expected = "List<ffi.Object>";
    // SAFETY: the caller passes a valid view.
    unsafe {
        if !matches!(value.type_index, type_index::LIST | type_index::ARRAY) {
            bail!(TypeError, "Cannot convert from type `{}` to `{expected}`", key_of(value));
        }
        let container = value.payload.v_obj;
        let elements = list::shared::elements(container);
        if let Some(at) = elements.iter().position(|element| !is_object(element)) {
            let element = key_of(&elements[at]);
            bail!(TypeError, "Cannot convert from type `List[index {at}: {element}]` to `{expected}`");
        }
        if value.type_index == type_index::ARRAY {
            return Ok(seq::new_list_of_shared(&elements));
        }
        embedded::inc_ref(container);
        Ok(container)
    }
}

/// Converts to a dict; the caller owns the reference.
#[inline]
unsafe fn dict(
    value: &TVMFFIAny,
    expected: &str,
    fits_key: impl Fn(&TVMFFIAny) -> bool,
    fits_value: impl Fn(&TVMFFIAny) -> bool,
) -> Result<*mut TVMFFIObject> {
    // SAFETY: the caller passes a valid view.
    unsafe {
        if !matches!(value.type_index, type_index::DICT | type_index::MAP) {
            bail!(TypeError, "Cannot convert from type `{}` to `{expected}`", key_of(value));
        }
        let container = value.payload.v_obj;
        for &[key, value] in map::shared::contents(container).as_chunks().0 {
            if !fits_key(&key) {
                let key = key_of(&key);
                bail!(TypeError, "Cannot convert from type `Dict[some key is {key}, V]` to `{expected}`");
            }
            if !fits_value(&value) {
                let value = key_of(&value);
                bail!(TypeError, "Cannot convert from type `Dict[K, some value is {value}]` to `{expected}`");
            }
        }
        if value.type_index == type_index::MAP {
            let pairs = map::iter(container).map(|(key, value)| (retain(&key), retain(&value))).collect();
            return Ok(map::new_dict(pairs)?);
        }
        embedded::inc_ref(container);
        Ok(container)
    }
}

#[inline]
unsafe fn key_of(value: &TVMFFIAny) -> String {
    // SAFETY: the caller passes a valid view.
    unsafe { type_key(&AnyView::from_raw(*value)) }
}
