//! Attributes, elements and calls.

use core::ptr;

use kernpack_core::abi::TVMFFIAny;
use kernpack_core::function::views;
use kernpack_core::value::{Arg, ToArg};
use kernpack_core::{Args, Result};

use super::convert::converted;
use super::{Object, truth, with};
use crate::convert::callback;
use crate::cpython::capi::{Py, PyObject};
use crate::cpython::object::{Owned, PyResult, Raised};

/// The result of a function of CPython that returns 0, or raises an exception.
fn done(status: core::ffi::c_int) -> PyResult<()> {
    if status == 0 { Ok(()) } else { Err(Raised) }
}

/// The Python objects for arguments.
fn made<const N: usize>(py: Py, args: &[Arg<'_>; N]) -> PyResult<[Owned; N]> {
    // SAFETY: an argument is a valid view as long as it lives.
    let all = args.iter().map(|arg| unsafe { converted(py, &arg.as_raw()) });
    let all = all.collect::<PyResult<Vec<_>>>()?;
    all.try_into().map_err(|_| Raised)
}

impl Object {
    /// Returns an attribute.
    ///
    /// # Errors
    /// Returns the exception that Python raises: an AttributeError if there is no such attribute.
    pub fn attribute(&self, name: &str) -> Result<Self> {
        with(|py| self.read(py, name).map(Self::of))
    }

    /// Returns an attribute, or `None` if there is no such attribute.
    ///
    /// # Errors
    /// Returns an exception that Python raises, other than an AttributeError.
    pub fn attribute_if_any(&self, name: &str) -> Result<Option<Self>> {
        with(|py| match self.read(py, name) {
            Ok(found) => Ok(Some(Self::of(found))),
            // SAFETY: an exception is set.
            Err(Raised) => unsafe {
                if py.PyErr_ExceptionMatches(py.PyExc_AttributeError()) == 0 {
                    return Err(Raised);
                }
                py.PyErr_Clear();
                Ok(None)
            },
        })
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// Returns the exception that Python raises.
    pub fn set_attribute(&self, name: &str, value: impl ToArg) -> Result<()> {
        self.write_attribute(name, Some(value.to_arg()))
    }

    /// Deletes an attribute.
    ///
    /// # Errors
    /// Returns the exception that Python raises: an AttributeError if there is no such attribute.
    pub fn delete_attribute(&self, name: &str) -> Result<()> {
        self.write_attribute(name, None)
    }

    fn write_attribute(&self, name: &str, value: Option<Arg<'_>>) -> Result<()> {
        with(|py| {
            let name = py.interned(name)?;
            // SAFETY: an argument is a valid view as long as it lives; all objects are alive, and
            // NULL stands for a deletion.
            unsafe {
                let value = value.map(|value| converted(py, &value.as_raw())).transpose()?;
                let value = value.as_ref().map_or(ptr::null_mut(), Owned::as_ptr);
                done(py.PyObject_SetAttr(self.handle(), name.as_ptr(), value))
            }
        })
    }

    /// Returns `object[key]`.
    ///
    /// # Errors
    /// Returns the exception that Python raises: a KeyError or IndexError if there is no such
    /// element.
    pub fn item(&self, key: impl ToArg) -> Result<Self> {
        let key = key.to_arg();
        with(|py| {
            let [key] = made(py, &[key])?;
            // SAFETY: both are alive.
            unsafe { Owned::take(py, py.PyObject_GetItem(self.handle(), key.as_ptr())) }.map(Self::of)
        })
    }

    /// Sets `object[key]`.
    ///
    /// # Errors
    /// Returns the exception that Python raises.
    pub fn set_item(&self, key: impl ToArg, value: impl ToArg) -> Result<()> {
        let args = [key.to_arg(), value.to_arg()];
        with(|py| {
            let [key, value] = made(py, &args)?;
            // SAFETY: all three are alive.
            done(unsafe { py.PyObject_SetItem(self.handle(), key.as_ptr(), value.as_ptr()) })
        })
    }

    /// Deletes `object[key]`.
    ///
    /// # Errors
    /// Returns the exception that Python raises: a KeyError or IndexError if there is no such
    /// element.
    pub fn delete_item(&self, key: impl ToArg) -> Result<()> {
        let key = key.to_arg();
        with(|py| {
            let [key] = made(py, &[key])?;
            // SAFETY: both are alive.
            done(unsafe { py.PyObject_DelItem(self.handle(), key.as_ptr()) })
        })
    }

    /// Returns `item in object`.
    ///
    /// # Errors
    /// Returns the exception that Python raises.
    pub fn contains(&self, item: impl ToArg) -> Result<bool> {
        let item = item.to_arg();
        with(|py| {
            let [item] = made(py, &[item])?;
            // SAFETY: both are alive.
            truth(unsafe { py.PySequence_Contains(self.handle(), item.as_ptr()) })
        })
    }

    /// Returns `len(object)`.
    ///
    /// # Errors
    /// Returns the exception that Python raises: a TypeError for an object without a length.
    pub fn length(&self) -> Result<usize> {
        // SAFETY: the object is alive, and the lock is held.
        with(|py| usize::try_from(unsafe { py.PyObject_Size(self.handle()) }).map_err(|_| Raised))
    }

    /// Calls the object with positional arguments.
    ///
    /// # Errors
    /// Returns the exception that Python raises.
    pub fn call(&self, args: impl Args) -> Result<Self> {
        args.with_raw(|args| {
            // SAFETY: the arguments are valid views, and the object is alive.
            with(|py| unsafe { call(py, self.handle(), args) }.map(Self::of))
        })
    }

    /// Calls the object with positional arguments and arguments by name.
    ///
    /// # Errors
    /// Returns the exception that Python raises, and a TypeError for a name that occurs twice.
    pub fn call_with(&self, args: impl Args, named: &[(&str, &dyn ToArg)]) -> Result<Self> {
        args.with_raw(|args| {
            // SAFETY: the arguments are valid views, and the object is alive.
            with(|py| unsafe {
                let args = callback::tuple(py, views(args.as_ptr(), args.len() as i32))?;
                let options = Owned::take(py, py.PyDict_New())?;
                for (name, value) in named {
                    let (text, name, value) = (*name, py.interned(name)?, value.to_arg());
                    if py.dict_item(options.as_ptr(), name.as_ptr())?.is_some() {
                        let text = format!("got multiple values for keyword argument '{text}'");
                        return Err(py.raise(py.PyExc_TypeError(), &text));
                    }
                    let value = converted(py, &value.as_raw())?;
                    done(py.PyDict_SetItem(options.as_ptr(), name.as_ptr(), value.as_ptr()))?;
                }
                Owned::take(py, py.PyObject_Call(self.handle(), args.as_ptr(), options.as_ptr())).map(Self::of)
            })
        })
    }

    /// Calls a method with positional arguments.
    ///
    /// # Errors
    /// Returns the exception that Python raises.
    pub fn call_method(&self, name: &str, args: impl Args) -> Result<Self> {
        args.with_raw(|args| {
            // SAFETY: the arguments are valid views, and the object is alive.
            with(|py| unsafe {
                let method = self.read(py, name)?;
                call(py, method.as_ptr(), args).map(Self::of)
            })
        })
    }

    /// The attribute of this name.
    fn read(&self, py: Py, name: &str) -> PyResult<Owned> {
        let name = py.interned(name)?;
        // SAFETY: both are alive.
        unsafe { Owned::take(py, py.PyObject_GetAttr(self.handle(), name.as_ptr())) }
    }
}

/// # Safety
/// The arguments are valid views, and the callable is alive.
unsafe fn call(py: Py, callable: *mut PyObject, args: &[TVMFFIAny]) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe { callback::called(py, callable, views(args.as_ptr(), args.len() as i32)) }
}
