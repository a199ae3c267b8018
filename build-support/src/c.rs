use std::path::{Path, PathBuf};
use std::process::Command;

use crate::session::Session;
use crate::symbols::Compiled;
use crate::{Error, Result, tool};

/// What a compiler wrote: the object, and what it warned about.
struct Product {
    compiled: Compiled,
    depfile: PathBuf,
    warnings: String,
}

/// A command ready to run for one input.
struct Job {
    command: Command,
    tool: &'static str,
    compiled: Compiled,
    depfile: PathBuf,
}

/// The objects of all C and C++ inputs.
pub(crate) struct CObjects {
    pub(crate) objects: Vec<Compiled>,
    /// The C++ runtime library to link, when there is C++.
    pub(crate) cpp_runtime: Option<String>,
    pub(crate) warnings: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cpp,
}

/// Compiles every input, even when one fails.
pub(crate) fn compile(session: &Session, paths: &[PathBuf], flags: &[String]) -> Result<CObjects> {
    if paths.is_empty() {
        return Ok(CObjects { objects: Vec::new(), cpp_runtime: None, warnings: String::new() });
    }
    track_variables(session);
    let has_cpp = paths.iter().any(|path| language(path) == Some(Language::Cpp));
    let jobs = paths.iter().enumerate().map(|(index, path)| job(session, index, path, flags)).collect();
    let products = tool::in_parallel(session.jobs, jobs, |job: Result<Job>| {
        let Job { command, tool, compiled, depfile } = job?;
        let warnings = tool::run(command, tool, &compiled.source)?;
        Ok(Product { compiled, depfile, warnings })
    });
    let products = Error::collect(products)?;
    let mut objects = CObjects { objects: Vec::new(), cpp_runtime: None, warnings: String::new() };
    for product in products {
        session.tracker.dependencies(&product.depfile)?;
        objects.warnings.push_str(&product.warnings);
        objects.objects.push(product.compiled);
    }
    if has_cpp {
        objects.cpp_runtime = cpp_runtime(session)?;
    }
    Ok(objects)
}

fn language(path: &Path) -> Option<Language> {
    match path.extension()?.to_str()? {
        "c" => Some(Language::C),
        "cc" | "cpp" | "cxx" | "c++" | "C" => Some(Language::Cpp),
        _ => None,
    }
}

fn job(session: &Session, index: usize, path: &Path, flags: &[String]) -> Result<Job> {
    let source = session.name_of(path);
    session.input(path)?;
    let Some(language) = language(path) else {
        return Err(Error::new(format!(
            "{source}: not the name of a C or C++ file (.c, .cc, .cpp, .cxx, .c++, .C); .llvm_ir(..) takes LLVM IR, .cuda(..) takes CUDA"
        )));
    };
    let mut build = compiler(session, language);
    for flag in session.target.c_flags().iter().chain(flags) {
        build.flag(flag);
    }
    let compiler = build.try_get_compiler().map_err(|e| Error::new(format!("{source}: no C compiler: {e}")))?;
    if compiler.is_like_msvc() {
        return Err(Error::new(format!(
            "{source}: {} is a compiler of the MSVC family, which kernpack-build does not drive; set CC to GCC or Clang",
            compiler.path().display()
        )));
    }
    let object = session.product("c", index, path, "o");
    let depfile = session.product("c", index, path, "d");
    let mut command = compiler.to_command();
    command.current_dir(&session.package_dir);
    command.args(session.preprocessor_flags());
    command.args(["-MD", "-MT", "kernel", "-MF"]).arg(&depfile);
    command.arg("-c").arg(path).arg("-o").arg(&object);
    let tool = if language == Language::Cpp { "the C++ compiler" } else { "the C compiler" };
    Ok(Job { command, tool, compiled: Compiled { source, object }, depfile })
}

/// The compiler of the cc crate: `CC` and `CFLAGS` or their relatives for the target, PIC, -O3.
fn compiler(session: &Session, language: Language) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .cargo_metadata(false)
        .target(&session.target.triple)
        .host(&session.target.host)
        .out_dir(&session.work_dir)
        .cpp(language == Language::Cpp)
        .opt_level(3)
        .pic(true)
        .warnings(true)
        .extra_warnings(false)
        // What rustc was told reaches C through cc, unless `.cpu()` says otherwise.
        .inherit_rustflags(!session.target.cpu_is_override);
    build
}

fn track_variables(session: &Session) {
    let triple = &session.target.triple;
    let underscored = triple.replace(['-', '.'], "_");
    for name in ["CC", "CXX", "CFLAGS", "CXXFLAGS", "AR", "ARFLAGS"] {
        let kind = if session.target.triple == session.target.host { "HOST" } else { "TARGET" };
        for variable in
            [name.to_owned(), format!("{kind}_{name}"), format!("{name}_{triple}"), format!("{name}_{underscored}")]
        {
            session.environment.track(&variable);
        }
    }
    for name in ["CRATE_CC_NO_DEFAULTS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "SDKROOT", "CROSS_COMPILE"] {
        session.environment.track(name);
    }
}

/// `CXXSTDLIB`, else the platform's. An empty `CXXSTDLIB` links none.
fn cpp_runtime(session: &Session) -> Result<Option<String>> {
    session.environment.track("CXXSTDLIB");
    if let Some(name) = session.environment.cargo_optional("CXXSTDLIB") {
        return Ok(Some(name).filter(|name| !name.is_empty()));
    }
    let name = match session.target.os.as_str() {
        "macos" | "ios" | "tvos" | "watchos" | "visionos" | "freebsd" | "openbsd" => "c++",
        "android" => "c++_shared",
        _ => "stdc++",
    };
    Ok(Some(name.to_owned()))
}

/// Puts objects into `lib<name>.a` in `out_dir`.
pub(crate) fn archive(session: &Session, name: &str, objects: &[PathBuf]) -> Result<()> {
    let mut build = compiler(session, Language::C);
    build.out_dir(&session.out_dir);
    let archive = build.try_create_archive(name, objects);
    archive.map(drop).map_err(|e| Error::new(format!("lib{name}.a: the archiver failed: {e}")))
}
