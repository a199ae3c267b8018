//! Values by name, for as long as the table lives: any thread looks up names without a lock, and
//! the entries that it finds never move.
//!
//! An open-addressing index of at least twice as many slots as names points to the entries. An
//! entry is complete before it is inserted into the index, and is never changed by the table or
//! removed; a larger index is complete before it replaces the smaller one, which is kept for
//! threads that still read it. So a lookup is one load of the index and a few of its slots.
//! `tests/loom` checks this file.

use core::marker::PhantomData;
use core::ptr::null_mut;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

use super::atomic::{AtomicPtr, Mutex, Ordering, lock};

/// A table from names to values.
pub struct NameTable<V> {
    /// NULL before the first name.
    index: AtomicPtr<Index>,
    /// The number of names; its lock protects all changes.
    count: Mutex<usize>,
    values: PhantomData<V>,
}

/// The start of an [`Entry`], which is the same for all types of values.
struct Name {
    hash: u64,
    text: Box<[u8]>,
}

#[repr(C)]
struct Entry<V> {
    name: Name,
    value: V,
}

/// The start of an index; its slots follow. A slot is NULL or points to the name of an entry.
#[repr(C)]
pub struct Index {
    /// The number of slots, which is a power of two, minus one.
    mask: usize,
    /// The smaller index that this one replaced.
    previous: *mut Index,
    slots: [AtomicPtr<Name>; 0],
}

/// The number of slots of the first index.
const FIRST_SLOTS: usize = 16;

impl<V: Sync> NameTable<V> {
    /// Creates an empty table, from a NULL pointer and 0.
    ///
    /// # Safety
    /// The pointer is NULL and the number is 0.
    pub const unsafe fn new(index: AtomicPtr<Index>, count: Mutex<usize>) -> Self {
        Self { index, count, values: PhantomData }
    }

    /// The value of a name.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&V> {
        // SAFETY: the name in an index of this table is the start of an entry of `V`, which lives
        // as long as the table.
        unsafe {
            let found = find(self.index.load(Ordering::Acquire), name, hash(name));
            found.cast::<Entry<V>>().as_ref().map(|entry| &entry.value)
        }
    }

    /// The value of a name, created by `new` if the name is new. The table is locked while `new`
    /// runs.
    pub fn get_or_insert(&self, name: &[u8], new: impl FnOnce() -> V) -> &V {
        let mut new = Some(new);
        let mut make = |name| {
            let value = new.take().map(|new| new())?;
            Some(Box::into_raw(Box::new(Entry { name, value })).cast())
        };
        let entry = find_or_insert(&self.index, &self.count, name, &mut make).cast::<Entry<V>>();
        // SAFETY: the name in an index of this table is the start of an entry of `V`, which is
        // never changed and lives as long as the table.
        unsafe { &(*entry).value }
    }

    /// All names and values at this moment, in undefined order.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &V)> {
        let index = self.index.load(Ordering::Acquire);
        // SAFETY: an index lives as long as the table, and so do the entries in it, which are of
        // `V`.
        let size = unsafe { size(index) };
        // SAFETY: as above.
        let names = (0..size).map(move |number| unsafe { slot(index, number).load(Ordering::Acquire) });
        // SAFETY: as above.
        names.filter_map(|name| unsafe {
            let entry = name.cast::<Entry<V>>().as_ref()?;
            Some((&*entry.name.text, &entry.value))
        })
    }
}

impl<V> Drop for NameTable<V> {
    fn drop(&mut self) {
        let mut index = self.index.load(Ordering::Acquire);
        // The largest index has all names; the smaller ones contain a part of them.
        // SAFETY: no other code has the table any more, so its names and indices are ours; each is
        // freed once.
        unsafe {
            for number in 0..size(index) {
                let name = slot(index, number).load(Ordering::Relaxed);
                if !name.is_null() {
                    drop(Box::from_raw(name.cast::<Entry<V>>()));
                }
            }
            while !index.is_null() {
                let previous = (*index).previous;
                free_index(index);
                index = previous;
            }
        }
    }
}

