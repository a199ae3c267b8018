//! The number of holders of each NumPy array's memory: one table for the process. Two extension
//! modules may hold the memory of one array, and the last of them releases it.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kernpack_core::process_table::ProcessTable;

use crate::cpython::capi::{Py, PyObject};

/// Memory, and the array that owns it, apart from its holders.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub(crate) struct Lent {
    pub(crate) memory: *mut c_void,
    pub(crate) owner: *mut PyObject,
}

#[repr(C)]
struct Place {
    lent: Lent,
    /// The number of holders; 0 means that the slot is free.
    holders: usize,
}

const PLACES: usize = 256;

/// The table that libraries built from different versions share. Each library handles the common
/// case itself, in the slots; memory whose slot is taken is counted by the library whose table it
/// is.
#[repr(C)]
pub(crate) struct LentMemory {
    places: UnsafeCell<[Place; PLACES]>,
    /// The lock of the table in builds of Python without the interpreter's lock.
    is_locked: AtomicBool,
    /// The number of memory blocks without a slot.
    others: UnsafeCell<usize>,
    /// Counts a holder of memory without a slot, according to [`step`].
    count_other: extern "C" fn(lent: Lent, step: c_int) -> c_int,
}

// SAFETY: the cells are only touched with the interpreter's lock, or, in builds without it, with
// the table's lock.
unsafe impl Sync for LentMemory {}

/// Steps of `count_other`, with their results.
mod step {
    use core::ffi::c_int;

    /// The first holder, or another one: returns 1.
    pub(super) const FIRST: c_int = 0;
    /// Another holder: returns 1, or 0 if there is none yet.
    pub(super) const MORE: c_int = 1;
    /// One holder less: returns 1 if it was the last one.
    pub(super) const LESS: c_int = 2;
}

static OWN: LentMemory = LentMemory {
    places: UnsafeCell::new(
        [const { Place { lent: Lent { memory: ptr::null_mut(), owner: ptr::null_mut() }, holders: 0 } }; PLACES],
    ),
    is_locked: AtomicBool::new(false),
    others: UnsafeCell::new(0),
    count_other,
};

// SAFETY: only libraries of this project register the name, with a table of this version's layout;
// they are never unloaded.
static TABLE: ProcessTable<LentMemory> =
    unsafe { ProcessTable::new("kernpack.lent_numpy_memory_v1", &OWN, |_theirs, _own| {}) };

/// Runs code that neither runs Python code nor calls this function again.
#[inline]
pub(crate) fn with_holders<R>(py: Py, run: impl FnOnce(&mut Holders<'_>) -> R) -> R {
    let table = TABLE.get();
    let _locked = (!py.is_plain()).then(|| Locked::take(&table.is_locked));
    // SAFETY: this thread holds the interpreter's lock, or that of the table, and `run` does not
    // come here again.
    run(&mut Holders { places: unsafe { &mut *table.places.get() }, table })
}

/// The lock of the table, which is held for some instructions.
struct Locked<'a>(&'a AtomicBool);

impl<'a> Locked<'a> {
    fn take(is_locked: &'a AtomicBool) -> Self {
        while is_locked.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::thread::yield_now();
        }
        Self(is_locked)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The table, for the holder of its lock.
pub(crate) struct Holders<'a> {
    places: &'a mut [Place; PLACES],
    table: &'a LentMemory,
}

impl Holders<'_> {
    #[inline]
    fn place(&mut self, lent: Lent) -> &mut Place {
        let address = lent.memory.addr();
        // Memory of small arrays is some tens of bytes apart, that of large ones some pages.
        &mut self.places[((address >> 4) ^ (address >> 12)) % PLACES]
    }

    /// Counts the first holder.
    #[inline]
    pub(crate) fn insert(&mut self, lent: Lent) {
        let place = self.place(lent);
        if place.holders == 0 {
            *place = Place { lent, holders: 1 };
        } else {
            self.count_other(lent, step::FIRST);
        }
    }

    /// Counts another holder; returns `false` if there is none yet.
    #[inline]
    pub(crate) fn add(&mut self, lent: Lent) -> bool {
        let place = self.place(lent);
        if place.holders > 0 && place.lent == lent {
            place.holders += 1;
            return true;
        }
        self.count_other(lent, step::MORE)
    }

    /// Counts one holder less; returns `true` if it was the last one.
    #[inline]
    pub(crate) fn remove(&mut self, lent: Lent) -> bool {
        let place = self.place(lent);
        if place.holders > 0 && place.lent == lent {
            place.holders -= 1;
            return place.holders == 0;
        }
        self.count_other(lent, step::LESS)
    }

    #[inline]
    fn count_other(&self, lent: Lent, step: c_int) -> bool {
        // SAFETY: this is the holder of the table's lock.
        let is_any = step == step::FIRST || unsafe { *self.table.others.get() } > 0;
        is_any && (self.table.count_other)(lent, step) != 0
    }
}

/// Holders of memory whose slot was taken, by the addresses of the memory and of its array.
static OTHERS: Mutex<Option<HashMap<(usize, usize), usize>>> = Mutex::new(None);

extern "C" fn count_other(lent: Lent, step: c_int) -> c_int {
    let mut others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner);
    let others = others.get_or_insert_default();
    let key = (lent.memory.addr(), lent.owner.addr());
    let answer = match others.get_mut(&key) {
        Some(holders) if step == step::LESS => {
            *holders -= 1;
            let is_last = *holders == 0;
            if is_last {
                others.remove(&key);
            }
            is_last
        }
        Some(holders) => {
            *holders += 1;
            true
        }
        None if step == step::FIRST => {
            others.insert(key, 1);
            true
        }
        None => false,
    };
    // SAFETY: the caller is the holder of the lock of this library's table.
    unsafe { *OWN.others.get() = others.len() };
    c_int::from(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_counted_whatever_places_they_have() {
        // SAFETY: the only code of this test program that uses the table.
        let places = unsafe { &mut *OWN.places.get() };
        let mut holders = Holders { places, table: &OWN };
        // Several for each slot, and two arrays that claim to own the same memory.
        let lent: Vec<Lent> = (1..2000)
            .map(|at| Lent {
                memory: ptr::without_provenance_mut((at / 2) * 96),
                owner: ptr::without_provenance_mut(at * 64),
            })
            .collect();
        for (round, lent) in lent.iter().enumerate() {
            assert!(!holders.add(*lent));
            holders.insert(*lent);
            for _ in 0..round % 3 {
                assert!(holders.add(*lent));
            }
        }
        for (round, lent) in lent.iter().enumerate() {
            for _ in 0..round % 3 {
                assert!(!holders.remove(*lent));
            }
            assert!(holders.remove(*lent));
            assert!(!holders.add(*lent) && !holders.remove(*lent));
        }
        assert!(OTHERS.lock().unwrap().as_ref().is_none_or(HashMap::is_empty));
    }
}
