//! The entries of a map in order: an iterator for a map that does not change meanwhile, and
//! positions for a map that other code may change between two steps.

use crate::abi::{TVMFFIAny, TVMFFIObject};

use super::blocks::NO_SLOT;
use super::cell::{MapBody, Pair, body_of, dense_table, is_small};

/// The position after the last entry.
pub const END: u64 = NO_SLOT;

/// The entries in order, borrowed.
///
/// # Safety
/// `map` is a live map or dict; it lives and is not changed while the iterator is used.
pub unsafe fn iter(map: *mut TVMFFIObject) -> Entries {
    // SAFETY: promised by the caller.
    unsafe { Entries::new(body_of(map)) }
}

/// Iterator over the entries of a map; see [`iter`].
pub struct Entries {
    body: *mut MapBody,
    position: u64,
    left: u64,
}

impl Entries {
    /// # Safety
    /// As for [`iter`].
    pub(super) unsafe fn new(body: *mut MapBody) -> Self {
        // SAFETY: promised by the caller.
        unsafe { Self { body, position: if is_small(body) { 0 } else { (*body).head }, left: (*body).cell.size } }
    }
}

impl Iterator for Entries {
    type Item = (TVMFFIAny, TVMFFIAny);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 || self.position == NO_SLOT {
            return None;
        }
        self.left -= 1;
        // SAFETY: the creator of the iterator promised a live and unchanged map; the position is
        // that of an entry.
        unsafe {
            if is_small(self.body) {
                let pair = *(*self.body).cell.data.cast::<Pair>().add(self.position as usize);
                self.position += 1;
                return Some((pair.key, pair.value));
            }
            let (key, value, next) = dense_table(self.body).entry(self.position);
            self.position = next;
            Some((key, value))
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

/// The position of the first entry, or [`END`].
///
/// # Safety
/// `map` is a live map or dict that does not change during the call.
pub unsafe fn first(map: *mut TVMFFIObject) -> u64 {
    // SAFETY: promised by the caller.
    unsafe {
        let body = body_of(map);
        match (*body).cell.size {
            0 => END,
            _ if is_small(body) => 0,
            _ => (*body).head,
        }
    }
}

/// The key and the value at a position, borrowed; `None` if there is no entry (any more).
///
/// # Safety
/// As for [`first`]. The position may be any number.
pub unsafe fn entry_at(map: *mut TVMFFIObject, position: u64) -> Option<(TVMFFIAny, TVMFFIAny)> {
    // SAFETY: promised by the caller; only occupied positions are read.
    unsafe {
        let body = body_of(map);
        if is_small(body) {
            if position >= (*body).cell.size {
                return None;
            }
            let pair = *(*body).cell.data.cast::<Pair>().add(position as usize);
            return Some((pair.key, pair.value));
        }
        let table = dense_table(body);
        table.has_entry(position).then(|| {
            let (key, value, _) = table.entry(position);
            (key, value)
        })
    }
}

/// The address of the value at a position; `None` if there is no entry (any more). The code that
/// writes to it owns the old value.
///
/// # Safety
/// As for [`entry_at`]. The place is valid until the map changes.
pub unsafe fn value_at(map: *mut TVMFFIObject, position: u64) -> Option<*mut TVMFFIAny> {
    // SAFETY: promised by the caller; only occupied positions are looked at.
    unsafe {
        let body = body_of(map);
        if is_small(body) {
            let pairs = (*body).cell.data.cast::<Pair>();
            return (position < (*body).cell.size).then(|| &raw mut (*pairs.add(position as usize)).value);
        }
        let table = dense_table(body);
        table.has_entry(position).then(|| table.value(position))
    }
}

/// The position after `position`, or [`END`].
///
/// # Safety
/// As for [`entry_at`].
pub unsafe fn next(map: *mut TVMFFIObject, position: u64) -> u64 {
    // SAFETY: promised by the caller; only occupied positions are read.
    unsafe {
        let body = body_of(map);
        if is_small(body) {
            return if position < (*body).cell.size.saturating_sub(1) { position + 1 } else { END };
        }
        let table = dense_table(body);
        if table.has_entry(position) { table.entry(position).2 } else { END }
    }
}
