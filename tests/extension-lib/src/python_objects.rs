//! Functions and types that work with Python objects as they are.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use kernpack::python::{self, Comparison, Object as PyObject};
use kernpack::{
    Any, Bytes, Function, IntoAny, List, Map, ObjRef, Object, Result, Str, bail, object_methods, packed_func,
};

/// The object itself.
#[packed_func(name = "extmod.objects_as_they_are.same")]
pub fn same(object: PyObject) -> PyObject {
    object
}

/// A borrowed object, itself.
#[packed_func(name = "extmod.objects_as_they_are.borrowed")]
pub fn borrowed(object: &PyObject) -> PyObject {
    object.clone()
}

/// The object, or the text `nothing` for None.
#[packed_func(name = "extmod.objects_as_they_are.optional")]
pub fn optional(object: Option<PyObject>) -> Result<PyObject> {
    object.map_or_else(|| PyObject::new("nothing"), Ok)
}

/// The elements of a list.
#[packed_func(name = "extmod.objects_as_they_are.listed")]
pub fn listed(objects: Vec<PyObject>) -> Vec<PyObject> {
    objects
}

/// The elements of a shared list.
#[packed_func(name = "extmod.objects_as_they_are.shared")]
pub fn shared(objects: List<PyObject>) -> List<PyObject> {
    objects
}

/// The parts of a pair in another order.
#[packed_func(name = "extmod.objects_as_they_are.swapped")]
pub fn swapped(pair: (PyObject, i64)) -> (i64, PyObject) {
    (pair.1, pair.0)
}

/// `repr`, `str` and `hash`.
#[packed_func(name = "extmod.objects_as_they_are.described")]
pub fn described(object: &PyObject) -> Result<(String, String, i64)> {
    Ok((object.repr()?, object.str()?, object.hash_value()? as i64))
}

/// The six comparisons, and the order.
#[packed_func(name = "extmod.objects_as_they_are.compared")]
pub fn compared(left: &PyObject, right: &PyObject) -> Result<(Vec<bool>, Option<i64>)> {
    let all = [
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ];
    let answers: Result<_> = all.into_iter().map(|comparison| left.compares(comparison, right)).collect();
    Ok((answers?, left.compare(right)?.map(|order| order as i64)))
}

/// `is`, equality as in a dict, `bool`, `isinstance` and the class.
#[packed_func(name = "extmod.objects_as_they_are.questions")]
pub fn questions(object: &PyObject, other: &PyObject, class: &PyObject) -> Result<(bool, bool, bool, bool, PyObject)> {
    Ok((object.is(other), object.equals(other)?, object.is_true()?, object.is_instance(class)?, object.class()?))
}

/// Reads, sets and deletes an attribute, and returns it as it was.
#[packed_func(name = "extmod.objects_as_they_are.change_attribute")]
pub fn change_attribute(object: &PyObject, name: &str, value: Option<PyObject>) -> Result<Option<PyObject>> {
    let before = object.attribute_if_any(name)?;
    match value {
        Some(value) => object.set_attribute(name, value)?,
        None => object.delete_attribute(name)?,
    }
    Ok(before)
}

/// An attribute.
#[packed_func(name = "extmod.objects_as_they_are.attribute")]
pub fn attribute(object: &PyObject, name: &str) -> Result<PyObject> {
    object.attribute(name)
}

/// Reads, sets and deletes an element, and returns it as it was.
#[packed_func(name = "extmod.objects_as_they_are.change_item")]
pub fn change_item(object: &PyObject, key: &PyObject, value: Option<i64>) -> Result<PyObject> {
    let before = object.item(key)?;
    match value {
        Some(value) => object.set_item(key, value)?,
        None => object.delete_item(key)?,
    }
    Ok(before)
}

/// `len(object)`, and whether it contains a number.
#[packed_func(name = "extmod.objects_as_they_are.contents")]
pub fn contents(object: &PyObject, number: i64) -> Result<(usize, bool)> {
    Ok((object.length()?, object.contains(number)?))
}

/// The elements up to a number of them.
#[packed_func(name = "extmod.objects_as_they_are.elements")]
pub fn elements(object: &PyObject, most: usize) -> Result<Vec<PyObject>> {
    object.iterate()?.take(most).collect()
}

/// The keys and values of a mapping.
#[packed_func(name = "extmod.objects_as_they_are.entries")]
pub fn entries(mapping: &PyObject) -> Result<Vec<(PyObject, PyObject)>> {
    mapping.entries()
}

