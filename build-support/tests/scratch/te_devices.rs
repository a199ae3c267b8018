//! Kernels from tensor expressions that are also built for OpenCL.

use std::fs;
use std::process::Command;

use kernpack::{Module, Tensor};

use crate::opencl_check::device;
use crate::package::Package;

/// Returns a package whose build script begins with `use te::*` and adds these kernels.
fn package(name: &str, calls: &str) -> Package {
    let package = Package::new(name, calls).with_opencl();
    let script = fs::read_to_string(package.dir.join("build.rs")).unwrap();
    package.write("build.rs", &format!("use kernpack_build::te::*;\n{script}"));
    package
}

/// A kernel with a schedule, one of two stages, and one that is only for CPUs.
const KERNELS: &str = r#"
        .te("dense", |k| {
            let m = k.size("m");
            let a = k.input("a", (&m, 40), F32);
            let w = k.input("w", (24, 40), F32);
            let r = reduce_axis(0, 40, "r");
            let c = compute((&m, 24), |[i, j]| sum(a.at([&i, &r]) * w.at([&j, &r]), &r)).named("c");
            k.output("out", compute((&m, 24), |[i, j]| max(c.at([&i, &j]), 0.0)));
            Ok(())
        })
        .te("image.scaled", |k| {
            let n = k.size("n");
            let x = k.input("x", [&n], F32);
            let by = k.scalar("by", F32);
            let out = compute([&n], |[i]| x.at([&i]) * &by).named("out");
            k.output("out", out.clone());
            k.schedule_for("opencl", move |s, _| {
                let [i] = s.stage(&out).axes()?;
                let (block, thread) = s.stage(&out).split(&i, 16)?;
                s.stage(&out).bind(&block, &thread_axis(None, "blockIdx.x"))?;
                s.stage(&out).bind(&thread, &thread_axis(None, "threadIdx.x")).map(drop)
            });
            Ok(())
        })
        .te("gathered", |k| {
            let (m, n) = (k.size("m"), k.size("n"));
            let (x, at) = (k.input("x", [&m], F32), k.input("at", [&n], I64));
            k.output("out", compute([&n], |[i]| x.at([&at.at([&i])])));
            k.devices(["cpu"]);
            Ok(())
        })
        .multiversion(["x86-64-v3"])
        .devices(["opencl"])"#;

/// A program that prints the results of each kernel on the CPU and on the first OpenCL device, and
/// the errors for arguments that do not fit.
const MAIN: &str = r#"
use kernpack::{Device, Result, Tensor};
use te_devices::kernels::typed;

fn values(count: i64, seed: i64) -> Vec<f32> {
    (0..count).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
}

fn tensor(shape: &[i64], seed: i64) -> Result<Tensor> {
    Tensor::from_vec(values(shape.iter().product(), seed), shape)
}

