//! The stages of a build. Each performs one task on one value, [`Build`]: it reads the results of
//! earlier stages, and adds its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::cargo::lines::Lines;
use crate::cuda::CudaOutcome;
use crate::describe::symbols::{self, Compiled, HostKernel};
use crate::describe::{self, Sources};
use crate::library::Library;
#[cfg(feature = "llvm")]
use crate::llvm::LlvmInput;
use crate::multiversion::Version;
use crate::opencl::{self, OpenClImage};
use crate::outputs::{Output, compile_commands};
use crate::session::Session;
use crate::{Error, Result, c, cuda, generate, multiversion, outputs, pack};

/// Runs all stages. Returns the lines to print for cargo.
pub(super) fn run(library: Library, session: &Session) -> Result<Lines> {
    let mut build = Build::new(library, session)?;
    build.compile()?;
    build.find_kernels()?;
    build.join_versions()?;
    build.pack_modules()?;
    build.archive_objects()?;
    build.generate_rust()?;
    build.list_outputs()?;
    Ok(build.lines)
}

/// A build in progress.
struct Build<'a> {
    session: &'a Session,
    library: Library,
    sources: Sources,
    versions: Vec<Version>,
    /// The CPU kernels, by version, the baseline first.
    compiled: Vec<Vec<Compiled>>,
    cpp_runtime: Option<String>,
    cuda: CudaOutcome,
    opencl: Vec<OpenClImage>,
    kernels: Vec<HostKernel>,
    /// True if kernels call functions that only the process that loads the library provides.
    calls_the_host: bool,
    /// The objects that the library is linked with.
    objects: Vec<PathBuf>,
    /// The modules that the library carries.
    carried: generate::Carried,
    /// The descriptions of models, by name.
    #[cfg(feature = "graph")]
    models: Vec<(String, describe::Description)>,
    /// The models for code generation.
    model_items: Vec<generate::model::ModelItems>,
    /// Objects that all versions share: the weights of models, and functions that launch kernels.
    #[cfg(feature = "compiler")]
    shared: Vec<PathBuf>,
    /// The outputs, for people.
    outputs: Vec<Output>,
    /// The lines for cargo.
    lines: Lines,
}

impl<'a> Build<'a> {
    fn new(mut library: Library, session: &'a Session) -> Result<Self> {
        library.c.extend(c::bridge::write(session, &library.c_headers)?);
        Ok(Self {
            versions: multiversion::versions(session, library.levels.as_deref())?,
            sources: sources(&library),
            session,
            library,
            compiled: Vec::new(),
            cpp_runtime: None,
            cuda: CudaOutcome::default(),
            opencl: Vec::new(),
            kernels: Vec::new(),
            calls_the_host: false,
            objects: Vec::new(),
            carried: generate::Carried::default(),
            #[cfg(feature = "graph")]
            models: Vec::new(),
            model_items: Vec::new(),
            #[cfg(feature = "compiler")]
            shared: Vec::new(),
            outputs: Vec::new(),
            lines: Lines::default(),
        })
    }

