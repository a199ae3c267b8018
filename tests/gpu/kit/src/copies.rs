//! Bandwidth of copies: pageable and pinned memory to the device and back, and on the device.

use std::time::Instant;

use kernpack::device::{Event, Stream, device_type};
use kernpack::{Device, Tensor};

use crate::numbers::Numbers;
use crate::{GPU, Result, measured};

/// Bytes of one copy: larger than caches, small enough for any machine.
const SIZE: i64 = 256 << 20;
/// Copies of which the fastest counts.
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
    let pinned = here.to(Device::new(device_type::CUDA_HOST, 0))?;
    let there = here.to(GPU)?;
    for (name, source, target) in [
        ("host_to_device", &here, GPU),
        ("pinned_to_device", &pinned, GPU),
        ("device_to_host", &there, Device::CPU),
        ("device_to_pinned", &there, Device::new(device_type::CUDA_HOST, 0)),
    ] {
        let mut fastest = f64::INFINITY;
        for _ in 0..ROUNDS {
            // `to` allocates as well: what a user's call costs.
            let start = Instant::now();
            let copied = source.to(target)?;
            fastest = fastest.min(start.elapsed().as_secs_f64());
            drop(copied);
        }
        measured(name, size as f64 / fastest / 1e9, "GB/s");
    }
    // Read and write, by the device's own clock.
    let stream = Stream::new(GPU)?;
    let mut fastest = f64::INFINITY;
    let mut last = None;
    for _ in 0..ROUNDS {
        let (start, end) = (Event::new(GPU)?, Event::new(GPU)?);
        stream.record(&start)?;
        let copied = stream.scope(|| there.to(GPU))?;
        stream.record(&end)?;
        end.synchronize()?;
        fastest = fastest.min(start.elapsed(&end)?.as_secs_f64());
        last = Some(copied);
    }
    measured("on_device_read_and_written", 2.0 * size as f64 / fastest / 1e9, "GB/s");
    let last = last.ok_or("no copy was made")?.to(Device::CPU)?;
    if last.view::<u64>()?.to_vec() != here.view::<u64>()?.to_vec() {
        return Err("what was copied back differs from what was copied there".into());
    }
    Ok(())
}
