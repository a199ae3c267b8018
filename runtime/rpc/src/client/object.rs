//! Objects of servers of which only the handle is transferred: arrays, maps, shapes, objects of any
//! type.

use std::sync::Arc;

use kernpack::{ObjRef, Object};

use super::handle::Handle;
use super::shared::Shared;

/// An object of a server. It can be passed to functions of the same session; its content stays on
/// the server.
///
/// ```no_run
/// # let session = kernpack_rpc::connect("pi.local").open()?;
/// use kernpack::ObjRef;
/// use kernpack_rpc::RemoteObject;
/// let pair: ObjRef<RemoteObject> = session.global_function("ffi.Array")?.call_as((1, 2))?;
/// assert_eq!(session.global_function("ffi.ArraySize")?.call_as::<i64>((&pair,))?, 2);
/// # Ok::<(), kernpack::Error>(())
/// ```
#[derive(Object)]
#[object(key = "kernpack.rpc.RemoteObject")]
#[repr(C)]
pub struct RemoteObject {
    /// Type index that the object has on the server.
    pub remote_type_index: i32,
    #[field(skip)]
    handle: Handle,
}

impl RemoteObject {
    /// Creates the object with this handle.
    pub(super) fn new(shared: &Arc<Shared>, remote_type_index: i32, raw: u64) -> ObjRef<Self> {
        ObjRef::new(Self { remote_type_index, handle: shared.own(raw) })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }
}
