//! Errors that carry what a Python exception has beside its text.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kernpack::python::{self, Object as PyObject};
use kernpack::{Any, Error, Function, Result, Str, bail, packed_func};

kernpack::exception! {
    /// A text that does not follow the grammar.
    pub ParseFault: ValueError
}

/// Fails with what Python code passes.
#[packed_func(name = "extmod.exceptions.fail")]
pub fn fail(
    kind: &str,
    message: &str,
    args: Option<Vec<Any>>,
    attributes: Option<HashMap<String, Any>>,
    notes: Option<Vec<Str>>,
) -> Result<()> {
    Err(detailed(Error::new(kind, message), args, attributes, notes))
}

fn detailed(
    mut error: Error,
    args: Option<Vec<Any>>,
    attributes: Option<HashMap<String, Any>>,
    notes: Option<Vec<Str>>,
) -> Error {
    if let Some(args) = args {
        error = error.with_args(args.as_slice());
    }
    for (name, value) in attributes.unwrap_or_default() {
        error = error.with_attribute(name, value);
    }
    for note in notes.unwrap_or_default() {
        error = error.with_note(note);
    }
    error
}

/// Looks a key up in an empty table.
#[packed_func(name = "extmod.exceptions.find")]
pub fn find(key: PyObject) -> Result<()> {
    Err(Error::new("KeyError", format!("there is no key {key:?}")).with_args((key,)))
}

/// Reads a text that is always wrong at its end.
#[packed_func(name = "extmod.exceptions.parse")]
pub fn parse(text: &str) -> Result<()> {
    let error = kernpack::error!(ParseFault, "the text ends too early");
    Err(error
        .with_attribute("offset", text.len())
        .with_attribute("span", (0, text.len()))
        .with_note(format!("in {text:?}")))
}

/// Calls a function, and adds the rest to its error.
#[packed_func(name = "extmod.exceptions.call")]
pub fn call(
    f: &PyObject,
    args: Option<Vec<Any>>,
    attributes: Option<HashMap<String, Any>>,
    notes: Option<Vec<Str>>,
) -> Result<PyObject> {
    f.call(()).map_err(|error| detailed(error, args, attributes, notes))
}

/// Raises the error of a function, from that of another.
#[packed_func(name = "extmod.exceptions.chained")]
pub fn chained(f: Function, cause: Function) -> Result<()> {
    let Err(error) = f.call(()) else { bail!(ValueError, "the function returned") };
    let Err(cause) = cause.call(()) else { bail!(ValueError, "the cause returned") };
    Err(error.caused_by(cause))
}

/// The exception that a function raises.
#[packed_func(name = "extmod.exceptions.exception_of")]
pub fn exception_of(f: Function, note: Option<&str>) -> Result<Option<PyObject>> {
    let Err(mut error) = f.call(()) else { bail!(ValueError, "the function returned") };
    if let Some(note) = note {
        error = error.with_note(note);
    }
    Ok(python::exception_of(&error))
}

/// Raises an exception of Python.
#[packed_func(name = "extmod.exceptions.throw")]
pub fn throw(exception: &PyObject) -> Result<()> {
    Err(python::error_of(exception)?)
}

/// A small number; the error says where it was.
#[packed_func(name = "extmod.exceptions.small")]
pub fn small(number: Any, place: &str) -> Result<u8> {
    number.to::<u8>().map_err(|error| error.with_note(place))
}

static KEPT: Mutex<Option<Error>> = Mutex::new(None);

/// Keeps the error of a function.
#[packed_func(name = "extmod.exceptions.keep")]
pub fn keep(f: Function) {
    let error = f.call(()).err();
    let before = std::mem::replace(&mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner), error);
    drop(before);
}

/// Raises the error that was kept.
#[packed_func(name = "extmod.exceptions.raise_kept")]
pub fn raise_kept() -> Result<()> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    kept.map_or(Ok(()), Err)
}
