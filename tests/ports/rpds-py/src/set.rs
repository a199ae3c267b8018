//! The class `HashTrieSet`.

use kernpack::python::{Object as PyObject, builtin};
use kernpack::{ObjRef, Object, Result, object_methods};

use crate::key::{Key, missing};
use crate::sequence;
use crate::set_like::{self, Elements, SetLike, gather};

/// A persistent set.
#[derive(Object)]
#[object(key = "rpds.HashTrieSet")]
#[repr(C)]
pub struct HashTrieSet {
    elements: Elements,
}

impl From<Elements> for HashTrieSet {
    fn from(elements: Elements) -> Self {
        Self { elements }
    }
}

impl SetLike for HashTrieSet {
    fn size(&self) -> usize {
        self.elements.size()
    }

    fn has(&self, element: &PyObject) -> Result<bool> {
        Ok(self.elements.contains(&Key::new(element.clone())?))
    }

    fn elements(&self) -> Result<Elements> {
        Ok(self.elements.clone())
    }
}

/// Returns the elements of an iterable: those of a `HashTrieSet` are shared.
fn elements_of(other: &PyObject) -> Result<Elements> {
    match other.to::<ObjRef<HashTrieSet>>() {
        Ok(set) => Ok(set.elements.clone()),
        Err(_) => gather(other),
    }
}

#[object_methods]
impl HashTrieSet {
    /// The elements of an iterable.
    #[init(signature = "(value=None)")]
    pub fn new(value: Option<PyObject>) -> Result<Self> {
        let elements = value.map_or_else(|| Ok(Elements::new_sync()), |value| elements_of(&value))?;
        Ok(elements.into())
    }

    #[method(name = "__contains__")]
    fn contains(&self, value: &PyObject) -> Result<bool> {
        self.has(value)
    }

    #[method(name = "__len__")]
    fn length(&self) -> usize {
        self.elements.size()
    }

    #[method(name = "__iter__")]
    fn iter(&self) -> Vec<PyObject> {
        self.elements.iter().map(|key| key.object.clone()).collect()
    }

    /// Returns the set with one more element.
    #[method(signature = "(value, /)")]
    pub fn insert(&self, value: PyObject) -> Result<Self> {
        Ok(self.elements.insert(Key::new(value)?).into())
    }

    /// Returns the set without an element, which it must have.
    #[method(signature = "(value, /)")]
    pub fn remove(&self, value: PyObject) -> Result<Self> {
        let key = Key::new(value)?;
        let mut elements = self.elements.clone();
        if elements.remove_mut(&key) { Ok(elements.into()) } else { Err(missing(&key.object)) }
    }

    /// Returns the set without an element.
    #[method(signature = "(value, /)")]
    pub fn discard(&self, value: PyObject) -> Result<Self> {
        Ok(self.elements.remove(&Key::new(value)?).into())
    }

    /// Returns the set with the elements of all iterables.
    #[method(signature = "(*iterables)")]
    pub fn update(&self, iterables: Vec<PyObject>) -> Result<Self> {
        let mut elements = self.elements.clone();
        iterables.iter().try_for_each(|iterable| set_like::add(&mut elements, iterable))?;
        Ok(elements.into())
    }

    /// Returns the elements of both.
    #[method(signature = "(other, /)")]
    pub fn union(&self, other: &PyObject) -> Result<Self> {
        Ok(set_like::union(self, other)?.into())
    }

    /// Returns the elements that are in both.
    #[method(signature = "(other, /)")]
    pub fn intersection(&self, other: &PyObject) -> Result<Self> {
        Ok(set_like::intersection(self, other)?.into())
    }

    /// Returns the elements that are not in the other one.
    #[method(signature = "(other, /)")]
    pub fn difference(&self, other: &PyObject) -> Result<Self> {
        Ok(set_like::difference(&self.elements, &elements_of(other)?).into())
    }

    /// Returns the elements that are in one of both.
    #[method(signature = "(other, /)")]
    pub fn symmetric_difference(&self, other: &PyObject) -> Result<Self> {
        Ok(set_like::symmetric_difference(&self.elements, &elements_of(other)?).into())
    }

    #[method(name = "__or__")]
    fn or(&self, other: &PyObject) -> Result<Self> {
        self.union(other)
    }

    #[method(name = "__ror__")]
    fn reflected_or(&self, other: &PyObject) -> Result<Self> {
        self.union(other)
    }

    #[method(name = "__and__")]
    fn and(&self, other: &PyObject) -> Result<Self> {
        self.intersection(other)
    }

    #[method(name = "__rand__")]
    fn reflected_and(&self, other: &PyObject) -> Result<Self> {
        self.intersection(other)
    }

    #[method(name = "__sub__")]
    fn sub(&self, other: &PyObject) -> Result<Self> {
        self.difference(other)
    }

    #[method(name = "__rsub__")]
    fn reflected_sub(&self, other: &PyObject) -> Result<Self> {
        Ok(set_like::difference(&elements_of(other)?, &self.elements).into())
    }

    #[method(name = "__xor__")]
    fn xor(&self, other: &PyObject) -> Result<Self> {
        self.symmetric_difference(other)
    }

    #[method(name = "__rxor__")]
    fn reflected_xor(&self, other: &PyObject) -> Result<Self> {
        self.symmetric_difference(other)
    }

    #[operator(eq)]
    fn equal(&self, other: &PyObject) -> Result<Option<bool>> {
        set_like::equal(self, other)
    }

    #[operator(lt)]
    fn less(&self, other: &PyObject) -> Result<Option<bool>> {
        set_like::less(self, other)
    }

    #[operator(le)]
    fn less_or_equal(&self, other: &PyObject) -> Result<Option<bool>> {
        set_like::less_or_equal(self, other)
    }

    #[operator(gt)]
    fn greater(&self, other: &PyObject) -> Result<Option<bool>> {
        set_like::greater(self, other)
    }

    #[operator(ge)]
    fn greater_or_equal(&self, other: &PyObject) -> Result<Option<bool>> {
        set_like::greater_or_equal(self, other)
    }

    /// The hash of the `frozenset` that is equal to the set.
    #[operator(hash)]
    fn hash(&self) -> Result<u64> {
        Ok(builtin("frozenset")?.call((self.iter(),))?.hash_value()? as u64)
    }

    #[operator(repr)]
    fn repr(&self) -> Result<String> {
        Ok(format!("HashTrieSet({{{}}})", sequence::texts(self.elements.iter().map(|key| &key.object))?))
    }

    #[method(name = "__getnewargs__")]
    fn arguments(&self) -> (Vec<PyObject>,) {
        (self.iter(),)
    }
}
