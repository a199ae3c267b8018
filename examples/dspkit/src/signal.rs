//! Signals, and functions that generate them.

use std::f64::consts::TAU;

use kernpack::{Result, Tensor, TensorView, bail, ensure, object_methods, packed_func};

use crate::{RateMismatch, kernels};

/// Samples of one channel at a rate.
#[derive(kernpack::Object, Clone)]
#[object(key = "dspkit.Signal")]
#[repr(C)]
pub struct Signal {
    /// The samples: float32, one dimension.
    pub samples: Tensor,
    /// Samples per second.
    pub rate: f64,
}

impl Signal {
    /// Creates a signal with these samples.
    pub fn of(samples: Vec<f32>, rate: f64) -> Result<Self> {
        let len = samples.len() as i64;
        Ok(Self { samples: Tensor::from_vec(samples, &[len])?, rate })
    }

    /// Returns the samples as numbers.
    pub fn view(&self) -> Result<TensorView<'_, f32>> {
        self.samples.view()
    }

    /// Applies a function to each sample.
    pub fn map(&self, f: impl FnMut(f32) -> f32) -> Result<Self> {
        Self::of(self.view()?.iter().map(f).collect(), self.rate)
    }

    /// Returns an error unless another signal has the same rate.
    pub fn check_rate(&self, other: &Self) -> Result<()> {
        ensure!(
            self.rate == other.rate,
            RateMismatch,
            "signals of {} and {} samples per second; resample one of them",
            self.rate,
            other.rate
        );
        Ok(())
    }
}

#[object_methods]
impl Signal {
    /// Creates a signal with these samples: float32, one dimension. They are shared, not copied.
    #[init]
    pub fn new(samples: Tensor, #[default(48000.0)] rate: f64) -> Result<Self> {
        ensure!(samples.ndim() == 1, ValueError, "a signal has one dimension, not {}", samples.ndim());
        ensure!(rate > 0.0 && rate.is_finite(), ValueError, "expected a rate above 0, got {rate}");
        samples.view::<f32>()?;
        Ok(Self { samples, rate })
    }

    /// The duration in seconds.
    #[getter]
    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / self.rate
    }

    /// The root mean square.
    pub fn rms(&self) -> Result<f64> {
        let energy: f64 = kernels::energy.call((&self.samples,))?.to()?;
        Ok((energy / self.samples.len().max(1) as f64).sqrt())
    }

    /// The largest distance from 0.
    pub fn peak(&self) -> Result<f32> {
        Ok(self.view()?.iter().fold(0.0, |peak: f32, sample| peak.max(sample.abs())))
    }

    #[method(name = "__len__")]
    fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns a sample by its index. The last one is at -1.
    #[method(name = "__getitem__")]
    fn at(&self, index: i64) -> Result<f32> {
        let len = self.samples.len() as i64;
        let place = if index < 0 { index + len } else { index };
        match usize::try_from(place).ok().and_then(|place| self.view().ok()?.iter().nth(place)) {
            Some(sample) => Ok(sample),
            None => bail!(IndexError, "there is no sample {index} in a signal of {len}"),
        }
    }

    #[method(name = "__iter__")]
    fn iter(&self) -> Result<Vec<f32>> {
        Ok(self.view()?.to_vec())
    }

    #[method(name = "__contains__")]
    fn contains(&self, sample: f32) -> Result<bool> {
        Ok(self.view()?.iter().any(|own| own == sample))
    }

    /// Adds two signals. The result is as long as the longer one.
    #[method(name = "__add__")]
    fn plus(&self, other: &Self) -> Result<Self> {
        mixed(&[self, other])
    }

    /// Multiplies the signal by a factor.
    #[method(name = "__mul__")]
    fn times(&self, factor: f32) -> Result<Self> {
        self.map(|sample| sample * factor)
    }

    #[operator(eq)]
    fn equal(&self, other: &Self) -> Result<bool> {
        Ok(self.rate == other.rate && self.view()?.iter().eq(other.view()?.iter()))
    }

    #[operator(hash)]
    fn hash(&self) -> u64 {
        self.rate.to_bits() ^ self.samples.len() as u64
    }

    #[operator(str)]
    fn text(&self) -> String {
        format!("{:.3} s at {} Hz", self.seconds(), self.rate)
    }
}

/// Adds signals. The result is as long as the longest one.
pub(crate) fn mixed(signals: &[&Signal]) -> Result<Signal> {
    let Some(first) = signals.first() else { bail!(ValueError, "there is nothing to mix") };
    let longest = signals.iter().map(|signal| signal.samples.len()).max().unwrap_or(0);
    let mut sum = vec![0.0; longest];
    for signal in signals {
        first.check_rate(signal)?;
        sum.iter_mut().zip(signal.view()?.iter()).for_each(|(sum, sample)| *sum += sample);
    }
    Signal::of(sum, first.rate)
}

fn count(seconds: f64, rate: f64) -> Result<usize> {
    let count = (seconds * rate).round();
    ensure!(
        (0.0..1e9).contains(&count),
        ValueError,
        "{seconds} s at {rate} Hz are {count} samples; from 0 to 1e9 are possible"
    );
    Ok(count as usize)
}

/// Generates a sine wave.
#[packed_func]
pub fn sine(
    frequency: f64,
    seconds: f64,
    #[default(48000.0)] rate: f64,
    #[default(1.0)] amplitude: f64,
    phase: Option<f64>,
) -> Result<Signal> {
    let phase = phase.unwrap_or(0.0);
    let sample = |index| (amplitude * (TAU * frequency * f64::from(index) / rate + phase).sin()) as f32;
    Signal::of((0..count(seconds, rate)? as u32).map(sample).collect(), rate)
}

/// Generates white noise from -1 to 1. The same seed gives the same noise.
#[packed_func]
pub fn noise(seconds: f64, #[default(48000.0)] rate: f64, #[default(0)] seed: u64) -> Result<Signal> {
    // xorshift64* by Vigna.
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let sample = |_| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let bits = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40;
        (bits as f64 / f64::from(1u32 << 23) - 1.0) as f32
    };
    Signal::of((0..count(seconds, rate)?).map(sample).collect(), rate)
}

/// Generates samples of 0.
#[packed_func]
pub fn silence(seconds: f64, #[default(48000.0)] rate: f64) -> Result<Signal> {
    Signal::of(vec![0.0; count(seconds, rate)?], rate)
}
