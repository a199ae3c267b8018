//! The module of kind `static_library`: object code that becomes part of an exported library.
//!
//! ```text
//! object code: bytes (an object file or an archive)
//! u64 n, n names of functions (strings)
//! ```

use std::path::Path;

use super::KindInfo;
use super::listed_functions::function_of_code;
use crate::function::Function;
use crate::module::Module;
use crate::module::implementation::{ModuleImpl, ModuleProperties};
use crate::value::Bytes;
use crate::{Error, Result};
use kernpack_formats::stream::{StreamError, StreamReader, put_bytes, put_strings};

/// An object file or an archive of them, and the packed functions in it.
struct StaticLibrary {
    code: Bytes,
    functions: Vec<String>,
}

/// First bytes of an archive.
const ARCHIVE: &[u8] = b"!<arch>\n";

/// The kind and the loader of its modules.
pub(in crate::module) const KIND_INFO: KindInfo = KindInfo {
    kind: "static_library",
    loader: || {
        Function::from_fn(|payload: Bytes| -> Result<Module> {
            let library = StaticLibrary::parse(&payload)
                .map_err(|error| crate::error!(RuntimeError, "corrupt static_library module: {error}"))?;
            Ok(Module::new(library))
        })
    },
};

impl StaticLibrary {
    #[inline]
    fn parse(payload: &[u8]) -> Result<Self, StreamError> {
        let mut reader = StreamReader::new("static_library module", payload);
        let code = Bytes::new(reader.bytes(&"object code")?);
        let functions = reader.strings(&"function names")?;
        reader.finish(&"function names")?;
        Ok(Self { code, functions })
    }

    #[inline]
    fn is_archive(&self) -> bool {
        self.code.starts_with(ARCHIVE)
    }
}

impl Module {
    /// Creates a module of object code (an object file or an archive), of kind `static_library`.
    /// `functions` are the packed functions in it, without the `__tvm_ffi_` of their symbols.
    ///
    /// The code becomes part of the library that the module is exported to
    /// ([`Module::export_library`]); its functions cannot be called before that, unless it is
    /// linked for this process ([`Module::compile`]).
    ///
    /// ```
    /// let module = kernpack::Module::static_library(b"\x7fELF...".to_vec(), &["blur"]);
    /// assert_eq!(module.kind(), "static_library");
    /// assert!(module.implements_function("blur")?);
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    #[inline]
    pub fn static_library(code: impl Into<Bytes>, functions: &[&str]) -> Self {
        let functions = functions.iter().map(|name| (*name).to_owned()).collect();
        Self::new(StaticLibrary { code: code.into(), functions })
    }

    /// Like [`Module::static_library`], from a file.
    ///
    /// # Errors
    /// Returns an OSError if the file cannot be read.
    #[inline]
    pub fn static_library_file(path: impl AsRef<Path>, functions: &[&str]) -> Result<Self> {
        let path = path.as_ref();
        let code = std::fs::read(path)
            .map_err(|error| crate::error!(OSError, "{} cannot be read: {error}", path.display()))?;
        Ok(Self::static_library(code, functions))
    }
}

impl ModuleImpl for StaticLibrary {
    #[inline]
    fn kind(&self) -> &str {
        "static_library"
    }

    #[inline]
    fn properties(&self) -> ModuleProperties {
        ModuleProperties::BINARY_SERIALIZABLE | ModuleProperties::COMPILATION_EXPORTABLE
    }

    #[inline]
    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        function_of_code("static_library", &self.functions, name)
    }

    #[inline]
    fn implements_function(&self, name: &str) -> Result<bool> {
        Ok(self.functions.iter().any(|function| function == name))
    }

    #[inline]
    fn function_names(&self) -> Vec<String> {
        self.functions.clone()
    }

    #[inline]
    fn save_to_bytes(&self) -> Result<Bytes> {
        let mut out = Vec::with_capacity(self.code.len() + 64);
        put_bytes(&mut out, &self.code);
        put_strings(&mut out, &self.functions);
        Ok(Bytes::from(out))
    }

    /// `o` for an object file, `a` for an archive.
    #[inline]
    fn write_formats(&self) -> Vec<String> {
        vec![if self.is_archive() { "a" } else { "o" }.to_owned()]
    }

    #[inline]
    fn write_to_file(&self, path: &str, format: &str) -> Result<()> {
        if !matches!(format, "o" | "a") {
            return Err(Error::runtime_error(format!(
                "a module of kind 'static_library' cannot be written as '{format}', only as o, a"
            )));
        }
        std::fs::write(path, &self.code[..])
            .map_err(|error| crate::error!(OSError, "{path} cannot be written: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_tvm() {
        // `ffi.Module.load_from_bytes.static_library` of Apache TVM 0.27 accepts these bytes
        // (tests/python/exported.py).
        let expected = b"\x03\0\0\0\0\0\0\0OBJ\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0f";
        let module = Module::static_library(b"OBJ".to_vec(), &["f"]);
        assert_eq!(module.save_to_bytes().unwrap().to_vec(), expected);
        let copy = StaticLibrary::parse(expected).unwrap();
        assert_eq!((copy.code.to_vec(), copy.functions), (b"OBJ".to_vec(), vec!["f".to_owned()]));
        for len in 0..expected.len() {
            assert!(StaticLibrary::parse(&expected[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn archives_are_told_from_objects() {
        for (code, format) in [("!<arch>\nx", "a"), ("\x7fELF", "o"), ("", "o")] {
            let module = Module::static_library(code.as_bytes().to_vec(), &[]);
            assert_eq!(module.write_formats().unwrap(), [format]);
        }
        let module = Module::static_library(Vec::new(), &["f"]);
        assert_eq!(
            module.write_to_file("/tmp/x", "ll").unwrap_err().to_string(),
            "RuntimeError: a module of kind 'static_library' cannot be written as 'll', only as o, a"
        );
        assert!(module.function("f").unwrap_err().to_string().contains("before the module is compiled"));
    }
}
