//! `cargo xtask bench modules`: loading, looking up and serializing modules, ours beside the stock
//! loader and Apache TVM, in interleaved rounds. Each sample is a process of its own, because a
//! library is loaded once.

use super::devices::{self, Launches};
use super::figures::{duration, two_digits, verdict};
use super::machine::Machine;
use super::programs;
use super::samples::Pair;
use crate::Result;
use crate::apache_tvm;
use crate::opencl;
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path, shared_library};
use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Functions of the large library.
const FUNCTIONS: usize = 1_000;

/// Images of the large library, and bytes of each: 256 MiB in all.
const IMAGES: usize = 8;
const IMAGE_SIZE: usize = 32 << 20;

/// Modules of the tree. Module `i` imports modules `2 i + 1` and `2 i + 2`: a shape that Apache TVM
/// can serialize as well.
const MODULES: usize = 1_000;

/// Bytes of a module of the tree.
const MODULE_SIZE: usize = 64;

/// One row of the table: its name in the programs, its text, and the goal for the ratio, if there
/// is one.
struct Case {
    name: &'static str,
    what: &'static str,
    peer: &'static str,
    limit: Option<f64>,
}

const fn case(name: &'static str, what: &'static str, peer: &'static str, limit: Option<f64>) -> Case {
    Case { name, what, peer, limit }
}

const CASES: [Case; 5] = [
    case("load", "load a library of 1,000 functions and 256 MiB of images", "stock loader", Some(0.1)),
    case("first", "look a function up for the first time (and remember it)", "stock loader", None),
    case("later", "look it up again", "stock loader", Some(1.0)),
    case("restore", "load a library with a tree of 1,000 modules", "stock loader", Some(1.0)),
    case("serialize", "serialize a tree of 1,000 modules", "Apache TVM, from Python", Some(1.0)),
];

/// Builds, measures, prints the table and writes it to `target/bench/modules.md`.
pub(crate) fn run(rounds: usize) -> Result {
    let workspace = Workspace::find()?;
    let python = Python::prepare(&workspace)?;
    let with_tvm = apache_tvm::interpreter(&workspace)?;
    let sources = workspace.root().join("tests/bench");
    let ours = programs::build_cargo(
        &workspace,
        &python,
        &sources,
        "bench-ours",
        "release",
        &["--package", "kernpack-bench-modules"],
    )?
    .join("kernpack-bench-modules");
    let stock = build_stock(&workspace, &python, &sources)?;
    let large = large_library(&workspace)?;
    let tree = tree_library(&workspace)?;
    let imports = imports_file(&workspace)?;

    println!("> measure {} cases in {rounds} rounds", CASES.len());
    let mut pairs = vec![Pair::default(); CASES.len()];
    // The first round is not measured: it loads the files into memory for both.
    for round in 0..=rounds {
        for turn in 0..2 {
            let is_ours = (turn + round) % 2 == 0;
            let mut samples = Vec::new();
            let program = if is_ours { &ours } else { &stock };
            samples.extend(ask(workspace.command(program).arg("load").arg(&large).arg(FUNCTIONS.to_string()))?);
            let restored = ask(workspace.command(program).arg("load").arg(&tree).arg("0"))?;
            samples.extend(restored.into_iter().map(|(_, time)| ("restore".to_owned(), time)));
            let mut serialize = workspace.command(if is_ours { &ours } else { &with_tvm });
            if is_ours {
                serialize.arg("serialize");
            } else {
                serialize.arg(sources.join("modules/serialize.py"));
            }
            samples.extend(ask(serialize.arg(&imports).arg("5"))?);
            if round == 0 {
                continue;
            }
            for (case, pair) in CASES.iter().zip(&mut pairs) {
                // Of several samples of one process, the last: the first ones include one-time
                // costs.
                let (_, time) = samples
                    .iter()
                    .rfind(|(name, _)| name == case.name)
                    .ok_or_else(|| format!("the programs did not measure '{}'", case.name))?;
                if is_ours { pair.ours.push(*time) } else { pair.peer.push(*time) }
            }
        }
    }
    let lock = "tests/bench/Cargo.lock";
    let machine = Machine::find(&workspace)
        .program("rustc")
        .program("c++")
        .packages(&with_tvm, &["apache-tvm", "apache-tvm-ffi"])?
        .crates(lock, "kernpack-bench-cuda-launch", &["cudarc"])?
        .crates(lock, "kernpack-bench-opencl", &["opencl-sys"])?
        .to_string();
    let mut report = report(&pairs, rounds, &machine);
    let launches = Launches::build(&workspace, &python)?;
    let alone = launches.without_driver(&workspace)?;
    report += &devices::table("CUDA launch, with a driver that does nothing", "cudarc", &alone);
    report += &devices::table("CUDA launch on this machine's GPU", "cudarc", &launches.with_driver(&workspace)?);
    let opencl = devices::opencl(&workspace, &python, &opencl::prepare(&workspace)?)?;
    report += &devices::table("OpenCL (opencl:0)", "clEnqueue*", &opencl);
    println!("\n{report}");
    let file = workspace.folder("bench")?.join("modules.md");
    fs::write(&file, report).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!("written to {}", file.display());
    Ok(())
}

