//! Keys of maps and elements of sets.

use std::hash::{DefaultHasher, Hash, Hasher};

use kernpack::python::{Object, builtin};
use kernpack::{Error, Result, error};

/// A Python object with its hash, which is computed once.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) object: Object,
    hash: isize,
}

impl Key {
    /// Returns the key, or the exception of the object's `__hash__`.
    pub(crate) fn new(object: Object) -> Result<Self> {
        Ok(Self { hash: object.hash_value()?, object })
    }

    /// Returns a hash of the key and another hash.
    pub(crate) fn hash_with(&self, other: isize) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.hash, other).hash(&mut hasher);
        hasher.finish()
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_isize(self.hash);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.object == other.object
    }
}

impl Eq for Key {}

/// Returns the `KeyError` of a key, which carries the key itself.
pub(crate) fn missing(key: &Object) -> Error {
    let lookup = builtin("dict").and_then(|dict| dict.call(())).and_then(|empty| empty.item(key));
    lookup.err().unwrap_or_else(|| error!(KeyError, "{key:?}"))
}
