//! Kernels from tensor expressions: scheduled for each CPU level, lowered, and compiled by LLVM.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kernpack_compiler::codegen::llvm::DEBUG_FILE;
use kernpack_compiler::codegen::{self, RuntimeSymbols, Target};
use kernpack_compiler::ir::{DataTypeExt, IrModule};
use kernpack_compiler::{CompileError, Kernel, KernelParamKind, PassContext, PassOptions, TargetDescription, text};

use crate::cache::step::{Ran, Step};
use crate::describe::Description;
use crate::describe::signature::{ELEMENTS, Param, Signature, Type};
use crate::describe::symbols::Compiled;
use crate::llvm::{self, Machine};
use crate::multiversion::{Version, results};
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
}

/// The name of a kernel's source in messages: its place in the build script.
pub(crate) fn source_of(kernel: &Kernel) -> String {
    let place = kernel.place();
    let line = place.rsplit_once(':').map_or(place, |(line, _)| line);
    format!("{line} (te `{}`)", kernel.name())
}

/// Compiles every version of every kernel. Errors of one kernel do not hide those of others. The
/// objects are grouped by version, in the order of the kernels.
pub(crate) fn compile(
    session: &Session,
    kernels: &[Result<Kernel, CompileError>],
    versions: &[Version],
    dump: bool,
) -> Result<(Vec<Vec<Compiled>>, TeOutcome)> {
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
        one(session, machine, index, kernel, &sources[index], dump)
    });
    let mut outcome = TeOutcome::default();
    for (index, done) in places.into_iter().zip(done) {
        rows[index].push(done.map(|(compiled, said)| {
            outcome.outputs.extend(said.outputs);
            outcome.warnings.push_str(&said.warnings);
            compiled
        }));
    }
    Ok((results::by_version(versions, &sources, rows)?, outcome))
}

/// Converts all errors to problems of a build.
fn problems(error: &CompileError) -> Error {
    Error::of_problems(error.problems())
}

/// Lowers a kernel to a module for a machine.
fn lowered(kernel: &Kernel, target: &Target, context: &PassContext) -> Result<IrModule, CompileError> {
    let description = TargetDescription::of(target);
    Ok(IrModule::new([kernel.lower(&description, context)?]))
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
    dump: bool,
) -> Result<(Compiled, TeOutcome)> {
    // Line tables as in the profile.
    let debug = session.environment.cargo_optional("DEBUG").is_some_and(|debug| debug != "false");
    let runtime = runtime_of(&machine.triple);
    let target = Target { debug, runtime, ..Target::llvm(&machine.triple, &machine.cpu, &machine.features) };
    let context = PassContext::new(PassOptions { verify: dump, dump, ..PassOptions::default() });
    let version = machine.version;
    let lowered = lowered(kernel, &target, &context);
    // Also after an error: the last dump is the input of the pass that failed.
    let folder = session.work_dir.join(kernel.name());
    let dumps: Vec<_> = context.take_dumps().into_iter().map(|(pass, text)| (pass.to_string(), text)).collect();
    let has_dumps = !dumps.is_empty();
    let texts = keep_texts(&folder, version, kernel, source, dumps, context.take_notes())?;
    let mut module = lowered.map_err(|error| match has_dumps {
        true => problems(&error.note(format!("the programs before the error are in {}", folder.display()))),
        false => problems(&error),
    })?;
    let printed = text::print(&module);
    let mut outcome = TeOutcome { outputs: texts, warnings: String::new() };
    for warning in context.take_warnings() {
        let _ = writeln!(outcome.warnings, "{}: {warning}", version.source(source));
    }
    let passes = codegen::llvm::passes(&module);
    let object = version.product(session, "te", index, Path::new(kernel.name()), "o");
    let mut recipe = machine.recipe(session);
    recipe.field(codegen::llvm::VERSION).field(passes).field(&printed);
    recipe.field(format!("{:?}", target.runtime));
    let mut products: Vec<PathBuf> = vec![object.clone()];
    let listing = object.with_extension("kir");
    if debug {
        let path = listing.to_string_lossy();
        recipe.field(&*path);
        module = module.with_attr(DEBUG_FILE, &*path);
        products.push(listing.clone());
        outcome.outputs.push(Output::of("kir", &listing, source, [kernel.name()]));
    }
    let shown = version.source(source);
    let step = Step { recipe: recipe.finish(), source: &shown, tool: "LLVM", products: &products };
    step.make(session, || {
        llvm::in_context(|llvm_context, diagnostics| {
            let llvm_module = llvm_context.create_module(kernel.name());
            let target_machine = machine.create()?;
            llvm::prepare(&llvm_module, &target_machine, &session.target.triple, source)?;
            let text = codegen::llvm::emit_into(&module, &target, llvm_context, &llvm_module)
                .map_err(|error| problems(&error))?;
            if let Some(text) = text {
                keep(&listing, &text)?;
            }
            llvm::emit_by(passes, &llvm_module, &target_machine, diagnostics, source, &object)
        })?;
        Ok(Ran { printed: String::new(), inputs: Vec::new() })
    })?;
    Ok((Compiled { source: source.to_owned(), object }, outcome))
}

/// Writes the dumps and notes of a kernel.
fn keep_texts(
    folder: &Path,
    version: Version,
    kernel: &Kernel,
    source: &str,
    dumps: Vec<(String, String)>,
    notes: Vec<String>,
) -> Result<Vec<Output>> {
    let dumps = dumps.into_iter().enumerate();
    let mut texts: Vec<(&str, String, String)> =
        dumps.map(|(number, (pass, text))| ("kir", format!("{version}.{number:02}_{pass}.kir"), text)).collect();
    if !notes.is_empty() {
        texts.push(("notes", format!("{version}.notes.txt"), notes.join("\n") + "\n"));
    }
    let kept = texts.into_iter().map(|(kind, name, text)| {
        let path = folder.join(name);
        keep(&path, &text)?;
        Ok(Output::of(kind, &path, source, [kernel.name()]))
    });
    kept.collect()
}

/// Writes a file for people, and its folder.
pub(crate) fn keep(path: &Path, text: &str) -> Result<()> {
    let write = || -> std::io::Result<()> {
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(path, text)
    };
    write().map_err(|e| Error::new(format!("{}: cannot be written: {e}", path.display())))
}

/// Returns the complete description of a kernel's arguments.
pub(crate) fn description(kernel: &Kernel) -> Description {
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
    Description { doc, signature: Ok(signature), declared: true }
}
