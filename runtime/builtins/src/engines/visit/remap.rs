//! The values that variables and shared nodes were mapped to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::{TVMFFIAny, TVMFFIObject};
use crate::embedded::release::{release, release_elements, retain};
use crate::embedded::{dec_ref, inc_ref};
use crate::walker::address_map::AddressMap;

/// A table from objects, by address, to values.
#[derive(Default)]
pub(super) struct Remap(Mutex<Table>);

#[derive(Default)]
struct Table {
    // The number of each object's entry.
    numbers: AddressMap,
    // Objects and values, all owned: an address cannot occur twice.
    entries: Vec<(*mut TVMFFIObject, TVMFFIAny)>,
}

// SAFETY: objects and values may be released on any thread: the ABI's rule.
unsafe impl Send for Table {}

impl Remap {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value that the object was mapped to, owned; `None` if it was not mapped.
    pub(super) fn get(&self, object: *mut TVMFFIObject) -> TVMFFIAny {
        let table = self.table();
        match table.numbers.get(object) {
            // SAFETY: the table owns the value, and keeps it while it is locked.
            Some(number) => unsafe { retain(&table.entries[number as usize].1) },
            None => TVMFFIAny::NONE,
        }
    }

    /// Maps the object to an owned value.
    ///
    /// # Safety
    /// `object` is alive; the ownership of the value is transferred.
    pub(super) unsafe fn set(&self, object: *mut TVMFFIObject, mapped: TVMFFIAny) {
        let mut table = self.table();
        let old = if let Some(number) = table.numbers.get(object) {
            core::mem::replace(&mut table.entries[number as usize].1, mapped)
        } else {
            // SAFETY: the caller keeps the object alive.
            unsafe { inc_ref(object) };
            let number = table.entries.len() as u64;
            table.numbers.insert(object, number);
            table.entries.push((object, mapped));
            return;
        };
        drop(table);
        // After the table is unlocked: a destructor may do anything.
        // SAFETY: the table owned the value.
        unsafe { release(old) };
    }

    /// Removes all entries.
    pub(super) fn clear(&self) {
        let old = core::mem::take(&mut *self.table());
        // After the table is unlocked: a destructor may do anything.
        drop(old);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: the table owns the objects and the values.
        unsafe {
            release_elements(self.entries.drain(..).map(|(object, mapped)| {
                dec_ref(object);
                mapped
            }));
        }
    }
}
