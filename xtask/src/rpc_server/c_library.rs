//! A stub of the C library for the linker, of an older version than this machine's: a program that
//! is linked with it runs on systems as old as that version.
//!
//! glibc keeps all old versions of its functions, so the glibc of this machine contains the names
//! and versions of an older one. Linking needs only those.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::step::{self, Show};
use crate::workspace::Workspace;

/// The newest version of glibc whose symbols may be used.
const NEWEST: Version = [2, 17, 0];

type Version = [u32; 3];

/// The libraries that a program is linked with.
pub(super) struct Linked {
    /// The folder with the libraries, under the names that linkers look for.
    pub(super) folder: PathBuf,
    /// The object with the entry point of a program.
    pub(super) start: PathBuf,
}

/// Writes the libraries for programs for boards into a folder. `compiler` is a compiler for the
/// board's processor.
pub(super) fn prepare(workspace: &Workspace, compiler: &str, folder: &Path) -> Result<Linked> {
    fs::create_dir_all(folder)?;
    for (name, soname) in [("c", "libc.so.6"), ("m", "libm.so.6")] {
        stub(workspace, compiler, folder, (name, soname), &symbols(workspace, compiler, soname)?)?;
    }
    // Their functions are part of libc.so.6 since 2.34; older systems need these libraries by name.
    for names in [("dl", "libdl.so.2"), ("pthread", "libpthread.so.0"), ("rt", "librt.so.1"), ("util", "libutil.so.1")]
    {
        stub(workspace, compiler, folder, names, &[])?;
    }
    // Links GCC's unwinder statically: not every board has libgcc_s.
    fs::write(folder.join("libgcc_s.so"), "GROUP(-lgcc_eh -lgcc)\n")?;
    let (source, start) = (folder.join("start.c"), folder.join("start.o"));
    fs::write(&source, include_str!("start.c"))?;
    let mut compile = workspace.command(compiler);
    compile.args(["-c", "-O2", "-fPIC", "-fno-builtin", "-fno-stack-protector", "-Wall", "-Wextra", "-Werror", "-o"]);
    step::run("compile what programs begin with", compile.args([&start, &source]), Show::Warnings)?;
    Ok(Linked { folder: folder.to_path_buf(), start })
}

/// A function or variable of a library.
struct Symbol {
    name: String,
    version: Version,
    is_function: bool,
}

/// Writes a shared library that defines only names: `lib<name>.so`, with the soname `soname`.
fn stub(
    workspace: &Workspace,
    compiler: &str,
    folder: &Path,
    (name, soname): (&str, &str),
    symbols: &[Symbol],
) -> Result {
    let mut assembly = String::new();
    let mut versions: BTreeMap<Version, Vec<&str>> = BTreeMap::new();
    for Symbol { name, version, is_function } in symbols {
        let (section, kind) = if *is_function { (".text", "function") } else { (".data", "object") };
        writeln!(assembly, "{section}\n.globl {name}\n.type {name}, %{kind}\n.size {name}, 8\n{name}: .quad 0")?;
        versions.entry(*version).or_default().push(name);
    }
    assembly += ".section .note.GNU-stack, \"\", %progbits\n";
    let source = folder.join(format!("{name}.s"));
    fs::write(&source, assembly)?;
    let mut link = workspace.command(compiler);
    link.args(["-shared", "-nostdlib", "-o"]).arg(folder.join(format!("lib{name}.so"))).arg(&source);
    link.arg(format!("-Wl,-soname,{soname}"));
    if !versions.is_empty() {
        let mut script = String::new();
        for (version, names) in versions {
            writeln!(script, "{} {{ global: {}; }};", name_of(version), names.join("; "))?;
        }
        let path = folder.join(format!("{name}.map"));
        fs::write(&path, script)?;
        link.arg(format!("-Wl,--version-script={}", path.display()));
    }
    step::run(&format!("link the names of {soname}"), &mut link, Show::Warnings)?;
    Ok(())
}

fn name_of([major, minor, patch]: Version) -> String {
    if patch == 0 { format!("GLIBC_{major}.{minor}") } else { format!("GLIBC_{major}.{minor}.{patch}") }
}

