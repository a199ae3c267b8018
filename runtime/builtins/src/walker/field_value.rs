//! Reading of objects' fields, without taking a reference where possible.

use core::ptr;

use crate::abi::{TVMFFIAny, TVMFFIFieldGetter, TVMFFIObject, TVMFFITypeInfo, type_index};
use crate::definition::field;
#[cfg(feature = "embedded")]
use crate::embedded::type_table;
#[cfg(feature = "embedded")]
use crate::provider;
use crate::{Error, Result, embedded, error};
use kernpack_core::reflect::{Field, TypeInfo};

/// The record of a type. The provider is bound: there are objects already, or an operation has
/// bound it.
#[inline]
pub(crate) fn type_info(index: i32) -> Result<&'static TVMFFITypeInfo> {
    #[cfg(feature = "embedded")]
    if provider::origin_while_binding() == provider::Origin::Embedded {
        // Uses our own table directly, without the provider's C interface.
        // SAFETY: NULL, or a record that lives forever.
        return unsafe { type_table::type_info(index).as_ref() }.ok_or_else(|| unknown(index));
    }
    type_info_of_host(index)
}

/// The type with an index, from the same record.
#[inline]
pub(crate) fn type_of(index: i32) -> Result<TypeInfo> {
    // SAFETY: `type_info` gives records of the type table.
    type_info(index).map(|info| unsafe { TypeInfo::from_raw(info) })
}

/// Out of line: not reached if our provider serves.
#[inline(never)]
fn type_info_of_host(index: i32) -> Result<&'static TVMFFITypeInfo> {
    TypeInfo::find(index).map(TypeInfo::as_raw).ok_or_else(|| unknown(index))
}

#[cold]
fn unknown(index: i32) -> Error {
    error!(InternalError, "Cannot find type info for type_index={index}")
}

/// A value that was read from an object.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    pub(crate) value: TVMFFIAny,
    /// True if the reader owns a reference; otherwise the value is borrowed from the object.
    pub(crate) owned: bool,
}

/// Reads a field. Values that known getters would copy are borrowed.
///
/// # Safety
/// `object` is alive and of a type that has this field. A borrowed value is used only while the
/// object lives and no code sets the field.
#[inline]
pub(crate) unsafe fn read(field: Field, object: *mut TVMFFIObject) -> Result<Read> {
    let mut value = TVMFFIAny::NONE;
    // SAFETY: promised by the caller.
    let owned = unsafe { read_into(field, object, &mut value)? };
    Ok(Read { value, owned })
}

/// Reads a field of two objects.
///
/// # Safety
/// As for [`read`], for both.
#[inline]
pub(crate) unsafe fn read_both(field: Field, objects: [*mut TVMFFIObject; 2]) -> Result<[Read; 2]> {
    // SAFETY: promised by the caller.
    unsafe {
        let left = read(field, objects[0])?;
        match read(field, objects[1]) {
            Ok(right) => Ok([left, right]),
            Err(error) => {
                give_up(left);
                Err(error)
            }
        }
    }
}

/// Like [`read`], in place; returns whether the reader owns the value. A caller that reads only
/// parts of the value avoids the copy, which would have to wait until the parts that a foreign
/// getter has written one by one are in the cache.
///
/// # Safety
/// As for [`read`].
#[inline]
pub(crate) unsafe fn read_into(field: Field, object: *mut TVMFFIObject, value: &mut TVMFFIAny) -> Result<bool> {
    let Some(getter) = field.as_raw().getter else { return Err(unreadable(field)) };
    // SAFETY: promised by the caller; the getters of this crate determine the type at the field's
    // address.
    unsafe {
        let address = field.address(object);
        if ptr::fn_addr_eq(getter, field::get_any as TVMFFIFieldGetter) {
            *value = *address.cast::<TVMFFIAny>();
            return Ok(false);
        }
        if ptr::fn_addr_eq(getter, field::get_object as TVMFFIFieldGetter) {
            let part = *address.cast::<*mut TVMFFIObject>();
            *value = match part.as_ref() {
                None => TVMFFIAny::NONE,
                Some(header) => TVMFFIAny::pointer(header.type_index, part.cast()),
            };
            return Ok(false);
        }
        *value = TVMFFIAny::NONE;
        if getter(address, value) != 0 {
            return Err(Error::take_raised());
        }
        Ok(value.type_index >= type_index::STATIC_OBJECT_BEGIN)
    }
}

#[cold]
fn unreadable(field: Field) -> Error {
    error!(TypeError, "field '{}' cannot be read", field.name())
}

impl Read {
    /// Returns the value with a reference owned by the reader. The value is an object.
    ///
    /// # Safety
    /// The object is alive.
    pub(crate) unsafe fn retained(self) -> Self {
        if !self.owned {
            // SAFETY: promised by the caller.
            unsafe { embedded::inc_ref(self.value.payload.v_obj) };
        }
        Self { owned: true, ..self }
    }
}

/// Gives up the reference of an owned value.
///
/// # Safety
/// The value is not used afterwards.
#[inline]
pub(crate) unsafe fn give_up(read: Read) {
    if read.owned {
        // SAFETY: an owned value is an object to which the reader has a reference.
        unsafe { embedded::dec_ref(read.value.payload.v_obj) };
    }
}
