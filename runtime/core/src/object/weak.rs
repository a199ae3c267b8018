use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::{ObjRef, Object};
use crate::abi::TVMFFIObject;
use crate::embedded;

/// A reference that does not keep an object's value alive, for example a back reference to an
/// owner, or a cache entry.
///
/// The value is destroyed with the last strong reference, regardless of which language holds it.
/// Weak references only keep the object's storage.
///
/// A field of this type is hidden from other languages: structural equality, JSON and copies would
/// follow it in cycles. A `#[getter]` can expose the target: `self.parent.get().upgrade()`. Copies
/// of an object refer to the original's target.
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
    /// `None` if it does not refer to an object.
    object: Option<NonNull<TVMFFIObject>>,
    content: PhantomData<T>,
}

// SAFETY: `T: Send + Sync` by `Object`, and counts are atomic.
unsafe impl<T: Object> Send for WeakRef<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for WeakRef<T> {}

impl<T: Object> WeakRef<T> {
    /// Creates a reference that does not refer to an object, like [`std::sync::Weak::new`].
    ///
    /// ```
    /// # use kernpack::{ObjectRoot, WeakRef};
    /// assert!(WeakRef::<ObjectRoot>::new().upgrade().is_none());
    /// ```
    pub const fn new() -> Self {
        Self { object: None, content: PhantomData }
    }

    pub(super) fn of(strong: &ObjRef<T>) -> Self {
        let object = strong.as_ptr();
        // SAFETY: the strong reference keeps the object alive; live objects are not at address 0.
        unsafe {
            embedded::inc_weak(object);
            Self { object: Some(NonNull::new_unchecked(object)), content: PhantomData }
        }
    }

    /// Takes ownership of one weak reference, as returned by [`Self::into_raw`].
    ///
    /// # Safety
    /// `object` was alive as a `T` when the weak reference was counted, and the caller owned that
    /// reference; or it is null.
    pub unsafe fn from_raw(object: *mut TVMFFIObject) -> Self {
        Self { object: NonNull::new(object), content: PhantomData }
    }

    /// Returns the weak reference without releasing it: it now belongs to the pointer.
    #[must_use = "the reference is never released unless the receiver does it"]
    pub fn into_raw(self) -> *mut TVMFFIObject {
        let object = self.as_ptr();
        core::mem::forget(self);
        object
    }

    /// The object's header, borrowed: its storage lives as long as this reference, its value may
    /// not. Null if this does not refer to an object.
    pub fn as_ptr(&self) -> *mut TVMFFIObject {
        self.object.map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    /// Returns a strong reference, unless the value is already destroyed.
    pub fn upgrade(&self) -> Option<ObjRef<T>> {
        let object = self.object?.as_ptr();
        // SAFETY: the weak reference keeps the storage. The object was a `T` when `self` was
        // created, and a weak reference prevents others from changing it in place.
        unsafe { embedded::try_promote(object).then(|| ObjRef::from_raw(object)) }
    }

    /// Returns whether both refer to the same object, or both to none.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.object == other.object
    }
}

impl<T: Object> Default for WeakRef<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Object> Clone for WeakRef<T> {
    fn clone(&self) -> Self {
        if let Some(object) = self.object {
            // SAFETY: `self` keeps the storage alive.
            unsafe { embedded::inc_weak(object.as_ptr()) };
        }
        Self { object: self.object, content: PhantomData }
    }
}

impl<T: Object> Drop for WeakRef<T> {
    fn drop(&mut self) {
        if let Some(object) = self.object {
            // SAFETY: this reference is owned.
            unsafe { embedded::dec_weak(object.as_ptr()) }
        }
    }
}

impl<T: Object> fmt::Debug for WeakRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(weak {})", T::TYPE_KEY)
    }
}
