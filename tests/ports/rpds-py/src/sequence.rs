//! Equality, hash and text of the three sequences, by their elements.

use std::hash::{DefaultHasher, Hasher as _};

use kernpack::Result;
use kernpack::python::Object;

/// Returns the elements of the arguments of a constructor: those of the only argument, or the
/// arguments themselves.
pub(crate) fn elements(mut arguments: Vec<Object>) -> Result<Vec<Object>> {
    match arguments.len() {
        1 => arguments.swap_remove(0).iterate()?.collect(),
        _ => Ok(arguments),
    }
}

/// Returns true if two sequences of the same length have equal elements.
pub(crate) fn equal<'a>(
    left: impl Iterator<Item = &'a Object>,
    mut right: impl Iterator<Item = &'a Object>,
) -> Result<bool> {
    for element in left {
        match right.next() {
            Some(other) if element.equals(other)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Returns a hash that depends on the order of the elements.
pub(crate) fn hash<'a>(elements: impl Iterator<Item = &'a Object>) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for element in elements {
        hasher.write_isize(element.hash_value()?);
    }
    Ok(hasher.finish())
}

/// Returns the `repr` of each element, with commas between them.
pub(crate) fn texts<'a>(elements: impl Iterator<Item = &'a Object>) -> Result<String> {
    let texts: Vec<String> = elements.map(Object::repr).collect::<Result<_>>()?;
    Ok(texts.join(", "))
}
