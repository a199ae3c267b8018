//! The module of kind `c`: source code that becomes part of an exported library.
//!
//! ```text
//! code: string
//! format: string ("c", "cc", "cpp", "cu")
//! u64 n, n names of functions (strings)
//! u64 n, n names of constants (strings)
//! ```

use super::KindInfo;
use super::listed_functions::{function_of_code, returns_strings};
use crate::Result;
use crate::function::Function;
use crate::module::Module;
use crate::module::implementation::{ModuleImpl, ModuleProperties};
use crate::value::{Bytes, Str};
use kernpack_formats::stream::{StreamError, StreamReader, put_bytes, put_strings};

/// Source code in C or a similar language, with the names of the packed functions that it defines.
///
/// A function named `f` has the symbol `__tvm_ffi_f`. The code is compiled when its module is
/// exported ([`Module::export_library`]) or compiled for this process ([`Module::compile`]); until
/// then its functions cannot be called.
///
/// ```
/// use kernpack::Module;
/// use kernpack::module::CSource;
///
/// let source = CSource::new("int answer;").format("cc").constants(["weights"]);
/// let module = Module::new(source);
/// assert_eq!((module.kind().as_str(), module.write_formats()?), ("c", vec!["cc".to_owned()]));
/// # Ok::<(), kernpack::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CSource {
    code: String,
    format: String,
    functions: Vec<String>,
    constants: Vec<String>,
}

/// The languages in which such code is passed to a compiler.
const FORMATS: [&str; 4] = ["c", "cc", "cpp", "cu"];

/// The kind and the loader of its modules.
pub(in crate::module) const KIND_INFO: KindInfo = KindInfo {
    kind: "c",
    loader: || {
        Function::from_fn(|payload: Bytes| -> Result<Module> {
            let source =
                CSource::parse(&payload).map_err(|error| crate::error!(RuntimeError, "corrupt c module: {error}"))?;
            Ok(Module::new(source))
        })
    },
};

impl CSource {
    /// Creates C code without functions.
    #[inline]
    pub fn new(code: impl Into<String>) -> Self {
        Self { code: code.into(), format: "c".to_owned(), functions: Vec::new(), constants: Vec::new() }
    }

    /// Sets the language of the code by the extension of its files: `c` (the default), `cc`, `cpp`,
    /// `cu`.
    #[inline]
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = format.into();
        self
    }

    /// Adds names of functions that the code defines, without `__tvm_ffi_`.
    #[inline]
    pub fn functions<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.functions.extend(names.into_iter().map(Into::into));
        self
    }

    /// Adds names of constants that the code needs from a `const_loader` module of Apache TVM.
    #[inline]
    pub fn constants<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.constants.extend(names.into_iter().map(Into::into));
        self
    }

    #[inline]
    fn parse(payload: &[u8]) -> Result<Self, StreamError> {
        let mut reader = StreamReader::new("c module", payload);
        let code = reader.string(&"code")?.to_owned();
        let format = reader.string(&"format")?.to_owned();
        let functions = reader.strings(&"function names")?;
        let constants = reader.strings(&"constant names")?;
        reader.finish(&"constant names")?;
        Ok(Self { code, format, functions, constants })
    }
}

impl Module {
    /// Creates a module of source code, of kind `c`. `format` is the extension of its files: `c`,
    /// `cc`, `cpp` or `cu`; `functions` are the packed functions that the code defines, without the
    /// `__tvm_ffi_` of their symbols. [`CSource`] has more options.
    ///
    /// ```
    /// use kernpack::Module;
    ///
    /// let module = Module::c_source(
    ///     "int __tvm_ffi_nothing(void* self, const void* args, int num_args, void* result) { return 0; }",
    ///     "c",
    ///     &["nothing"],
    /// );
    /// assert!(module.implements_function("nothing")?);
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    #[inline]
    pub fn c_source(code: &str, format: &str, functions: &[&str]) -> Self {
        Self::new(CSource::new(code).format(format).functions(functions.iter().copied()))
    }
}

impl ModuleImpl for CSource {
    #[inline]
    fn kind(&self) -> &str {
        "c"
    }

    #[inline]
    fn properties(&self) -> ModuleProperties {
        ModuleProperties::BINARY_SERIALIZABLE | ModuleProperties::COMPILATION_EXPORTABLE
    }

    /// Returns the functions that Apache TVM requests; looking up the code's own functions is an
    /// error.
    #[inline]
    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        match name {
            "get_const_vars" => Ok(Some(returns_strings(&self.constants))),
            "get_symbol" => {
                let symbol = self.functions.first().cloned().unwrap_or_default();
                Ok(Some(Function::from_fn(move || Str::new(&symbol))))
            }
            name => function_of_code("c", &self.functions, name),
        }
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
        put_bytes(&mut out, self.code.as_bytes());
        put_bytes(&mut out, self.format.as_bytes());
        put_strings(&mut out, &self.functions);
        put_strings(&mut out, &self.constants);
        Ok(Bytes::from(out))
    }

    #[inline]
    fn write_formats(&self) -> Vec<String> {
        vec![self.format.clone()]
    }

    #[inline]
    fn write_to_file(&self, path: &str, format: &str) -> Result<()> {
        if format != self.format && !(FORMATS.contains(&format) && FORMATS.contains(&self.format.as_str())) {
            return Err(crate::error!(
                RuntimeError,
                "a module of kind 'c' in format '{}' cannot be written as '{format}'",
                self.format
            ));
        }
        std::fs::write(path, &self.code).map_err(|error| crate::error!(OSError, "{path} cannot be written: {error}"))
    }

    #[inline]
    fn inspect_source(&self, _format: &str) -> Result<String> {
        Ok(self.code.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_tvm() {
        // `ffi.Module.load_from_bytes.c` of Apache TVM 0.27 accepts these bytes
        // (tests/python/exported.py).
        let source = CSource::new("int x;").format("cc").functions(["f"]).constants(["c1"]);
        let bytes = source.save_to_bytes().unwrap();
        let mut expected = Vec::new();
        for text in ["int x;", "cc"] {
            put_bytes(&mut expected, text.as_bytes());
        }
        expected.extend_from_slice(b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0f\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0c1");
        assert_eq!(bytes.to_vec(), expected);
        assert_eq!(CSource::parse(&bytes).unwrap(), source);
        for len in 0..bytes.len() {
            assert!(CSource::parse(&bytes[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn functions_wait_for_the_compiler() {
        let module = Module::c_source("int x;", "c", &["f"]);
        assert_eq!(
            module.function("f").unwrap_err().to_string(),
            "RuntimeError: 'f' of a module of kind 'c' cannot be called before the module is compiled: export it with \
             export_library and load the library, or use Module::compile"
        );
        let names: Vec<String> = module.function("get_func_names").unwrap().call_as(()).unwrap();
        assert_eq!(names, ["f"]);
        let error = module.write_to_file("/tmp/x", "ptx").unwrap_err().to_string();
        assert_eq!(error, "RuntimeError: a module of kind 'c' in format 'c' cannot be written as 'ptx'");
    }
}