/// # Safety
/// `index` is NULL or an index.
unsafe fn size(index: *mut Index) -> usize {
    // SAFETY: promised by the caller.
    if index.is_null() { 0 } else { unsafe { (*index).mask + 1 } }
}

/// # Safety
/// `index` is an index with a slot of this number.
#[inline]
unsafe fn slot(index: *mut Index, number: usize) -> &'static AtomicPtr<Name> {
    // SAFETY: the slots follow the start of the index, and live as long as it.
    unsafe { &*(&raw const (*index).slots).cast::<AtomicPtr<Name>>().add(number) }
}

/// # Safety
/// `index` is NULL or an index.
unsafe fn find(index: *mut Index, text: &[u8], hash: u64) -> *mut Name {
    if index.is_null() {
        return null_mut();
    }
    // SAFETY: promised by the caller. At least half of the slots are free, so the search ends;
    // names live as long as the table.
    unsafe {
        let mask = (*index).mask;
        let mut number = hash as usize & mask;
        loop {
            let name = slot(index, number).load(Ordering::Acquire);
            if name.is_null() || ((*name).hash == hash && *(*name).text == *text) {
                return name;
            }
            number = (number + 1) & mask;
        }
    }
}

/// The entry of a name, created by `make` if the name is new. A single function for all types of
/// values, on which it does not depend; `make` is called at most once.
fn find_or_insert(
    index: &AtomicPtr<Index>,
    count: &Mutex<usize>,
    text: &[u8],
    make: &mut dyn FnMut(Name) -> Option<*mut Name>,
) -> *mut Name {
    let hash = hash(text);
    // SAFETY: an index lives as long as the table.
    let find = || unsafe { find(index.load(Ordering::Acquire), text, hash) };
    let found = find();
    if !found.is_null() {
        return found;
    }
    let mut count = lock(count);
    let found = find();
    if !found.is_null() {
        return found;
    }
    let Some(entry) = make(Name { hash, text: text.into() }) else { unreachable!("it is called once") };
    *count += 1;
    insert(index, *count, entry);
    entry
}

/// Makes the entry of a new name visible. The caller holds the lock; `count` includes the name.
#[inline(never)]
fn insert(current: &AtomicPtr<Index>, count: usize, name: *mut Name) {
    let index = current.load(Ordering::Relaxed);
    // SAFETY: indices and names live as long as the table, and only the holder of the lock changes
    // them.
    unsafe {
        let size = size(index);
        if 2 * count <= size {
            enter(index, name);
            return;
        }
        let larger = new_index((2 * size).max(FIRST_SLOTS), index);
        for number in 0..size {
            let name = slot(index, number).load(Ordering::Relaxed);
            if !name.is_null() {
                enter(larger, name);
            }
        }
        enter(larger, name);
        current.store(larger, Ordering::Release);
    }
}

/// Writes a name into the first free slot from its home slot on.
///
/// # Safety
/// `index` has free slots and is changed by this thread only; `name` is complete.
unsafe fn enter(index: *mut Index, name: *mut Name) {
    // SAFETY: promised by the caller.
    unsafe {
        let mask = (*index).mask;
        let mut number = (*name).hash as usize & mask;
        while !slot(index, number).load(Ordering::Relaxed).is_null() {
            number = (number + 1) & mask;
        }
        slot(index, number).store(name, Ordering::Release);
    }
}

/// Frees the memory of an index.
///
/// # Safety
/// `index` came from [`new_index`] and is not used any more.
unsafe fn free_index(index: *mut Index) {
    // SAFETY: promised by the caller.
    unsafe {
        let slots = size(index);
        for number in 0..slots {
            core::ptr::drop_in_place((&raw mut (*index).slots).cast::<AtomicPtr<Name>>().add(number));
        }
        dealloc(index.cast(), layout_of(slots));
    }
}

