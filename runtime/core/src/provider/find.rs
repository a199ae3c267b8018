//! Finds the implementation of the ABI: the libtvm_ffi in the process, another artifact that is
//! already bound, or this one.

use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::Origin;
use crate::abi::ApiTable;
use crate::artifact;
use crate::embedded::dynamic_linker::{Scope, loaded_files};

/// A table that lives forever and its origin, or the reason that none was found.
pub(super) type Found = Result<(*mut ApiTable, Origin), String>;

#[cfg(feature = "embedded")]
pub(super) fn own_implementation() -> Found {
    Ok((ptr::from_ref(crate::embedded::table()).cast_mut(), Origin::Embedded))
}

#[cfg(not(feature = "embedded"))]
pub(super) fn own_implementation() -> Found {
    Err("no implementation of the TVM FFI is in this process, and this library was built without its own; load it from Python \
         (tvm_ffi), Apache TVM or a Rust program, or build it with the feature `embedded` of kernpack"
        .to_owned())
}

/// The functions of the libtvm_ffi in this process, looked up once; `None` without one.
pub(super) fn process_table() -> Option<Found> {
    static TABLE: AtomicPtr<ApiTable> = AtomicPtr::new(ptr::null_mut());
    let known = TABLE.load(Ordering::Acquire);
    if !known.is_null() {
        return Some(Ok((known, Origin::Process)));
    }
    let mut lookup = find_in_process()?;
    if let Some(table) = table_of_program(&mut lookup) {
        return Some(Ok(table));
    }
    // SAFETY: the symbols are those of the implementation that was found.
    Some(match unsafe { ApiTable::from_symbols(lookup) } {
        Ok(table) => {
            // Two threads may run this; then both tables live forever, and they are equal.
            let table = Box::into_raw(Box::new(table));
            TABLE.store(table, Ordering::Release);
            Ok((table, Origin::Process))
        }
        Err(missing) => {
            Err(format!("the libtvm_ffi in this process lacks {missing}; install apache-tvm-ffi 0.1.10 or newer"))
        }
    })
}

/// The table of the Rust program that exports the functions that were found. If the program itself
/// uses a libtvm_ffi, this artifact uses it in the same way.
fn table_of_program(lookup: &mut impl FnMut(&'static CStr) -> *mut c_void) -> Option<(*mut ApiTable, Origin)> {
    let (probe, symbol) = (lookup(PROBE), lookup(c"__kernpack_exported_api_v1"));
    if symbol.is_null() || !artifact::is_same_artifact(probe, symbol) {
        return None;
    }
    // SAFETY: the symbol's versioned name fixes its type.
    let table = unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut ApiTable>(symbol)() };
    // SAFETY: the program returned its table, which lives forever.
    let raise = unsafe { usable(table)?.error_set_raised } as *const c_void;
    let origin = if artifact::is_same_artifact(raise, symbol) { Origin::Joined } else { Origin::Process };
    Some((table, origin))
}

/// Returns another artifact's table if its layout is supported.
///
/// # Safety
/// `table` is NULL or an [`ApiTable`] of some version that lives forever.
unsafe fn usable(table: *const ApiTable) -> Option<&'static ApiTable> {
    // SAFETY: all versions of the table begin with these two fields.
    unsafe {
        let is_usable =
            !table.is_null() && (*table).magic == ApiTable::MAGIC && (*table).struct_size >= size_of::<ApiTable>();
        is_usable.then(|| &*table)
    }
}

/// A function that only an implementation defines.
const PROBE: &CStr = c"TVMFFIErrorSetRaised";

/// Returns a function that looks up symbols of the libtvm_ffi in this process; `None` without one.
/// Exports of this artifact do not count: a program can offer our functions to the libraries that
/// it loads, and `kernpack-capi` does nothing else.
pub(super) fn find_in_process() -> Option<impl FnMut(&'static CStr) -> *mut c_void> {
    let is_in = |scope: &Scope| {
        let symbol = scope.symbol(PROBE);
        !symbol.is_null() && !artifact::is_own(symbol)
    };
    let scope = if let Some(scope) = [Scope::DEFAULT, Scope::NEXT].into_iter().find(is_in) {
        scope
    } else {
        // For a libtvm_ffi that was loaded without RTLD_GLOBAL: opening it by name still finds it.
        // A program that replaces it has this name, too.
        let mut names = loaded_files();
        names.retain(|name| name.to_bytes().ends_with(b"/libtvm_ffi.so"));
        names.insert(0, c"libtvm_ffi.so".to_owned());
        names.iter().filter_map(|name| Scope::loaded(name)).find(is_in)?
    };
    Some(move |name: &'static CStr| scope.symbol(name))
}

/// Returns a symbol of the libtvm_ffi in this process beyond the C ABI; NULL if it does not exist.
pub(crate) fn process_symbol(name: &'static CStr) -> *mut c_void {
    find_in_process().map_or(ptr::null_mut(), |mut lookup| lookup(name))
}

/// The table of another Kernpack library in this process that is already bound (for example two
/// libraries in a C program).
pub(super) fn find_bound_sibling() -> Option<*mut ApiTable> {
    loaded_files().iter().find_map(|name| {
        let library = Scope::loaded(name)?;
        let symbol = library.symbol(c"__kernpack_bound_api_v1");
        // SAFETY: opened above and not used any more; Kernpack libraries stay loaded. The symbol's
        // type is fixed by its versioned name.
        unsafe {
            library.close();
            if symbol.is_null() {
                return None;
            }
            let ask: unsafe extern "C" fn() -> *const ApiTable = core::mem::transmute(symbol);
            usable(ask()).map(|table| ptr::from_ref(table).cast_mut())
        }
    })
}
