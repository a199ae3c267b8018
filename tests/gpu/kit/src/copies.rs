//! Bandwidth of copies: pageable and pinned memory to the device and back, and on the device.

use std::time::Instant;

use kernpack::device::{Event, Stream, device_type};
use kernpack::{Device, Tensor};

use crate::numbers::Numbers;
use crate::{GPU, Result, measured};

/// Bytes of one copy: larger than caches, small enough for any machine.
const SIZE: i64 = 256 << 20;
/// The number of copies; the fastest one counts.
const ROUNDS: usize = 5;

pub(crate) fn run() -> Result {
    let size = match std::env::var("GPU_KIT_COPY_BYTES") {
        Ok(text) => {
            text.parse().map_err(|_| format!("GPU_KIT_COPY_BYTES: expected a number of bytes, got '{text}'"))?
        }
        Err(_) => SIZE,
    };
    let mut numbers = Numbers::new(1);
    let words: Vec<u64> = (0..size / 8).map(|_| numbers.word()).collect();
    let here = Tensor::from_vec(words, &[size / 8])?;
    let pinned_memory = Device::new(device_type::CUDA_HOST, 0);
    let pinned = here.to(pinned_memory)?;
    let there = here.to(GPU)?;
    for (name, source, place) in [
        ("host_to_device", &here, GPU),
        ("pinned_to_device", &pinned, GPU),
        ("device_to_host", &there, Device::CPU),
        ("device_to_pinned", &there, pinned_memory),
    ] {
        // The target is allocated and written once before the measurement.
        let mut target = source.to(place)?;
        let mut fastest = f64::INFINITY;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            target.copy_from(source)?;
            fastest = fastest.min(start.elapsed().as_secs_f64());
        }
        measured(name, size as f64 / fastest / 1e9, "GB/s");
        same(name, &target, &here)?;
    }
    // Measured by the device's own clock; bytes read and bytes written count.
    let stream = Stream::new(GPU)?;
    let mut target = there.to(GPU)?;
    gpu_kernels::synchronize(GPU)?;
    let mut fastest = f64::INFINITY;
    for _ in 0..ROUNDS {
        let (start, end) = (Event::new(GPU)?, Event::new(GPU)?);
        stream.record(&start)?;
        stream.scope(|| target.copy_from(&there))?;
        stream.record(&end)?;
        end.synchronize()?;
        fastest = fastest.min(start.elapsed(&end)?.as_secs_f64());
    }
    measured("on_device_read_and_written", 2.0 * size as f64 / fastest / 1e9, "GB/s");
    same("on_device", &target, &here)
}

/// Compares all bytes.
fn same(name: &str, found: &Tensor, expected: &Tensor) -> Result {
    let found = found.to(Device::CPU)?;
    if found.view::<u64>()?.as_slice()? == expected.view::<u64>()?.as_slice()? {
        return Ok(());
    }
    Err(format!("{name}: the copy differs").into())
}
