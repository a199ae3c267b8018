mod constructors;
mod diagnostics;
mod machine;
#[cfg(feature = "modules")]
pub(crate) mod module;
pub(crate) mod packer;

use std::panic::Location;
use std::path::{Path, PathBuf};

use inkwell::attributes::AttributeLoc;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{FileType, TargetMachine, TargetTriple};
// Without this import, rustc drops the flags that link LLVM.
use kernpack_llvm_link as _;

use crate::cache::Input;
use crate::cache::step::{Ran, Step};
use crate::describe::symbols::{Compiled, PREFIX};
use crate::multiversion::{Version, results};
use crate::session::Session;
use crate::{Error, Result, tool};
pub(crate) use diagnostics::{Diagnostics, in_context};
pub(crate) use machine::Machine;
pub(crate) use machine::{machine, version};

/// A closure that adds the functions of a module.
pub(crate) type ModuleBuilder = Box<dyn for<'ctx> FnOnce(&'ctx Context, &Module<'ctx>) -> Result<()>>;

/// The origin of LLVM IR.
pub(crate) enum LlvmInput {
    /// A file of text or bitcode.
    File(PathBuf),
    /// A closure of the build script, and its location there.
    Builder(ModuleBuilder, &'static Location<'static>),
}

/// The type of a packed function, as LLVM prints it.
const PACKED_TYPE: &str = "i32 (ptr, ptr, i32, ptr)";

/// The pipeline of optimizations.
const PASSES: &str = "default<O3>";

/// Optimizes and compiles every version of every input, even if one fails. The objects are grouped
/// by version, in the order of the inputs.
pub(crate) fn compile(session: &Session, inputs: Vec<LlvmInput>, versions: &[Version]) -> Result<Vec<Vec<Compiled>>> {
    if inputs.is_empty() {
        return Ok(vec![Vec::new(); versions.len()]);
    }
    let machines = Error::collect(versions.iter().map(|version| Machine::of(&session.target, *version)))?;
    let mut sources = Vec::new();
    let mut files = Vec::new();
    let mut builders = Vec::new();
    for (index, input) in inputs.into_iter().enumerate() {
        match input {
            LlvmInput::File(path) => {
                sources.push(session.name_of(&path));
                files.push((index, path));
            }
            LlvmInput::Builder(build, location) => {
                sources.push(format!("{}:{}", location.file(), location.line()));
                builders.push((index, build));
            }
        }
    }
    let mut rows: Vec<Vec<Result<Compiled>>> = sources.iter().map(|_| Vec::new()).collect();
    let jobs: Vec<_> = files.iter().flat_map(|file| machines.iter().map(move |machine| (file, machine))).collect();
    let places: Vec<usize> = jobs.iter().map(|((index, _), _)| *index).collect();
    let compiled = tool::in_parallel(session.jobs, jobs, |((index, path), machine): (&(usize, PathBuf), &Machine)| {
        file(session, machine, *index, path)
    });
    for (index, compiled) in places.into_iter().zip(compiled) {
        rows[index].push(compiled);
    }
    // Closures of the build script stay on their thread.
    for (index, build) in builders {
        rows[index] = built(session, &machines, index, build, &sources[index]);
    }
    results::by_version(versions, &sources, rows)
}

