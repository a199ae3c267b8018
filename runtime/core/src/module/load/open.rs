//! [`Module::load`].

use std::path::Path;

use super::{context, loader};
use crate::Result;
use crate::function::Function;
use crate::module::{Module, files};
use crate::provider::{self, Origin};

impl Module {
    /// Loads a library (`.so`) and what it carries. The library may be ours, C++, or exported by Apache TVM.
    ///
    /// A library stays loaded for the life of the process, so its functions and objects may outlive the module.
    ///
    /// # Errors
    /// RuntimeError that names the file and what is wrong with it: missing, no library, another architecture, a corrupt
    /// import tree, a module kind without a loader, or functions that cannot be registered.
    #[inline]
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let Some(text) = path.to_str() else {
            return Err(crate::error!(ValueError, "the path {} is not valid UTF-8", path.display()));
        };
        // `dlopen` looks in the system's folders for a bare name; a file here is what the caller means.
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
            // The stock library unloads a library with its last reference; ours keep objects alive beyond that.
            Function::global("ffi.ModuleGlobalsAdd")?.call((&module,))?;
            // The module is kept for good, so its address stays its own.
            files::note_path(module.as_ptr(), text);
        }
        Ok(module)
    }
}
