//! The processes of a session: the one that serves the client, and its warden.
//!
//! The server starts its session program with the client's connection as descriptor 0 and one end
//! of a socket pair as descriptor 1. The program forks before it does anything else: the child is
//! the session, the parent its warden. When the session ends for any reason, the warden kills what
//! the session has started, sends the client the reason, and removes the folder. It does the same
//! when the other end of the socket pair is closed because the server stops or died.

mod confine;
mod descendants;
mod signals;
mod warden;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};

use self::warden::Warden;
use crate::limits::Limits;
use crate::log::say;
use crate::position::{Phase, Position};
use crate::session;
use crate::wire::{Connection, Patience};

/// The first argument of a session program, followed by limits, folder, and the words of an
/// emulator if there is one.
pub(crate) const SESSION: &str = "--kernpack-rpc-session";

/// The first argument of a session program that only reports that it starts on this system.
/// Launchers have it, too: see `runtime/rpc/launcher`.
const PROBE: &str = "--kernpack-rpc-probe";

/// The environment variable with the token of a server, for the server and for programs that
/// connect to it.
pub(crate) const TOKEN_VARIABLE: &str = "KERNPACK_RPC_TOKEN";

static ASKED: AtomicBool = AtomicBool::new(false);

/// Serves a session if this process was started for one, and then does not return.
///
/// A server starts a process for each session: a separate program, or the program that it is part
/// of, once more. Such a program calls this function first in its `main`, before it starts threads.
///
/// ```no_run
/// fn main() -> kernpack::Result<()> {
///     kernpack_rpc::run_session_if_asked();
///     let server = kernpack_rpc::Server::start(kernpack_rpc::ServerOptions::default())?;
///     println!("listening on {}", server.address());
///     server.wait();
///     Ok(())
/// }
/// ```
pub fn run_session_if_asked() {
    ASKED.store(true, Ordering::Relaxed);
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(first) if first == SESSION => {}
        Some(first) if first == PROBE => exit(0),
        _ => return,
    }
    let limits = args.next().and_then(|text| Limits::from_text(text.to_str()?));
    let (Some(limits), Some(folder)) = (limits, args.next()) else {
        say(format_args!("kernpack-rpc: {SESSION} is for the server's own use"));
        exit(2);
    };
    match run(limits, folder, args.collect()) {
        Ok(code) => exit(code),
        Err(error) => {
            say(format_args!("kernpack-rpc: the session could not begin: {error}"));
            exit(1);
        }
    }
}

/// Returns true if [`run_session_if_asked`] was called in this process.
pub(crate) fn was_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

fn run(limits: Limits, folder: OsString, emulator: Vec<OsString>) -> io::Result<i32> {
    let folder = PathBuf::from(folder);
    let socket = TcpStream::from(take(0)?);
    let life = UnixStream::from(take(1)?);
    replace(&File::open("/dev/null")?, 0)?;
    replace(&io::stderr(), 1)?;
    if threads() > 1 {
        let message = "RuntimeError: the session program had started threads before it called run_session_if_asked()";
        let stall = limits.stall_time;
        let _ = Connection::new(socket, Patience { idle: stall, stall }).send_exception(message);
        return Err(io::Error::other(message));
    }
    let position = Position::new()?;
    descendants::adopt_orphans();
    signals::watch_children();
    // SAFETY: this process has one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(life);
            signals::unwatch_children();
            confine::confine(&limits, &folder)?;
            let served = session::serve(socket, &limits, folder, emulator, &position);
            position.set(Phase::Done);
            if let Err(error) = served {
                say(format_args!("kernpack-rpc: {error}"));
            }
            Ok(0)
        }
        pid => {
            // A session cannot tamper with its watcher.
            hide();
            Warden::new(pid, socket, life, &limits, &position).watch();
            remove(&folder);
            Ok(0)
        }
    }
}

/// Keeps other processes of this user, including sessions, from reading the memory, the environment
/// and the open files of this process, which has keys and tokens. This also disables its core
/// dumps.
pub(crate) fn hide() {
    #[cfg(target_os = "linux")]
    // SAFETY: a plain call. A system that does not have it keeps the process as it was.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0)
    };
}

/// Removes a folder of a session, if it still exists.
pub(crate) fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        say(format_args!("kernpack-rpc: cannot remove {}: {error}", folder.display()));
    }
}

/// Moves a descriptor to another number; programs that the session starts do not inherit it.
fn take(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: a plain call.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which is this value's alone.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Makes a number refer to the same file as a descriptor.
fn replace(descriptor: &impl AsRawFd, number: RawFd) -> io::Result<()> {
    // SAFETY: a plain call; no value of this process owns the numbers 0 and 1.
    if unsafe { libc::dup2(descriptor.as_raw_fd(), number) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The number of threads of this process; 1 if it is unknown.
fn threads() -> usize {
    // An emulator has threads of its own, and handles fork correctly.
    if is_emulated() { 1 } else { fs::read_dir("/proc/self/task").map_or(1, Iterator::count) }
}

/// Returns true if the system runs an emulator, which runs this program. qemu redirects only the
/// name `/proc/self/exe` to the emulated program's own file; under any other name the system
/// returns qemu's file, which is for another machine.
fn is_emulated() -> bool {
    let machine = |path: &str| {
        let mut head = [0; 20];
        File::open(path).and_then(|mut file| file.read_exact(&mut head)).ok()?;
        Some([head[18], head[19]])
    };
    let machines = [machine("/proc/self/exe"), machine("/proc/thread-self/exe")];
    machines[0].is_some() && machines[1].is_some() && machines[0] != machines[1]
}
