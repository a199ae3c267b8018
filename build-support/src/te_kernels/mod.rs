//! Kernels from tensor expressions: scheduled for each CPU level and device, lowered, and compiled
//! by LLVM; the kernels of devices are source.

mod device;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kernpack_compiler::codegen::llvm::DEBUG_FILE;
use kernpack_compiler::codegen::{self, RuntimeSymbols, Target};
use kernpack_compiler::ir::{DataTypeExt, IrModule};
use kernpack_compiler::pass::versions::with_versions;
use kernpack_compiler::{CompileError, Kernel, KernelParamKind, PassContext, PassOptions, TargetDescription, text};

use crate::cache::step::{Ran, Step};
use crate::describe::Description;
use crate::describe::signature::{ELEMENTS, Param, Signature, Type};
use crate::describe::symbols::Compiled;
use crate::llvm::{self, Machine};
use crate::multiversion::{Version, results};
use crate::opencl::OpenClImage;
use crate::outputs::Output;
use crate::session::Session;
use crate::{Error, Result, tool};

/// The result of building the kernels of a library, except the objects.
#[derive(Default)]
pub(crate) struct TeOutcome {
    /// Dumps and notes, for people.
    pub(crate) outputs: Vec<Output>,
    /// The warnings for cargo.
    pub(crate) warnings: String,
    /// Objects of the functions that launch kernels on devices.
    pub(crate) shared: Vec<PathBuf>,
    /// The kernels for OpenCL.
    pub(crate) opencl: Vec<OpenClImage>,
}

impl TeOutcome {
    fn extend(&mut self, other: Self) {
        self.outputs.extend(other.outputs);
        self.warnings.push_str(&other.warnings);
        self.shared.extend(other.shared);
        self.opencl.extend(other.opencl);
    }
}

/// The name of a kernel's source in messages: its place in the build script.
pub(crate) fn source_of(kernel: &Kernel) -> String {
    let place = kernel.place();
    let line = place.rsplit_once(':').map_or(place, |(line, _)| line);
    format!("{line} (te `{}`)", kernel.name())
}

/// Compiles every version of every kernel. Errors of one kernel do not hide those of others. The
/// objects are grouped by version, in the order of the kernels. `devices` is the argument of
/// `.devices()`, if it was called.
pub(crate) fn compile(
    session: &Session,
    kernels: &[Result<Kernel, CompileError>],
    versions: &[Version],
    devices: Option<&[String]>,
    dump: bool,
) -> Result<(Vec<Vec<Compiled>>, TeOutcome)> {
    device::check(devices, kernels.is_empty())?;
    if kernels.is_empty() {
        return Ok((vec![Vec::new(); versions.len()], TeOutcome::default()));
    }
    let machines = Error::collect(versions.iter().map(|version| Machine::of(&session.target, *version)))?;
    let sources: Vec<String> =
        kernels.iter().map(|kernel| kernel.as_ref().map(source_of).unwrap_or_default()).collect();
    // A kernel that was not created has one error for all versions. The others are compiled, to
    // report their errors.
    let mut rows: Vec<Vec<Result<Compiled>>> = kernels
        .iter()
        .map(|kernel| kernel.as_ref().err().map(|error| Err(problems(error))).into_iter().collect())
        .collect();
    let good = kernels.iter().enumerate().filter_map(|(index, kernel)| Some((index, kernel.as_ref().ok()?)));
    let jobs: Vec<(usize, &Kernel, &Machine)> =
        good.flat_map(|(index, kernel)| machines.iter().map(move |machine| (index, kernel, machine))).collect();
    let places: Vec<usize> = jobs.iter().map(|(index, ..)| *index).collect();
    let done = tool::in_parallel(session.jobs, jobs, |(index, kernel, machine): (usize, &Kernel, &Machine)| {
        one(session, machine, index, kernel, &sources[index], devices, dump)
    });
    let mut outcome = TeOutcome::default();
    for (index, done) in places.into_iter().zip(done) {
        rows[index].push(done.map(|(compiled, said)| {
            outcome.extend(said);
            compiled
        }));
    }
    let compiled = results::by_version(versions, &sources, rows);
    let baseline = device::Build { session, machine: &machines[0], devices, dump };
    let of_devices = baseline.compile(kernels, &sources, compiled.as_ref().err());
    let (compiled, of_devices) = Error::both(compiled, of_devices)?;
    outcome.extend(of_devices);
    Ok((compiled, outcome))
}

