//! Kernels in several versions, one of which is selected when the library is loaded.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::process::{Command, Stdio};

use kernpack_skip::skip;

use crate::other_machine::{TARGET, has_standard_library};
use crate::package::{Package, c_kernel, ir_kernel, loop_ir};

/// The instruction set level of the compilation as a number: 1 for the baseline, 4 for x86-64-v4.
const VERSION: &str = "
#if defined(__AVX512F__) && defined(__AVX512VL__)
#define VERSION 4
#elif defined(__AVX2__) && defined(__FMA__)
#define VERSION 3
#elif defined(__SSE4_2__) && defined(__POPCNT__)
#define VERSION 2
#else
#define VERSION 1
#endif
";

/// Functions and variables that files share. Each version must have its own copy.
const SHARED_H: &str = r#"
#pragma once
#include <stdint.h>
#include "version.h"
#ifdef __cplusplus
#include <stdexcept>
#include <string>
#include <iostream>
extern "C" {
#endif
int64_t helper(void);
extern int64_t helper_state;
#ifdef __cplusplus
}
template <class T> __attribute__((noinline)) T from_template() { return T(VERSION); }
__attribute__((noinline)) inline int64_t from_inline() { static int64_t calls = 0; return ++calls * 0 + VERSION; }
struct Shape { virtual ~Shape() = default; virtual int64_t version() const { return VERSION; } };
struct Square : Shape { int64_t version() const override { return VERSION; } };
struct Failure : std::runtime_error { using std::runtime_error::runtime_error; };
/* Its constructor runs when the library is loaded, and would be an illegal instruction on a CPU without AVX-512. */
struct Table {
  float values[64];
  Table() { for (int i = 0; i < 64; ++i) values[i] = (float)i * 1.5f + VERSION; }
};
inline Table inline_table;
inline thread_local int64_t thread_state = VERSION;
#endif
"#;

const HELPER_C: &str = r#"
#include "shared.h"
int64_t helper_state = VERSION;
int64_t helper(void) { return VERSION * 10 + helper_state; }
"#;

const LOOP_C: &str = "
#include <kernpack/kernel.h>
KERNPACK_KERNEL(c_loop) {
  const float* from = (const float*)args; float* to = (float*)result;
  for (int i = 0; i < 1024; ++i) to[i] = from[i] + 1.0f;
  return 0;
}
";

const PLAIN_C: &str = r#"
#include <kernpack/kernel.h>
#include "shared.h"
KERNPACK_KERNEL(plain) { return kernpack_return_int(result, VERSION * 100 + helper()); }
KERNPACK_KERNEL(through) { return __tvm_ffi_plain(self, args, num_args, result); }
"#;

/// Both C++ files define the same inline functions, so that the linker has to choose.
const ONE_CPP: &str = r#"
#include <kernpack/kernel.h>
#include "shared.h"
Table table;
__attribute__((noinline)) static void fail() { throw Failure("x"); }
KERNPACK_KERNEL(one) {
  try { fail(); } catch (const std::runtime_error& error) { if (std::string(error.what()) != "x") return -1; }
  Shape* shape = new Square();
  int64_t of_shape = shape->version(), is_square = dynamic_cast<Square*>(shape) != nullptr;
  delete shape;
  int64_t value = from_template<int64_t>();
  value = value * 10 + from_inline();
  value = value * 10 + of_shape;
  value = value * 10 + (int64_t)table.values[0];
  value = value * 10 + (int64_t)inline_table.values[0];
  value = value * 10 + thread_state;
  value = value * 10 + is_square;
  return kernpack_return_int(result, value);
}
"#;

const TWO_CPP: &str = r#"
#include <kernpack/kernel.h>
#include "shared.h"
static int64_t order[4];
static int64_t count;
__attribute__((constructor)) static void last(void) { order[count++] = 3; }
__attribute__((constructor(200))) static void second(void) { order[count++] = 2; }
__attribute__((constructor(150))) static void first(void) { order[count++] = 1; }
KERNPACK_KERNEL(two) {
  int64_t value = from_template<int64_t>() * 100 + from_inline() * 10 + (int64_t)inline_table.values[0];
  return kernpack_return_int(result, value);
}
KERNPACK_KERNEL(constructed) {
  return kernpack_return_int(result, ((order[0] * 10 + order[1]) * 10 + order[2]) * 10 + count);
}
"#;

