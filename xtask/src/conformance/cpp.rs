//! The gtest files of the reference archive: one program, as upstream builds it, without CMake.
//!
//! Some of the files import C++ functions of the stock library, which are not part of the C ABI;
//! `cpp_names.cc` defines them by calls of global functions of the library under test, so all files
//! are part of the suite.

use super::Run;
use super::gtest;
use super::outcome::Outcomes;
use super::sdist::Sdist;
use super::subject::Subject;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path};
use crate::{Result, debian};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread::{self, available_parallelism};

/// Without optimization: compiling takes most of the time, the tests themselves two seconds.
const FLAGS: [&str; 3] = ["-std=c++17", "-O0", "-w"];

/// Builds the program, links it with the library under test, and runs it.
pub(crate) fn run(workspace: &Workspace, sdist: &Sdist, subject: &Subject, run: &Run) -> Result<Outcomes> {
    let compiler = Compiler::find(workspace)?;
    let tests = sdist.folder().join("tests/cpp");
    let objects = compiler.compile(workspace, subject, &tests, &sources(workspace, &tests)?)?;
    let program = subject.builds.join("tvm_ffi_tests");
    let mut link = compiler.command(workspace);
    link.args(&objects).arg("-o").arg(&program).arg("-L").arg(&subject.library_folder);
    // The order matters: the archive with `main` needs the other.
    link.args(["-Wl,--no-as-needed", "-lgtest_main", "-lgtest", "-ltvm_ffi_testing", "-ltvm_ffi", "-lpthread"]);
    if run.variables.iter().any(|(name, _)| name == "LD_PRELOAD") {
        // The preloaded library defines the functions of the sanitizer.
        link.arg("-Wl,--allow-shlib-undefined");
    }
    step::run("link the tests of tests/cpp", &mut link, Show::Warnings)?;
    subject.check_programs(workspace, std::slice::from_ref(&program))?;
    gtest::run(workspace, subject, &program, sdist.folder(), run)
}