/// The symbols that a library of the compiler's glibc has for programs that were built with
/// [`NEWEST`].
fn symbols(workspace: &Workspace, compiler: &str, soname: &str) -> Result<Vec<Symbol>> {
    let path = output(workspace.command(compiler).arg(format!("-print-file-name={soname}")))?;
    let table = output(workspace.command("readelf").args(["--wide", "--dyn-syms", path.trim()]))?;
    let mut newest: BTreeMap<&str, (Version, bool)> = BTreeMap::new();
    for (name, version, is_function) in table.lines().filter_map(symbol) {
        let known = newest.entry(name).or_insert((version, is_function));
        if known.0 <= version {
            *known = (version, is_function);
        }
    }
    if newest.is_empty() {
        return Err(format!("{} is no {soname} of glibc", path.trim()).into());
    }
    let symbol = |(name, (version, is_function)): (&str, _)| Symbol { name: name.to_owned(), version, is_function };
    Ok(newest.into_iter().map(symbol).collect())
}

/// Reads the name, the version, and whether it is a function, from a line such as
/// `  1: 0000000000026dc0   143 FUNC  GLOBAL DEFAULT   15 qsort@@GLIBC_2.2.5`. `None` if the
/// version is newer than [`NEWEST`].
fn symbol(line: &str) -> Option<(&str, Version, bool)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, _, _, kind, _, _, section, name, ..] = words[..] else { return None };
    let (name, version) = name.split_once('@')?;
    let version = version.trim_start_matches('@').strip_prefix("GLIBC_")?;
    let is_function = matches!(kind, "FUNC" | "IFUNC");
    if section == "UND" || section == "ABS" || !(is_function || kind == "OBJECT") {
        return None;
    }
    let mut numbers = Version::default();
    for (place, word) in numbers.iter_mut().zip(version.split('.')) {
        *place = word.parse().ok()?;
    }
    (numbers <= NEWEST).then_some((name, numbers, is_function))
}

/// The newest version of glibc that a program needs.
pub(super) fn needed(workspace: &Workspace, program: &Path) -> Result<String> {
    let table = output(workspace.command("readelf").args(["--wide", "--dyn-syms"]).arg(program))?;
    let versions = table.lines().filter_map(|line| line.split_once("@GLIBC_"));
    let versions = versions.map(|(_, rest)| {
        let version = rest.split_ascii_whitespace().next().unwrap_or_default();
        (version.split('.').map(|word| word.parse().unwrap_or(u32::MAX)).collect::<Vec<u32>>(), version)
    });
    let (numbers, newest) = versions.max().ok_or_else(|| format!("{} asks for nothing of glibc", program.display()))?;
    if numbers[..] > NEWEST[..] {
        return Err(format!("{} needs glibc {newest}", program.display()).into());
    }
    Ok(newest.to_owned())
}

fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot start {program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_readelf() {
        for (line, expected) in [
            ("1: 0000000000026dc0 143 FUNC GLOBAL DEFAULT 15 qsort@@GLIBC_2.2.5", Some(("qsort", [2, 2, 5], true))),
            ("2: 00000000000a0000 12 IFUNC GLOBAL DEFAULT 15 memcpy@@GLIBC_2.14", Some(("memcpy", [2, 14, 0], true))),
            ("3: 00000000001d3000 8 OBJECT WEAK DEFAULT 32 environ@@GLIBC_2.2.5", Some(("environ", [2, 2, 5], false))),
            ("4: 0000000000084e50 12 FUNC GLOBAL DEFAULT 15 dlopen@@GLIBC_2.34", None),
            ("5: 0000000000084e50 12 FUNC GLOBAL DEFAULT 15 dlopen@GLIBC_2.2.5", Some(("dlopen", [2, 2, 5], true))),
            ("6: 0000000000000000 0 FUNC GLOBAL DEFAULT UND __tls_get_addr@GLIBC_2.3 (36)", None),
            ("7: 0000000000000000 0 OBJECT GLOBAL DEFAULT ABS GLIBC_2.4", None),
            ("8: 0000000000000010 4 TLS GLOBAL DEFAULT 24 errno@@GLIBC_PRIVATE", None),
            ("Symbol table '.dynsym' contains 3025 entries:", None),
        ] {
            assert_eq!(symbol(line), expected, "{line}");
        }
        assert_eq!((name_of([2, 2, 5]), name_of([2, 17, 0])), ("GLIBC_2.2.5".to_owned(), "GLIBC_2.17".to_owned()));
    }
}