fn file(session: &Session, machine: &Machine, index: usize, path: &Path) -> Result<Compiled> {
    let source = session.name_of(path);
    session.input(path)?;
    let object = machine.version.product(session, "llvm", index, path, "o");
    let mut recipe = machine.recipe(session);
    recipe.field(&source);
    let products = [object.clone()];
    let shown = machine.version.source(&source);
    let step = Step { recipe: recipe.finish(), source: &shown, tool: "LLVM", products: &products };
    step.make(session, || {
        let bytes = std::fs::read(session.package_dir.join(path))
            .map_err(|e| Error::new(format!("{source}: cannot be read: {e}")))?;
        let buffer = MemoryBuffer::create_from_memory_range_copy(&bytes, &source);
        in_context(|context, diagnostics| {
            let module = context.create_module_from_ir(buffer).map_err(|e| {
                Error::new(format!("{source}: LLVM cannot read it\n{}", tool::indented(&e.to_string())))
            })?;
            let target_machine = machine.create()?;
            prepare(&module, &target_machine, &session.target.triple, &source)?;
            make_version(context, &module, machine);
            emit(&module, &target_machine, diagnostics, &source, &object)
        })?;
        let inputs = vec![Input { path: path.to_owned(), exists: true }];
        Ok(Ran { printed: String::new(), inputs })
    })?;
    Ok(Compiled { source, object })
}

/// Returns the versions of a module that a closure of the build script creates. The closure runs
/// once in every build. LLVM's output is cached.
fn built(
    session: &Session,
    machines: &[Machine],
    index: usize,
    build: ModuleBuilder,
    source: &str,
) -> Vec<Result<Compiled>> {
    in_context(|context, diagnostics| {
        let module = context.create_module(source);
        let built = || {
            // Every version has the same triple and data layout.
            let baseline = machines[0].create()?;
            prepare(&module, &baseline, &session.target.triple, source)?;
            build(context, &module).map_err(|e| e.within(source))?;
            // Bitcode and a copy require a valid module.
            module.verify().map_err(|e| rejected(source, &e.to_string()))
        };
        if let Err(error) = built() {
            return vec![Err(error)];
        }
        let version = |machine: &Machine| {
            let module = module.clone();
            let object = machine.version.product(session, "llvm", index, Path::new("closure"), "o");
            let target_machine = machine.create()?;
            make_version(context, &module, machine);
            let mut recipe = machine.recipe(session);
            recipe.field(module.write_bitcode_to_memory().as_slice());
            let products = [object.clone()];
            let shown = machine.version.source(source);
            let step = Step { recipe: recipe.finish(), source: &shown, tool: "LLVM", products: &products };
            step.make(session, || {
                emit(&module, &target_machine, diagnostics, source, &object)?;
                Ok(Ran { printed: String::new(), inputs: Vec::new() })
            })?;
            Ok(Compiled { source: source.to_owned(), object })
        };
        machines.iter().map(version).collect()
    })
}

/// Sets the CPU and features of functions that specify their own, like those from Clang, to those
/// of the version, and keeps their additional features. The other functions use those of the
/// machine.
fn make_version(context: &Context, module: &Module<'_>, machine: &Machine) {
    let features = machine.version.llvm_features();
    for function in module.get_functions().filter(|_| !features.is_empty()) {
        let text = |kind: &str| {
            let attribute = function.get_string_attribute(AttributeLoc::Function, kind)?;
            Some(attribute.get_string_value().to_string_lossy().into_owned())
        };
        let set = |kind: &str, value: &str| {
            function.add_attribute(AttributeLoc::Function, context.create_string_attribute(kind, value));
        };
        let (own, cpu) = (text("target-features"), text("target-cpu"));
        if own.is_none() && cpu.is_none() {
            continue;
        }
        let all = [own.unwrap_or_default(), features.clone()];
        set("target-features", &all.into_iter().filter(|list| !list.is_empty()).collect::<Vec<_>>().join(","));
        // The name of a specific CPU is kept, because it is more precise than a level.
        if cpu.is_some_and(|cpu| cpu == "generic" || cpu.starts_with("x86-64")) {
            set("target-cpu", &machine.cpu);
        }
    }
}