/// Converts all errors to problems of a build.
fn problems(error: &CompileError) -> Error {
    Error::of_problems(error.problems())
}

/// Lowers a kernel to a module for a machine.
fn lowered(
    kernel: &Kernel,
    target: &Target,
    devices: &[String],
    context: &PassContext,
) -> Result<IrModule, CompileError> {
    let function = kernel.lower(&TargetDescription::of(target), context)?;
    let is_alone = devices.len() < 2;
    Ok(IrModule::new([if is_alone { function } else { with_versions(&function, devices) }]))
}

/// The way in which the code calls the runtime: through symbols that the linker finds in it, if the
/// runtime has them. This also works in programs, to which no loader passes anything.
pub(crate) fn runtime_of(triple: &str) -> RuntimeSymbols {
    let has_symbols = triple.contains("-linux") && ["x86_64", "aarch64"].iter().any(|arch| triple.starts_with(arch));
    if has_symbols { RuntimeSymbols::Prefixed("__kernpack_host_".to_owned()) } else { RuntimeSymbols::Context }
}

fn one(
    session: &Session,
    machine: &Machine,
    index: usize,
    kernel: &Kernel,
    source: &str,
    devices: Option<&[String]>,
    dump: bool,
) -> Result<(Compiled, TeOutcome)> {
    let target = target_of(session, machine);
    let context = PassContext::new(PassOptions { verify: dump, dump, ..PassOptions::default() });
    let devices = device::of_kernel(kernel, devices);
    let lowered = lowered(kernel, &target, &devices, &context);
    let version = machine.version;
    let shown = version.source(source);
    let mut outcome = TeOutcome::default();
    let of = Of { session, kernel, source, shown: &shown, label: version.to_string() };
    let module = keep_output_of(lowered, &context, &of, &mut outcome)?;
    let object = version.product(session, "te", index, Path::new(kernel.name()), "o");
    let code = Code { session, machine, target: &target, source, shown: &shown, name: kernel.name() };
    outcome.outputs.extend(code.compile(module, &object)?);
    Ok((Compiled { source: source.to_owned(), object }, outcome))
}

/// The target of the code generator.
fn target_of(session: &Session, machine: &Machine) -> Target {
    // Line tables as in the profile.
    let debug = session.environment.cargo_optional("DEBUG").is_some_and(|debug| debug != "false");
    let runtime = runtime_of(&machine.triple);
    Target { debug, runtime, ..Target::llvm(&machine.triple, &machine.cpu, &machine.features) }
}

/// A version of a kernel, for its files.
struct Of<'a> {
    session: &'a Session,
    kernel: &'a Kernel,
    source: &'a str,
    /// The source with the version, for messages.
    shown: &'a str,
    /// The version as the beginning of file names.
    label: String,
}

/// Keeps the warnings, dumps and notes of lowering, and returns its result. They are kept after an
/// error, too: the last dump is the input of the pass that failed.
fn keep_output_of<T>(
    lowered: Result<T, CompileError>,
    context: &PassContext,
    of: &Of<'_>,
    outcome: &mut TeOutcome,
) -> Result<T> {
    for warning in context.take_warnings() {
        let _ = writeln!(outcome.warnings, "{}: {warning}", of.shown);
    }
    let (name, label) = (of.kernel.name(), &of.label);
    let folder = of.session.work_dir.join(name);
    let dumps = context.take_dumps();
    let has_dumps = !dumps.is_empty();
    for (number, (pass, text)) in dumps.into_iter().enumerate() {
        let path = folder.join(format!("{label}.{number:02}_{pass}.kir"));
        keep(&path, &text)?;
        outcome.outputs.push(Output::of("kir", &path, of.source, [name]));
    }
    let notes = context.take_notes();
    if !notes.is_empty() {
        let path = folder.join(format!("{label}.notes.txt"));
        keep(&path, &(notes.join("\n") + "\n"))?;
        outcome.outputs.push(Output::of("notes", &path, of.source, [name]));
    }
    lowered.map_err(|error| match has_dumps {
        true => problems(&error.note(format!("the programs before the error are in {}", folder.display()))),
        false => problems(&error),
    })
}

