//! The functions and the type of `cargo xtask bench python`, the same as in `../../pyo3` and
//! `../../nanobind`.

use kernpack::{Function, ObjRef, Object, Result, Tensor, TensorView, bail, object_methods, packed_func};

kernpack::library!();

/// Adds two integers.
#[packed_func]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Half of a number.
#[packed_func]
fn half(x: f64) -> f64 {
    x / 2.0
}

/// Bytes of a text.
#[packed_func]
fn length(text: &str) -> usize {
    text.len()
}

/// The sum of a list.
#[packed_func]
fn sum_list(numbers: Vec<i64>) -> i64 {
    numbers.iter().sum()
}

/// Nothing.
#[packed_func]
fn nothing() {}

/// A text of 5 characters.
#[packed_func]
fn short_text() -> String {
    "hello".to_owned()
}

/// A text of 31 characters.
#[packed_func]
fn long_text() -> String {
    "a text that is 31 characters by".to_owned()
}

/// Quotient and remainder.
#[packed_func]
fn divide(dividend: i64, divisor: i64) -> (i64, i64) {
    (dividend / divisor, dividend % divisor)
}

/// Fails, with a formatted message.
#[packed_func]
fn fail(code: i64) -> Result<i64> {
    bail!(ValueError, "code {code} is not allowed")
}

/// Calls a function with a number, on the thread of the call: the lock stays, as it does with PyO3
/// and nanobind.
#[packed_func(detach = false)]
fn apply(f: &Function, x: i64) -> Result<i64> {
    f.call_as((x,))
}

/// Number of elements.
#[packed_func]
fn element_count(x: TensorView<f32>) -> i64 {
    x.len() as i64
}

/// A new array of zeros.
#[packed_func]
fn zeros(length: i64) -> Result<Tensor> {
    Tensor::from_vec(vec![0.0f32; length as usize], &[length])
}

/// A count with a scale and a label.
#[derive(Object)]
#[object(key = "bench_ours.Record")]
#[repr(C)]
pub struct Record {
    /// The count.
    pub count: i64,
    /// The scale.
    pub scale: f64,
    /// The label.
    pub label: String,
}

#[object_methods]
impl Record {
    /// The count.
    pub fn get(&self) -> i64 {
        self.count
    }

    /// The count plus `more`.
    pub fn plus(&self, more: i64) -> i64 {
        self.count + more
    }
}

/// The count of a record.
#[packed_func]
fn count_of(record: &Record) -> i64 {
    record.count
}

/// Makes a record.
#[packed_func]
fn record(count: i64) -> ObjRef<Record> {
    ObjRef::new(Record { count, scale: 2.5, label: String::new() })
}
