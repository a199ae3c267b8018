//! Functions, types, modules and images survive every profile and linker: `tests/profiles` is built
//! in six ways, which cover every pair of these settings: stripped or not; no LTO, thin, fat;
//! optimized for speed or for size; panics that unwind or abort; rust-lld or GNU ld. A build with
//! the dev profile gives the expected contents.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernpack::{Bytes, Function, Module, Tensor};
use serde_json::Value;

/// One way to build.
struct Way {
    strip: &'static str,
    lto: &'static str,
    opt_level: &'static str,
    panic: &'static str,
    linker: &'static str,
}

const fn way(
    strip: &'static str,
    lto: &'static str,
    opt_level: &'static str,
    panic: &'static str,
    linker: &'static str,
) -> Way {
    Way { strip, lto, opt_level, panic, linker }
}

/// Thin and fat LTO use the same two builds of the runtime, as bitcode alone: see [`Way::build`].
const WAYS: [Way; 6] = [
    way("none", "off", "3", "abort", "rust-lld"),
    way("symbols", "off", "z", "unwind", "GNU ld"),
    way("none", "thin", "3", "unwind", "GNU ld"),
    way("symbols", "thin", "z", "abort", "rust-lld"),
    way("symbols", "fat", "3", "unwind", "rust-lld"),
    way("none", "fat", "z", "abort", "GNU ld"),
];

/// The variable with the library that this program, started again, calls.
const LIBRARY: &str = "KERNPACK_TEST_PROFILES";
/// The variable that is set if panics of that library end the process.
const ABORTS: &str = "KERNPACK_TEST_ABORTS";

/// The target folder of the tests, so that build scripts and macros are compiled once.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a folder of the target folder").into()
}

/// Builds the library in one way and puts it into a separate folder.
fn build(name: &str, profile: &str, variables: &[(&str, &str)], rustc_flags: &[&str]) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["rustc", "--package", "kernpack-profiles", "--lib"]);
    cargo.args(["--profile", profile, "--target-dir"]).arg(target()).envs(variables.iter().copied());
    let output = cargo.arg("--").args(rustc_flags).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("profiles").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let (file, profile) = ("libprofiles.so", if profile == "dev" { "debug" } else { profile });
    // The tests may have loaded an earlier one: creates a new file instead of overwriting the old
    // one.
    let _ = std::fs::remove_file(folder.join(file));
    std::fs::copy(target().join(profile).join(file), folder.join(file)).unwrap();
    folder.join(file)
}

impl Way {
    /// The profile has the settings that the runtime crates are compiled with. Settings that only
    /// matter for linking are passed only to the final crate, where they take precedence, so the
    /// runtime is built four times, not six. (For thin and for fat LTO cargo builds the same
    /// bitcode.)
    fn build(&self, number: usize) -> PathBuf {
        let variables = [
            ("CARGO_PROFILE_RELEASE_STRIP", "none"),
            ("CARGO_PROFILE_RELEASE_LTO", if self.lto == "off" { "off" } else { "thin" }),
            ("CARGO_PROFILE_RELEASE_OPT_LEVEL", self.opt_level),
            ("CARGO_PROFILE_RELEASE_PANIC", self.panic),
        ];
        let mut flags = Vec::new();
        if self.strip == "symbols" {
            flags.push("-Cstrip=symbols");
        }
        if self.lto == "fat" {
            flags.push("-Clto=fat");
        }
        if self.linker == "GNU ld" {
            flags.push("-Clinker-features=-lld");
        }
        build(&number.to_string(), "release", &variables, &flags)
    }
}

/// Every value of each setting is combined with every value of each other setting.
#[test]
fn every_pair_is_there() {
    let values = |way: &Way| [way.strip, way.lto, way.opt_level, way.panic, way.linker];
    let choices: [&[&str]; 5] =
        [&["none", "symbols"], &["off", "thin", "fat"], &["3", "z"], &["unwind", "abort"], &["rust-lld", "GNU ld"]];
    for (first, ones) in choices.iter().enumerate() {
        for (second, others) in choices.iter().enumerate().skip(first + 1) {
            for (one, other) in ones.iter().flat_map(|one| others.iter().map(move |other| (one, other))) {
                let is_there = WAYS.iter().map(values).any(|way| way[first] == *one && way[second] == *other);
                assert!(is_there, "{one} with {other}");
            }
        }
    }
}

