use core::ffi::c_void;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use super::write_access::{self, State};
use super::{Object, ObjectRoot, ObjectStruct, WeakRef, construction, copy, foreign, type_index_of};
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::value::{
    Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, Shown, Storage, ToArg, TypeSchema, type_key,
};
use crate::{Function, embedded, provider};

/// A counted reference to an object of type `T` or of a type derived from it. Never null; cloning
/// adds a reference.
#[repr(transparent)]
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
        let object = embedded::new_object(value.index_of(), value);
        // SAFETY: a new object of this type, whose one reference is this one.
        unsafe { Self::from_raw(object) }
    }

    /// Takes ownership of one counted reference, as returned by [`Self::into_raw`].
    ///
    /// # Safety
    /// `object` is alive and complete, its type is `T` or derived from it, and the caller owned one
    /// counted reference to it.
    #[inline]
    pub unsafe fn from_raw(object: *mut TVMFFIObject) -> Self {
        // SAFETY: live objects are not at address 0.
        Self { object: unsafe { NonNull::new_unchecked(object) }, content: PhantomData }
    }

    /// Returns the counted reference without releasing it: it now belongs to the pointer.
    #[inline]
    #[must_use = "the reference is never released unless the receiver does it"]
    pub fn into_raw(self) -> *mut TVMFFIObject {
        let object = self.object.as_ptr();
        core::mem::forget(self);
        object
    }

    /// The object's header, borrowed: alive as long as this reference.
    #[inline]
    pub fn as_ptr(&self) -> *mut TVMFFIObject {
        self.object.as_ptr()
    }

    /// Run-time type index of the object's own type.
    pub fn type_index(&self) -> i32 {
        // SAFETY: the object is alive; its index never changes.
        unsafe { (*self.object.as_ptr()).type_index }
    }

    /// Key of the object's own type.
    pub fn type_key(&self) -> String {
        type_key(self.type_index())
    }

    /// Returns whether both refer to the same object.
    pub fn ptr_eq<U: Object>(&self, other: &ObjRef<U>) -> bool {
        self.object == other.object
    }

    /// Returns the same object as a reference to its base type.
    pub fn upcast(self) -> ObjRef<T::Parent> {
        // SAFETY: a `T` begins with its parent's value and is registered as derived from it.
        unsafe { ObjRef::from_raw(self.into_raw()) }
    }

    /// Returns the same object as a reference to another type if it is an instance: an ancestor or
    /// a derived type.
    ///
    /// # Errors
    /// Returns the unchanged reference if it is not.
    pub fn try_cast<U: Object>(self) -> Result<ObjRef<U>, Self> {
        if self.is::<U>() {
            // SAFETY: just checked.
            return Ok(unsafe { ObjRef::from_raw(self.into_raw()) });
        }
        Err(self)
    }

    /// Returns whether the object is a `U`: of that type or of one derived from it.
    pub fn is<U: Object>(&self) -> bool {
        // SAFETY: `self` keeps the object alive.
        unsafe { check_instance::<U>(self.as_ptr()) }.is_ok()
    }

    /// Returns the object's value as a `U` if it is one.
    pub fn downcast_ref<U: Object>(&self) -> Option<&U> {
        // SAFETY: just checked; `self` keeps the object alive.
        self.is::<U>().then(|| unsafe { embedded::body(self.as_ptr()) })
    }

    /// Returns a reference that does not keep the object's value alive.
    pub fn downgrade(&self) -> WeakRef<T> {
        WeakRef::of(self)
    }

    /// Number of strong references, in all languages; other threads may change it at any time.
    pub fn strong_count(&self) -> usize {
        // SAFETY: `self` keeps the object alive.
        unsafe { embedded::strong_count(self.as_ptr()) as usize }
    }
}

// The bound is on each method, so that a call on a family fails with the bound's own message.
impl<T: Object> ObjRef<T> {
    /// Returns a mutable reference to the value if this is the only reference to the object,
    /// including weak ones.
    ///
    /// ```
    /// use kernpack::{ObjRef, Object};
    ///
    /// #[derive(Object)]
    /// #[object(key = "docs.Size")]
    /// #[repr(C)]
    /// pub struct Size {
    ///     pub width: i64,
    /// }
    ///
    /// let mut size = ObjRef::new(Size { width: 1 });
    /// size.get_mut().unwrap().width = 2;
    /// let other = size.clone();
    /// assert!(size.get_mut().is_none());
    /// assert_eq!(other.width, 2);
    /// ```
    pub fn get_mut(&mut self) -> Option<&mut T>
    where
        T: ObjectStruct,
    {
        // SAFETY: `self` keeps the object alive. There is no other reference, and none can be made
        // as long as `self` is borrowed.
        unsafe { embedded::is_unique(self.as_ptr()).then(|| &mut *embedded::body_ptr(self.as_ptr())) }
    }

    /// Returns a mutable reference to the value. If there are other references to the object,
    /// `self` first becomes a copy (copy on write) of the object's own type.
    ///
    /// # Errors
    /// Returns a TypeError if the object would have to be copied and its type cannot be copied: a
    /// field is not `Clone`, or another language forbids it.
    ///
    /// ```
    /// # use kernpack::{ObjRef, Object};
    /// # #[derive(Object)]
    /// # #[object(key = "docs.Size2")]
    /// # #[repr(C)]
    /// # pub struct Size { pub width: i64 }
    /// let before = ObjRef::new(Size { width: 1 });
    /// let mut after = before.clone();
    /// after.make_mut()?.width = 2;
    /// assert_eq!((before.width, after.width), (1, 2));
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    #[track_caller]
    pub fn make_mut(&mut self) -> crate::Result<&mut T>
    where
        T: ObjectStruct,
    {
        // SAFETY: `self` keeps the object alive.
        if !unsafe { embedded::is_unique(self.as_ptr()) } {
            *self = match T::DUPLICATE {
                Some(duplicate) if self.type_index() == T::type_index() => Self::new(duplicate(self)),
                // SAFETY: `self` keeps the object alive; a copy has the type of its original.
                _ => unsafe { Self::from_raw(copy::shallow_copy(self.as_ptr())?) },
            };
        }
        // SAFETY: the object has no other reference now, and none can be created as long as `self`
        // is borrowed. If a copy function of another language returned an object with other
        // references, that was an error.
        Ok(unsafe { &mut *embedded::body_ptr(self.as_ptr()) })
    }
}

