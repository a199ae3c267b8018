//! Modules of kind `llvm`: code that LLVM compiles in the process. The compilers implement
//! [`LlvmCode`]; the functions that Apache TVM requests and the formats are here.

use crate::Result;
use crate::function::Function;
use crate::module::implementation::{ModuleImpl, ModuleProperties};

/// Code that LLVM has compiled, or compiles when it is needed.
#[doc(hidden)]
pub trait LlvmCode: Send + Sync + 'static {
    /// The triple of the machine that the code is for.
    fn triple(&self) -> &str;

    /// The names of the packed functions.
    fn functions(&self) -> &[String];

    /// The code of one of these functions.
    ///
    /// # Errors
    /// Returns an error if the code is for another machine or cannot be loaded.
    fn function(&self, name: &str) -> Result<Function>;

    /// The object file.
    ///
    /// # Errors
    /// Returns the errors of LLVM.
    fn object(&self) -> Result<Vec<u8>>;

    /// The assembly.
    ///
    /// # Errors
    /// Returns the errors of LLVM.
    fn assembly(&self) -> Result<String>;

    /// The LLVM IR as text.
    ///
    /// # Errors
    /// Returns the errors of LLVM.
    fn text(&self) -> Result<String>;

    /// The LLVM IR as bitcode.
    fn bitcode(&self) -> &[u8];

    /// The text of the program to which line tables refer, of the format `kir`.
    fn listing(&self) -> Option<&str> {
        None
    }

    /// The prefix of the symbols of a system library; `None` for another module.
    fn system_prefix(&self) -> Option<&str> {
        None
    }
}

/// A module of such code.
#[doc(hidden)]
pub struct LlvmModule<C>(pub C);

impl<C: LlvmCode> ModuleImpl for LlvmModule<C> {
    fn kind(&self) -> &str {
        "llvm"
    }

    fn properties(&self) -> ModuleProperties {
        ModuleProperties::RUNNABLE | ModuleProperties::COMPILATION_EXPORTABLE
    }

    /// The module's own functions, and the functions that Apache TVM requests from such a module on
    /// export.
    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        Ok(Some(match name {
            "__tvm_is_system_module" => {
                let is_system = self.0.system_prefix().is_some();
                Function::from_fn(move || is_system)
            }
            "__tvm_get_system_lib_prefix" => {
                let prefix = self.0.system_prefix().map(str::to_owned);
                Function::from_fn(move || prefix.clone())
            }
            "_get_target_string" => {
                let target = format!("{{\"kind\": \"llvm\", \"mtriple\": \"{}\"}}", self.0.triple());
                Function::from_fn(move || target.clone())
            }
            name if self.implements_function(name)? => self.0.function(name)?,
            _ => return Ok(None),
        }))
    }

    fn implements_function(&self, name: &str) -> Result<bool> {
        Ok(self.0.functions().iter().any(|function| function == name))
    }

    fn function_names(&self) -> Vec<String> {
        self.0.functions().to_vec()
    }

    fn write_formats(&self) -> Vec<String> {
        let listing = self.0.listing().map(|_| "kir");
        ["o", "obj", "s", "asm", "ll", "bc"].into_iter().chain(listing).map(str::to_owned).collect()
    }

    fn write_to_file(&self, path: &str, format: &str) -> Result<()> {
        let bytes = match (format, self.0.listing()) {
            ("o" | "obj", _) => self.0.object()?,
            ("s" | "asm", _) => self.0.assembly()?.into_bytes(),
            ("ll", _) => self.0.text()?.into_bytes(),
            ("bc", _) => self.0.bitcode().to_vec(),
            ("kir", Some(listing)) => listing.as_bytes().to_vec(),
            _ => {
                return Err(crate::Error::runtime_error(format!(
                    "a module of kind 'llvm' cannot be written as '{format}', only as {}",
                    self.write_formats().join(", ")
                )));
            }
        };
        std::fs::write(path, bytes).map_err(|error| crate::error!(OSError, "{path} cannot be written: {error}"))
    }

    /// Returns `ll` (also for an empty format), `s` and `asm`, `bc` in hexadecimal, and `kir`.
    fn inspect_source(&self, format: &str) -> Result<String> {
        match format {
            "" | "ll" => self.0.text(),
            "s" | "asm" => self.0.assembly(),
            "bc" => Ok(self.0.bitcode().iter().map(|byte| format!("{byte:02x}")).collect()),
            "kir" => Ok(self.0.listing().unwrap_or_default().to_owned()),
            _ => Ok(String::new()),
        }
    }
}
