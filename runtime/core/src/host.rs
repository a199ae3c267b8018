//! Which implementation of the C ABI serves this process.
//!
//! A library or program finds its host once, at first use: the libtvm_ffi that is already in the process, else the
//! implementation of another Kernpack library that is already bound, else its own ([`crate::embedded`]). A Rust program
//! hands its table to each library that it loads, so that a library and its host always share one type table, one
//! function table and one error slot. Nothing links to libtvm_ffi.
//!
//! ```
//! let api = kernpack::host::api();
//! let mut version = kernpack::sys::abi::TVMFFIVersion { major: 0, minor: 0, patch: 0 };
//! // SAFETY: the table holds the functions that its names say, and `version` is writable.
//! unsafe { (api.get_version)(&mut version) };
//! assert!(version.minor >= 1);
//! ```

use core::ffi::{CStr, c_void};
use core::panic::UnwindSafe;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use crate::abi::{ApiTable, TVMFFITypeInfo, TVMFFIVersion, type_index};
use crate::function::install_hook;
use crate::{Error, Result, embedded, exports, registration};

/// The table in use; NULL until bound and registered.
static TABLE: AtomicPtr<ApiTable> = AtomicPtr::new(ptr::null_mut());
/// The table of a binding that is under way, for the thread that is doing it.
static PENDING: AtomicPtr<ApiTable> = AtomicPtr::new(ptr::null_mut());
/// Identity of that thread, 0 for none.
static BINDER: AtomicUsize = AtomicUsize::new(0);
static ORIGIN: AtomicU8 = AtomicU8::new(0);
static BINDING: Mutex<()> = Mutex::new(());

/// Where the implementation in use comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This artifact's own implementation.
    Embedded,
    /// The libtvm_ffi that was in the process.
    Process,
    /// The table of another Kernpack library or program.
    Joined,
}

/// The functions of the process's implementation; binds at first use.
///
/// # Aborts
/// When a libtvm_ffi in the process is too old to be used: there is no implementation that could report the error.
#[inline]
pub fn api() -> &'static ApiTable {
    let table = TABLE.load(Ordering::Acquire);
    if table.is_null() {
        return bind_at_first_use();
    }
    // SAFETY: only tables that live forever are stored.
    unsafe { &*table }
}

/// Where the implementation in use comes from; binds at first use.
pub fn origin() -> Origin {
    api();
    origin_while_binding()
}

/// Like [`origin`], for code that runs while this artifact binds.
#[doc(hidden)]
pub fn origin_while_binding() -> Origin {
    match ORIGIN.load(Ordering::Acquire) {
        1 => Origin::Process,
        2 => Origin::Joined,
        _ => Origin::Embedded,
    }
}

/// Version that the implementation in use reports.
pub fn version() -> TVMFFIVersion {
    let mut version = TVMFFIVersion { major: 0, minor: 0, patch: 0 };
    // SAFETY: `version` is writable.
    unsafe { (api().get_version)(&mut version) };
    version
}

/// Makes this artifact's own implementation serve the process, whatever else is loaded. For a library that *is* an
/// implementation (`kernpack-capi`); does nothing when already bound.
#[cfg(feature = "embedded")]
pub fn serve_embedded() {
    let _ = bind_to(|| Ok((ptr::from_ref(embedded::table()).cast_mut(), Origin::Embedded)));
}

/// The implementation that a library is bound to, without binding it.
pub(crate) fn bound() -> *const ApiTable {
    TABLE.load(Ordering::Acquire)
}

/// Binds to a host's table (the handshake of a Rust host with a library that it loads).
///
/// # Errors
/// When the table has another layout, or this library is already bound to another implementation, or what it brings
/// cannot be registered there.
///
/// # Safety
/// `table` is NULL or an [`ApiTable`] of some version that lives forever.
pub(crate) unsafe fn join(table: *const ApiTable) -> Result<()> {
    if table.is_null() {
        return Err(Error::runtime_error("the host handed over no function table"));
    }
    // SAFETY: all versions of the table begin with these two fields.
    let (magic, size) = unsafe { ((*table).magic, (*table).struct_size) };
    if magic != ApiTable::MAGIC || size < size_of::<ApiTable>() {
        return Err(Error::runtime_error(
            "the program that loads this library was built with an incompatible version of kernpack; build both with the \
             same version",
        ));
    }
    bind_to(|| Ok((table.cast_mut(), Origin::Joined)))?;
    // SAFETY: both tables are valid and live forever.
    if !unsafe { same_implementation(&*bound_or_pending(), &*table) } {
        return Err(Error::runtime_error(
            "this library already uses another implementation of the TVM FFI in this process, so it cannot share types, \
             functions and errors with the program that loads it; load it before anything else uses it",
        ));
    }
    // Loading a library again does not mend what went wrong the first time.
    let problems = registration::problems();
    if problems.is_empty() { Ok(()) } else { Err(Error::runtime_error(problems.join("\n"))) }
}

