//! Comparisons and operations of everything that is a set for Python.

use std::sync::OnceLock;

use kernpack::Result;
use kernpack::python::{Object as PyObject, import};
use rpds::HashTrieSetSync;

use crate::key::Key;

/// The elements of a set.
pub(crate) type Elements = HashTrieSetSync<Key>;

/// A set of Python objects: a `HashTrieSet`, or a view of a map.
pub(crate) trait SetLike {
    /// Returns the number of elements.
    fn size(&self) -> usize;
    /// Returns true if the object is an element.
    fn has(&self, element: &PyObject) -> Result<bool>;
    /// Returns the elements.
    fn elements(&self) -> Result<Elements>;
}

/// Returns the number of elements of a set of any class; `None` for what is not a set.
fn size_of(other: &PyObject) -> Result<Option<usize>> {
    static SET: OnceLock<PyObject> = OnceLock::new();
    let class = match SET.get() {
        Some(class) => class,
        None => {
            let found = import("collections.abc")?.attribute("Set")?;
            SET.get_or_init(|| found)
        }
    };
    if other.is_instance(class)? { other.length().map(Some) } else { Ok(None) }
}

/// Returns true if the set has all elements of another one.
fn has_all(set: &impl SetLike, other: &PyObject) -> Result<bool> {
    for element in other.iterate()? {
        if !set.has(&element?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if another set has all elements of the set.
fn in_other(set: &impl SetLike, other: &PyObject) -> Result<bool> {
    for key in set.elements()?.iter() {
        if !other.contains(&key.object)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `set == other`; `None` if the other object is not a set.
pub(crate) fn equal(set: &impl SetLike, other: &PyObject) -> Result<Option<bool>> {
    size_of(other)?.map(|size| Ok(size == set.size() && has_all(set, other)?)).transpose()
}

/// `set < other`.
pub(crate) fn less(set: &impl SetLike, other: &PyObject) -> Result<Option<bool>> {
    size_of(other)?.map(|size| Ok(set.size() < size && in_other(set, other)?)).transpose()
}

/// `set <= other`.
pub(crate) fn less_or_equal(set: &impl SetLike, other: &PyObject) -> Result<Option<bool>> {
    size_of(other)?.map(|size| Ok(set.size() <= size && in_other(set, other)?)).transpose()
}

/// `set > other`.
pub(crate) fn greater(set: &impl SetLike, other: &PyObject) -> Result<Option<bool>> {
    size_of(other)?.map(|size| Ok(set.size() > size && has_all(set, other)?)).transpose()
}

/// `set >= other`.
pub(crate) fn greater_or_equal(set: &impl SetLike, other: &PyObject) -> Result<Option<bool>> {
    size_of(other)?.map(|size| Ok(set.size() >= size && has_all(set, other)?)).transpose()
}

/// Returns the elements of an iterable.
pub(crate) fn gather(other: &PyObject) -> Result<Elements> {
    let mut elements = Elements::new_sync();
    add(&mut elements, other)?;
    Ok(elements)
}

/// Adds the elements of an iterable.
pub(crate) fn add(elements: &mut Elements, other: &PyObject) -> Result<()> {
    for element in other.iterate()? {
        elements.insert_mut(Key::new(element?)?);
    }
    Ok(())
}

/// Returns the elements of a set and of an iterable.
pub(crate) fn union(set: &impl SetLike, other: &PyObject) -> Result<Elements> {
    let mut elements = set.elements()?;
    add(&mut elements, other)?;
    Ok(elements)
}

/// Returns the elements of an iterable that are in the set.
pub(crate) fn intersection(set: &impl SetLike, other: &PyObject) -> Result<Elements> {
    let mut elements = Elements::new_sync();
    for element in other.iterate()? {
        let element = element?;
        if set.has(&element)? {
            elements.insert_mut(Key::new(element)?);
        }
    }
    Ok(elements)
}

/// Returns the elements of the first set that are not in the second one.
pub(crate) fn difference(left: &Elements, right: &Elements) -> Elements {
    let mut elements = left.clone();
    for key in right.iter() {
        elements.remove_mut(key);
    }
    elements
}

/// Returns the elements that are in one of both sets.
pub(crate) fn symmetric_difference(left: &Elements, right: &Elements) -> Elements {
    let mut elements = difference(left, right);
    for key in right.iter().filter(|key| !left.contains(*key)) {
        elements.insert_mut(key.clone());
    }
    elements
}
