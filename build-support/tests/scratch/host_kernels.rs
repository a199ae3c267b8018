//! Kernels in C, C++ and LLVM IR.

use crate::package::{Package, c_kernel, ir_kernel, loop_ir};

/// A program that calls kernels of the library `scratch` as users do.
const MAIN: &str = "
fn main() {
    println!(\"{}\", NAME::kernels::plus.call_as::<i64>((20, 22)).unwrap());
    println!(\"{}\", NAME::kernels::plus.call((20,)).unwrap_err().message());
    println!(\"{}\", NAME::kernels::twice.call_as::<f64>((1.5,)).unwrap());
    println!(\"{:?}\", NAME::kernels::twice.call((\"x\",)).unwrap_err().to_string());
    println!(\"{}\", NAME::kernels::r#type.call_as::<i64>(()).unwrap());
}
";

const PLUS: &str = r#"
#include <kernpack/kernel.h>
#include "sum.h"
KERNPACK_KERNEL(plus) {
  int64_t a, b;
  if (kernpack_arg_count("plus", num_args, 2) != 0 || kernpack_arg_int("plus", args, 0, &a) != 0 ||
      kernpack_arg_int("plus", args, 1, &b) != 0) return -1;
  return kernpack_return_int(result, sum(a, b));
}
"#;

const TWICE: &str = r#"
#include <kernpack/kernel.h>
#include <vector>
KERNPACK_KERNEL(twice) {
  double value;
  if (kernpack_arg_count("twice", num_args, 1) != 0 || kernpack_arg_float("twice", args, 0, &value) != 0) return -1;
  std::vector<double> all(FACTOR, value);
  double sum = 0;
  for (double one : all) sum += one;
  return kernpack_return_float(result, sum);
}
"#;

fn mixed(folder: &str, name: &str) -> Package {
    let calls = r#"
        .c(["kernels/plus.c", "kernels/sum.c", "kernels/twice.cpp"])
        .llvm_ir(["kernels/nothing.ll"])
        .llvm(|context, module| {
            use kernpack_build::inkwell::AddressSpace;
            let (i32, i64, ptr) = (context.i32_type(), context.i64_type(), context.ptr_type(AddressSpace::default()));
            let packed = i32.fn_type(&[ptr.into(), ptr.into(), i32.into(), ptr.into()], false);
            let function = module.add_function("__tvm_ffi_type", packed, None);
            let builder = context.create_builder();
            builder.position_at_end(context.append_basic_block(function, "entry"));
            let result = function.get_nth_param(3).ok_or("no parameter")?.into_pointer_value();
            builder.build_store(result, i64.const_int(1, false))?;
            // SAFETY: the second word of the result.
            let payload = unsafe { builder.build_gep(i64, result, &[i64.const_int(1, false)], "payload")? };
            builder.build_store(payload, i64.const_int(7, false))?;
            builder.build_return(Some(&i32.const_zero()))?;
            Ok(())
        })
        .include("kernels/include")
        .define("FACTOR", "2")
        .flag("-Wextra")"#;
    Package::in_folder(folder, name, calls)
        .file("kernels/plus.c", PLUS)
        .file("kernels/sum.c", "#include \"sum.h\"\nint64_t sum(int64_t a, int64_t b) { return a + b; }\n")
        .file("kernels/include/sum.h", "#include <stdint.h>\nint64_t sum(int64_t a, int64_t b);\n")
        .file("kernels/twice.cpp", TWICE)
        .file("kernels/nothing.ll", &ir_kernel("a.nothing"))
        .file("src/main.rs", &MAIN.replace("NAME", &name.replace('-', "_")))
}

const EXPECTED: &str = "42\nplus: expected 2 arguments, got 1\n3\n\
    \"TypeError: twice: argument 0: expected float, got str\"\n7\n";

#[test]
fn are_exported_and_called_from_a_path_with_spaces() {
    let package = mixed("folder with spaces", "mixed-kernels");
    let library = package.build();
    assert_eq!(library.packed_functions(), ["a.nothing", "plus", "twice", "type"]);
    assert!(library.is_never_unloaded());
    assert_eq!(library.import_tree(), None, "no device image, no blob");
    assert_eq!(package.run(&[]), EXPECTED);
    package.write("src/lib.rs", "//! Scratch.\nkernpack::library!();\n#[test]\nfn calls() {\n    assert_eq!(kernels::plus.call_as::<i64>((1, 2)).unwrap(), 3);\n}\n");
    let tests = package.cargo(&["test"], &[]);
    assert!(tests.success && tests.stdout.contains("test calls ... ok"), "{}{}", tests.stdout, tests.stderr);
}

#[test]
fn are_exported_in_release() {
    let package = mixed("released", "released");
    let library = package.build_with(&["build", "--release"], &[]);
    assert_eq!(library.packed_functions(), ["a.nothing", "plus", "twice", "type"]);
    assert!(library.is_never_unloaded());
    assert_eq!(package.run(&["--release"]), EXPECTED);
}

#[test]
fn bitcode_is_llvm_ir_too() {
    // The build script acts as a frontend: it writes bitcode, and the next line compiles it.
    let package = Package::new("bitcode", "").file("kernels/f.ll", &ir_kernel("f")).file(
        "build.rs",
        r#"
fn main() -> kernpack_build::Result<()> {
    use kernpack_build::inkwell::{context::Context, memory_buffer::MemoryBuffer};
    let context = Context::create();
    let text = MemoryBuffer::create_from_file("kernels/f.ll".as_ref())?;
    let bitcode = std::path::Path::new(&std::env::var("OUT_DIR").unwrap()).join("f.bc");
    assert!(context.create_module_from_ir(text)?.write_bitcode_to_path(&bitcode));
    kernpack_build::Library::new().llvm_ir([bitcode]).build()
}
"#,
    );
    assert_eq!(package.build().packed_functions(), ["f"]);
}

#[test]
fn a_library_without_kernels_builds() {
    let package = Package::new("no-kernels", "");
    assert_eq!(package.build().packed_functions(), [""; 0]);
}

#[test]
fn a_library_that_is_only_an_rlib_builds_without_warnings() {
    let package = Package::new("only-rlib", ".c([\"k.c\"])").file("k.c", &c_kernel("k", "5"));
    let package = package.file(
        "src/main.rs",
        "fn main() {\n    println!(\"{}\", only_rlib::kernels::k.call_as::<i64>(()).unwrap());\n}\n",
    );
    let manifest = std::fs::read_to_string(package.dir.join("Cargo.toml")).unwrap();
    package.write("Cargo.toml", &manifest.replace("\"cdylib\", ", ""));
    let built = package.cargo(&["build"], &[]);
    assert!(built.success && !built.stderr.contains("cdylib"), "{}", built.stderr);
    assert_eq!(package.run(&[]), "5\n");
}

#[test]
fn the_header_has_the_layouts_of_the_runtime() {
    use kernpack::sys::abi;
    use std::fmt::Write as _;
    use std::mem::{offset_of, size_of};
    let mut checks = String::new();
    let mut check = |expression: &str, value: i128| {
        // Writing to a `String` does not fail.
        let _ = writeln!(checks, "_Static_assert({expression} == {value}, \"{}\");", expression.replace('"', ""));
    };
    check("sizeof(TVMFFIAny)", size_of::<abi::TVMFFIAny>() as i128);
    check("offsetof(TVMFFIAny, small_str_len)", offset_of!(abi::TVMFFIAny, small_len) as i128);
    check("offsetof(TVMFFIAny, v_int64)", offset_of!(abi::TVMFFIAny, payload) as i128);
    check("sizeof(TVMFFIObject)", size_of::<abi::TVMFFIObject>() as i128);
    check("offsetof(TVMFFIObject, deleter)", offset_of!(abi::TVMFFIObject, deleter) as i128);
    check("sizeof(DLTensor)", size_of::<abi::DLTensor>() as i128);
    check("offsetof(DLTensor, ndim)", offset_of!(abi::DLTensor, ndim) as i128);
    check("offsetof(DLTensor, dtype)", offset_of!(abi::DLTensor, dtype) as i128);
    check("offsetof(DLTensor, shape)", offset_of!(abi::DLTensor, shape) as i128);
    check("offsetof(DLTensor, strides)", offset_of!(abi::DLTensor, strides) as i128);
    check("offsetof(DLTensor, byte_offset)", offset_of!(abi::DLTensor, byte_offset) as i128);
    check("sizeof(TVMFFIByteArray)", size_of::<abi::TVMFFIByteArray>() as i128);
    for (name, value) in [
        ("kTVMFFIInt", abi::type_index::INT),
        ("kTVMFFIFloat", abi::type_index::FLOAT),
        ("kTVMFFIDLTensorPtr", abi::type_index::DL_TENSOR_PTR),
        ("kTVMFFISmallBytes", abi::type_index::SMALL_BYTES),
        ("kTVMFFIStaticObjectBegin", abi::type_index::STATIC_OBJECT_BEGIN),
        ("kTVMFFITensor", abi::type_index::TENSOR),
        ("kTVMFFIModule", abi::type_index::MODULE),
        ("kDLCUDAManaged", abi::device_type::CUDA_MANAGED),
        ("kDLBool", abi::dtype_code::BOOL.into()),
    ] {
        check(name, value.into());
    }
    let package = Package::new("layouts", ".c([\"k.c\"])").file("k.c", &format!("{}{checks}", c_kernel("k", "1")));
    assert_eq!(package.build().packed_functions(), ["k"]);
}

const LOOP_C: &str = "
#include <kernpack/kernel.h>
int __tvm_ffi_c(void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
  const float* from = (const float*)args; float* to = (float*)result; (void)self; (void)n;
  for (int i = 0; i < 1024; ++i) to[i] = from[i] + 1.0f;
  return 0;
}";

/// Returns true if the code has instructions with a VEX prefix (AVX). 0xc5 and 0xc4 are not valid
/// opcodes in 64-bit code, but may be data bytes, so a few matches are required.
fn uses_avx(code: &[u8]) -> bool {
    code.windows(2).filter(|bytes| bytes[0] == 0xc5 && bytes[1] >= 0xe0).count() >= 2
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_cpu_is_the_one_that_rustc_is_told() {
    let calls = ".c([\"k.c\"]).llvm_ir([\"k.ll\"])";
    let check = |package: &Package, flags: &str, avx: bool| {
        package.build_for_host_target(&[("RUSTFLAGS", flags)]);
        assert_eq!(uses_avx(&package.object_for_host_target("llvm0_k.o").code("ir")), avx, "LLVM with {flags:?}");
        assert_eq!(uses_avx(&package.object_for_host_target("c0_k.o").code("c")), avx, "C with {flags:?}");
    };
    // The same package for all flags, to check that a change is noticed.
    let package = Package::new("cpu-told", calls);
    let package = package.file("k.c", LOOP_C).file("k.ll", &loop_ir("ir", "")).without_runtime();
    check(&package, "", false);
    check(&package, "-C target-cpu=x86-64-v3", true);
    check(&package, "-Ctarget-feature=+avx2", true);
    let package = Package::new("cpu-override", &format!("{calls}.cpu(\"x86-64-v3\")"));
    let package = package.file("k.c", LOOP_C).file("k.ll", &loop_ir("ir", "")).without_runtime();
    check(&package, "", true);
}

#[test]
fn a_kernel_is_a_global_function() {
    let package = Package::new("global-names", ".c([\"k.c\"])").file("k.c", &c_kernel("seven", "7")).file(
        "src/main.rs",
        "fn main() {\n    use global_names as _;\n    let f = kernpack::Function::global(\"global_names.seven\").unwrap();\n    println!(\"{}\", f.call_as::<i64>(()).unwrap());\n}\n",
    );
    package.build();
    assert_eq!(package.run(&[]), "7\n");
}
