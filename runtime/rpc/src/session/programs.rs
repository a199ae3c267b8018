//! A program that a client runs in the session's folder: it is started, polled for its output, and
//! ended with the session.
//!
//! The protocol has one request at a time, so the client polls repeatedly
//! (`kernpack.rpc.program.poll`); each answer is sent as soon as there is something to report.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kernpack::{Result, bail, ensure, error};

use super::executable::Executable;
use super::files::Files;
use crate::log::say;
use crate::wire::Output;

/// Bytes of output in one answer.
const ANSWER: usize = 256 << 10;
/// The longest time that one answer waits, whatever time the client requests.
const WAIT: Duration = Duration::from_secs(10);
/// The interval at which the end of a program is polled if it has closed its output, or has left it
/// to other processes.
const TICK: Duration = Duration::from_millis(20);

/// The program of a session.
pub(super) struct Programs {
    allowed: bool,
    /// The command that starts programs of this process's kind, if the system does not start them.
    emulator: Vec<OsString>,
    folder: PathBuf,
    /// The longest time without a request from the client before its program is ended.
    patience: Option<Duration>,
    running: Mutex<Option<Running>>,
}

struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    errors: Option<ChildStderr>,
    /// Input from the client that the program has not read yet.
    pending: Vec<u8>,
    /// True if no input follows after `pending`.
    input_ends: bool,
    asked: Instant,
}

