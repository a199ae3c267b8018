use std::io;
use std::time::{Duration, Instant};

use super::transport::is_timeout;
use super::{MAX_KEY, Transport, WireError};

/// Appends a text, preceded by its length.
pub(super) fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend_from_slice(&(text.len() as i32).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

/// The total time of a handshake, so that a peer that sends one byte a second cannot keep it open.
pub(super) struct Clock {
    within: Duration,
    end: Option<Instant>,
}

impl Clock {
    pub(super) fn new(within: Duration) -> Self {
        Self { within, end: Instant::now().checked_add(within) }
    }

    fn late(&self) -> WireError {
        WireError::TimedOut { awaited: "the handshake", after: self.within }
    }

    /// Sets the transport's timeouts to the remaining time.
    fn start(&self, transport: &mut dyn Transport) -> Result<(), WireError> {
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(self.late());
        }
        transport.set_timeouts(left, left).map_err(WireError::Io)
    }

    pub(super) fn read(&mut self, transport: &mut dyn Transport, mut target: &mut [u8]) -> Result<(), WireError> {
        while !target.is_empty() {
            self.start(transport)?;
            match transport.read(target) {
                Ok(0) => return Err(WireError::Cut),
                Ok(count) => target = &mut target[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Err(self.late()),
                Err(error) => return Err(WireError::Io(error)),
            }
        }
        Ok(())
    }

    pub(super) fn read_number(&mut self, transport: &mut dyn Transport) -> Result<i32, WireError> {
        let mut bytes = [0; 4];
        self.read(transport, &mut bytes)?;
        Ok(i32::from_le_bytes(bytes))
    }

    pub(super) fn read_text(&mut self, transport: &mut dyn Transport) -> Result<String, WireError> {
        let length = self.read_number(transport)?;
        let fitting = usize::try_from(length).ok().filter(|&length| length <= MAX_KEY);
        let Some(length) = fitting else {
            return Err(WireError::Protocol(format!("a key of {length} bytes; the most is {MAX_KEY}")));
        };
        // At most 4 KiB, whatever length is announced.
        let mut bytes = vec![0; length];
        self.read(transport, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| WireError::Protocol("a key that is not UTF-8".to_owned()))
    }

    pub(super) fn write(&mut self, transport: &mut dyn Transport, mut bytes: &[u8]) -> Result<(), WireError> {
        while !bytes.is_empty() {
            self.start(transport)?;
            match transport.write(bytes) {
                Ok(0) => return Err(WireError::Cut),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Err(self.late()),
                Err(error) => return Err(WireError::Io(error)),
            }
        }
        Ok(())
    }
}
