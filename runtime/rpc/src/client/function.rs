//! Functions of servers as functions of this process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use kernpack::Function;

use super::handle::Handle;
use super::shared::{Shared, lock};

/// A function of a server: the state of the closure of a function of this process.
struct RemoteFunction {
    handle: Handle,
    /// Address of the function object, under which it is in [`KNOWN`]; 0 before that.
    address: AtomicUsize,
}

/// The record of a function object that represents a function of a server.
#[derive(Clone)]
pub(super) struct Known {
    /// The session that it belongs to.
    pub(super) session: u64,
    /// The server of that session, for messages.
    pub(super) peer: Arc<str>,
    /// The server's handle of the function.
    pub(super) raw: u64,
}

/// The function objects of this artifact that represent functions of servers, by their addresses,
/// as long as they live.
static KNOWN: LazyLock<Mutex<HashMap<usize, Known>>> = LazyLock::new(Mutex::default);

/// Creates a function that calls the one with this handle on the server.
pub(super) fn function(shared: &Arc<Shared>, raw: u64) -> Function {
    let remote = Arc::new(RemoteFunction { handle: shared.own(raw), address: AtomicUsize::new(0) });
    let called = remote.clone();
    let function = Function::from_packed(move |args| called.handle.shared().call(called.handle.raw(), args));
    let address = function.as_ptr().addr();
    let known = Known { session: shared.id, peer: shared.peer.as_str().into(), raw };
    lock(&KNOWN).insert(address, known);
    // The object is not published yet, so the closure's destructor runs after this.
    remote.address.store(address, Ordering::Release);
    function
}

/// Returns the record of a function that is passed as an argument; `None` for a function of this
/// process.
pub(super) fn known(function: &Function) -> Option<Known> {
    lock(&KNOWN).get(&function.as_ptr().addr()).cloned()
}

impl Drop for RemoteFunction {
    fn drop(&mut self) {
        // The object's memory is not freed yet, so no other function can have the address.
        lock(&KNOWN).remove(self.address.get_mut());
    }
}