/// A variable that two files define, with its constructor, in the form that Clang emits for inline
/// variables of C++, of which the linker keeps one; and constructors of the file itself.
///
/// The kernel returns the number of runs of the first constructor, and the order of the others.
fn constructor_ir(name: &str) -> String {
    format!(
        "$ir_inline = comdat any
@ir_inline = linkonce_odr global i64 0, comdat, align 8
@order = internal global i64 0
@llvm.global_ctors = appending global [4 x {{ i32, ptr, ptr }}] [{{ i32, ptr, ptr }} {{ i32 65535, ptr @construct, ptr @ir_inline }},
  {{ i32, ptr, ptr }} {{ i32 65535, ptr @third, ptr null }}, {{ i32, ptr, ptr }} {{ i32 65535, ptr @last, ptr null }},
  {{ i32, ptr, ptr }} {{ i32 200, ptr @second, ptr null }}]
define internal void @third() {{\n  call void @note(i64 3)\n  ret void\n}}
define internal void @last() {{\n  call void @note(i64 4)\n  ret void\n}}
define internal void @second() {{\n  call void @note(i64 2)\n  ret void\n}}
define internal void @note(i64 %number) noinline {{
  %old = load i64, ptr @order
  %shifted = mul i64 %old, 10
  %new = add i64 %shifted, %number
  store i64 %new, ptr @order
  ret void
}}
define internal void @construct() comdat($ir_inline) {{
  %old = load i64, ptr @ir_inline
  %new = add i64 %old, 1
  store i64 %new, ptr @ir_inline
  ret void
}}
define i32 @__tvm_ffi_{name}(ptr %self, ptr %args, i32 %n, ptr %result) {{
  store i64 1, ptr %result
  %payload = getelementptr i64, ptr %result, i64 1
  %count = load i64, ptr @ir_inline
  %order = load i64, ptr @order
  %both = mul i64 %count, 1000
  %value = add i64 %both, %order
  store i64 %value, ptr %payload
  ret i32 0
}}\n"
    )
}

/// A variable of code from Apache TVM that the loader of the library sets. The kernel returns
/// whether it is set.
const CONTEXT_IR: &str = "
@__TVMFFIFunctionCall = weak dllexport local_unnamed_addr global ptr null, align 8
define i32 @__tvm_ffi_context(ptr %self, ptr %args, i32 %n, ptr %result) {
  store i64 1, ptr %result
  %function = load ptr, ptr @__TVMFFIFunctionCall
  %is_set = icmp ne ptr %function, null
  %number = zext i1 %is_set to i64
  %payload = getelementptr i64, ptr %result, i64 1
  store i64 %number, ptr %payload
  ret i32 0
}
";

/// A program that prints the results of all kernels, called in the program itself and in the shared
/// library.
const MAIN: &str = r#"
use scratch_versions::kernels as k;
fn main() {
    let names = ["plain", "through", "one", "two", "constructed", "ir_one", "ir_two"];
    let own = [&k::plain, &k::through, &k::one, &k::two, &k::constructed, &k::ir_one, &k::ir_two];
    let library = kernpack::Module::load(std::env::args().nth(1).unwrap()).unwrap();
    for (name, kernel) in names.into_iter().zip(own) {
        let value: i64 = kernel.call_as(()).unwrap();
        let other: i64 = library.function(name).unwrap().call_as(()).unwrap();
        assert_eq!(value, other, "{name}");
        print!("{name} {value} ");
    }
    let is_set: i64 = library.function("context").unwrap().call_as(()).unwrap();
    print!("context {is_set} ");
    let level: String = library.function("scratch_versions.cpu_level").unwrap().call_as(()).unwrap();
    let global: String = kernpack::Function::global("scratch_versions.cpu_level").unwrap().call_as(()).unwrap();
    assert_eq!(level, global);
    println!("{level} {}", k::one.cpu_level());
    assert!(kernpack::load_problems().is_empty());
}
"#;

