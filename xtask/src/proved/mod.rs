//! Records of passed suites: when a suite passes, the inputs that its outcome depends on are
//! recorded in the repository. `cargo xtask ci` skips a suite whose inputs have not changed since;
//! `--all` runs every suite.
//!
//! A record has a line for each input: packages with all their dependencies, files of the suite,
//! programs and their versions. It is the same on every machine with the same inputs, and does not
//! depend on the folder of the checkout.

mod inputs;

use crate::Result;
use crate::workspace::Workspace;
use inputs::Inputs;
use std::fs;
use std::path::PathBuf;

/// Folder of the records, from the root. It is not an input of any suite.
const RECORDS: &str = "tests/passed";

/// A suite that takes minutes, with the inputs that its outcome depends on.
pub(crate) struct Suite {
    /// The name of the suite and of its record.
    pub(crate) name: &'static str,
    /// Packages of the workspace, which count with their dependencies, those of their tests
    /// included.
    packages: &'static [&'static str],
    /// Files and folders that are not part of these packages.
    files: &'static [&'static str],
    /// Programs whose versions matter, with the argument that prints the version. Python's is that
    /// of the environment in `target/venv`.
    programs: &'static [(&'static str, &'static str)],
}

/// Inputs of every suite: the code that starts commands and prepares their environment.
const RUNNER: [&str; 8] = [
    "Cargo.toml",
    ".cargo",
    "xtask/src/debian.rs",
    "xtask/src/environment.rs",
    "xtask/src/python.rs",
    "xtask/requirements.txt",
    "xtask/src/step.rs",
    "xtask/src/workspace.rs",
];

/// Programs that every suite uses.
const TOOLS: [(&str, &str); 4] = [("rustc", "-vV"), ("cc", "--version"), ("c++", "--version"), ("ld", "--version")];

/// The suites of the reference archive, with our library.
pub(crate) const CONFORMANCE: Suite = Suite {
    name: "conformance",
    packages: &["kernpack-capi"],
    files: &["tests/conformance", "xtask/src/conformance"],
    programs: &[("python", "--version")],
};

/// The reference Rust suite, the C host and the tests of objects under memcheck.
pub(crate) const VALGRIND: Suite = Suite {
    name: "valgrind",
    packages: &["kernpack-capi", "kernpack-tests", "imagekit"],
    files: &[
        "examples/c-host",
        "tests/conformance",
        "xtask/src/conformance",
        "xtask/src/reports.rs",
        "xtask/src/valgrind.rs",
    ],
    programs: &[("python", "--version"), ("valgrind", "--version")],
};

/// The reference Python and C++ suites under AddressSanitizer.
pub(crate) const ASAN: Suite = Suite {
    name: "asan",
    packages: &["kernpack-capi"],
    files: &["tests/conformance", "xtask/src/asan.rs", "xtask/src/conformance", "xtask/src/reports.rs"],
    programs: &[("python", "--version")],
};

/// The extension module's tests of memory under AddressSanitizer.
pub(crate) const ASAN_EXTENSION: Suite = Suite {
    name: "asan-extension",
    packages: &["extmod"],
    files: &[
        "tests/conformance/python",
        "tests/python_extension",
        "xtask/src/asan.rs",
        "xtask/src/pytest.rs",
        "xtask/src/reports.rs",
    ],
    programs: &[("python", "--version")],
};

/// loom and ThreadSanitizer.
pub(crate) const RACES: Suite = Suite {
    name: "races",
    packages: &["kernpack"],
    files: &["tests/loom", "tests/tsan.supp", "xtask/src/races.rs", "xtask/src/totals.rs"],
    programs: &[],
};

/// Programs built for 64-bit ARM, and run under qemu.
pub(crate) const AARCH64: Suite = Suite {
    name: "aarch64",
    packages: &[
        "conversions",
        "imagekit",
        "kernpack-aarch64",
        "kernpack-build",
        "kernpack-capi",
        "kernpack-loading-host",
        "kernpack-tests",
        "objects",
    ],
    files: &["examples/c-host", "xtask/src/cross_compiler.rs", "xtask/src/rust_target.rs"],
    programs: &[
        ("aarch64-linux-gnu-gcc", "--version"),
        ("aarch64-linux-gnu-g++", "--version"),
        ("qemu-aarch64", "--version"),
    ],
};

