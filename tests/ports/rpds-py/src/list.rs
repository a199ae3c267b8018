//! The class `List`.

use kernpack::python::Object as PyObject;
use kernpack::{Object, Result, bail, object_methods};
use rpds::ListSync;

use crate::sequence;

/// A persistent singly linked list.
#[derive(Object)]
#[object(key = "rpds.List")]
#[repr(C)]
pub struct List {
    elements: ListSync<PyObject>,
}

impl From<ListSync<PyObject>> for List {
    fn from(elements: ListSync<PyObject>) -> Self {
        Self { elements }
    }
}

#[object_methods]
impl List {
    /// The elements of an iterable, or the arguments.
    #[init(signature = "(*elements)")]
    pub fn new(elements: Vec<PyObject>) -> Result<Self> {
        let mut list = ListSync::new_sync();
        for element in sequence::elements(elements)?.into_iter().rev() {
            list.push_front_mut(element);
        }
        Ok(list.into())
    }

    /// The first element.
    #[getter]
    pub fn first(&self) -> Result<PyObject> {
        match self.elements.first() {
            Some(first) => Ok(first.clone()),
            None => bail!(IndexError, "empty list"),
        }
    }

    /// The list without the first element; the empty list of the empty one.
    #[getter]
    pub fn rest(&self) -> Self {
        self.elements.drop_first().unwrap_or_else(ListSync::new_sync).into()
    }

    /// Returns the list with one more element in front.
    #[method(signature = "(value, /)")]
    pub fn push_front(&self, value: PyObject) -> Self {
        self.elements.push_front(value).into()
    }

    /// Returns the list without the first element.
    pub fn drop_first(&self) -> Result<Self> {
        match self.elements.drop_first() {
            Some(rest) => Ok(rest.into()),
            None => bail!(IndexError, "empty list"),
        }
    }

    #[method(name = "__reversed__")]
    fn reversed(&self) -> Self {
        self.elements.reverse().into()
    }

    #[method(name = "__len__")]
    fn length(&self) -> usize {
        self.elements.len()
    }

    #[method(name = "__iter__")]
    fn iter(&self) -> Vec<PyObject> {
        self.elements.iter().cloned().collect()
    }

    #[operator(eq)]
    fn equal(&self, other: &Self) -> Result<bool> {
        Ok(self.elements.len() == other.elements.len() && sequence::equal(self.elements.iter(), other.elements.iter())?)
    }

    #[operator(hash)]
    fn hash(&self) -> Result<u64> {
        sequence::hash(self.elements.iter())
    }

    #[operator(repr)]
    fn repr(&self) -> Result<String> {
        Ok(format!("List([{}])", sequence::texts(self.elements.iter())?))
    }

    #[method(name = "__getnewargs__")]
    fn arguments(&self) -> (Vec<PyObject>,) {
        (self.iter(),)
    }
}
