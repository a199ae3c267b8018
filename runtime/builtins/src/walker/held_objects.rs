//! Objects whose addresses an operation records, and which therefore have to stay alive until it is
//! done.

use super::field_value::Read;
use crate::abi::TVMFFIObject;
use crate::embedded;

/// References to such objects.
///
/// An object that is part of another one does not need a reference as long as the other one does
/// not change, and only hooks may change it. So the operation announces its first hook call.
#[derive(Default)]
pub(crate) struct HeldObjects {
    objects: Vec<*mut TVMFFIObject>,
    hooks_may_have_run: bool,
}

impl HeldObjects {
    /// Keeps an object alive. Takes over the reader's reference, if there is one.
    ///
    /// # Safety
    /// The value is a live object, borrowed from one that the operation keeps alive, or owned.
    pub(crate) unsafe fn keep(&mut self, part: Read) {
        // SAFETY: promised by the caller.
        unsafe {
            let object = part.value.payload.v_obj;
            if part.owned && !self.hooks_may_have_run && embedded::strong_count(object) > 1 {
                // The owner that the reader got it from has a reference, too.
                embedded::dec_ref(object);
            } else if part.owned || self.hooks_may_have_run {
                if !part.owned {
                    embedded::inc_ref(object);
                }
                self.objects.push(object);
            }
        }
    }

    /// Keeps an object alive that a getter has created for the reader, when the reader is done with
    /// it: it may be the only owner of parts whose addresses are recorded. The reader keeps its
    /// reference.
    ///
    /// # Safety
    /// The value is a live object.
    #[inline]
    pub(crate) unsafe fn keep_made(&mut self, part: Read) {
        // SAFETY: promised by the caller.
        unsafe {
            let object = part.value.payload.v_obj;
            if part.owned && embedded::strong_count(object) == 1 {
                embedded::inc_ref(object);
                self.objects.push(object);
            }
        }
    }

    /// Called before the first hook runs: takes references to everything that the operation has
    /// recorded; later calls do nothing.
    ///
    /// # Safety
    /// `remembered` yields addresses, with exposed provenance, of objects that were passed to
    /// [`HeldObjects::keep`].
    pub(crate) unsafe fn before_hook(&mut self, remembered: impl Iterator<Item = usize>) {
        if core::mem::replace(&mut self.hooks_may_have_run, true) {
            return;
        }
        for address in remembered {
            let object = core::ptr::with_exposed_provenance_mut(address);
            // SAFETY: no hook has run yet, so that all of them are still alive.
            unsafe { embedded::inc_ref(object) };
            self.objects.push(object);
        }
    }
}

impl Drop for HeldObjects {
    fn drop(&mut self) {
        for object in self.objects.drain(..) {
            // SAFETY: the reference is ours.
            unsafe { embedded::dec_ref(object) };
        }
    }
}
