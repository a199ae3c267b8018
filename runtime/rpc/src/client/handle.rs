use std::sync::Arc;

use super::shared::{Free, Shared};

/// A function, module, tensor or object of a server's table. Dropping it frees the handle, on any
/// thread.
pub(super) struct Handle {
    shared: Arc<Shared>,
    raw: u64,
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>, raw: u64) -> Self {
        Self { shared, raw }
    }

    /// The session that it belongs to.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The server's number of the handle.
    pub(super) fn raw(&self) -> u64 {
        self.raw
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.free(Free::Handle(self.raw));
    }
}
