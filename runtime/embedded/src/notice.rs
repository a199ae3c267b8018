//! Lines on stderr, for errors without a caller to report to.

use core::fmt;

/// Writes a line in one piece. Smaller than `eprintln!`, which brings a lock and a writer of its own.
#[cold]
pub fn notice(line: fmt::Arguments<'_>) {
    let line = format!("{line}\n");
    // SAFETY: the bytes live for the call. Nothing can be done when stderr is closed.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len() as _) };
}
