use std::time::Duration;

/// The limits of a session. Reaching one ends the session, or fails the request with an error that
/// names the limit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest duration of a session; a client may ask for less (`-timeout=` in its key).
    /// `None` is unlimited.
    pub session_time: Option<Duration>,
    /// The longest duration of one request.
    pub call_time: Option<Duration>,
    /// The longest time that a session may wait for its client's next request.
    pub idle_time: Option<Duration>,
    /// The longest time that a peer may neither send nor take anything in the middle of a packet.
    pub stall_time: Option<Duration>,
    /// Bytes of memory of the session's process, and of each process that it starts: the private
    /// writable memory (`RLIMIT_DATA`). 0 is unlimited.
    pub memory: u64,
    /// Bytes that a client may upload in all, and the size of each file that the session writes. 0
    /// is unlimited.
    pub upload: u64,
    /// The number of functions, modules, tensors and other objects for which a client has handles,
    /// and of blocks of memory.
    pub handles: usize,
    /// Files that a process of the session may have open.
    pub files: u64,
    /// Processes of a session. 0 is unlimited.
    pub processes: usize,
    /// True if clients may run programs in their sessions (`cargo kernpack rpc runner`). The server
    /// must then have a token.
    pub run: bool,
}

impl Default for Limits {
    /// A day for a session, an hour for a call and between calls, three quarters of the machine's
    /// memory, 4 GiB of uploads.
    fn default() -> Self {
        let hour = Duration::from_secs(3600);
        Self {
            session_time: Some(24 * hour),
            call_time: Some(hour),
            idle_time: Some(hour),
            stall_time: Some(Duration::from_secs(60)),
            memory: physical_memory() / 4 * 3,
            upload: 4 << 30,
            handles: 1 << 18,
            files: 1024,
            processes: 64,
            run: false,
        }
    }
}

/// Bytes of memory of this machine; 0 if unknown.
fn physical_memory() -> u64 {
    // SAFETY: plain queries.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(size).unwrap_or(0))
}

impl Limits {
    /// The text form, for the command line of a session's process.
    pub(crate) fn to_text(&self) -> String {
        let time = |time: Option<Duration>| time.map_or("none".to_owned(), |time| time.as_nanos().to_string());
        [
            time(self.session_time),
            time(self.call_time),
            time(self.idle_time),
            time(self.stall_time),
            self.memory.to_string(),
            self.upload.to_string(),
            self.handles.to_string(),
            self.files.to_string(),
            self.processes.to_string(),
            self.run.to_string(),
        ]
        .join(",")
    }

    /// Parses the text form.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(',').collect();
        let [session, call, idle, stall, memory, upload, handles, files, processes, run] = words[..] else {
            return None;
        };
        let time = |word: &str| match word {
            "none" => Some(None),
            _ => word.parse().ok().map(|nanos| Some(Duration::from_nanos(nanos))),
        };
        Some(Self {
            session_time: time(session)?,
            call_time: time(call)?,
            idle_time: time(idle)?,
            stall_time: time(stall)?,
            memory: memory.parse().ok()?,
            upload: upload.parse().ok()?,
            handles: handles.parse().ok()?,
            files: files.parse().ok()?,
            processes: processes.parse().ok()?,
            run: run.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_both_ways() {
        let limits =
            Limits { call_time: None, session_time: Some(Duration::from_millis(1500)), run: true, ..Limits::default() };
        assert_eq!(Limits::from_text(&limits.to_text()), Some(limits));
        assert_eq!(Limits::from_text(""), None);
        assert!(Limits::default().memory > 1 << 26);
    }
}
