//! `cargo xtask bench size`: the size of a library, and the modules of the runtime that contribute
//! to it.
//!
//! A room is a module of a crate's root. Its size is that of its functions and constants, which
//! `nm` lists for a library that is not stripped; data without a name (texts, relocations, unwind
//! tables) is counted by section. The budgets of the smallest library are in
//! `tests/bench/size-budgets.txt`, and `cargo xtask ci` checks them. Paths of source files are
//! shortened to those below the checkout and cargo's home. In a library that is not built so, whole
//! paths add about 40 times the length of the folder.

use super::machine::Machine;
use crate::Result;
use crate::step::{self, Show};
use crate::workspace::{Workspace, cargo_home, shared_library};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A library that is measured.
struct Sample {
    package: &'static str,
    library: &'static str,
    what: &'static str,
    /// Without Kernpack's own implementation of the ABI, which is a default feature.
    is_bare: bool,
}

const SAMPLES: [Sample; 4] = [
    Sample { package: "kernpack-size-add", library: "kernpack_size_add", what: ADD, is_bare: false },
    Sample { package: "kernpack-size-add", library: "kernpack_size_add", what: ADD, is_bare: true },
    Sample { package: "kernpack-size-lib", library: "kernpack_size_lib", what: LIB, is_bare: false },
    Sample { package: "kernpack-size-lib", library: "kernpack_size_lib", what: LIB, is_bare: true },
];

const ADD: &str = "one function `add`";
const LIB: &str = "six functions, tensors, a callback, an object";

/// The profiles of `tests/bench/Cargo.toml`: cargo's own and the one for shipping.
const PROFILES: [&str; 2] = ["release", "ship"];

const BUDGETS: &str = "tests/bench/size-budgets.txt";

/// The name of the row of a whole, stripped file.
const FILE: &str = "file";

/// Measures all samples in all profiles and prints a table by room for each.
pub(crate) fn run() -> Result {
    let workspace = Workspace::find()?;
    println!("Sizes of libraries ({})", Machine::find(&workspace).program("rustc"));
    for profile in PROFILES {
        for sample in &SAMPLES {
            let rooms = weigh(&workspace, sample, profile)?;
            let features = if sample.is_bare { ", without `embedded`" } else { "" };
            println!("\n{}{features}, profile {profile}: {} KB stripped", sample.what, rooms[FILE].div_ceil(1000));
            let mut rows: Vec<_> = rooms.iter().filter(|(room, _)| *room != FILE).collect();
            rows.sort_by_key(|(room, bytes)| (std::cmp::Reverse(**bytes), room.as_str()));
            for (room, bytes) in rows {
                println!("{bytes:>9}  {room}");
            }
        }
    }
    Ok(())
}

/// Checks the budgets of the smallest library in the profile release. Takes about 35 s of CPU time
/// for a full build, less than one second without changes.
pub(crate) fn check() -> Result {
    let workspace = Workspace::find()?;
    let budgets = budgets(&std::fs::read_to_string(workspace.root().join(BUDGETS))?)?;
    let problems = over(&weigh(&workspace, &SAMPLES[0], PROFILES[0])?, &budgets);
    problems.iter().for_each(|problem| println!("{problem}"));
    if problems.is_empty() {
        Ok(())
    } else {
        Err(format!("size: {} of the budgets in {BUDGETS} are not kept", problems.len()).into())
    }
}

/// Reads lines with a number of bytes and a room. Empty lines and comments (`#`) are ignored.
fn budgets(text: &str) -> Result<BTreeMap<String, u64>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (bytes, room) =
                line.split_once(' ').ok_or_else(|| format!("{BUDGETS}: a line is `BYTES ROOM`: {line}"))?;
            Ok((room.trim().to_owned(), bytes.parse().map_err(|error| format!("{BUDGETS}: {line}: {error}"))?))
        })
        .collect()
}