fn versions() -> Package {
    let calls = r#"
        .c(["helper.c", "plain.c", "c_loop.c", "one.cpp", "two.cpp"])
        .llvm_ir(["loop.ll", "attributes.ll", "ir_one.ll", "ir_two.ll", "context.ll"])
        .llvm(|context, module| {
            let text = kernpack_build::inkwell::memory_buffer::MemoryBuffer::create_from_file("built.ll".as_ref())?;
            module.link_in_module(context.create_module_from_ir(text)?)?;
            Ok(())
        })
        .include(".")
        .multiversion(["x86-64-v4", "x86-64-v2", "x86-64-v3"])"#;
    Package::new("scratch-versions", calls)
        .file("version.h", VERSION)
        .file("shared.h", SHARED_H)
        .file("helper.c", HELPER_C)
        .file("plain.c", PLAIN_C)
        .file("c_loop.c", LOOP_C)
        .file("one.cpp", ONE_CPP)
        .file("two.cpp", TWO_CPP)
        .file("loop.ll", &loop_ir("loop", ""))
        .file(
            "attributes.ll",
            &loop_ir(
                "attributes",
                "\"target-cpu\"=\"x86-64\" \"target-features\"=\"+sse2\" \"prefer-vector-width\"=\"512\"",
            ),
        )
        .file("context.ll", CONTEXT_IR)
        .file("ir_one.ll", &constructor_ir("ir_one"))
        .file("ir_two.ll", &constructor_ir("ir_two"))
        .file("built.ll", &loop_ir("built", ""))
        .file("src/main.rs", MAIN)
}

/// Returns the expected output of the program for a version.
fn expected(version: i64) -> String {
    let level = ["baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4"][version as usize - 1];
    let plain = version * 100 + version * 10 + version;
    let one = version * 1_111_110 + 1;
    format!(
        "plain {plain} through {plain} one {one} two {plain} constructed 1233 ir_one 1234 ir_two 1234 context 1 {level} {level}\n"
    )
}

