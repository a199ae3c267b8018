use super::lent;
use crate::Result;
use crate::engines::deep_copy as engine;
use crate::value::{FromAny, ToArg};

/// A copy of a value and of all that it consists of, as `ffi.DeepCopy` makes it: what is shared stays shared, and cycles stay cycles.
/// Text, bytes and other values that never change are not copied.
///
/// # Errors
/// For objects of a type that cannot be copied, and what setters raise.
///
/// ```
/// use kernpack::structural::{deep_copy, equal};
/// use kernpack::{ObjRef, Object};
///
/// #[derive(Object, Clone)]
/// #[object(key = "docs.Copied")]
/// #[repr(C)]
/// pub struct Copied {
///     pub value: i64,
/// }
///
/// let object = ObjRef::new(Copied { value: 7 });
/// let copy = deep_copy(&object)?;
/// assert!(equal(&object, &copy)? && !object.ptr_eq(&copy));
/// # Ok::<(), kernpack::Error>(())
/// ```
pub fn deep_copy<T: ToArg + for<'a> FromAny<'a>>(value: &T) -> Result<T> {
    engine::copy(&lent(&value.to_arg()))?.to()
}