    /// Runs all compilers in parallel. Failed sources do not hide the errors of others.
    fn compile(&mut self) -> Result<()> {
        let llvm = std::mem::take(&mut self.library.llvm);
        let (session, library, versions) = (self.session, &self.library, &self.versions);
        #[cfg(feature = "llvm")]
        let uses_llvm = !llvm.is_empty();
        #[cfg(feature = "compiler")]
        let uses_llvm = uses_llvm || !library.te.is_empty();
        #[cfg(feature = "graph")]
        let uses_llvm = uses_llvm || !library.models.is_empty();
        let (c, llvm, cuda, opencl) = thread::scope(|scope| {
            // Closures of the build script stay on their thread, so only their results leave it.
            let (inputs, flags) = (&library.c, &library.flags);
            let c = scope.spawn(move || c::compile(session, inputs, flags, versions));
            let inputs = &library.cuda;
            let cuda = scope.spawn(move || cuda::compile(session, inputs));
            let (inputs, options) = (&library.opencl, &library.opencl_options);
            let opencl = scope.spawn(move || -> Result<(Vec<OpenClImage>, String)> {
                let images = opencl::read(session, inputs, options)?;
                let warnings = opencl::check(session, &images)?;
                Ok((images, warnings))
            });
            let llvm = compile_llvm(session, llvm, versions);
            (joined(c), llvm, joined(cuda), joined(opencl))
        });
        #[cfg(feature = "compiler")]
        let dump = {
            session.environment.track("KERNPACK_DUMP_PASSES");
            let variable = session.environment.cargo_optional("KERNPACK_DUMP_PASSES");
            library.dump_passes || variable.is_some_and(|value| value == "1")
        };
        #[cfg(feature = "compiler")]
        let te = crate::te_kernels::compile(session, &library.te, versions, library.devices.as_deref(), dump);
        #[cfg(not(feature = "compiler"))]
        let te = Ok(());
        #[cfg(feature = "graph")]
        let models = crate::models::compile(session, &library.models, versions, dump);
        #[cfg(not(feature = "graph"))]
        let models = Ok(());
        let of_host = Error::both(Error::both(c, llvm), Error::both(te, models));
        #[cfg_attr(not(feature = "compiler"), expect(unused_mut, reason = "kernels of tensor expressions are added"))]
        let (((c, llvm), (te, models)), (cuda, (mut opencl, opencl_warnings))) =
            Error::both(of_host, Error::both(cuda, opencl))?;
        for warnings in [&c.warnings, &cuda.warnings, &opencl_warnings] {
            self.lines.warnings(warnings);
        }
        if let Some(skipped) = cuda.skipped.as_ref().filter(|skipped| !skipped.is_wanted) {
            self.lines.warnings(&format!(
                "{}: not compiled: {}. The kernels will say so when they are called; KERNPACK_CUDA=off hides this \
                 warning, KERNPACK_CUDA=require makes it an error",
                skipped.sources.join(", "),
                skipped.reason
            ));
        }
        #[cfg(feature = "llvm")]
        if uses_llvm {
            self.lines.warnings(kernpack_llvm_link::LLVM_WARNING);
        }
        self.compiled = c.objects.into_iter().zip(llvm).map(|(c, llvm)| [c, llvm].concat()).collect();
        #[cfg(feature = "compiler")]
        {
            let (objects, outcome) = te;
            self.lines.warnings(&outcome.warnings);
            self.outputs.extend(outcome.outputs);
            self.shared.extend(outcome.shared);
            opencl.extend(outcome.opencl);
            for (all, own) in self.compiled.iter_mut().zip(objects) {
                all.extend(own);
            }
        }
        #[cfg(not(feature = "compiler"))]
        let () = te;
        #[cfg(not(feature = "graph"))]
        let () = models;
        #[cfg(feature = "graph")]
        {
            let (objects, outcome) = models;
            self.lines.warnings(&outcome.warnings);
            self.outputs.extend(outcome.outputs);
            self.models = outcome.descriptions;
            self.model_items = outcome.items;
            self.shared.extend(outcome.weights);
            for (all, own) in self.compiled.iter_mut().zip(objects) {
                all.extend(own);
            }
        }
        self.cpp_runtime = c.cpp_runtime;
        self.cuda = cuda;
        self.opencl = opencl;
        Ok(())
    }

    /// Reads the names of the CPU kernels from the objects, and lists the compiled outputs.
    fn find_kernels(&mut self) -> Result<()> {
        self.kernels = symbols::host_kernels(&self.compiled[0])?;
        self.calls_the_host = symbols::call_the_host(&self.compiled[0]);
        for Compiled { source, object } in self.compiled.iter().flatten() {
            let own = self.kernels.iter().filter(|kernel| kernel.source == *source).map(|kernel| kernel.name.as_str());
            self.outputs.push(Output::of("object", object, source, own));
        }
        for image in &self.cuda.images {
            let names: Vec<&str> = image.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            self.outputs.extend(Output::of_image(image.format, &image.code, &image.source, &names));
        }
        for image in &self.opencl {
            let path = self.session.package_dir.join(&image.path);
            let names = image.kernels.iter().map(|kernel| kernel.name.as_str());
            self.outputs.push(Output::of("opencl", &path, &image.source, names));
        }
        Ok(())
    }

