//! Texts of containers that are part of several others.
//!
//! A graph with shared parts can have as many paths as a tree of exponential size, and JSON
//! contains each of them. So the text of a shared part is copied, and a text that becomes too long
//! is an error before it fills the memory.

use core::ops::Range;
use std::collections::HashMap;

use crate::abi::TVMFFIObject;
use crate::embedded;
use crate::value::Any;
use crate::{Result, error};

/// Maximum length of a text that may be repeated without a limit.
const SHORT: usize = 1024;

/// Total number of bytes of longer texts that may be repeated.
const MOST_REPEATED: usize = 256 << 20;

/// Positions of texts in the output.
#[derive(Default)]
pub(super) struct SharedTexts {
    /// Keyed by container and indentation, since the lines of a text depend on the indentation.
    places: HashMap<(*mut TVMFFIObject, i32), Range<usize>>,
    /// References to the containers, so that no other object gets the address of one of them.
    kept: Vec<Any>,
    repeated: usize,
}

impl SharedTexts {
    /// Copies the text of a container that was written before; returns false if it was not.
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

    /// Records the position of a container's text.
    ///
    /// # Safety
    /// The container is alive.
    #[inline]
    pub(super) unsafe fn note(&mut self, container: *mut TVMFFIObject, margin: i32, place: Range<usize>) {
        // SAFETY: promised by the caller; the value owns the new reference.
        self.kept.push(unsafe {
            embedded::inc_ref(container);
            Any::from_object(container)
        });
        self.places.insert((container, margin), place);
    }
}
