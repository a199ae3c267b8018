//! Libraries for 64-bit Arm, built on another machine: they do not depend on the CPU of that
//! machine, or on the flags for its own programs.

use std::env;
use std::process::Command;

use kernpack_skip::skip;

use crate::library::BuiltLibrary;
use crate::package::{Package, loop_ir};

pub(crate) const TARGET: &str = "aarch64-unknown-linux-gnu";

fn loop_c(name: &str) -> String {
    format!(
        "#include <kernpack/kernel.h>\n\
         KERNPACK_KERNEL({name}) {{\n\
           const float* from = (const float*)args; float* to = (float*)result;\n\
           for (int i = 0; i < 1024; ++i) to[i] = from[i] + 1.0f;\n  return 0;\n}}\n"
    )
}

const KERNELS: [&str; 3] = ["c", "cpp", "ir"];

fn package(name: &str, calls: &str) -> Package {
    Package::new(name, &format!(".c([\"c.c\", \"cpp.cpp\"]).llvm_ir([\"ir.ll\"]){calls}"))
        .file("c.c", &loop_c("c"))
        .file("cpp.cpp", &loop_c("cpp"))
        .file("ir.ll", &loop_ir("ir", ""))
}

/// The output of a program, without blanks at the ends; empty if it cannot be run.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// Returns true if rustc has the standard library for the target, also if
/// `CARGO_TARGET_..._RUSTFLAGS` provides it.
pub(crate) fn has_standard_library() -> bool {
    let flags = env::var("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS").unwrap_or_default();
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let folder = output("rustc", &[&flags[..], &["--print", "target-libdir", "--target", TARGET]].concat());
    let mut files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
}

/// Returns true if the standard library and the compilers for the target are installed. If they are
/// not, prints a line about the skipped test, and panics on CI.
fn is_there() -> bool {
    let found = has_standard_library() && !output("aarch64-linux-gnu-g++", &["-dumpmachine"]).is_empty();
    if !found {
        skip(format_args!(
            "building for 64-bit ARM needs rustup target add {TARGET} and, on Debian and Ubuntu, apt-get install \
             g++-aarch64-linux-gnu"
        ));
    }
    found
}

const LINKER: (&str, &str) = ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");

fn build(package: &Package, variables: &[(&str, &str)]) -> BuiltLibrary {
    let built = package.cargo(&["build", "--target", TARGET], &[&[LINKER], variables].concat());
    assert!(built.success, "{}", built.stderr);
    package.library(&format!("{TARGET}/debug"))
}

/// Builds, which must fail, and returns the error message of the build script.
fn failure(package: &Package, variables: &[(&str, &str)]) -> String {
    let built = package.cargo(&["build", "--target", TARGET], &[&[LINKER], variables].concat());
    assert!(!built.success, "the build succeeded:\n{}", built.stderr);
    let message = built.stderr.split("--- stderr\n").nth(1).unwrap_or_else(|| panic!("{}", built.stderr));
    message.lines().take_while(|line| !line.starts_with("warning: ")).map(str::trim).collect::<Vec<_>>().join("\n")
}

/// Returns true if the code has SVE instructions, which are not in any baseline (Arm A64
/// instruction set: op0 of the top-level encoding is 2).
fn uses_sve(code: &[u8]) -> bool {
    let words = code.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    words.filter(|word| word >> 25 & 0b1111 == 0b0010).count() > 0
}

/// Returns true if the code has instructions of the vector unit that every 64-bit Arm CPU has (op0
/// is 0b0111 or 0b1111, or a load of a vector register).
fn uses_vectors(code: &[u8]) -> bool {
    let words = code.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    words.filter(|word| word >> 25 & 0b0111 == 0b0111).count() > 0
}

