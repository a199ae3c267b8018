//! A stable state of a container, for a walk.

use crate::abi::{TVMFFIObject, type_index};
use crate::embedded::{self, list, map, seq};

/// A container as it was when the walk reached it: an array or map itself, which does not change,
/// or a copy of a list or dict, which other code may change meanwhile. After making a copy, a walk
/// takes references as it does before a hook: the values that it has read may be released from then
/// on.
pub(crate) struct Frozen {
    container: *mut TVMFFIObject,
    is_copy: bool,
}

impl Frozen {
    /// # Safety
    /// `container` is a live array, list, map or dict, and stays alive as long as the result is
    /// used.
    #[inline]
    pub(crate) unsafe fn of(container: *mut TVMFFIObject) -> Self {
        // SAFETY: promised by the caller.
        unsafe {
            match (*container).type_index {
                type_index::LIST => {
                    let elements = list::shared::elements(container).into_owned();
                    Self { container: seq::new_list(elements), is_copy: true }
                }
                type_index::DICT => Self { container: map::shared::copy(container), is_copy: true },
                _ => Self { container, is_copy: false },
            }
        }
    }

    /// The container to read from, of the same type.
    #[inline]
    pub(crate) const fn get(&self) -> *mut TVMFFIObject {
        self.container
    }

    #[inline]
    pub(crate) const fn is_copy(&self) -> bool {
        self.is_copy
    }
}

impl Drop for Frozen {
    #[inline]
    fn drop(&mut self) {
        if self.is_copy {
            // SAFETY: the reference to the copy is ours.
            unsafe { embedded::dec_ref(self.container) };
        }
    }
}
