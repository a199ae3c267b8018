//! Device, pinned and managed tensors: copies between all of them, kernels that use them, views,
//! freed memory.

use gpu_kernels::kernels;
use kernpack::device::{self, DeviceAttribute, device_type};
use kernpack::{DataType, Device, Tensor};

use crate::numbers::{Numbers, equal, here};
use crate::{GPU, Result};

pub(crate) fn run() -> Result {
    let mut numbers = Numbers::new(3);
    let (pinned, managed) = (Device::new(device_type::CUDA_HOST, 0), Device::new(device_type::CUDA_MANAGED, 0));
    let places = [Device::CPU, GPU, pinned, managed];
    for count in [1, 1023, 65_537] {
        let values = numbers.reals(count);
        for from in places {
            for to in places {
                let copied = Tensor::from_slice(&values, &[count])?.to(from)?.to(to)?;
                equal(&format!("{count} elements from {from} to {to}"), &here::<f32>(&copied)?, &values)?;
            }
        }
    }
    println!("copies between cpu, cuda, cuda_host and cuda_managed: right");

    let (x, y) = (numbers.reals(1000), numbers.reals(1000));
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 2f32.mul_add(*x, *y)).collect();
    for (x_place, y_place) in [(GPU, pinned), (GPU, managed), (pinned, managed), (managed, GPU), (managed, managed)] {
        let (x_there, y_there) = (Tensor::from_slice(&x, &[1000])?.to(x_place)?, Tensor::from_slice(&y, &[1000])?);
        let y_there = y_there.to(y_place)?;
        kernels::saxpy_values.launch(4, 256, (&y_there, &x_there, 2f32, 1000i64))?;
        gpu_kernels::synchronize(GPU)?;
        equal(&format!("a kernel with x on {x_place}, y on {y_place}"), &here::<f32>(&y_there)?, &expected)?;
    }
    println!("kernels with tensors of all three kinds: right");

    let matrix = Tensor::from_slice(&x, &[10, 100])?.to(GPU)?;
    equal("rows 3 to 5", &here::<f32>(&matrix.slice(3..5)?)?, &x[300..500])?;
    equal("a reshaped tensor", &here::<f32>(&matrix.reshape(&[1000])?)?, &x)?;
    let rows = matrix.slice(9..10)?;
    drop(matrix);
    equal("a view that outlives its tensor", &here::<f32>(&rows)?, &x[900..])?;
    if !Tensor::empty(DataType::FLOAT32, &[0, 5], GPU)?.to(Device::CPU)?.is_empty() {
        return Err("an empty tensor: expected no elements".into());
    }

    let free = || -> Result<i64> { Ok(device::attribute(GPU, DeviceAttribute::AvailableGlobalMemory)?.to::<i64>()?) };
    let before = free()?;
    // More than twice the free memory, in sequence.
    let size = before / 16;
    for _ in 0..40 {
        Tensor::empty(DataType::UINT8, &[size], GPU)?;
    }
    let after = free()?;
    println!("free memory: {before} bytes before, {after} after 40 tensors of {size} bytes");
    if before - after > 64 << 20 {
        return Err(format!("{} bytes of memory were not given back", before - after).into());
    }
    Ok(())
}
