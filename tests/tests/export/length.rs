//! A kind of module for tests of exported libraries, here and on 64-bit ARM.

use kernpack::module::{ModuleImpl, ModuleProperties};
use kernpack::{Bytes, Function, Module, Result, packed_func};

/// A module whose function returns its payload's length.
pub(crate) struct Length {
    pub(crate) payload: Bytes,
}

impl ModuleImpl for Length {
    fn kind(&self) -> &str {
        "export.length"
    }

    fn properties(&self) -> ModuleProperties {
        ModuleProperties::BINARY_SERIALIZABLE | ModuleProperties::RUNNABLE
    }

    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        let length = self.payload.len();
        Ok((name == "length").then(|| Function::from_fn(move || length)))
    }

    fn save_to_bytes(&self) -> Result<Bytes> {
        Ok(self.payload.clone())
    }
}

#[packed_func(name = "ffi.Module.load_from_bytes.export.length")]
fn load_length(payload: Bytes) -> Module {
    Module::new(Length { payload })
}
