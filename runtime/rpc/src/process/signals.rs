use std::ptr;
use std::time::Duration;

extern "C" fn nothing(_: libc::c_int) {}

/// Makes the end of a child interrupt [`wait`]; until then the signal stays pending.
pub(super) fn watch_children() {
    // SAFETY: the structs are valid; a handler that does nothing may run at any time.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGCHLD, &action, ptr::null_mut());
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
    }
}

/// Restores the state before [`watch_children`], for the session.
pub(super) fn unwatch_children() {
    // SAFETY: as above.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
    }
}

/// Waits until a descriptor is readable, a child ends, or the time is over; returns true if it is
/// readable.
pub(super) fn wait(descriptor: libc::c_int, time: Duration) -> bool {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    #[cfg(target_os = "linux")]
    // SAFETY: the structs are valid for the call.
    unsafe {
        let mut time_spec: libc::timespec = std::mem::zeroed();
        time_spec.tv_sec = time.as_secs() as _;
        time_spec.tv_nsec = time.subsec_nanos() as _;
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::ppoll(&mut poll, 1, &time_spec, &none);
    }
    #[cfg(not(target_os = "linux"))]
    // The end of a child is noticed a little later.
    // SAFETY: as above.
    unsafe {
        libc::poll(&mut poll, 1, time.min(Duration::from_millis(20)).as_millis() as libc::c_int);
    }
    poll.revents != 0
}
