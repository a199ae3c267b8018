//! The views of a map: its keys, its values, its entries.

use std::sync::OnceLock;

use kernpack::python::{Object as PyObject, builtin};
use kernpack::{Object, Result, object_methods};

use crate::key::Key;
use crate::map::Entries;
use crate::sequence;
use crate::set::HashTrieSet;
use crate::set_like::{self, Elements, SetLike};

/// The keys of a map.
#[derive(Object)]
#[object(key = "rpds.KeysView", init = false)]
#[repr(C)]
pub struct KeysView {
    entries: Entries,
}

/// The values of a map.
#[derive(Object)]
#[object(key = "rpds.ValuesView", init = false)]
#[repr(C)]
pub struct ValuesView {
    entries: Entries,
}

/// The entries of a map, as tuples.
#[derive(Object)]
#[object(key = "rpds.ItemsView", init = false)]
#[repr(C)]
pub struct ItemsView {
    entries: Entries,
}

impl From<Entries> for KeysView {
    fn from(entries: Entries) -> Self {
        Self { entries }
    }
}

impl From<Entries> for ValuesView {
    fn from(entries: Entries) -> Self {
        Self { entries }
    }
}

impl From<Entries> for ItemsView {
    fn from(entries: Entries) -> Self {
        Self { entries }
    }
}

/// Returns the class `tuple`.
fn tuple_class() -> Result<&'static PyObject> {
    static TUPLE: OnceLock<PyObject> = OnceLock::new();
    match TUPLE.get() {
        Some(class) => Ok(class),
        None => {
            let found = builtin("tuple")?;
            Ok(TUPLE.get_or_init(|| found))
        }
    }
}

/// Returns an entry as a tuple of Python.
fn tuple(key: &Key, value: &PyObject) -> Result<PyObject> {
    PyObject::new((key.object.clone(), value.clone()))
}

impl SetLike for KeysView {
    fn size(&self) -> usize {
        self.entries.size()
    }

    fn has(&self, element: &PyObject) -> Result<bool> {
        Ok(self.entries.contains_key(&Key::new(element.clone())?))
    }

    fn elements(&self) -> Result<Elements> {
        Ok(self.entries.keys().cloned().collect())
    }
}

impl SetLike for ItemsView {
    fn size(&self) -> usize {
        self.entries.size()
    }

    fn has(&self, element: &PyObject) -> Result<bool> {
        if !element.is_instance(tuple_class()?)? || element.length()? != 2 {
            return Ok(false);
        }
        let (key, value): (PyObject, PyObject) = element.to()?;
        match self.entries.get(&Key::new(key)?) {
            Some(found) => found.equals(&value),
            None => Ok(false),
        }
    }

    fn elements(&self) -> Result<Elements> {
        self.entries.iter().map(|(key, value)| Key::new(tuple(key, value)?)).collect()
    }
}

/// The methods of a view that is a set.
macro_rules! set_methods {
    ($view:ident) => {
        #[object_methods]
        impl $view {
            #[method(name = "__contains__")]
            fn contains(&self, value: &PyObject) -> Result<bool> {
                self.has(value)
            }

            #[method(name = "__len__")]
            fn length(&self) -> usize {
                self.entries.size()
            }

            /// Returns the elements of both.
            #[method(signature = "(other, /)")]
            pub fn union(&self, other: &PyObject) -> Result<HashTrieSet> {
                Ok(set_like::union(self, other)?.into())
            }

            /// Returns the elements that are in both.
            #[method(signature = "(other, /)")]
            pub fn intersection(&self, other: &PyObject) -> Result<HashTrieSet> {
                Ok(set_like::intersection(self, other)?.into())
            }

            #[method(name = "__or__")]
            fn or(&self, other: &PyObject) -> Result<HashTrieSet> {
                self.union(other)
            }

            #[method(name = "__ror__")]
            fn reflected_or(&self, other: &PyObject) -> Result<HashTrieSet> {
                self.union(other)
            }

            #[method(name = "__and__")]
            fn and(&self, other: &PyObject) -> Result<HashTrieSet> {
                self.intersection(other)
            }

            #[method(name = "__rand__")]
            fn reflected_and(&self, other: &PyObject) -> Result<HashTrieSet> {
                self.intersection(other)
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
        }
    };
}

set_methods!(KeysView);
set_methods!(ItemsView);

#[object_methods]
impl KeysView {
    #[method(name = "__iter__")]
    fn iter(&self) -> Vec<PyObject> {
        self.entries.keys().map(|key| key.object.clone()).collect()
    }

    #[operator(repr)]
    fn repr(&self) -> Result<String> {
        Ok(format!("keys_view({{{}}})", sequence::texts(self.entries.keys().map(|key| &key.object))?))
    }
}

#[object_methods]
impl ItemsView {
    #[method(name = "__iter__")]
    fn iter(&self) -> Vec<(PyObject, PyObject)> {
        self.entries.iter().map(|(key, value)| (key.object.clone(), value.clone())).collect()
    }

    #[operator(repr)]
    fn repr(&self) -> Result<String> {
        let texts: Result<Vec<String>> = self
            .entries
            .iter()
            .map(|(key, value)| Ok(format!("({}, {})", key.object.repr()?, value.repr()?)))
            .collect();
        Ok(format!("items_view([{}])", texts?.join(", ")))
    }
}

#[object_methods]
impl ValuesView {
    #[method(name = "__iter__")]
    fn iter(&self) -> Vec<PyObject> {
        self.entries.values().cloned().collect()
    }

    #[method(name = "__len__")]
    fn length(&self) -> usize {
        self.entries.size()
    }

    #[operator(repr)]
    fn repr(&self) -> Result<String> {
        Ok(format!("values_view([{}])", sequence::texts(self.entries.values())?))
    }
}
