//! `cargo xtask bench runtime`: our `libtvm_ffi.so` beside the stock one, in interleaved rounds:
//! the same C program and the same Python program, each started once for each library.

use super::caller::Caller;
use super::figures::{duration, verdict};
use super::machine::Machine;
use super::samples::Pair;
use crate::Result;
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path, shared_library};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A batch takes about this many nanoseconds.
const BATCH: f64 = 8_000_000.0;

/// The goals: the limit for the ratio of each operation, and for the median of all.
const LIMIT: f64 = 1.0;
const MEDIAN_LIMIT: f64 = 0.7;

/// The limit for our stripped library, in bytes.
const SIZE_LIMIT: u64 = 1_500_000;

/// One line of the table.
struct Case {
    name: &'static str,
    what: &'static str,
}

const fn case(name: &'static str, what: &'static str) -> Case {
    Case { name, what }
}

/// The measurements of the C program, by the names that it prints.
const FROM_C: [Case; 37] = [
    case("call", "call a C function through `TVMFFIFunctionCall`"),
    case("function_create", "create and drop a function"),
    case("get_global", "look a global function up"),
    case("string_short", "string of 7 bytes"),
    case("string_long", "string of 64 bytes"),
    case("array", "array of 20 integers"),
    case("array_get", "get an array's element"),
    case("list", "list of 20 integers"),
    case("list_append", "append to a list"),
    case("shape", "shape of 20 dimensions"),
    case("map", "map of 10 pairs"),
    case("dict", "dictionary of 10 pairs"),
    case("insert_int", "insert, integer keys (1,000 in the map)"),
    case("insert_str", "insert, text keys"),
    case("insert_object", "insert, object keys"),
    case("lookup_int", "look up, integer keys"),
    case("lookup_str", "look up, text keys"),
    case("lookup_object", "look up, object keys"),
    case("type_by_key", "type index of a key"),
    case("type_info", "type information of an index"),
    case("attr_column", "attribute column of a name"),
    case("dtype_parse", "parse a data type"),
    case("dtype_print", "print a data type"),
    case("dlpack", "tensor from DLPack and back"),
    case("error_raise", "raise an error with a backtrace and take it"),
    case("error_create", "create an error with a given backtrace"),
    case("error_builtin", "error of a global function"),
    case("json_parse", "parse 30 KB of JSON"),
    case("json_write", "write 30 KB of JSON"),
    case("json_graph", "JSON graph of 1,111 objects, there and back"),
    case("structural_equal", "structural equality, 100,000 objects"),
    case("structural_hash", "structural hash, 100,000 objects"),
    case("recursive_equal", "recursive equality, 100,000 objects"),
    case("recursive_hash", "recursive hash, 100,000 objects"),
    case("repr", "print 1,111 objects"),
    case("deep_copy", "copy 1,111 objects deeply"),
    case("walk", "walk over 100,000 objects"),
];

/// The measurements of the Python program, by the names that it prints.
const FROM_PYTHON: [Case; 19] = [
    case("call", "call a global function"),
    case("callback", "call a Python function through the registry"),
    case("array", "array from a list of 20 integers"),
    case("array_get", "get an array's element"),
    case("map", "map from a dict of 20 pairs"),
    case("map_get", "get a map's value"),
    case("map_iterate", "iterate over a map of 20 pairs"),
    case("dict_set", "set and get a dictionary's value"),
    case("object_new", "create an object of a Python-defined class"),
    case("field", "read an object's field"),
    case("repr", "`repr` of 111 objects"),
    case("deep_copy", "`copy.deepcopy` of 111 objects"),
    case("json_parse", "parse 10 KB of JSON"),
    case("json_write", "write 10 KB of JSON"),
    case("json_graph_save", "save 111 objects as a JSON graph"),
    case("json_graph_load", "load 111 objects from a JSON graph"),
    case("structural_equal", "structural equality, 11,111 objects"),
    case("structural_hash", "structural hash, 11,111 objects"),
    case("error", "raise and catch an error of a global function"),
];

