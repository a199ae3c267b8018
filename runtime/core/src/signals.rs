//! Ctrl+C during long loops of Rust code.

use crate::{Error, Result, provider};

/// Lets the frontend handle the signals that have come, so that Ctrl+C ends a long loop: in Python the error is a KeyboardInterrupt, or what the
/// program's handler of the signal raises.
///
/// Call it a few times a second, on the thread of the call that Python made; elsewhere, and in programs without such a frontend, it does nothing. Python's lock is
/// taken for it, so a call in each round of a short loop costs more than the round.
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

/// The error of the frontend: raised like any other, or kept by itself, which this kind of error tells it.
#[cold]
#[inline]
fn interrupted() -> Error {
    Error::take_if_raised().unwrap_or_else(|| Error::new("EnvErrorAlreadySet", ""))
}
