//! Interruption of a waiting program by Ctrl+C, if a frontend such as Python handles signals.

use kernpack::Error;
use kernpack::sys::provider;

/// Lets the frontend handle pending signals. Returns true if a handler has raised an error there,
/// such as KeyboardInterrupt in Python.
pub(crate) fn are_pending() -> bool {
    // SAFETY: a plain call; the provider's function may be called on any thread.
    unsafe { (provider::api().env_check_signals)() != 0 }
}

/// The error that represents the one that the frontend has raised itself.
pub(crate) fn already_raised() -> Error {
    Error::take_if_raised().unwrap_or_else(|| Error::new("EnvErrorAlreadySet", ""))
}
