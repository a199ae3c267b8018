//! Lookup of type keys that may be unknown.

use crate::abi::{TVMFFIByteArray, TVMFFIVersion};
use crate::{Error, provider};

/// Parent index that makes the function look up the key without registering it. It is also the
/// result for an unknown key.
const LOOKUP_ONLY: i32 = -2;

/// The first version with [`LOOKUP_ONLY`]. Older versions treat it as a missing parent, which ends
/// the process.
const FIRST_WITH_LOOKUP_ONLY: (u32, u32, u32) = (0, 1, 13);

/// Returns the index of the type with this key, if it is registered.
///
/// `TVMFFITypeKeyToIndex` reports an unknown key as an error, for which the stock library takes a
/// backtrace (0.15 s the first time).
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