fn shown(result: Result<()>) -> String {
    match result {
        Ok(()) => "no error".to_owned(),
        Err(error) => error.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

fn dense(m: i64, device: Device) -> Result<Vec<f32>> {
    let (a, w, out) = (tensor(&[m, 40], 1)?, tensor(&[24, 40], 2)?, tensor(&[m, 24], 3)?);
    let out = out.to(device)?;
    typed::dense(&a.to(device)?, &w.to(device)?, &out)?;
    Ok(out.to(Device::CPU)?.view::<f32>()?.to_vec())
}

fn scaled(n: i64, device: Device) -> Result<Vec<f32>> {
    let out = tensor(&[n], 3)?.to(device)?;
    typed::image_scaled(&tensor(&[n], 1)?.to(device)?, 3.0, &out)?;
    Ok(out.to(Device::CPU)?.view::<f32>()?.to_vec())
}

fn main() -> Result<()> {
    let expected = |m: i64| -> Vec<f32> {
        let (a, w) = (values(m * 40, 1), values(24 * 40, 2));
        let at = |at: usize| (0..40).map(|k| a[at / 24 * 40 + k] * w[at % 24 * 40 + k]).sum::<f32>().max(0.0);
        (0..m as usize * 24).map(at).collect()
    };
    println!("cpu: {} {:?}", dense(13, Device::CPU)? == expected(13), scaled(3, Device::CPU)?);
    let there: Device = "opencl:0".parse()?;
    let api = kernpack::device::api(there.device_type()).and_then(|api| api.device_count());
    if let Err(error) = api {
        println!("{}", error.message());
        return Ok(());
    }
    for m in [0, 1, 13] {
        println!("opencl: {}", dense(m, there)? == expected(m));
    }
    println!("opencl: {:?}", scaled(3, there)?);
    println!("opencl: {}", scaled(1000, there)? == scaled(1000, Device::CPU)?);

    let (a, w, out) = (tensor(&[13, 40], 1)?, tensor(&[24, 40], 2)?, tensor(&[13, 24], 3)?);
    let (a2, w2, out2) = (a.to(there)?, w.to(there)?, out.to(there)?);
    println!("{}", shown(typed::dense(&a2, &w, &out2)));
    println!("{}", shown(typed::dense(&a, &w, &out2)));
    println!("{}", shown(typed::dense(&a2, &w2, &tensor(&[12, 24], 3)?.to(there)?)));
    println!("{}", shown(typed::dense(&a2, &tensor(&[24, 39], 3)?.to(there)?, &out2)));
    let x = tensor(&[8], 1)?.to(there)?;
    println!("{}", shown(typed::image_scaled(&x.slice(0..5)?, 2.0, &x.slice(3..8)?)));
    println!("{}", shown(typed::image_scaled(&x.slice(0..4)?, 2.0, &x.slice(4..8)?)));
    println!("{:?}", x.to(Device::CPU)?.view::<f32>()?.to_vec());
    let at = Tensor::from_vec(vec![2i64, 0], &[2])?;
    let picked = tensor(&[2], 0)?;
    typed::gathered(&tensor(&[4], 1)?, &at, &picked)?;
    println!("{:?}", picked.view::<f32>()?.to_vec());
    println!("{}", shown(typed::gathered(&x, &at.to(there)?, &picked.to(there)?)));
    Ok(())
}
"#;

const CPU_PRINTS: &str = "cpu: true [-12.0, 9.0, -3.0]\n";

const OPENCL_PRINTS: &str = "\
opencl: true
opencl: true
opencl: true
opencl: [-12.0, 9.0, -3.0]
opencl: true
ValueError: Mismatched w.device_type on argument #1 when calling: `dense(a: Tensor([m, 40], float32), w: Tensor([24, 40], float32), out: Tensor([m, 24], float32))`, expected opencl, where a is; the function was built for cpu and opencl
ValueError: Mismatched out.device_type on argument #2 when calling: `dense(a: Tensor([m, 40], float32), w: Tensor([24, 40], float32), out: Tensor([m, 24], float32))`, expected cpu, where a is; the function was built for cpu and opencl
ValueError: Mismatched out.shape[0] on argument #2 when calling: `dense(a: Tensor([m, 40], float32), w: Tensor([24, 40], float32), out: Tensor([m, 24], float32))`, expected to match a.shape[0]
ValueError: Invalid w.shape[1] on argument #1 when calling: `dense(a: Tensor([m, 40], float32), w: Tensor([24, 40], float32), out: Tensor([m, 24], float32))`, expected 40
ValueError: out overlaps another argument on argument #2 when calling: `image.scaled(x: Tensor([n], float32), by: float32, out: Tensor([n], float32))`, expected memory apart from x
no error
[-4.0, 3.0, -1.0, -5.0, -8.0, 6.0, -2.0, -10.0]
[-1.0, -4.0]
ValueError: Mismatched x.device_type on argument #0 when calling: `gathered(x: Tensor([m], float32), at: Tensor([n], int64), out: Tensor([n], float32))`, expected cpu
";

#[test]
fn a_kernel_runs_where_its_tensors_are() {
    let package = package("te-devices", KERNELS).file("src/main.rs", MAIN);
    package.build();
    let has_opencl = device(&package).is_some();
    let printed = package.run(&[]);
    assert!(printed.starts_with(CPU_PRINTS), "{printed}");
    if has_opencl {
        assert_eq!(printed, format!("{CPU_PRINTS}{OPENCL_PRINTS}"));
    }
    let list = fs::read_to_string(package.out_dir().join("kernpack/outputs.json")).unwrap();
    for file in ["te_opencl0_dense.cl", "te_opencl0_dense.o", "te0_dense.o", "dense/opencl.notes.txt"] {
        assert!(list.contains(file), "{file}: {list}");
    }

    // On a machine without OpenCL, tensors are on the CPU.
    let mut program = Command::new(package.program_path("debug"));
    let absent = package.dir.join("libOpenCL.so.1");
    let output = program.env("KERNPACK_OPENCL_LIBRARY", &absent).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let missing =
        format!("the OpenCL library '{}' that KERNPACK_OPENCL_LIBRARY names cannot be loaded", absent.display());
    assert!(printed.starts_with(CPU_PRINTS) && printed.contains(&missing), "{printed}");

    // As a library, too; its functions copy tensors to the device.
    let module = Module::load(package.library_path("debug")).unwrap();
    assert!(module.function("dense_kernel0").is_err() && module.function("dense").is_ok());
    if has_opencl {
        let to = kernpack::Function::global("kernpack.tensor.to").unwrap();
        let copy = |tensor: &Tensor, device: &str| to.call_as::<Tensor>((tensor, device)).unwrap();
        let x = copy(&Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3]).unwrap(), "opencl:0");
        let out = copy(&Tensor::from_slice(&[0.0f32; 3], &[3]).unwrap(), "opencl:0");
        module.function("image.scaled").unwrap().call((&x, 2.0, &out)).unwrap();
        assert_eq!(copy(&out, "cpu").view::<f32>().unwrap().to_vec(), [2.0, 4.0, 6.0]);
    }
}

