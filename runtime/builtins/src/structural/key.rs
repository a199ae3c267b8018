use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

use super::{equal, hash};
use crate::Result;
use crate::value::ToArg;

/// A map key that is compared by structure: two keys are equal if the wrapped values are
/// structurally equal.
///
/// The hash is computed when the key is created. As for any key, the wrapped value should not
/// change while the key is in a map; a list or a writable field could.
///
/// ```
/// use std::collections::HashMap;
///
/// use kernpack::Array;
/// use kernpack::structural::StructuralKey;
///
/// let key = |numbers: Vec<i64>| StructuralKey::new(Array::from(numbers));
/// let mut names = HashMap::new();
/// names.insert(key(vec![1, 2])?, "one and two");
/// assert_eq!(names[&key(vec![1, 2])?], "one and two");
/// assert!(!names.contains_key(&key(vec![2, 1])?));
/// # Ok::<(), kernpack::Error>(())
/// ```
#[derive(Clone)]
pub struct StructuralKey<T> {
    value: T,
    hash: u64,
}

impl<T: ToArg> StructuralKey<T> {
    /// Creates a key that wraps a value.
    ///
    /// # Errors
    /// As for [`hash`]: a value without a structure cannot be a key.
    pub fn new(value: T) -> Result<Self> {
        let hash = hash(&value)?;
        Ok(Self { value, hash })
    }
}

impl<T> StructuralKey<T> {
    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// The structural hash of the value.
    pub const fn structural_hash(&self) -> u64 {
        self.hash
    }
}

impl<T> Deref for StructuralKey<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// If the comparison fails because a hook raised an error, the keys are different.
impl<T: ToArg> PartialEq for StructuralKey<T> {
    fn eq(&self, other: &Self) -> bool {
        if self.hash != other.hash {
            return false;
        }
        let (left, right) = (self.value.to_arg().as_raw(), other.value.to_arg().as_raw());
        let is_same = left.type_index == right.type_index
            && left.type_index >= crate::abi::type_index::STATIC_OBJECT_BEGIN
            && left.bits() == right.bits();
        is_same || equal(&self.value, &other.value).unwrap_or(false)
    }
}

impl<T: ToArg> Eq for StructuralKey<T> {}

impl<T> Hash for StructuralKey<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl<T: fmt::Debug> fmt::Debug for StructuralKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