/// Runs the program and returns its stdout and stderr. It runs in qemu with the CPU model `cpu`, or
/// on this CPU if that is `None`; `cap` is the highest permitted version.
///
/// The process has the library twice, linked into the program and loaded at run time. The warning
/// of the runtime about this is removed from stderr.
fn run(package: &Package, cpu: Option<&str>, cap: Option<&str>) -> (String, String) {
    let program = package.program_path("debug");
    let mut command = match cpu {
        Some(cpu) => {
            let mut command = Command::new("qemu-x86_64");
            command.args(["-cpu", cpu]).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.arg(package.library_path("debug")).env_remove("KERNPACK_CPU_LEVEL");
    if let Some(cap) = cap {
        command.env("KERNPACK_CPU_LEVEL", cap);
    }
    let output = command.output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let twice = "kernpack: crate scratch_versions 0.1.0 is in this process already; its global functions stay those of the first copy\n";
    (text(output.stdout), text(output.stderr).replace(twice, ""))
}

/// Returns the level of this machine as a number.
fn machine() -> i64 {
    if is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512bw") {
        4
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        3
    } else {
        1 + i64::from(is_x86_feature_detected!("sse4.2"))
    }
}

/// Returns the number of instructions with a VEX prefix (AVX) and the number with an EVEX prefix
/// (AVX-512). 0xc5 and 0x62 are not valid opcodes in 64-bit code, but may be bytes inside other
/// instructions, so a single match proves nothing.
fn vector_instructions(code: &[u8]) -> (usize, usize) {
    let vex = code.windows(2).filter(|bytes| bytes[0] == 0xc5 && bytes[1] >= 0xe0).count();
    let evex = code.windows(2).filter(|bytes| *bytes == [0x62, 0xf1]).count();
    (vex, evex)
}

#[test]
fn every_version_is_whole_and_the_highest_is_picked() {
    let package = versions();
    package.forget();
    let library = package.build();
    #[rustfmt::skip]
    let kernels = [
        "attributes", "built", "c_loop", "constructed", "context", "ir_one", "ir_two", "loop", "one", "plain", "scratch_versions.cpu_level", "through", "two",
    ];
    assert_eq!(library.packed_functions(), kernels);
    let exported = library.exported("");
    assert!(exported.contains(&"helper".to_owned()), "the baseline's names stay");
    let inner: Vec<_> = exported.iter().filter(|name| name.contains(".x86_64") || name.contains(".baseline")).collect();
    assert!(inner.is_empty(), "{inner:?}");
    // A dispatcher is one jump.
    assert_eq!((library.code("plain").len(), &library.code("plain")[..2]), (6, &[0xff, 0x25][..]));
    // The code of LLVM and the C compiler: AVX from the third level on, and AVX-512 if the tuning
    // of the fourth level uses vectors of that width.
    for (kernel, wide) in [("c_loop", true), ("loop", false), ("attributes", true), ("built", false)] {
        for (version, vex, evex) in [
            ("baseline", false, false),
            ("x86_64_v2", false, false),
            ("x86_64_v3", true, false),
            ("x86_64_v4", true, wide),
        ] {
            let (v, e) = vector_instructions(&library.code(&format!("{kernel}.{version}")));
            assert_eq!((v + e >= 2, e >= 2), (vex, evex), "{kernel} for {version}: {v}, {e}");
        }
    }
    // A limit on the version.
    assert_eq!(run(&package, None, None), (expected(machine()), String::new()));
    for (version, name) in
        [(1, "baseline"), (1, "x86-64"), (2, "x86-64-v2"), (3, "x86-64-v3"), (4, "x86-64-v4"), (4, "")]
    {
        assert_eq!(run(&package, None, Some(name)), (expected(machine().min(version)), String::new()), "{name}");
    }
    let (out, err) = run(&package, None, Some("avx2"));
    assert_eq!(out, expected(machine()));
    let warning = "kernpack: KERNPACK_CPU_LEVEL is \"avx2\"; it may be baseline, x86-64-v2, x86-64-v3, x86-64-v4 or x86-64-v4-vnni. It is not \
                   considered: the highest level of this machine is picked\n";
    assert_eq!(err, warning.repeat(2), "from the program and from the library");
    // Linked by GNU ld instead of lld.
    let script = std::fs::read_to_string(package.dir.join("build.rs")).unwrap();
    let bfd = "() -> kernpack_build::Result<()> {\n    println!(\"cargo::rustc-link-arg=-fuse-ld=bfd\");\n";
    package.write("build.rs", &script.replace("() -> kernpack_build::Result<()> {\n", bfd));
    assert!(library.contains(b"Linker: LLD") && !package.build().contains(b"Linker: LLD"));
    for (version, name) in [(1, "baseline"), (2, "x86-64-v2"), (3, "x86-64-v3"), (4, "x86-64-v4")] {
        assert_eq!(
            run(&package, None, Some(name)),
            (expected(machine().min(version)), String::new()),
            "GNU ld, {name}"
        );
    }
    // Old CPUs, on which an instruction of a higher version ends the program. A limit above the
    // level of the CPU has no effect.
    if Command::new("qemu-x86_64").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("qemu-x86_64 is missing (Debian: qemu-user), so kernels do not run on old CPUs");
    }
    for (cpu, version) in [("qemu64", 1), ("Nehalem", 2), ("Haswell", 3)] {
        for cap in [None, Some("x86-64-v4")] {
            assert_eq!(run(&package, Some(cpu), cap).0, expected(version), "{cpu}");
        }
    }
    assert_eq!(run(&package, Some("Haswell"), Some("x86-64-v2")).0, expected(2));
}

/// Returns the progress lines of the last run of the build script.
fn progress(package: &Package) -> Vec<String> {
    let output = package.script_output();
    let lines = output.lines().filter_map(|line| line.strip_prefix("kernpack: "));
    let lines = lines.filter(|line| !line.starts_with("made "));
    let mut lines: Vec<String> =
        lines.map(|line| line.split(" compiled by ").next().unwrap_or_default().to_owned()).collect();
    lines.sort();
    lines
}

