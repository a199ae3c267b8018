//! Eight threads, each with a stream, launch the kernels of one image at once.

use kernpack::device::Stream;
use kernpack::{DataType, Device, Tensor};

use crate::numbers::{Numbers, close};
use crate::{GPU, Result};

const THREADS: u64 = 8;
const ROUNDS: usize = 20;

pub(crate) fn run() -> Result {
    let problems: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|seed| scope.spawn(move || work(seed).map_err(|error| format!("thread {seed}: {error}"))))
            .collect();
        let ended = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err("a thread panicked".into())));
        ended.filter_map(std::result::Result::err).collect()
    });
    if problems.is_empty() {
        println!("{THREADS} threads, {ROUNDS} products each: right");
        return Ok(());
    }
    Err(problems.join("; ").into())
}

fn work(seed: u64) -> Result {
    let mut numbers = Numbers::new(seed + 1);
    let (m, n, k) = (numbers.between(1, 120), numbers.between(1, 120), numbers.between(1, 120));
    let a = Tensor::from_vec(numbers.reals(m * k), &[m, k])?;
    let b = Tensor::from_vec(numbers.reals(k * n), &[k, n])?;
    let expected = gpu_kernels::matmul_on_cpu(a.view()?, b.view()?)?;
    let stream = Stream::new(GPU)?;
    for _ in 0..ROUNDS {
        let found = stream.scope(|| -> kernpack::Result<Tensor> {
            let c = Tensor::empty(DataType::FLOAT32, &[m, n], GPU)?;
            gpu_kernels::matmul(a.to(GPU)?, b.to(GPU)?, c.clone())?;
            c.to(Device::CPU)
        })?;
        close("matmul_tiled", &found.view::<f32>()?.to_vec(), &expected.view::<f32>()?.to_vec(), 1e-4)?;
    }
    Ok(())
}