/// Returns the output of `cargo kernpack inspect` for a library, without the parts that may differ:
/// its path and the sizes of files.
fn inspected(library: &Path) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-kernpack"));
    let output = command.args(["kernpack", "inspect", "--load", "--json"]).arg(library).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut read: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(read["loaded"]["problem"].is_null(), "{read}");
    for key in ["path", "file", "size"] {
        read.as_object_mut().unwrap().remove(key);
    }
    read
}

/// Returns the results of a separate program that calls everything in the library.
fn called(library: &Path, aborts: bool) -> String {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "a_program_calls_everything", "--nocapture"]).env(LIBRARY, library);
    if aborts {
        program.env(ABORTS, "1");
    }
    let output = program.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().filter(|line| line.starts_with("called ")).map(|line| format!("{line}\n")).collect()
}

/// Calls everything in the library that the variable names.
#[test]
fn a_program_calls_everything() -> kernpack::Result<()> {
    let Some(library) = std::env::var_os(LIBRARY) else { return Ok(()) };
    let module = Module::load(Path::new(&library))?;
    let mut report = String::new();
    let mut called = |what: &str, result: String| writeln!(report, "called {what}: {result}").unwrap();
    called("add", module.function("add")?.call_as::<i64>((40, 2))?.to_string());
    called("profiles.greet", Function::global("profiles.greet")?.call_as::<String>(("you",))?);
    let triple = Function::from_fn(|value: i64| value * 3);
    called("apply", module.function("apply")?.call_as::<i64>((triple, 5))?.to_string());
    called("fail", module.function("fail")?.call_as::<i64>(()).unwrap_err().to_string());
    if std::env::var_os(ABORTS).is_none() {
        called("panics", module.function("panics")?.call_as::<i64>(()).unwrap_err().message().to_owned());
    }
    let values = Tensor::from_slice(&[1.5, 2.5, 4.0], &[3])?;
    called("sum", module.function("sum")?.call_as::<f64>((&values,))?.to_string());
    called("twice", module.function("twice")?.call_as::<i64>((21,))?.to_string());
    called("answer", module.function("answer")?.call_as::<i64>(())?.to_string());
    let point = module.function("point")?.call(((3.0), (4.0)))?;
    called("point", format!("{point:?}"));
    for table in module.imports().iter().filter(|import| import.kind() == "profiles.table") {
        for table in [table.clone()].iter().chain(&table.imports()) {
            let bytes = table.function("bytes")?.call_as::<Bytes>(())?;
            let sum = bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
            called("table", format!("{} bytes, {sum:x}", bytes.len()));
        }
    }
    let images: Vec<String> = module.imports().iter().map(Module::kind).collect();
    called("imports", images.join(" "));
    for kernel in ["scale_cuda", "scale_opencl"] {
        // Without a device, and with CPU tensors on one, this is the kernel's own error.
        called(kernel, module.function(kernel)?.call((&values, 2.0)).map(drop).unwrap_err().to_string());
    }
    print!("\n{report}");
    Ok(())
}

#[test]
fn everything_survives_every_profile_and_linker() {
    let plain = build("dev", "dev", &[], &[]);
    let (expected, answers) = (inspected(&plain), called(&plain, false));
    println!("{expected:#}\n{answers}");
    let mut sizes = String::new();
    for (number, way) in WAYS.iter().enumerate() {
        let library = way.build(number);
        let Way { strip, lto, opt_level, panic, linker } = way;
        let name = format!("strip = {strip}, lto = {lto}, opt-level = {opt_level}, panic = {panic}, {linker}");
        writeln!(sizes, "{name}: {} bytes", std::fs::metadata(&library).unwrap().len()).unwrap();
        let aborts = *panic == "abort";
        assert_eq!(inspected(&library), expected, "{name}");
        let answers = answers.lines().filter(|line| !(aborts && line.starts_with("called panics: ")));
        assert_eq!(called(&library, aborts).lines().collect::<Vec<_>>(), answers.collect::<Vec<_>>(), "{name}");
    }
    println!("{sizes}");
}
