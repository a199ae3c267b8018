//! Calls of global functions with texts that may not be UTF-8, and the checks of all errors.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Once;

use kernpack::sys::abi::{TVMFFIAny, type_index};
use kernpack::sys::embedded;
use kernpack::{Any, AnyView, Error, Function, Result, sys::provider};

thread_local! {
    /// The functions that were called before: the lookup of a function is not part of the check.
    static KNOWN: RefCell<HashMap<&'static str, Function>> = RefCell::default();
}

thread_local! {
    /// The number of panics of this thread: a panic that became an error counts as well.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Counts panics from now on.
fn count_panics() {
    static COUNTING: Once = Once::new();
    COUNTING.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            before(panic);
        }));
    });
}

/// Calls a global function and checks its error, if any.
pub(crate) fn call(name: &'static str, arguments: &[&Any]) -> Result<Any> {
    count_panics();
    let function = KNOWN.with_borrow_mut(|known| {
        let look = || Function::global(name).expect("the implementation has it");
        known.entry(name).or_insert_with(look).clone()
    });
    let arguments: Vec<AnyView<'_>> = arguments.iter().map(|argument| *argument.as_view()).collect();
    function.call(&arguments[..]).inspect_err(|error| check_error(name, error))
}

/// Calls a global function that must not fail.
pub(crate) fn must(name: &'static str, arguments: &[&Any]) -> Any {
    call(name, arguments).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A text as foreign code passes it.
pub(crate) fn text(bytes: &[u8]) -> Any {
    // SAFETY: a new text, whose reference the value takes over.
    unsafe { Any::from_raw(embedded::new_string(bytes)) }
}

/// The bytes of a text.
pub(crate) fn bytes_of(value: &Any) -> &[u8] {
    // SAFETY: the value is valid, and lives as long as the borrow.
    unsafe { embedded::text_of(value.as_view().as_raw()) }.expect("a text")
}

/// Checks that an error has a message, and is not a panic.
pub(crate) fn check_error(what: &str, error: &Error) {
    assert!(!error.message().is_empty(), "{what}: an error of kind {} without a message", error.kind());
    assert!(error.kind().ends_with("Error"), "{what}: an error of kind '{}': {}", error.kind(), error.message());
    assert_eq!(PANICS.get(), 0, "{what}: {error}");
}

/// Converts a status of the C API to a result.
pub(crate) fn check_status(name: &str, status: i32) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    let mut object = core::ptr::null_mut();
    // SAFETY: `object` is writable; the error that is written there is owned by us.
    let error = unsafe {
        (provider::api().error_move_from_raised)(&mut object);
        assert!(!object.is_null(), "{name}: a failure without an error");
        Any::from_raw(TVMFFIAny::pointer(type_index::ERROR, object.cast()))
    };
    let error: Error = error.to().expect("an error");
    check_error(name, &error);
    Err(error)
}
