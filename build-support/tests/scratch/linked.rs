//! Programs and libraries that link crates with device kernels: the import tree of each crate is
//! found in the file that contains it.

use std::path::Path;
use std::process::Command;

use kernpack::Module;

use crate::opencl_check::device;
use crate::package::Package;

const BLEND: &str = r#"#include "weights.h"

/* Blends two vectors. */
__kernel void blend(__global float* out, __global const float* a, __global const float* b, int n) {
  int i = get_global_id(0);
#ifdef __FAST_RELAXED_MATH__
  const float fast = 100.0f;
#else
  const float fast = 0.0f;
#endif
  if (i < n) out[i] = fast + GAIN * (WEIGHT * a[i] + (1.0f - WEIGHT) * b[i]);
}
"#;

const SCALE: &str = "
define ptx_kernel void @scale(ptr %out, ptr %in, float %factor, i32 %n) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %from = getelementptr float, ptr %in, i32 %thread
  %value = load float, ptr %from
  %scaled = fmul float %value, %factor
  %to = getelementptr float, ptr %out, i32 %thread
  store float %scaled, ptr %to
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
";

/// A library with a kernel for OpenCL and one for CUDA.
fn blend() -> Package {
    let calls = ".opencl([\"kernels/blend.cl\"]).include(\"kernels/include\").define(\"GAIN\", \"2.0f\")\
                 .opencl_option(\"-cl-fast-relaxed-math\").cuda_llvm_ir([\"kernels/scale.ll\"]).cuda_arch([\"80\"])";
    Package::new("linked-blend", calls)
        .with_opencl()
        .file("kernels/blend.cl", BLEND)
        .file("kernels/include/weights.h", "#pragma once\n#define WEIGHT 0.25f\n")
        .file("kernels/scale.ll", SCALE)
        .file(
            "src/lib.rs",
            r#"//! Scratch.
use kernpack::{DataType, Device, Result, Tensor, packed_func};

kernpack::library!();

/// On the first OpenCL device.
#[packed_func]
pub fn blended(a: Tensor, b: Tensor) -> Result<Tensor> {
    let device = "opencl:0".parse()?;
    let (a, b) = (a.to(device)?, b.to(device)?);
    let out = Tensor::empty(DataType::FLOAT32, a.shape(), device)?;
    let n = a.len() as u32;
    kernels::typed::blend((1, n), &out, &a, &b, n as i32)?;
    out.to(Device::CPU)
}

/// On the first GPU.
#[packed_func]
pub fn scaled(x: Tensor, by: f32) -> Result<Tensor> {
    let x = x.to(Device::cuda(0))?;
    let out = Tensor::empty(DataType::FLOAT32, x.shape(), x.device())?;
    kernels::scale.launch(1, x.len() as u32, (&out, &x, by, x.len() as i32))?;
    Ok(out)
}
"#,
        )
}

/// A library that has its own kernel and links the other library.
fn fill(blend: &Package) -> Package {
    Package::new("linked-fill", ".opencl([\"fill.cl\"])")
        .with_opencl()
        .depends_on(blend)
        .file("fill.cl", "__kernel void fill(__global float* out, float x) { out[get_global_id(0)] = x; }\n")
        .file(
            "src/lib.rs",
            r#"//! Scratch.
use kernpack::{DataType, Device, Result, Tensor, packed_func};

kernpack::library!();

/// A vector of one number.
#[packed_func]
pub fn filled(n: u32, x: f32) -> Result<Tensor> {
    let out = Tensor::empty(DataType::FLOAT32, &[i64::from(n)], "opencl:0".parse()?)?;
    kernels::fill.launch(1, n, (&out, x))?;
    out.to(Device::CPU)
}

/// Kernels of both crates.
#[packed_func]
pub fn both(a: Tensor) -> Result<Tensor> {
    let b = filled(a.len() as u32, 5.0)?;
    linked_blend::blended(a, b)
}
"#,
        )
}

/// A program that prints the kernels that it finds, the result of a call of each kernel, and, with
/// the fake CUDA driver, the log of the driver calls.
const MAIN: &str = r#"
use std::ffi::{CStr, c_char, c_void};

use kernpack::{Result, Tensor};
use linked_blend::kernels;

fn shown(result: Result<Tensor>) -> String {
    match result.and_then(|tensor| Ok((tensor.device(), tensor.to(kernpack::Device::CPU)?.view::<f32>()?.to_vec()))) {
        Ok((device, values)) => format!("{device} {values:?}"),
        Err(error) => error.to_string(),
    }
}

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

