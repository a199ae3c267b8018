//! Modules that are implemented in Rust: the trait, and the operations that a module supports.

use crate::Result;
use crate::function::Function;
use crate::value::{Bytes, Str};

/// The operations that a module supports: bits of its property mask.
///
/// ```
/// use kernpack::module::ModuleProperties;
/// let both = ModuleProperties::BINARY_SERIALIZABLE | ModuleProperties::RUNNABLE;
/// assert!(both.contains(ModuleProperties::RUNNABLE));
/// assert_eq!(both.bits(), 3);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ModuleProperties(i32);

impl ModuleProperties {
    /// The module can be serialized to bytes, which its loader
    /// (`ffi.Module.load_from_bytes.<kind>`) restores.
    pub const BINARY_SERIALIZABLE: Self = Self(1);
    /// The module's functions can be called.
    pub const RUNNABLE: Self = Self(2);
    /// The module can be written as source or object code that becomes part of an exported library.
    pub const COMPILATION_EXPORTABLE: Self = Self(4);

    /// Creates the properties from these bits; unknown ones are kept.
    #[inline]
    pub const fn from_bits(bits: i32) -> Self {
        Self(bits)
    }

    /// The bits in the ABI's encoding.
    #[inline]
    pub const fn bits(self) -> i32 {
        self.0
    }

    /// Returns whether all of `other` are among these.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl core::ops::BitOr for ModuleProperties {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A kind of module: implement it for your own type, and create modules of it with
/// [`Module::new`](crate::Module::new).
///
/// Every language can use such a module; C++ code that holds it as a `tvm::ffi::Module` calls these
/// functions through virtual functions. If an error cannot be thrown there (no stock libtvm_ffi in
/// the process, or a build with `panic = "abort"`), it is written to stderr.
///
/// A kind that can be stored in libraries needs a loader: a global function from its bytes to a
/// module. The kind does not have to be registered anywhere else.
///
/// ```
/// use kernpack::module::{ModuleImpl, ModuleProperties};
/// use kernpack::{Bytes, Function, Module, Result, packed_func};
///
/// /// Multiplies by a constant.
/// struct Scale {
///     factor: i64,
/// }
///
/// impl ModuleImpl for Scale {
///     fn kind(&self) -> &str {
///         "docs.scale"
///     }
///
///     fn properties(&self) -> ModuleProperties {
///         ModuleProperties::RUNNABLE | ModuleProperties::BINARY_SERIALIZABLE
///     }
///
///     fn find_function(&self, name: &str) -> Result<Option<Function>> {
///         let factor = self.factor;
///         Ok((name == "scale").then(|| Function::from_fn(move |value: i64| value * factor)))
///     }
///
///     fn save_to_bytes(&self) -> Result<Bytes> {
///         Ok(Bytes::from(self.factor.to_le_bytes().to_vec()))
///     }
/// }
///
/// /// Restores a module of the kind `docs.scale`.
/// #[packed_func(name = "ffi.Module.load_from_bytes.docs.scale")]
/// fn load_scale(bytes: Bytes) -> Result<Module> {
///     let factor = bytes.first_chunk().ok_or_else(|| kernpack::Error::value_error("a factor has 8 bytes"))?;
///     Ok(Module::new(Scale { factor: i64::from_le_bytes(*factor) }))
/// }
///
/// let module = Module::new(Scale { factor: 3 });
/// assert_eq!(module.function("scale")?.call_as::<i64>((14,))?, 42);
/// assert_eq!(module.downcast_ref::<Scale>().map(|scale| scale.factor), Some(3));
/// # Ok::<(), kernpack::Error>(())
/// ```
pub trait ModuleImpl: core::any::Any + Send + Sync {
    /// Name of the kind, which also determines its loader: `ffi.Module.load_from_bytes.<kind>`.
    /// Called once, when the module is created.
    fn kind(&self) -> &str;

    /// The operations that the module supports.
    #[inline]
    fn properties(&self) -> ModuleProperties {
        ModuleProperties::RUNNABLE
    }

    /// Returns the module's own function of this name; `None` if it does not have one.
    ///
    /// This function must not search imports:
    /// [`Module::find_function`](crate::Module::find_function) does that.
    ///
    /// # Errors
    /// Returns an error if the function exists but cannot be used.
    fn find_function(&self, name: &str) -> Result<Option<Function>>;

    /// Returns whether the module has a function of this name.
    ///
    /// # Errors
    /// As for [`ModuleImpl::find_function`].
    #[inline]
    fn implements_function(&self, name: &str) -> Result<bool> {
        Ok(self.find_function(name)?.is_some())
    }

    /// Returns whether a name always maps to the same function, so that the module can cache
    /// lookups. A kind whose functions change returns `false`, and every lookup calls it.
    #[inline]
    fn has_fixed_functions(&self) -> bool {
        true
    }

    /// Returns the JSON metadata of a function: an object with the member `type_schema`.
    ///
    /// # Errors
    /// Returns an error if the metadata cannot be read.
    #[inline]
    fn function_metadata(&self, _name: &str) -> Result<Option<Str>> {
        Ok(None)
    }

    /// Returns the documentation of a function.
    ///
    /// # Errors
    /// Returns an error if the documentation cannot be read.
    #[inline]
    fn function_doc(&self, _name: &str) -> Result<Option<Str>> {
        Ok(None)
    }

    /// Names of the functions, as far as they are known, for lists and hints.
    #[inline]
    fn function_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Serializes the module without its imports, for its loader.
    ///
    /// # Errors
    /// Returns a RuntimeError unless the kind is serializable.
    #[inline]
    fn save_to_bytes(&self) -> Result<Bytes> {
        Err(crate::error!(RuntimeError, "Module[{}] does not support SaveToBytes", self.kind()))
    }

    /// Writes the module to a file in one of its formats.
    ///
    /// # Errors
    /// Returns a RuntimeError for a format that the kind does not have, and an OSError if the file
    /// cannot be written.
    #[inline]
    fn write_to_file(&self, _path: &str, format: &str) -> Result<()> {
        let formats = self.write_formats();
        if formats.is_empty() {
            return Err(crate::error!(RuntimeError, "Module[{}] does not support WriteToFile", self.kind()));
        }
        Err(crate::error!(
            RuntimeError,
            "a module of kind '{}' cannot be written as '{format}', only as {}",
            self.kind(),
            formats.join(", ")
        ))
    }

    /// Formats that [`ModuleImpl::write_to_file`] supports.
    #[inline]
    fn write_formats(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns source code in a format, or an empty string if there is none. An empty `format`
    /// selects the most readable one.
    ///
    /// # Errors
    /// Returns an error if the source cannot be read.
    #[inline]
    fn inspect_source(&self, _format: &str) -> Result<String> {
        Ok(String::new())
    }
}
