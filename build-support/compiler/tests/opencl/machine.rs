//! The OpenCL device of this machine, and runs of modules on it.

use std::io::Write as _;

use kernpack::device::{self, device_type};
use kernpack::{Any, Device, Error, Tensor};
use kernpack_compiler::codegen::{Target, source};
use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::{DataType, F32, F64, I32, IrModule};
use kernpack_compiler::{build_device, text};

/// Reports that a test cannot run here; panics if OpenCL was expected.
fn skip(error: &Error) {
    let is_required = std::env::var("KERNPACK_OPENCL").as_deref() == Ok("require");
    assert!(!is_required && std::env::var_os("CI").is_none(), "{error}");
    let test = std::thread::current();
    let name = test.name().unwrap_or("a test");
    // Bypasses the test harness, which hides the output of a passing test.
    let _ = std::io::stderr().write_all(format!("skipped: {name}: {}\n", error.message()).as_bytes());
}

/// All devices; if there is none, prints a line.
pub(crate) fn devices() -> Vec<Device> {
    match device::api(device_type::OPENCL).and_then(|api| api.device_count()) {
        Ok(count) => (0..count).map(|index| Device::new(device_type::OPENCL, index)).collect(),
        Err(error) => {
            skip(&error);
            Vec::new()
        }
    }
}

/// The first device.
pub(crate) fn device() -> Option<Device> {
    devices().first().copied()
}

/// An argument of a function.
#[derive(Clone)]
pub(crate) enum Value {
    /// A tensor: type, shape, elements; none: an output.
    Tensor(DataType, Vec<i64>, Option<Vec<f64>>),
    /// A number.
    Int(i64),
}

/// A tensor on the CPU.
pub(crate) fn tensor(dtype: DataType, shape: &[i64], values: &[f64]) -> Tensor {
    match dtype {
        F64 => Tensor::from_slice(values, shape),
        F32 => Tensor::from_slice(&values.iter().map(|value| *value as f32).collect::<Vec<_>>(), shape),
        I32 => Tensor::from_slice(&values.iter().map(|value| *value as i32).collect::<Vec<_>>(), shape),
        DataType::INT8 => Tensor::from_slice(&values.iter().map(|value| *value as i8).collect::<Vec<_>>(), shape),
        DataType::UINT8 => Tensor::from_slice(&values.iter().map(|value| *value as u8).collect::<Vec<_>>(), shape),
        _ => Tensor::from_slice(&values.iter().map(|value| *value as i64).collect::<Vec<_>>(), shape),
    }
    .expect("a tensor")
}

/// The elements of a tensor on the CPU.
pub(crate) fn elements(dtype: DataType, tensor: &Tensor) -> Vec<f64> {
    match dtype {
        F64 => tensor.view::<f64>().expect("of this type").to_vec(),
        F32 => tensor.view::<f32>().expect("of this type").to_vec().into_iter().map(f64::from).collect(),
        I32 => tensor.view::<i32>().expect("of this type").to_vec().into_iter().map(f64::from).collect(),
        DataType::INT8 => tensor.view::<i8>().expect("of this type").to_vec().into_iter().map(f64::from).collect(),
        DataType::UINT8 => tensor.view::<u8>().expect("of this type").to_vec().into_iter().map(f64::from).collect(),
        _ => tensor.view::<i64>().expect("of this type").to_vec().into_iter().map(|value| value as f64).collect(),
    }
}

/// A part of a tensor with one dimension, in the same memory.
pub(crate) fn part(whole: &Tensor, first: i64, count: i64) -> Tensor {
    whole.slice(first..first + count).expect("a part")
}

/// The source of the kernels of a module.
pub(crate) fn source(module: &IrModule) -> String {
    source::source(&source::OPENCL, module).unwrap_or_else(|error| panic!("{error}\n{}", text::print(module))).0
}

/// The outputs of function `name` on a device.
pub(crate) fn on_device(module: &IrModule, name: &str, device: Device, values: &[Value]) -> Vec<Vec<f64>> {
    let shown = || text::print(module);
    let built = build_device(module, &Target::parse("opencl").expect("a target"))
        .unwrap_or_else(|error| panic!("{error}\n{}", shown()));
    let code = built.imports()[0].inspect_source("cl").expect("its source");
    let function = built.function(name).unwrap_or_else(|error| panic!("{error}\n{}", shown()));
    let (mut args, mut outputs) = (Vec::new(), Vec::new());
    for value in values {
        match value {
            Value::Int(value) => args.push(Any::from(*value)),
            Value::Tensor(dtype, shape, values) => {
                let zeros = || vec![0.0; shape.iter().product::<i64>() as usize];
                let there = tensor(*dtype, shape, &values.clone().unwrap_or_else(zeros)).to(device).expect("a copy");
                if values.is_none() {
                    outputs.push((*dtype, there.clone()));
                }
                args.push(there.into());
            }
        }
    }
    function.call(&args[..]).unwrap_or_else(|error| panic!("{error}\n{code}\n{}", shown()));
    let cpu = Device::new(device_type::CPU, 0);
    outputs.iter().map(|(dtype, there)| elements(*dtype, &there.to(cpu).expect("a copy"))).collect()
}

/// The outputs of function `name` in the interpreter.
pub(crate) fn interpreted(module: &IrModule, name: &str, values: &[Value]) -> Vec<Vec<f64>> {
    let machine = Machine::of_module(module).unwrap_or_else(|error| panic!("{error}\n{module}"));
    let (mut args, mut outputs): (Vec<Arg>, Vec<Block>) = (Vec::new(), Vec::new());
    for value in values {
        match value {
            Value::Int(value) => args.push(Arg::from(*value)),
            Value::Tensor(dtype, shape, Some(values)) => {
                args.push((&Block::from_f64(*dtype, shape, values)).into());
            }
            Value::Tensor(dtype, shape, None) => {
                let block = Block::uninit(*dtype, shape);
                args.push((&block).into());
                outputs.push(block);
            }
        }
    }
    machine.run(name, &args).unwrap_or_else(|error| panic!("{error}\n{module}"));
    outputs.iter().map(|block| block.to_f64().expect("all values")).collect()
}

/// Checks that the device computes what the interpreter computes, with this relative tolerance.
pub(crate) fn check(module: &IrModule, name: &str, values: &[Value], tolerance: f64) {
    let Some(device) = device() else { return };
    let wanted = interpreted(module, name, values);
    let found = on_device(module, name, device, values);
    for (wanted, found) in wanted.iter().zip(&found) {
        close(wanted, found, tolerance);
    }
}

/// Checks that values are equal up to a relative tolerance.
pub(crate) fn close(wanted: &[f64], found: &[f64], tolerance: f64) {
    assert_eq!(wanted.len(), found.len());
    for (index, (wanted, found)) in wanted.iter().zip(found).enumerate() {
        let same = wanted == found || wanted.is_nan() && found.is_nan();
        let error = (wanted - found).abs();
        assert!(same || error <= tolerance * wanted.abs().max(1.0), "element {index} is {found}, expected {wanted}");
    }
}

/// Numbers between -3 and 3, the same ones each time.
pub(crate) fn numbers(seed: u64, count: i64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678;
    let next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % 7) as f64 - 3.0
    };
    std::iter::repeat_with(next).take(count as usize).collect()
}