/// Calls an object with numbers, a number by name and a method of it.
#[packed_func(name = "extmod.objects_as_they_are.called")]
pub fn called(object: &PyObject) -> Result<(PyObject, PyObject, PyObject)> {
    let named = object.call_with((1, "two"), &[("three", &3), ("four", object)])?;
    Ok((object.call((1, "two"))?, named, object.call_method("__repr__", ())?))
}

/// Converts to numbers, or to a value.
#[packed_func(name = "extmod.objects_as_they_are.converted")]
pub fn converted(object: &PyObject) -> Result<(Vec<i64>, PyObject)> {
    let numbers: Vec<i64> = object.to()?;
    let sum: i64 = numbers.iter().sum();
    Ok((numbers, PyObject::new(sum)?))
}

/// The square root by Python's own module.
#[packed_func(name = "extmod.objects_as_they_are.root")]
pub fn root(x: f64) -> Result<f64> {
    python::import("math")?.call_method("sqrt", (x,))?.to()
}

/// Imports a module.
#[packed_func(name = "extmod.objects_as_they_are.imported")]
pub fn imported(name: &str) -> Result<PyObject> {
    python::import(name)
}

/// Warns.
#[packed_func(name = "extmod.objects_as_they_are.warned")]
pub fn warned(category: &str, message: &str) -> Result<()> {
    python::warn(&python::builtin(category)?, message, 1)
}

/// A tuple of a number, a text and an object.
#[packed_func(name = "extmod.objects_as_they_are.tuple_of")]
pub fn tuple_of(number: i64, text: &str, object: &PyObject) -> Result<PyObject> {
    PyObject::new((number, text, object.clone()))
}

/// Calls a function, and reports its exception with an object.
#[packed_func(name = "extmod.objects_as_they_are.reported")]
pub fn reported(function: &PyObject, object: Option<PyObject>) -> Option<PyObject> {
    function.call(()).map_err(|error| python::write_unraisable(&error, object.as_ref())).ok()
}

/// Reports an error of Rust.
#[packed_func(name = "extmod.objects_as_they_are.reported_error")]
pub fn reported_error(object: &PyObject) {
    python::write_unraisable(&kernpack::error!(LookupError, "not found"), Some(object));
}

/// The number of occurrences of each element.
#[packed_func(name = "extmod.objects_as_they_are.counted")]
pub fn counted(elements: &PyObject) -> Result<HashMap<PyObject, i64>> {
    let mut counts = HashMap::new();
    for element in elements.iterate()? {
        *counts.entry(element?).or_insert(0) += 1;
    }
    Ok(counts)
}

/// The value of a key; the error of a comparison or hash is caught.
#[packed_func(name = "extmod.objects_as_they_are.looked_up")]
pub fn looked_up(table: HashMap<PyObject, PyObject>, key: PyObject) -> Result<String> {
    match python::caught(|| table.get(&key).cloned()) {
        Ok(Some(value)) => value.repr(),
        Ok(None) => Ok("absent".to_owned()),
        Err(error) => Ok(format!("{}: {}", error.kind(), error.message())),
    }
}

/// A table that is not shown to Python.
#[derive(Object)]
#[object(key = "extmod.Table")]
#[repr(C)]
pub struct Table {
    /// The name of the table.
    pub name: PyObject,
    /// A note.
    pub note: Option<PyObject>,
    entries: Mutex<HashMap<PyObject, PyObject>>,
}