impl Programs {
    pub(super) fn new(
        allowed: bool,
        emulator: Vec<OsString>,
        folder: PathBuf,
        patience: Option<Duration>,
    ) -> Arc<Self> {
        Arc::new(Self { allowed, emulator, folder, patience, running: Mutex::new(None) })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a file of the session. Arguments and environment variables (`NAME=VALUE`) are each
    /// terminated by NUL.
    pub(super) fn start(
        self: &Arc<Self>,
        files: &Files,
        name: &str,
        arguments: &[u8],
        environment: &[u8],
    ) -> Result<()> {
        ensure!(
            self.allowed,
            RuntimeError,
            "this server runs no programs for clients: start it with --token-file and --allow-run"
        );
        let path = files.path(name)?;
        ensure!(path.is_file(), RuntimeError, "there is no file '{name}' in the session; upload it first");
        let executable = Executable::read(&path);
        let problem = |text: &str| error!(RuntimeError, "'{name}' cannot run: {text}");
        if let Some(obstacle) = executable.as_ref().and_then(Executable::obstacle) {
            return Err(problem(&obstacle));
        }
        fs::set_permissions(&path, Permissions::from_mode(0o700)).map_err(|problem_| problem(&problem_.to_string()))?;
        let mut running = self.lock();
        ensure!(running.is_none(), RuntimeError, "a session runs one program at a time; open another session");
        let mut words = self.emulator.iter().map(OsString::as_os_str).chain([path.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args(parts(arguments)).current_dir(&self.folder);
        for pair in parts(environment) {
            let Some(at) = pair.as_bytes().iter().position(|byte| *byte == b'=').filter(|at| *at > 0) else {
                bail!(ValueError, "a variable is NAME=VALUE, got '{}'", pair.display());
            };
            let (name, value) = pair.as_bytes().split_at(at);
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(&value[1..]));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|cause| problem(&self.not_started(&cause, executable.as_ref())))?;
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let descriptors = [
            input.as_ref().map(AsRawFd::as_raw_fd),
            output.as_ref().map(AsRawFd::as_raw_fd),
            errors.as_ref().map(AsRawFd::as_raw_fd),
        ];
        let mut started =
            Running { child, input, output, errors, pending: Vec::new(), input_ends: false, asked: Instant::now() };
        for descriptor in descriptors.into_iter().flatten() {
            if let Err(cause) = do_not_wait(descriptor) {
                started.end();
                return Err(problem(&cause.to_string()));
            }
        }
        *running = Some(started);
        drop(running);
        self.watch();
        Ok(())
    }

    fn not_started(&self, cause: &io::Error, executable: Option<&Executable>) -> String {
        if let Some(emulator) = self.emulator.first() {
            return format!("the emulator {} cannot be started: {cause}", emulator.display());
        }
        match cause.kind() {
            ErrorKind::NotFound => match executable.and_then(Executable::missing_loader) {
                Some(loader) => format!(
                    "it needs {}, which this server's machine does not have: it was built for another C library, or for another system",
                    loader.display()
                ),
                None => cause.to_string(),
            },
            ErrorKind::PermissionDenied => format!(
                "{cause}: programs do not start from {}; start the server with --folder and a folder of a file system that is not mounted `noexec`",
                self.folder.display()
            ),
            _ if executable.is_none() => format!("{cause}: it is neither an ELF program of 64 bits nor a script"),
            _ => cause.to_string(),
        }
    }

    /// Ends the program of a client that no longer polls.
    fn watch(self: &Arc<Self>) {
        let Some(patience) = self.patience else { return };
        let programs = Arc::downgrade(self);
        let watch = move || {
            loop {
                thread::sleep((patience / 4).clamp(Duration::from_millis(10), Duration::from_secs(1)));
                let Some(programs) = programs.upgrade() else { return };
                // While an answer waits, the client is present.
                let Ok(mut running) = programs.running.try_lock() else { continue };
                match &mut *running {
                    None => return,
                    Some(program) if program.asked.elapsed() >= patience => {
                        say(format_args!(
                            "kernpack-rpc: a program was ended: its client has not asked for it for {} s",
                            patience.as_secs_f64()
                        ));
                        program.end();
                        return;
                    }
                    Some(_) => {}
                }
            }
        };
        // Without a thread the session's other limits apply.
        let _ = thread::Builder::new().name("rpc-program".to_owned()).stack_size(64 << 10).spawn(watch);
    }

    /// Writes input to the program, and waits until it has written output, has ended, or the time
    /// is over. The answer is a list of [`Output`].
    pub(super) fn poll(&self, input: &[u8], input_ends: bool, wait: Duration) -> Result<Vec<u8>> {
        let mut running = self.lock();
        let Some(program) = &mut *running else {
            bail!(RuntimeError, "no program runs in this session");
        };
        program.pending.extend_from_slice(input);
        program.input_ends |= input_ends;
        let mut answer = Vec::new();
        let status = program.wait(&mut answer, Instant::now() + wait.min(WAIT));
        program.asked = Instant::now();
        match status.map_err(|problem| error!(RuntimeError, "the program cannot be followed: {problem}"))? {
            Some(status) => {
                let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
                Output::Ended { code, signal: status.signal() }.write(&mut answer);
                *running = None;
            }
            None if !program.pending.is_empty() => Output::InputPends.write(&mut answer),
            None => {}
        }
        Ok(answer)
    }
}

impl Running {
    /// Fills the answer until it is not empty, or the time is over. The program's end is reported
    /// after all of its output.
    fn wait(&mut self, answer: &mut Vec<u8>, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            self.feed();
            // Before its output is read: everything that it wrote before its end is then available.
            let status = self.child.try_wait()?;
            let mut is_full = false;
            is_full |= drain(&mut self.output, answer, Output::Out);
            is_full |= drain(&mut self.errors, answer, Output::Error);
            if status.is_some() && !is_full {
                self.end();
                return Ok(status);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if !answer.is_empty() || left.is_zero() {
                return Ok(None);
            }
            self.sleep(left.min(TICK));
        }
    }

    /// Writes as much input as the program takes without blocking.
    fn feed(&mut self) {
        while let Some(input) = self.input.as_mut().filter(|_| !self.pending.is_empty()) {
            match input.write(&self.pending) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(problem) if problem.kind() == ErrorKind::Interrupted => {}
                Err(problem) if problem.kind() == ErrorKind::WouldBlock => return,
                // It does not read any more.
                Err(_) => self.input = None,
            }
        }
        if self.input.is_none() {
            self.pending.clear();
        } else if self.input_ends {
            self.input = None;
        }
    }

    /// Waits until a pipe is ready.
    fn sleep(&self, time: Duration) {
        let mut polls = Vec::with_capacity(3);
        let mut add = |fd: Option<RawFd>, events| polls.extend(fd.map(|fd| libc::pollfd { fd, events, revents: 0 }));
        add(self.output.as_ref().map(AsRawFd::as_raw_fd), libc::POLLIN);
        add(self.errors.as_ref().map(AsRawFd::as_raw_fd), libc::POLLIN);
        add(self.input.as_ref().filter(|_| !self.pending.is_empty()).map(AsRawFd::as_raw_fd), libc::POLLOUT);
        // SAFETY: as many structs as passed, of descriptors that are open as long as this value is
        // borrowed.
        unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as _, time.as_millis().max(1) as libc::c_int) };
    }

    /// Ends the program and the processes that it has started in its group.
    fn end(&mut self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            // SAFETY: a plain call; the group's number is this child's, which has not been waited
            // for or has just ended.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        let _ = self.child.kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        let _ = self.child.wait();
    }
}

/// Moves the content of a pipe into the answer; returns true if there may be more. A pipe that has
/// ended is closed.
fn drain<P: Read>(pipe: &mut Option<P>, answer: &mut Vec<u8>, output: impl Fn(Vec<u8>) -> Output) -> bool {
    let mut found = Vec::new();
    let mut is_full = false;
    while let Some(source) = pipe {
        if answer.len() + found.len() >= ANSWER {
            is_full = true;
            break;
        }
        let mut bytes = [0; 16 << 10];
        match source.read(&mut bytes) {
            Ok(0) => *pipe = None,
            Ok(count) => found.extend_from_slice(&bytes[..count]),
            Err(problem) if problem.kind() == ErrorKind::Interrupted => {}
            Err(problem) if problem.kind() == ErrorKind::WouldBlock => break,
            Err(_) => *pipe = None,
        }
    }
    if !found.is_empty() {
        output(found).write(answer);
    }
    is_full
}

fn do_not_wait(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: plain calls.
    let done = unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        flags >= 0 && libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) >= 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Texts that end with NUL.
fn parts(bytes: &[u8]) -> impl Iterator<Item = &OsStr> {
    bytes.split_inclusive(|byte| *byte == 0).map(|part| OsStr::from_bytes(part.strip_suffix(b"\0").unwrap_or(part)))
}
