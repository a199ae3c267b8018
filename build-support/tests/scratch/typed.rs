//! Typed functions of kernels: names, types, documentation, and the metadata for hosts.

use std::process::Command;

use kernpack::Module;

use crate::package::Package;

const SCALE_C: &str = r#"#include <kernpack/kernel.h>

/* Multiplies all elements, and says how many there are.
 *
 *     this is not Rust: [x] <T>
 *
 * kernpack: scale(x: mut Tensor[float32], by: float32, in: int32) -> int
 */
KERNPACK_KERNEL(scale) {
  DLTensor* x;
  double by;
  int64_t more;
  if (kernpack_arg_tensor("scale", args, 0, &x) != 0 || kernpack_arg_float("scale", args, 1, &by) != 0 ||
      kernpack_arg_int("scale", args, 2, &more) != 0) return -1;
  float* data = (float*)kernpack_data(x);
  for (int64_t i = 0; i < kernpack_element_count(x); ++i) data[i] *= (float)by;
  return kernpack_return_int(result, kernpack_element_count(x) + more);
}

// Says nothing of its arguments.
KERNPACK_KERNEL(bare) { return 0; }
"#;

const KERNELS_CL: &str = "
// Adds a number to the first `n` elements.
__kernel void add_cl(__global float* out, const float by, int n) {
  int i = get_global_id(0);
  if (i < n) out[i] += by;
}
__kernel void unknown_cl(__global float* restrict out, __local float* room) { out[0] = room[0]; }
";

/// A kernel that LLVM compiles to PTX, which the fake driver accepts.
const KERNELS_LL: &str = "\
; Adds a number to the first `n` elements.
;
; kernpack: add_cu(out: mut Tensor[float32], by: float32, n: int32)
define ptx_kernel void @add_cu(ptr %out, float %by, i32 %n) {
  %old = load float, ptr %out
  %new = fadd float %old, %by
  store float %new, ptr %out
  ret void
}
";

/// A kernel without an available compiler.
const KERNELS_CU: &str = "
// Subtracts.
extern \"C\" __global__ void sub_cu(float* out, const float by, int n) { out[0] -= by; }
";

/// A library in which one function launches both kinds of kernels, because their typed functions
/// have the same type.
const LIBRARY: &str = r#"
#![warn(missing_docs, unreachable_pub)]
//! Scratch.

use kernels::typed;
use kernpack::module::LaunchConfig;
use kernpack::{DataType, Device, Result, Tensor, packed_func};

kernpack::library!();

type Add = fn(LaunchConfig, &Tensor, f32, i32) -> Result<()>;

fn add_three(kernel: Add, device: Device) -> Result<Vec<f32>> {
    let there = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[4])?.to(device)?;
    kernel(LaunchConfig::new(1, 4), &there, 0.5, 3)?;
    Ok(there.to(Device::CPU)?.view::<f32>()?.to_vec())
}

fn message<T>(result: Result<T>) -> String {
    result.map(drop).map_err(|error| format!("{}: {}", error.kind(), error.message())).unwrap_err()
}

/// Runs everything.
#[packed_func]
pub fn demo() -> Result<String> {
    let mut lines = Vec::new();
    let x = Tensor::from_vec(vec![1.0f32, 2.0], &[2])?;
    lines.push(format!("{} {:?}", typed::scale(&x, 3.0, 40)?, x.view::<f32>()?.to_vec()));
    let ints = Tensor::from_vec(vec![1i32], &[1])?;
    lines.push(message(typed::scale(&ints, 3.0, 40)));
    let cuda = Device::cuda(0);
    lines.push(format!("{:?}", add_three(typed::add_cu, cuda)?));
    let there = Tensor::empty(DataType::INT32, &[4], cuda)?;
    lines.push(message(typed::add_cu((1, 4), &there, 0.5, 3)));
    lines.push(message(typed::add_cu((1, 4), &x, 0.5, 3)));
    lines.push(message(kernels::add_cu.launch(1, 4, (&there, "x", 3))));
    lines.push(message(kernels::add_cu.launch(1, 4, (&there, 1.0))));
    lines.push(message(typed::sub_cu((1, 4), &there, 0.5, 3)));
    let opencl: Device = "opencl:0".parse()?;
    if kernpack::device::api(opencl.device_type()).and_then(|api| api.device_count()).is_ok() {
        lines.push(format!("{:?}", add_three(typed::add_cl, opencl)?));
        lines.push(message(kernels::add_cl.launch(1, 4, (&there, 1.0, 3))));
    }
    Ok(lines.join("\n"))
}
"#;

