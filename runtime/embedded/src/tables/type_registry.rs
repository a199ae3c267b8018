//! Registration of types: assignment of indices to new types, and the types whose index is part of
//! the ABI.

use core::ptr::null_mut;
use core::sync::atomic::AtomicBool;

use crate::abi::{TVMFFIByteArray, TVMFFITypeInfo, TVMFFITypeMetadata, seq_hash_kind, type_index};

use super::type_hash::type_key_hash;
use super::type_table::{INDICES, LOOKUP_ONLY, MAX_TYPES, NewType, TypeEntry, find, keep_text, publish};
use crate::cells::HEADER_SIZE;
use crate::cells::failure::Failure;
use crate::sync::atomic::{self, Mutex, MutexGuard, Ordering};

/// The state that only registration needs.
pub(super) struct Registry {
    /// The first unreserved index.
    end: i32,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { end: type_index::DYN_OBJECT_BEGIN });

/// True if the types whose index is part of the ABI are registered.
static READY: AtomicBool = AtomicBool::new(false);

/// The lock of all type registration.
pub(super) fn lock() -> MutexGuard<'static, Registry> {
    let mut registry = atomic::lock(&REGISTRY);
    if !READY.load(Ordering::Relaxed) {
        registry.register_static_types();
        READY.store(true, Ordering::Release);
    }
    registry
}

/// Returns true if the types whose index is part of the ABI are registered.
pub(super) fn is_ready() -> bool {
    READY.load(Ordering::Acquire)
}

/// Types whose index is part of the ABI: their indices and a text with a line for each key. An
/// array of keys would need a relocation for each, in every library.
struct StaticTypes<const COUNT: usize> {
    indices: [i32; COUNT],
    keys: &'static str,
}

impl<const COUNT: usize> StaticTypes<COUNT> {
    fn iter(&'static self) -> impl Iterator<Item = (i32, &'static [u8])> {
        self.indices.iter().copied().zip(self.keys.as_bytes().split(|byte| *byte == b'\n'))
    }
}

macro_rules! static_types {
    ($name:ident: $($index:path = $key:literal;)*) => {
        static $name: StaticTypes<{ [$($index),*].len() }> =
            StaticTypes { indices: [$($index),*], keys: concat!($($key, "\n"),*) };
    };
}

static_types! { STATIC_VALUES:
    type_index::NONE = "None";
    type_index::INT = "int";
    type_index::BOOL = "bool";
    type_index::FLOAT = "float";
    type_index::OPAQUE_PTR = "void*";
    type_index::DATA_TYPE = "DataType";
    type_index::DEVICE = "Device";
    type_index::DL_TENSOR_PTR = "DLTensor*";
    type_index::RAW_STR = "const char*";
    type_index::BYTE_ARRAY_PTR = "TVMFFIByteArray*";
    type_index::OBJECT_RVALUE_REF = "ObjectRValueRef";
    type_index::SMALL_STR = "ffi.SmallStr";
    type_index::SMALL_BYTES = "ffi.SmallBytes";
    type_index::UNCHANGED = "ffi.Unchanged";
}
static_types! { STATIC_OBJECTS:
    type_index::STR = "ffi.String";
    type_index::BYTES = "ffi.Bytes";
    type_index::ERROR = "ffi.Error";
    type_index::FUNCTION = "ffi.Function";
    type_index::SHAPE = "ffi.Shape";
    type_index::TENSOR = "ffi.Tensor";
    type_index::ARRAY = "ffi.Array";
    type_index::MAP = "ffi.Map";
    type_index::MODULE = "ffi.Module";
    type_index::OPAQUE_PY_OBJECT = "ffi.OpaquePyObject";
    type_index::LIST = "ffi.List";
    type_index::DICT = "ffi.Dict";
    type_index::VISIT_INTERRUPT = "ffi.VisitInterrupt";
    type_index::BIG_INT = "ffi.BigInt";
}

impl Registry {
    /// The first unreserved index.
    pub(super) fn end(&self) -> i32 {
        self.end
    }

    fn register_static_types(&mut self) {
        let root = NewType {
            key: b"ffi.Object",
            static_index: type_index::OBJECT,
            depth: 0,
            num_child_slots: 0,
            can_overflow: true,
            parent: -1,
        };
        let root_info = self.insert(root, type_index::OBJECT, null_mut());
        // SAFETY: the entry is new, and no other code can see it before the table is complete.
        unsafe {
            (*root_info).metadata.total_size = HEADER_SIZE as i32;
            (*root_info).info.metadata = &raw const (*root_info).metadata;
        }
        for (static_index, key) in STATIC_VALUES.iter() {
            let value = NewType { key, static_index, can_overflow: false, ..root };
            self.insert(value, static_index, null_mut());
        }
        for (static_index, key) in STATIC_OBJECTS.iter() {
            let object =
                NewType { key, static_index, depth: 1, can_overflow: false, parent: type_index::OBJECT, ..root };
            self.insert(object, static_index, root_info);
        }
    }