/// The rooms that exceed their budgets. A room without a budget must not be present.
fn over(rooms: &BTreeMap<String, u64>, budgets: &BTreeMap<String, u64>) -> Vec<String> {
    let over = rooms.iter().filter_map(|(room, bytes)| match budgets.get(room) {
        Some(budget) if bytes <= budget => None,
        Some(budget) => Some(format!("{room}: {bytes} bytes, {budget} allowed")),
        None => Some(format!("{room}: {bytes} bytes, and no budget: nothing in this library refers to it")),
    });
    over.collect()
}

/// The bytes of each room of a sample.
fn weigh(workspace: &Workspace, sample: &Sample, profile: &str) -> Result<BTreeMap<String, u64>> {
    let Sample { package, library, is_bare, .. } = *sample;
    let target = workspace.cargo_target().join("bench-size");
    let mut cargo = workspace.cargo("build");
    // Not stripped: `nm` needs the names. One package at a time, so that each has its own features
    // of kernpack.
    cargo.args(["--profile", profile, "--package", package, "--manifest-path"]);
    cargo.arg(workspace.root().join("tests/bench/Cargo.toml")).arg("--config");
    cargo.arg(format!("profile.{profile}.strip=false")).env("CARGO_TARGET_DIR", &target);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", without_paths(workspace));
    if is_bare {
        cargo.arg("--no-default-features");
    }
    step::run(&format!("cargo build {package}, profile {profile}"), &mut cargo, Show::Warnings)?;
    let file = shared_library(&target.join(profile), library);
    let mut rooms = rooms(&output(workspace, "nm", &["-C", "-S", "--defined-only"], &file)?);
    rooms.extend(sections(&output(workspace, "size", &["-A"], &file)?));
    rooms.insert(FILE.to_owned(), stripped_size(workspace, &file)?);
    Ok(rooms)
}

/// Flags of rustc that make the size independent of the folder of the checkout: a library contains
/// the file name of each place that can panic, and the crates are not in the workspace of the
/// samples, so cargo passes whole paths to rustc.
fn without_paths(workspace: &Workspace) -> String {
    let folders = [(workspace.root().to_path_buf(), "kernpack"), (cargo_home(), "cargo")];
    folders.map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display())).join("\x1f")
}

