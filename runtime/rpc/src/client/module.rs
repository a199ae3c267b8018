//! Modules of servers as modules of this process.

use std::sync::Arc;

use kernpack::module::{ModuleImpl, ModuleProperties};
use kernpack::{Function, Module, Result};

use super::handle::Handle;
use super::shared::Shared;

/// A module of a server. Its functions are those of the module and of its imports on the server.
pub(super) struct RemoteModule {
    pub(super) handle: Handle,
}

/// Creates the module with this handle.
pub(super) fn module(shared: &Arc<Shared>, raw: u64) -> Module {
    Module::new(RemoteModule { handle: shared.own(raw) })
}

impl ModuleImpl for RemoteModule {
    fn kind(&self) -> &str {
        "rpc"
    }

    fn properties(&self) -> ModuleProperties {
        ModuleProperties::RUNNABLE
    }

    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        let shared = self.handle.shared();
        let found = shared.call_own_with("tvm.rpc.server.ModuleGetFunction", 3, |arguments| {
            arguments.module(self.handle.raw()).text(name).bool(true);
        });
        found?.to()
    }
}
