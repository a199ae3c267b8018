//! Servers of a few lines, which implement the protocol as far as a test needs it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kernpack_rpc::wire::{Bounds, Code, Connection, Encoder, Hello, Key, Packet, Patience, Value, answer, hear};
use kernpack_rpc::{Connect, Session, connect};

pub(crate) const TIME: Duration = Duration::from_secs(20);

/// A server for a number of clients, one after the other.
pub(crate) struct Server {
    pub(crate) address: String,
    thread: JoinHandle<()>,
}

/// The server's side of one session.
pub(crate) struct Served {
    pub(crate) connection: Connection<TcpStream>,
}

impl Server {
    /// Serves `clients` sessions with a script that begins after the handshake.
    pub(crate) fn raw(clients: usize, script: impl Fn(Served) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let thread = thread::spawn(move || {
            for _ in 0..clients {
                let (mut stream, _) = listener.accept().unwrap();
                hear(&mut stream, TIME).unwrap();
                answer(&mut stream, Hello::Welcome, &Key::server("test"), TIME).unwrap();
                let patience = Patience { idle: Some(TIME), stall: Some(TIME) };
                script(Served { connection: Connection::new(stream, patience) });
            }
        });
        Self { address, thread }
    }

    /// Serves one session with a script that begins after the session has begun.
    pub(crate) fn start(script: impl Fn(&mut Served) + Send + 'static) -> Self {
        Self::raw(1, move |mut served| {
            served.begin();
            script(&mut served);
        })
    }

    pub(crate) fn connect(&self) -> Connect {
        connect(&self.address).timeout(TIME)
    }

    pub(crate) fn open(&self) -> Session {
        self.connect().open().unwrap()
    }

    /// Waits for the end of the script, and passes on its failed assertions.
    pub(crate) fn join(self) {
        self.thread.join().unwrap();
    }
}

impl Served {
    /// Answers the first request of a session.
    pub(crate) fn begin(&mut self) {
        assert_eq!(self.next().code(), Some(Code::InitServer));
        self.reply(
            |values| {
                values.none();
            },
            1,
        );
    }

    pub(crate) fn next(&mut self) -> Packet {
        self.connection.next_packet().unwrap()
    }

    pub(crate) fn reply(&mut self, values: impl FnOnce(&mut Encoder<'_>), count: usize) {
        self.connection.send(Code::Return, |body| values(&mut Encoder::begin(body, count))).unwrap();
    }

    /// Answers the lookup of a function with a handle.
    pub(crate) fn found(&mut self, handle: u64) {
        assert_eq!(self.next().code(), Some(Code::GetGlobalFunc));
        self.reply(
            |values| {
                values.opaque(handle);
            },
            1,
        );
    }

    /// Waits for a call, and returns its arguments.
    pub(crate) fn called(&mut self, handle: u64) -> Vec<Value> {
        assert_eq!(self.next().code(), Some(Code::CallFunc));
        assert_eq!(self.connection.word().unwrap(), handle);
        self.connection.sequence(&Bounds::default()).unwrap()
    }

    /// Waits until a handle is freed.
    pub(crate) fn freed(&mut self) -> u64 {
        assert_eq!(self.next().code(), Some(Code::FreeHandle));
        let values = self.connection.sequence(&Bounds::default()).unwrap();
        self.reply(
            |values| {
                values.none();
            },
            1,
        );
        match values[..] {
            [Value::Opaque(handle)] => handle,
            _ => panic!("{values:?}"),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let mut stream: &TcpStream = self.connection.transport();
        stream.write_all(bytes).unwrap();
    }
}
