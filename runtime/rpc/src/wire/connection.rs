use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::thread;
use std::time::{Duration, Instant};

use super::decode::too_short;
use super::transport::{has_input, is_timeout};
use super::{Bounds, Code, Encoder, Source, TensorHeader, Transport, Value, WireError, decode, decode_tensor};

/// The size of the read-ahead buffer. Longer data is read directly into its destination.
const BUFFER: usize = 16 << 10;
/// The time for which a reader polls before it sleeps, as long as the peer answers that fast.
const SPIN: Duration = Duration::from_micros(40);
/// The objects of waits inside packets, for messages.
const REST: &str = "the rest of a packet";
const TAKEN: &str = "the peer to take a packet";
/// Spin-loop hints between two polls of a socket.
const PAUSES: u32 = 8;
/// If a wait was shorter than this, the next one begins with polling.
const QUICK: Duration = Duration::from_micros(80);
/// The number of waits that begin with sleep after polling was in vain, at first and at most. If
/// both sides share a processor because others are busy, polling only keeps the peer from
/// answering.
const IN_VAIN: [u32; 2] = [8, 128];

/// The minimum rate, in bytes a second, at which a peer must send and take data inside packets, on
/// average after the first [`Patience::stall`]: a slower peer only keeps the connection open. A
/// line of 9600 baud is faster.
const SLOWEST: u64 = 512;

/// The interval at which an interruptible wait checks for interruption.
const SLICE: Duration = Duration::from_millis(100);

/// The timeouts of a connection; `None` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The timeout until the next packet begins, however many keep-alives precede it.
    pub idle: Option<Duration>,
    /// The timeout until the next byte inside a packet, read or written; and for the whole packet,
    /// with one second more for each 512 bytes of it that were transferred.
    pub stall: Option<Duration>,
}

impl Default for Patience {
    fn default() -> Self {
        Self { idle: None, stall: Some(Duration::from_secs(60)) }
    }
}

/// A packet whose head was read: its body is read from the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The kind of the packet, as a number; see [`Packet::code`].
    pub number: i32,
    /// Bytes of the body, behind the code.
    pub length: u64,
}

impl Packet {
    /// The kind of the packet; `None` for an undefined number.
    pub const fn code(&self) -> Option<Code> {
        Code::from_number(self.number)
    }
}

/// Packets over a transport, in both directions.
///
/// A packet's body is read piece by piece: [`Connection::sequence`], [`Connection::tensor`],
/// [`Connection::data`], [`Connection::skip`]. Its unread rest is skipped when the next packet is
/// requested.
pub struct Connection<T> {
    transport: T,
    buffer: Box<[u8]>,
    /// The range of the buffer that is not consumed yet.
    ready: std::ops::Range<usize>,
    /// Unread bytes of the current packet.
    left: u64,
    /// The time spent waiting for the rest of the packet that is being read, and the bytes of it
    /// that arrived meanwhile.
    waited: Duration,
    come: u64,
    /// The largest size of a packet, in bytes.
    limit: u64,
    patience: Patience,
    /// Returns true if a wait has to end before its time.
    interrupt: Option<fn() -> bool>,
    may_interrupt: bool,
    /// The read timeout that was last set on the transport.
    waits: Option<Option<Duration>>,
    spins: bool,
    quick: bool,
    /// The number of coming waits that do not begin with polling, and the number of them after
    /// polling is in vain the next time.
    sleeps: u32,
    in_vain: u32,
    output: Vec<u8>,
}

impl<T: Transport> Connection<T> {
    /// Creates a connection over a transport whose handshake is done.
    pub fn new(transport: T, patience: Patience) -> Self {
        Self {
            transport,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            ready: 0..0,
            left: 0,
            waited: Duration::ZERO,
            come: 0,
            limit: u64::MAX,
            patience,
            interrupt: None,
            may_interrupt: true,
            waits: None,
            spins: thread::available_parallelism().is_ok_and(|count| count.get() > 1),
            quick: false,
            sleeps: 0,
            in_vain: IN_VAIN[0],
            output: Vec::new(),
        }
    }

    /// The transport.
    pub const fn transport(&self) -> &T {
        &self.transport
    }

