//! The implementation that serves this process, as far as the cells depend on it.
//!
//! Cells are the same for every provider, but some of their operations need the tables: hashing a
//! map key looks up the attribute columns of its type, and a failed callback leaves its error in
//! the error slot.

use core::sync::atomic::{AtomicPtr, Ordering};

use crate::abi::ApiTable;

use super::any_hash;

/// NULL until another provider serves.
static SERVING: AtomicPtr<ApiTable> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the provider whose tables the cells use; the provider calls it once, when it binds. Before
/// that it is `table()` of this crate.
pub fn set_serving(table: &'static ApiTable) {
    SERVING.store(core::ptr::from_ref(table).cast_mut(), Ordering::Release);
    any_hash::forget_columns();
}

/// The tables in use.
pub fn serving() -> &'static ApiTable {
    let table = SERVING.load(Ordering::Acquire);
    if table.is_null() {
        return own();
    }
    // SAFETY: only `set_serving` stores a pointer, and it is given a `'static` reference.
    unsafe { &*table }
}

#[cfg(feature = "tables")]
fn own() -> &'static ApiTable {
    crate::api::table()
}

/// Fails: the tables are needed only for types and functions, which do not exist before the
/// provider is bound.
#[cfg(not(feature = "tables"))]
fn own() -> &'static ApiTable {
    crate::notice::notice(format_args!("kernpack: no implementation of the TVM FFI is bound yet"));
    std::process::abort()
}