    /// The index of a type, which is registered if its key is new; see
    /// [`super::type_table::get_or_allocate`].
    pub(super) fn get_or_allocate(&mut self, new: NewType<'_>) -> Result<i32, Failure> {
        // Another thread may have been faster.
        if let Some(index) = INDICES.get(new.key) {
            return Ok(*index);
        }
        if new.parent == LOOKUP_ONLY {
            return Ok(LOOKUP_ONLY);
        }
        let key = String::from_utf8_lossy(new.key);
        if new.num_child_slots < 0 || new.depth < 0 {
            return Err(Failure::internal(format_args!(
                "type `{key}`: neither the depth ({}) nor the number of child slots ({}) can be negative",
                new.depth, new.num_child_slots
            )));
        }
        let parent = if new.parent < 0 { null_mut() } else { find(new.parent) };
        if new.parent >= 0 && parent.is_null() {
            return Err(Failure::internal(format_args!("type `{key}`: no type has the parent's index {}", new.parent)));
        }
        // SAFETY: entries are only changed under the lock, which we hold.
        if new.depth != 0 && (parent.is_null() || unsafe { (*parent).info.type_depth } + 1 != new.depth) {
            return Err(Failure::internal(format_args!(
                "type `{key}`: its depth {} is not its parent's depth plus 1",
                new.depth
            )));
        }
        let index = self.allocate(new, parent)?;
        // SAFETY: as above.
        let can_overflow = new.can_overflow && (parent.is_null() || unsafe { (*parent).can_overflow });
        self.insert(NewType { can_overflow, ..new }, index, parent);
        Ok(index)
    }

    fn allocate(&mut self, new: NewType<'_>, parent: *mut TypeEntry) -> Result<i32, Failure> {
        let key = String::from_utf8_lossy(new.key);
        // SAFETY of the blocks below: entries are only changed under the lock, which we hold; NULL
        // is checked.
        if new.static_index >= 0 {
            let other = find(new.static_index);
            if !other.is_null() {
                // SAFETY: see above.
                let other = String::from_utf8_lossy(unsafe { (*other).info.type_key.as_slice() });
                return Err(Failure::internal(format_args!(
                    "Conflicting static index {} between {other} and {key}",
                    new.static_index
                )));
            }
            if new.static_index >= self.end {
                return Err(Failure::internal(format_args!(
                    "type `{key}`: the static index {} is not below {}",
                    new.static_index, self.end
                )));
            }
            if new.parent >= new.static_index {
                return Err(Failure::internal(format_args!(
                    "type `{key}`: its static index {} is not above its parent's index {}",
                    new.static_index, new.parent
                )));
            }
            return Ok(new.static_index);
        }
        if parent.is_null() {
            return Err(Failure::internal(format_args!("type `{key}` needs a parent or a static index")));
        }
        let num_slots = new.num_child_slots.saturating_add(1);
        // SAFETY: see above.
        unsafe {
            if (*parent).used_slots.saturating_add(num_slots) <= (*parent).num_slots {
                let index = (*parent).info.type_index + (*parent).used_slots;
                (*parent).used_slots += num_slots;
                return Ok(index);
            }
            if !(*parent).can_overflow {
                let parent = String::from_utf8_lossy((*parent).info.type_key.as_slice());
                return Err(Failure::internal(format_args!("Reach maximum number of sub-classes for {parent}")));
            }
        }
        let index = self.end;
        match index.checked_add(num_slots) {
            Some(end) if end as usize <= MAX_TYPES => self.end = end,
            _ => {
                return Err(Failure::internal(format_args!(
                    "type `{key}`: the type table has no room for {num_slots} more types"
                )));
            }
        }
        Ok(index)
    }

    /// Creates an entry and makes it visible.
    fn insert(&mut self, new: NewType<'_>, index: i32, parent: *mut TypeEntry) -> *mut TypeEntry {
        let key = keep_text(new.key);
        let mut ancestors: Vec<*const TVMFFITypeInfo> = Vec::with_capacity(new.depth as usize);
        if new.depth > 0 {
            // SAFETY: the parent's entry is complete and has `depth - 1` ancestors, as the caller
            // checked.
            unsafe {
                for ancestor in 0..new.depth as usize - 1 {
                    ancestors.push(*(*parent).info.type_ancestors.add(ancestor));
                }
            }
            ancestors.push(parent.cast_const().cast());
        }
        let entry = Box::leak(Box::new(TypeEntry {
            info: TVMFFITypeInfo {
                type_index: index,
                type_depth: new.depth,
                type_key: TVMFFIByteArray::new(key),
                type_ancestors: ancestors.leak().as_ptr(),
                type_key_hash: type_key_hash(key),
                num_fields: 0,
                num_methods: 0,
                fields: core::ptr::null(),
                methods: core::ptr::null(),
                metadata: core::ptr::null(),
            },
            metadata: TVMFFITypeMetadata {
                doc: TVMFFIByteArray::EMPTY,
                creator: None,
                total_size: 0,
                structural_eq_hash_kind: seq_hash_kind::UNSUPPORTED,
            },
            fields_capacity: 0,
            methods_capacity: 0,
            num_slots: new.num_child_slots.saturating_add(1),
            used_slots: 1,
            can_overflow: new.can_overflow,
        }));
        let entry: *mut TypeEntry = entry;
        publish(index as usize, entry);
        INDICES.get_or_insert(key, || index);
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::type_table::{get_or_allocate, index_of, type_info, type_keys};

    fn new(key: &str, parent: i32) -> NewType<'_> {
        let depth = if parent < 0 { 0 } else { info(parent).type_depth + 1 };
        NewType { key: key.as_bytes(), static_index: -1, depth, num_child_slots: 0, can_overflow: true, parent }
    }