#[test]
fn one_change_compiles_the_versions_of_one_kernel() {
    let calls = ".c([\"a.c\", \"b.c\"]).llvm_ir([\"d.ll\"]).include(\".\").multiversion([\"x86-64-v3\"])";
    let package = Package::new("version-cache", calls)
        .file("a.c", &format!("{}static int unused;\n", c_kernel("a", "1")))
        .file("b.c", &c_kernel("b", "B").replacen('\n', "\n#include \"b.h\"\n", 1))
        .file("b.h", "#define B 1\n")
        .file("d.ll", &ir_kernel("d"));
    package.forget();
    let build = || {
        let built = package.cargo(&["build"], &[]);
        assert!(built.success, "{}", built.stderr);
        let warnings = built.stderr.matches("'unused' defined but not used").count();
        assert_eq!(warnings, 1, "of all versions, one is enough: {}", built.stderr);
        progress(&package)
    };
    assert_eq!(build(), ["a.c", "a.c (x86-64-v3)", "b.c", "b.c (x86-64-v3)", "d.ll", "d.ll (x86-64-v3)"]);
    package.write("b.h", "#define B 2\n");
    assert_eq!(build(), ["4 results were in the cache", "b.c", "b.c (x86-64-v3)"]);
    package.write("d.ll", &ir_kernel("d").replace("ret i32 0", "ret i32 1"));
    assert_eq!(build(), ["4 results were in the cache", "d.ll", "d.ll (x86-64-v3)"]);
    // One more version.
    let script = std::fs::read_to_string(package.dir.join("build.rs")).unwrap();
    package.write("build.rs", &script.replace("[\"x86-64-v3\"]", "[\"x86-64-v3\", \"x86-64-v4\"]"));
    let lines = build();
    assert_eq!(lines, ["6 results were in the cache", "a.c (x86-64-v4)", "b.c (x86-64-v4)", "d.ll (x86-64-v4)"]);
    assert!(!package.cargo(&["build", "-v"], &[]).did_work());
    // A baseline that is set by name. A version has all features of the baseline.
    let named = ".cpu(\"nehalem\").multiversion([\"x86-64-v2\", \"x86-64-v3\"])";
    package.write("build.rs", &script.replace(".multiversion([\"x86-64-v3\"])", named));
    let lines = build();
    let note = ".multiversion(..): no version for x86-64-v2: the baseline has all of that";
    assert_eq!(lines[0], note);
    assert_eq!(lines[1..], ["a.c", "a.c (x86-64-v3)", "b.c", "b.c (x86-64-v3)", "d.ll", "d.ll (x86-64-v3)"]);
    assert_eq!(package.library("debug").packed_functions(), ["a", "b", "d", "version_cache.cpu_level"]);
}

/// Compiles these files for the baseline, x86-64-v3 and x86-64-v4, which must fail, and returns the
/// error message.
fn problems(name: &str, files: &[(&str, &str)], calls: &str) -> String {
    let c: Vec<&str> = files.iter().map(|(path, _)| *path).filter(|path| !path.ends_with(".ll")).collect();
    let ir: Vec<&str> = files.iter().map(|(path, _)| *path).filter(|path| path.ends_with(".ll")).collect();
    let ir = if ir.is_empty() { String::new() } else { format!(".llvm_ir({ir:?})") };
    let calls = format!(".c({c:?}){ir}{calls}.multiversion([\"x86-64-v3\", \"x86-64-v4\"])");
    let mut package = Package::new(name, &calls);
    for (path, text) in files {
        package = package.file(path, text);
    }
    package.failure(&[])
}

