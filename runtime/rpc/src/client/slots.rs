//! The numbers of the sessions of this process: 32, shared by all libraries, because they are a
//! part of device numbers.
//!
//! The first library that needs a number registers the global function [`TABLE`], which stores the
//! function that serves each session's devices; the other libraries use it. A number is free again
//! when its session has ended, and then nothing of the session is left: tensors keep their session
//! alive.

use std::sync::Mutex;

use kernpack::device::offer_kind;
use kernpack::{Any, AnyView, Device, Function, Result, bail, ensure, error};

use super::device::RemoteDevices;
use super::shared::lock;

/// `claim(handler)` returns a number, `get(number)` the handler or `None`, `release(number)` frees
/// the number.
const TABLE: &str = "kernpack.rpc.sessions_v1";

const CLAIM: i64 = 0;
const GET: i64 = 1;
const RELEASE: i64 = 2;

/// The number of a session, for as long as this value lives.
pub(super) struct Slot {
    /// The number; one past the largest number for a session without one.
    number: usize,
}

impl Slot {
    /// Takes a free number. `handler` serves the devices of the session.
    ///
    /// # Errors
    /// RuntimeError when all are in use.
    pub(super) fn claim(handler: &Function) -> Result<Self> {
        let number: usize = table()?.call_as((CLAIM, handler))?;
        Ok(Self { number })
    }

    /// No number: for a session that failed to open.
    pub(super) const fn none() -> Self {
        Self { number: Device::MAX_SESSIONS }
    }

    pub(super) const fn number(&self) -> usize {
        self.number
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.number < Device::MAX_SESSIONS {
            // The table existed when the number was claimed, and has the number.
            let _ = table().and_then(|table| table.call((RELEASE, self.number)));
        }
    }
}

/// Returns the function that serves the devices of a session.
///
/// # Errors
/// RuntimeError when no session has the number.
pub(super) fn handler(number: usize) -> Result<Function> {
    let found: Option<Function> = table()?.call_as((GET, number))?;
    found.ok_or_else(|| error!(RuntimeError, "remote session {number} is not open"))
}

/// Registers a kind of remote devices with the process.
pub(super) fn offer(kind: i32) -> Result<()> {
    static OFFERED: Mutex<Vec<i32>> = Mutex::new(Vec::new());
    if lock(&OFFERED).contains(&kind) {
        return Ok(());
    }
    // SAFETY: `RemoteDevices` gives out numbers of memory on servers, never addresses of this
    // process; a session checks them.
    unsafe { offer_kind(kind, &|| Box::leak(Box::new(RemoteDevices::new(kind))))? };
    lock(&OFFERED).push(kind);
    Ok(())
}

/// The table of the process.
fn table() -> Result<Function> {
    if let Some(found) = Function::find_global(TABLE)? {
        return Ok(found);
    }
    // Another library may register its table first; then that one is used.
    let _ = Function::register_global(TABLE, &Function::from_packed(serve));
    Function::global(TABLE)
}

static SESSIONS: Mutex<[Option<Function>; Device::MAX_SESSIONS]> = Mutex::new([const { None }; Device::MAX_SESSIONS]);

fn serve(args: &[AnyView<'_>]) -> Result<Any> {
    let [what, argument] = args else { bail!(TypeError, "{TABLE}: expected 2 arguments, got {}", args.len()) };
    match what.get::<i64>()? {
        CLAIM => {
            let handler: Function = argument.get()?;
            let mut sessions = lock(&SESSIONS);
            let free = sessions.iter().position(Option::is_none);
            let Some(free) = free else {
                bail!(
                    RuntimeError,
                    "this process has {} remote sessions, which is the most; a session ends when nothing refers to it any more: no session \
                     object, function, module, tensor or object of it",
                    Device::MAX_SESSIONS
                )
            };
            sessions[free] = Some(handler);
            Ok(Any::from(free as i64))
        }
        GET => {
            let number: usize = argument.get()?;
            Ok(lock(&SESSIONS).get(number).cloned().flatten().map_or(Any::NONE, Any::from))
        }
        RELEASE => {
            let number: usize = argument.get()?;
            ensure!(number < Device::MAX_SESSIONS, IndexError, "there is no session {number}");
            // The handler is dropped after the lock.
            let released = lock(&SESSIONS)[number].take();
            drop(released);
            Ok(Any::NONE)
        }
        other => bail!(ValueError, "{TABLE}: there is nothing of the number {other}"),
    }
}
