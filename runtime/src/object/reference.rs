use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use super::{Object, ObjectRoot};
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::value::{Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema, type_key};
use crate::{embedded, host};

/// A counted reference to an object of type `T` or of a type derived from it. Never null; cloning adds a reference.
pub struct ObjRef<T: Object> {
    object: NonNull<TVMFFIObject>,
    content: PhantomData<T>,
}

// SAFETY: `T: Send + Sync` by `Object`, and counts are atomic.
unsafe impl<T: Object> Send for ObjRef<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for ObjRef<T> {}

impl<T: Object> ObjRef<T> {
    /// Moves `value` into a new object.
    pub fn new(value: T) -> Self {
        let object = embedded::new_object(T::type_index(), value);
        // SAFETY: a new object of this type; its one reference is this one.
        unsafe { Self::from_object(object) }
    }

    /// Takes over one reference.
    ///
    /// # Safety
    /// `object` is alive and its type is `T` or derived from it.
    pub(crate) unsafe fn from_object(object: *mut TVMFFIObject) -> Self {
        // SAFETY: live objects are not at address 0.
        Self { object: unsafe { NonNull::new_unchecked(object) }, content: PhantomData }
    }

    /// Gives up the reference; the receiver releases it.
    pub(crate) fn into_object(self) -> *mut TVMFFIObject {
        let object = self.object.as_ptr();
        core::mem::forget(self);
        object
    }

    /// The object's header, borrowed.
    pub(crate) fn object(&self) -> *mut TVMFFIObject {
        self.object.as_ptr()
    }

    /// Run-time type index, of the object's own type.
    pub fn type_index(&self) -> i32 {
        // SAFETY: the object is alive; its index never changes.
        unsafe { (*self.object.as_ptr()).type_index }
    }

    /// Key of the object's own type.
    pub fn type_key(&self) -> String {
        type_key(self.type_index())
    }

    /// Whether both refer to the same object.
    pub fn ptr_eq<U: Object>(&self, other: &ObjRef<U>) -> bool {
        self.object == other.object
    }

    /// The same object as a reference to its base type.
    pub fn upcast(self) -> ObjRef<T::Parent> {
        // SAFETY: a `T` begins with its parent's value and is registered as derived from it.
        unsafe { ObjRef::from_object(self.into_object()) }
    }

    /// The same object as a reference to another type, when it is one.
    ///
    /// # Errors
    /// The unchanged reference.
    pub fn try_cast<U: Object>(self) -> Result<ObjRef<U>, Self> {
        if is_instance::<U>(self.type_index()) {
            // SAFETY: just checked.
            return Ok(unsafe { ObjRef::from_object(self.into_object()) });
        }
        Err(self)
    }

    /// Whether the object is a `U`.
    pub fn is<U: Object>(&self) -> bool {
        is_instance::<U>(self.type_index())
    }
}

/// Whether a registered type is `T` or derived from it.
pub(crate) fn is_instance<T: Object>(index: i32) -> bool {
    let expected = T::type_index();
    if index == expected || expected == type_index::OBJECT {
        return true;
    }
    let api = host::api();
    // SAFETY: both indices are registered, `index` because a live object has it. Descriptions live forever, and a type
    // has exactly `type_depth` ancestors.
    unsafe {
        let (own, wanted) = ((api.get_type_info)(index), (api.get_type_info)(expected));
        if own.is_null() || wanted.is_null() || (*own).type_depth <= (*wanted).type_depth {
            return false;
        }
        let ancestor = *(*own).type_ancestors.add((*wanted).type_depth as usize);
        (*ancestor).type_index == expected
    }
}

impl<T: Object> Deref for ObjRef<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the object is a `T` (or begins with one) and lives as long as `self`.
        unsafe { embedded::body(self.object.as_ptr()) }
    }
}

impl<T: Object> Clone for ObjRef<T> {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: the object is alive.
        unsafe { embedded::inc_ref(self.object.as_ptr()) };
        Self { object: self.object, content: PhantomData }
    }
}

impl<T: Object> Drop for ObjRef<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this reference is owned.
        unsafe { embedded::dec_ref(self.object.as_ptr()) }
    }
}

impl<T: Object> From<T> for ObjRef<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Object + fmt::Debug> fmt::Debug for ObjRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl fmt::Debug for ObjectRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ffi.Object")
    }
}

impl<T: Object> Schema for ObjRef<T> {
    const TYPE: TypeSchema = TypeSchema::new(T::TYPE_KEY);
}

impl<'a, T: Object> FromAny<'a> for ObjRef<T> {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the view keeps the object alive; its type is checked before it is taken for a `T`.
        unsafe {
            if !is_instance::<T>((*object).type_index) {
                return Err(not_an_instance::<T>(object));
            }
            embedded::inc_ref(object);
            Ok(Self::from_object(object))
        }
    }
}

#[cold]
#[inline(never)]
unsafe fn not_an_instance<T: Object>(object: *mut TVMFFIObject) -> Mismatch {
    // SAFETY: the caller keeps the object alive.
    let key = type_key(unsafe { (*object).type_index });
    if key != T::TYPE_KEY {
        return Mismatch::TYPE;
    }
    Mismatch::type_note(format!(
        "expected {key} as this library lays it out, got the {key} of another library, which lays it out differently; build both \
         from the same version"
    ))
}

impl<T: Object> IntoAny for ObjRef<T> {
    fn into_any(self) -> Any {
        // SAFETY: the reference goes over to the value.
        unsafe { Any::from_object(self.into_object()) }
    }
}

impl<T: Object> ToArg for ObjRef<T> {
    fn to_arg(&self) -> Arg<'_> {
        let raw = TVMFFIAny::pointer(self.type_index(), self.object.as_ptr().cast());
        // SAFETY: the object lives as long as the borrow.
        Arg::borrowed(unsafe { AnyView::from_raw(raw) })
    }
}