/// The output of a program of the binutils for a file.
fn output(workspace: &Workspace, program: &str, arguments: &[&str], file: &Path) -> Result<String> {
    let output = workspace.command(program).args(arguments).arg(file).output();
    let output = output.map_err(|error| format!("{program} (binutils) does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program} {}: {}", file.display(), String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Bytes of a file without its symbols, as `strip = true` leaves it.
fn stripped_size(workspace: &Workspace, file: &Path) -> Result<u64> {
    let stripped: PathBuf = file.with_extension("stripped");
    output(workspace, "strip", &["-o", &stripped.to_string_lossy()], file)?;
    Ok(std::fs::metadata(stripped)?.len())
}

/// The rooms of the symbols that `nm -C -S` lists: address, size, type, name.
fn rooms(symbols: &str) -> BTreeMap<String, u64> {
    let mut rooms = BTreeMap::new();
    for line in symbols.lines() {
        let mut parts = line.splitn(4, ' ');
        let (Some(_), Some(size), Some(kind), Some(name)) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        // Zero-initialized data takes no bytes in the file.
        if let (Ok(size), false) = (u64::from_str_radix(size, 16), kind.eq_ignore_ascii_case("b")) {
            *rooms.entry(room(name)).or_insert(0) += size;
        }
    }
    rooms
}

/// The room of a symbol: crate and module for our crates, a group for the standard library. A
/// function of the standard library that is instantiated with a type of ours counts as ours.
fn room(name: &str) -> String {
    /// Crates that print a panic's backtrace, in every library of Rust.
    const BACKTRACES: [&str; 6] = ["gimli", "addr2line", "rustc_demangle", "miniz_oxide", "backtrace", "object::read"];
    // The compiler keeps one of the functions that drop values of a type of the standard library,
    // whatever they hold.
    let is_drop_of_std = ["<std::", "<core::", "<alloc::"]
        .iter()
        .any(|part| name.strip_prefix("core::ptr::drop_in_place").is_some_and(|dropped| dropped.starts_with(part)));
    if let Some(start) = name.find("kernpack").filter(|_| !is_drop_of_std) {
        let path: String =
            name[start..].chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':')).collect();
        let mut parts = path.split("::");
        let krate = parts.next().unwrap_or_default();
        return match (krate, parts.next()) {
            (
                "kernpack_core" | "kernpack_embedded" | "kernpack_builtins" | "kernpack_formats" | "kernpack",
                Some(module),
            ) => {
                format!("{krate}::{module}")
            }
            _ => "exported symbols".to_owned(),
        };
    }
    if BACKTRACES.iter().any(|part| name.contains(part)) {
        return "backtraces of panics".to_owned();
    }
    if ["flt2dec", "dec2flt", "fmt::float"].iter().any(|part| name.contains(part)) {
        return "floats as text".to_owned();
    }
    "standard library".to_owned()
}

/// Bytes of the sections without symbols: `size -A` lists name, bytes and address.
fn sections(listed: &str) -> BTreeMap<String, u64> {
    let group = |section: &str| match section {
        ".eh_frame" | ".eh_frame_hdr" | ".gcc_except_table" => Some("unwind tables"),
        ".rela.dyn" | ".rela.plt" | ".got" | ".got.plt" => Some("relocations"),
        ".rodata" => Some("texts and tables"),
        ".dynsym" | ".dynstr" | ".gnu.hash" | ".gnu.version" | ".gnu.version_r" => Some("exported names"),
        _ => None,
    };
    let mut sections = BTreeMap::new();
    for line in listed.lines() {
        let mut parts = line.split_whitespace();
        if let (Some(name), Some(Ok(bytes))) = (parts.next().and_then(group), parts.next().map(str::parse::<u64>)) {
            *sections.entry(name.to_owned()).or_insert(0) += bytes;
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_have_rooms() {
        let symbols = "\
0000000000001000 0000000000000010 t kernpack_core::host::find::in_process
0000000000001010 0000000000000020 t <alloc::vec::Vec<kernpack_core::host::Name> as core::ops::drop::Drop>::drop
0000000000001030 0000000000000004 T __kernpack_api_v1
0000000000001034 0000000000000008 t <gimli::read::Unit>::new
000000000000103c 0000000000000002 t core::num::flt2dec::strategy::dragon::format_exact
0000000000001040 0000000000000001 t core::fmt::write
0000000000002000 0000000000000100 b kernpack_core::host::TABLE
0000000000003000 T without_size
";
        let expected = [
            ("backtraces of panics", 8),
            ("exported symbols", 4),
            ("floats as text", 2),
            ("kernpack_core::host", 48),
            ("standard library", 1),
        ];
        assert_eq!(rooms(symbols), expected.map(|(room, bytes)| (room.to_owned(), bytes)).into());
    }

    #[test]
    fn budgets_are_kept_or_told() {
        let budgets = budgets("# For people.\n100 kernpack_core::host\n\n50 file\n").unwrap();
        let rooms = |rows: &[(&str, u64)]| rows.iter().map(|(room, bytes)| ((*room).to_owned(), *bytes)).collect();
        assert!(over(&rooms(&[("kernpack_core::host", 100), ("file", 1)]), &budgets).is_empty());
        assert_eq!(
            over(&rooms(&[("file", 51), ("kernpack_core::json", 7)]), &budgets),
            [
                "file: 51 bytes, 50 allowed",
                "kernpack_core::json: 7 bytes, and no budget: nothing in this library refers to it",
            ]
        );
        assert!(super::budgets("many kernpack_core::host").is_err());
    }
}