/// The compilation of a lowered kernel to an object.
struct Code<'a> {
    session: &'a Session,
    machine: &'a Machine,
    target: &'a Target,
    source: &'a str,
    /// The source with the version, for messages.
    shown: &'a str,
    /// The name of the kernel.
    name: &'a str,
}

impl Code<'_> {
    /// Makes the object. Returns the other outputs.
    fn compile(&self, mut module: IrModule, object: &Path) -> Result<Vec<Output>> {
        let Self { session, machine, target, source, shown, name } = *self;
        let passes = codegen::llvm::passes(&module);
        let mut recipe = machine.recipe(session);
        recipe.field(codegen::llvm::VERSION).field(passes).field(text::print(&module));
        recipe.field(format!("{:?}", target.runtime));
        let mut products: Vec<PathBuf> = vec![object.to_owned()];
        let mut outputs = Vec::new();
        let listing = object.with_extension("kir");
        if target.debug {
            let path = listing.to_string_lossy();
            recipe.field(&*path);
            module = module.with_attr(DEBUG_FILE, &*path);
            products.push(listing.clone());
            outputs.push(Output::of("kir", &listing, source, [name]));
        }
        let step = Step { recipe: recipe.finish(), source: shown, tool: "LLVM", products: &products };
        step.make(session, || {
            llvm::in_context(|llvm_context, diagnostics| {
                let llvm_module = llvm_context.create_module(name);
                let target_machine = machine.create()?;
                llvm::prepare(&llvm_module, &target_machine, &session.target.triple, source)?;
                let text = codegen::llvm::emit_into(&module, target, llvm_context, &llvm_module)
                    .map_err(|error| problems(&error))?;
                if let Some(text) = text {
                    keep(&listing, &text)?;
                }
                llvm::emit_by(passes, &llvm_module, &target_machine, diagnostics, source, object)
            })?;
            Ok(Ran { printed: String::new(), inputs: Vec::new() })
        })?;
        Ok(outputs)
    }
}

/// Writes a file for people, and its folder.
pub(crate) fn keep(path: &Path, text: &str) -> Result<()> {
    let write = || -> std::io::Result<()> {
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(path, text)
    };
    write().map_err(|e| Error::new(format!("{}: cannot be written: {e}", path.display())))
}

/// Returns the complete description of a kernel's arguments. `devices` is the argument of
/// `.devices()`.
pub(crate) fn description(kernel: &Kernel, devices: Option<&[String]>) -> Description {
    let params = kernel.params().iter().map(|param| {
        let element =
            |dtype: kernpack_compiler::ir::DataType| ELEMENTS.into_iter().find(|name| *name == dtype.to_string());
        let ty = match &param.kind {
            KernelParamKind::Input(tensor) => Type::Tensor { element: element(tensor.dtype), written: false },
            KernelParamKind::Output(tensor) => Type::Tensor { element: element(tensor.dtype), written: true },
            KernelParamKind::Scalar(var) => match var.dtype() {
                dtype if dtype.is_bool() => Type::Bool,
                dtype if dtype.is_float() => Type::Float { bits: dtype.bits() },
                dtype => Type::Int { bits: dtype.bits(), signed: dtype.is_int() },
            },
        };
        Param { name: param.name.clone(), ty }
    });
    let signature = Signature { params: params.collect(), result: Type::None };
    let mut doc = kernel.documentation().to_owned();
    let shapes: Vec<String> = kernel
        .params()
        .iter()
        .filter_map(|param| match &param.kind {
            KernelParamKind::Input(tensor) | KernelParamKind::Output(tensor) => {
                let extents: Vec<String> = tensor.shape.iter().map(|extent| text::print(&extent)).collect();
                Some(format!("`{}[{}]`", param.name, extents.join(", ")))
            }
            KernelParamKind::Scalar(_) => None,
        })
        .collect();
    if !doc.is_empty() {
        doc.push_str("\n\n");
    }
    let _ = write!(doc, "Shapes: {}.", shapes.join(", "));
    let devices = device::of_kernel(kernel, devices);
    if devices.len() > 1 {
        let _ = write!(doc, " Runs on the device of the tensors: {}.", devices.join(" or "));
    }
    Description { doc, signature: Ok(signature), declared: true }
}
