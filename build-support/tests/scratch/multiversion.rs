//! Kernels in several versions, of which one is picked when the library is loaded.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::library::BuiltLibrary;
use crate::package::{Package, c_kernel, ir_kernel};

/// What a compiler was told, as a number.
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

/// Functions and variables that files share: each version must have its own.
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

/// A loop that LLVM vectorizes with what the CPU has; it is never run.
fn loop_ir(name: &str, attributes: &str) -> String {
    format!(
        "define i32 @__tvm_ffi_{name}(ptr %self, ptr %args, i32 %n, ptr %result) {attributes} {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr float, ptr %args, i64 %i
  %to = getelementptr float, ptr %result, i64 %i
  %x = load float, ptr %from
  %y = fadd float %x, 1.0
  store float %y, ptr %to
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, 1024
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}}\n"
    )
}

/// Prints what every kernel returns, called in this program and through the shared library.
const MAIN: &str = r#"
use scratch_versions::kernels as k;
fn main() {
    let names = ["plain", "through", "one", "two", "constructed"];
    let own = [&k::plain, &k::through, &k::one, &k::two, &k::constructed];
    let library = kernpack::Module::load(std::env::args().nth(1).unwrap()).unwrap();
    for (name, kernel) in names.into_iter().zip(own) {
        let value: i64 = kernel.call_as(()).unwrap();
        let other: i64 = library.function(name).unwrap().call_as(()).unwrap();
        assert_eq!(value, other, "{name}");
        print!("{name} {value} ");
    }
    let level: String = library.function("scratch_versions.cpu_level").unwrap().call_as(()).unwrap();
    let global: String = kernpack::Function::global("scratch_versions.cpu_level").unwrap().call_as(()).unwrap();
    assert_eq!(level, global);
    println!("{level} {}", k::one.cpu_level());
    assert!(kernpack::load_problems().is_empty());
}
"#;

fn versions() -> Package {
    let calls = r#"
        .c(["helper.c", "plain.c", "one.cpp", "two.cpp"])
        .llvm_ir(["loop.ll", "attributes.ll"])
        .llvm(|context, module| {
            let text = kernpack_build::inkwell::memory_buffer::MemoryBuffer::create_from_file("built.ll".as_ref())?;
            module.link_in_module(context.create_module_from_ir(text)?)?;
            Ok(())
        })
        .flag("-std=gnu++17").flag("-Wno-error").include(".")
        .multiversion(["x86-64-v4", "x86-64-v2", "x86-64-v3"])"#;
    let calls = calls.replace(".flag(\"-std=gnu++17\").flag(\"-Wno-error\")", "");
    Package::new("scratch-versions", &calls)
        .file("version.h", VERSION)
        .file("shared.h", SHARED_H)
        .file("helper.c", HELPER_C)
        .file("plain.c", PLAIN_C)
        .file("one.cpp", ONE_CPP)
        .file("two.cpp", TWO_CPP)
        .file("loop.ll", &loop_ir("loop", ""))
        .file("attributes.ll", &loop_ir("attributes", "\"target-cpu\"=\"x86-64\" \"target-features\"=\"+sse2\""))
        .file("built.ll", &loop_ir("built", ""))
        .file("src/main.rs", MAIN)
}

/// What the program prints for a version.
fn expected(version: i64) -> String {
    let level = ["baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4"][version as usize - 1];
    let plain = version * 100 + version * 10 + version;
    let one = version * 1_111_110 + 1;
    format!("plain {plain} through {plain} one {one} two {plain} constructed 1233 {level} {level}\n")
}

/// What the program prints where the highest version is capped, on the CPU that qemu makes, or on this one.
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
    (text(output.stdout), text(output.stderr))
}

/// The level of this machine, as a number.
fn machine() -> i64 {
    if is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512bw") {
        4
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        3
    } else {
        1 + i64::from(is_x86_feature_detected!("sse4.2"))
    }
}

#[test]
fn every_version_is_whole_and_the_highest_is_picked() {
    let package = versions();
    let library = package.build();
    let kernels =
        ["attributes", "built", "constructed", "loop", "one", "plain", "scratch_versions.cpu_level", "through", "two"];
    assert_eq!(library.packed_functions(), kernels);
    // The cap.
    assert_eq!(run(&package, None, None), (expected(machine()), String::new()));
    for (version, name) in [(1, "baseline"), (1, "x86-64"), (2, "x86-64-v2"), (3, "x86-64-v3"), (4, "x86-64-v4")] {
        assert_eq!(run(&package, None, Some(name)), (expected(machine().min(version)), String::new()), "{name}");
    }
    let (out, err) = run(&package, None, Some("avx2"));
    assert_eq!(out, expected(machine()));
    let warning = "kernpack: KERNPACK_CPU_LEVEL is \"avx2\"; it may be baseline, x86-64-v2, x86-64-v3 or x86-64-v4. It is not \
                   considered: the highest level of this machine is picked\n";
    assert!(err == warning || err == warning.repeat(2), "{err}");
}
