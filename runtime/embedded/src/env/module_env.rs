//! The services of the runtime for compiled libraries: context symbols, system-library symbols,
//! functions of their imports.

use core::ffi::c_void;
use core::ptr::null_mut;

use crate::abi::{TVMFFIAny, TVMFFIObject, TVMFFIObjectHandle, type_index};

use crate::cells::failure::Failure;
use crate::cells::release::release;
use crate::cells::{any_hash, dec_ref, new_string};
use crate::sync::atomic::{AtomicPtr, Mutex, Ordering, lock};
use crate::sync::name_table::NameTable;
use crate::tables::function_table;

/// An address in a library.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Address(*mut c_void);

// SAFETY: an address is only a number here; the code that uses it is responsible.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

static CONTEXT_SYMBOLS: Mutex<Vec<(Vec<u8>, Address)>> = Mutex::new(Vec::new());
static SYSTEM_LIB_SYMBOLS: NameTable<AtomicPtr<c_void>> =
    // SAFETY: NULL and 0.
    unsafe { NameTable::new(AtomicPtr::new(null_mut()), Mutex::new(0)) };

/// Registers a context symbol: its address is written into the variable of this name in every
/// library loaded later.
pub fn register_context_symbol(name: &[u8], symbol: *mut c_void) {
    lock(&CONTEXT_SYMBOLS).push((name.to_vec(), Address(symbol)));
}

/// The context symbols in the order of registration; of equal names the last one is used.
pub fn context_symbols() -> Vec<(Vec<u8>, *mut c_void)> {
    lock(&CONTEXT_SYMBOLS).iter().map(|(name, symbol)| (name.clone(), symbol.0)).collect()
}

/// Registers a symbol of a library that is linked into the program. A different address under a
/// known name replaces the old one, with a warning on stderr.
pub fn register_system_lib_symbol(name: &[u8], symbol: *mut c_void) {
    let known = SYSTEM_LIB_SYMBOLS.get_or_insert(name, || AtomicPtr::new(symbol));
    let old = known.swap(symbol, Ordering::AcqRel);
    if old != symbol {
        let name = String::from_utf8_lossy(name);
        crate::notice::notice(format_args!(
            "Warning:SystemLib symbol {name} get overriden to a different address {symbol:?}->{old:?}"
        ));
    }
}

/// The address registered under `name`, or NULL.
pub fn system_lib_symbol(name: &[u8]) -> *mut c_void {
    SYSTEM_LIB_SYMBOLS.get(name).map_or(null_mut(), |symbol| symbol.load(Ordering::Acquire))
}

/// The global function that searches the imports of a library: takes its context and a name, and
/// returns a function or `None`. It is registered when the first library is loaded: before that
/// there are no contexts.
pub const IMPORT_LOOKUP: &str = "kernpack.import_lookup_v1";

/// Returns NULL or a new reference.
///
/// # Safety
/// `library_ctx` is the handle that the loader stored in the library, or NULL.
unsafe fn search_imports(library_ctx: TVMFFIObjectHandle, name: &[u8]) -> Result<*mut TVMFFIObject, Failure> {
    let lookup = match library_ctx.is_null() {
        false => function_table::find_global(IMPORT_LOOKUP.as_bytes()),
        true => null_mut(),
    };
    if lookup.is_null() {
        return Ok(null_mut());
    }
    let name = new_string(name);
    let context = TVMFFIAny::pointer(type_index::OPAQUE_PTR, library_ctx.cast());
    // SAFETY: the function is alive, and the reference to it ours; the arguments live for the call.
    // The result is ours, too.
    unsafe {
        let found = any_hash::call(lookup, &[context, name]);
        dec_ref(lookup);
        release(name);
        let found = found?;
        if found.type_index == type_index::FUNCTION {
            return Ok(found.payload.v_obj);
        }
        release(found);
        Ok(null_mut())
    }
}

/// The functions that [`lookup_from_imports`] has returned, one reference each, in ascending order.
static HANDED_OUT: Mutex<Vec<Address>> = Mutex::new(Vec::new());

/// A function of the library's imports or, if there is none, a global one. The result is borrowed;
/// it is kept alive for the life of the process, because compiled code keeps the pointers that it
/// gets.
///
/// # Errors
/// `RuntimeError` when there is no such function.
///
/// # Safety
/// `library_ctx` is the handle that the loader stored in the library, or NULL.
pub unsafe fn lookup_from_imports(library_ctx: TVMFFIObjectHandle, name: &[u8]) -> Result<*mut TVMFFIObject, Failure> {
    // SAFETY: promised by the caller.
    let mut function = unsafe { search_imports(library_ctx, name)? };
    if function.is_null() {
        function = function_table::find_global(name);
    }
    if function.is_null() {
        let (before, after) = (b"Cannot find function ", b" in the imported modules or global registry.");
        return Err(Failure::of_parts("RuntimeError", &[before, name, after]));
    }
    let address = Address(function.cast());
    let mut handed_out = lock(&HANDED_OUT);
    match handed_out.binary_search(&address) {
        // SAFETY: the reference is ours, and the list already has one.
        Ok(_) => unsafe { dec_ref(function) },
        Err(position) => handed_out.insert(position, address),
    }
    Ok(function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::TVMFFIAny;
    use crate::cells::{new_function, strong_count};

    #[test]
    fn symbols_are_kept() {
        let address = core::ptr::without_provenance_mut::<c_void>;
        register_context_symbol(b"__Test", address(8));
        register_context_symbol(b"__Test", address(16));
        let symbols: Vec<_> = context_symbols().into_iter().filter(|(name, _)| name == b"__Test").collect();
        assert_eq!(symbols, [(b"__Test".to_vec(), address(8)), (b"__Test".to_vec(), address(16))]);
        register_system_lib_symbol(b"test.symbol", address(8));
        register_system_lib_symbol(b"test.symbol", address(24));
        assert_eq!(system_lib_symbol(b"test.symbol"), address(24));
        assert!(system_lib_symbol(b"test.none").is_null());
    }

    unsafe extern "C" fn nothing(_: *mut c_void, _: *const TVMFFIAny, _: i32, _: *mut TVMFFIAny) -> i32 {
        0
    }

    #[test]
    fn global_functions_are_found_and_kept() {
        let function = new_function(nothing, ());
        // SAFETY: the test owns its reference; NULL is not a library.
        unsafe {
            function_table::set_global(b"module_env.f", function, false).unwrap();
            for _ in 0..3 {
                assert_eq!(lookup_from_imports(null_mut(), b"module_env.f").unwrap(), function);
            }
            assert_eq!(strong_count(function), 3, "ours, the table's, and one for the borrowers");
            function_table::remove_global(b"module_env.f");
            let error = lookup_from_imports(null_mut(), b"module_env.f").unwrap_err();
            assert_eq!(
                error.message(),
                "Cannot find function module_env.f in the imported modules or global registry."
            );
            dec_ref(function);
        }
    }
}
