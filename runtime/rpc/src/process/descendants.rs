//! The processes that a session has started, directly or not: found and ended, whatever they did to hide.

use std::collections::HashSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Lets processes whose parents have ended become children of this one, so that they are found.
pub(super) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    // SAFETY: a plain call.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

/// All processes below this one.
pub(super) fn list() -> Vec<i32> {
    let own = std::process::id() as i32;
    let mut found = vec![own];
    let mut next = 0;
    while next < found.len() {
        let pid = found[next];
        next += 1;
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(children.split_ascii_whitespace().filter_map(|word| word.parse::<i32>().ok()));
        }
    }
    found.swap_remove(0);
    found
}

/// Ends all processes below this one, and takes note of their ends.
pub(super) fn end(session: i32) {
    // What is stopped starts nothing: first all are stopped, until there is no new one.
    let mut stopped = HashSet::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let new: Vec<i32> = list().into_iter().filter(|pid| !stopped.contains(pid)).collect();
        for &pid in &new {
            signal(pid, libc::SIGSTOP);
            stopped.insert(pid);
        }
        if new.is_empty() || Instant::now() > deadline {
            break;
        }
    }
    // Where children cannot be listed, the session's group is what is known.
    signal(-session, libc::SIGKILL);
    signal(session, libc::SIGKILL);
    stopped.iter().for_each(|&pid| signal(pid, libc::SIGKILL));
    while Instant::now() < deadline {
        // SAFETY: no status is wanted.
        match unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } {
            -1 => return,
            0 => {
                list().into_iter().for_each(|pid| signal(pid, libc::SIGKILL));
                thread::sleep(Duration::from_millis(1));
            }
            _ => {}
        }
    }
}

fn signal(pid: i32, signal: libc::c_int) {
    // SAFETY: a plain call; the process is one below this one, or has just ended.
    unsafe { libc::kill(pid, signal) };
}
