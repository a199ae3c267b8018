//! CUDA C++ that NVRTC compiles when the module is first used, and NVRTC's messages for wrong
//! source.

use std::time::Instant;

use kernpack::Module;
use kernpack::module::KernelLauncher;
use kernpack::module::device_image::{ArgType, DeviceFunction, DeviceImage};

use crate::numbers::{equal, here, there};
use crate::{Result, measured};

const SOURCE: &[u8] = b"#include <cuda_fp16.h>
extern \"C\" __global__ void twice(float* data, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = __half2float(__float2half(data[i])) * 2.0f;
}";

const WRONG: &[u8] = b"extern \"C\" __global__ void twice(float* data, int count) { data[0] = misspelt; }";

fn kernel(source: &[u8]) -> Result<KernelLauncher> {
    let kernels = vec![DeviceFunction::new("twice", vec![ArgType::POINTER, ArgType::INT32], false)];
    Ok(Module::from_image("cuda", &DeviceImage::new("cuda", kernels, source))?.kernel("twice")?)
}

pub(crate) fn run() -> Result {
    let values: Vec<f32> = (0..1001).map(|number| number as f32).collect();
    let data = there(&values, &[1001])?;
    let start = Instant::now();
    kernel(SOURCE)?.launch(4, 256, (&data, 1001))?;
    measured("compiled_and_launched_after", start.elapsed().as_secs_f64() * 1e3, "ms");
    let expected: Vec<f32> = values.iter().map(|value| value * 2.0).collect();
    equal("twice", &here::<f32>(&data)?, &expected)?;
    match kernel(WRONG)?.launch(1, 1, (&data, 1)) {
        Err(error) => println!("wrong source: {error}"),
        Ok(()) => return Err("wrong source: expected an error, but it was launched".into()),
    }
    Ok(())
}