/// Runs a program and reads its lines `name<TAB>nanoseconds`.
fn ask(command: &mut Command) -> Result<Vec<(String, f64)>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot start {name}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name} failed ({}); its message is above", output.status).into());
    }
    let mut samples = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let parsed = line.split_once('\t').and_then(|(name, time)| Some((name.to_owned(), time.parse().ok()?)));
        samples.push(parsed.ok_or_else(|| format!("{name}: expected a name and a number, got '{line}'"))?);
    }
    Ok(samples)
}

/// Compiles the C++ program against the wheel's headers and its `libtvm_ffi`.
fn build_stock(workspace: &Workspace, python: &Python, sources: &Path) -> Result<PathBuf> {
    let program = workspace.folder("bench")?.join("modules-caller");
    programs::compile_cpp(workspace, python, &sources.join("modules/caller.cc"), &program, &[])?;
    Ok(program)
}

/// A library of many functions that carries large images.
fn large_library(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.folder("bench/modules")?;
    let image = folder.join("image.bin");
    let mut out = BufWriter::new(File::create(&image)?);
    // All pages differ, and no page is zero.
    for word in 0..IMAGE_SIZE as u64 / 8 {
        out.write_all(&(word.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1).to_le_bytes())?;
    }
    out.flush()?;
    let mut assembly = Blob::new(&[(1..=IMAGES).collect::<Vec<_>>()], IMAGES);
    for _ in 0..IMAGES {
        assembly.module("bench_kept", IMAGE_SIZE, &format!(".incbin \"{}\"", image.display()));
    }
    let mut source = String::from("typedef struct { int index, zero; long long value; } Any;\n");
    for number in 0..FUNCTIONS {
        let _ = writeln!(
            source,
            "int __tvm_ffi_function_{number}(void* self, const Any* args, int n, Any* ret) \
             {{ ret->index = 1; ret->zero = 0; ret->value = {number}; return 0; }}"
        );
    }
    fs::write(folder.join("functions.c"), source)?;
    link(workspace, &folder, "large", assembly, &["functions.c"])
}

/// A library with a tree of many small modules.
fn tree_library(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.folder("bench/modules")?;
    // The library is the root and imports the tree's root.
    let rows: Vec<Vec<usize>> = (0..=MODULES)
        .map(|module| match module {
            0 => vec![1],
            _ => children(module - 1).map(|child| child + 1).collect(),
        })
        .collect();
    let mut assembly = Blob::new(&rows, MODULES);
    for module in 0..MODULES {
        assembly.module("bench_kept", MODULE_SIZE, &format!(".fill {MODULE_SIZE}, 1, {}", module % 255 + 1));
    }
    link(workspace, &folder, "tree", assembly, &[])
}

/// The modules that a module of the tree imports.
fn children(module: usize) -> impl Iterator<Item = usize> {
    [2 * module + 1, 2 * module + 2].into_iter().filter(|child| *child < MODULES)
}

/// The import lists of the tree, for the programs that build it themselves.
fn imports_file(workspace: &Workspace) -> Result<PathBuf> {
    let path = workspace.folder("bench/modules")?.join("imports.txt");
    let line = |module| children(module).map(|child| child.to_string()).collect::<Vec<_>>().join(" ") + "\n";
    fs::write(&path, (0..MODULES).map(line).collect::<String>())?;
    Ok(path)
}

/// An assembly file that defines `__tvm_ffi__library_bin` with the library as its first module.
struct Blob {
    text: String,
}

