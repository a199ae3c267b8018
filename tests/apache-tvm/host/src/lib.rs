//! Calls of functions that Apache TVM has compiled, shared by both programs.

use kernpack::{Device, Error, Function, Module, Result, Tensor, bail};

/// The number of elements of the vectors.
const LENGTH: usize = 1000;

/// Calls a function of two vectors, and compares what it writes into the second one.
///
/// # Errors
/// The error of the function; RuntimeError that names the first wrong number.
pub fn check(function: &Function, expected: impl Fn(&[f32], usize) -> f32) -> Result<()> {
    check_on(Device::CPU, function, expected)
}

/// The same with vectors on a device.
///
/// # Errors
/// As for [`check`].
pub fn check_on(device: Device, function: &Function, expected: impl Fn(&[f32], usize) -> f32) -> Result<()> {
    let input: Vec<f32> = (0..LENGTH).map(|i| i as f32 * 0.5 - 100.0).collect();
    let (a, b) = (Tensor::from_slice(&input, &[LENGTH as i64])?, Tensor::zeros::<f32>(&[LENGTH as i64])?);
    let (a, b) = (a.to(device)?, b.to(device)?);
    function.call((&a, &b))?;
    let output = b.to(Device::CPU)?.view::<f32>()?.to_vec();
    for (index, &number) in output.iter().enumerate() {
        let expected = expected(&input, index);
        if number != expected {
            bail!(RuntimeError, "number {index} is {number}, not {expected}");
        }
    }
    Ok(())
}

/// Checks that a wrong argument gives an error of the compiled code.
///
/// # Errors
/// RuntimeError if it does not.
pub fn check_wrong_argument(module: &Module, name: &str) -> Result<()> {
    let short = Tensor::zeros::<f32>(&[10])?;
    let error: Error = match module.function(name)?.call((&short, &short)) {
        Ok(_) => bail!(RuntimeError, "'{name}' takes vectors of 10 numbers"),
        Err(error) => error,
    };
    let text = error.to_string();
    if !text.contains("Mismatched") && !text.contains("shape") {
        bail!(RuntimeError, "'{name}' says of a wrong argument: {text}");
    }
    Ok(())
}

/// Checks that no file of Apache TVM and no libtvm_ffi is loaded in this process.
///
/// # Errors
/// RuntimeError that names the file; OSError if the system does not list the loaded files.
pub fn check_process() -> Result<()> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    match maps.lines().find(|line| line.rsplit('/').next().is_some_and(|file| file.starts_with("libtvm"))) {
        Some(line) => bail!(RuntimeError, "this is in the process: {line}"),
        None => Ok(()),
    }
}
