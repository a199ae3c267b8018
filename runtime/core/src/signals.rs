//! Handling of Ctrl+C during long loops of Rust code.

use crate::{Error, Result, provider};

/// Lets the frontend handle the signals that have arrived, so that Ctrl+C ends a long loop: in
/// Python the error is a KeyboardInterrupt, or the error that the program's signal handler raises.
///
/// Call it a few times per second, on the thread of the call from Python; on other threads, and in
/// programs without such a frontend, it has no effect. It takes Python's lock, so a call in each
/// iteration of a short loop costs more than the iteration.
///
/// ```
/// use kernpack::{Result, check_signals, packed_func};
///
/// /// Counts primes.
/// #[packed_func]
/// fn primes(limit: u64) -> Result<u64> {
///     let mut count = 0;
///     for number in 2..limit {
///         if number % 10_000 == 0 {
///             check_signals()?;
///         }
///         count += u64::from((2..).take_while(|d| d * d <= number).all(|d| number % d != 0));
///     }
///     Ok(count)
/// }
/// assert_eq!(primes(100)?, 25);
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// # Errors
/// Returns the error that a signal handler raised. Pass it on: the frontend waits for it.
#[inline]
pub fn check_signals() -> Result<()> {
    // SAFETY: a plain call; the provider's function may be called on any thread.
    match unsafe { (provider::api().env_check_signals)() } {
        0 => Ok(()),
        _ => Err(interrupted()),
    }
}

/// Returns the error of the frontend, which is either raised like any other, or kept by the
/// frontend. In the second case, an error of this kind tells the frontend to use its own.
#[cold]
#[inline]
fn interrupted() -> Error {
    Error::take_if_raised().unwrap_or_else(|| Error::new("EnvErrorAlreadySet", ""))
}
