//! Type attributes: columns of values, one value a type. Columns never move; C++ code reads them without a lock.

use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::abi::{TVMFFIAny, TVMFFITypeAttrColumn, type_index};

use super::failure::Failure;
use super::name_table::NameTable;
use super::release::{is_object, to_owned};
use super::type_table::entry;

/// Columns that C++ code expects to exist as soon as the library is there.
const NAMES: [&str; 19] = [
    "__any_hash__",
    "__any_equal__",
    "__ffi_convert__",
    "__ffi_shallow_copy__",
    "__ffi_repr__",
    "__ffi_hash__",
    "__ffi_eq__",
    "__ffi_compare__",
    "__ffi_new__",
    "__ffi_init__",
    "__ffi_type_final__",
    "__ffi_enum__",
    "__data_to_json__",
    "__data_from_json__",
    "__s_equal__",
    "__s_hash__",
    "__s_visit__",
    "__s_mutate__",
    "__s_maybe_inplace_mutate__",
];

struct Column {
    address: *mut TVMFFITypeAttrColumn,
    capacity: usize,
}

// SAFETY: the column is leaked and only changed under the lock, in the way that readers without it can bear.
unsafe impl Send for Column {}

static COLUMNS: LazyLock<Mutex<NameTable<Column>>> = LazyLock::new(|| {
    let mut columns = NameTable::new();
    for name in NAMES {
        columns.insert(name.as_bytes(), Column::new());
    }
    Mutex::new(columns)
});

impl Column {
    fn new() -> Self {
        let column = TVMFFITypeAttrColumn { data: core::ptr::null(), size: 0, begin_index: 0 };
        Self { address: Box::leak(Box::new(column)), capacity: 0 }
    }

    /// Makes the column reach to `size`. Outgrown arrays are kept for those who still read them.
    fn extend_to(&mut self, size: usize) {
        // SAFETY: the caller holds the lock; readers load `size` before `data`, and both are stored in the other order.
        unsafe {
            let old = match (*self.address).size {
                0 => &[][..],
                size => core::slice::from_raw_parts((*self.address).data, size as usize),
            };
            if size > self.capacity {
                let capacity = size.next_power_of_two().max(256);
                let mut grown = Vec::with_capacity(capacity);
                grown.extend_from_slice(old);
                grown.resize(capacity, TVMFFIAny::NONE);
                let data = AtomicPtr::from_ptr((&raw mut (*self.address).data).cast::<*mut TVMFFIAny>());
                data.store(grown.leak().as_mut_ptr(), Ordering::Release);
                self.capacity = capacity;
            }
            if size > old.len() {
                AtomicI32::from_ptr(&raw mut (*self.address).size).store(size as i32, Ordering::Release);
            }
        }
    }
}

/// Sets a type's value in a column, which is created when it is new. Type index 0 only creates the column.
///
/// # Errors
/// `RuntimeError` when the type already has a value, `InternalError` for an unknown type.
///
/// # Safety
/// `value` is a valid view.
pub unsafe fn register_attr(type_index: i32, name: &[u8], value: &TVMFFIAny) -> Result<(), Failure> {
    if entry(type_index).is_null() {
        return Err(Failure::internal(format_args!(
            "Check failed: (entry != nullptr) is false: Cannot find type info for type_index={type_index}"
        )));
    }
    let mut columns = COLUMNS.lock().unwrap_or_else(PoisonError::into_inner);
    let column = columns.get_or_insert(name, Column::new);
    if type_index == type_index::NONE {
        return Ok(());
    }
    column.extend_to(type_index as usize + 1);
    // SAFETY: the column reaches beyond this type now; it is only changed under the lock, which we hold.
    unsafe {
        let slot = (*column.address).data.cast_mut().add(type_index as usize);
        if (*slot).type_index != type_index::NONE {
            return Err(Failure::runtime(format_args!(
                "TypeAttr `{}` is already registered for type index {type_index}. To update the stored value, register \
                 a mutable container (e.g., Dict/List) once and mutate it in place on subsequent calls.",
                String::from_utf8_lossy(name)
            )));
        }
        let value = to_owned(value)?;
        debug_assert!(!is_object(&value) || value.small_len == 0);
        // A reader that sees the type index also sees the payload.
        (*slot).payload = value.payload;
        (*slot).small_len = value.small_len;
        AtomicI32::from_ptr(&raw mut (*slot).type_index).store(value.type_index, Ordering::Release);
    }
    Ok(())
}

/// A column, or NULL when nobody registered it. Its address never changes; its `data` may.
pub fn column(name: &[u8]) -> *const TVMFFITypeAttrColumn {
    let columns = COLUMNS.lock().unwrap_or_else(PoisonError::into_inner);
    columns.get(name).map_or(core::ptr::null(), |column| column.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_exist_and_keep_their_address() {
        for name in NAMES {
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
            assert!(register_attr(126, b"tests.attr", &TVMFFIAny::int(8)).is_err());
            assert!(register_attr(-1, b"tests.attr", &TVMFFIAny::int(8)).is_err());
        }
    }
}
