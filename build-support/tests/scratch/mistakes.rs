//! Tests of the complete error messages of the build script.

use expect_test::{Expect, expect};

use crate::package::{Package, c_kernel, ir_kernel};

/// Builds a package with these files, which must fail, and compares the whole message.
fn check(name: &str, calls: &str, files: &[(&str, &str)], variables: &[(&str, &str)], expected: &Expect) {
    let mut package = Package::new(name, calls);
    for (path, text) in files {
        package = package.file(path, text);
    }
    expected.assert_eq(&package.message(variables));
}

#[test]
fn missing_file() {
    let calls = ".c([\"kernels/blur.c\"]).llvm_ir([\"sobel.ll\"]).cuda([\"edges.cu\"])";
    check(
        "missing-file",
        calls,
        &[],
        &[],
        &expect![[r#"
        Error: 3 problems

        kernels/blur.c: no such file; paths are relative to the package, DIR

        sobel.ll: no such file; paths are relative to the package, DIR

        edges.cu: no such file; paths are relative to the package, DIR
    "#]],
    );
}

#[test]
fn wrong_language() {
    check(
        "wrong-language",
        ".c([\"k.ll\"])",
        &[("k.ll", "")],
        &[],
        &expect![[r#"
            Error: k.ll: not the name of a C or C++ file (.c, .cc, .cpp, .cxx, .c++, .C); .llvm_ir(..) takes LLVM IR, .cuda(..) takes CUDA
        "#]],
    );
}

/// Writes compilers that fail for some files with messages that are the same on every machine, and
/// pass other files to the real compilers.
#[cfg(unix)]
fn compilers(package: &Package) -> [String; 2] {
    ["cc", "c++"].map(|name| {
        let body = format!(
            "for a in \"$@\"; do case \"$a\" in\n  kernels/bad.c) echo \"kernels/bad.c:1:8: error: expected declaration\" >&2; exit 1;;\n  \
             kernels/worse.cpp) exit 4;;\nesac; done\nexec /usr/bin/{name} \"$@\"\n"
        );
        package.script(name, &body);
        package.dir.join(name).display().to_string()
    })
}

#[cfg(unix)]
#[test]
fn c_syntax_error() {
    let calls = ".c([\"kernels/bad.c\", \"kernels/worse.cpp\", \"kernels/good.c\"])";
    let package = Package::new("c-syntax", calls)
        .file("kernels/bad.c", "int f( { }\n")
        .file("kernels/worse.cpp", "int g( { }\n")
        .file("kernels/good.c", &c_kernel("good", "1"));
    let [cc, cpp] = compilers(&package);
    expect![[r#"
        Error: 2 problems

        kernels/bad.c: the C compiler failed (exit status: 1)
          command: $CC ... -c kernels/bad.c -o OUT/kernpack/c0_bad.o
          output:
            kernels/bad.c:1:8: error: expected declaration

        kernels/worse.cpp: the C++ compiler failed (exit status: 4)
          command: $CXX ... -c kernels/worse.cpp -o OUT/kernpack/c1_worse.o
          output:
            (none)
    "#]]
    .assert_eq(&package.message(&[("CC", &cc), ("CXX", &cpp)]));
    // The real compiler reports the file, line and column, too.
    let message = package.failure(&[]);
    assert!(message.contains("\n  output:\n    kernels/bad.c:1:8: error: "), "{message}");
}

#[test]
fn missing_compiler() {
    let k = c_kernel("k", "1");
    check(
        "no-compiler",
        ".c([\"k.c\"])",
        &[("k.c", &k)],
        &[("CC", "/no/such/cc")],
        &expect![[r#"
        Error: k.c: no C compiler: there is no `$CC`; install GCC or Clang, or set CC to one of them
    "#]],
    );
}

#[test]
fn invalid_ir() {
    let files = [
        ("text.ll", "define i32 @f(nothing) {\n"),
        ("noise.bc", "BC\u{0}noise"),
        ("undefined.ll", "define i32 @f() {\n  br label %gone\n}\n"),
    ];
    let calls = ".llvm_ir([\"text.ll\", \"noise.bc\", \"undefined.ll\"])";
    check(
        "invalid-ir",
        calls,
        &files,
        &[],
        &expect![[r#"
        Error: 3 problems

        text.ll: LLVM cannot read it
            text.ll:1:15: error: expected type
            define i32 @f(nothing) {
                          ^

        noise.bc: LLVM cannot read it
            noise.bc:1:1: error: expected top-level entity
            BC

        undefined.ll: LLVM cannot read it
            undefined.ll:2:12: error: use of undefined value '%gone'
              br label %gone
                       ^
    "#]],
    );
}

#[test]
fn kernel_of_another_type() {
    check(
        "kernel-type",
        ".llvm_ir([\"k.ll\"])",
        &[("k.ll", "define void @__tvm_ffi_scale(i64 %n, double %x) {\n  ret void\n}\n")],
        &[],
        &expect![[r#"
            Error: k.ll: kernel `scale` has the type `void (i64, double)`; the packed calling convention is `i32 (ptr, ptr, i32, ptr)`: self, arguments, their number, result
        "#]],
    );
}

#[test]
fn bitcode_that_is_cut_off() {
    let package = Package::new("cut-bitcode", "").file("k.ll", &ir_kernel("k")).file(
        "build.rs",
        r#"
fn main() -> kernpack_build::Result<()> {
    use kernpack_build::inkwell::{context::Context, memory_buffer::MemoryBuffer};
    let context = Context::create();
    let bitcode = context.create_module_from_ir(MemoryBuffer::create_from_file("k.ll".as_ref())?)?.write_bitcode_to_memory();
    let bytes = bitcode.as_slice();
    let out = std::env::var("OUT_DIR").unwrap();
    let mut files = Vec::new();
    for part in 1..20 {
        let file = format!("{out}/{part}.bc");
        std::fs::write(&file, &bytes[..4 + (bytes.len() - 4) * part / 20]).unwrap();
        files.push(file);
    }
    kernpack_build::Library::new().llvm_ir(files).build()
}
"#,
    );
    let message = package.failure(&[]);
    // LLVM's message depends on the length of the truncated file; each file is a separate problem.
    assert!(message.starts_with("Error: 19 problems\n\n"), "{message}");
    for part in 1..20 {
        assert!(message.contains(&format!("/{part}.bc: LLVM cannot read it\n    ")), "{message}");
    }
}

#[test]
fn ir_that_does_not_verify() {
    let calls = ".llvm(|context, module| {\n    let f = module.add_function(\"__tvm_ffi_open\", context.i32_type().fn_type(&[], false), None);\n    context.append_basic_block(f, \"entry\");\n    Ok(())\n})";
    check(
        "unverified",
        calls,
        &[],
        &[],
        &expect![[r#"
            Error: build.rs:2: LLVM's verifier rejects it
                Basic Block in function '__tvm_ffi_open' does not have terminator!
                label %entry
        "#]],
    );
}

#[test]
fn a_closure_that_fails() {
    check(
        "closure-fails",
        ".llvm(|_, _| Err(\"no filter of size 4\".into()))",
        &[],
        &[],
        &expect![[r#"
            Error: build.rs:2: no filter of size 4
        "#]],
    );
}

#[test]
fn ir_that_cannot_be_compiled() {
    let files = [(
        "asm.ll",
        "define i32 @__tvm_ffi_f(ptr %self, ptr %args, i32 %n, ptr %result) {\n  call void asm sideeffect \"no such instruction\", \"\"()\n  ret i32 0\n}\n",
    )];
    check(
        "bad-asm",
        ".llvm_ir([\"asm.ll\"])",
        &files,
        &[],
        &expect![[r#"
            Error: asm.ll: LLVM cannot compile it
                <inline asm>:1:10: unexpected token in argument list
                        no such instruction
                                ^
        "#]],
    );
}

#[test]
fn ir_for_another_machine() {
    let text = format!("target triple = \"riscv64-unknown-linux-gnu\"\n{}", ir_kernel("f"));
    check(
        "other-machine",
        ".llvm_ir([\"k.ll\"])",
        &[("k.ll", &text)],
        &[],
        &expect![[r#"
            Error: k.ll: is for riscv64-unknown-linux-gnu, but the target is HOST; leave `target triple` and `target datalayout` out
        "#]],
    );
}

#[test]
fn no_kernel() {
    let files = [
        ("blur.c", "int blur(void) { return 0; }\n"),
        ("hidden.c", "static int __tvm_ffi_h(void) { return 0; }\nint (*const used)(void) = __tvm_ffi_h;\n"),
    ];
    check(
        "no-kernel",
        ".c([\"blur.c\", \"hidden.c\"])",
        &files,
        &[],
        &expect![[r#"
            Error: 2 problems

            blur.c: defines no kernel. A kernel is a C function `int __tvm_ffi_<name>(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result)` (extern "C" in C++); it defines `blur`; is that the kernel? Then name it `__tvm_ffi_blur`

            hidden.c: defines no kernel. A kernel is a C function `int __tvm_ffi_<name>(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result)` (extern "C" in C++); `__tvm_ffi_h` is there, but static or hidden: give it external linkage and default visibility
        "#]],
    );
}

#[test]
fn duplicate_kernel() {
    let (c, ir) = (c_kernel("blur", "1"), ir_kernel("blur"));
    check(
        "duplicate",
        ".c([\"a/blur.c\"]).llvm_ir([\"b/blur.ll\"])",
        &[("a/blur.c", &c), ("b/blur.ll", &ir)],
        &[],
        &expect![[r#"
            Error: kernel `blur` is defined twice: by a/blur.c and by b/blur.ll; rename one of them
        "#]],
    );
}

#[test]
fn reserved_name() {
    let text = format!("{}char __tvm_ffi__library_bin[8];\n", c_kernel("k", "1"));
    check(
        "reserved",
        ".c([\"k.c\"])",
        &[("k.c", &text)],
        &[],
        &expect![[r#"
            Error: k.c: defines `__tvm_ffi__library_bin`; names that start with `__tvm_ffi__` are reserved, except `__tvm_ffi__metadata_<kernel>` and `__tvm_ffi__doc_<kernel>` beside their kernel
        "#]],
    );
}

#[test]
fn unknown_cpu() {
    check(
        "unknown-cpu",
        ".cpu(\"pentium-9\")",
        &[],
        &[],
        &expect![[r#"
            Error: .cpu(..) is "pentium-9", which is not a CPU of HOST; `rustc --print target-cpus --target HOST` lists them
        "#]],
    );
}

#[test]
fn bad_cuda_policy() {
    check(
        "bad-policy",
        "",
        &[],
        &[("KERNPACK_CUDA", "yes")],
        &expect![[r#"
            Error: KERNPACK_CUDA is "yes"; it may be auto, require or off
        "#]],
    );
}

/// Returns cargo's own errors, without the output of the build script.
fn first_errors(built: &crate::package::Built, package: &Package) -> String {
    assert!(!built.success, "the build succeeded:\n{}", built.stderr);
    let lines = built.stderr.lines().take_while(|line| !line.starts_with("Caused by") && !line.contains("--- std"));
    let lines = lines.filter(|line| line.starts_with("error: "));
    lines.map(|line| format!("{}\n", line.replace(&package.dir.display().to_string(), "DIR"))).collect()
}

#[test]
fn problems_come_first_and_cannot_be_ignored() {
    let package = Package::new("ignored", ".c([\"blur.c\", \"k.rs\"])");
    let problems = "error: ignored@0.1.0: 2 problems\n\
                    error: ignored@0.1.0: blur.c: no such file; paths are relative to the package, DIR\n\
                    error: ignored@0.1.0: k.rs: no such file; paths are relative to the package, DIR\n";
    let returned = first_errors(&package.cargo(&["build"], &[]), &package);
    assert!(returned.starts_with(problems), "{returned}");
    package.write(
        "build.rs",
        "fn main() {\n    let _ = kernpack_build::Library::new().c([\"blur.c\", \"k.rs\"]).build();\n}\n",
    );
    let ignored = first_errors(&package.cargo(&["build"], &[]), &package);
    assert!(ignored.starts_with(problems), "{ignored}");
}

#[test]
fn a_function_and_a_kernel_of_one_name() {
    let package = Package::new("one-name", ".c([\"blur.c\"])").file("blur.c", &c_kernel("blur", "1")).file(
        "src/lib.rs",
        "#![forbid(unsafe_code)]\nkernpack::library!();\n\n#[kernpack::packed_func]\nfn blur(x: i64) -> i64 {\n    x\n}\n",
    );
    let built = package.cargo(&["build"], &[]);
    assert!(!built.success);
    assert!(
        built
            .stderr
            .contains("the name `packed_function_named_blur__give_one_of_them_another_name` is defined multiple times"),
        "{}",
        built.stderr
    );
    assert!(built.stderr.contains("src/lib.rs:5:4"), "{}", built.stderr);
    assert!(built.stderr.contains("kernpack_library.rs"), "{}", built.stderr);
    assert!(built.stderr.contains("{ // the kernel of blur.c\n"), "{}", built.stderr);
    // With another name it builds. A crate with kernels may have `forbid(unsafe_code)`, too.
    package.write(
        "src/lib.rs",
        "#![forbid(unsafe_code)]\nkernpack::library!();\n\n#[kernpack::packed_func]\nfn scale(x: i64) -> i64 {\n    x\n}\n",
    );
    let built = package.cargo(&["build"], &[]);
    assert!(built.success, "{}", built.stderr);
}

#[test]
fn a_package_without_crate_type() {
    let package = Package::new("no-kind", "");
    let manifest = std::fs::read_to_string(package.dir.join("Cargo.toml")).expect("the manifest");
    let kinds = "crate-type = [\"cdylib\", \"rlib\"]\n";
    assert!(manifest.contains(kinds));
    package.write("Cargo.toml", &manifest.replace(kinds, ""));
    let built = package.cargo(&["build"], &[]);
    assert!(
        built.success && built.stderr.contains("no shared library is made: write `crate-type ="),
        "{}",
        built.stderr
    );
    package.write("Cargo.toml", &manifest.replace(kinds, "crate-type = [\"rlib\"]\n"));
    let built = package.cargo(&["build"], &[]);
    assert!(built.success && !built.stderr.contains("no shared library"), "{}", built.stderr);
    // Kernels are requested, but the build script is missing.
    std::fs::remove_file(package.dir.join("build.rs")).expect("it can be removed");
    let built = package.cargo(&["build"], &[]);
    assert!(!built.success && built.stderr.contains("but beside it is no build.rs; write one"), "{}", built.stderr);
}

#[test]
fn a_function_that_is_nowhere() {
    let code = c_kernel("blur", "nowhere_to_be_found()").replacen('\n', "\nlong nowhere_to_be_found(void);\n", 1);
    let package = Package::new("nowhere", ".c([\"blur.c\"])").file("blur.c", &code);
    let built = package.cargo(&["build"], &[]);
    assert!(!built.success, "the build succeeded");
    assert!(built.stderr.contains("undefined") && built.stderr.contains("nowhere_to_be_found"), "{}", built.stderr);
    assert!(built.stderr.contains("blur"), "{}", built.stderr);
}

#[test]
fn headers_of_c_functions() {
    let package =
        Package::new("headers", ".c([\"mean.c\"]).c_header(\"mean.h\", [\"mean\", \"other(x[n])\", \"mean(x[m])\"])")
            .file("mean.c", "#include \"mean.h\"\ndouble mean(const float* x, int n) { return n > 0 ? x[0] : 0; }\n")
            .file("mean.h", "double mean(const float* x, int n);\n");
    let problems = "error: headers@0.1.0: 3 problems\n\
                    error: headers@0.1.0: build.rs:2: mean.h: mean: say how many elements `x` leads to, as in \"mean(x[n], ...)\"; [0] where the function knows it\n\
                    error: headers@0.1.0: build.rs:2: mean.h: other(x[n]): the header declares no such function; headers that it includes are not read\n\
                    error: headers@0.1.0: build.rs:2: mean.h: mean(x[m]): `m` in [m] is neither a number nor an integer parameter; + and * join these\n";
    let found = first_errors(&package.cargo(&["build"], &[]), &package);
    assert!(found.starts_with(problems), "{found}");
}