#[object_methods]
impl Table {
    /// An empty table.
    #[init]
    pub fn new(name: PyObject, note: Option<PyObject>) -> Self {
        Self { name, note, entries: Mutex::default() }
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, HashMap<PyObject, PyObject>> {
        self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Sets an entry.
    #[method(name = "__setitem__")]
    pub fn set(&self, key: PyObject, value: PyObject) -> Result<()> {
        // Before the table is changed: a key that raises is not inserted.
        python::caught(|| self.entries().contains_key(&key))?;
        let before = self.entries().insert(key, value);
        drop(before);
        Ok(())
    }

    /// An entry.
    #[method(name = "__getitem__")]
    pub fn get(&self, key: PyObject) -> Result<PyObject> {
        match python::caught(|| self.entries().get(&key).cloned())? {
            Some(value) => Ok(value),
            None => bail!(KeyError, "{key:?}"),
        }
    }

    /// The number of entries.
    #[method(name = "__len__")]
    pub fn length(&self) -> usize {
        self.entries().len()
    }

    /// Returns whether there is an entry for the key.
    #[method(name = "__and__")]
    pub fn has(&self, key: PyObject) -> bool {
        self.entries().contains_key(&key)
    }

    /// Returns true if there is an entry for the note.
    #[getter]
    pub fn has_note(&self) -> bool {
        self.note.as_ref().is_some_and(|note| self.entries().contains_key(note))
    }
}

/// Python objects in fields, one of which may be replaced.
#[derive(Object)]
#[object(key = "extmod.Pair")]
#[repr(C)]
pub struct Pair {
    /// The first.
    pub first: PyObject,
    /// The second.
    #[field(writable)]
    pub second: kernpack::Field<PyObject>,
}

/// Calls Python when it is freed, which Python also does while an exception is set.
#[derive(Object)]
#[object(key = "extmod.Last")]
#[repr(C)]
pub struct Last {
    object: PyObject,
    function: Function,
}

impl Drop for Last {
    fn drop(&mut self) {
        let _ = self.object.call(("object",));
        let _ = self.object.attribute_if_any("absent");
        let _: Result<Any> = self.function.call(("function",));
    }
}

/// An object that calls both when it is freed, with the texts `object` and `function`.
#[packed_func(name = "extmod.objects_as_they_are.last")]
pub fn last(object: PyObject, function: Function) -> ObjRef<Last> {
    ObjRef::new(Last { object, function })
}

static KEPT: Mutex<Option<PyObject>> = Mutex::new(None);

/// Keeps an object, and returns the one that was kept.
#[packed_func(name = "extmod.objects_as_they_are.keep")]
pub fn keep(object: Option<PyObject>) -> Option<PyObject> {
    std::mem::replace(&mut *KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner()), object)
}

/// Releases the object that is kept on another thread, which then has the last reference.
#[packed_func(name = "extmod.objects_as_they_are.release_elsewhere", detach)]
pub fn release_elsewhere() -> Result<()> {
    let kept = keep(None);
    std::thread::spawn(move || drop(kept)).join().or_else(|_| bail!(RuntimeError, "the thread panicked"))
}

/// The text of an object, made on another thread.
#[packed_func(name = "extmod.objects_as_they_are.text_elsewhere", detach)]
pub fn text_elsewhere(object: PyObject) -> Result<String> {
    std::thread::spawn(move || object.str()).join().unwrap_or_else(|_| bail!(RuntimeError, "the thread panicked"))
}

/// Passes an object of the library to a Python object, and returns the result.
#[packed_func(name = "extmod.objects_as_they_are.passed")]
pub fn passed(table: ObjRef<Table>, to: &PyObject) -> Result<PyObject> {
    to.call((table,))
}

/// The sum of numbers of any type.
#[packed_func(name = "extmod.objects_as_they_are.sum_of_any")]
pub fn sum_of_any(numbers: Vec<Any>) -> Result<f64> {
    numbers.iter().map(|number| number.to::<f64>()).sum()
}

/// An integer, a text, bytes, the elements of a list and the size of a map, all of any type.
#[packed_func(name = "extmod.objects_as_they_are.read_any")]
pub fn read_any(int: Any, text: Any, bytes: Any, list: Any, map: Any) -> Result<(i64, String, Bytes, Vec<i64>, usize)> {
    Ok((int.to()?, text.to()?, bytes.to()?, list.to()?, map.to::<Map<Str, Any>>()?.len()))
}

/// Adds an entry to a map that came as a value of any type.
#[packed_func(name = "extmod.objects_as_they_are.with_entry")]
pub fn with_entry(map: Any, key: Str) -> Result<Any> {
    let mut map: HashMap<String, Any> = map.to()?;
    map.insert(key.to_string(), Any::NONE);
    Ok(map.into_any())
}

static ANY: Mutex<Any> = Mutex::new(Any::NONE);

/// Keeps a value of any type, and returns the one that was kept.
#[packed_func(name = "extmod.objects_as_they_are.keep_any")]
pub fn keep_any(value: Any) -> Any {
    std::mem::replace(&mut *ANY.lock().unwrap_or_else(|poisoned| poisoned.into_inner()), value)
}

/// A value of any type as integers of three types.
#[packed_func(name = "extmod.objects_as_they_are.integers_of_any")]
pub fn integers_of_any(number: Any) -> Result<(u64, usize, i128)> {
    Ok((number.to()?, number.to()?, number.to()?))
}

/// A value of any type as a boolean, and as a time span.
#[packed_func(name = "extmod.objects_as_they_are.flag_and_span_of_any")]
pub fn flag_and_span_of_any(flag: Any, span: Any) -> Result<(bool, Duration)> {
    Ok((flag.to()?, span.to()?))
}

/// A value of any type, kept as it is in the ABI.
#[packed_func(name = "extmod.objects_as_they_are.any_of")]
pub fn any_of(object: &PyObject) -> Result<Any> {
    object.to()
}
