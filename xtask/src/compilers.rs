//! `cargo xtask compilers`: all C and C++ of this project with GCC and Clang of Debian sid, the
//! newest versions: headers, kernels and hosts of the examples and of the tests, blocks of the
//! book, and the C that kernpack-compiler generates.
//!
//! They run in a root of sid below `target` (see `debian_root`). The other checks use the compiler
//! of the machine.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::debian_root::{self, Root};
use crate::proved::{COMPILERS, Choice};
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use crate::{Result, book};

/// The release of Debian with the compilers.
const SUITE: &str = "sid";
const PACKAGES: [&str; 5] = ["clang", "g++", "gcc", "libc6-dev", "libclang-rt-dev"];

/// The warnings that are shown for all files.
const WARNINGS: &str = "-Wall -Wno-unused -Wno-unknown-pragmas";

/// Errors of current C compilers, enabled for every standard.
const ERRORS_IN_C: &str = "-Werror=implicit-function-declaration -Werror=implicit-int -Werror=int-conversion \
    -Werror=incompatible-pointer-types";

/// Files that tests compile with their own options, in addition to those of `HEADERS`.
const OPTIONS: [(&str, &str); 2] =
    [("tests/math/check.c", "-DFUNCTIONS=X1(erf) -DDOUBLE=1"), ("tests/math/reference.c", "-DDOUBLE=1")];

/// Folders whose C and C++ files are not compiled alone, because they need headers of other
/// programs.
const LEFT_OUT: [&str; 3] = ["tests/bench/extension/", "tests/conformance/", "tests/fuzz/"];

/// Headers that users include. Each is compiled alone.
const HEADERS: [&str; 2] = ["kernpack/kernel.h", "kernpack/c_api.h"];

/// Programs with the tests of generated C: they compile with `CC`, and run what they compiled.
const TESTS: [(&str, &str); 2] = [("c", ""), ("math", "near_libm")];

/// Checks everything with each compiler.
pub(crate) fn run() -> Result {
    let workspace = Workspace::find()?;
    let python = Python::prepare(&workspace)?;
    let root = debian_root::make(&workspace, SUITE, &PACKAGES)?;
    let folder = workspace.folder("compilers")?;
    for compiler in ["gcc", "clang"] {
        let version = root.command(compiler).arg("--version").output()?;
        println!("{}", String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or_default());
    }
    let mut files = sources(&workspace)?;
    files.extend(blocks(&workspace, &folder)?);
    let include = format!(
        "-I build-support/include -I runtime/capi/include -I examples/dspkit/kernels -I tests/downstream/kernels -I '{}'",
        python.tvm_ffi_include().display()
    );
    let script = folder.join("syntax.sh");
    fs::write(&script, syntax_script(workspace.root(), &files, &include))?;
    let mut syntax = root.command("sh");
    let outcome = step::run("all C and C++ with GCC and Clang of sid", syntax.arg(&script), Show::Lines);
    generated(&workspace, &root)?;
    outcome?;
    match COMPILERS.due(&workspace, Choice::EveryAndRecord) {
        Some(due) => due.passed(),
        None => Ok(()),
    }
}

/// The C and C++ files of the repository.
fn sources(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let mut git = workspace.command("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.c", "*.cc", "*.cpp"]);
    let output = git.output().map_err(|error| format!("cannot start git: {error}"))?;
    let text = String::from_utf8(output.stdout)?;
    let own = |file: &&str| !LEFT_OUT.iter().any(|folder| file.starts_with(folder));
    Ok(text.lines().filter(own).map(PathBuf::from).collect())
}

/// The blocks of the book in C and C++ that are to compile, as files.
fn blocks(workspace: &Workspace, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (name, text) in book::c_blocks(workspace.root())? {
        let file = folder.join("book").join(name);
        fs::create_dir_all(file.parent().unwrap_or(folder))?;
        fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        let is_alone = |ending: &OsStr| ["c", "cc", "cpp"].iter().any(|known| ending == *known);
        if file.extension().is_some_and(is_alone) {
            files.push(file);
        }
    }
    Ok(files)
}

