//! Libraries built at run time: [`Module::export_library`].

mod compiler;
mod folder;
mod system_library;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

#[doc(inline)]
pub use kernpack_formats::export::{
    AssemblyPacker, BLOB_ALIGNMENT, Blob, CPacker, ExportError, LARGE_BLOB, ObjectFormat, Packer, Section, Target,
};

use super::library_bin::LIBRARY_BIN_SYMBOL;
use super::serialize::{Exportable, ImportTree, Serialized};
use super::{Module, ModuleProperties, operations};
use crate::{Error, Result};
use compiler::Tool;
use folder::Folder;

/// Options for exporting a library.
///
/// ```
/// use kernpack::module::{AssemblyPacker, ExportOptions};
/// let options = ExportOptions::new().packer(AssemblyPacker).flag("-O3").link("vendor/libfast.a");
/// # let _ = options;
/// ```
#[derive(Default)]
#[must_use = "the options are the result"]
pub struct ExportOptions {
    packer: Option<Box<dyn Packer>>,
    compiler: Option<OsString>,
    target: Option<String>,
    flags: Vec<OsString>,
    links: Vec<PathBuf>,
    system_library: Option<String>,
    compress: bool,
    folder: Option<PathBuf>,
}

impl ExportOptions {
    /// Options for a shared library for this machine.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the packer that stores the import tree in the library. The default writes C for small
    /// trees and assembly for large ones.
    #[inline]
    pub fn packer(mut self, packer: impl Packer + 'static) -> Self {
        self.packer = Some(Box::new(packer));
        self
    }

    /// Sets the compiler that compiles and links. The default is `CC` (`CXX` if there is C++ among
    /// the modules), in the variants of the `cc` crate for a target, else `cc` (`c++`).
    #[inline]
    pub fn compiler(mut self, program: impl Into<OsString>) -> Self {
        self.compiler = Some(program.into());
        self
    }

    /// Exports for another machine, given by its triple. The default compiler is then
    /// `<arch>-<system>-gcc`.
    #[inline]
    pub fn target(mut self, triple: impl Into<String>) -> Self {
        self.target = Some(triple.into());
        self
    }

    /// Adds an option for the compiler, such as `-O3`, `-I<folder>` or `-l<library>`.
    #[inline]
    pub fn flag(mut self, flag: impl Into<OsString>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Adds a file that the compiler compiles or links into the library: an object, an archive, a
    /// source.
    #[inline]
    pub fn link(mut self, path: impl Into<PathBuf>) -> Self {
        self.links.push(path.into());
        self
    }

    /// Makes the code part of the system library: a constructor registers the import tree and the
    /// functions with `TVMFFIEnvModRegisterSystemLibSymbol`, and `ffi.SystemLib(prefix)` finds
    /// them. The names of the modules' functions must begin with the prefix, which may be empty.
    #[inline]
    pub fn system_library(mut self, prefix: impl Into<String>) -> Self {
        self.system_library = Some(prefix.into());
        self
    }

    /// Compresses the modules of the import tree that become smaller. They are stored as kind
    /// `kernpack.zstd`: a program that loads the library needs the loader of this kind
    /// ([`module::enable`](super::enable)). Requires the Cargo feature `zstd`.
    #[inline]
    pub fn compress(mut self, yes: bool) -> Self {
        self.compress = yes;
        self
    }

    /// Writes the intermediate files (objects, sources, the blob) to this folder and keeps them.
    #[inline]
    pub fn folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.folder = Some(path.into());
        self
    }
}

/// An input of the compiler.
struct Input {
    path: PathBuf,
    is_archive: bool,
}

/// Formats of modules that can become part of a library, in order of preference.
const FORMATS: [&str; 8] = ["o", "obj", "a", "c", "cc", "cpp", "cu", "s"];

/// Returns the format to write a module in. Modules of object files created by C++ code do not list
/// any.
#[inline]
fn format_of(module: &Module) -> Result<&'static str> {
    let offered = module.write_formats()?;
    if offered.is_empty() {
        return Ok(if module.kind() == "c" { "c" } else { "o" });
    }
    let known = FORMATS.into_iter().find(|format| offered.iter().any(|offer| offer == format));
    known.ok_or_else(|| {
        crate::error!(
            RuntimeError,
            "a module of kind '{}' is written as {}, none of which a compiler takes",
            module.kind(),
            offered.join(", ")
        )
    })
}

/// Returns the names of a module's functions, including modules written in C++.
#[inline]
fn functions_of(module: &Module) -> Vec<String> {
    let names = module.function_names();
    if !names.is_empty() {
        return names;
    }
    let asked = module.find_function("get_func_names").ok().flatten();
    asked.and_then(|names| names.call_as(()).ok()).unwrap_or_default()
}

