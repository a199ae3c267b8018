//! Mistakes, each in a process of its own: the step prints the error, and makes another call to
//! show whether the process can continue.

use gpu_kernels::kernels;
use kernpack::device::{self, DeviceAttribute};
use kernpack::module::LaunchConfig;
use kernpack::module::device_image::{ArgType, DeviceFunction, DeviceImage};
use kernpack::{DataType, Module, Tensor};

use crate::images;
use crate::numbers::{equal, here, there};
use crate::{GPU, Result};

const BROKEN_PTX: &[u8] =
    b".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry twice(.param .u64 data) { broken; }\n";

pub(crate) fn run(mistake: &[&str]) -> Result {
    match mistake {
        ["bad-ptx"] => {
            let kernels = vec![DeviceFunction::new("twice", vec![ArgType::POINTER], false)];
            let image = DeviceImage::new("ptx", kernels, BROKEN_PTX);
            let data = there(&[1f32], &[1])?;
            let launched = Module::from_image("cuda", &image)?.kernel("twice")?.launch(1, 1, (&data,));
            refused(launched)?;
        }
        ["wrong-architecture", folder] => {
            let module = images::module(&format!("{folder}/{}", images::WRONG_ARCHITECTURE))?;
            refused(images::product(&module).map(drop))?;
        }
        ["cut-off"] => {
            let kernels = vec![DeviceFunction::new("twice", vec![ArgType::POINTER], false)];
            let code = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 0, 16, 0, 0, 0, 0, 0, 0];
            let module = Module::from_image("cuda", &DeviceImage::new("fatbin", kernels, &code))?;
            refused(module.kernel("twice")?.launch(1, 1, (&there(&[1f32], &[1])?,)))?;
        }
        ["out-of-memory"] => {
            let total: i64 = device::attribute(GPU, DeviceAttribute::TotalGlobalMemory)?.to()?;
            refused(Tensor::empty(DataType::UINT8, &[total * 2], GPU).map(drop))?;
        }
        ["illegal-address"] => return illegal_address(),
        ["too-many-threads"] => refused(saxpy(LaunchConfig::new(1, 2048)))?,
        ["too-large-grid"] => refused(saxpy(LaunchConfig::new((1, 70_000), 256)))?,
        ["too-much-shared-memory"] => {
            refused(saxpy(LaunchConfig { dynamic_shared_memory: 1 << 28, ..LaunchConfig::new(1, 256) }))?;
        }
        ["tensor-elsewhere"] => {
            let here = Tensor::from_slice(&[1f32], &[1])?;
            refused(kernels::saxpy_values.launch(1, 1, (&here, &here, 1f32, 1i64)))?;
        }
        _ => return Err(format!("mistake: there is none named '{}'", mistake.join(" ")).into()),
    }
    saxpy(LaunchConfig::new(1, 256))?;
    println!("the next launch: right");
    Ok(())
}

/// Prints the error.
fn refused(outcome: kernpack::Result<()>) -> Result {
    match outcome {
        Err(error) => {
            println!("refused: {error}");
            Ok(())
        }
        Ok(()) => Err("expected an error, but it went well".into()),
    }
}

/// A launch with a correct result if the configuration is valid.
fn saxpy(config: LaunchConfig) -> kernpack::Result<()> {
    let values = [1f32, 2.0, 3.0];
    let fail = |error: Box<dyn std::error::Error>| kernpack::Error::runtime_error(error.to_string());
    let (x, y) = (Tensor::from_slice(&values, &[3])?.to(GPU)?, Tensor::from_slice(&values, &[3])?.to(GPU)?);
    kernels::saxpy_values.launch_with(&config, (&y, &x, 2f32, 3i64))?;
    let found = here::<f32>(&y).map_err(fail)?;
    equal("saxpy_values", &found, &[3.0, 6.0, 9.0]).map_err(fail)
}

/// A kernel with an invalid address breaks the context: the error is reported when the program
/// waits, and again by every later call. The process itself ends normally.
fn illegal_address() -> Result {
    let data = there(&[0i32], &[1])?;
    kernels::write_far_away.launch(1, 1, (&data, 1i64 << 36))?;
    refused(gpu_kernels::synchronize(GPU))?;
    match data.to(GPU).and_then(|copy| copy.to(kernpack::Device::CPU)) {
        Err(error) => println!("the next call: {error}"),
        Ok(_) => return Err("the next call: expected an error, but it went well".into()),
    }
    println!("the process ends");
    Ok(())
}