/// Sets the target of the module. A module for another architecture is an error.
pub(crate) fn prepare(module: &Module<'_>, machine: &TargetMachine, target: &str, source: &str) -> Result<()> {
    let theirs = module.get_triple();
    let theirs = theirs.as_str().to_string_lossy();
    let ours = machine.get_triple();
    let normal =
        |triple: &TargetTriple| TargetMachine::normalize_triple(triple).as_str().to_string_lossy().into_owned();
    let arch = |triple: &str| triple.split('-').next().unwrap_or_default().to_owned();
    let (their_arch, our_arch) = (arch(&normal(&TargetTriple::create(&theirs))), arch(&normal(&ours)));
    if !theirs.is_empty() && their_arch != "unknown" && their_arch != our_arch {
        return Err(Error::new(format!(
            "{source}: is for {theirs}, but the target is {target}; leave `target triple` and `target datalayout` out"
        )));
    }
    module.set_triple(&ours);
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    Ok(())
}

/// Verifies and optimizes the module, and writes the object.
pub(crate) fn emit(
    module: &Module<'_>,
    machine: &TargetMachine,
    diagnostics: &Diagnostics,
    source: &str,
    object: &Path,
) -> Result<()> {
    emit_by(PASSES, module, machine, diagnostics, source, object)
}

/// Like `emit`, with another optimization pipeline.
pub(crate) fn emit_by(
    passes: &str,
    module: &Module<'_>,
    machine: &TargetMachine,
    diagnostics: &Diagnostics,
    source: &str,
    object: &Path,
) -> Result<()> {
    optimize(passes, module, machine, source)?;
    write(module, machine, FileType::Object, diagnostics, source, object)?;
    constructors::use_arrays(object, source)
}

/// Verifies and optimizes a module of CPU kernels.
fn optimize(passes: &str, module: &Module<'_>, machine: &TargetMachine, source: &str) -> Result<()> {
    module.verify().map_err(|e| rejected(source, &e.to_string()))?;
    check_signatures(module, source)?;
    run_passes_of(passes, module, machine, source)
}

/// Runs the optimization passes.
pub(crate) fn run_passes(module: &Module<'_>, machine: &TargetMachine, source: &str) -> Result<()> {
    run_passes_of(PASSES, module, machine, source)
}

fn run_passes_of(passes: &str, module: &Module<'_>, machine: &TargetMachine, source: &str) -> Result<()> {
    let options = PassBuilderOptions::create();
    options.set_loop_vectorization(true);
    options.set_loop_slp_vectorization(true);
    options.set_loop_interleaving(true);
    options.set_loop_unrolling(true);
    module
        .run_passes(passes, machine, options)
        .map_err(|e| Error::new(format!("{source}: LLVM cannot optimize it\n{}", tool::indented(&e.to_string()))))
}

/// Writes the object or assembly code.
pub(crate) fn write(
    module: &Module<'_>,
    machine: &TargetMachine,
    kind: FileType,
    diagnostics: &Diagnostics,
    source: &str,
    file: &Path,
) -> Result<()> {
    machine
        .write_to_file(module, kind, file)
        .map_err(|e| Error::new(format!("{source}: LLVM cannot compile it\n{}", tool::indented(&e.to_string()))))?;
    diagnostics.check(source)
}

/// The error for an invalid module.
pub(crate) fn rejected(source: &str, message: &str) -> Error {
    Error::new(format!("{source}: LLVM's verifier rejects it\n{}", tool::indented(message)))
}

