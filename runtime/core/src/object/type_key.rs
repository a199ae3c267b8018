//! Looking a type key up that may be unknown.

use crate::abi::{TVMFFIByteArray, TVMFFIVersion};
use crate::{Error, provider};

/// As the parent of a new type: look the key up, and register nothing. An unknown key gives this number, too.
const LOOKUP_ONLY: i32 = -2;

/// The first version with [`LOOKUP_ONLY`]. Older ones take it for a missing parent, and that ends the process.
const FIRST_WITH_LOOKUP_ONLY: (u32, u32, u32) = (0, 1, 13);

/// The index of the type with this key, if there is one.
///
/// `TVMFFITypeKeyToIndex` answers an unknown key with an error, for which the stock library takes a backtrace (0.15 s the first time).
pub(crate) fn index_of_key(key: &[u8]) -> Option<i32> {
    let (api, key) = (provider::api(), TVMFFIByteArray::new(key));
    let TVMFFIVersion { major, minor, patch } = provider::version();
    if (major, minor, patch) >= FIRST_WITH_LOOKUP_ONLY {
        // SAFETY: the key is valid for the call.
        let index = unsafe { (api.type_get_or_alloc_index)(&key, -1, 0, 0, 0, LOOKUP_ONLY) };
        return (index >= 0).then_some(index);
    }
    let mut index = 0;
    // SAFETY: the key is valid for the call and `index` is writable.
    Error::check(unsafe { (api.type_key_to_index)(&key, &mut index) }).ok().map(|()| index)
}
