//! The functions and the type of `cargo xtask bench python`, made with PyO3.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

#[pyfunction]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[pyfunction]
fn half(x: f64) -> f64 {
    x / 2.0
}

#[pyfunction]
fn length(text: &str) -> usize {
    text.len()
}

#[pyfunction]
fn sum_list(numbers: Vec<i64>) -> i64 {
    numbers.iter().sum()
}

#[pyfunction]
fn nothing() {}

#[pyfunction]
fn short_text() -> String {
    "hello".to_owned()
}

#[pyfunction]
fn long_text() -> String {
    "a text that is 31 characters by".to_owned()
}

#[pyfunction]
fn divide(dividend: i64, divisor: i64) -> (i64, i64) {
    (dividend / divisor, dividend % divisor)
}

#[pyfunction]
fn fail(code: i64) -> PyResult<i64> {
    Err(PyValueError::new_err(format!("code {code} is not allowed")))
}

#[pyfunction]
fn apply(f: &Bound<'_, PyAny>, x: i64) -> PyResult<i64> {
    f.call1((x,))?.extract()
}

#[pyfunction]
fn element_count(x: PyReadonlyArray1<'_, f32>) -> PyResult<usize> {
    Ok(x.as_slice()?.len())
}

#[pyfunction]
fn zeros(py: Python<'_>, length: usize) -> Bound<'_, PyArray1<f32>> {
    PyArray1::zeros(py, length, false)
}

#[pyclass(frozen)]
struct Record {
    #[pyo3(get)]
    count: i64,
    #[pyo3(get)]
    scale: f64,
    #[pyo3(get)]
    label: String,
}

#[pymethods]
impl Record {
    #[new]
    fn new(count: i64, scale: f64, label: String) -> Self {
        Self { count, scale, label }
    }

    fn get(&self) -> i64 {
        self.count
    }

    fn plus(&self, more: i64) -> i64 {
        self.count + more
    }
}

#[pyfunction]
fn count_of(record: &Record) -> i64 {
    record.count
}

#[pyfunction]
fn record(count: i64) -> Record {
    Record { count, scale: 2.5, label: String::new() }
}

#[pymodule]
mod bench_pyo3 {
    #[pymodule_export]
    use super::{
        Record, add, apply, count_of, divide, element_count, fail, half, length, long_text, nothing, record,
        short_text, sum_list, zeros,
    };
}
