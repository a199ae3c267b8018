use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

use super::{ObjRef, Object};

/// An object as a key that is compared by identity, not by content: for the memo of a pass over a
/// graph. It keeps the object alive.
///
/// For keys that are compared by content, use `kernpack::structural::StructuralKey`.
///
/// ```
/// use std::collections::HashMap;
///
/// use kernpack::{Identity, ObjRef, Object};
///
/// #[derive(Object)]
/// #[object(key = "docs.Memoized")]
/// #[repr(C)]
/// pub struct Memoized {
///     pub value: i64,
/// }
///
/// let (a, b) = (ObjRef::new(Memoized { value: 1 }), ObjRef::new(Memoized { value: 1 }));
/// let memo = HashMap::from([(Identity(a.clone()), "a"), (Identity(b), "b")]);
/// assert_eq!(memo.len(), 2);
/// assert_eq!(memo[&Identity(a)], "a");
/// ```
pub struct Identity<T: Object>(pub ObjRef<T>);

impl<T: Object> Clone for Identity<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Object> Deref for Identity<T> {
    type Target = ObjRef<T>;

    fn deref(&self) -> &ObjRef<T> {
        &self.0
    }
}

impl<T: Object> From<ObjRef<T>> for Identity<T> {
    fn from(object: ObjRef<T>) -> Self {
        Self(object)
    }
}

impl<T: Object> PartialEq for Identity<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl<T: Object> Eq for Identity<T> {}

impl<T: Object> Hash for Identity<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().hash(state);
    }
}

impl<T: Object> fmt::Debug for Identity<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:p}", self.0.type_key(), self.0.as_ptr())
    }
}
