use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use kernpack::{Any, AnyView, Args, Device, Error, Result, ensure, error};

use super::handle::Handle;
use super::line::{Line, Wait};
use super::slots::Slot;
use super::{device, value};
use crate::wire::{Code, Connection, Encoder, TensorHeader, Transport, Value, WireError};

/// The state of a session that all its local values share. The last reference ends it.
pub(super) struct Shared {
    /// Unique among all sessions that this artifact ever opens.
    pub(super) id: u64,
    /// The name of the server in messages.
    pub(super) peer: String,
    slot: Slot,
    /// True if there are servers between this process and the session's.
    far: bool,
    line: Mutex<Line>,
    /// Remote values to free as soon as no request is in flight.
    frees: Mutex<Vec<Free>>,
    /// The server's own functions that were looked up before; 0 for one that it does not have.
    functions: Mutex<HashMap<&'static str, u64>>,
}

/// A resource of the server that nothing here refers to any more.
#[derive(Clone, Copy, Debug)]
pub(super) enum Free {
    /// A function, module, tensor or another object.
    Handle(u64),
    /// Memory of a device, as the server numbers it.
    Memory(Device, u64),
    /// A stream of a device, as the server numbers it.
    Stream(Device, u64),
}

impl Shared {
    /// Creates a session over a connection that the server has accepted.
    ///
    /// # Errors
    /// RuntimeError when the process already has the maximum number of sessions.
    pub(super) fn new(line: Line, peer: String, far: bool) -> Result<Arc<Self>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut slot = Ok(());
        let shared = Arc::new_cyclic(|this| {
            let claimed = Slot::claim(&device::handler(this.clone()));
            let claimed = claimed.unwrap_or_else(|error| {
                slot = Err(error);
                Slot::none()
            });
            Self {
                id,
                peer,
                slot: claimed,
                far,
                line: Mutex::new(line),
                frees: Mutex::new(Vec::new()),
                functions: Mutex::new(HashMap::new()),
            }
        });
        slot.map(|()| shared)
    }

    /// The number of the session in this process, which distinguishes its devices from others.
    pub(super) fn number(&self) -> usize {
        self.slot.number()
    }

    /// Returns true if there are servers between this process and the session's.
    pub(super) fn is_far(&self) -> bool {
        self.far
    }

    /// Converts one of the server's devices to a device of this process.
    pub(super) fn device(&self, device: Device) -> Result<Device> {
        device
            .in_session(self.number())
            .ok_or_else(|| error!(ValueError, "{device} is not a device that {} can have", self.peer))
    }

    /// Converts a device of the session to the server's numbering; a device of this process is
    /// taken as the server's own.
    pub(super) fn own_device(&self, device: Device) -> Result<Device> {
        ensure!(
            device.session().is_none_or(|number| number == self.number()),
            ValueError,
            "{device} belongs to another session than the one with {}, which is session {}",
            self.peer,
            self.number()
        );
        Ok(device.without_session())
    }

    /// Sends a request and returns the values of its reply.
    fn request(&self, wait: Wait, code: Code, body: &[u8], tail: &[u8]) -> Result<Vec<Value>> {
        let replied = lock(&self.line).request(wait, code, body, tail);
        self.give_back();
        replied
    }

    /// Sends a request with these arguments; returns the single value of the reply.
    pub(super) fn ask(&self, code: Code, count: usize, arguments: impl FnOnce(&mut Encoder<'_>)) -> Result<Value> {
        let mut body = Vec::with_capacity(128);
        arguments(&mut Encoder::begin(&mut body, count));
        only(self.request(Wait::Server, code, &body, &[])?)
    }

    /// Calls a function of the server. Its result belongs to the session.
    pub(super) fn call(self: &Arc<Self>, handle: u64, args: &[AnyView<'_>]) -> Result<Any> {
        let mut body = Vec::with_capacity(256);
        body.extend_from_slice(&handle.to_le_bytes());
        let tail = value::encode(self, args, &mut body)?;
        let reply = self.request(Wait::Call, Code::CallFunc, &body, tail)?;
        value::decode(self, reply)
    }

    /// Calls one of the functions that every server provides for its clients.
    pub(super) fn call_own(self: &Arc<Self>, name: &'static str, args: impl Args) -> Result<Any> {
        let handle = self.needed_function(name)?;
        args.with_raw(|args| {
            // SAFETY: a view is transparent over the raw struct, and `Args` gives valid views.
            let views = unsafe { core::slice::from_raw_parts(args.as_ptr().cast::<AnyView<'_>>(), args.len()) };
            self.call(handle, views)
        })
    }

    /// Like [`Shared::call_own`], with arguments that are handles.
    pub(super) fn call_own_with(
        self: &Arc<Self>,
        name: &'static str,
        count: usize,
        arguments: impl FnOnce(&mut Encoder<'_>),
    ) -> Result<Any> {
        let mut body = self.needed_function(name)?.to_le_bytes().to_vec();
        arguments(&mut Encoder::begin(&mut body, count));
        value::decode(self, self.request(Wait::Call, Code::CallFunc, &body, &[])?)
    }

    fn needed_function(&self, name: &'static str) -> Result<u64> {
        let handle = self.own_function(name)?;
        ensure!(handle != 0, RuntimeError, "{} has no function '{name}', so it cannot do this", self.peer);
        Ok(handle)
    }

    /// Returns the handle of a function that every server provides for its clients, cached for the
    /// session; 0 if it does not have it.
    pub(super) fn own_function(&self, name: &'static str) -> Result<u64> {
        if let Some(&known) = lock(&self.functions).get(name) {
            return Ok(known);
        }
        let handle = self.find(name)?;
        // Two threads may look it up at the same time; the second handle is freed with the session.
        Ok(*lock(&self.functions).entry(name).or_insert(handle))
    }

    /// Returns the handle of a global function of the server, which the caller frees; 0 if there is
    /// none.
    pub(super) fn find(&self, name: &str) -> Result<u64> {
        match self.ask(Code::GetGlobalFunc, 1, |arguments| {
            arguments.text(name);
        })? {
            Value::Opaque(handle) => Ok(handle),
            Value::None => Ok(0),
            other => Err(self.confused(&other)),
        }
    }

    /// Copies bytes of this process to the server's memory.
    pub(super) fn copy_to(&self, target: &TensorHeader, source: &[u8]) -> Result<()> {
        let mut body = Vec::with_capacity(64);
        Encoder::push_tensor(&mut body, target);
        body.extend_from_slice(&(source.len() as u64).to_le_bytes());
        self.request(Wait::Server, Code::CopyToRemote, &body, source).map(drop)
    }

    /// Copies bytes of the server's memory to this process.
    pub(super) fn copy_from(
        &self,
        source: &TensorHeader,
        size: u64,
        receive: impl FnOnce(&mut Connection<Box<dyn Transport>>) -> Result<(), WireError>,
    ) -> Result<()> {
        let mut body = Vec::with_capacity(64);
        Encoder::push_tensor(&mut body, source);
        body.extend_from_slice(&size.to_le_bytes());
        let fetched = lock(&self.line).fetch(Code::CopyFromRemote, &body, size, receive);
        self.give_back();
        fetched
    }

    /// Frees a resource: at once, or after the request that is in flight.
    pub(super) fn free(&self, what: Free) {
        lock(&self.frees).push(what);
        self.give_back();
    }

    /// Frees all unreferenced resources, unless a request is in flight: then its thread does it. A
    /// thread that adds to the list and finds the line busy can return: the thread that holds the
    /// line checks the list after it has released it.
    fn give_back(&self) {
        loop {
            if lock(&self.frees).is_empty() {
                return;
            }
            let mut line = match self.line.try_lock() {
                Ok(line) => line,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            let due = std::mem::take(&mut *lock(&self.frees));
            for what in due {
                if !line.is_open() {
                    break;
                }
                // A resource that a server refuses to free is gone already; a failure of the
                // connection has ended the session, which the next request reports.
                let _ = free_one(&mut line, what);
            }
        }
    }

    /// Ends the session; every further request is an error.
    pub(super) fn close(&self) {
        lock(&self.line).close();
    }

    /// Returns true if the session is still open, as far as this side knows.
    pub(super) fn is_open(&self) -> bool {
        // A request in flight means that it is.
        match self.line.try_lock() {
            Ok(line) => line.is_open(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().is_open(),
            Err(TryLockError::WouldBlock) => true,
        }
    }

    /// The error for a reply that does not fit the request.
    pub(super) fn confused(&self, reply: &Value) -> Error {
        error!(RuntimeError, "{} answers with a {}, which does not fit the request", self.peer, reply.kind())
    }

    /// Wraps a handle of the server that is freed when it is dropped.
    pub(super) fn own(self: &Arc<Self>, raw: u64) -> Handle {
        Handle::new(self.clone(), raw)
    }

    /// The error for a value that belongs to another session.
    pub(super) fn not_ours(&self, what: &str, theirs: &str) -> Error {
        error!(
            ValueError,
            "{what} belongs to the session with {theirs}; it cannot be given to the session with {}. Copy data through this process: \
             tensor.to(Device::CPU)?.to(device of the other session)?",
            self.peer
        )
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The server itself frees what the session still holds.
        self.line.get_mut().unwrap_or_else(PoisonError::into_inner).close();
    }
}

fn free_one(line: &mut Line, what: Free) -> Result<Vec<Value>> {
    let mut body = Vec::with_capacity(64);
    let code = match what {
        Free::Handle(handle) => {
            Encoder::begin(&mut body, 1).opaque(handle);
            Code::FreeHandle
        }
        Free::Memory(device, address) => {
            Encoder::begin(&mut body, 2).device(device).opaque(address);
            Code::DevFreeData
        }
        Free::Stream(device, stream) => {
            Encoder::begin(&mut body, 2).device(device).opaque(stream);
            Code::DevFreeStream
        }
    };
    line.request(Wait::Drop, code, &body, &[])
}

/// The single value of a reply.
fn only(reply: Vec<Value>) -> Result<Value> {
    let count = reply.len();
    let mut values = reply.into_iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        _ => Err(error!(RuntimeError, "the server's reply has {count} values in place of one")),
    }
}

/// Locks, even after a panic: the guarded data is consistent between any two statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