/// Returns whether a registered type is `T` or derived from it.
pub(crate) fn is_instance<T: Object>(index: i32) -> bool {
    is_derived(index, T::type_index())
}

/// Returns whether a registered type is another one or derived from it.
fn is_derived(index: i32, expected: i32) -> bool {
    if index == expected || expected == type_index::OBJECT {
        return true;
    }
    let api = provider::api();
    // SAFETY: both indices are registered, `index` because a live object has it. Descriptions live
    // forever, and a type has exactly `type_depth` ancestors.
    unsafe {
        let (own, wanted) = ((api.get_type_info)(index), (api.get_type_info)(expected));
        if own.is_null() || wanted.is_null() || (*own).type_depth <= (*wanted).type_depth {
            return false;
        }
        let ancestor = *(*own).type_ancestors.add((*wanted).type_depth as usize);
        (*ancestor).type_index == expected
    }
}

/// Checks that an object may be used as a `T`: its type is `T` or derived from it, and it is
/// complete.
///
/// # Safety
/// The object is alive, and the caller has counted a reference to it.
#[inline]
unsafe fn check_instance<T: Object>(object: *mut TVMFFIObject) -> Result<(), Mismatch> {
    // SAFETY: promised by the caller.
    unsafe {
        let is_own = T::VARIANTS.is_none() && (*object).type_index == T::type_index();
        if is_own && write_access::seen(object) == State::Complete {
            return Ok(());
        }
        check_other::<T>(object)
    }
}

/// [`check_instance`] for an object whose type is not `T` itself, or that is incomplete.
#[inline(never)]
pub(super) unsafe fn check_other<T: Object>(object: *mut TVMFFIObject) -> Result<(), Mismatch> {
    // SAFETY: promised by the caller.
    unsafe {
        let index = (*object).type_index;
        match T::VARIANTS {
            Some(variants) if !variants.iter().any(|variant| type_index_of(variant) == index) => {
                return Err(not_an_instance::<T>(index));
            }
            None if !is_instance::<T>(index) => return Err(not_an_instance::<T>(index)),
            _ => {}
        }
        let Some(definition) = T::type_def() else { return Ok(()) };
        if let State::Incomplete(record) = write_access::seen(object) {
            return Err(incomplete(index, &construction::missing(object, record)));
        }
        if T::VARIANTS.is_none() && !foreign::is_made_by_rust(index) {
            return foreign::check(object, definition);
        }
        Ok(())
    }
}

#[cold]
fn incomplete(index: i32, missing: &[&str]) -> Mismatch {
    Mismatch::value(format!(
        "the {} is not complete: no value was given for '{}'",
        type_key(index),
        missing.join("', '")
    ))
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

/// Every object reference can be treated as a reference to the root type.
impl From<Function> for ObjRef<ObjectRoot> {
    fn from(function: Function) -> Self {
        // SAFETY: every object is an `ffi.Object`; the function's reference is transferred.
        unsafe { Self::from_raw(function.into_raw()) }
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
    const STORAGE: Storage = Storage::Object;

    unsafe fn is_set(place: *const c_void) -> bool {
        // SAFETY: promised by the caller.
        unsafe { !place.cast::<*const c_void>().read().is_null() }
    }
}

impl<'a, T: Object> FromAny<'a> for ObjRef<T> {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the view keeps the object alive. The reference is counted before the object's
        // state is checked (`write_access.rs`); it is released if the object is not a `T`.
        unsafe {
            embedded::inc_ref_in_order(object);
            let reference = ObjRef::<ObjectRoot>::from_raw(object);
            check_instance::<T>(object)?;
            Ok(Self::from_raw(reference.into_raw()))
        }
    }
}

#[cold]
#[inline(never)]
fn not_an_instance<T: Object>(index: i32) -> Mismatch {
    let key = type_key(index);
    if key != T::TYPE_KEY {
        return Mismatch::TYPE;
    }
    if !foreign::is_made_by_rust(index) {
        return Mismatch::type_note(format!(
            "expected {key} as this library defines it, got the {key} of another language; give one of them another key"
        ));
    }
    Mismatch::type_note(format!(
        "expected {key} as this library lays it out, got the {key} of another library, which lays it out differently; build both \
         from the same version"
    ))
}

impl<T: Object> From<ObjRef<T>> for Any {
    fn from(object: ObjRef<T>) -> Self {
        object.into_any()
    }
}

impl<T: Object> IntoAny for ObjRef<T> {
    fn into_any(self) -> Any {
        // SAFETY: the value takes ownership of the reference.
        unsafe { Any::from_object(self.into_raw()) }
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::Lent(self.to_arg())
    }
}

impl<T: Object> ToArg for ObjRef<T> {
    fn to_arg(&self) -> Arg<'_> {
        let raw = TVMFFIAny::pointer(self.type_index(), self.object.as_ptr().cast());
        // SAFETY: the object lives as long as the borrow.
        Arg::borrowed(unsafe { AnyView::from_raw(raw) })
    }
}