/// Checks that kernels have the packed calling convention. A function of another type would be
/// called with wrong arguments.
fn check_signatures(module: &Module<'_>, source: &str) -> Result<()> {
    let kernels = module.get_functions().filter(|function| function.count_basic_blocks() > 0);
    for function in kernels {
        let name = function.get_name().to_string_lossy();
        let Some(kernel) = name.strip_prefix(PREFIX) else { continue };
        // Compared as text, because inkwell does not support kinds of types that LLVM 22 does not
        // have.
        let ty = function.get_type().print_to_string().to_string();
        if ty != PACKED_TYPE {
            return Err(Error::new(format!(
                "{source}: kernel `{kernel}` has the type `{ty}`; the packed calling convention is `{PACKED_TYPE}`: \
                 self, arguments, their number, result"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use object::{Architecture, Object as _};

    use super::*;
    use crate::cargo::environment::Environment;
    use crate::multiversion::level::Level;

    /// Compiles one module for a target, independent of this machine.
    fn compile_for(triple: &str, arch: &str, name: &str, ir: &str) -> Result<Vec<u8>> {
        let mut versions = compile_versions(triple, arch, "x86_64-unknown-linux-gnu", name, ir, &[Version::BASELINE])?;
        Ok(versions.remove(0))
    }

    /// Returns the objects of all versions, where `host` is the build machine.
    fn compile_versions(
        triple: &str,
        arch: &str,
        host: &str,
        name: &str,
        ir: &str,
        versions: &[Version],
    ) -> Result<Vec<Vec<u8>>> {
        let folder = std::env::temp_dir().join(format!("kernpack-llvm-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("k.ll"), ir).unwrap();
        let dir = folder.to_str().unwrap();
        let environment = Environment::fake(&[
            ("CARGO_MANIFEST_DIR", dir),
            ("OUT_DIR", dir),
            ("CARGO_PKG_NAME", name),
            ("TARGET", triple),
            ("HOST", host),
            ("CARGO_CFG_TARGET_ARCH", arch),
            ("CARGO_CFG_TARGET_OS", "linux"),
        ]);
        let session = Session::new(environment, None)?;
        let compiled = compile(&session, vec![LlvmInput::File("k.ll".into())], versions);
        let objects =
            compiled.map(|compiled| compiled.iter().map(|one| std::fs::read(&one[0].object).unwrap()).collect());
        std::fs::remove_dir_all(&folder).unwrap();
        objects
    }

    const KERNEL: &str = "define i32 @__tvm_ffi_k(ptr %a, ptr %b, i32 %n, ptr %r) {\n  ret i32 0\n}\n";

    #[test]
    fn objects_are_for_the_target() {
        let rows = [
            ("x86_64-unknown-linux-gnu", "x86_64", Architecture::X86_64),
            ("i686-unknown-linux-gnu", "x86", Architecture::I386),
            ("aarch64-unknown-linux-gnu", "aarch64", Architecture::Aarch64),
        ];
        for (triple, arch, expected) in rows {
            // The layout in the text is replaced.
            let ir = format!("target datalayout = \"e-m:e-i64:64-n32:64\"\n{KERNEL}");
            let object = compile_for(triple, arch, arch, &ir).unwrap();
            assert_eq!(object::File::parse(object.as_slice()).unwrap().architecture(), expected);
        }
    }

    /// A loop that is vectorized with the features of the CPU.
    const LOOP: &str = "define i32 @__tvm_ffi_k(ptr %a, ptr %b, i32 %n, ptr %r) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr float, ptr %b, i64 %i
  %to = getelementptr float, ptr %r, i64 %i
  %x = load float, ptr %from
  %y = fmul float %x, 3.0
  store float %y, ptr %to
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, 1024
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}";

    #[test]
    fn the_machine_that_builds_leaves_no_trace() {
        let versions = [None, Some(Level::V2), Some(Level::V3), Some(Level::V4)].map(|level| Version { level });
        let linux = "x86_64-unknown-linux-gnu";
        let build = |host: &str| compile_versions(linux, "x86_64", host, "leak", LOOP, &versions).unwrap();
        let here = build(linux);
        assert_eq!(here, build("aarch64-unknown-linux-gnu"), "a cross build makes the same");
        assert_ne!(here[0], here[2]);
    }

    #[test]
    fn other_targets_are_an_error() {
        let error = compile_for("s390x-unknown-linux-gnu", "s390x", "other", KERNEL).unwrap_err();
        assert_eq!(
            error.to_string(),
            "LLVM kernels can be compiled for x86, x86_64 and aarch64, not for s390x (s390x-unknown-linux-gnu)"
        );
    }
}
