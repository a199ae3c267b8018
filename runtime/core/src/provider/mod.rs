//! The implementation of the C ABI that serves this process.
//!
//! A library or program finds its provider once, at first use: the libtvm_ffi that is already in
//! the process, else the implementation of another Kernpack library that is already bound, else its
//! own ([`crate::embedded`]). A Rust program passes its table to each library that it loads, so
//! that a library and its provider always share one type table, one function table and one error
//! slot. Nothing links to libtvm_ffi.
//!
//! ```
//! let api = kernpack::sys::provider::api();
//! let mut version = kernpack::sys::abi::TVMFFIVersion { major: 0, minor: 0, patch: 0 };
//! // SAFETY: the table holds the functions that its names say, and `version` is writable.
//! unsafe { (api.get_version)(&mut version) };
//! assert!(version.minor >= 1);
//! ```

mod find;

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

pub(crate) use self::find::process_symbol;
use self::find::{Found, find_bound_sibling, find_in_process, own_implementation, process_table};
use crate::abi::{ApiTable, TVMFFITypeInfo, TVMFFIVersion, type_index};
use crate::embedded;

/// The table in use; NULL until bound and registered.
static TABLE: AtomicPtr<ApiTable> = AtomicPtr::new(ptr::null_mut());
/// The table of a binding in progress, for the thread that runs it.
static PENDING: AtomicPtr<ApiTable> = AtomicPtr::new(ptr::null_mut());
/// Identity of the thread that is binding, 0 for none.
static BINDER: AtomicUsize = AtomicUsize::new(0);
static ORIGIN: AtomicU8 = AtomicU8::new(0);
static BINDING: Mutex<()> = Mutex::new(());
/// The [`Register`] function to run when this artifact is bound; NULL if there is none or if it has
/// run.
static REGISTER: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
/// Problems during the registration of this artifact; kept because a constructor cannot report
/// them.
static PROBLEMS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Registers the definitions of this artifact with the provider that it is bound to. Returns the
/// problems, one sentence each.
pub(crate) type Register = fn(Origin) -> Vec<String>;

/// The origin of the implementation in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// This artifact's own implementation.
    Embedded,
    /// The libtvm_ffi that is loaded in the process.
    Process,
    /// The table of another Kernpack library or program.
    Joined,
}

/// The functions of the process's implementation; binds at first use.
///
/// # Aborts
/// Aborts if a libtvm_ffi in the process is too old to be used: there is no implementation that
/// could report the error.
#[inline]
pub fn api() -> &'static ApiTable {
    let table = TABLE.load(Ordering::Acquire);
    if table.is_null() {
        return bind_at_first_use();
    }
    // SAFETY: only tables that live forever are stored.
    unsafe { &*table }
}

/// Returns the origin of the implementation in use; binds at first use.
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

/// The version that the implementation in use reports.
pub fn version() -> TVMFFIVersion {
    let mut version = TVMFFIVersion { major: 0, minor: 0, patch: 0 };
    // SAFETY: `version` is writable.
    unsafe { (api().get_version)(&mut version) };
    version
}

/// Makes this artifact's own implementation serve the process, whatever else is loaded. For a
/// library that *is* an implementation (`kernpack-capi`). Does nothing if this artifact is already
/// bound.
#[cfg(feature = "embedded")]
pub fn serve_embedded() {
    let _ = bind_to(|| Ok((ptr::from_ref(embedded::table()).cast_mut(), Origin::Embedded)));
}

/// The implementation that this artifact is bound to. Does not bind it.
pub(crate) fn bound() -> *const ApiTable {
    TABLE.load(Ordering::Acquire)
}

/// Binds to a provider's table (the handshake of a Rust program with a library that it loads).
///
/// # Errors
/// Returns an error if the table has another layout, if this library is already bound to another
/// implementation, or if its definitions cannot be registered there.
///
/// # Safety
/// `table` is NULL or an [`ApiTable`] of some version that lives forever.
pub(crate) unsafe fn join(table: *const ApiTable) -> Result<(), String> {
    if table.is_null() {
        return Err("the program handed over no function table".to_owned());
    }
    // SAFETY: all versions of the table begin with these two fields.
    let (magic, size) = unsafe { ((*table).magic, (*table).struct_size) };
    if magic != ApiTable::MAGIC || size < size_of::<ApiTable>() {
        return Err(
            "the program that loads this library was built with an incompatible version of kernpack; build both with \
                    the same version"
                .to_owned(),
        );
    }
    bind_to(|| Ok((table.cast_mut(), Origin::Joined)))?;
    // SAFETY: both tables are valid and live forever.
    if !unsafe { same_implementation(&*bound_or_pending(), &*table) } {
        return Err("this library already uses another implementation of the TVM FFI in this process, so it cannot share types, \
                    functions and errors with the program that loads it; load it before anything else uses it"
            .to_owned());
    }
    // Loading a library again does not fix the problems of the first time.
    let problems = load_problems();
    if problems.is_empty() { Ok(()) } else { Err(lines(&problems)) }
}

