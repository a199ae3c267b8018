//! `cargo xtask toolchains`: the tests of compiler, build helper, graphs and `cargo kernpack new` with the Rust, the C
//! compilers and the LLVMs of Debian unstable, in a root below `target/`.
//!
//! A newer libLLVM needs a newer C library than that of this machine, so the tests run behind `chroot`. The root's
//! packages come from the mirror that the machine's own apt is set up with.

use crate::proved::{Choice, TOOLCHAINS};
use crate::step::{self, Show};
use crate::totals::Totals;
use crate::workspace::{Workspace, find_on_path};
use crate::{Result, debian};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The majors of LLVM that kernpack is tested with.
const MAJORS: &[u32] = kernpack_llvm_find::TESTED;

/// The release that has all of them.
const RELEASE: &str = "sid";

/// The packages of the root, but for those of LLVM.
const PACKAGES: &[&str] = &[
    "rustc",
    "cargo",
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

/// What is tested, as arguments of cargo.
const TESTS: &[&[&str]] = &[
    &["test", "--package", "kernpack-llvm-find", "--package", "kernpack-llvm-link", "--package", "kernpack-compiler"],
    &["test", "--package", "kernpack-build", "--lib", "--features", "modules,graph"],
    &["test", "--package", "kernpack-build", "--test", "scratch", "--features", "modules,graph", "llvm"],
    &["test", "--package", "kernpack-graph"],
    &["test", "--package", "kernpack-cli", "--test", "new", "--test", "doctor"],
];

/// Runs the tests with each of these majors, or with all; a pass with all is written down.
pub(crate) fn run(majors: &[&str]) -> Result {
    let workspace = Workspace::find()?;
    let chosen = chosen(majors)?;
    let root = root(&workspace)?;
    let mut failures = Vec::new();
    for major in &chosen {
        let prefix = (toolchain_major(&workspace, &root)? != Some(*major)).then(|| format!("/usr/lib/llvm-{major}"));
        for arguments in TESTS {
            let name = format!("LLVM {major} of Debian {RELEASE}: cargo {}", arguments.join(" "));
            let mut command = inside(&workspace, &root, prefix.as_deref(), &["cargo"]);
            let finished = step::watch(&name, command.args(*arguments).args(["--no-fail-fast"]), Show::Warnings)?;
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

/// One line for a check that leaves these tests out.
pub(crate) fn left_out(workspace: &Workspace) -> String {
    let command = "it takes many minutes: cargo xtask toolchains, or cargo xtask ci --all";
    match TOOLCHAINS.changes(workspace) {
        Ok(None) => "toolchains: not run: it has passed with the same inputs".to_owned(),
        Ok(Some(changes)) => format!("toolchains: not run, though it should ({changes}); {command}"),
        Err(error) => format!("toolchains: not run ({error}); {command}"),
    }
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

/// The root, made once; made anew when the list of packages changes.
fn root(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.folder("toolchains")?;
    let (root, stamp) = (folder.join(RELEASE), folder.join(format!("{RELEASE}.packages")));
    let llvm = MAJORS.iter().map(|major| format!("llvm-{major}-dev"));
    let packages: Vec<String> = PACKAGES.iter().map(|name| (*name).to_owned()).chain(llvm).collect();
    let packages = packages.join(" ");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == packages) {
        return Ok(root);
    }
    if !debian::can_install(workspace) {
        return Err("toolchains: a root of Debian is made by root, with apt-get".into());
    }
    if find_on_path("debootstrap").is_none() {
        debian::install(workspace, "debootstrap")?;
    }
    let mirror = mirror().ok_or("toolchains: /etc/apt names no mirror of Debian")?;
    // Nothing that is mounted in it goes with it.
    let mut remove = workspace.command("rm");
    step::run("remove the old root", remove.args(["-rf", "--one-file-system"]).arg(&root), Show::Warnings)?;
    let mut debootstrap = workspace.command("debootstrap");
    debootstrap.args(["--variant=minbase", RELEASE]).arg(&root).arg(mirror);
    step::run(&format!("debootstrap {RELEASE}"), &mut debootstrap, Show::Warnings)?;
    // A mirror that stands still has lists whose time is over; their signatures are checked all the same.
    fs::write(root.join("etc/apt/apt.conf.d/90kernpack"), "Acquire::Check-Valid-Until \"false\";\n")?;
    for command in ["apt-get -q update".to_owned(), format!("apt-get -q install -y --no-install-recommends {packages}")]
    {
        let mut apt = inside(workspace, &root, None, &["sh", "-c", &command]);
        step::run(&format!("{RELEASE}: {command}"), apt.env("DEBIAN_FRONTEND", "noninteractive"), Show::Warnings)?;
    }
    fs::write(&stamp, packages)?;
    Ok(root)
}

/// A command in the root: with this checkout and cargo's downloads at their places, which are unmounted when it ends.
fn inside(workspace: &Workspace, root: &Path, prefix: Option<&str>, program: &[&str]) -> Command {
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let registry = format!("{}/registry", home.unwrap_or_else(|_| "/root/.cargo".to_owned()));
    let script = "set -e
root=$1 checkout=$2 registry=$3
shift 3
mkdir -p \"$root$checkout\" \"$root/root/.cargo/registry\" \"$registry\"
mount -t proc proc \"$root/proc\"
mount --rbind /dev \"$root/dev\"
mount --bind \"$checkout\" \"$root$checkout\"
mount --bind \"$registry\" \"$root/root/.cargo/registry\"
exec chroot \"$root\" sh -c 'cd \"$0\" && exec \"$@\"' \"$checkout\" \"$@\"";
    let mut command = workspace.command("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(root).arg(workspace.root()).arg(registry).args(program);
    for (name, _) in std::env::vars_os() {
        command.env_remove(name);
    }
    command.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", "/root").env("LC_ALL", "C.UTF-8");
    command.env("CARGO_TARGET_DIR", workspace.root().join("target/toolchains/build")).env("CARGO_INCREMENTAL", "0");
    command.env("CARGO_TERM_COLOR", "never");
    if let Some(prefix) = prefix {
        command.env("KERNPACK_LLVM_PREFIX", prefix);
    }
    command
}

/// The major of the LLVM that the root's rustc has.
fn toolchain_major(workspace: &Workspace, root: &Path) -> Result<Option<u32>> {
    let output = inside(workspace, root, None, &["rustc", "-vV"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().find_map(|line| line.strip_prefix("LLVM version: "));
    Ok(version.and_then(|version| version.split('.').next()?.parse().ok()))
}

/// The mirror of the machine's own apt.
fn mirror() -> Option<String> {
    let folder = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.path()).collect();
    files.sort();
    files.insert(0, "/etc/apt/sources.list".into());
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    texts.into_iter().find_map(|text| mirror_in(&text))
}

/// The first address of an archive of Debian in a list of apt, in either format.
fn mirror_in(text: &str) -> Option<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("URIs:").or_else(|| line.strip_prefix("deb ")));
    let mut words = lines.flat_map(str::split_whitespace);
    words.find(|word| word.contains("://") && word.trim_end_matches('/').ends_with("/debian")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors() {
        for (text, expected) in [
            ("Types: deb\nURIs: http://mirror.test/debian\nSuites: bookworm\n", Some("http://mirror.test/debian")),
            (
                "# deb http://old.test/debian x main\ndeb [arch=amd64] http://a.test/debian/ sid main\n",
                Some("http://a.test/debian/"),
            ),
            ("deb https://packages.test/apt stable main\nURIs: http://a.test/debian-security\n", None),
            ("", None),
        ] {
            assert_eq!(mirror_in(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn versions() {
        assert_eq!(chosen(&[]).unwrap(), [22, 23]);
        assert_eq!(chosen(&["23"]).unwrap(), [23]);
        let error = chosen(&["21"]).unwrap_err().to_string();
        assert_eq!(error, "toolchains: expected versions of LLVM among 22, 23, got '21'");
    }
}
