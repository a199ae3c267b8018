//! Objects that are borrowed for the duration of a call.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;

use super::reference::check_other;
use super::write_access::{self, State};
use super::{ObjRef, Object};
use crate::abi::TVMFFIObject;
use crate::value::{AnyView, FromAny, Mismatch, Schema, TypeSchema};

/// An argument that is an object of type `T`, without its own reference; used for `&self` in
/// methods.
///
/// The caller keeps the object alive. The object's state keeps its fields from being set meanwhile:
/// when Rust code reads an object without counting a reference, the object becomes shared
/// permanently (`write_access.rs`).
pub struct Borrowed<'a, T: Object> {
    reference: ManuallyDrop<ObjRef<T>>,
    call: PhantomData<&'a ObjRef<T>>,
}

impl<T: Object> Deref for Borrowed<'_, T> {
    type Target = ObjRef<T>;

    #[inline]
    fn deref(&self) -> &ObjRef<T> {
        &self.reference
    }
}

impl<T: Object> Schema for Borrowed<'_, T> {
    const TYPE: TypeSchema = TypeSchema::new(T::TYPE_KEY);
}

impl<'a, T: Object> FromAny<'a> for Borrowed<'a, T> {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the view keeps the object alive for `'a`, and the reference is not released. The
        // object is a `T`, and is complete and shared before it is read.
        unsafe {
            let is_own = T::VARIANTS.is_none() && (*object).type_index == T::type_index();
            if !(is_own && write_access::share(object) == State::Complete) {
                check::<T>(object)?;
            }
            Ok(Self { reference: ManuallyDrop::new(ObjRef::from_raw(object)), call: PhantomData })
        }
    }
}

impl<T: Object> Schema for &T {
    const TYPE: TypeSchema = TypeSchema::new(T::TYPE_KEY);
}

/// An object that is borrowed for the duration of a call.
impl<'a, T: Object> FromAny<'a> for &'a T {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let borrowed = Borrowed::<T>::from_any(value)?;
        // SAFETY: the view keeps the object alive for `'a`, and no code writes to it any more.
        Ok(unsafe { &*core::ptr::from_ref::<T>(&borrowed) })
    }
}

/// Checks that an object whose type is not `T` itself, or that is incomplete, may be used as a `T`.
///
/// # Safety
/// The object is alive.
#[inline(never)]
unsafe fn check<T: Object>(object: *mut TVMFFIObject) -> Result<(), Mismatch> {
    // SAFETY: promised by the caller. The object is a `T` when it is marked as shared, so this code
    // may change its state.
    unsafe {
        check_other::<T>(object)?;
        write_access::share(object);
        if T::VARIANTS.is_some() {
            return Ok(());
        }
        // Checked again: before the object was shared, the fields of a foreign object could be
        // changed.
        check_other::<T>(object)
    }
}
