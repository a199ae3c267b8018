//! Errors of operators, which cannot return one: they are collected, and belong to the innermost
//! work that collects them.

use std::cell::RefCell;

use super::{CompileError, Result};

thread_local! {
    /// The errors of the innermost work.
    static REPORTED: RefCell<Vec<CompileError>> = const { RefCell::new(Vec::new()) };
}

/// Keeps an error for the work that contains the operator, see [`collect_reported`]; outside of
/// any, for [`take_reported`]. The operation then returns a placeholder value of the right type.
pub(crate) fn report(error: CompileError) {
    REPORTED.with_borrow_mut(|errors| {
        if !errors.contains(&error) {
            errors.push(error);
        }
    });
}

/// Returns the errors that operators reported since the last call, as one error: those of the
/// innermost [`collect_reported`], or of the thread outside of any.
///
/// # Errors
/// Returns an error if any were reported.
pub fn take_reported() -> Result<()> {
    match CompileError::all(REPORTED.take()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Runs work, and returns its value with the errors that operators reported in it. Errors that were
/// reported before are not taken: they stay for the work around it.
///
/// ```
/// use kernpack_compiler::{collect_reported, ir::F32, take_reported, te::placeholder};
///
/// let wrong = placeholder([-1], F32, "wrong");
/// let (_, inner) = collect_reported(|| placeholder([-2], F32, "inner"));
/// assert!(inner.unwrap_err().to_string().contains("-2"));
/// assert_eq!(take_reported().unwrap_err().problems().len(), 1);
/// ```
pub fn collect_reported<T>(work: impl FnOnce() -> T) -> (T, Result<()>) {
    /// Puts the errors of the work around back, also if the work panics.
    struct Outer(Vec<CompileError>);
    impl Drop for Outer {
        fn drop(&mut self) {
            REPORTED.set(core::mem::take(&mut self.0));
        }
    }
    let _outer = Outer(REPORTED.take());
    let value = work();
    let reported = take_reported();
    (value, reported)
}

/// Runs work, and returns its error, those that operators reported in it, or both. See
/// [`collect_reported`]. The error type of the work is [`CompileError`], or one that is made from
/// such an error and can be extended with another one.
///
/// # Errors
/// Returns all of these errors as one, that of the work first.
pub fn with_reported<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E>
where
    E: From<CompileError> + Extend<CompileError>,
{
    match collect_reported(work) {
        (Err(mut error), Err(reported)) => {
            error.extend([reported]);
            Err(error)
        }
        (value, Ok(())) => value,
        (Ok(_), Err(reported)) => Err(reported.into()),
    }
}
