//! [`Module::load`].

use std::path::Path;

use super::{context, loader};
use crate::Result;
use crate::function::Function;
use crate::module::{Module, files};
use crate::provider::{self, Origin};

impl Module {
    /// Loads a library (`.so`) with the modules in it. The library may be a Kernpack library, a C++
    /// library, or exported by Apache TVM.
    ///
    /// A library stays loaded for the life of the process, so its functions and objects may outlive
    /// the module.
    ///
    /// # Errors
    /// Returns a RuntimeError with the file and the problem: it is missing, not a library, for
    /// another architecture, has a corrupt import tree, a module kind without a loader, or
    /// functions that cannot be registered.
    #[inline]
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let Some(text) = path.to_str() else {
            return Err(crate::error!(ValueError, "the path {} is not valid UTF-8", path.display()));
        };
        // `dlopen` searches a bare name in the system's folders; a file of this name in the current
        // folder takes precedence.
        let text = if !text.contains('/') && path.exists() { format!("./{text}") } else { text.to_owned() };
        loader::check_file(Path::new(&text))?;
        context::offer_context_symbols()?;
        if loader::is_own(&text)? {
            return loader::load_checked(Path::new(&text));
        }
        let module: Self = match Function::find_global(loader::FROM_FILE)? {
            Some(load) => load.call_as((text.as_str(),))?,
            None => loader::load_from_file(&text)?,
        };
        if provider::origin() == Origin::Process {
            // The stock library unloads a library with its last reference; our libraries create
            // objects that live longer.
            Function::global("ffi.ModuleGlobalsAdd")?.call((&module,))?;
            // The module is kept forever, so its address is never reused.
            files::note_path(module.as_ptr(), text);
        }
        Ok(module)
    }
}
