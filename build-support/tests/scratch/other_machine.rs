//! Libraries for 64-bit ARM, built on another machine: nothing in them comes from that machine's CPU, nor from what its own programs
//! are told.

use std::env;
use std::io::Write as _;
use std::process::Command;

use crate::library::BuiltLibrary;
use crate::package::{Package, loop_ir};

const TARGET: &str = "aarch64-unknown-linux-gnu";

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

/// Whether there are a standard library and compilers for the target; if not, a line that says so, and on CI a panic.
fn is_there() -> bool {
    let output = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    };
    let flags = env::var("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS").unwrap_or_default();
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let folder = output("rustc", &[&flags[..], &["--print", "target-libdir", "--target", TARGET]].concat());
    let mut files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let found = files.any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
        && !output("aarch64-linux-gnu-g++", &["-dumpmachine"]).is_empty();
    if !found {
        assert!(env::var_os("CI").is_none(), "cannot be skipped on CI");
        let _ = writeln!(
            std::io::stderr(),
            "skipped: building for 64-bit ARM needs rustup target add {TARGET} and, on Debian and Ubuntu, apt-get install \
             g++-aarch64-linux-gnu"
        );
    }
    found
}

const LINKER: (&str, &str) = ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");

fn build(package: &Package, variables: &[(&str, &str)]) -> BuiltLibrary {
    let built = package.cargo(&["build", "--target", TARGET], &[&[LINKER], variables].concat());
    assert!(built.success, "{}", built.stderr);
    package.library(&format!("{TARGET}/debug"))
}

/// What the build script says when it fails.
fn failure(package: &Package, variables: &[(&str, &str)]) -> String {
    let built = package.cargo(&["build", "--target", TARGET], &[&[LINKER], variables].concat());
    assert!(!built.success, "the build succeeded:\n{}", built.stderr);
    let message = built.stderr.split("--- stderr\n").nth(1).unwrap_or_else(|| panic!("{}", built.stderr));
    message.lines().take_while(|line| !line.starts_with("warning: ")).map(str::trim).collect::<Vec<_>>().join("\n")
}

/// Whether code has instructions of SVE, which no baseline has (Arm A64 instruction set: the top-level encoding's op0 is 2).
fn uses_sve(code: &[u8]) -> bool {
    let words = code.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    words.filter(|word| word >> 25 & 0b1111 == 0b0010).count() > 0
}

/// Whether code has instructions of the vector unit that every CPU of 64-bit ARM has (op0 is 0b0111 or 0b1111, or a load of a vector
/// register).
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

    // A CPU of the target is another matter.
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
    // As RUSTFLAGS, but beside what says where the standard library is.
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
    // A flag of another machine's compiler is the compiler's to refuse; what it says is shown.
    let message = failure(&package("for-arm-m64", ".flag(\"-m64\")"), &[]);
    assert!(
        message.contains("c.c: the C compiler failed (exit status: 1)\ncommand: ") && message.contains("-m64"),
        "{message}"
    );
}