/// Binds and registers at once when libtvm_ffi is in the process; a library's constructor calls it.
pub(crate) fn bind_if_process_has_one() {
    if TABLE.load(Ordering::Acquire).is_null() && find_in_process().is_some() {
        bind_at_first_use();
    }
}

/// Registers what was collected, if this artifact is bound already. A binding that is under way is waited for, unless this thread
/// is the one that binds, which has the rest of it before it.
pub(crate) fn register_if_bound() {
    if BINDER.load(Ordering::Acquire) == thread_identity() {
        return;
    }
    let _one_at_a_time = BINDING.lock().unwrap_or_else(PoisonError::into_inner);
    if TABLE.load(Ordering::Acquire).is_null() {
        return;
    }
    if let Err(error) = uninterrupted(|| registration::register_collected(origin_while_binding())) {
        tell(&error);
    }
}

fn bound_or_pending() -> *const ApiTable {
    let table = TABLE.load(Ordering::Acquire);
    if table.is_null() { PENDING.load(Ordering::Acquire) } else { table }
}

/// Whether two tables lead to one implementation. Their functions may differ: exported names and an implementation's own table
/// need not hold the same addresses. Its type table is one.
pub(crate) fn same_implementation(a: &ApiTable, b: &ApiTable) -> bool {
    // SAFETY: the root of all objects has this index in every implementation.
    unsafe { ptr::eq((a.get_type_info)(type_index::OBJECT), (b.get_type_info)(type_index::OBJECT)) }
}

/// Whether a `TVMFFIGetTypeInfo` is one of the implementation in use, under whatever address: see [`same_implementation`].
///
/// # Safety
/// `get_type_info` is such a function.
pub(crate) unsafe fn is_in_use(get_type_info: *mut c_void) -> bool {
    type GetTypeInfo = unsafe extern "C" fn(i32) -> *const TVMFFITypeInfo;
    let mut table = *api();
    // SAFETY: promised by the caller.
    table.get_type_info = unsafe { core::mem::transmute::<*mut c_void, GetTypeInfo>(get_type_info) };
    same_implementation(&table, api())
}

#[cold]
#[inline(never)]
fn bind_at_first_use() -> &'static ApiTable {
    let found = bind_to(|| {
        if let Some(found) = process_table() {
            return found;
        }
        if let Some(table) = find_bound_sibling() {
            return Ok((table, Origin::Joined));
        }
        own_implementation()
    });
    if let Err(error) = found {
        tell(&error);
        if bound_or_pending().is_null() {
            std::process::abort();
        }
    }
    // SAFETY: bound above, and tables live forever.
    unsafe { &*bound_or_pending() }
}

/// Says what went wrong: a constructor or a first use has nobody to report to. `registration::problems` keeps the text.
fn tell(error: &Error) {
    for line in error.message().lines() {
        embedded::notice::notice(format_args!("kernpack: {line}"));
    }
}

/// The table behind the C functions that a program exports, while nothing is bound. A libtvm_ffi in the process may be
/// calling from its constructors, when nothing can be registered with it yet, so this does not bind to it.
#[cold]
#[inline(never)]
pub(crate) fn table_for_libraries() -> &'static ApiTable {
    let pending = PENDING.load(Ordering::Acquire);
    if BINDER.load(Ordering::Acquire) == thread_identity() && !pending.is_null() {
        // SAFETY: tables live forever.
        return unsafe { &*pending };
    }
    match process_table() {
        // SAFETY: as above.
        Some(Ok((table, _))) => unsafe { &*table },
        _ => api(),
    }
}

/// A table that lives forever and where it comes from, or why there is none.
type Found = core::result::Result<(*mut ApiTable, Origin), String>;

#[cfg(feature = "embedded")]
fn own_implementation() -> Found {
    Ok((ptr::from_ref(embedded::table()).cast_mut(), Origin::Embedded))
}

#[cfg(not(feature = "embedded"))]
fn own_implementation() -> Found {
    Err("no implementation of the TVM FFI is in this process, and this library was built without its own; load it from Python \
         (tvm_ffi), Apache TVM or a Rust program, or build it with the feature `embedded` of kernpack"
        .to_owned())
}

/// Binds to what `find` gives, then registers what this artifact brings. Other threads wait; the binding thread itself,
/// coming back here while it registers, sees the table already.
fn bind_to(find: impl FnOnce() -> Found) -> Result<()> {
    let me = thread_identity();
    if BINDER.load(Ordering::Acquire) == me {
        return Ok(());
    }
    let _one_at_a_time = BINDING.lock().unwrap_or_else(PoisonError::into_inner);
    if !TABLE.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let (table, origin) = find().map_err(Error::runtime_error)?;
    ORIGIN.store(origin as u8, Ordering::Release);
    // SAFETY: tables live forever.
    embedded::serving::set_serving(unsafe { &*table });
    install_hook();
    PENDING.store(table, Ordering::Release);
    BINDER.store(me, Ordering::Release);
    // A panic must not leave the binding half done: other threads would wait for a thread that is gone.
    let registered = uninterrupted(|| registration::register_all(origin));
    TABLE.store(table, Ordering::Release);
    BINDER.store(0, Ordering::Release);
    registered
}

