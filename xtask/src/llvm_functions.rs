//! `cargo xtask llvm-functions`: compares the functions of LLVM that our programs call with the
//! list that the build script checks against the library that it finds.

use crate::Result;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use kernpack_llvm_find::{Elf, functions};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The file with the list.
const LIST: &str = "build-support/llvm-find/src/functions.txt";

/// The first line of the file.
const HEAD: &str =
    "# Functions of LLVM's C interface that kernpack calls: written by cargo xtask llvm-functions --write.\n";

/// Compares the functions with the list, or writes the list.
pub(crate) fn run(write: bool) -> Result {
    let workspace = Workspace::find()?;
    compare(&workspace, workspace.cargo("test"), write)
}

/// Compares the functions that tests of all libraries call. `cargo` is a `cargo test` command; the
/// tests are built without optimizations.
pub(crate) fn compare(workspace: &Workspace, mut cargo: Command, write: bool) -> Result {
    cargo.args(["--workspace", "--lib", "--no-run"]);
    let output = step::run("build the tests that link LLVM", &mut cargo, Show::Warnings)?;
    let mut called = BTreeSet::new();
    for program in programs(&output) {
        let program = workspace.root().join(program);
        let elf = Elf::open(&program).map_err(|error| format!("{}: {error}", program.display()))?;
        called.extend(elf.imports("LLVM")?);
    }
    if called.is_empty() {
        return Err("llvm-functions: cargo named no program that calls LLVM".into());
    }
    let listed: BTreeSet<String> = functions().map(str::to_owned).collect();
    if write {
        let lines: Vec<String> = called.into_iter().map(|name| name + "\n").collect();
        fs::write(workspace.root().join(LIST), HEAD.to_owned() + &lines.concat())?;
        return Ok(());
    }
    let difference =
        |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>().join(", ");
    if called == listed {
        println!("llvm-functions: {} functions, as listed", called.len());
        return Ok(());
    }
    Err(format!(
        "{LIST} is not what is called: missing: {}; not called: {}; cargo xtask llvm-functions --write",
        difference(&called, &listed),
        difference(&listed, &called)
    )
    .into())
}

/// The programs that cargo has built:
/// `  Executable unittests src/lib.rs (target/debug/deps/kernpack_build-0123456789abcdef)`.
fn programs(output: &str) -> Vec<PathBuf> {
    let lines = output.lines().filter_map(|line| line.trim_start().strip_prefix("Executable "));
    lines.filter_map(|line| Some(PathBuf::from(line.rsplit_once('(')?.1.strip_suffix(')')?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_lines() {
        let output = "   Compiling x v0.1.0 (/x)\n  Executable unittests src/lib.rs (target/debug/deps/x-01)\n";
        assert_eq!(programs(output), [PathBuf::from("target/debug/deps/x-01")]);
    }
}
