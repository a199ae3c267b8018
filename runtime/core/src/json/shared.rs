//! Texts of containers that are parts of several others.
//!
//! A graph with shared parts has as many paths as a tree of exponential size. JSON has them all, so that the text of a shared part is
//! copied, and a text that becomes too long is an error before it fills the memory.

use core::ops::Range;
use std::collections::HashMap;

use crate::abi::TVMFFIObject;
use crate::embedded;
use crate::value::Any;
use crate::{Result, error};

/// Length of a text that is repeated without a limit.
const SHORT: usize = 1024;

/// Bytes that may be repeated of longer texts.
const MOST_REPEATED: usize = 256 << 20;

/// Places of texts in what was written.
#[derive(Default)]
pub(super) struct SharedTexts {
    /// By container and indentation, which the lines of a text depend on.
    places: HashMap<(*mut TVMFFIObject, i32), Range<usize>>,
    /// The containers: no other object gets the address of one of them meanwhile.
    kept: Vec<Any>,
    repeated: usize,
}

impl SharedTexts {
    /// Writes the text of a container that was written before; false for another one.
    #[inline]
    pub(super) fn repeat(&mut self, container: *mut TVMFFIObject, margin: i32, out: &mut Vec<u8>) -> Result<bool> {
        let Some(place) = self.places.get(&(container, margin)) else { return Ok(false) };
        if place.len() > SHORT {
            self.repeated += place.len();
            if self.repeated > MOST_REPEATED {
                return Err(error!(
                    ValueError,
                    "The text is too long: its parts are shared, and JSON repeats them to more than {} MiB. ToJSONGraphString writes \
                     each of them once",
                    MOST_REPEATED >> 20
                ));
            }
        }
        out.extend_from_within(place.clone());
        Ok(true)
    }

    /// Notes where the text of a container is.
    ///
    /// # Safety
    /// The container is alive.
    #[inline]
    pub(super) unsafe fn note(&mut self, container: *mut TVMFFIObject, margin: i32, place: Range<usize>) {
        // SAFETY: promised by the caller; the new reference is the value's.
        self.kept.push(unsafe {
            embedded::inc_ref(container);
            Any::from_object(container)
        });
        self.places.insert((container, margin), place);
    }
}