/// The memory layout of an index.
fn layout_of(slots: usize) -> Layout {
    let layout = Layout::array::<AtomicPtr<Name>>(slots).and_then(|slots| Layout::new::<Index>().extend(slots));
    layout.expect("as many names as fit into memory").0
}

fn new_index(slots: usize, previous: *mut Index) -> *mut Index {
    let layout = layout_of(slots);
    // SAFETY: the layout is not empty; all writes are inside it, see `slot`.
    unsafe {
        let index = alloc(layout).cast::<Index>();
        if index.is_null() {
            handle_alloc_error(layout);
        }
        (&raw mut (*index).mask).write(slots - 1);
        (&raw mut (*index).previous).write(previous);
        let first = (&raw mut (*index).slots).cast::<AtomicPtr<Name>>();
        for number in 0..slots {
            first.add(number).write(AtomicPtr::new(null_mut()));
        }
        index
    }
}

/// A hash that only this table uses: words of 8 bytes, multiplied to 128 bits and folded.
#[inline]
fn hash(text: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
        product as u64 ^ (product >> 64) as u64
    };
    let start = text.len() as u64 ^ 0x243f_6a88_85a3_08d3;
    // The last word may overlap the one before, which is faster than padding it.
    if let Some(last) = text.last_chunk::<8>() {
        let (words, _) = text.as_chunks::<8>();
        let hash = words.iter().fold(start, |hash, word| mix(hash, u64::from_le_bytes(*word)));
        return mix(hash, u64::from_le_bytes(*last));
    }
    let word = match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        (Some(first), Some(last)) => u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)),
        _ => text.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    mix(start, word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_table<V: Sync>() -> NameTable<V> {
        // SAFETY: NULL and 0.
        unsafe { NameTable::new(AtomicPtr::new(null_mut()), Mutex::new(0)) }
    }

    #[test]
    fn names_are_found_and_keep_their_value() {
        let table = new_table();
        assert_eq!((table.get(b"a"), table.entries().count()), (None, 0));
        for (name, value) in [("b", 1), ("a", 2), ("", 3), ("a", 4)] {
            table.get_or_insert(name.as_bytes(), || value);
        }
        assert_eq!(
            (table.get(b"a"), table.get(b"b"), table.get(b""), table.get(b"c")),
            (Some(&2), Some(&1), Some(&3), None)
        );
        let mut entries: Vec<_> = table.entries().collect();
        entries.sort_unstable();
        assert_eq!(entries, [(&b""[..], &3), (b"a", &2), (b"b", &1)]);
    }

    #[test]
    fn values_never_move() {
        let table = new_table();
        let name = |number: usize| format!("a.name.of.{}{number}", "x".repeat(number % 9));
        let addresses: Vec<_> =
            (0..3000).map(|number| &raw const *table.get_or_insert(name(number).as_bytes(), || number)).collect();
        for (number, address) in addresses.into_iter().enumerate() {
            assert_eq!(table.get(name(number).as_bytes()).map(core::ptr::from_ref), Some(address));
            // SAFETY: entries live as long as the table.
            assert_eq!(unsafe { *address }, number);
        }
        assert_eq!((table.get(name(3000).as_bytes()), table.entries().count()), (None, 3000));
    }

    #[test]
    fn hashes_spread() {
        let mut slots = [0; 1024];
        for number in 0..1024 {
            slots[hash(format!("ffi.reflection.Type{number}").as_bytes()) as usize % 1024] += 1;
        }
        // Of 1024 balls in 1024 bins, the fullest bin has more than 8 about once in 1000 times.
        assert!(slots.into_iter().max().unwrap() <= 8);
    }

    #[test]
    fn threads_insert_and_look_up() {
        let table = new_table::<usize>();
        let name = |number: usize| format!("name {number}");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for number in 0..500 {
                        let key = name((number + thread * 100) % 700);
                        let value = table.get_or_insert(key.as_bytes(), || thread);
                        assert!(core::ptr::eq(value, table.get(key.as_bytes()).unwrap()));
                    }
                });
            }
        });
        assert_eq!(table.entries().count(), 700);
    }
}
