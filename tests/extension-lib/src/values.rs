//! Tuples and numbers where no type is declared.

use std::collections::HashMap;

use kernpack::python::Object as PyObject;
use kernpack::{Any, Field, Function, IntoAny, Object, Result, packed_func};

/// Tuples of Rust in all places without a declared type.
#[packed_func(name = "extmod.values.tuples")]
pub fn tuples(call: &PyObject, keep: Function) -> Result<HashMap<String, Any>> {
    let pair = || (1, "two");
    Ok(HashMap::from([
        ("any".to_owned(), pair().into_any()),
        ("one".to_owned(), (1,).into_any()),
        ("nested".to_owned(), (pair(), vec![pair()], [pair()]).into_any()),
        ("object".to_owned(), PyObject::new(pair())?.into_any()),
        ("argument".to_owned(), call.call((pair(),))?.into_any()),
        ("argument of a function".to_owned(), keep.call((pair(),))?),
        ("list".to_owned(), vec![1, 2].into_any()),
    ]))
}

/// Returns a value for each key that is a tuple.
#[packed_func(name = "extmod.values.looked_up")]
pub fn looked_up(table: &PyObject) -> Result<PyObject> {
    table.item((1, "two"))
}

/// Two numbers that may be written.
#[derive(Object)]
#[object(key = "extmod.values.Gauge")]
#[repr(C)]
pub struct Gauge {
    /// A number.
    #[field(writable)]
    pub wide: Field<f64>,
    /// A number of less precision.
    #[field(writable)]
    pub narrow: Field<f32>,
    /// A number that stays.
    #[field(default = 0.0)]
    pub fixed: f64,
}

/// The number that a function returns.
#[packed_func(name = "extmod.values.returned")]
pub fn returned(f: Function) -> Result<f64> {
    f.call_as(())
}

/// The numbers that a function returns.
#[packed_func(name = "extmod.values.all_returned")]
pub fn all_returned(f: Function) -> Result<Vec<f64>> {
    f.call_as(())
}

/// Passes arguments with these names to a function.
#[packed_func(name = "extmod.values.named")]
pub fn named(f: &PyObject, first: &str, second: &str) -> Result<PyObject> {
    f.call_with((), &[(first, &1), (second, &2)])
}