/// Compiles each file with each compiler and standard, continues after a failure, and fails at the
/// end.
fn syntax_script(root: &Path, files: &[PathBuf], include: &str) -> String {
    let mut script = format!(
        "failed=0\ncheck() {{\n  \"$@\" {include} {WARNINGS} -fsyntax-only || {{ failed=$((failed + 1)); echo \"FAILED: $*\"; }}\n}}\n"
    );
    for file in files {
        let name = file.display().to_string();
        let options = OPTIONS.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, options)| options);
        let options: Vec<String> = options.split_whitespace().map(|option| format!("'{option}'")).collect();
        let (compilers, standards, errors) = match name.ends_with(".c") {
            true => (["gcc", "clang"], &["gnu11", "gnu23"][..], ERRORS_IN_C),
            // The headers of the package apache-tvm-ffi are C++17. With libstdc++ 16, Clang refuses
            // them as C++20 and later.
            false if includes_tvm(&root.join(file)) => (["g++", "clang++"], &["gnu++17"][..], ""),
            false => (["g++", "clang++"], &["gnu++17", "gnu++26"][..], ""),
        };
        for compiler in compilers {
            for standard in standards {
                script.push_str(&format!("check {compiler} -std={standard} {errors} {} '{name}'\n", options.join(" ")));
            }
        }
    }
    for header in HEADERS {
        for (compilers, language, standards) in
            [(["gcc", "clang"], "c", ["c11", "c17", "c23"]), (["g++", "clang++"], "c++", ["c++11", "c++17", "c++26"])]
        {
            for (compiler, standard) in compilers.iter().flat_map(|one| standards.map(|standard| (one, standard))) {
                script.push_str(&format!(
                    "check {compiler} -x {language} -std={standard} -pedantic -Werror -include {header} /dev/null\n"
                ));
            }
        }
    }
    script.push_str("echo \"$failed failed\"\nexit $((failed > 0))\n");
    script
}

fn includes_tvm(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.contains("#include <tvm/"))
}

/// Runs the tests of generated C in the root, with each compiler.
fn generated(workspace: &Workspace, root: &Root) -> Result {
    let mut cargo = workspace.cargo("test");
    cargo.args(["--package", "kernpack-compiler", "--no-run", "--message-format", "json"]);
    cargo.args(TESTS.iter().flat_map(|(name, _)| ["--test", name]));
    let output = step::run("build the tests of generated C", &mut cargo, Show::Warnings)?;
    let sysroot = workspace.command("rustc").args(["--print", "sysroot"]).output()?;
    let libraries = Path::new(String::from_utf8(sysroot.stdout)?.trim()).join("lib");
    for (name, filter) in TESTS {
        let messages = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let program = messages
            .filter(|message| message["target"]["name"] == name)
            .find_map(|message| message["executable"].as_str().map(PathBuf::from))
            .ok_or_else(|| format!("cargo test names no program for the test {name}"))?;
        for compiler in ["gcc", "clang"] {
            let package = workspace.root().join("build-support/compiler");
            let mut command = root.command_seeing(&[&libraries], &program);
            command.current_dir(&package).env("CARGO_MANIFEST_DIR", &package);
            command.env("LD_LIBRARY_PATH", &libraries).env("CC", compiler);
            command.args(Some(filter).filter(|filter| !filter.is_empty()));
            if (name, compiler) == ("c", "clang") {
                // Clang's sanitizer compares the types of called functions, and the hosts of these
                // tests declare their own types.
                command.args(["--skip", "packed_functions_check", "--skip", "parallel_loops_do"]);
            }
            step::run(&format!("generated C: {name} with {compiler} of sid"), &mut command, Show::Warnings)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_compiled_as_its_name_says() {
        let script = syntax_script(Path::new("/"), &["a.c".into(), "b.cc".into(), "tests/math/check.c".into()], "-I i");
        for line in [
            &format!("check gcc -std=gnu23 {ERRORS_IN_C}  'a.c'"),
            "check clang++ -std=gnu++26   'b.cc'",
            &format!("check clang -std=gnu11 {ERRORS_IN_C} '-DFUNCTIONS=X1(erf)' '-DDOUBLE=1' 'tests/math/check.c'"),
            "check gcc -x c -std=c23 -pedantic -Werror -include kernpack/kernel.h /dev/null",
        ] {
            assert!(script.lines().any(|found| found == line), "{line}\n{script}");
        }
    }
}