    /// The transport, for bytes that are not packets of this protocol. Bytes that were read ahead
    /// are not included: see [`Connection::take_ready`].
    pub const fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Takes the bytes that were read ahead.
    pub fn take_ready(&mut self) -> Vec<u8> {
        let ready = self.buffer[self.ready.clone()].to_vec();
        self.ready = 0..0;
        ready
    }

    /// Changes the timeouts of the connection, from the next read or write on.
    pub fn set_patience(&mut self, patience: Patience) {
        self.waits = None;
        self.patience = patience;
    }

    /// Calls `is_interrupted` ten times a second while the connection waits, and after a signal; if
    /// it returns true, the wait ends with [`WireError::Interrupted`], and the connection cannot be
    /// used any more.
    pub fn set_interrupt(&mut self, is_interrupted: fn() -> bool) {
        self.waits = None;
        self.interrupt = Some(is_interrupted);
    }

    /// Sets whether the function given to [`Connection::set_interrupt`] is called; at first it is.
    pub const fn allow_interrupt(&mut self, allowed: bool) {
        self.may_interrupt = allowed;
    }

    /// Rejects packets of more bytes than this.
    pub fn set_limit(&mut self, bytes: u64) {
        self.limit = bytes;
    }

    /// Waits for the next packet. Keep-alives are skipped.
    ///
    /// # Errors
    /// [`WireError::Closed`] when the peer has ended the connection between packets; else the
    /// reason of the failure.
    pub fn next_packet(&mut self) -> Result<Packet, WireError> {
        self.skip()?;
        let mut alive = None;
        loop {
            let mut length = [0; 8];
            if self.ready.is_empty() {
                let idle = self.patience.idle.map(|idle| match alive {
                    None => idle,
                    Some(begun) => idle.saturating_sub(Instant::elapsed(&begun)),
                });
                if idle.is_some_and(|idle| idle.is_zero()) && alive.is_some() {
                    let after = self.patience.idle.unwrap_or_default();
                    return Err(WireError::TimedOut { awaited: "a packet", after });
                }
                if self.fill(idle, "a packet")? == 0 {
                    return Err(WireError::Closed);
                }
            }
            (self.waited, self.come) = (Duration::ZERO, 0);
            self.fetch(&mut length)?;
            let length = u64::from_le_bytes(length);
            if length == 0 {
                // A peer that sends only keep-alives does not extend the wait.
                let _ = alive.get_or_insert_with(Instant::now);
                continue;
            }
            if length < 4 || length > self.limit {
                return Err(WireError::Protocol(format!(
                    "a packet of {length} bytes; a packet has 4 to {} bytes",
                    self.limit
                )));
            }
            let mut number = [0; 4];
            self.fetch(&mut number)?;
            self.left = length - 4;
            return Ok(Packet { number: i32::from_le_bytes(number), length: self.left });
        }
    }

    /// Reads a packed sequence.
    ///
    /// # Errors
    /// As for [`decode`].
    pub fn sequence(&mut self, bounds: &Bounds) -> Result<Vec<Value>, WireError> {
        decode(self, bounds)
    }

    /// Reads the tensor at the beginning of a copy.
    ///
    /// # Errors
    /// As for [`decode_tensor`].
    pub fn tensor(&mut self, bounds: &Bounds) -> Result<TensorHeader, WireError> {
        decode_tensor(self, bounds)
    }