/// A host program that loads the library by its path only.
const MAIN: &str = r#"
fn main() -> kernpack::Result<()> {
    let module = kernpack::Module::load(std::env::args().nth(1).unwrap())?;
    let there = kernpack::Tensor::empty(kernpack::DataType::INT32, &[4], kernpack::Device::cuda(0))?;
    let error = module.kernel("add_cu")?.launch(1, 4, (&there, 1.0, 1i64 << 40)).unwrap_err();
    println!("{}: {}", error.kind(), error.message());
    println!("{}", module.function("demo")?.call_as::<String>(())?);
    Ok(())
}
"#;

#[cfg(unix)]
#[test]
fn names_and_types_reach_every_caller() {
    let calls = ".c([\"scale.c\"]).cuda([\"k.cu\"]).cuda_llvm_ir([\"k.ll\"]).opencl([\"k.cl\"])";
    let package = Package::new("typed-kernels", calls)
        .file("scale.c", SCALE_C)
        .file("k.cl", KERNELS_CL)
        .file("k.cu", KERNELS_CU)
        .file("k.ll", KERNELS_LL)
        .file("src/lib.rs", LIBRARY)
        .file("examples/host.rs", MAIN);
    let manifest = std::fs::read_to_string(package.dir.join("Cargo.toml")).unwrap();
    package.write("Cargo.toml", &manifest.replace("[\"cuda\"]", "[\"cuda\", \"opencl\"]"));
    let built = package.cargo(&["build", "--lib", "--example", "host"], &[]);
    assert!(built.success, "{}", built.stderr);

    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/c/fake_libcuda.c");
    let driver = package.dir.join("libcuda.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so", "-o"])
        .args([&driver, &source])
        .status();
    assert!(compiled.unwrap().success());
    let library = package.library_path("debug");
    let program = library.with_file_name("examples").join("host");
    let output = Command::new(program).arg(&library).env("LD_PRELOAD", &driver).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let cuda = "\
ValueError: cuda kernel 'add_cu': argument 'n': 1099511627776 is out of range for a 32-bit integer (-2147483648 to 2147483647)
42 [3.0, 6.0]
TypeError: scale(x: Tensor, by: float, in: int): argument 'x': expected a tensor of float32, got one of int32
[1.0, 2.0, 3.0, 4.0]
TypeError: cuda kernel 'add_cu': argument 'out': expected a tensor of float32, got one of int32
ValueError: cuda kernel 'add_cu': argument 'out': expected a tensor on cuda, got one on cpu:0; copy it there first: tensor.to(device) in Rust, kernpack.tensor.to(tensor, device) elsewhere
TypeError: cuda kernel 'add_cu': argument 'by': expected float, got str
TypeError: cuda kernel 'add_cu' takes 3 arguments (out, by, n), got 2
RuntimeError: cuda kernel 'sub_cu' is not in this library: k.cu was not compiled when this library was built: no nvcc was found in NVCC, CUDA_HOME, CUDA_PATH or PATH. Install the CUDA toolkit or set CUDA_HOME, and build again with KERNPACK_CUDA=require
";
    let opencl = "\
[1.5, 2.5, 3.5, 4.0]
ValueError: opencl kernel 'add_cl': argument 'out': expected a tensor on opencl, got one on cuda:0; copy it there first: tensor.to(device) in Rust, kernpack.tensor.to(tensor, device) elsewhere
";
    let has_opencl = printed.lines().count() > cuda.lines().count();
    assert_eq!(printed, if has_opencl { format!("{cuda}{opencl}") } else { cuda.to_owned() });

    // The metadata that other languages, `cargo kernpack inspect` and the stubs of a wheel read.
    let module = Module::load(&library).unwrap();
    assert_eq!(
        module.doc("scale").unwrap().as_deref(),
        Some("Multiplies all elements, and says how many there are.\n\n    this is not Rust: [x] <T>")
    );
    assert_eq!(module.doc("add_cu").unwrap().as_deref(), Some("Adds a number to the first `n` elements."));
    assert_eq!(module.doc("add_cl").unwrap(), module.doc("add_cu").unwrap());
    assert_eq!(
        module.metadata("scale").unwrap().as_deref(),
        Some(
            r#"{"type_schema":"{\"type\":\"ffi.Function\",\"named_args\":{\"return\":[{\"type\":\"int\"}],\"params\":[{\"type\":\"ffi.Tensor\"},{\"type\":\"float\"},{\"type\":\"int\"}]}}","arg_names":["x","by","in"]}"#
        )
    );
    assert_eq!(module.metadata("bare").unwrap(), None);
    let metadata = module.metadata("add_cl").unwrap().unwrap();
    let names =
        r#","arg_names":["out","by","n","grid_x","grid_y","grid_z","block_x","block_y","block_z"],"device_kernel":"#;
    assert!(metadata.contains(names), "{metadata}");

    // rustdoc has no warnings, and does not take text in C comments for Rust code.
    let documented = package.cargo(&["doc", "--no-deps", "--lib"], &[]);
    assert!(documented.success && !documented.stderr.contains("warning: unresolved"), "{}", documented.stderr);
    let tested = package.cargo(&["test", "--doc"], &[]);
    assert!(tested.success && tested.stdout.contains("running 0 tests"), "{}{}", tested.stdout, tested.stderr);
    // The generated code is formatted. rustfmt reads it from stdin, with the configuration of its
    // working directory, which has none.
    let generated = std::fs::File::open(package.out_dir().join("kernpack_library.rs")).unwrap();
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--check", "--edition", "2024"]).current_dir(std::env::temp_dir()).stdin(generated);
    let formatted = rustfmt.output().unwrap();
    assert!(formatted.status.success(), "{}", String::from_utf8_lossy(&formatted.stdout));
}