    /// Combines the versions of CPU kernels into one set of objects.
    fn join_versions(&mut self) -> Result<()> {
        let sets = std::mem::take(&mut self.compiled);
        self.objects = multiversion::link::link(self.session, &self.versions, sets, &self.kernels)?;
        #[cfg(feature = "compiler")]
        self.objects.append(&mut self.shared);
        Ok(())
    }

    /// Puts device images and the user's own modules into an object.
    fn pack_modules(&mut self) -> Result<()> {
        let mut modules = pack::cuda_modules(&self.cuda.images)?;
        modules.extend(self.opencl.iter().map(OpenClImage::module));
        modules.append(&mut self.library.imports);
        if modules.is_empty() {
            return Ok(());
        }
        let packed = pack::pack(self.session, &modules, self.library.compress)?;
        self.outputs.push(Output::new("blob", &packed.object));
        self.objects.push(packed.object);
        self.carried = generate::Carried { kinds: packed.kinds, symbol: packed.symbol };
        Ok(())
    }

    /// Creates the archive of all objects, and makes rustc link it.
    fn archive_objects(&mut self) -> Result<()> {
        let (session, lines) = (self.session, &mut self.lines);
        if !self.objects.is_empty() {
            let name = format!("kernpack_{}_kernels", session.package_name.replace('-', "_"));
            c::archive(session, &name, &self.objects)?;
            self.outputs.push(Output::new("archive", &session.out_dir.join(format!("lib{name}.a"))));
            lines.link_search(&session.out_dir);
            lines.link_lib(&format!("static:+whole-archive,+export-symbols={name}"));
        }
        if let Some(runtime) = &self.cpp_runtime {
            lines.link_lib(runtime);
        }
        if session.target.is_elf() && makes_cdylib(session) {
            // Objects and functions of the library may outlive the module that loaded it.
            lines.link_arg_cdylib("-Wl,-z,nodelete");
            // Kernels of the same name in two libraries of a process stay separate, however the
            // libraries were loaded.
            lines.link_arg_cdylib("-Wl,-Bsymbolic");
            // An undefined function is an error of the build, not of a first call.
            if !self.calls_the_host && !is_sanitized(session) {
                lines.link_arg_cdylib("-Wl,-z,defs");
            }
        }
        Ok(())
    }

    /// Writes the file that `kernpack::library!()` includes.
    fn generate_rust(&mut self) -> Result<()> {
        let session = self.session;
        let of_cuda =
            self.cuda.images.iter().flat_map(|image| image.kernels.iter().map(|kernel| (&*image.source, kernel)));
        let files = self.opencl.iter().filter(|image| image.generated.is_none());
        let of_opencl = files.flat_map(|image| image.kernels.iter().map(|kernel| (&*image.source, kernel)));
        let built: Vec<_> = of_cuda.chain(of_opencl).collect();
        let descriptions = describe::describe(session, &self.sources, &self.kernels, &built, &self.library.signatures)?;
        #[cfg(feature = "compiler")]
        let descriptions = {
            let mut descriptions = descriptions;
            for kernel in self.library.te.iter().flatten() {
                let own = crate::te_kernels::description(kernel, self.library.devices.as_deref());
                // A declaration of the user is kept, as for any kernel.
                descriptions.entry(kernel.name().to_owned()).or_insert(own);
            }
            descriptions
        };
        #[cfg(feature = "graph")]
        let descriptions = {
            let mut descriptions = descriptions;
            for (name, own) in std::mem::take(&mut self.models) {
                descriptions.entry(name).or_insert(own);
            }
            descriptions
        };
        self.name_generated_sources();
        let mut text = generate::generate(
            &self.kernels,
            &self.cuda,
            &self.opencl,
            &self.carried,
            &descriptions,
            &self.model_items,
        )?;
        if self.library.levels.is_some() && !self.kernels.is_empty() {
            text.push_str(&multiversion::question(session));
        }
        let path = session.out_dir.join("kernpack_library.rs");
        write_if_changed(&path, &text)
            .map_err(|e| Error::new(format!("{}: cannot be written: {e}", path.display())))?;
        self.lines.rustc_env("KERNPACK_LIBRARY_RS", &path);
        self.outputs.push(Output::new("rust", &path));
        Ok(())
    }