/// All problems during the registration of this artifact's types and functions, one sentence each.
pub(crate) fn load_problems() -> Vec<String> {
    PROBLEMS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Binds and registers immediately if libtvm_ffi is in the process; called by a library's
/// constructor.
pub(crate) fn bind_if_process_has_one() {
    if TABLE.load(Ordering::Acquire).is_null() && find_in_process().is_some() {
        bind_at_first_use();
    }
}

/// Sets the function that runs when this artifact is bound. An artifact sets it once, and it runs
/// once. If the artifact is already bound, because another of its constructors used it first, the
/// function runs immediately. If a binding is in progress, this waits for it, unless this thread is
/// the one that binds and will run the function itself.
pub(crate) fn at_bind(register: Register) {
    REGISTER.store(register as *mut (), Ordering::Release);
    if BINDER.load(Ordering::Acquire) == thread_identity() {
        return;
    }
    let _one_at_a_time = BINDING.lock().unwrap_or_else(PoisonError::into_inner);
    if TABLE.load(Ordering::Acquire).is_null() {
        return;
    }
    if let Err(error) = registered(origin_while_binding()) {
        tell(&error);
    }
}

fn bound_or_pending() -> *const ApiTable {
    let table = TABLE.load(Ordering::Acquire);
    if table.is_null() { PENDING.load(Ordering::Acquire) } else { table }
}

/// Returns whether two tables belong to the same implementation, which is the case if they share a
/// type table. Comparing the function addresses would not work: exported names and an
/// implementation's own table may hold different addresses.
pub(crate) fn same_implementation(a: &ApiTable, b: &ApiTable) -> bool {
    // SAFETY: the root of all objects has this index in every implementation.
    unsafe { ptr::eq((a.get_type_info)(type_index::OBJECT), (b.get_type_info)(type_index::OBJECT)) }
}

/// Returns whether a `TVMFFIGetTypeInfo` belongs to the implementation in use, whatever its
/// address; see [`same_implementation`].
///
/// # Safety
/// `get_type_info` is a `TVMFFIGetTypeInfo` function.
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

/// Prints a problem: a constructor or a first use cannot report it to a caller. [`load_problems`]
/// keeps the text.
fn tell(error: &str) {
    #[expect(
        clippy::manual_pattern_char_comparison,
        reason = "the search for a character is half a kilobyte in every artifact"
    )]
    for line in error.split(|character| character == '\n') {
        embedded::notice::notice(format_args!("kernpack: {line}"));
    }
}

/// The table behind the C functions that a program exports, as long as nothing is bound. A
/// libtvm_ffi in the process may be calling from its constructors, when it is not ready for
/// registrations, so this does not bind to it.
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

/// Binds to the result of `find`, then registers the definitions of this artifact. Other threads
/// wait; if the binding thread comes back here while it registers, it already sees the table.
fn bind_to(find: impl FnOnce() -> Found) -> Result<(), String> {
    let me = thread_identity();
    if BINDER.load(Ordering::Acquire) == me {
        return Ok(());
    }
    let _one_at_a_time = BINDING.lock().unwrap_or_else(PoisonError::into_inner);
    if !TABLE.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let (table, origin) = find()?;
    ORIGIN.store(origin as u8, Ordering::Release);
    // SAFETY: tables live forever.
    embedded::serving::set_serving(unsafe { &*table });
    PENDING.store(table, Ordering::Release);
    BINDER.store(me, Ordering::Release);
    let registered = registered(origin);
    TABLE.store(table, Ordering::Release);
    BINDER.store(0, Ordering::Release);
    registered
}

/// Runs the registration function of this artifact, if it is set and has not run, and keeps the
/// problems. A panic must not leave the binding half done: other threads would wait for a thread
/// that is gone.
fn registered(origin: Origin) -> Result<(), String> {
    let register = REGISTER.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: NULL, or the function that `at_bind` was given.
    let Some(register) = (unsafe { core::mem::transmute::<*mut (), Option<Register>>(register) }) else {
        return Ok(());
    };
    let problems = std::panic::catch_unwind(|| register(origin))
        .unwrap_or_else(|_| vec!["a panic interrupted the registration of this library".to_owned()]);
    if problems.is_empty() {
        return Ok(());
    }
    let message = lines(&problems);
    PROBLEMS.lock().unwrap_or_else(PoisonError::into_inner).extend(problems);
    Err(message)
}

/// Joins all problems to one text, one line each. The standard library's `join` takes a kilobyte in
/// every artifact.
pub(crate) fn lines(problems: &[String]) -> String {
    let mut lines = String::new();
    for problem in problems {
        if !lines.is_empty() {
            lines.push('\n');
        }
        lines.push_str(problem);
    }
    lines
}

/// A number that no other running thread has: the address of a thread-local.
fn thread_identity() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| ptr::from_ref(mark) as usize)
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;

    /// Environment variable that marks the child process that runs the test: a separate process, in
    /// which nothing is bound.
    const ALONE: &str = "TEST_OF_A_REGISTRATION";

    #[test]
    fn what_is_said_while_another_thread_binds_is_done_once() {
        static TIMES: AtomicUsize = AtomicUsize::new(0);
        if std::env::var_os(ALONE).is_none() {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let name = "provider::tests::what_is_said_while_another_thread_binds_is_done_once";
            let output = child.args(["--exact", name]).env(ALONE, "").output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            // Also checks that the test ran: its name above must be up to date.
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
            return;
        }
        let register: Register = |_| {
            TIMES.fetch_add(1, Ordering::Relaxed);
            Vec::new()
        };
        let mut sayer = None;
        let bound = bind_to(|| {
            // The thread waits for this one after it has stored the function.
            sayer = Some(std::thread::spawn(move || at_bind(register)));
            while REGISTER.load(Ordering::Acquire).is_null() {
                std::thread::yield_now();
            }
            own_implementation()
        });
        bound.unwrap();
        sayer.unwrap().join().unwrap();
        assert_eq!(TIMES.load(Ordering::Relaxed), 1);
    }
}
