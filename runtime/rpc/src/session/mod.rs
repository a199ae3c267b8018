//! A session: serves a client's requests in its process.

mod arguments;
mod executable;
mod files;
mod functions;
mod handles;
mod hop;
mod linking;
mod memory;
mod programs;
mod requests;
mod streams;
mod tensors;
mod time_evaluator;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use kernpack::{Error, Function};

use self::files::Files;
use self::functions::Functions;
use self::handles::Handles;
use self::memory::Memory;
use self::programs::Programs;
use self::requests::Reply;
use self::streams::Streams;
use crate::limits::Limits;
use crate::log::say;
use crate::position::{Phase, Position};
use crate::wire::{Bounds, Code, Connection, Patience, Transport, WireError};

pub(crate) use self::functions::{POLL, START};

/// The reason why a request was not served.
enum Failure {
    /// The client gets the error, and the session continues.
    Error(Error),
    /// The connection cannot be used any more.
    Wire(WireError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        if error.is_recoverable() { Self::Error(error.into()) } else { Self::Wire(error) }
    }
}

/// Serves a client until it ends the session.
///
/// `folder` is the folder for uploads, and `emulator` the command that starts programs of clients,
/// if they do not start by themselves. The protocol's global functions are registered in this
/// process.
///
/// # Errors
/// The reason why the connection ended; the client has been notified if that was possible.
pub(crate) fn serve<T: Transport>(
    transport: T,
    limits: &Limits,
    folder: PathBuf,
    emulator: Vec<OsString>,
    position: &Position,
) -> Result<(), WireError> {
    let mut connection = Connection::new(transport, Patience { idle: None, stall: limits.stall_time });
    connection.set_limit(1 << 50);
    let mut session = match Session::new(connection, limits, folder, emulator, position) {
        Ok(session) => session,
        Err((mut connection, error)) => {
            let _ = connection.next_packet();
            position.set(Phase::Replying);
            connection.send_exception(&error.to_string())?;
            return Err(WireError::Protocol("the session could not begin".to_owned()));
        }
    };
    hook("tvm.rpc.server.start");
    let served = session.serve();
    hook("tvm.rpc.server.shutdown");
    served
}

/// Calls a function that libraries of the process may have registered as a hook.
fn hook(name: &str) {
    if let Ok(Some(function)) = Function::find_global(name)
        && let Err(error) = function.call(())
    {
        say(format_args!("kernpack-rpc: {name}: {error}"));
    }
}

/// The state of a client in this process.
struct Session<'a, T> {
    connection: Connection<T>,
    bounds: Bounds,
    handles: Handles,
    memory: Memory,
    streams: Streams,
    files: Arc<Files>,
    functions: Functions,
    position: &'a Position,
    limit: usize,
    /// The buffer in which replies are encoded.
    scratch: Vec<u8>,
}

impl<'a, T: Transport> Session<'a, T> {
    #[expect(clippy::result_large_err, reason = "the connection is needed to tell the client")]
    fn new(
        connection: Connection<T>,
        limits: &Limits,
        folder: PathBuf,
        emulator: Vec<OsString>,
        position: &'a Position,
    ) -> Result<Self, (Connection<T>, Error)> {
        let programs = Programs::new(limits.run, emulator, folder.clone(), limits.stall_time);
        let files = Arc::new(Files::new(folder, limits.upload));
        match Functions::register(&files, &programs) {
            Ok(functions) => Ok(Self {
                connection,
                bounds: Bounds { text: if limits.upload == 0 { 1 << 50 } else { limits.upload }, ..Bounds::default() },
                handles: Handles::new(limits.handles),
                memory: Memory::new(),
                streams: Streams::new(),
                files,
                functions,
                position,
                limit: limits.handles,
                scratch: Vec::new(),
            }),
            Err(error) => Err((connection, error)),
        }
    }

    /// Serves the requests of a session, one after the other.
    fn serve(&mut self) -> Result<(), WireError> {
        let mut is_first = true;
        loop {
            self.position.set(if is_first { Phase::Starting } else { Phase::Idle });
            let packet = match self.connection.next_packet() {
                Ok(packet) => packet,
                Err(WireError::Closed) => return Ok(()),
                Err(error) => return self.give_up(error),
            };
            self.position.begin();
            let code = packet.code();
            if code == Some(Code::Shutdown) {
                return Ok(());
            }
            let outcome = match code {
                Some(Code::InitServer) if is_first => match self.init() {
                    Ok(Some(upstream)) => return hop::relay(&mut self.connection, upstream, self.position),
                    Ok(None) => Ok(Reply::None),
                    // Without a common version the session cannot continue.
                    Err(Failure::Error(error)) => {
                        self.connection.skip()?;
                        return self.exception(&error);
                    }
                    Err(wire) => Err(wire),
                },
                _ if is_first => {
                    return self.give_up(WireError::Protocol("the first packet of a session is InitServer".to_owned()));
                }
                Some(code) => self.request(code),
                None => Err(kernpack::error!(ValueError, "there is no request of code {}", packet.number).into()),
            };
            is_first = false;
            let sent = match outcome {
                Ok(reply) => self.reply(reply),
                Err(failure) => Err(failure),
            };
            match sent {
                Ok(()) => {}
                Err(Failure::Error(error)) => match self.connection.skip() {
                    Ok(()) => self.exception(&error)?,
                    Err(error) => return self.give_up(error),
                },
                Err(Failure::Wire(error)) => return self.give_up(error),
            }
        }
    }

    fn exception(&mut self, error: &Error) -> Result<(), WireError> {
        self.position.set(Phase::Replying);
        self.connection.send_exception(&error.to_string())
    }

    /// Sends the client the reason why its session ends, if no reply has begun.
    fn give_up(&mut self, error: WireError) -> Result<(), WireError> {
        if self.position.phase() != Phase::Replying {
            self.position.set(Phase::Replying);
            let _ = self.connection.send_exception(&error.to_string());
        }
        Err(error)
    }
}