/// The files of the suite, and our file with the C++ names.
fn sources(workspace: &Workspace, tests: &Path) -> Result<Vec<PathBuf>> {
    let mut files = vec![workspace.root().join("tests/conformance/cpp/cpp_names.cc")];
    for folder in [tests.to_path_buf(), tests.join("extra")] {
        let entries = fs::read_dir(&folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
        for entry in entries {
            let file = entry?.path();
            let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if name.starts_with("test") && name.ends_with(".cc") {
                files.push(file);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// A C++ compiler that finds GoogleTest.
struct Compiler {
    program: PathBuf,
    version: String,
    /// The folder of GoogleTest below `target`; `None` if the machine has it.
    gtest: Option<PathBuf>,
}

const GTEST_ADVICE: &str = "install GoogleTest with its libraries (Debian, Ubuntu: apt-get install libgtest-dev), or set CPATH and LIBRARY_PATH to where it is";

impl Compiler {
    /// Finds the compiler: `CXX`, else g++ or clang++. If the machine has no GoogleTest, Debian's
    /// package is unpacked below `target`.
    fn find(workspace: &Workspace) -> Result<Self> {
        let program = env::var_os("CXX")
            .map(PathBuf::from)
            .or_else(|| ["g++", "clang++", "c++"].into_iter().find_map(find_on_path))
            .ok_or("no C++ compiler on PATH: install g++ (Debian, Ubuntu: apt-get install g++), or set CXX to one")?;
        let output = workspace
            .command(&program)
            .arg("--version")
            .output()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut compiler = Compiler { program, version, gtest: None };
        if compiler.has_gtest(workspace)? {
            return Ok(compiler);
        }
        let folder = workspace.folder("conformance")?.join("gtest");
        compiler.gtest = Some(folder.join("usr"));
        if compiler.has_gtest(workspace)? {
            return Ok(compiler);
        }
        debian::unpack(workspace, "libgtest-dev", &folder)
            .map_err(|error| format!("there is no GoogleTest on this machine ({error}): {GTEST_ADVICE}"))?;
        if compiler.has_gtest(workspace)? {
            return Ok(compiler);
        }
        Err(format!("{} cannot use the GoogleTest in {}: {GTEST_ADVICE}", compiler.program.display(), folder.display())
            .into())
    }

    fn command(&self, workspace: &Workspace) -> Command {
        let mut command = workspace.command(&self.program);
        command.args(FLAGS);
        if let Some(gtest) = &self.gtest {
            command.arg("-isystem").arg(gtest.join("include")).arg("-L").arg(gtest.join("lib"));
            // Debian's folder for the machine's libraries.
            let triplet = format!("{}-{}-gnu", env::consts::ARCH, env::consts::OS);
            command.arg("-L").arg(gtest.join("lib").join(triplet));
        }
        command
    }

    fn has_gtest(&self, workspace: &Workspace) -> Result<bool> {
        let folder = workspace.folder("conformance")?;
        let source = folder.join("has_gtest.cc");
        fs::write(&source, "#include <gtest/gtest.h>\nTEST(Has, It) {}\n")
            .map_err(|error| format!("cannot write {}: {error}", source.display()))?;
        let mut command = self.command(workspace);
        command.arg(&source).arg("-o").arg(folder.join("has_gtest"));
        command.args(["-lgtest_main", "-lgtest", "-lpthread"]);
        Ok(command.output().is_ok_and(|output| output.status.success()))
    }

    /// Compiles the files that changed, on every core. The objects are the same for every library.
    fn compile(
        &self,
        workspace: &Workspace,
        subject: &Subject,
        tests: &Path,
        sources: &[PathBuf],
    ) -> Result<Vec<PathBuf>> {
        let folder = workspace.folder("conformance/cpp-objects")?;
        let mut objects = Vec::new();
        let mut outdated = Vec::new();
        for source in sources {
            let name = object_name(source);
            let object = folder.join(format!("{name}.o"));
            let text = fs::read_to_string(source).map_err(|error| format!("{}: {error}", source.display()))?;
            // The headers come with the package, whose version is pinned together with the
            // archive's.
            let stamp = format!("{} {}\n{text}", self.version, FLAGS.join(" "));
            let stamp_file = folder.join(format!("{name}.stamp"));
            if !object.is_file() || fs::read_to_string(&stamp_file).ok().as_deref() != Some(&stamp) {
                outdated.push((source, object.clone(), stamp_file, stamp));
            }
            objects.push(object);
        }
        if outdated.is_empty() {
            return Ok(objects);
        }
        let count = outdated.len();
        let queue = Mutex::new(outdated.into_iter().enumerate());
        let failures = Mutex::new(Vec::new());
        let next = || queue.lock().ok()?.next();
        thread::scope(|scope| {
            for _ in 0..available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while let Some((index, (source, object, stamp_file, stamp))) = next() {
                        let mut command = self.command(workspace);
                        command.arg("-I").arg(&subject.include).arg("-I").arg(tests);
                        command.arg("-c").arg(source).arg("-o").arg(&object);
                        let name = format!("compile {} ({} of {count})", object_name(source), index + 1);
                        let outcome = step::run(&name, &mut command, Show::Warnings)
                            .and_then(|_| fs::write(&stamp_file, stamp).map_err(Into::into));
                        if let (Err(error), Ok(mut failures)) = (outcome, failures.lock()) {
                            failures.push(error.to_string());
                        }
                    }
                });
            }
        });
        match failures.into_inner().unwrap_or_default() {
            failures if failures.is_empty() => Ok(objects),
            failures => Err(failures.join("; ").into()),
        }
    }
}

/// A name for the object of a source: two folders contain files of the same name.
fn object_name(source: &Path) -> String {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let is_extra = source.parent().is_some_and(|folder| folder.ends_with("extra"));
    if is_extra { format!("extra-{stem}") } else { stem.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_do_not_share_names() {
        let names: Vec<String> =
            ["/s/tests/cpp/test_big_int.cc", "/s/tests/cpp/extra/test_big_int.cc", "/w/cpp/cpp_names.cc"]
                .iter()
                .map(|source| object_name(Path::new(source)))
                .collect();
        assert_eq!(names, ["test_big_int", "extra-test_big_int", "cpp_names"]);
    }
}