    fn info(index: i32) -> TVMFFITypeInfo {
        // SAFETY: the tests ask for registered types.
        unsafe { *type_info(index) }
    }

    #[test]
    fn static_types_are_there() {
        let root = [(type_index::OBJECT, b"ffi.Object".as_slice())];
        for (index, key) in STATIC_VALUES.iter().chain(STATIC_OBJECTS.iter()).chain(root) {
            assert_eq!(index_of(key).unwrap(), index);
            let info = info(index);
            // SAFETY: the key and the ancestors live as long as the process.
            unsafe {
                assert_eq!(info.type_key.as_slice(), key);
                assert_eq!((info.type_index, info.type_depth), (index, i32::from(index > 64)));
                if index > 64 {
                    assert_eq!(*info.type_ancestors, type_info(64));
                }
            }
        }
        assert!(type_info(14).is_null() && type_info(-1).is_null() && type_info(i32::MAX).is_null());
        // SAFETY: the root has metadata.
        assert_eq!(unsafe { (*info(64).metadata).total_size }, 24);
        assert!(index_of(b"no.such").unwrap_err().message().ends_with("Cannot find type `no.such`"));
    }

    #[test]
    fn children_use_the_parents_slots_first() {
        let base = get_or_allocate(NewType { num_child_slots: 2, ..new("slots.Base", 64) }).unwrap();
        assert!(base >= 128);
        let one = get_or_allocate(new("slots.One", base)).unwrap();
        let two = get_or_allocate(new("slots.Two", base)).unwrap();
        assert_eq!((one, two), (base + 1, base + 2));
        let three = get_or_allocate(new("slots.Three", base)).unwrap();
        assert!(three > two);
        assert_eq!(get_or_allocate(new("slots.One", 64)).unwrap(), one, "a known key wins");
        assert_eq!(get_or_allocate(NewType { parent: -2, ..new("slots.Unknown", -1) }).unwrap(), LOOKUP_ONLY);
        let grandchild = get_or_allocate(new("slots.Grandchild", one)).unwrap();
        // SAFETY: a type of depth 3 has three ancestors.
        let ancestors = unsafe { core::slice::from_raw_parts(info(grandchild).type_ancestors, 3) };
        assert_eq!(ancestors, [type_info(64), type_info(base), type_info(one)]);
        assert!(type_keys().contains(&&b"slots.Grandchild"[..]));
    }

    #[test]
    fn broken_rules_are_errors() {
        let message = |new| get_or_allocate(new).unwrap_err().message();
        let closed = get_or_allocate(NewType { can_overflow: false, ..new("rules.Closed", 64) }).unwrap();
        assert_eq!(message(new("rules.Child", closed)), "Reach maximum number of sub-classes for rules.Closed");
        let taken = NewType { static_index: 71, ..new("rules.Taken", 64) };
        assert_eq!(message(taken), "Conflicting static index 71 between ffi.Array and rules.Taken");
        assert!(message(NewType { depth: 5, ..new("rules.Deep", 64) }).contains("depth 5"));
        assert!(message(NewType { parent: 127, ..new("rules.Orphan", 64) }).contains("parent's index 127"));
        assert!(message(NewType { num_child_slots: i32::MAX, ..new("rules.Huge", 64) }).contains("no room"));
        assert!(message(NewType { static_index: 1 << 30, ..new("rules.Far", 64) }).contains("is not below"));
        assert!(message(new("rules.Rootless", -1)).contains("needs a parent"));
    }

    #[test]
    fn threads_register_and_look_up() {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                std::thread::spawn(move || {
                    for number in 0..200 {
                        let key = format!("threads.T{}", (number + thread * 50) % 300);
                        let index = get_or_allocate(new(&key, 64)).unwrap();
                        // SAFETY: the key lives as long as the process.
                        assert_eq!(unsafe { info(index).type_key.as_slice() }, key.as_bytes());
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