/// Builds, measures, prints the table and writes it to `target/bench/runtime.md`.
pub(crate) fn run(rounds: usize) -> Result {
    let workspace = Workspace::find()?;
    let python = Python::prepare(&workspace)?;
    let stock = shared_library(python.tvm_ffi_library_folder(), "tvm_ffi");
    let ours = build_ours(&workspace)?;
    let sizes = (stripped_size(&workspace, &ours)?, stripped_size(&workspace, &stock)?);
    let program = build_caller(&workspace, &python)?;
    let with_ours = package_with(&workspace, &python, &ours)?;

    let start_c = |library: &Path| {
        let mut command = workspace.command(&program);
        Caller::start("the C program", command.arg(format!("library={}", library.display())))
    };
    let mut c_callers = [start_c(&ours)?, start_c(&stock)?];
    let c_pairs = measure(&mut c_callers, &FROM_C, rounds, "C")?;
    drop(c_callers);

    let script = workspace.root().join("tests/bench/runtime/caller.py");
    let start_python = |library: &Path, packages: Option<&Path>| {
        let mut command = workspace.command(python.interpreter());
        command.arg(&script).arg(format!("library={}", library.display()));
        if let Some(packages) = packages {
            command.env("PYTHONPATH", packages);
        }
        Caller::start("the Python program", &mut command)
    };
    let ours_in_package = shared_library(&with_ours.join("tvm_ffi/lib"), "tvm_ffi");
    let mut python_callers = [start_python(&ours_in_package, Some(&with_ours))?, start_python(&stock, None)?];
    let python_pairs = measure(&mut python_callers, &FROM_PYTHON, rounds, "Python")?;

    let machine = Machine::find(&workspace)
        .program("rustc")
        .program("cc")
        .packages(python.interpreter(), &["apache-tvm-ffi"])?
        .to_string();
    let report = report(&c_pairs, &python_pairs, sizes, rounds, &machine);
    println!("\n{report}");
    let file = workspace.folder("bench")?.join("runtime.md");
    fs::write(&file, report).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!("written to {}", file.display());
    Ok(())
}

/// Builds our `libtvm_ffi.so` as it is shipped.
fn build_ours(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo("build");
    cargo.args(["--profile", "ship", "--package", "kernpack-capi"]);
    step::run("build libtvm_ffi.so (profile ship)", &mut cargo, Show::Warnings)?;
    Ok(shared_library(&workspace.cargo_target().join("ship"), "tvm_ffi"))
}

/// Compiles the C program against the wheel's headers; it does not link the library.
fn build_caller(workspace: &Workspace, python: &Python) -> Result<PathBuf> {
    let compiler = env::var_os("CC")
        .map(PathBuf::from)
        .or_else(|| ["cc", "gcc", "clang"].into_iter().find_map(find_on_path))
        .ok_or("no C compiler on PATH: install one (Debian: apt-get install gcc), or set CC")?;
    let program = workspace.folder("bench")?.join("runtime-caller");
    let mut command = workspace.command(compiler);
    command.args(["-O2", "-I"]).arg(python.tvm_ffi_include());
    command.arg(workspace.root().join("tests/bench/runtime/caller.c")).arg("-o").arg(&program).arg("-ldl");
    step::run("compile tests/bench/runtime/caller.c", &mut command, Show::Warnings)?;
    Ok(program)
}

/// Bytes of a library without symbols and debug information.
fn stripped_size(workspace: &Workspace, library: &Path) -> Result<u64> {
    let copy = workspace.folder("bench")?.join("stripped.so");
    let mut strip = workspace.command("strip");
    step::run("strip", strip.arg(library).arg("-o").arg(&copy), Show::Warnings)?;
    Ok(fs::metadata(&copy)?.len())
}

/// Makes a copy of the stock package with another `libtvm_ffi.so`, and returns the folder for
/// `PYTHONPATH`.
fn package_with(workspace: &Workspace, python: &Python, library: &Path) -> Result<PathBuf> {
    let folder = workspace.folder("bench/site-packages")?;
    let package = python.tvm_ffi_library_folder().parent().ok_or("the package has no folder")?;
    fs::remove_dir_all(&folder)?;
    fs::create_dir_all(&folder)?;
    let mut copy = workspace.command("cp");
    copy.arg("-r").arg(package);
    // The package looks up its library in its metadata.
    let site_packages = package.parent().ok_or("the package is in no folder")?;
    for entry in fs::read_dir(site_packages)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("apache_tvm_ffi-")) {
            copy.arg(path);
        }
    }
    step::run("copy the stock package", copy.arg(&folder), Show::Warnings)?;
    let place = shared_library(&folder.join("tvm_ffi/lib"), "tvm_ffi");
    fs::remove_file(&place)?;
    fs::copy(library, &place)?;
    Ok(folder)
}

/// Finds each case's batch size, then runs the rounds; the libraries take turns in running first.
fn measure(callers: &mut [Caller; 2], cases: &[Case], rounds: usize, from: &str) -> Result<Vec<Pair>> {
    println!("> measure {} cases from {from} in {rounds} rounds", cases.len());
    let start = Instant::now();
    let mut iterations = Vec::new();
    for case in cases {
        let mut slowest = 1.0_f64;
        for caller in callers.iter_mut() {
            caller.measure(case.name, "x", 2)?;
            let few = caller.measure(case.name, "x", 3)?;
            let more = ((BATCH / 10.0 / few) as u64).clamp(2, 100_000);
            slowest = slowest.max(caller.measure(case.name, "x", more)?);
        }
        iterations.push(((BATCH / slowest) as u64).clamp(2, 10_000_000));
    }
    let mut pairs = vec![Pair::default(); cases.len()];
    for round in 0..rounds {
        for ((case, pair), &count) in cases.iter().zip(&mut pairs).zip(&iterations) {
            for turn in 0..2 {
                let library = (turn + round) % 2;
                let time = callers[library].measure(case.name, "x", count)?;
                if library == 0 { pair.ours.push(time) } else { pair.peer.push(time) }
            }
        }
    }
    println!("  done in {:.1} s", start.elapsed().as_secs_f64());
    Ok(pairs)
}