    /// Reads an integer that has no type index.
    ///
    /// # Errors
    /// As for [`Source::take`].
    pub fn word(&mut self) -> Result<u64, WireError> {
        let mut bytes = [0; 8];
        self.take(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Checks that the packet is at its end.
    ///
    /// # Errors
    /// [`WireError::Content`] otherwise.
    pub fn end(&self) -> Result<(), WireError> {
        match self.left {
            0 => Ok(()),
            left => Err(WireError::Content(format!("the packet has {left} bytes behind its values"))),
        }
    }

    /// Reads bytes directly into `target`, past the buffer. All of `target` is initialized on
    /// success.
    ///
    /// # Errors
    /// As for [`Source::take`].
    pub fn data(&mut self, mut target: &mut [MaybeUninit<u8>]) -> Result<(), WireError> {
        self.claim(target.len())?;
        let buffered = self.ready.len().min(target.len());
        let (head, rest) = target.split_at_mut(buffered);
        for (to, from) in head.iter_mut().zip(&self.buffer[self.ready.clone()]) {
            to.write(*from);
        }
        self.ready.start += buffered;
        target = rest;
        let mut wait = Wait::begin(self.patience.stall, REST);
        while !target.is_empty() {
            self.wait(self.patience.stall)?;
            match self.transport.read_into(target) {
                Ok(0) => return Err(WireError::Cut),
                Ok(count) => {
                    target = &mut target[count..];
                    let begun = wait.begun;
                    self.progress(&mut wait)?;
                    self.came(count, wait.begun - begun)?;
                }
                Err(error) => self.check(error, &wait)?,
            }
        }
        Ok(())
    }

    /// Skips the rest of the packet.
    ///
    /// # Errors
    /// Any error of the connection.
    pub fn skip(&mut self) -> Result<(), WireError> {
        while self.left > 0 {
            if self.ready.is_empty() && self.fill_rest()? == 0 {
                return Err(WireError::Cut);
            }
            let count = usize::try_from(self.left).map_or(self.ready.len(), |left| left.min(self.ready.len()));
            self.ready.start += count;
            self.left -= count as u64;
        }
        Ok(())
    }

    /// Sends a packet whose body `write` appends to the buffer.
    ///
    /// # Errors
    /// Any error of the connection.
    pub fn send(&mut self, code: Code, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), WireError> {
        self.send_with(code, &[], write)
    }

    /// Sends a packet: the bytes that `write` appends to the buffer, followed by data that is not
    /// copied.
    ///
    /// # Errors
    /// Any error of the connection.
    pub fn send_with(&mut self, code: Code, data: &[u8], write: impl FnOnce(&mut Vec<u8>)) -> Result<(), WireError> {
        self.send_head(code, data.len() as u64, data, write)
    }

    /// Sends the beginning of a packet whose remaining `more` bytes follow by
    /// [`Connection::send_more`].
    ///
    /// # Errors
    /// Any error of the connection.
    pub fn send_begin(&mut self, code: Code, more: u64, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), WireError> {
        self.send_head(code, more, &[], write)
    }

    /// Sends a piece of the packet that [`Connection::send_begin`] has begun.
    ///
    /// # Errors
    /// Any error of the connection.
    pub fn send_more(&mut self, data: &[u8]) -> Result<(), WireError> {
        self.write(&mut [IoSlice::new(data)])
    }

    fn send_head(
        &mut self,
        code: Code,
        more: u64,
        data: &[u8],
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), WireError> {
        let mut output = std::mem::take(&mut self.output);
        output.clear();
        output.extend_from_slice(&[0; 8]);
        output.extend_from_slice(&code.number().to_le_bytes());
        write(&mut output);
        let length = (output.len() - 8) as u64 + more;
        output[..8].copy_from_slice(&length.to_le_bytes());
        let sent = self.write(&mut [IoSlice::new(&output), IoSlice::new(data)]);
        // The buffer of a long text is not kept for the rest of the session.
        output.shrink_to(BUFFER);
        self.output = output;
        sent
    }

    /// Writes all parts, one after the other, in as few calls as possible.
    fn write(&mut self, parts: &mut [IoSlice<'_>]) -> Result<(), WireError> {
        // Reads and writes share one timeout: a write that follows a wait for a packet sets it
        // again.
        if self.waits.is_none() {
            self.wait(self.patience.stall)?;
        }
        let mut wait = Wait::begin(self.patience.stall, TAKEN);
        let (begun, mut gone) = (wait.begun, 0);
        let mut rest = parts;
        // Removes empty parts in front.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.transport.write_some(rest) {
                Ok(0) => return Err(WireError::Io(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    IoSlice::advance_slices(&mut rest, count);
                    if !rest.is_empty() {
                        self.progress(&mut wait)?;
                        gone += count as u64;
                        self.is_quick(wait.begun - begun, gone, TAKEN)?;
                    }
                }
                Err(error) => self.check(error, &wait)?,
            }
        }
        Ok(())
    }

    /// Counts bytes of the packet as read.
    fn claim(&mut self, count: usize) -> Result<(), WireError> {
        self.left = self.left.checked_sub(count as u64).ok_or_else(too_short)?;
        Ok(())
    }

    /// Reads through the buffer, independent of packet boundaries.
    fn fetch(&mut self, mut target: &mut [u8]) -> Result<(), WireError> {
        while !target.is_empty() {
            if self.ready.is_empty() && self.fill_rest()? == 0 {
                return Err(WireError::Cut);
            }
            let count = self.ready.len().min(target.len());
            let (head, rest) = target.split_at_mut(count);
            head.copy_from_slice(&self.buffer[self.ready.start..self.ready.start + count]);
            self.ready.start += count;
            target = rest;
        }
        Ok(())
    }

    /// Reads more of a packet into the empty buffer.
    fn fill_rest(&mut self) -> Result<usize, WireError> {
        let begun = Instant::now();
        let count = self.fill(self.patience.stall, REST)?;
        self.came(count, begun.elapsed())?;
        Ok(count)
    }

    /// Counts bytes of the packet as received, and the time that they took.
    fn came(&mut self, count: usize, time: Duration) -> Result<(), WireError> {
        self.come += count as u64;
        self.waited += time;
        self.is_quick(self.waited, self.come, REST)
    }

    /// Checks that a packet is not slower than [`SLOWEST`]: an occasional byte does not count as
    /// progress.
    fn is_quick(&self, waited: Duration, bytes: u64, awaited: &'static str) -> Result<(), WireError> {
        let Some(stall) = self.patience.stall else { return Ok(()) };
        let allowed = stall.saturating_add(Duration::from_secs(bytes / SLOWEST));
        match waited > allowed {
            true => Err(WireError::TimedOut { awaited, after: allowed }),
            false => Ok(()),
        }
    }

    /// Reads into the empty buffer; 0 is the end of the connection.
    fn fill(&mut self, wait: Option<Duration>, awaited: &'static str) -> Result<usize, WireError> {
        let count = match self.fill_soon()? {
            Some(count) => count,
            None => {
                self.wait(wait)?;
                let wait = Wait::begin(wait, awaited);
                let count = loop {
                    match self.transport.read(&mut self.buffer) {
                        Ok(count) => break count,
                        Err(error) => self.check(error, &wait)?,
                    }
                };
                self.quick = self.spins && self.sleeps == 0 && wait.begun.elapsed() < QUICK;
                self.sleeps = self.sleeps.saturating_sub(1);
                count
            }
        };
        self.ready = 0..count;
        Ok(count)
    }

    /// Polls for a short time, as long as that helps: for a peer that answers within microseconds,
    /// sleeping takes longer.
    fn fill_soon(&mut self) -> Result<Option<usize>, WireError> {
        if !self.quick {
            return Ok(None);
        }
        let start = Instant::now();
        loop {
            match self.transport.read_now(&mut self.buffer) {
                Ok(count) => {
                    self.in_vain = IN_VAIN[0];
                    return Ok(Some(count));
                }
                Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(WireError::Io(error)),
            }
            // A read locks the socket, which delays a peer that is about to write; polling does
            // not.
            let socket = self.transport.descriptor();
            loop {
                if start.elapsed() > SPIN {
                    self.quick = false;
                    self.sleeps = self.in_vain;
                    self.in_vain = (2 * self.in_vain).min(IN_VAIN[1]);
                    return Ok(None);
                }
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
                if socket.is_none_or(has_input) {
                    break;
                }
            }
        }
    }

    fn wait(&mut self, wait: Option<Duration>) -> Result<(), WireError> {
        if self.waits != Some(wait) {
            // A timeout of zero means none to the system.
            let least = |time: Duration| time.max(Duration::from_millis(1));
            let least = |time: Option<Duration>| match self.interrupt {
                Some(_) => Some(time.map_or(SLICE, |time| least(time).min(SLICE))),
                None => time.map(least),
            };
            let stall = least(self.patience.stall);
            self.transport.set_timeouts(least(wait), stall).map_err(WireError::Io)?;
            self.waits = Some(wait);
        }
        Ok(())
    }

    /// Converts an error of the transport: an interruption and the end of a slice are not errors,
    /// unless the wait has to end.
    fn check(&self, error: io::Error, wait: &Wait) -> Result<(), WireError> {
        match error.kind() {
            io::ErrorKind::Interrupted => self.ask(),
            _ if is_timeout(&error) => {
                let has_time = wait.limit.is_none_or(|limit| wait.begun.elapsed() < limit);
                if self.interrupt.is_some() && has_time {
                    return self.ask();
                }
                Err(WireError::TimedOut { awaited: wait.awaited, after: wait.limit.unwrap_or_default() })
            }
            _ => Err(WireError::Io(error)),
        }
    }

    /// A part was transferred: the wait begins again.
    fn progress(&self, wait: &mut Wait) -> Result<(), WireError> {
        let now = Instant::now();
        wait.begun = now;
        if self.interrupt.is_some() && now - wait.asked > SLICE {
            wait.asked = now;
            self.ask()?;
        }
        Ok(())
    }

    fn ask(&self) -> Result<(), WireError> {
        match self.interrupt {
            Some(is_interrupted) if self.may_interrupt && is_interrupted() => Err(WireError::Interrupted),
            _ => Ok(()),
        }
    }

    /// Sends [`Code::Exception`] with a message.
    ///
    /// # Errors
    /// Any error of the connection.
    pub fn send_exception(&mut self, message: &str) -> Result<(), WireError> {
        self.send(Code::Exception, |body| {
            Encoder::begin(body, 1).text(message);
        })
    }

    /// Reads the message of [`Code::Exception`]. Bytes that are not UTF-8 are replaced: stock
    /// servers send arbitrary bytes.
    ///
    /// # Errors
    /// [`WireError::Content`] for another body; else any error of the connection.
    pub fn exception(&mut self, bounds: &Bounds) -> Result<String, WireError> {
        let mut head = [0; 8];
        self.take(&mut head)?;
        let length = self.word()?;
        if head != [1, 0, 0, 0, 8, 0, 0, 0] || length != self.left || length > bounds.text {
            return Err(WireError::Content("an exception without a message".to_owned()));
        }
        let mut text = Vec::new();
        while self.left > 0 {
            let start = text.len();
            text.resize(start + usize::try_from(self.left).map_or(BUFFER, |left| left.min(BUFFER)), 0);
            self.take(&mut text[start..])?;
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// A wait in progress.
struct Wait {
    /// The time at which it began, or at which the last bytes arrived.
    begun: Instant,
    /// The time of the last check for interruption.
    asked: Instant,
    limit: Option<Duration>,
    awaited: &'static str,
}

impl Wait {
    fn begin(limit: Option<Duration>, awaited: &'static str) -> Self {
        let now = Instant::now();
        Self { begun: now, asked: now, limit, awaited }
    }
}

impl<T: Transport> Source for Connection<T> {
    fn left(&self) -> u64 {
        self.left
    }

    fn take(&mut self, target: &mut [u8]) -> Result<(), WireError> {
        if target.len() <= self.ready.len() || target.len() < BUFFER {
            self.claim(target.len())?;
            return self.fetch(target);
        }
        // SAFETY: the same memory; `data` writes initialized bytes only.
        let target =
            unsafe { std::slice::from_raw_parts_mut(target.as_mut_ptr().cast::<MaybeUninit<u8>>(), target.len()) };
        self.data(target)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (UnixStream, Connection<UnixStream>) {
        let (peer, own) = UnixStream::pair().unwrap();
        (
            peer,
            Connection::new(
                own,
                Patience { idle: Some(Duration::from_secs(20)), stall: Some(Duration::from_secs(20)) },
            ),
        )
    }

    fn packet(length: u64, payload: &[u8]) -> Vec<u8> {
        [&length.to_le_bytes()[..], payload].concat()
    }

    #[test]
    fn packets_go_both_ways() {
        let (first, mut second) = pair();
        let mut first = Connection::new(first, Patience::default());
        let big: Vec<u8> = (0..1_000_000u32).map(|i| i as u8).collect();
        let sent = big.clone();
        let sender = thread::spawn(move || {
            first.send(Code::CallFunc, |body| {
                body.extend_from_slice(&5u64.to_le_bytes());
                Encoder::begin(body, 1).bytes(&sent);
            })?;
            first.send_with(Code::CopyAck, &sent, |_| {})?;
            first.send_begin(Code::CopyAck, sent.len() as u64, |_| {})?;
            sent.chunks(70_000).try_for_each(|piece| first.send_more(piece))?;
            first.send(Code::Shutdown, |_| {})?;
            first.send_exception("broken")
        });
        assert_eq!(second.next_packet().unwrap().code(), Some(Code::CallFunc));
        assert_eq!(second.word().unwrap(), 5);
        assert_eq!(second.sequence(&Bounds::default()).unwrap(), [Value::Bytes(big.clone())]);
        second.end().unwrap();
        for _ in 0..2 {
            let ack = second.next_packet().unwrap();
            assert_eq!((ack.code(), ack.length), (Some(Code::CopyAck), 1_000_000));
            let mut data = Vec::with_capacity(big.len());
            second.data(&mut data.spare_capacity_mut()[..big.len()]).unwrap();
            // SAFETY: `data` has initialized them.
            unsafe { data.set_len(big.len()) };
            assert_eq!(data, big);
        }
        assert_eq!(second.next_packet().unwrap(), Packet { number: 1, length: 0 });
        assert_eq!(second.next_packet().unwrap().code(), Some(Code::Exception));
        assert_eq!(second.exception(&Bounds::default()).unwrap(), "broken");
        sender.join().unwrap().unwrap();
        assert!(matches!(second.next_packet(), Err(WireError::Closed)));
    }

    #[test]
    fn keep_alives_and_unread_bodies_are_skipped() {
        let (mut peer, mut own) = pair();
        let bytes =
            [packet(0, b""), packet(6, b"\x0a\0\0\0xy"), packet(0, b""), packet(0, b""), packet(4, b"\x63\0\0\0")];
        peer.write_all(&bytes.concat()).unwrap();
        drop(peer);
        assert_eq!(own.next_packet().unwrap(), Packet { number: 10, length: 2 });
        let unknown = own.next_packet().unwrap();
        assert_eq!((unknown.number, unknown.code()), (99, None));
        assert!(matches!(own.next_packet(), Err(WireError::Closed)));
    }

    /// Starts a peer that sends `first`, then `again` repeatedly, with short pauses, until its
    /// connection is closed.
    fn trickle(mut peer: UnixStream, first: Vec<u8>, again: &'static [u8]) -> thread::JoinHandle<()> {
        thread::spawn(move || {
            let mut sent = peer.write_all(&first);
            while sent.is_ok() {
                thread::sleep(Duration::from_millis(5));
                sent = peer.write_all(again);
            }
        })
    }

    #[test]
    fn bytes_that_trickle_in_are_no_progress() {
        let text = [&b"\x05\0\0\0\x01\0\0\0\x08\0\0\0"[..], &1_000_000u64.to_le_bytes()].concat();
        type Read = fn(&mut Connection<UnixStream>) -> Result<(), WireError>;
        let cases: [(&str, Vec<u8>, &[u8], Read); 5] = [
            ("keep-alives", Vec::new(), &[0; 8], |own| own.next_packet().map(drop)),
            ("the head", Vec::new(), &[1], |own| own.next_packet().map(drop)),
            ("a text", packet(1_000_020, &text), &[1], |own| {
                own.next_packet().and_then(|_| own.exception(&Bounds::default())).map(drop)
            }),
            ("data", packet(100_004, &[5, 0, 0, 0]), &[1], |own| {
                let mut data = vec![MaybeUninit::uninit(); 100_000];
                own.next_packet().and_then(|_| own.data(&mut data))
            }),
            ("what is skipped", packet(100_004, &[5, 0, 0, 0]), &[1], |own| own.next_packet().and_then(|_| own.skip())),
        ];
        for (what, first, again, read) in cases {
            let (peer, mut own) = pair();
            let time = Some(Duration::from_millis(100));
            own.set_patience(Patience { idle: time, stall: time });
            own.set_limit(if what == "the head" { 1 } else { u64::MAX });
            let sender = trickle(peer, first, again);
            let error = read(&mut own).unwrap_err();
            match what {
                // Eight bytes arrive in time, and are invalid.
                "the head" => assert!(matches!(error, WireError::Protocol(_)), "{what}: {error}"),
                _ => assert!(matches!(error, WireError::TimedOut { .. }), "{what}: {error}"),
            }
            drop(own);
            sender.join().unwrap();
        }
    }

    #[test]
    fn content_errors_leave_the_connection() {
        let (mut peer, mut own) = pair();
        let wrong = packet(12, b"\x03\0\0\0\x01\0\0\0\x08\0\0\0");
        peer.write_all(&[wrong.clone(), wrong, packet(4, b"\x01\0\0\0")].concat()).unwrap();
        own.next_packet().unwrap();
        let error = own.sequence(&Bounds::default()).unwrap_err();
        assert!(error.is_recoverable(), "{error}");
        own.next_packet().unwrap();
        assert!(own.end().unwrap_err().is_recoverable());
        assert_eq!(own.next_packet().unwrap().code(), Some(Code::Shutdown));
    }

    #[test]
    fn hostile_packets() {
        for (bytes, problem) in [
            (packet(1 << 63, b"\x03\0\0\0"), "a packet of 9223372036854775808 bytes"),
            (packet(u64::MAX, b""), "a packet of 18446744073709551615 bytes"),
            (packet(3, b"\x03\0\0"), "a packet of 3 bytes"),
            (packet(4, b"\x03"), "ended in the middle"),
            (vec![4, 0], "ended in the middle"),
            (packet(100, b"\x05\0\0\0\x01\0\0\0\x08\0\0\0\x50\0\0\0\0\0\0\0hi"), "ended in the middle"),
            (packet(100, b"\x05\0\0\0\x01\0\0\0\x08\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"), "without a message"),
        ] {
            let (mut peer, mut own) = pair();
            own.set_limit(1 << 40);
            peer.write_all(&bytes).unwrap();
            drop(peer);
            let read = own.next_packet().and_then(|_| own.exception(&Bounds::default()));
            let error = read.unwrap_err().to_string();
            assert!(error.contains(problem), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn waits_are_interrupted() {
        use std::sync::atomic::{AtomicU32, Ordering};
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let (mut peer, mut own) = pair();
        own.set_interrupt(|| ASKED.fetch_add(1, Ordering::Relaxed) == 2);
        let start = Instant::now();
        assert!(matches!(own.next_packet(), Err(WireError::Interrupted)));
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        // In the middle of a packet, and while the peer does not read.
        ASKED.store(0, Ordering::Relaxed);
        peer.write_all(&packet(100, b"\x05\0\0\0")).unwrap();
        own.next_packet().unwrap();
        let mut target = [MaybeUninit::uninit(); 90];
        assert!(matches!(own.data(&mut target), Err(WireError::Interrupted)));
        ASKED.store(0, Ordering::Relaxed);
        assert!(matches!(own.send_with(Code::CopyAck, &vec![0; 32 << 20], |_| {}), Err(WireError::Interrupted)));
        // If interruption is not allowed, the wait lasts its full time; slices do not extend it.
        own.allow_interrupt(false);
        ASKED.store(0, Ordering::Relaxed);
        own.set_patience(Patience { idle: Some(Duration::from_millis(350)), stall: Some(Duration::from_millis(350)) });
        let start = Instant::now();
        assert!(matches!(own.skip(), Err(WireError::TimedOut { .. })));
        assert!(start.elapsed() >= Duration::from_millis(350) && ASKED.load(Ordering::Relaxed) == 0);
    }

    #[test]
    fn silence_has_an_end() {
        let (mut peer, mut own) = pair();
        own.set_patience(Patience { idle: Some(Duration::from_millis(20)), stall: Some(Duration::from_millis(30)) });
        let error = own.next_packet().unwrap_err();
        assert!(matches!(error, WireError::TimedOut { awaited: "a packet", .. }), "{error}");
        peer.write_all(&packet(100, b"\x05\0\0\0")).unwrap();
        own.next_packet().unwrap();
        let error = own.skip().unwrap_err();
        assert!(matches!(error, WireError::TimedOut { awaited: "the rest of a packet", .. }), "{error}");
        // A peer that does not read.
        let error = own.send_with(Code::CopyAck, &vec![0; 32 << 20], |_| {}).unwrap_err();
        assert!(matches!(error, WireError::TimedOut { .. }), "{error}");
    }
}
