use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::{ObjRef, Object};
use crate::abi::TVMFFIObject;
use crate::embedded;
use crate::value::{Any, AnyView, FromAny, IntoAny, Mismatch, Schema, TypeSchema};

/// A reference that does not keep an object's value alive: for a link back to an owner, or a cache.
///
/// The value is destroyed with the last strong reference, whatever language holds it. Weak references only keep the object's storage.
///
/// ```
/// use kernpack::{ObjRef, Object};
///
/// #[derive(Object)]
/// #[object(key = "docs.Leaf")]
/// #[repr(C)]
/// pub struct Leaf {
///     pub value: i64,
/// }
///
/// let leaf = ObjRef::new(Leaf { value: 1 });
/// let weak = leaf.downgrade();
/// assert_eq!(weak.upgrade().unwrap().value, 1);
/// drop(leaf);
/// assert!(weak.upgrade().is_none());
/// ```
pub struct WeakRef<T: Object> {
    object: NonNull<TVMFFIObject>,
    content: PhantomData<T>,
}

// SAFETY: `T: Send + Sync` by `Object`, and counts are atomic.
unsafe impl<T: Object> Send for WeakRef<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for WeakRef<T> {}

impl<T: Object> WeakRef<T> {
    pub(super) fn of(strong: &ObjRef<T>) -> Self {
        let object = strong.as_ptr();
        // SAFETY: the strong reference keeps the object alive; live objects are not at address 0.
        unsafe {
            embedded::inc_weak(object);
            Self { object: NonNull::new_unchecked(object), content: PhantomData }
        }
    }

    /// Takes over one weak reference, as [`Self::into_raw`] gives it up.
    ///
    /// # Safety
    /// `object` was alive as a `T` when the weak reference was counted, and that reference was the caller's.
    pub unsafe fn from_raw(object: *mut TVMFFIObject) -> Self {
        // SAFETY: objects are not at address 0.
        Self { object: unsafe { NonNull::new_unchecked(object) }, content: PhantomData }
    }

    /// Gives the weak reference up without releasing it: it now belongs to the pointer.
    #[must_use = "the reference is never released unless the receiver does it"]
    pub fn into_raw(self) -> *mut TVMFFIObject {
        let object = self.object.as_ptr();
        core::mem::forget(self);
        object
    }

    /// The object's header, borrowed: its storage is there as long as this reference, its value perhaps not.
    pub fn as_ptr(&self) -> *mut TVMFFIObject {
        self.object.as_ptr()
    }

    /// A strong reference, unless the value is already destroyed.
    pub fn upgrade(&self) -> Option<ObjRef<T>> {
        // SAFETY: the weak reference keeps the storage. The object was a `T` when `self` was made, and a weak reference keeps others
        // from changing it in place.
        unsafe { embedded::try_promote(self.object.as_ptr()).then(|| ObjRef::from_raw(self.object.as_ptr())) }
    }

    /// Whether both refer to the same object.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.object == other.object
    }
}

impl<T: Object> Clone for WeakRef<T> {
    fn clone(&self) -> Self {
        // SAFETY: `self` keeps the storage alive.
        unsafe { embedded::inc_weak(self.object.as_ptr()) };
        Self { object: self.object, content: PhantomData }
    }
}

impl<T: Object> Drop for WeakRef<T> {
    fn drop(&mut self) {
        // SAFETY: this reference is owned.
        unsafe { embedded::dec_weak(self.object.as_ptr()) }
    }
}

/// What is optional is the object, which may be gone.
impl<T: Object> Schema for WeakRef<T> {
    const TYPE: TypeSchema = TypeSchema { key: "Optional", args: &[TypeSchema::new(T::TYPE_KEY)] };
}

/// `None` to other languages once the object is gone.
impl<T: Object> IntoAny for WeakRef<T> {
    fn into_any(self) -> Any {
        self.upgrade().into_any()
    }
}

impl<'a, T: Object> FromAny<'a> for WeakRef<T> {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        ObjRef::<T>::from_any(value).map(|strong| strong.downgrade())
    }
}

impl<T: Object> fmt::Debug for WeakRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(weak {})", T::TYPE_KEY)
    }
}
