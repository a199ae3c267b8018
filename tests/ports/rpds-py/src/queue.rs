//! The class `Queue`.

use kernpack::python::Object as PyObject;
use kernpack::{Object, Result, bail, object_methods};
use rpds::QueueSync;

use crate::sequence;

/// A persistent queue: first in, first out.
#[derive(Object)]
#[object(key = "rpds.Queue")]
#[repr(C)]
pub struct Queue {
    elements: QueueSync<PyObject>,
}

impl From<QueueSync<PyObject>> for Queue {
    fn from(elements: QueueSync<PyObject>) -> Self {
        Self { elements }
    }
}

#[object_methods]
impl Queue {
    /// The elements of an iterable, or the arguments.
    #[init(signature = "(*elements)")]
    pub fn new(elements: Vec<PyObject>) -> Result<Self> {
        let mut queue = QueueSync::new_sync();
        for element in sequence::elements(elements)? {
            queue.enqueue_mut(element);
        }
        Ok(queue.into())
    }

    /// Returns the first element.
    pub fn peek(&self) -> Result<PyObject> {
        match self.elements.peek() {
            Some(first) => Ok(first.clone()),
            None => bail!(IndexError, "peeked an empty queue"),
        }
    }

    /// True if there are no elements.
    #[getter]
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Returns the queue with one more element at the end.
    #[method(signature = "(value, /)")]
    pub fn enqueue(&self, value: PyObject) -> Self {
        self.elements.enqueue(value).into()
    }

    /// Returns the queue without the first element.
    pub fn dequeue(&self) -> Result<Self> {
        match self.elements.dequeue() {
            Some(rest) => Ok(rest.into()),
            None => bail!(IndexError, "dequeued an empty queue"),
        }
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
        Ok(format!("Queue([{}])", sequence::texts(self.elements.iter())?))
    }

    #[method(name = "__getnewargs__")]
    fn arguments(&self) -> (Vec<PyObject>,) {
        (self.iter(),)
    }
}
