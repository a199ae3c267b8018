//! What a user reads when something is wrong.

use crate::package::{Package, c_kernel, ir_kernel};

/// Builds a package with these files and compares the start of the message; every fragment must be in it too.
#[track_caller]
fn check(name: &str, calls: &str, files: &[(&str, &str)], variables: &[(&str, &str)], start: &str, fragments: &[&str]) {
    let mut package = Package::new(name, calls);
    for (path, text) in files {
        package = package.file(path, text);
    }
    let start = start.replace("DIR", &package.dir.display().to_string());
    let message = package.failure(variables);
    assert!(message.starts_with(&format!("Error: {start}")), "{message}");
    for fragment in fragments {
        assert!(message.contains(fragment), "no {fragment:?} in {message}");
    }
}

#[test]
fn missing_file() {
    let calls = ".c([\"kernels/blur.c\"]).llvm_ir([\"sobel.ll\"]).cuda([\"edges.cu\"])";
    let problem = |file: &str| format!("{file}: no such file; paths are relative to the package, DIR");
    let start =
        format!("3 problems\n\n{}\n\n{}\n\n{}", problem("kernels/blur.c"), problem("sobel.ll"), problem("edges.cu"));
    check("missing-file", calls, &[], &[], &start, &[]);
}

#[test]
fn wrong_language() {
    check(
        "wrong-language",
        ".c([\"k.ll\"])",
        &[("k.ll", "")],
        &[],
        "k.ll: not the name of a C or C++ file (.c, .cc,",
        &[".llvm_ir(..) takes LLVM IR"],
    );
}

#[test]
fn c_syntax_error() {
    let calls = ".c([\"kernels/bad.c\", \"kernels/worse.cpp\", \"kernels/good.c\"])";
    let good = c_kernel("good", "1");
    let files = [("kernels/bad.c", "int f( { }\n"), ("kernels/worse.cpp", "int g( { }\n"), ("kernels/good.c", &good)];
    let fragments = [
        "kernels/bad.c: the C compiler failed (exit status: 1)\n  command: ",
        "-c kernels/bad.c -o ",
        "\n  output:\n    kernels/bad.c:1:8: error: ",
        "kernels/worse.cpp: the C++ compiler failed (exit status: 1)\n  command: ",
    ];
    check("c-syntax", calls, &files, &[], "2 problems\n\nkernels/bad.c: ", &fragments);
}

#[test]
fn missing_compiler() {
    let k = c_kernel("k", "1");
    check("no-compiler", ".c([\"k.c\"])", &[("k.c", &k)], &[("CC", "/no/such/cc")], "k.c: ", &["/no/such/cc"]);
}

#[test]
fn invalid_ir() {
    let files = [
        ("text.ll", "define i32 @f(nothing) {\n"),
        ("noise.bc", "BC\u{0}noise"),
        ("undefined.ll", "define i32 @f() {\n  br label %gone\n}\n"),
    ];
    let start = "3 problems\n\ntext.ll: LLVM can not read it\n    text.ll:1:15: error: expected type\n";
    let fragments = [
        "noise.bc: LLVM can not read it\n    noise.bc:1:1: error: expected top-level entity",
        "undefined.ll: LLVM can not read it\n    undefined.ll:2:12: error: use of undefined value '%gone'",
    ];
    let calls = ".llvm_ir([\"text.ll\", \"noise.bc\", \"undefined.ll\"])";
    check("invalid-ir", calls, &files, &[], start, &fragments);
}

#[test]
fn kernel_of_another_type() {
    check(
        "kernel-type",
        ".llvm_ir([\"k.ll\"])",
        &[("k.ll", "define void @__tvm_ffi_scale(i64 %n, double %x) {\n  ret void\n}\n")],
        &[],
        "k.ll: kernel `scale` has the type `void (i64, double)`; the packed calling convention is `i32 (ptr, ptr, i32, ptr)`: \
         self, arguments, their number, result",
        &[],
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
    assert!(message.starts_with("Error: 19 problems\n\n"), "{message}");
    assert!(message.contains("/1.bc: LLVM can not read it\n    "), "{message}");
}

#[test]
fn ir_that_does_not_verify() {
    let calls = ".llvm(|context, module| {\n    let f = module.add_function(\"__tvm_ffi_open\", context.i32_type().fn_type(&[], false), None);\n    context.append_basic_block(f, \"entry\");\n    Ok(())\n})";
    check(
        "unverified",
        calls,
        &[],
        &[],
        "build.rs:2: LLVM's verifier rejects it\n    Basic Block in function '__tvm_ffi_open' does not have terminator!",
        &[],
    );
}

#[test]
fn a_closure_that_fails() {
    check(
        "closure-fails",
        ".llvm(|_, _| Err(\"no filter of size 4\".into()))",
        &[],
        &[],
        "build.rs:2: no filter of size 4",
        &[],
    );
}

#[test]
fn ir_that_can_not_be_compiled() {
    let files = [(
        "asm.ll",
        "define i32 @__tvm_ffi_f(ptr %self, ptr %args, i32 %n, ptr %result) {\n  call void asm sideeffect \"no such instruction\", \"\"()\n  ret i32 0\n}\n",
    )];
    check(
        "bad-asm",
        ".llvm_ir([\"asm.ll\"])",
        &files,
        &[],
        "asm.ll: LLVM can not compile it\n    ",
        &["unexpected token in argument list", "no such instruction"],
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
        "k.ll: is for riscv64-unknown-linux-gnu, but the target is ",
        &["leave `target triple`"],
    );
}

#[test]
fn no_kernel() {
    let files = [
        ("blur.c", "int blur(void) { return 0; }\n"),
        ("hidden.c", "static int __tvm_ffi_h(void) { return 0; }\nint (*const used)(void) = __tvm_ffi_h;\n"),
    ];
    let fragments = [
        "it defines `blur`; is that the kernel? Then name it `__tvm_ffi_blur`",
        "hidden.c: defines no kernel",
        "`__tvm_ffi_h` is there, but static or hidden",
    ];
    check(
        "no-kernel",
        ".c([\"blur.c\", \"hidden.c\"])",
        &files,
        &[],
        "2 problems\n\nblur.c: defines no kernel. A kernel is a C function `int __tvm_ffi_<name>(",
        &fragments,
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
        "kernel `blur` is defined twice: by a/blur.c and by b/blur.ll; rename one of them",
        &[],
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
        "k.c: defines `__tvm_ffi__library_bin`; names that start with `__tvm_ffi__` are reserved",
        &[],
    );
}

#[test]
fn unknown_cpu() {
    check(
        "unknown-cpu",
        ".cpu(\"pentium-9\")",
        &[],
        &[],
        ".cpu(..) is \"pentium-9\", which is no CPU of ",
        &["rustc --print target-cpus"],
    );
}

#[test]
fn bad_cuda_policy() {
    check(
        "bad-policy",
        "",
        &[],
        &[("KERNPACK_CUDA", "yes")],
        "KERNPACK_CUDA is \"yes\"; it may be auto, require or off",
        &[],
    );
}
