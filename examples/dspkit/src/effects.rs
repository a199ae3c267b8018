//! Functions from signals to signals.

use kernpack::{DataType, ObjRef, Result, Tensor, TensorView, TypedFunction, bail, ensure, packed_func};

use crate::kernels;
use crate::signal::{Signal, mixed};

/// Converts a ratio of amplitudes to decibels.
#[packed_func]
pub fn decibels(ratio: f64) -> f64 {
    20.0 * ratio.log10()
}

/// Converts decibels to a ratio of amplitudes.
#[packed_func]
pub fn ratio(decibels: f64) -> f64 {
    10f64.powf(decibels / 20.0)
}

/// Adds signals. The result is as long as the longest one.
#[packed_func]
pub fn mix(signals: Vec<ObjRef<Signal>>) -> Result<Signal> {
    mixed(&signals.iter().map(|signal| &**signal).collect::<Vec<_>>())
}

/// Makes the signal louder or, with a negative number, quieter.
#[packed_func]
pub fn gain(signal: &Signal, decibels: f64) -> Result<Signal> {
    let factor = ratio(decibels) as f32;
    signal.map(|sample| sample * factor)
}

/// Scales the signal to this peak, its largest distance from 0.
#[packed_func]
pub fn normalize(signal: &Signal, #[default(1.0)] peak: f32) -> Result<Signal> {
    let own = signal.peak()?;
    ensure!(own > 0.0, ValueError, "a signal of silence has no level");
    signal.map(|sample| sample / own * peak)
}

/// Limits the samples of the signal to this distance from 0.
#[packed_func]
pub fn clip(signal: &Signal, #[default(1.0)] limit: f32) -> Result<Signal> {
    ensure!(limit >= 0.0, ValueError, "expected a limit of 0 or more, got {limit}");
    signal.map(|sample| sample.clamp(-limit, limit))
}

/// Fades the beginning of the signal in and its end out. The times are in seconds.
#[packed_func]
pub fn fade(signal: &Signal, #[default(0.01)] begin: f64, #[default(0.01)] end: f64) -> Result<Signal> {
    let samples = signal.view()?.to_vec();
    let (len, rate) = (samples.len() as f64, signal.rate);
    let level = |at: f64, seconds: f64| if seconds > 0.0 { (at / (seconds * rate)).min(1.0) } else { 1.0 };
    let faded = samples.iter().enumerate().map(|(index, sample)| {
        let index = index as f64;
        sample * (level(index, begin) * level(len - 1.0 - index, end)) as f32
    });
    Signal::of(faded.collect(), rate)
}

/// Delays the signal by a pause.
#[packed_func]
pub fn delay(signal: &Signal, seconds: f64) -> Result<Signal> {
    let pause = crate::signal::silence(seconds, signal.rate)?;
    let samples = pause.view()?.iter().chain(signal.view()?.iter()).collect();
    Signal::of(samples, signal.rate)
}

/// Resamples the signal to another rate by linear interpolation.
#[packed_func]
pub fn resample(signal: &Signal, rate: f64) -> Result<Signal> {
    ensure!(rate > 0.0 && rate.is_finite(), ValueError, "expected a rate above 0, got {rate}");
    let samples = signal.view()?.to_vec();
    let Some(last) = samples.last().copied() else { return Signal::of(Vec::new(), rate) };
    let count = (samples.len() as f64 * rate / signal.rate).round() as usize;
    let at = |index: usize| {
        let place = index as f64 * signal.rate / rate;
        let (before, part) = (place as usize, place.fract() as f32);
        let [first, second] = [before, before + 1].map(|index| samples.get(index).copied().unwrap_or(last));
        first + (second - first) * part
    };
    Signal::of((0..count).map(at).collect(), rate)
}

/// Filters the signal with a finite impulse response, with the kernel in C.
#[packed_func]
pub fn convolve(signal: &Signal, taps: TensorView<f32>) -> Result<Signal> {
    ensure!(!taps.is_empty(), ValueError, "an impulse response has at least one tap");
    let taps = Tensor::from_vec(taps.to_vec(), &[taps.len() as i64])?;
    let filtered = Tensor::zeros::<f32>(signal.samples.shape())?;
    kernels::fir.call((&signal.samples, &taps, &filtered))?;
    Ok(Signal { samples: filtered, rate: signal.rate })
}

/// Applies a function to each sample of the signal.
#[packed_func]
pub fn apply(signal: &Signal, f: TypedFunction<(f64,), f64>) -> Result<Signal> {
    let samples: Result<Vec<f32>> =
        signal.view()?.iter().map(|sample| Ok(f.call((f64::from(sample),))? as f32)).collect();
    Signal::of(samples?, signal.rate)
}

/// Multiplies the signal by a factor on an OpenCL device.
#[packed_func]
pub fn amplify(signal: &Signal, factor: f32, #[default("opencl:0")] device: &str) -> Result<Signal> {
    if signal.samples.is_empty() {
        bail!(ValueError, "there is nothing to amplify");
    }
    let there = signal.samples.to(device.parse()?)?;
    let out = Tensor::empty(DataType::FLOAT32, there.shape(), there.device())?;
    let n = there.len() as u32;
    kernels::typed::amplify_kernel((n.div_ceil(64), 64), &out, &there, factor, n as i32)?;
    Ok(Signal { samples: out.to(signal.samples.device())?, rate: signal.rate })
}