    /// Names generated sources relative to `OUT_DIR`: the library must not depend on the folder
    /// that contains them.
    fn name_generated_sources(&mut self) {
        let folder = format!("{}/", self.session.name_of(&self.session.out_dir));
        let host = self.kernels.iter_mut().map(|kernel| &mut kernel.source);
        let cuda = self.cuda.images.iter_mut().map(|image| &mut image.source);
        let skipped = self.cuda.skipped.iter_mut().flat_map(|skipped| &mut skipped.kernels);
        let skipped = skipped.map(|kernel| &mut kernel.source);
        let opencl = self.opencl.iter_mut().map(|image| &mut image.source);
        let models = self.model_items.iter_mut().map(|model| &mut model.source);
        for source in host.chain(cuda).chain(skipped).chain(opencl).chain(models) {
            if let Some(rest) = source.strip_prefix(&folder) {
                *source = format!("OUT_DIR/{rest}");
            }
        }
    }

    /// Writes the lists of outputs for people and their editors.
    fn list_outputs(&mut self) -> Result<()> {
        let commands = compile_commands::write(self.session, self.library.compile_commands.as_deref())?;
        self.outputs.push(Output::new("compile_commands", &commands));
        outputs::write(self.session, &self.outputs)
    }
}

/// The source files of the kernels.
fn sources(library: &Library) -> Sources {
    #[cfg(feature = "llvm")]
    let llvm = library.llvm.iter().filter_map(|input| match input {
        LlvmInput::File(path) => Some(path),
        LlvmInput::Builder(..) => None,
    });
    #[cfg(not(feature = "llvm"))]
    let llvm = &library.llvm;
    let host = library.c.iter().chain(llvm).cloned().collect();
    let cuda = library.cuda.inputs.iter().map(|input| input.path.clone()).collect();
    Sources { host, cuda, opencl: library.opencl.clone() }
}

#[cfg(feature = "llvm")]
use crate::llvm::compile as compile_llvm;

#[cfg(not(feature = "llvm"))]
fn compile_llvm(session: &Session, inputs: Vec<PathBuf>, versions: &[Version]) -> Result<Vec<Vec<Compiled>>> {
    let problems = inputs.iter().map(|path| {
        Err::<(), _>(Error::new(format!(
            "{}: kernpack-build was built without its feature `llvm`, so it cannot compile LLVM IR",
            session.name_of(path)
        )))
    });
    Error::collect(problems).map(|_| vec![Vec::new(); versions.len()])
}

/// Returns the result of a thread, and resumes its panic.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns true if the manifest declares a shared library. Cargo warns about options for one that
/// is not built.
fn makes_cdylib(session: &Session) -> bool {
    let manifest = Path::new("Cargo.toml");
    let text = fs::read_to_string(session.package_dir.join(manifest)).unwrap_or_default();
    if !text.contains("cdylib") {
        session.tracker.file(manifest);
        return false;
    }
    true
}

/// Returns true if a sanitizer is on. Only the program has the functions of a sanitizer.
fn is_sanitized(session: &Session) -> bool {
    ["CARGO_ENCODED_RUSTFLAGS", "CFLAGS", "CXXFLAGS"]
        .into_iter()
        .any(|name| session.environment.cargo_optional(name).is_some_and(|flags| flags.contains("sanitize")))
}

/// Writes a file, unless it already has this text.
fn write_if_changed(path: &Path, text: &str) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == text.as_bytes()) { Ok(()) } else { fs::write(path, text) }
}