/// Registers; a panic is an error.
fn uninterrupted(register: impl FnOnce() -> Result<()> + UnwindSafe) -> Result<()> {
    std::panic::catch_unwind(register)
        .unwrap_or_else(|_| Err(Error::internal_error("a panic interrupted the registration of this library")))
}

/// A number that no other running thread has: the address of a thread-local.
fn thread_identity() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| ptr::from_ref(mark) as usize)
}

/// The functions of the libtvm_ffi in this process, found once; `None` when there is none.
fn process_table() -> Option<Found> {
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
            // Two threads may come here; then both tables live forever, and they are equal.
            let table = Box::into_raw(Box::new(table));
            TABLE.store(table, Ordering::Release);
            Ok((table, Origin::Process))
        }
        Err(missing) => {
            Err(format!("the libtvm_ffi in this process lacks {missing}; install apache-tvm-ffi 0.1.10 or newer"))
        }
    })
}

/// The table of the Rust program that exports the functions which were found. The program may itself use a libtvm_ffi; then
/// we use it as the program does.
fn table_of_program(lookup: &mut impl FnMut(&'static CStr) -> *mut c_void) -> Option<(*mut ApiTable, Origin)> {
    let (probe, symbol) = (lookup(PROBE), lookup(c"__kernpack_exported_api_v1"));
    if symbol.is_null() || !exports::is_same_artifact(probe, symbol) {
        return None;
    }
    // SAFETY: the symbol's versioned name fixes its type.
    let table = unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut ApiTable>(symbol)() };
    // SAFETY: what the program gave is its table, which lives forever.
    let raise = unsafe { usable(table)?.error_set_raised } as *const c_void;
    let origin = if exports::is_same_artifact(raise, symbol) { Origin::Joined } else { Origin::Process };
    Some((table, origin))
}

/// A table that another artifact gave, if its layout is ours.
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

/// A function that only an implementation has.
const PROBE: &CStr = c"TVMFFIErrorSetRaised";

/// How to look up symbols of the libtvm_ffi in this process; `None` when there is none. What this artifact itself exports is
/// none: a program can offer our functions to the libraries that it loads, and `kernpack-capi` does nothing else.
fn find_in_process() -> Option<impl FnMut(&'static CStr) -> *mut c_void> {
    let is_in = |scope: *mut c_void| {
        // SAFETY: a plain symbol lookup.
        let symbol = unsafe { libc::dlsym(scope, PROBE.as_ptr()) };
        !symbol.is_null() && !exports::is_own(symbol)
    };
    let scope = if is_in(libc::RTLD_DEFAULT) {
        libc::RTLD_DEFAULT
    } else if is_in(libc::RTLD_NEXT) {
        libc::RTLD_NEXT
    } else {
        // Loaded without RTLD_GLOBAL: its name finds it all the same. A program that stands in for it has this name, too.
        let mut names = loaded_files();
        names.retain(|name| name.to_bytes().ends_with(b"/libtvm_ffi.so"));
        names.insert(0, c"libtvm_ffi.so".to_owned());
        // SAFETY: RTLD_NOLOAD only finds what is already loaded.
        let mut libraries =
            names.iter().map(|name| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) });
        libraries.find(|library| !library.is_null() && is_in(*library))?
    };
    // SAFETY: `scope` stays valid: it is one of the two scopes, or a handle that is never closed.
    Some(move |name: &'static CStr| unsafe { libc::dlsym(scope, name.as_ptr()) })
}

/// A symbol of the libtvm_ffi in this process beyond the C ABI; NULL when there is none.
pub(crate) fn process_symbol(name: &'static CStr) -> *mut c_void {
    find_in_process().map_or(ptr::null_mut(), |mut lookup| lookup(name))
}

/// The files that are loaded, without the program.
fn loaded_files() -> Vec<CString> {
    unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _size: usize, names: *mut c_void) -> i32 {
        // SAFETY: `dl_iterate_phdr` passes a valid description, and `names` is the vector given to it below.
        unsafe {
            let name = (*info).dlpi_name;
            if !name.is_null() && *name != 0 {
                (*names.cast::<Vec<CString>>()).push(CStr::from_ptr(name).to_owned());
            }
        }
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the callback matches and the vector outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut names).cast()) };
    names
}

/// The table of another Kernpack library in this process that is bound already (two libraries in a C program, say).
fn find_bound_sibling() -> Option<*mut ApiTable> {
    loaded_files().iter().find_map(|name| {
        // SAFETY: RTLD_NOLOAD runs no code; the symbol's type is fixed by its versioned name.
        unsafe {
            let library = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if library.is_null() {
                return None;
            }
            let symbol = libc::dlsym(library, c"__kernpack_bound_api_v1".as_ptr());
            libc::dlclose(library);
            if symbol.is_null() {
                return None;
            }
            let ask: unsafe extern "C" fn() -> *const ApiTable = core::mem::transmute(symbol);
            usable(ask()).map(|table| ptr::from_ref(table).cast_mut())
        }
    })
}
