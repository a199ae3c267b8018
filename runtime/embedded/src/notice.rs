//! Lines on stderr, for errors without a caller to report to.

use core::fmt;

/// Writes a line with a single call. Smaller than `eprintln!`, which needs a lock and a writer.
#[cold]
pub fn notice(line: fmt::Arguments<'_>) {
    let line = format!("{line}\n");
    // SAFETY: the bytes live for the call. Nothing can be done when stderr is closed.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len() as _) };
}
