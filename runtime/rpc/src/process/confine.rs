//! Confines the process of a session.

use std::io;
use std::path::Path;

use crate::limits::Limits;

/// Confines this process, and those that it will start, before it serves its client.
pub(super) fn confine(limits: &Limits, folder: &Path) -> io::Result<()> {
    // A group of its own: no signals from the server's terminal.
    // SAFETY: plain calls.
    unsafe {
        libc::setsid();
        // A write beyond the limit of a file is an error, not a signal.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    #[cfg(target_os = "linux")]
    {
        // SAFETY: a plain call.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
        // When memory runs out, the session is killed before others. Systems without the file have
        // other mechanisms.
        let _ = std::fs::write("/proc/self/oom_score_adj", "500");
    }
    limit(libc::RLIMIT_CORE as _, Some(0))?;
    limit(libc::RLIMIT_DATA as _, (limits.memory > 0).then_some(limits.memory))?;
    limit(libc::RLIMIT_FSIZE as _, (limits.upload > 0).then_some(limits.upload))?;
    limit(libc::RLIMIT_NOFILE as _, Some(limits.files.max(16)))?;
    std::env::set_current_dir(folder)?;
    // SAFETY: this process has one thread.
    unsafe { std::env::set_var("TMPDIR", folder) };
    Ok(())
}

/// Sets a limit, unless it is lower already.
fn limit(resource: libc::c_int, value: Option<u64>) -> io::Result<()> {
    let Some(value) = value else { return Ok(()) };
    // C libraries have different types for a resource.
    let resource = resource as _;
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is writable, then readable.
    unsafe {
        if libc::getrlimit(resource, &mut now) != 0 {
            return Err(io::Error::last_os_error());
        }
        let value = (value as libc::rlim_t).min(now.rlim_max);
        if libc::setrlimit(resource, &libc::rlimit { rlim_cur: value, rlim_max: value }) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
