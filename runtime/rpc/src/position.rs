//! The position of a session in the protocol: one page of memory that the session's process shares
//! with the process that watches it.
//!
//! The watcher must know three things after a session has died: whether a reply had begun, so that
//! no other bytes may follow; which function was being called; and whether the session had ended in
//! order.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The activity of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has not read its first packet.
    Starting,
    /// It waits for a packet.
    Idle,
    /// It works on a request; no part of the reply has been sent.
    Working,
    /// It sends a reply.
    Replying,
    /// The client has ended the session.
    Done,
}

const PHASES: [Phase; 5] = [Phase::Starting, Phase::Idle, Phase::Working, Phase::Replying, Phase::Done];

const NAME: usize = 120;

#[repr(C)]
struct Page {
    requests: AtomicU64,
    phase: AtomicU32,
    name_length: AtomicU32,
    name: [AtomicU8; NAME],
}

/// The position of one session.
pub(crate) struct Position {
    page: NonNull<Page>,
}

// SAFETY: everything in the page is atomic.
unsafe impl Send for Position {}
// SAFETY: as above.
unsafe impl Sync for Position {}

impl Position {
    /// A page that processes made by `fork` share.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: a new mapping, at an address that the system chooses.
        let page = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Page>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(page.cast()).map(|page| Self { page }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    fn page(&self) -> &Page {
        // SAFETY: the mapping lives as long as `self`; zero bytes are valid for atomics.
        unsafe { self.page.as_ref() }
    }

    /// Records the activity of the session.
    pub(crate) fn set(&self, phase: Phase) {
        self.page().phase.store(phase as u32, Ordering::Release);
    }

    /// The session's current activity, or its last one.
    pub(crate) fn phase(&self) -> Phase {
        // The session's process may write anything there.
        PHASES.get(self.page().phase.load(Ordering::Acquire) as usize).copied().unwrap_or(Phase::Replying)
    }

    /// Records that a request was received.
    pub(crate) fn begin(&self) {
        let page = self.page();
        page.name_length.store(0, Ordering::Relaxed);
        page.requests.store(page.requests.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.set(Phase::Working);
    }

    /// Records the name of the called function.
    pub(crate) fn name(&self, name: &str) {
        let page = self.page();
        for (place, byte) in page.name.iter().zip(name.bytes()) {
            place.store(byte, Ordering::Relaxed);
        }
        page.name_length.store(name.len().min(NAME) as u32, Ordering::Release);
    }

    /// The number of requests received.
    pub(crate) fn requests(&self) -> u64 {
        self.page().requests.load(Ordering::Relaxed)
    }

    /// The name of the last called function, if it is known.
    pub(crate) fn last_name(&self) -> Option<String> {
        let length = (self.page().name_length.load(Ordering::Acquire) as usize).min(NAME);
        let name: Vec<u8> = self.page().name[..length].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        (length > 0).then(|| String::from_utf8_lossy(&name).into_owned())
    }
}

impl Drop for Position {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and borrowed by nothing any more.
        unsafe { libc::munmap(self.page.as_ptr().cast(), size_of::<Page>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read() {
        let position = Position::new().unwrap();
        assert_eq!((position.phase(), position.requests(), position.last_name()), (Phase::Starting, 0, None));
        position.begin();
        position.name(&"ü".repeat(100));
        assert_eq!((position.phase(), position.requests()), (Phase::Working, 1));
        assert_eq!(position.last_name().unwrap(), "ü".repeat(60));
        position.set(Phase::Done);
        position.begin();
        assert_eq!((position.last_name(), position.requests()), (None, 2));
        position.page().phase.store(77, Ordering::Relaxed);
        assert_eq!(position.phase(), Phase::Replying);
    }
}