impl Blob {
    /// The import tree of the library and `modules` more; missing rows at the end are empty.
    fn new(rows: &[Vec<usize>], modules: usize) -> Self {
        let mut text = String::from(
            ".section .rodata\n.globl __tvm_ffi__library_bin\n.balign 16\n__tvm_ffi__library_bin:\n.quad end - start\nstart:\n",
        );
        let _ = writeln!(text, ".quad {}, 0", modules + 2);
        let mut total = 0;
        for module in 0..=modules {
            total += rows.get(module).map_or(0, Vec::len);
            let _ = writeln!(text, ".quad {total}");
        }
        let _ = writeln!(text, ".quad {total}");
        for child in rows.iter().flatten() {
            let _ = writeln!(text, ".quad {child}");
        }
        text.push_str(".quad 4\n.ascii \"_lib\"\n");
        Self { text }
    }

    fn module(&mut self, kind: &str, size: usize, content: &str) {
        let _ = write!(self.text, ".quad {}\n.ascii \"{kind}\"\n.quad {size}\n{content}\n", kind.len());
    }
}

/// Links a blob and C files into a library.
fn link(workspace: &Workspace, folder: &Path, name: &str, blob: Blob, sources: &[&str]) -> Result<PathBuf> {
    let assembly = folder.join(format!("{name}.s"));
    fs::write(&assembly, blob.text + "end:\n.section .note.GNU-stack,\"\",@progbits\n")?;
    let library = shared_library(folder, name);
    let compiler = env::var_os("CC")
        .map(PathBuf::from)
        .or_else(|| ["cc", "gcc", "clang"].into_iter().find_map(find_on_path))
        .ok_or("no C compiler on PATH: install one (Debian: apt-get install gcc), or set CC")?;
    let mut command = workspace.command(compiler);
    command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&assembly);
    command.args(sources.iter().map(|source| folder.join(source)));
    step::run(&format!("link the library '{name}'"), &mut command, Show::Warnings)?;
    Ok(library)
}

/// The table in Markdown.
fn report(pairs: &[Pair], rounds: usize, machine: &str) -> String {
    let mut text = format!(
        "Modules, ours beside the peer: medians of {rounds} interleaved rounds, each in new processes, one run ({machine}).\n\n\
         | | ours | peer | ours / peer | goal | |\n|---|---:|---:|---:|---:|---|\n"
    );
    for (case, pair) in CASES.iter().zip(pairs) {
        let ratio = pair.ratio();
        let [ours, peer] = [&pair.ours, &pair.peer].map(|samples| duration(samples.median()));
        let goal = case.limit.map_or("".to_owned(), |limit| format!("{limit:.2}"));
        let judged = case.limit.map_or("", |limit| verdict(ratio <= limit));
        let _ = writeln!(
            text,
            "| {} | {ours} | {peer} ({}) | {} | {goal} | {judged} |",
            case.what,
            case.peer,
            two_digits(ratio)
        );
    }
    text.push_str("\nRatios are medians of each round's ratio. Repeat with `cargo xtask bench modules`.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_has_every_module_once() {
        let mut imported: Vec<usize> = (0..MODULES).flat_map(children).collect();
        imported.sort_unstable();
        assert_eq!(imported, (1..MODULES).collect::<Vec<_>>());
    }

    #[test]
    fn the_blob_says_where_the_rows_are() {
        let blob = Blob::new(&[vec![1, 2]], 2);
        let numbers: Vec<&str> = blob.text.lines().filter_map(|line| line.strip_prefix(".quad ")).collect();
        // Row pointers of three modules, the number of imports, the imports, the length of "_lib".
        assert_eq!(numbers, ["end - start", "4, 0", "2", "2", "2", "2", "1", "2", "4"]);
    }

    #[test]
    fn the_report_judges_each_case() {
        let mut pairs = vec![Pair::of(50.0, 100.0); CASES.len()];
        pairs[0] = Pair::of(1_000_000.0, 100_000_000.0);
        pairs[4] = Pair::of(300.0, 200.0);
        let report = report(&pairs, 1, "a machine");
        for expected in [
            "| load a library of 1,000 functions and 256 MiB of images | 1.00 ms | 100 ms (stock loader) | 0.010 | 0.10 | met |",
            "| serialize a tree of 1,000 modules | 300 ns | 200 ns (Apache TVM, from Python) | 1.50 | 1.00 | missed |",
        ] {
            assert!(report.contains(expected), "{expected}\n{report}");
        }
    }
}
