//! Ctrl+C of the program that waits, where a frontend such as Python handles signals.

use kernpack::Error;
use kernpack::sys::provider;

/// Lets the frontend handle the signals that have come. Whether one of them has raised an error there, a KeyboardInterrupt in Python.
pub(crate) fn are_pending() -> bool {
    // SAFETY: a plain call; the provider's function may be called on any thread.
    unsafe { (provider::api().env_check_signals)() != 0 }
}

/// The error that stands for the one that the frontend has raised itself.
pub(crate) fn already_raised() -> Error {
    Error::take_if_raised().unwrap_or_else(|| Error::new("EnvErrorAlreadySet", ""))
}
