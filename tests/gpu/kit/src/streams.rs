//! Streams: work in one is in order, the caller does not wait, another stream waits for an event,
//! events measure time.

use std::time::{Duration, Instant};

use gpu_kernels::kernels;
use kernpack::device::{Event, Stream};

use crate::numbers::{equal, here, there};
use crate::{GPU, Result, measured};

/// At most a tenth of a second on any GPU of today.
const CYCLES: i64 = 100_000_000;

pub(crate) fn run() -> Result {
    let (first, second) = (Stream::new(GPU)?, Stream::new(GPU)?);
    let done = there(&[0f32], &[1])?;
    let copy = there(&[7f32], &[1])?;
    let addend = there(&[1f32], &[1])?;
    // Loads the image now, so that the times below are those of launches.
    kernels::work_cycles.launch(1, 1, (&done, 0f32, 1i64))?;
    kernels::saxpy_values.launch(1, 1, (&copy, &addend, 0f32, 1i64))?;
    let (start, end) = (Event::new(GPU)?, Event::new(GPU)?);
    // The streams do not wait for work in the default one.
    gpu_kernels::synchronize(GPU)?;

    let before = Instant::now();
    first.record(&start)?;
    first.scope(|| kernels::work_cycles.launch(1, 1, (&done, 5f32, CYCLES)))?;
    // copy = 1 * done + copy, in the order of the stream: 5 + 7.
    first.scope(|| kernels::saxpy_values.launch(1, 1, (&copy, &done, 1f32, 1i64)))?;
    first.record(&end)?;
    let call = before.elapsed();
    second.wait(&end)?;
    // In the other stream, after the event: 12 + 1.
    second.scope(|| kernels::saxpy_values.launch(1, 1, (&copy, &addend, 1f32, 1i64)))?;
    second.synchronize()?;
    let all = before.elapsed();
    end.synchronize()?;
    let on_device = start.elapsed(&end)?;
    equal("the result of both streams", &here::<f32>(&copy)?, &[13.0])?;
    measured("launches_took", call.as_secs_f64() * 1e6, "us");
    measured("work_took", on_device.as_secs_f64() * 1e3, "ms");
    if on_device.is_zero() {
        return Err("the time between two events: expected more than 0".into());
    }
    if on_device > Duration::from_millis(20) && call * 2 > all {
        return Err(format!("the launches waited for the work: {call:?} of {all:?}").into());
    }
    // A stream and its tensor that are dropped while the work is still running.
    let short = Stream::new(GPU)?;
    let last = there(&[0f32], &[1])?;
    short.scope(|| kernels::work_cycles.launch(1, 1, (&last, 3f32, CYCLES / 10)))?;
    drop((short, last));
    Ok(())
}