#[test]
fn declarations_that_are_wrong() {
    let kernel = |declaration: &str| {
        format!("#include <kernpack/kernel.h>\n// kernpack: {declaration}\nKERNPACK_KERNEL(f) {{ return 0; }}\n")
    };
    let package = Package::new("wrong-declaration", ".c([\"k.c\"]).signature(\"g\", \"(a: int)\")");
    package.write("k.c", &kernel("f(a: i32)"));
    let types = "these are: int, int8 to int64, uint8 to uint64, float, float16 to float64, bool, str, bytes, Tensor, Tensor[float32] (or \
                 another type of elements), mut Tensor[..] (one that the kernel writes to), Device, DataType, Function, Any, and for a \
                 result None";
    assert_eq!(
        package.failure(&[]),
        format!(
            "Error: 2 problems\n\nk.c: the comment before the kernel `f`: `i32` is not a type of a declaration; {types}\n\n\
             .signature(\"g\", ..): the library has no kernel of this name; it has f"
        )
    );
    package.write("k.c", &kernel("g(a: int)"));
    assert_eq!(
        package.failure(&[]),
        "Error: 2 problems\n\nk.c: the comment before the kernel `f`: `kernpack: g(a: int)` is not a declaration of `f`; write \
         `kernpack: f(..) -> ..`\n\n.signature(\"g\", ..): the library has no kernel of this name; it has f"
    );
}
