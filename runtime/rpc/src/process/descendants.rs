//! Finds and ends the processes that a session has started, directly or indirectly, even if they
//! tried to hide.

use std::collections::HashSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Makes processes whose parents have ended children of this one, so that they can be found.
pub(super) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    // SAFETY: a plain call.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

/// All descendants of this process.
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

/// Ends all descendants of this process, and reaps them.
pub(super) fn end(session: i32) {
    // A stopped process cannot start others: first all are stopped, until no new one appears.
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
    // If children cannot be listed, only the session's group is known.
    signal(-session, libc::SIGKILL);
    signal(session, libc::SIGKILL);
    stopped.iter().for_each(|&pid| signal(pid, libc::SIGKILL));
    while Instant::now() < deadline {
        // SAFETY: no status is requested.
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
