//! The output of programs. A closed or full output is an error of the command, never a panic.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// True if this process was started without a standard output (`>&-`). The standard library opens
/// /dev/null in its place before `main`, which would accept everything.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

#[cfg(target_os = "linux")]
extern "C" fn look_at_output() {
    // SAFETY: a plain query of a number that may be no descriptor.
    IS_CLOSED.store(unsafe { libc::fcntl(1, libc::F_GETFD) } < 0, Ordering::Relaxed);
}

#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section holds addresses of functions that the system calls before `main`; this one
// makes one system call.
#[unsafe(link_section = ".init_array")]
static LOOK_AT_OUTPUT: extern "C" fn() = look_at_output;

/// Returns true if the standard output is a file that users other than its owner may read.
pub(super) fn is_readable_by_others() -> bool {
    io::stdout().as_fd().try_clone_to_owned().and_then(|copy| File::from(copy).metadata()).is_ok_and(|file| {
        const OTHERS: u32 = 0o044;
        file.is_file() && file.permissions().mode() & OTHERS != 0
    })
}

/// Prints a text completely.
///
/// # Errors
/// The error of the system; a closed output is an error, too.
pub fn print(text: &str) -> io::Result<()> {
    if IS_CLOSED.load(Ordering::Relaxed) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}