/// One library, built with many profiles and linkers.
pub(crate) const PROFILES: Suite =
    Suite { name: "profiles", packages: &["kernpack-cli", "kernpack-profiles"], files: &[], programs: &[] };

/// libFuzzer on the readers of foreign data, some seconds for each target.
pub(crate) const FUZZ: Suite =
    Suite { name: "fuzz", packages: &["kernpack-fuzz"], files: &["xtask/src/fuzz.rs"], programs: &[] };

/// The node tests of ONNX.
pub(crate) const ONNX: Suite = Suite {
    name: "onnx",
    packages: &["kernpack-graph", "python-compiler"],
    files: &[
        "tests/onnx",
        "xtask/requirements-onnx.txt",
        "xtask/requirements-scoreboard.txt",
        "xtask/src/onnx.rs",
        "xtask/src/scoreboard.rs",
    ],
    programs: &[("python", "--version")],
};

/// Random models beside onnxruntime.
pub(crate) const DIFFERENTIAL: Suite = Suite {
    name: "differential",
    packages: &["python-compiler"],
    files: &["tests/differential", "xtask/requirements-differential.txt", "xtask/src/differential.rs"],
    programs: &[("python", "--version")],
};

/// Compiler and build helper with the toolchains of Debian unstable: a command of its own, and a
/// part of `ci --all`.
pub(crate) const TOOLCHAINS: Suite = Suite {
    name: "toolchains",
    packages: &["kernpack-build", "kernpack-cli", "kernpack-compiler", "kernpack-graph", "kernpack-nnvm"],
    files: &["xtask/src/toolchains.rs"],
    programs: &[],
};

/// All C and C++ with compilers of Debian sid.
pub(crate) const COMPILERS: Suite = Suite {
    name: "compilers",
    packages: &["kernpack-compiler"],
    files: &[
        "build-support/include",
        "docs",
        "examples",
        "runtime/capi/include",
        "tests/c",
        "xtask/src/book/mod.rs",
        "xtask/src/book/page.rs",
        "xtask/src/compilers.rs",
        "xtask/src/debian_root.rs",
    ],
    programs: &[],
};

/// Packages of PyPI on our extension module, with their own tests: a command of its own, and a part
/// of `ci --all`.
pub(crate) const PORTS: Suite = Suite {
    name: "ports",
    packages: &["kernpack", "kernpack-cli", "kernpack-python"],
    files: &[
        "tests/conformance/fetch_sdist.py",
        "tests/ports",
        "xtask/requirements-ports.txt",
        "xtask/src/conformance/outcome.rs",
        "xtask/src/ports",
        "xtask/src/pytest.rs",
    ],
    programs: &[("python", "--version")],
};

/// The suites to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// All suites, without writing records.
    Every,
    /// All suites; passes are recorded.
    EveryAndRecord,
    /// The suites whose inputs have changed since their last pass, without writing records.
    Changed,
    /// The suites whose inputs have changed since their last pass; passes are recorded.
    ChangedAndRecord,
}

/// A suite that has to run, with the record to write when it passes.
pub(crate) struct Due {
    record: Option<(PathBuf, String)>,
}

impl Suite {
    /// `None` if the suite has passed with its current inputs; a line reports this.
    pub(crate) fn due(&self, workspace: &Workspace, choice: Choice) -> Option<Due> {
        if choice == Choice::Every {
            return Some(Due { record: None });
        }
        let inputs = match self.inputs(workspace) {
            Ok(inputs) => inputs,
            Err(error) => {
                println!("{}: runs, and nothing is written down: {error}", self.name);
                return Some(Due { record: None });
            }
        };
        let file = workspace.root().join(RECORDS).join(format!("{}.txt", self.name));
        self.compare(file, inputs.record(self.name), choice)
    }

    /// The changes since the last pass, as text; `None` if nothing has changed.
    fn changes(&self, workspace: &Workspace) -> Result<Option<String>> {
        let now = self.inputs(workspace)?.record(self.name);
        let file = workspace.root().join(RECORDS).join(format!("{}.txt", self.name));
        Ok(match fs::read_to_string(file) {
            Ok(before) if before == now => None,
            Ok(before) => Some(inputs::changes(&before, &now)),
            Err(_) => Some("no pass is written down".to_owned()),
        })
    }

