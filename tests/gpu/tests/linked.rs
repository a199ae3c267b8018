//! A program that links the crate, as this test does: its functions find their kernels without a
//! loaded library. On a machine with a GPU they run; on any other, their errors name the missing
//! requirement.

use gpu_kernels::{kernels, matmul, matmul_on_cpu, softmax, softmax_on_cpu};
use kernpack::device::{self, device_type};
use kernpack::{DataType, Device, ImageStatus, Result, Tensor};
use kernpack_skip::{skip, skip_anywhere};

const NAMES: [&str; 3] = ["matmul_tiled", "matmul_dynamic_tiles", "softmax_rows"];

fn numbers(rows: i64, columns: i64) -> Result<Tensor> {
    Tensor::from_vec((0..rows * columns).map(|i| (i % 7) as f32 - 3.0).collect(), &[rows, columns])
}

/// Returns whether the library was built with nvcc; if not, prints the reason.
fn is_built() -> bool {
    match kernels::matmul_tiled.status() {
        ImageStatus::NotBuilt(why) => {
            skip(why);
            false
        }
        _ => true,
    }
}

fn gpus() -> Result<i32> {
    device::api(device_type::CUDA)?.device_count()
}

#[test]
fn kernels_have_names_types_and_images() -> Result<()> {
    let all = [&kernels::matmul_tiled, &kernels::matmul_dynamic_tiles, &kernels::softmax_rows];
    assert_eq!(all.map(|kernel| kernel.name()), NAMES);
    if !is_built() {
        let error = matmul(numbers(2, 3)?, numbers(3, 2)?, numbers(2, 2)?).unwrap_err();
        assert!(error.message().contains("kernels/matmul.cu was not compiled when this library was built"), "{error}");
        return Ok(());
    }
    for kernel in all {
        kernel.function()?;
        assert!(kernel.metadata().contains("\"launch_params\""), "{}", kernel.metadata());
    }
    // Arguments are checked before the driver is called.
    let error = matmul(numbers(2, 3)?, numbers(3, 2)?, numbers(2, 2)?).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ValueError: cuda kernel 'matmul_tiled': argument 'a': expected a tensor on cuda, got one on cpu:0; copy it there first: \
         tensor.to(device) in Rust, kernpack.tensor.to(tensor, device) elsewhere"
    );
    Ok(())
}

#[test]
fn a_machine_without_a_gpu_says_what_is_missing() -> Result<()> {
    let Err(missing) = gpus() else { return Ok(()) };
    let error = numbers(2, 3)?.to(Device::cuda(0)).expect_err("there is no device");
    assert_eq!(error.to_string(), missing.to_string());
    assert!(["CUDA driver", "NVIDIA", "GPU"].iter().any(|word| error.message().contains(word)), "{error}");
    Ok(())
}

#[test]
fn functions_of_the_linked_crate_run_on_a_gpu() -> Result<()> {
    if !is_built() {
        return Ok(());
    }
    let gpu = match gpus() {
        Ok(1..) => Device::cuda(0),
        outcome => {
            let why = outcome.map_or_else(|error| error.message().to_owned(), |_| "there is none".to_owned());
            skip_anywhere(format_args!("no GPU was found, so nothing was launched from the linked crate ({why})"));
            return Ok(());
        }
    };
    let (a, b) = (numbers(65, 33)?, numbers(33, 130)?);
    let expected = matmul_on_cpu(a.view()?, b.view()?)?;
    let c = Tensor::empty(DataType::FLOAT32, &[65, 130], gpu)?;
    matmul(a.to(gpu)?, b.to(gpu)?, c.clone())?;
    // Sums of small integers are exact.
    assert_eq!(c.to(Device::CPU)?.view::<f32>()?.to_vec(), expected.view::<f32>()?.to_vec());

    let expected = softmax_on_cpu(a.view()?)?;
    let y = Tensor::empty(DataType::FLOAT32, &[65, 33], gpu)?;
    softmax(a.to(gpu)?, y.clone())?;
    let (found, expected) = (y.to(Device::CPU)?, expected);
    for (found, expected) in found.view::<f32>()?.to_vec().iter().zip(expected.view::<f32>()?.to_vec()) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
    Ok(())
}