#[test]
fn flags_for_this_machine_stay_on_it() {
    if !is_there() {
        return;
    }
    let package = package("for-arm", "");
    let library = build(&package, &[]);
    assert_eq!(library.machine(), object::Architecture::Aarch64);
    assert_eq!(library.packed_functions(), KERNELS);
    let baseline = KERNELS.map(|name| library.code(name));
    for (name, code) in KERNELS.iter().zip(&baseline) {
        assert!(uses_vectors(code) && !uses_sve(code), "{name}");
    }
    let host = if cfg!(target_arch = "x86_64") { "-march=native -m64" } else { "-mcpu=native" };
    let native: [(&str, &str); 6] = [
        ("HOST_CFLAGS", host),
        ("HOST_CXXFLAGS", host),
        ("CFLAGS_x86_64_unknown_linux_gnu", host),
        ("CFLAGS_x86_64-unknown-linux-gnu", host),
        ("CXXFLAGS_x86_64_unknown_linux_gnu", host),
        ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-Ctarget-cpu=native"),
    ];
    let library = build(&package, &native);
    assert_eq!(KERNELS.map(|name| library.code(name)), baseline);

    // A CPU of the target is allowed.
    let package = package_for_cpu("a64fx");
    let library = build(&package, &[]);
    for name in KERNELS {
        assert!(uses_sve(&library.code(name)), "{name}");
    }
}

fn package_for_cpu(cpu: &str) -> Package {
    package(&format!("for-arm-{cpu}"), &format!(".cpu(\"{cpu}\")"))
}

#[test]
fn the_cpu_of_this_machine_is_an_error() {
    if !is_there() {
        return;
    }
    let host = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    if host == TARGET {
        return;
    }
    let told = |origin: &str| {
        format!(
            "Error: {origin} is \"native\", but the target is {TARGET} and this machine is {host}; name the CPU of the target"
        )
    };
    assert_eq!(failure(&package_for_cpu("native"), &[]), told(".cpu(..)"));
    let plain = package("for-arm-errors", "");
    // Like RUSTFLAGS, but in addition to the flags with the path of the standard library.
    let name = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS";
    let flags = format!("{} -Ctarget-cpu=native", env::var(name).unwrap_or_default());
    assert_eq!(failure(&plain, &[(name, flags.trim())]), told("-C target-cpu"));
    assert_eq!(
        failure(&package_for_cpu("x86-64-v3"), &[]),
        format!(
            "Error: .cpu(..) is \"x86-64-v3\", which is not a CPU of {TARGET}; `rustc --print target-cpus --target {TARGET}` lists them"
        )
    );
    let flags = |origin: &str, flag: &str, kind: &str| {
        format!(
            "{origin} has {flag}, but the target is {TARGET} and this machine is {host}; name the CPU of the target, and say what \
             this machine's own programs need in HOST_{kind}"
        )
    };
    assert_eq!(
        failure(&plain, &[("CFLAGS", "-march=native"), ("CXXFLAGS_aarch64_unknown_linux_gnu", "-mcpu=native")]),
        format!(
            "Error: 2 problems\n\nc.c: {}\n\ncpp.cpp: {}",
            flags("CFLAGS", "-march=native", "CFLAGS"),
            flags("CXXFLAGS_aarch64_unknown_linux_gnu", "-mcpu=native", "CXXFLAGS")
        )
    );
    let flagged = package("for-arm-flag", ".flag(\"-march=native\")");
    let message = failure(&flagged, &[]);
    assert!(message.contains(&format!("c.c: {}", flags(".flag(..)", "-march=native", "CFLAGS"))), "{message}");
    // The compiler rejects a flag of another architecture, and its message is shown.
    let message = failure(&package("for-arm-m64", ".flag(\"-m64\")"), &[]);
    assert!(
        message.contains("c.c: the C compiler failed (exit status: 1)\ncommand: ") && message.contains("-m64"),
        "{message}"
    );
}

/// A library with a packed function that a kernel calls by its name.
const LIBRARY: &str = r#"
//! Scratch.
kernpack::library!();

/// Writes the elements in the other order.
#[kernpack::packed_func]
pub fn reverse(x: kernpack::TensorView<'_, f32>, mut out: kernpack::TensorViewMut<'_, f32>) -> kernpack::Result<()> {
    out.as_slice_mut()?.copy_from_slice(x.as_slice()?);
    out.as_slice_mut()?.reverse();
    Ok(())
}
"#;

/// A program that calls kernels of the library `te_for_arm` and compares the results with those of
/// plain loops.
const PROGRAM: &str = r#"
use kernpack::{Result, Tensor};
use te_for_arm::kernels::typed;