fn main() -> Result<()> {
    println!("{:?} {:?} {:?}", kernels::scale.status(), kernels::blend.status(), linked_fill::kernels::fill.status());
    println!("{}", kernels::scale.metadata());
    println!("{}", kernels::scale.function().is_ok());
    let a = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3])?;
    println!("{}", shown(linked_blend::scaled(a.clone(), 2.0)));
    println!("{}", kernels::scale.launch(1, 3, (&a, &a, 2.0, 3)).unwrap_err());
    println!("{}", shown(linked_blend::blended(a.clone(), a.clone())));
    println!("{}", shown(linked_fill::both(a)));
    // SAFETY: a lookup by name, of a function with this type.
    unsafe {
        let log = dlsym(std::ptr::null_mut(), c"fake_cuda_take_log".as_ptr());
        if !log.is_null() {
            let log: unsafe extern "C" fn() -> *mut c_char = std::mem::transmute(log);
            println!("{}", CStr::from_ptr(log()).to_str().unwrap());
        }
    }
    Ok(())
}
"#;

fn output(program: &Path, preload: Option<&Path>) -> String {
    let mut command = Command::new(program);
    command.current_dir(std::env::temp_dir());
    if let Some(preload) = preload {
        command.env("LD_PRELOAD", preload);
    }
    let output = command.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

#[cfg(unix)]
#[test]
fn a_program_finds_the_kernels_of_the_crates_that_it_links() {
    let blend = blend();
    let fill = fill(&blend);
    let user = Package::new("linked-user", "").linking(&[&blend, &fill]).file("src/main.rs", MAIN);
    let built = user.cargo(&["build"], &[]);
    assert!(built.success, "{}", built.stderr);
    fill.build();
    let has_opencl = device(&blend).is_some();
    // The program does not need any file of the crates.
    for package in [&blend, &fill] {
        let moved = package.dir.with_extension("moved");
        let _ = std::fs::remove_dir_all(&moved);
        std::fs::rename(&package.dir, moved).unwrap();
    }

    let program = user.program_path("debug");
    let names = r#""arg_names":["out","in","factor","n","grid_x","grid_y","grid_z","block_x","block_y","block_z"]"#;
    let typed = "ValueError: cuda kernel 'scale': argument 'out': expected a tensor on cuda, got one on cpu:0; copy it there first: \
                 tensor.to(device) in Rust, kernpack.tensor.to(tensor, device) elsewhere";
    let opencl = "cpu:0 [102.0, 104.0, 106.0]\ncpu:0 [108.0, 108.5, 109.0]\n";
    let check = |printed: &str, launched: &str| {
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines[0], "Built Built Built");
        assert!(lines[1].contains(names), "{printed}");
        assert_eq!(lines[2..5], ["true", launched, typed], "{printed}");
        if has_opencl {
            assert_eq!(format!("{}\n{}\n", lines[5], lines[6]), opencl);
        }
    };
    let printed = output(&program, None);
    if !Path::new("/dev/nvidiactl").exists() {
        let why = "RuntimeError: there is no CUDA driver on this machine (libcuda.so.1 was not found); run it where an NVIDIA GPU and its driver \
                   are installed";
        check(&printed, why);
    }

    // With a fake driver, which logs the launches.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/c/fake_libcuda.c");
    let driver = user.dir.join("libcuda.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so", "-o"])
        .args([&driver, &source])
        .status();
    assert!(compiled.unwrap().success());
    let printed = output(&program, Some(&driver));
    let log = printed.lines().last().unwrap();
    assert!(log.contains("load ptx on 0;") && log.contains("launch scale on 0: 1,1,1 x 3,1,1 shared 0"), "{log}");
    let launched = printed.lines().nth(3).unwrap();
    assert!(launched.starts_with("cuda:0 ["), "{launched}");
    check(&printed, launched);

    // A library can use its own kernels and those of the crate that it links. Its import tree
    // contains only its own.
    let module = Module::load(fill.library_path("debug")).unwrap();
    let kernels: Vec<bool> = ["fill", "blend", "scale"].map(|name| module.imports()[0].function(name).is_ok()).into();
    assert_eq!(kernels, [true, false, false]);
    if has_opencl {
        let a = kernpack::Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3]).unwrap();
        let both: kernpack::Tensor = module.function("both").unwrap().call_as((a,)).unwrap();
        assert_eq!(both.view::<f32>().unwrap().to_vec(), [108.0, 108.5, 109.0]);
    }
}
