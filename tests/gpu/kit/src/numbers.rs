//! Seeded random numbers, and comparisons.

use kernpack::{Device, Element, Tensor};

use crate::{GPU, Result};

/// A generator of numbers: xorshift64*.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From `least` to `most`.
    pub(crate) fn between(&mut self, least: i64, most: i64) -> i64 {
        least + (self.word() % (most - least + 1) as u64) as i64
    }

    /// From -1 to 1.
    pub(crate) fn real(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub(crate) fn reals(&mut self, count: i64) -> Vec<f32> {
        (0..count).map(|_| self.real() as f32).collect()
    }
}

/// A tensor on the GPU with these values.
pub(crate) fn there<T: Element>(values: &[T], shape: &[i64]) -> Result<Tensor> {
    Ok(Tensor::from_slice(values, shape)?.to(GPU)?)
}

/// The values of a tensor on any device.
pub(crate) fn here<T: Element>(tensor: &Tensor) -> Result<Vec<T>> {
    Ok(tensor.to(Device::CPU)?.view::<T>()?.to_vec())
}

/// Compares every element exactly.
pub(crate) fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: &[T], expected: &[T]) -> Result {
    if found.len() != expected.len() {
        return Err(format!("{what}: expected {} elements, got {}", expected.len(), found.len()).into());
    }
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(at) => Err(format!("{what}: element {at}: expected {:?}, got {:?}", expected[at], found[at]).into()),
    }
}

/// Compares every element with a tolerance; NaN is a difference. Returns the largest difference.
pub(crate) fn close(what: &str, found: &[f32], expected: &[f32], tolerance: f64) -> Result<f64> {
    if found.len() != expected.len() {
        return Err(format!("{what}: expected {} elements, got {}", expected.len(), found.len()).into());
    }
    let mut most = 0.0;
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (f64::from(*found) - f64::from(*expected)).abs();
        if difference.is_nan() || difference > tolerance {
            return Err(format!("{what}: element {at}: expected {expected}, got {found}").into());
        }
        most = f64::max(most, difference);
    }
    Ok(most)
}