/// Writes the modules that become part of the library.
#[inline]
fn write_modules(tree: &ImportTree, folder: &Path) -> Result<(Vec<Input>, Vec<String>)> {
    let (mut inputs, mut functions) = (Vec::new(), Vec::new());
    for (index, module) in tree.modules().iter().enumerate() {
        if !module.properties().contains(ModuleProperties::COMPILATION_EXPORTABLE) {
            continue;
        }
        let named =
            |error: Error| Error::new(error.kind(), format!("the module {}: {}", tree.path(index), error.message()));
        let format = format_of(module).map_err(named)?;
        let mut path = folder.join(format!("lib{}.{format}", inputs.len()));
        module.write_to_file(&path, format).map_err(named)?;
        let is_archive = starts_with_archive(&path);
        if is_archive && format != "a" {
            // The compiler detects file types by their extensions.
            let renamed = path.with_extension("a");
            if std::fs::rename(&path, &renamed).is_ok() {
                path = renamed;
            }
        }
        inputs.push(Input { path, is_archive });
        functions.extend(functions_of(module));
    }
    functions.sort();
    functions.dedup();
    Ok((inputs, functions))
}

#[inline]
fn starts_with_archive(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = [0; 8];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && &head == b"!<arch>\n"
}

impl Module {
    /// Writes the module and everything that it imports into one shared library.
    ///
    /// The code of modules that can become part of it (`c`, `static_library`, `llvm`) is compiled
    /// and linked; all others are stored in its import tree, which [`Module::load`], the stock
    /// `tvm_ffi` and Apache TVM restore. A path that ends in `.a` creates a static library, for use
    /// with [`ExportOptions::system_library`].
    ///
    /// An existing file is replaced at the end in one step, so a process that has it loaded keeps
    /// the old one.
    ///
    /// A library that was loaded from a file cannot be exported again, as in Apache TVM: its code
    /// is only in that file.
    ///
    /// ```
    /// use kernpack::Module;
    /// use kernpack::module::ExportOptions;
    ///
    /// let module = Module::c_source(
    ///     "int __tvm_ffi_answer(void* self, const void* args, int num_args, long long* result) {
    ///          result[0] = 1; /* type index: int */
    ///          result[1] = 42;
    ///          return 0;
    ///      }",
    ///     "c",
    ///     &["answer"],
    /// );
    /// let path = std::env::temp_dir().join(format!("answer-{}.so", std::process::id()));
    /// module.export_library(&path, &ExportOptions::new())?;
    /// assert_eq!(Module::load(&path)?.function("answer")?.call_as::<i64>(())?, 42);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Module::serialize`], a RuntimeError with the whole command and its
    /// output if the compiler fails, or an OSError if a file cannot be written.
    #[inline]
    pub fn export_library(&self, path: impl AsRef<Path>, options: &ExportOptions) -> Result<()> {
        let path = path.as_ref();
        let what = format!("cannot export {}", path.display());
        let in_export = |error: Error| Error::new(error.kind(), format!("{what}: {}", error.message()));
        if options.compress && !cfg!(feature = "zstd") {
            return Err(in_export(Error::runtime_error("compression needs the Cargo feature `zstd` of kernpack")));
        }
        let target = match &options.target {
            Some(triple) => Target::of_triple(triple),
            None => Target::host(),
        };
        let target = target.map_err(|error| in_export(error.into()))?;
        let folder = match &options.folder {
            Some(folder) => Folder::existing(folder),
            None => Folder::new(),
        };
        let folder = folder.map_err(in_export)?;
        let inputs = self.write_inputs(options, &target, folder.path()).map_err(in_export)?;
        if path.extension().is_some_and(|extension| extension == "a") {
            options.archive(&what, path, inputs, &target, folder.path())
        } else {
            options.link_shared(&what, path, &inputs, &target)
        }
    }

    /// Writes all inputs of the compiler.
    #[inline]
    fn write_inputs(&self, options: &ExportOptions, target: &Target, folder: &Path) -> Result<Vec<Input>> {
        let tree = ImportTree::of(self)?;
        let serialized = Serialized::of(&tree, Exportable::Library, options.compress)?;
        let (mut inputs, functions) = write_modules(&tree, folder)?;
        let prefix = options.system_library.as_deref().unwrap_or_default();
        if !system_library::is_identifier(prefix) {
            return Err(Error::value_error(format!("the prefix '{prefix}' is not part of a name in C")));
        }
        let symbol = format!("{prefix}{LIBRARY_BIN_SYMBOL}");
        let is_library_alone =
            tree.modules().len() == 1 && self.properties().contains(ModuleProperties::COMPILATION_EXPORTABLE);
        if !is_library_alone {
            let writer = serialized.writer()?;
            let packer = options.packer.as_deref().unwrap_or(&kernpack_formats::export::ByItsSize);
            let path = packer.pack(&Blob::new(&symbol, &writer), target, folder)?;
            inputs.push(Input { path, is_archive: false });
        }
        if options.system_library.is_some() {
            let path = folder.join("registration.c");
            let code = system_library::registration((!is_library_alone).then_some(&symbol), &functions);
            kernpack_formats::export::write_file(&path, |out| out.write_all(code.as_bytes()))?;
            inputs.push(Input { path, is_archive: false });
        }
        Ok(inputs)
    }

