pub(crate) mod bridge;
mod c_types;
mod declaration;
mod native_flags;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::digest::{Digest, Digester};
use crate::cache::step::{self, Ran, Step};
use crate::cargo::track;
use crate::describe::symbols::Compiled;
use crate::multiversion::{Version, results};
use crate::session::Session;
use crate::tool::program::Program;
use crate::{Error, Result, tool};

/// The output of a compiler: the object and the warnings.
struct Product {
    compiled: Compiled,
    warnings: String,
}

/// A compiler that was found.
struct Compiler {
    tool: cc::Tool,
    program: Program,
    version: String,
}

/// The objects of all C and C++ inputs.
pub(crate) struct CObjects {
    /// By version, in the order of the inputs.
    pub(crate) objects: Vec<Vec<Compiled>>,
    /// The C++ runtime library to link, if there are C++ inputs.
    pub(crate) cpp_runtime: Option<String>,
    pub(crate) warnings: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cpp,
}

/// Variables that compilers read themselves.
const VARIABLES: [&str; 9] = [
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "CCC_OVERRIDE_OPTIONS",
    "MACOSX_DEPLOYMENT_TARGET",
    "SDKROOT",
    "SOURCE_DATE_EPOCH",
];

/// Compiles every version of every input, even if one fails.
pub(crate) fn compile(
    session: &Session,
    paths: &[PathBuf],
    flags: &[String],
    versions: &[Version],
) -> Result<CObjects> {
    let mut objects =
        CObjects { objects: vec![Vec::new(); versions.len()], cpp_runtime: None, warnings: String::new() };
    if paths.is_empty() {
        return Ok(objects);
    }
    track_variables(session);
    let has = |wanted: Language| paths.iter().any(|path| language(path) == Some(wanted));
    let is_one = versions.len() == 1;
    let c = has(Language::C).then(|| find(session, Language::C, flags, is_one));
    let cpp = has(Language::Cpp).then(|| find(session, Language::Cpp, flags, is_one));
    let inputs = paths.iter().enumerate();
    let jobs = inputs.flat_map(|input| versions.iter().map(move |version| (input, *version))).collect();
    let products = tool::in_parallel(session.jobs, jobs, |((index, path), version): ((usize, &PathBuf), Version)| {
        let source = session.name_of(path);
        session.input(path)?;
        let (language, compiler) = match (language(path), &c, &cpp) {
            (Some(Language::C), Some(compiler), _) => (Language::C, compiler),
            (Some(Language::Cpp), _, Some(compiler)) => (Language::Cpp, compiler),
            _ => {
                return Err(Error::new(format!(
                    "{source}: not the name of a C or C++ file (.c, .cc, .cpp, .cxx, .c++, .C); .llvm_ir(..) takes LLVM IR, \
                     .cuda(..) takes CUDA"
                )));
            }
        };
        match compiler {
            Ok(compiler) => object(session, compiler, language, version, index, path, source),
            Err(problem) => Err(Error::new(format!("{source}: {problem}"))),
        }
    });
    let sources: Vec<String> = paths.iter().map(|path| session.name_of(path)).collect();
    let mut products = products.into_iter();
    let rows = paths.iter().map(|_| products.by_ref().take(versions.len()).collect()).collect();
    let products = results::by_version(versions, &sources, rows)?;
    for (index, source) in sources.iter().enumerate() {
        let texts = products.iter().map(|products| products[index].warnings.as_str());
        let texts = versions.iter().copied().zip(texts);
        objects.warnings.push_str(&results::warnings_once(source, texts));
    }
    let compiled = |products: Vec<Product>| products.into_iter().map(|product| product.compiled).collect();
    objects.objects = products.into_iter().map(compiled).collect();
    if cpp.is_some() {
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

/// Returns the compiler for a language, or the reason why there is none. If there are several
/// versions, only `.cpu(..)` may set the CPU of the baseline.
fn find(
    session: &Session,
    language: Language,
    flags: &[String],
    may_name_cpu: bool,
) -> std::result::Result<Compiler, String> {
    let name = if language == Language::Cpp { "C++" } else { "C" };
    // The cc crate asks compilers for their name, and so does this function.
    let _permit = session.permits.acquire();
    let mut build = compiler(session, language);
    for flag in session.target.c_flags().iter().chain(flags) {
        build.flag(flag);
    }
    // The text of `assert` and `__FILE__` must not depend on the folder of the package.
    build.flag(format!("-fmacro-prefix-map={}/=", session.package_dir.display()));
    let tool = build.try_get_compiler().map_err(|e| format!("no {name} compiler: {e}"))?;
    native_flags::check(session, if language == Language::Cpp { "CXXFLAGS" } else { "CFLAGS" }, flags, tool.args())?;
    if tool.is_like_msvc() {
        return Err(format!(
            "{} is a compiler of the MSVC family, which kernpack-build does not drive; set CC to GCC or Clang",
            tool.path().display()
        ));
    }
    let variable = if language == Language::Cpp { "CXX" } else { "CC" };
    let mut ours = session.target.c_flags();
    // Set by the cc crate itself.
    ours.push("-march=x86-64".to_owned());
    let names_cpu = |argument: &&std::ffi::OsString| {
        let argument = argument.to_string_lossy();
        argument.starts_with("-march=") && !ours.iter().any(|flag| *flag == argument)
    };
    if !may_name_cpu && let Some(argument) = tool.args().iter().find(names_cpu) {
        return Err(format!(
            "`{}` comes from .flag(..) or {variable_flags}; with .multiversion(..) only .cpu(..) says which CPU the baseline is for",
            argument.to_string_lossy(),
            variable_flags = if language == Language::Cpp { "CXXFLAGS" } else { "CFLAGS" },
        ));
    }
    let start = tool.to_command().get_program().to_string_lossy().into_owned();
    let program = Program::find(session, &start).map_err(|e| e.to_string())?.ok_or_else(|| {
        format!("no {name} compiler: there is no `{start}`; install GCC or Clang, or set {variable} to one of them")
    })?;
    let ask = |option: &str| {
        let mut command = tool.to_command();
        command.current_dir(&session.package_dir).arg(option);
        tool::run(command, &format!("the {name} compiler"), option).unwrap_or_default()
    };
    let version = ask("--version");
    // The program itself is often only a driver, and a package manager may replace it with one with
    // an older date. The folder of its parts shows the change.
    let parts = if tool.is_like_clang() {
        PathBuf::from(ask("-print-resource-dir").trim())
    } else {
        PathBuf::from(ask("-print-file-name=include").trim()).parent().unwrap_or(Path::new("")).to_owned()
    };
    if parts.is_absolute() {
        session.tracker.file(&parts);
    }
    Ok(Compiler { tool, program, version })
}

fn object(
    session: &Session,
    compiler: &Compiler,
    language: Language,
    version: Version,
    index: usize,
    path: &Path,
    source: String,
) -> Result<Product> {
    let product = |extension: &str| version.product(session, "c", index, path, extension);
    let (object, depfile) = (product("o"), product("d"));
    let mut command = compiler.tool.to_command();
    command.current_dir(&session.package_dir);
    command.args(session.preprocessor_flags()).args(version.c_flags(&session.target));
    if version.level.is_none() {
        let more = [OsStr::new("-c"), path.as_os_str(), OsStr::new("-o"), object.as_os_str()];
        session.commands.add(&session.package_dir, &compiler.program.path, &command, &more, path, &object);
    }
    let mut recipe = recipe(session, compiler, &command);
    recipe.field(path.as_os_str().as_encoded_bytes());
    command.args(["-MD", "-MT", "kernel", "-MF"]).arg(&depfile);
    command.arg("-c").arg(path).arg("-o").arg(&object);
    let tool = if language == Language::Cpp { "the C++ compiler" } else { "the C compiler" };
    let products = [object.clone()];
    let shown = version.source(&source);
    let step = Step { recipe: recipe.finish(), source: &shown, tool, products: &products };
    let warnings = step.make(session, || {
        let printed = tool::run(command, tool, &source)?;
        let inputs = step::inputs(&session.package_dir, &session.includes, path, track::dependencies(&depfile)?);
        Ok(Ran { printed, inputs })
    })?;
    Ok(Product { compiled: Compiled { source, object }, warnings })
}

/// A fingerprint of everything that determines the output of a compiler for a source, except the
/// files that it reads.
fn recipe(session: &Session, compiler: &Compiler, command: &Command) -> Digester {
    let mut digester = session.recipe("c", &VARIABLES);
    compiler.program.describe(&mut digester, &compiler.version);
    digester.list(command.get_args().map(|argument| argument.as_encoded_bytes()));
    for (name, value) in command.get_envs() {
        digester.field(name.as_encoded_bytes()).list(value.map(|value| value.as_encoded_bytes()));
    }
    digester
}

/// The compiler of the cc crate: `CC` and `CFLAGS` or their variants for the target, PIC, -O3.
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
        // The flags of rustc reach C through cc, unless `.cpu()` overrides them.
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
    for name in ["CRATE_CC_NO_DEFAULTS", "CROSS_COMPILE", "CC_FORCE_DISABLE", "CC_KNOWN_WRAPPER_CUSTOM"] {
        session.environment.track(name);
    }
}

/// Returns `CXXSTDLIB`, or the platform's default. An empty `CXXSTDLIB` links none.
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

/// Puts objects into `lib<name>.a` in `out_dir`, unless it contains them already.
pub(crate) fn archive(session: &Session, name: &str, objects: &[PathBuf]) -> Result<()> {
    let file = session.out_dir.join(format!("lib{name}.a"));
    let contents = || {
        let mut digester = session.recipe("archive", &["AR", "ARFLAGS", "PATH"]);
        for path in objects.iter().chain([&file]) {
            digester.field(path.as_os_str().as_encoded_bytes());
            digester.list(Digest::of_file(path).map(Digest::to_bytes));
        }
        digester.finish().to_string()
    };
    let stamp = session.out_dir.join(format!("lib{name}.stamp"));
    if fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == contents()) {
        return Ok(());
    }
    let mut build = compiler(session, Language::C);
    build.out_dir(&session.out_dir);
    let permit = session.permits.acquire();
    let archive = build.try_create_archive(name, objects);
    drop(permit);
    archive.map(drop).map_err(|e| Error::new(format!("lib{name}.a: the archiver failed: {e}")))?;
    // Without the stamp it is created again.
    let _ = fs::write(&stamp, contents());
    Ok(())
}