/// The tables in Markdown.
fn report(c: &[Pair], python: &[Pair], sizes: (u64, u64), rounds: usize, machine: &str) -> String {
    let mut text = format!(
        "Our `libtvm_ffi.so` beside the stock one: medians of {rounds} interleaved rounds, one run ({machine}).\n"
    );
    let mut ratios = Vec::new();
    for (title, cases, pairs) in [("From C", &FROM_C[..], c), ("From Python", &FROM_PYTHON[..], python)] {
        let _ = write!(text, "\n| {title} | ours | stock | ours / stock |\n|---|---:|---:|---:|\n");
        for (case, pair) in cases.iter().zip(pairs) {
            let ratio = pair.ratio();
            ratios.push((ratio, title, case.what));
            let [ours, stock] = [&pair.ours, &pair.peer].map(|samples| duration(samples.median()));
            let _ = writeln!(text, "| {} | {ours} | {stock} | {ratio:.2} |", case.what);
        }
    }
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let median = ratios.get(ratios.len() / 2).map_or(f64::NAN, |ratio| ratio.0);
    let slower: Vec<String> = ratios
        .iter()
        .filter(|ratio| ratio.0 > LIMIT)
        .map(|(ratio, from, what)| format!("{what} ({}, {ratio:.2})", from.to_lowercase()))
        .collect();
    let _ = write!(text, "\n| goal | limit | measured | |\n|---|---:|---:|---|\n");
    let worst = ratios.last().map_or(f64::NAN, |ratio| ratio.0);
    let _ = writeln!(text, "| every operation, ours / stock | {LIMIT:.2} | {worst:.2} | {} |", verdict(worst <= LIMIT));
    let _ = writeln!(text, "| median of all | {MEDIAN_LIMIT:.2} | {median:.2} | {} |", verdict(median <= MEDIAN_LIMIT));
    let (ours, stock) = (sizes.0.div_ceil(1000), sizes.1.div_ceil(1000));
    let _ = writeln!(
        text,
        "| `libtvm_ffi.so`, stripped (stock: {stock} KB) | {} KB | {ours} KB | {} |",
        SIZE_LIMIT / 1000,
        verdict(sizes.0 <= SIZE_LIMIT)
    );
    if !slower.is_empty() {
        let _ = writeln!(text, "\nSlower than stock: {}.", slower.join("; "));
    }
    text.push_str("\nRatios are medians of each round's ratio. Repeat with `cargo xtask bench runtime`.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_one_of_the_programs() {
        let c = include_str!("../../../tests/bench/runtime/caller.c");
        let python = include_str!("../../../tests/bench/runtime/caller.py");
        for case in &FROM_C {
            assert!(c.contains(&format!("    {{\"{}\", bench_{}}},", case.name, case.name)), "{}", case.name);
        }
        assert_eq!(c.matches("    {\"").count(), FROM_C.len(), "the C program has cases that are not measured");
        for case in &FROM_PYTHON {
            assert!(python.contains(&format!("    \"{}\": (", case.name)), "{}", case.name);
        }
        assert_eq!(
            python.matches(": (").count(),
            FROM_PYTHON.len(),
            "the Python program has cases that are not measured"
        );
    }

    #[test]
    fn the_report_judges_each_case_and_the_median() {
        let mut c = vec![Pair::of(50.0, 100.0); FROM_C.len()];
        c[0] = Pair::of(1_500_000.0, 1_000_000.0);
        let python = vec![Pair::of(60.0, 100.0); FROM_PYTHON.len()];
        let report = report(&c, &python, (1_400_001, 2_500_000), 1, "a machine");
        for expected in [
            "| call a C function through `TVMFFIFunctionCall` | 1.50 ms | 1.00 ms | 1.50 |",
            "| every operation, ours / stock | 1.00 | 1.50 | missed |",
            "| median of all | 0.70 | 0.50 | met |",
            "| `libtvm_ffi.so`, stripped (stock: 2500 KB) | 1500 KB | 1401 KB | met |",
            "Slower than stock: call a C function through `TVMFFIFunctionCall` (from c, 1.50).",
        ] {
            assert!(report.contains(expected), "{expected}\n{report}");
        }
    }
}