    /// The line that reports this suite as skipped, because it takes too long or needs software
    /// that may be missing.
    pub(crate) fn left_out(&self, workspace: &Workspace) -> String {
        let name = self.name;
        let command = format!("cargo xtask {name}, or cargo xtask ci --all");
        match self.changes(workspace) {
            Ok(None) => format!("{name}: not run: it has passed with the same inputs"),
            Ok(Some(changes)) => format!("{name}: not run, though it should ({changes}): {command}"),
            Err(error) => format!("{name}: not run ({error}): {command}"),
        }
    }

    /// Compares the current record with that of the last pass.
    fn compare(&self, file: PathBuf, text: String, choice: Choice) -> Option<Due> {
        if matches!(choice, Choice::Changed | Choice::ChangedAndRecord) {
            match fs::read_to_string(&file) {
                Ok(before) if before == text => {
                    println!(
                        "{}: not run: it has passed with the same inputs ({RECORDS}/{}.txt)",
                        self.name, self.name
                    );
                    return None;
                }
                Ok(before) => println!("{}: runs: {}", self.name, inputs::changes(&before, &text)),
                Err(_) => println!("{}: runs: no pass is written down", self.name),
            }
        }
        Some(Due { record: (choice != Choice::Changed).then_some((file, text)) })
    }

    fn inputs(&self, workspace: &Workspace) -> Result<Inputs> {
        let mut inputs = Inputs::new(workspace.root(), RECORDS)?;
        inputs.packages(workspace, self.packages)?;
        for file in RUNNER.iter().chain(self.files) {
            inputs.file(file)?;
        }
        for (program, argument) in TOOLS.iter().chain(self.programs) {
            let path =
                if *program == "python" { workspace.root().join("target/venv/bin/python") } else { program.into() };
            inputs.program(program, workspace.command(path).arg(argument));
        }
        Ok(inputs)
    }
}

impl Due {
    /// Writes the record of the pass.
    pub(crate) fn passed(&self) -> Result {
        let Some((file, text)) = &self.record else { return Ok(()) };
        if fs::read_to_string(file).is_ok_and(|before| before == *text) {
            return Ok(());
        }
        fs::create_dir_all(file.parent().ok_or("a record without a folder")?)
            .and_then(|()| fs::write(file, text))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        println!("wrote {}", file.display());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A renamed input would no longer count: this test finds it, not the run that leaves the suite
    /// out.
    #[test]
    fn the_inputs_of_every_suite_are_there() {
        let workspace = Workspace::find().unwrap();
        for suite in [
            CONFORMANCE,
            VALGRIND,
            ASAN,
            ASAN_EXTENSION,
            RACES,
            AARCH64,
            PROFILES,
            FUZZ,
            ONNX,
            DIFFERENTIAL,
            TOOLCHAINS,
            COMPILERS,
            PORTS,
        ] {
            let inputs = suite.inputs(&workspace).unwrap_or_else(|error| panic!("{}: {error}", suite.name));
            let record = inputs.record(suite.name);
            let has = |name: &str| record.lines().any(|line| line.ends_with(&format!(" {name}")));
            assert!(has("package runtime/core") && has("Cargo.toml"), "{record}");
            assert!(record.contains(" crate libc ") && record.contains(" program rustc: rustc 1."), "{record}");
            assert!(!record.contains(workspace.root().to_str().unwrap()), "{record}");
        }
    }

    #[test]
    fn a_suite_is_left_out_after_a_pass_with_the_same_inputs_alone() {
        let folder = std::env::temp_dir().join(format!("kernpack-passed-{}", std::process::id()));
        let file = folder.join("passed/races.txt");
        let due = |inputs: &str, choice| RACES.compare(file.clone(), inputs.to_string(), choice);
        // A failed run has not written a record.
        assert!(due("1", Choice::ChangedAndRecord).is_some() && !file.exists());
        due("1", Choice::ChangedAndRecord).unwrap().passed().unwrap();
        assert!(due("1", Choice::ChangedAndRecord).is_none());
        assert!(due("2", Choice::ChangedAndRecord).is_some());
        assert!(due("1", Choice::EveryAndRecord).is_some());
        due("2", Choice::EveryAndRecord).unwrap().passed().unwrap();
        assert!(due("2", Choice::ChangedAndRecord).is_none() && due("1", Choice::ChangedAndRecord).is_some());
        // A choice that does not write records skips the same suites.
        assert!(due("2", Choice::Changed).is_none());
        due("3", Choice::Changed).unwrap().passed().unwrap();
        assert!(due("3", Choice::ChangedAndRecord).is_some());
        Due { record: None }.passed().unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
