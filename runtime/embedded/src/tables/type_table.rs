//! The type table: keys, indices, ancestors.
//!
//! Registration (`type_registry`) takes one lock; looking up a type, by index or by key, takes
//! none, and the address of a type's information never changes. Types live as long as the process.

use core::ptr::{NonNull, null_mut};

use crate::abi::{TVMFFITypeInfo, TVMFFITypeMetadata};

use super::type_registry::{is_ready, lock};
use crate::cells::failure::Failure;
use crate::sync::atomic::{AtomicPtr, Mutex, Ordering};
use crate::sync::name_table::NameTable;

/// Returned by [`get_or_allocate`] for an unknown key when the parent is [`LOOKUP_ONLY`], too.
pub const LOOKUP_ONLY: i32 = -2;

/// The number of types in a chunk, and the number of chunks: at most a million types.
const CHUNK: usize = 1024;
const CHUNKS: usize = 1024;
/// The upper bound of type indices.
pub(super) const MAX_TYPES: usize = CHUNK * CHUNKS;

type Chunk = [AtomicPtr<TypeEntry>; CHUNK];

/// The types with the smallest indices: in most processes, all types.
static FIRST_CHUNK: Chunk = [const { AtomicPtr::new(null_mut()) }; CHUNK];
/// The other types; the first entry is unused and stays NULL.
static OTHER_CHUNKS: [AtomicPtr<Chunk>; CHUNKS] = [const { AtomicPtr::new(null_mut()) }; CHUNKS];

/// The indices of all type keys. A type is complete before its key is inserted.
pub(super) static INDICES: NameTable<i32> =
    // SAFETY: NULL and 0.
    unsafe { NameTable::new(AtomicPtr::new(null_mut()), Mutex::new(0)) };

/// The table's entry for a type: the ABI's part and our own. Changed under the lock only.
#[repr(C)]
pub(super) struct TypeEntry {
    pub(super) info: TVMFFITypeInfo,
    /// Storage of `info.metadata`.
    pub(super) metadata: TVMFFITypeMetadata,
    pub(super) fields_capacity: usize,
    pub(super) methods_capacity: usize,
    /// Indices reserved for this type and its children, this one included.
    pub(super) num_slots: i32,
    /// The number of used indices among them, this type's included.
    pub(super) used_slots: i32,
    /// True if children may get indices elsewhere when the slots are used up.
    pub(super) can_overflow: bool,
}

/// Finds a type; if necessary, initializes the table first.
#[inline]
fn find_ready<T>(find: impl Fn() -> Option<T>) -> Option<T> {
    find().or_else(|| {
        if is_ready() {
            return None;
        }
        drop(lock());
        find()
    })
}

/// A type to be registered: the parameters of `TVMFFITypeGetOrAllocIndex`.
#[derive(Clone, Copy, Debug)]
pub struct NewType<'a> {
    /// Unique name.
    pub key: &'a [u8],
    /// The requested index, or negative for any.
    pub static_index: i32,
    /// Number of ancestors.
    pub depth: i32,
    /// Indices to reserve for children.
    pub num_child_slots: i32,
    /// True if children may get indices elsewhere when the reserved ones are used up.
    pub can_overflow: bool,
    /// Index of the parent; negative for none, [`LOOKUP_ONLY`] for no registration.
    pub parent: i32,
}

/// The index of a type, which is registered if its key is new. With an unknown key and
/// [`LOOKUP_ONLY`] as the parent, the result is [`LOOKUP_ONLY`].
///
/// # Errors
/// `InternalError` with the rule that the new type violates.
pub fn get_or_allocate(new: NewType<'_>) -> Result<i32, Failure> {
    match find_key(new.key) {
        Some(index) => Ok(index),
        None => lock().get_or_allocate(new),
    }
}

/// The index of a type key.
///
/// # Errors
/// `InternalError` for an unknown key.
pub fn index_of(key: &[u8]) -> Result<i32, Failure> {
    find_key(key).ok_or_else(|| {
        let before = b"Check failed: (it != type_key2index_.end()) is false: Cannot find type `";
        Failure::of_parts("InternalError", &[before, key, b"`"])
    })
}

#[inline]
fn find_key(key: &[u8]) -> Option<i32> {
    find_ready(|| INDICES.get(key)).copied()
}

/// The information of a type, or NULL. Its address never changes.
#[inline]
pub fn type_info(type_index: i32) -> *const TVMFFITypeInfo {
    entry(type_index).cast_const().cast()
}

/// Keys of all registered types, by index.
pub fn type_keys() -> Vec<&'static [u8]> {
    let end = lock().end();
    // SAFETY: entries and their keys live as long as the process, and the key is never changed.
    (0..end)
        .map(entry)
        .filter(|entry| !entry.is_null())
        .map(|entry| unsafe { (*entry).info.type_key.as_slice() })
        .collect()
}

/// A type's entry, or NULL.
#[inline]
pub(super) fn entry(type_index: i32) -> *mut TypeEntry {
    find_ready(|| NonNull::new(find(type_index))).map_or(null_mut(), NonNull::as_ptr)
}

#[inline]
pub(super) fn find(type_index: i32) -> *mut TypeEntry {
    // A negative index becomes one that is too large.
    let index = type_index as u32 as usize;
    if let Some(entry) = FIRST_CHUNK.get(index) {
        return entry.load(Ordering::Acquire);
    }
    let Some(chunk) = OTHER_CHUNKS.get(index / CHUNK) else { return null_mut() };
    // SAFETY: chunks are leaked boxes, published by `publish`.
    unsafe { chunk.load(Ordering::Acquire).as_ref() }
        .map_or(null_mut(), |chunk| chunk[index % CHUNK].load(Ordering::Acquire))
}

/// Makes a complete entry visible. Call only under the lock.
pub(super) fn publish(index: usize, entry: *mut TypeEntry) {
    if index < CHUNK {
        FIRST_CHUNK[index].store(entry, Ordering::Release);
        return;
    }
    let chunk = &OTHER_CHUNKS[index / CHUNK];
    if chunk.load(Ordering::Relaxed).is_null() {
        let empty: Box<Chunk> = Box::new([const { AtomicPtr::new(null_mut()) }; CHUNK]);
        chunk.store(Box::leak(empty), Ordering::Release);
    }
    // SAFETY: chunks are never freed.
    unsafe { (&(*chunk.load(Ordering::Relaxed)))[index % CHUNK].store(entry, Ordering::Release) };
}

/// Makes a copy that lives as long as the process, followed by a NUL.
pub(super) fn keep_text(text: &[u8]) -> &'static [u8] {
    let mut copy = Vec::with_capacity(text.len() + 1);
    copy.extend_from_slice(text);
    copy.push(0);
    &copy.leak()[..text.len()]
}