/// One changed kernel is compiled again, and an unchanged package is not.
#[test]
fn only_what_changed_is_compiled() {
    let package = package("te-devices-cache", KERNELS);
    package.build();
    if device(&package).is_none() {
        return;
    }
    let again = package.cargo(&["build", "-v"], &[]);
    assert!(again.success && !again.did_work(), "{}", again.stderr);
    let script = fs::read_to_string(package.dir.join("build.rs")).unwrap();
    package.write("build.rs", &script.replace("x.at([&i]) * &by", "x.at([&i]) + &by"));
    package.build();
    let lines = package.script_output();
    let compiled: Vec<&str> = lines.lines().filter(|line| line.contains(" compiled by ")).collect();
    assert!(!compiled.is_empty() && compiled.iter().all(|line| line.contains("`image.scaled`")), "{compiled:?}");
    assert!(compiled.iter().any(|line| line.contains("compiled by OpenCL on")), "{compiled:?}");
}

#[test]
fn mistakes_are_errors_of_the_build() {
    let calls = r#"
        .te("gathered", |k| {
            let (m, n) = (k.size("m"), k.size("n"));
            let (x, at) = (k.input("x", [&m], F32), k.input("at", [&n], I64));
            k.output("out", compute([&n], |[i]| x.at([&at.at([&i])])));
            Ok(())
        })
        .te("sorted", |k| {
            let n = k.size("n");
            let x = k.input("x", [&n], F32);
            k.output("out", extern_op("sorted", [&x]).output([&n], F32).call_packed("sort")[0].clone());
            Ok(())
        })
        .te("bound", |k| {
            let x = k.input("x", [8], F32);
            k.output("out", compute([8], |[i]| x.at([&i]) * 2.0));
            k.schedule_for("opencl", |s, _| {
                let stage = s.stages().next_back().unwrap();
                let [i] = s.stage(stage).axes()?;
                s.stage(stage).unroll(&i).map(drop)
            });
            Ok(())
        })
        .te("other", |k| {
            let x = k.input("x", [8], F32);
            k.output("out", compute([8], |[i]| x.at([&i]) * 2.0));
            k.schedule_for("metal", |_, _| Ok(()));
            Ok(())
        })"#;
    let package = package("te-devices-mistakes", &format!("{calls}.devices([\"opencl\"])"));
    let message = package.message(&[]);
    for expected in [
        "4 problems",
        "LowerError: `gathered`: `x` is read at index `at[",
        "the read is not proved to be in bounds, and a kernel for a device cannot check it",
        "in the version of kernel `sorted` for opencl",
        "function `bound` accesses memory of the device from the host: `out`",
        "schedule_for: kernel `other`: unknown device `metal`\n  --> build.rs:29:15\n   = kernels are compiled for cpu, opencl",
    ] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let script = fs::read_to_string(package.dir.join("build.rs")).unwrap();
    package.write("build.rs", &script.replace("[\"opencl\"]", "[\"opencl\", \"gpu\"]"));
    assert_eq!(package.failure(&[]), "Error: .devices(..): unknown device `gpu`; it may be cpu or opencl");
    let (head, tail) = script.split_once("Library::new()").unwrap();
    let end = tail.rfind(".devices").unwrap();
    package.write("build.rs", &format!("{head}Library::new(){}", &tail[end..]));
    let none = ".devices(..): the library has no kernels of `.te(..)`, and no others are compiled for devices";
    assert!(package.failure(&[]).contains(none));
}
