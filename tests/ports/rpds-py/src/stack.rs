//! The class `Stack`.

use kernpack::python::Object as PyObject;
use kernpack::{Object, Result, bail, object_methods};
use rpds::StackSync;

use crate::sequence;

/// A persistent stack: last in, first out.
#[derive(Object)]
#[object(key = "rpds.Stack")]
#[repr(C)]
pub struct Stack {
    elements: StackSync<PyObject>,
}

impl From<StackSync<PyObject>> for Stack {
    fn from(elements: StackSync<PyObject>) -> Self {
        Self { elements }
    }
}

#[object_methods]
impl Stack {
    /// The elements of an iterable, or the arguments; the last one is on top.
    #[init(signature = "(*elements)")]
    pub fn new(elements: Vec<PyObject>) -> Result<Self> {
        let mut stack = StackSync::new_sync();
        for element in sequence::elements(elements)? {
            stack.push_mut(element);
        }
        Ok(stack.into())
    }

    /// Returns the element on top.
    pub fn peek(&self) -> Result<PyObject> {
        match self.elements.peek() {
            Some(top) => Ok(top.clone()),
            None => bail!(IndexError, "peeked an empty stack"),
        }
    }

    /// Returns the stack with one more element on top.
    #[method(signature = "(value, /)")]
    pub fn push(&self, value: PyObject) -> Self {
        self.elements.push(value).into()
    }

    /// Returns the stack without the element on top.
    pub fn pop(&self) -> Result<Self> {
        match self.elements.pop() {
            Some(rest) => Ok(rest.into()),
            None => bail!(IndexError, "popped an empty stack"),
        }
    }

    #[method(name = "__len__")]
    fn length(&self) -> usize {
        self.elements.size()
    }

    /// From the top down.
    #[method(name = "__iter__")]
    fn iter(&self) -> Vec<PyObject> {
        self.elements.iter().cloned().collect()
    }

    #[operator(eq)]
    fn equal(&self, other: &Self) -> Result<bool> {
        Ok(self.elements.size() == other.elements.size()
            && sequence::equal(self.elements.iter(), other.elements.iter())?)
    }

    #[operator(hash)]
    fn hash(&self) -> Result<u64> {
        sequence::hash(self.elements.iter())
    }

    #[operator(repr)]
    fn repr(&self) -> Result<String> {
        Ok(format!("Stack([{}])", sequence::texts(self.upwards().iter())?))
    }

    #[method(name = "__getnewargs__")]
    fn arguments(&self) -> (Vec<PyObject>,) {
        (self.upwards(),)
    }
}

impl Stack {
    fn upwards(&self) -> Vec<PyObject> {
        let mut elements = self.iter();
        elements.reverse();
        elements
    }
}
