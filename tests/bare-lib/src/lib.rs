//! A library with a single function: no types, no modules. `tests/python_extension/test_wheel.py`
//! imports it in a process without another implementation of the ABI.

use kernpack::packed_func;

kernpack::library!();

/// A number times a gain, and an offset.
#[packed_func]
pub fn scaled(x: f64, #[default(0.5)] gain: f64, offset: Option<f64>) -> f64 {
    x * gain + offset.unwrap_or_default()
}
