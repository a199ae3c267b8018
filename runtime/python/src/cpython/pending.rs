//! Errors of Python code in a place that cannot return one: the hash and the comparison of a key in
//! a Rust map. The call from Python that contains it raises the error when it returns.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use kernpack_core::Error;

use super::exception;
use super::interpreter::with_lock;

/// The number of errors on all threads.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The first error of a thread.
struct First(Cell<Option<Error>>);

thread_local!(static FIRST: First = const { First(Cell::new(None)) });

impl Drop for First {
    /// Reports the error of a thread that did not return to Python.
    fn drop(&mut self) {
        let Some(error) = self.0.take() else { return };
        COUNT.fetch_sub(1, Ordering::Relaxed);
        with_lock(|py| {
            exception::raise(py, &error);
            // SAFETY: an exception is set; there is no object that it belongs to.
            unsafe { py.PyErr_WriteUnraisable(ptr::null_mut()) };
        });
    }
}

/// Keeps an error, unless this thread has one that was not raised yet.
#[cold]
pub(crate) fn record(error: Error) {
    // While the thread ends, there is no place for it any more.
    let _ = FIRST.try_with(|first| {
        let known = first.0.take();
        COUNT.fetch_add(usize::from(known.is_none()), Ordering::Relaxed);
        first.0.set(Some(known.unwrap_or(error)));
    });
}

/// Returns true if a thread has an error, which need not be this one.
#[inline]
pub(crate) fn is_any() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// Takes the error of this thread.
#[cold]
pub(crate) fn take() -> Option<Error> {
    let error = FIRST.try_with(|first| first.0.take()).ok().flatten();
    COUNT.fetch_sub(usize::from(error.is_some()), Ordering::Relaxed);
    error
}

/// The result of code that may have recorded an error, which replaces it.
#[inline]
pub(crate) fn or<T>(result: Result<T, Error>) -> Result<T, Error> {
    match is_any().then(take).flatten() {
        Some(error) => Err(error),
        None => result,
    }
}

/// Runs code, and returns the error that it recorded.
pub(crate) fn caught<R>(run: impl FnOnce() -> R) -> Result<R, Error> {
    let before = take();
    let result = run();
    let result = or(Ok(result));
    if let Some(before) = before {
        record(before);
    }
    result
}
