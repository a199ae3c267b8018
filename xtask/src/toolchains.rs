//! `cargo xtask toolchains`: the tests of compiler, build helper, graphs and `cargo kernpack new`
//! with the Rust, the C compilers and the LLVM versions of Debian unstable, in a root below
//! `target/`.
//!
//! A newer libLLVM needs a newer C library than that of this machine, so the tests run in a root of
//! that release (see `debian_root`).

use crate::Result;
use crate::debian_root::{self, Root};
use crate::proved::{Choice, TOOLCHAINS};
use crate::step::{self, Show};
use crate::totals::Totals;
use crate::workspace::Workspace;

/// The major versions of LLVM that kernpack is tested with.
const MAJORS: &[u32] = kernpack_llvm_find::TESTED;

/// The release of Debian that has all of them.
const RELEASE: &str = "sid";

/// The packages of the root, without those of LLVM.
const PACKAGES: &[&str] = &[
    "rustc",
    "cargo",
    "rustfmt",
    "gcc",
    "g++",
    "clang",
    "python3",
    "python3-pip",
    "python3-venv",
    "python3-numpy",
    "git",
    "make",
    "pkg-config",
    "ca-certificates",
];

/// The tests, as arguments of cargo.
const TESTS: &[&[&str]] = &[
    &["test", "--package", "kernpack-llvm-find", "--package", "kernpack-llvm-link", "--package", "kernpack-compiler"],
    &["test", "--package", "kernpack-build", "--lib", "--features", "modules,graph"],
    &["test", "--package", "kernpack-build", "--test", "scratch", "--features", "modules,graph", "llvm"],
    &["test", "--package", "kernpack-graph"],
    &["test", "--package", "kernpack-nnvm"],
    &["test", "--package", "kernpack-cli", "--test", "new", "--test", "doctor"],
];

/// Runs the tests with each of these major versions, or with all; a pass with all is recorded.
pub(crate) fn run(majors: &[&str]) -> Result {
    let workspace = Workspace::find()?;
    let chosen = chosen(majors)?;
    let llvm: Vec<String> = MAJORS.iter().map(|major| format!("llvm-{major}-dev")).collect();
    let packages: Vec<&str> = PACKAGES.iter().copied().chain(llvm.iter().map(String::as_str)).collect();
    let root = debian_root::make(&workspace, RELEASE, &packages)?;
    let mut failures = Vec::new();
    for major in &chosen {
        let prefix = (toolchain_major(&root)? != Some(*major)).then(|| format!("/usr/lib/llvm-{major}"));
        for arguments in TESTS {
            let name = format!("LLVM {major} of Debian {RELEASE}: cargo {}", arguments.join(" "));
            let mut command = root.command("cargo");
            command.args(*arguments).arg("--no-fail-fast").env("CARGO_INCREMENTAL", "0");
            command.envs(prefix.iter().map(|prefix| ("KERNPACK_LLVM_PREFIX", prefix)));
            let finished = step::watch(&name, &mut command, Show::Warnings)?;
            let totals = Totals::of_cargo(&finished.output);
            println!("{name}: {totals}");
            if !finished.success || totals.passed == 0 {
                failures.push(name);
            }
        }
    }
    if !failures.is_empty() {
        return Err(format!("toolchains: failed: {}", failures.join("; ")).into());
    }
    if chosen.len() == MAJORS.len()
        && let Some(due) = TOOLCHAINS.due(&workspace, Choice::EveryAndRecord)
    {
        due.passed()?;
    }
    Ok(())
}

fn chosen(majors: &[&str]) -> Result<Vec<u32>> {
    if majors.is_empty() {
        return Ok(MAJORS.to_vec());
    }
    let known = |word: &&str| word.parse().ok().filter(|major| MAJORS.contains(major));
    let names: Vec<String> = MAJORS.iter().map(u32::to_string).collect();
    let expected = || format!("toolchains: expected versions of LLVM among {}", names.join(", "));
    majors.iter().map(|word| known(word).ok_or_else(|| format!("{}, got '{word}'", expected()).into())).collect()
}

/// The major version of the LLVM of the root's rustc.
fn toolchain_major(root: &Root) -> Result<Option<u32>> {
    let output = root.command("rustc").arg("-vV").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().find_map(|line| line.strip_prefix("LLVM version: "));
    Ok(version.and_then(|version| version.split('.').next()?.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(chosen(&[]).unwrap(), [22, 23]);
        assert_eq!(chosen(&["23"]).unwrap(), [23]);
        let error = chosen(&["21"]).unwrap_err().to_string();
        assert_eq!(error, "toolchains: expected versions of LLVM among 22, 23, got '21'");
    }
}
