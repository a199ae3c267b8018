//! Type attributes: columns of values, one value per type. Columns never move; any thread,
//! including C++ code, finds and reads them without a lock.

use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32};

use crate::abi::{TVMFFIAny, TVMFFITypeAttrColumn, type_index};

use super::type_table::MAX_TYPES;
use crate::cells::failure::Failure;
use crate::cells::release::to_owned;
use crate::sync::atomic::{self, AtomicPtr, Mutex, MutexGuard, Ordering};
use crate::sync::name_table::NameTable;
use crate::sync::outgrown;

/// Columns that C++ code expects to exist as soon as the library is loaded.
const NAMES: &str = "__any_hash__
__any_equal__
__ffi_convert__
__ffi_shallow_copy__
__ffi_repr__
__ffi_hash__
__ffi_eq__
__ffi_compare__
__ffi_new__
__ffi_init__
__ffi_type_final__
__ffi_enum__
__data_to_json__
__data_from_json__
__s_equal__
__s_hash__
__s_visit__
__s_mutate__
__s_maybe_inplace_mutate__";

/// A column, changed only under [`LOCK`] and in a way that is safe for readers without it.
struct Column(UnsafeCell<TVMFFITypeAttrColumn>);

// SAFETY: see above; the values are reference-counted atomically.
unsafe impl Sync for Column {}

impl Column {
    fn new() -> Self {
        Self(UnsafeCell::new(TVMFFITypeAttrColumn { data: core::ptr::null(), size: 0, begin_index: 0 }))
    }
}

/// The lock of all changes to columns.
static LOCK: Mutex<()> = Mutex::new(());

static COLUMNS: NameTable<Column> =
    // SAFETY: NULL and 0.
    unsafe { NameTable::new(AtomicPtr::new(null_mut()), Mutex::new(0)) };

/// True if the required columns exist.
static READY: AtomicBool = AtomicBool::new(false);

fn lock() -> MutexGuard<'static, ()> {
    let guard = atomic::lock(&LOCK);
    if !READY.load(Ordering::Relaxed) {
        for name in NAMES.as_bytes().split(|byte| *byte == b'\n') {
            COLUMNS.get_or_insert(name, Column::new);
        }
        READY.store(true, Ordering::Release);
    }
    guard
}

/// Extends a column to `size`. Outgrown arrays are kept for threads that still read them.
///
/// # Safety
/// The caller holds the lock.
unsafe fn extend(column: *mut TVMFFITypeAttrColumn, size: usize) {
    // SAFETY: readers load `size` before `data`, and both are stored in the other order. An array
    // has `capacity_for(size)` values, all of them initialized.
    unsafe {
        let old_size = (*column).size as usize;
        if size <= old_size {
            return;
        }
        if old_size == 0 || size > capacity_for(old_size) {
            let mut grown = Vec::with_capacity(capacity_for(size));
            if old_size > 0 {
                grown.extend_from_slice(core::slice::from_raw_parts((*column).data, old_size));
            }
            grown.resize(capacity_for(size), TVMFFIAny::NONE);
            let data = AtomicPtr::from_ptr((&raw mut (*column).data).cast::<*mut TVMFFIAny>());
            outgrown::keep(data.swap(grown.leak().as_mut_ptr(), Ordering::Release));
        }
        AtomicI32::from_ptr(&raw mut (*column).size).store(size as i32, Ordering::Release);
    }
}

fn capacity_for(size: usize) -> usize {
    size.next_power_of_two().max(256)
}

/// Sets a type's value in a column, which is created if it is new. Type index 0 only creates the
/// column.
///
/// # Errors
/// `RuntimeError` if the type already has a value, `InternalError` for an invalid type index.
///
/// # Safety
/// `value` is a valid view.
pub unsafe fn register_attr(type_index: i32, name: &[u8], value: &TVMFFIAny) -> Result<(), Failure> {
    if type_index as u32 as usize >= MAX_TYPES {
        return Err(Failure::internal(format_args!(
            "Check failed: (entry != nullptr) is false: Cannot find type info for type_index={type_index}"
        )));
    }
    let guard = lock();
    let column = COLUMNS.get_or_insert(name, Column::new).0.get();
    if type_index == type_index::NONE {
        return Ok(());
    }
    // SAFETY: we hold the lock, and the column reaches beyond this type when it is extended.
    unsafe {
        extend(column, type_index as usize + 1);
        let slot = (*column).data.cast_mut().add(type_index as usize);
        if (*slot).type_index != type_index::NONE {
            return Err(Failure::of_parts(
                "RuntimeError",
                &[
                    b"TypeAttr `",
                    name,
                    b"` is already registered for type index ",
                    type_index.to_string().as_bytes(),
                    b". To update the stored value, register a mutable container (e.g., Dict/List) once and mutate it in place \
                      on subsequent calls.",
                ],
            ));
        }
        let value = to_owned(value)?;
        // A reader that sees the type index also sees the payload.
        (*slot).payload = value.payload;
        (*slot).small_len = value.small_len;
        AtomicI32::from_ptr(&raw mut (*slot).type_index).store(value.type_index, Ordering::Release);
    }
    drop(guard);
    Ok(())
}

/// A column, or NULL if it is not registered. Its address never changes; its `data` may.
#[inline]
pub fn column(name: &[u8]) -> *const TVMFFITypeAttrColumn {
    let mut found = COLUMNS.get(name);
    if found.is_none() && !READY.load(Ordering::Acquire) {
        // The table has not been used yet.
        drop(lock());
        found = COLUMNS.get(name);
    }
    found.map_or(core::ptr::null(), |column| column.0.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_exist_and_keep_their_address() {
        for name in NAMES.lines() {
            assert!(!column(name.as_bytes()).is_null(), "{name}");
        }
        assert!(column(b"tests.attr").is_null());
        // SAFETY: all values are plain, and columns live forever.
        unsafe {
            register_attr(0, b"tests.attr", &TVMFFIAny::NONE).unwrap();
            let column = column(b"tests.attr");
            assert_eq!(((*column).size, (*column).data.is_null()), (0, true));
            register_attr(70, b"tests.attr", &TVMFFIAny::int(7)).unwrap();
            register_attr(5, b"tests.attr", &TVMFFIAny::int(5)).unwrap();
            assert_eq!(((*column).size, (*column).begin_index), (71, 0));
            assert_eq!((*(*column).data.add(70)).bits(), 7);
            assert_eq!((*(*column).data.add(5)).bits(), 5);
            assert_eq!((*(*column).data.add(6)).type_index, 0);
            let error = register_attr(70, b"tests.attr", &TVMFFIAny::int(8)).unwrap_err();
            assert!(error.message().starts_with("TypeAttr `tests.attr` is already registered for type index 70. "));
            for unknown in [-1, i32::MIN, i32::MAX, MAX_TYPES as i32] {
                let error = register_attr(unknown, b"tests.attr", &TVMFFIAny::int(8)).unwrap_err();
                assert!(error.message().ends_with(&format!("Cannot find type info for type_index={unknown}")));
            }
        }
    }
}
