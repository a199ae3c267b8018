//! The frequencies of a signal.

use std::f64::consts::{PI, TAU};

use kernpack::{Object, Result, Tensor, ensure, object_methods, packed_func};

use crate::kernels;
use crate::signal::Signal;

/// The window that fades the beginning and the end of a part of a signal.
#[derive(Object, Clone, Copy, PartialEq, Debug)]
#[object(key = "dspkit.Window", enum = "str", rename_all = "snake_case")]
pub enum Window {
    /// No fading.
    Rectangular,
    /// A raised cosine.
    Hann,
    /// A raised cosine that does not reach 0.
    Hamming,
}

/// The magnitudes of frequencies in a signal.
#[derive(Object, Clone)]
#[object(key = "dspkit.Spectrum")]
#[repr(C)]
pub struct Spectrum {
    /// The magnitude of each frequency from 0 to half the rate: float32.
    pub magnitudes: Tensor,
    /// The rate of the signal.
    pub rate: f64,
}

#[object_methods]
impl Spectrum {
    /// The distance between two frequencies.
    #[getter]
    pub fn step(&self) -> f64 {
        self.rate / (2.0 * (self.magnitudes.len() as f64 - 1.0).max(1.0))
    }

    /// The frequency with the largest magnitude.
    pub fn loudest(&self) -> Result<f64> {
        let magnitudes = self.magnitudes.view::<f32>()?.to_vec();
        let loudest = magnitudes.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        Ok(loudest.map_or(0.0, |(index, _)| index as f64 * self.step()))
    }

    #[method(name = "__len__")]
    fn len(&self) -> usize {
        self.magnitudes.len()
    }
}

/// Returns the weights of a window of this size.
#[packed_func]
pub fn window(kind: Window, size: usize) -> Result<Tensor> {
    Tensor::from_vec((0..size).map(|index| weight(kind, index, size) as f32).collect(), &[size as i64])
}

fn weight(kind: Window, index: usize, size: usize) -> f64 {
    let turn = (TAU * index as f64 / size as f64).cos();
    match kind {
        Window::Rectangular => 1.0,
        Window::Hann => 0.5 - 0.5 * turn,
        Window::Hamming => 0.54 - 0.46 * turn,
    }
}

/// The magnitude of a frequency in a signal, computed by the C function.
#[packed_func]
pub fn level(signal: &Signal, frequency: f64) -> Result<f64> {
    let n = signal.samples.len() as u64;
    kernels::typed::goertzel(&signal.samples, n, frequency, signal.rate)
}

/// Computes the spectrum of a signal. Its length is a power of two, or is padded to one.
#[packed_func]
pub fn spectrum(signal: &Signal, #[default(Window::Hann)] window: Window) -> Result<Spectrum> {
    let samples = signal.view()?.to_vec();
    ensure!(!samples.is_empty(), ValueError, "a signal without samples has no spectrum");
    let size = samples.len().next_power_of_two().max(2);
    let mut values: Vec<[f64; 2]> = vec![[0.0; 2]; size];
    for (index, sample) in samples.iter().enumerate() {
        values[index][0] = f64::from(*sample) * weight(window, index, samples.len());
    }
    transform(&mut values);
    let scale = 2.0 / samples.len() as f64;
    let magnitudes: Vec<f32> =
        values[..=size / 2].iter().map(|[real, imaginary]| (real.hypot(*imaginary) * scale) as f32).collect();
    let len = magnitudes.len() as i64;
    Ok(Spectrum { magnitudes: Tensor::from_vec(magnitudes, &[len])?, rate: signal.rate })
}

/// Computes the magnitudes of the parts of a signal: `float32[parts, size / 2 + 1]`.
#[packed_func]
pub fn spectrogram(signal: &Signal, #[default(512)] size: usize, hop: Option<usize>) -> Result<Tensor> {
    let hop = hop.unwrap_or(size / 2);
    ensure!(
        size.is_power_of_two() && size > 1 && hop > 0,
        ValueError,
        "expected a power of two and a hop, got {size} and {hop}"
    );
    let samples = signal.view()?.to_vec();
    let mut rows = Vec::new();
    let mut parts = 0;
    for start in (0..(samples.len() + 1).saturating_sub(size)).step_by(hop) {
        // Many parts take long: Ctrl-C interrupts them.
        kernpack::check_signals()?;
        let part = Signal::of(samples[start..start + size].to_vec(), signal.rate)?;
        rows.extend(spectrum(&part, Window::Hann)?.magnitudes.view::<f32>()?.iter());
        parts += 1;
    }
    Tensor::from_vec(rows, &[parts, size as i64 / 2 + 1])
}

/// Computes the Fourier transform in place, according to Cooley and Tukey.
fn transform(values: &mut [[f64; 2]]) {
    let size = values.len();
    let bits = size.trailing_zeros();
    for index in 0..size {
        let other = index.reverse_bits() >> (usize::BITS - bits);
        if other > index {
            values.swap(index, other);
        }
    }
    let mut half = 1;
    while half < size {
        for start in (0..size).step_by(2 * half) {
            for offset in 0..half {
                let (sin, cos) = (-PI * offset as f64 / half as f64).sin_cos();
                let ([re, im], [x, y]) = (values[start + offset], values[start + offset + half]);
                let (u, v) = (x * cos - y * sin, x * sin + y * cos);
                values[start + offset] = [re + u, im + v];
                values[start + offset + half] = [re - u, im - v];
            }
        }
        half *= 2;
    }
}