fn main() -> Result<()> {
    let (m, n, d) = (13usize, 24usize, 40usize);
    let shape = |extents: [usize; 2]| extents.map(|extent| extent as i64);
    let values = |count: usize, seed: usize| -> Vec<f32> { (0..count).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect() };
    let (a, w) = (values(m * d, 1), values(n * d, 2));
    let out = Tensor::from_vec(vec![f32::NAN; m * n], &shape([m, n]))?;
    typed::dense(&Tensor::from_vec(a.clone(), &shape([m, d]))?, &Tensor::from_vec(w.clone(), &shape([n, d]))?, &out)?;
    let expected: Vec<f32> = (0..m * n)
        .map(|at| (0..d).map(|k| a[at / n * d + k] * w[at % n * d + k]).sum::<f32>().max(0.0))
        .collect();
    println!("dense: {}", out.view::<f32>()?.to_vec() == expected);

    let x: Vec<f32> = (0..101).map(|i| i as f32 / 5.0 - 10.0).collect();
    let out = Tensor::from_vec(vec![f32::NAN; x.len()], &[x.len() as i64])?;
    let input = Tensor::from_vec(x.clone(), &[x.len() as i64])?;
    typed::tanh_exp(&input, &out)?;
    let near = |(x, y): (&f32, f32)| (f64::from(y) / f64::from(*x).exp().tanh() - 1.0).abs() < 1e-6;
    println!("tanh_exp: {}", x.iter().zip(out.view::<f32>()?.to_vec()).all(near));

    typed::reversed(&input, &out)?;
    println!("reversed: {}", out.view::<f32>()?.to_vec().iter().rev().eq(x.iter()));

    let wrong = Tensor::from_vec(vec![0.0f32; 5], &[5])?;
    println!("{}", typed::tanh_exp(&input, &wrong).unwrap_err().message().lines().next().unwrap_or_default());
    Ok(())
}
"#;

/// The output of [`te_program`].
pub(crate) const TE_PROGRAM_PRINTS: &str =
    "dense: true\ntanh_exp: true\nreversed: true\nMismatched out.shape[0] on argument #1 when calling:\n";

/// Returns a package with kernels from tensor expressions, and a program that calls them.
pub(crate) fn te_program(folder: &str) -> Package {
    let calls = "
        .te(\"dense\", |k| {
            let m = k.size(\"m\");
            let a = k.input(\"a\", (&m, 40), F32);
            let w = k.input(\"w\", (24, 40), F32);
            let r = reduce_axis(0, 40, \"r\");
            let c = compute((&m, 24), |[i, j]| sum(a.at([&i, &r]) * w.at([&j, &r]), &r)).named(\"c\");
            k.output(\"out\", compute((&m, 24), |[i, j]| max(c.at([&i, &j]), 0.0)));
            Ok(())
        })
        .te(\"tanh_exp\", |k| {
            let n = k.size(\"n\");
            let x = k.input(\"x\", [&n], F32);
            k.output(\"out\", compute([&n], |[i]| tanh(exp(x.at([&i])))));
            Ok(())
        })
        .te(\"reversed\", |k| {
            let n = k.size(\"n\");
            let x = k.input(\"x\", [&n], F32);
            let outs = extern_op(\"reversed\", [&x]).output([&n], F32).call_packed(\"te_for_arm.reverse\");
            k.output(\"out\", outs[0].clone());
            Ok(())
        })";
    let package =
        Package::in_folder(folder, "te-for-arm", calls).file("src/lib.rs", LIBRARY).file("src/main.rs", PROGRAM);
    let script = std::fs::read_to_string(package.dir.join("build.rs")).expect("it was written");
    package.write("build.rs", &format!("use kernpack_build::te::*;\n{script}"));
    package
}

#[test]
fn kernels_from_tensor_expressions_run_there() {
    if !is_there() {
        return;
    }
    if Command::new("qemu-aarch64").arg("--version").output().is_err() {
        return skip("programs for 64-bit ARM need qemu-aarch64 (Debian and Ubuntu: qemu-user)");
    }
    let package = te_program("te-for-arm");
    let library = build(&package, &[]);
    assert_eq!(library.machine(), object::Architecture::Aarch64);
    assert_eq!(library.packed_functions(), ["dense", "reverse", "reversed", "tanh_exp"]);
    for name in ["dense", "tanh_exp"] {
        assert!(!uses_sve(&library.code(name)), "{name}");
    }
    let program = package.program_path(&format!("{TARGET}/debug"));
    let mut emulator = Command::new("qemu-aarch64");
    let output = emulator.args(["-L", "/usr/aarch64-linux-gnu"]).arg(program).env_remove("LD_LIBRARY_PATH").output();
    let output = output.expect("qemu runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), TE_PROGRAM_PRINTS);
}