/// Removes the commands from a message, because they contain paths.
fn without_commands(message: &str) -> String {
    message.lines().filter(|line| !line.starts_with("  command: ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_mistake_is_shown_once_with_the_versions_that_have_it() {
    let good = c_kernel("good", "1");
    let only_v4 = format!("{good}#ifdef __AVX512F__\n#error no AVX-512\n#endif\n").replace("good", "v4");
    let from_v3 = format!("{good}#ifdef __AVX2__\nint x = y;\n#endif\n").replace("good", "v3");
    let files = [
        ("all.c", "int f( { }\n"),
        ("only_v4.c", only_v4.as_str()),
        ("from_v3.c", from_v3.as_str()),
        ("good.c", good.as_str()),
        ("text.ll", "define i32 @f(nothing) {\n"),
        ("gone.ll", "define i32 @f() {\n  br label %gone\n}\n"),
    ];
    let message = problems("version-mistakes", &files, ".llvm(|_, _| Err(\"no filter of size 4\".into()))");
    let expected = [
        "Error: 6 problems",
        "all.c: the C compiler failed (exit status: 1)\n  output:\n    all.c:1:8: error: ",
        "only_v4.c (x86-64-v4): the C compiler failed (exit status: 1)\n  output:\n    only_v4.c:4:2: error: #error no AVX-512",
        "from_v3.c (x86-64-v3 and x86-64-v4): the C compiler failed (exit status: 1)\n  output:\n    from_v3.c:4:9: error: ",
        "text.ll: LLVM cannot read it\n    text.ll:1:15: error: expected type",
        "gone.ll: LLVM cannot read it\n    gone.ll:2:12: error: use of undefined value '%gone'",
        "build.rs:2: no filter of size 4",
    ];
    let shown = without_commands(&message);
    let blocks: Vec<&str> = shown.split("\n\n").collect();
    assert_eq!(blocks.len(), expected.len(), "{message}");
    for (block, start) in blocks.iter().zip(expected) {
        assert!(block.starts_with(start), "{block}\ndoes not begin with\n{start}");
    }
    assert!(message.contains("-march=x86-64-v4"), "the command of the version that fails is shown: {message}");
}

#[test]
fn what_would_run_on_every_cpu_is_refused() {
    let kernel = |name: &str, more: &str| format!("{}{more}", c_kernel(name, "1"));
    let files = [
        ("end.c", kernel("end", "__attribute__((destructor)) static void end(void) { puts(\"end\"); }\n")),
        (
            "clones.c",
            kernel("clones", "__attribute__((target_clones(\"avx2\", \"default\"))) int clone(int x) { return x; }\n"),
        ),
        (
            "old.c",
            kernel(
                "old",
                "static void f(void) {}\n__attribute__((section(\".ctors\"), used)) static void (*g)(void) = f;\n",
            ),
        ),
        ("missing.c", format!("#ifndef __AVX2__\n{}#endif\n", c_kernel("missing", "1"))),
        ("more.c", kernel("more", &format!("#ifdef __AVX512F__\n{}#endif\n", c_kernel("extra", "1")))),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let message = problems("version-refused", &files, "");
    let would = "with .multiversion(..) those of all versions would run, on CPUs that lack their instructions, too";
    let expected = format!(
        "Error: 5 problems\n\n\
         end.c: has a function that runs when the process ends, __attribute__((destructor)); {would}. Let a constructor give it to \
         atexit(..)\n\n\
         clones.c: `clone` is chosen when the library is loaded (target_clones, or ifunc); with .multiversion(..) each version \
         would choose with its own instructions, on every CPU. Leave one of the two out\n\n\
         old.c: has a function in the section .ctors, which runs when the library is loaded; {would}. Use \
         __attribute__((constructor)) or a C++ variable: of those, only the picked version's run\n\n\
         missing.c: compiled for x86-64-v3 and x86-64-v4 it does not define the kernel `missing`; every version must define it\n\n\
         more.c: it defines the kernel `extra` only when compiled for x86-64-v4; every version must, the baseline, too"
    );
    assert_eq!(message, expected);
}

#[test]
fn flags_that_would_undo_it_are_refused() {
    let k = c_kernel("k", "1");
    assert_eq!(
        problems("version-march", &[("k.c", &k)], ".flag(\"-march=skylake\")"),
        "Error: k.c: `-march=skylake` comes from .flag(..) or CFLAGS; with .multiversion(..) only .cpu(..) says which CPU the \
         baseline is for"
    );
    assert_eq!(
        problems("version-lto", &[("k.c", &k)], ".flag(\"-flto\").flag(\"-ffat-lto-objects\")"),
        "Error: k.c: its object is for link time optimization, where the names of one version would meet those of another; with \
         .multiversion(..) take -flto out of the flags"
    );
    assert_eq!(
        problems("version-name", &[("k.c", &k)], ".multiversion([\"avx512\"])"),
        "Error: .multiversion(..): \"avx512\" is not a level of x86-64; it may be \"x86-64-v2\", \"x86-64-v3\", \"x86-64-v4\" or \"x86-64-v4-vnni\". The \
         names of CPUs do not say what to look for when the library is loaded; .cpu(..) takes them, for the baseline"
    );
}

/// The same build.rs works for other targets.
#[test]
fn a_target_without_levels_has_one_version() {
    let package = Package::new("version-cross", ".llvm_ir([\"k.ll\"]).multiversion([\"x86-64-v3\"])")
        .file("k.ll", &ir_kernel("k"))
        .file("src/lib.rs", "kernpack::library!();\npub fn level() -> &'static str {\n    kernels::k.cpu_level()\n}\n");
    if !has_standard_library() {
        return skip(format_args!("Rust's library for {TARGET} is missing (rustup target add {TARGET})"));
    }
    let built = package.cargo(&["check", "-vv", "--target", TARGET], &[]);
    assert!(built.success, "{}", built.stderr);
    let note = format!("kernpack: .multiversion(..): no x86-64-v3 for {TARGET}: the kernels have one version\n");
    assert!(built.stdout.contains(&note) || built.stderr.contains(&note), "{}{}", built.stdout, built.stderr);
}