    /// Compiles the module, and everything that it imports, for this process: exports it to a
    /// temporary library and loads that. This makes the functions of `c`, `static_library` and
    /// `llvm` modules callable.
    ///
    /// # Errors
    /// As for [`Module::export_library`] and [`Module::load`].
    #[inline]
    pub fn compile(&self) -> Result<Self> {
        let folder = Folder::new()?;
        let path = folder.path().join("module.so");
        self.export_library(&path, &ExportOptions::new())?;
        // The loaded library stays when the file is deleted; the names of its functions are read
        // before.
        let module = Self::load(&path)?;
        operations::visit(&module, true, &mut |module| {
            module.function_names();
            Ok(None::<()>)
        })?;
        Ok(module)
    }
}

impl ExportOptions {
    #[inline]
    fn compiler_for(&self, inputs: &[Input], target: &Target) -> Tool {
        let is_cpp =
            |path: &Path| path.extension().is_some_and(|e| ["cc", "cpp", "cxx", "cu"].iter().any(|cpp| e == *cpp));
        let any_cpp = inputs.iter().map(|input| &input.path).chain(&self.links).any(|path| is_cpp(path));
        Tool::compiler(self.compiler.as_deref(), any_cpp, target)
    }

    /// Links a shared library, under a temporary name first.
    #[inline]
    fn link_shared(&self, what: &str, path: &Path, inputs: &[Input], target: &Target) -> Result<()> {
        let unfinished = unfinished(path);
        let mut arguments: Vec<OsString> = target.shared_flags().iter().map(OsString::from).collect();
        arguments.extend(["-O2".into(), "-o".into(), unfinished.clone().into_os_string()]);
        for input in inputs {
            match input.is_archive {
                true => {
                    let Some(archive) = input.path.to_str() else {
                        let path = input.path.display();
                        return Err(crate::error!(ValueError, "{what}: the path {path} is not valid UTF-8"));
                    };
                    arguments.extend(target.whole_archive(archive).into_iter().map(Into::into));
                }
                false => arguments.extend(source_arguments(&input.path)),
            }
        }
        arguments.extend(self.links.iter().flat_map(|path| source_arguments(path)));
        arguments.extend(self.flags.iter().cloned());
        let linked = self.compiler_for(inputs, target).run(what, &arguments);
        finish(what, &unfinished, path, linked)
    }

    /// Compiles the sources and puts all objects into an archive.
    #[inline]
    fn archive(&self, what: &str, path: &Path, inputs: Vec<Input>, target: &Target, folder: &Path) -> Result<()> {
        let unfinished = unfinished(path);
        if let Some(archive) = inputs.iter().find(|input| input.is_archive) {
            let name = archive.path.file_name().unwrap_or_default().to_string_lossy();
            return Err(crate::error!(
                RuntimeError,
                "{what}: a module is an archive itself ({name}), which cannot be put into one"
            ));
        }
        let compiler = self.compiler_for(&inputs, target);
        let mut arguments: Vec<OsString> = vec!["rcs".into(), unfinished.clone().into_os_string()];
        for file in inputs.iter().map(|input| &input.path).chain(&self.links) {
            if file.extension() == Some(OsStr::new("o")) {
                arguments.push(file.clone().into_os_string());
                continue;
            }
            let object = folder.join(format!("object{}.o", arguments.len()));
            let mut compile: Vec<OsString> = ["-c", "-fPIC", "-O2", "-o"].iter().map(OsString::from).collect();
            compile.push(object.clone().into_os_string());
            compile.extend(source_arguments(file));
            compile.extend(self.flags.iter().cloned());
            compiler.run(what, &compile)?;
            arguments.push(object.into_os_string());
        }
        let archived = Tool::find(None, "AR", "ar", target).run(what, &arguments);
        finish(what, &unfinished, path, archived)
    }
}

/// Returns the compiler's arguments for a file; C++ compilers treat C as C++ unless an option
/// selects the language.
#[inline]
fn source_arguments(path: &Path) -> Vec<OsString> {
    let path = path.as_os_str().to_owned();
    if Path::new(&path).extension() == Some(OsStr::new("c")) {
        return ["-x".into(), "c".into(), path, "-x".into(), "none".into()].to_vec();
    }
    vec![path]
}

/// The temporary path of a library before it gets its name: in the same folder, so that renaming is
/// one step.
#[inline]
fn unfinished(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = format!(".{name}.{}.tmp", folder::unique());
    match path.parent() {
        Some(folder) => folder.join(file),
        None => PathBuf::from(file),
    }
}

/// Renames a finished library to its name, or removes an unfinished one.
#[inline]
fn finish(what: &str, unfinished: &Path, path: &Path, made: Result<()>) -> Result<()> {
    let renamed = made
        .and_then(|()| std::fs::rename(unfinished, path).map_err(|error| crate::error!(OSError, "{what}: {error}")));
    if renamed.is_err() {
        // The file may not exist.
        let _ = std::fs::remove_file(unfinished);
    }
    renamed
}
