//! `__deepcopy__`: objects, lists and dicts of the library inside values that `copy.deepcopy`
//! copies.
//!
//! Python objects are created anew each time that the interpreter reads a part of an object, so
//! they do not show which parts are shared. In the memo of `copy.deepcopy`, whose keys are
//! addresses of Python objects, these functions record addresses of the library's objects.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use kernpack_builtins::structural;
use kernpack_core::abi::{TVMFFIObject, type_index};
use kernpack_core::value::TypeSchema;
use kernpack_core::{Any, embedded};

use super::construct::call_by_name;
use super::copy_level::{Level, is_inside_an_object, part_of_itself};
use super::pickle::{class_and_arguments, has_own_methods};
use crate::convert::to_python;
use crate::cpython::capi::{Py, PyMethodDef, PyObject, constant};
use crate::cpython::exception;
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::instance::container::held;
use crate::instance::table::{self, object_of};

/// The method of lists and dicts.
pub(crate) const METHOD_OF_CONTAINERS: PyMethodDef = method(copy_of_container);
/// The method of objects.
pub(crate) const METHOD_OF_OBJECTS: PyMethodDef = method(copy_of_object);

type Function = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;

const fn method(function: Function) -> PyMethodDef {
    PyMethodDef {
        name: c"__deepcopy__".as_ptr(),
        function: function as *const c_void,
        flags: constant::METH_O,
        doc: c"__deepcopy__($self, memo, /)\n--\n\nA copy with copies of all parts; what is shared stays shared."
            .as_ptr(),
    }
}

const ANY: TypeSchema = TypeSchema::new("Any");

unsafe extern "C" fn copy_of_container(this: *mut PyObject, memo: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, for a list or dict.
    let copied = unsafe { container(Py::held(), this, memo) };
    copied.map_or(ptr::null_mut(), Owned::into_ptr)
}

unsafe extern "C" fn copy_of_object(this: *mut PyObject, memo: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, for an object of a class derived from the
    // base.
    let copied = unsafe { object(Py::held(), this, memo) };
    copied.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// The key of an object in the memo.
///
/// # Safety
/// `memo` is alive.
unsafe fn key(py: Py, memo: *mut PyObject, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe {
        if py.PyType_GetFlags(py.type_of(memo)) & constant::DICT_SUBCLASS == 0 {
            return Err(
                py.raise(py.PyExc_TypeError(), "__deepcopy__() takes the memo of copy.deepcopy, which is a dict")
            );
        }
        Owned::take(py, py.PyLong_FromLongLong(object.expose_provenance() as i64))
    }
}

/// The function `copy.deepcopy`, which lives forever; NULL before the first copy.
static DEEP_COPY: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// `copy.deepcopy` with a memo.
struct DeepCopy {
    function: *mut PyObject,
    memo: *mut PyObject,
}

impl DeepCopy {
    /// # Safety
    /// `memo` is alive, and stays so for as long as the result.
    unsafe fn of(py: Py, memo: *mut PyObject) -> PyResult<Self> {
        let mut function = DEEP_COPY.load(Ordering::Acquire);
        if function.is_null() {
            let module = py.import(c"copy")?;
            // SAFETY: the module is alive.
            function = unsafe { py.attribute(module.as_ptr(), c"deepcopy")? }.into_ptr();
            DEEP_COPY.store(function, Ordering::Release);
        }
        Ok(Self { function, memo })
    }

    unsafe fn call(&self, py: Py, value: Owned) -> PyResult<Owned> {
        // SAFETY: all are alive.
        unsafe {
            let class = py.type_of(value.as_ptr());
            let constant = [py.PyFloat_Type(), py.PyLong_Type(), py.PyUnicode_Type(), py.PyBool_Type()];
            if constant.contains(&class) || value.as_ptr() == py.none() {
                return Ok(value);
            }
            py.call(self.function, [value, Owned::share(py, self.memo)])
        }
    }
}

/// Copies a list or dict to a list or dict of Python with copies of its parts. It is in the memo
/// before its parts are copied. If an object in it contains it, it is copied to a list or dict of
/// the library: objects cannot contain one of Python.
///
/// # Safety
/// `this` is a live list or dict of the library, `memo` is alive.
unsafe fn container(py: Py, this: *mut PyObject, memo: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller. What is copied is a list or dict of this moment, made for
    // this function.
    unsafe {
        let object = held(py, this);
        let key = key(py, memo, object)?;
        if let Some(copied) = py.dict_item(memo, key.as_ptr())? {
            return if is_inside_an_object(object, memo) { Err(part_of_itself(py, memo)) } else { Ok(copied) };
        }
        let known = py.PyDict_Size(memo);
        let level = Level::enter(py, object, memo);
        let copied = filled(py, this, memo, &key);
        if copied.is_err() && level.takes_error() {
            forget_from(py, memo, known)?;
            let copied = by_fields(py, object)?;
            if py.PyDict_SetItem(memo, key.as_ptr(), copied.as_ptr()) != 0 {
                return Err(Raised);
            }
            return Ok(copied);
        }
        if copied.is_err() {
            forget_one(py, memo, &key);
        }
        copied
    }
}

/// # Safety
/// As for [`container`].
unsafe fn filled(py: Py, this: *mut PyObject, memo: *mut PyObject, key: &Owned) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe {
        let object = held(py, this);
        let deep_copy = DeepCopy::of(py, memo)?;
        let parts = to_python::contents(py, object, &ANY)?;
        let is_dict = (*object).type_index == type_index::DICT;
        let copied = Owned::take(py, if is_dict { py.PyDict_New() } else { py.PyList_New(0) })?;
        if py.PyDict_SetItem(memo, key.as_ptr(), copied.as_ptr()) != 0 {
            return Err(Raised);
        }
        if is_dict {
            for [key, value] in py.entries(parts.as_ptr())? {
                let (key, value) = (deep_copy.call(py, key)?, deep_copy.call(py, value)?);
                if py.PyDict_SetItem(copied.as_ptr(), key.as_ptr(), value.as_ptr()) != 0 {
                    return Err(Raised);
                }
            }
            return Ok(copied);
        }
        let mut index = 0;
        while let Some(part) = py.list_item(parts.as_ptr(), index)? {
            let part = deep_copy.call(py, part)?;
            if py.PyList_Append(copied.as_ptr(), part.as_ptr()) != 0 {
                return Err(Raised);
            }
            index += 1;
        }
        Ok(copied)
    }
}

/// Copies to an object of the same class, created according to `__reduce_ex__` from copies of the
/// constructor's arguments.
///
/// # Safety
/// `this` is alive and of a class derived from the base, `memo` is alive.
unsafe fn object(py: Py, this: *mut PyObject, memo: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe {
        let object = object_of(py, this)?;
        let key = key(py, memo, object)?;
        // While an object is copied, it represents its copy in the memo.
        match py.dict_item(memo, key.as_ptr())? {
            Some(mark) if mark.as_ptr() == py._Py_NotImplementedStruct() => {
                return Err(part_of_itself(py, memo));
            }
            Some(copied) => return Ok(copied),
            None => {}
        }
        let known = py.PyDict_Size(memo);
        if py.PyDict_SetItem(memo, key.as_ptr(), py._Py_NotImplementedStruct()) != 0 {
            return Err(Raised);
        }
        let level = Level::enter(py, object, memo);
        let mut copied = made_again(py, this, memo, &key);
        // An object of a class that was derived in Python may have attributes that only its Python
        // object has.
        if copied.is_err() && table::is_known(py.type_of(this)) && level.takes_error() {
            forget_from(py, memo, known)?;
            copied = by_fields(py, object);
        }
        if copied.is_err() {
            forget_one(py, memo, &key);
        }
        let copied = copied?;
        if py.PyDict_SetItem(memo, key.as_ptr(), copied.as_ptr()) != 0 {
            return Err(Raised);
        }
        Ok(copied)
    }
}

/// Copies an object and everything that it contains, including cycles, field by field.
///
/// # Safety
/// `object` is alive.
unsafe fn by_fields(py: Py, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the new reference is transferred to the value, and the
    // reference to the copy to its Python object.
    unsafe {
        embedded::inc_ref(object);
        let copied = structural::deep_copy(&Any::from_object(object)).map_err(|error| exception::raise(py, &error))?;
        to_python::value(py, copied, &ANY)
    }
}

/// Removes the entries of the memo after the first `known`: parts of an abandoned copy.
///
/// # Safety
/// `memo` is a live `dict`.
unsafe fn forget_from(py: Py, memo: *mut PyObject, known: isize) -> PyResult<()> {
    // SAFETY: promised by the caller; the method of the class takes the last entry.
    unsafe {
        let pop = py.attribute(py.PyDict_Type(), c"popitem")?;
        while py.PyDict_Size(memo) > known.max(0) {
            py.call(pop.as_ptr(), [Owned::share(py, memo)])?;
        }
        Ok(())
    }
}

/// Removes an object that was not copied from the memo, so that it can be copied again later. The
/// exception that is set is kept.
///
/// # Safety
/// `memo` is a live `dict`.
unsafe fn forget_one(py: Py, memo: *mut PyObject, key: &Owned) {
    let exception = exception::take_exception(py);
    // SAFETY: promised by the caller. Else it is not there.
    unsafe {
        if py.PyDict_DelItem(memo, key.as_ptr()) != 0 {
            py.PyErr_Clear();
        }
    }
    if let Some(exception) = exception {
        exception::put_back(py, exception);
    }
}

/// # Safety
/// As for [`object`].
unsafe fn made_again(py: Py, this: *mut PyObject, memo: *mut PyObject, key: &Owned) -> PyResult<Owned> {
    const PROTOCOL: i64 = 4;
    // SAFETY: promised by the caller; the tuple keeps its elements.
    unsafe {
        let deep_copy = DeepCopy::of(py, memo)?;
        if table::is_known(py.type_of(this)) && !has_own_methods(py, &py.class_of(this))? {
            let (class, named) = class_and_arguments(py, this)?;
            for [name, value] in py.entries(named.as_ptr())? {
                let value = deep_copy.call(py, value)?;
                if py.PyDict_SetItem(named.as_ptr(), name.as_ptr(), value.as_ptr()) != 0 {
                    return Err(Raised);
                }
            }
            return call_by_name(py, class.as_ptr(), &named);
        }
        let reduce = py.attribute(this, c"__reduce_ex__")?;
        let reduced = py.call(reduce.as_ptr(), [Owned::take(py, py.PyLong_FromLongLong(PROTOCOL))?])?;
        // A text: the name of a singleton.
        let class = py.type_of(reduced.as_ptr());
        if py.PyType_IsSubtype(class, py.PyUnicode_Type()) != 0 {
            return Ok(Owned::share(py, this));
        }
        if py.PyType_GetFlags(class) & constant::TUPLE_SUBCLASS == 0 {
            return Err(py.raise(py.PyExc_TypeError(), "__reduce_ex__() must return a text or a tuple"));
        }
        let size = py.PyTuple_Size(reduced.as_ptr());
        let part = |index| Owned::share(py, py.PyTuple_GetItem(reduced.as_ptr(), index));
        match size {
            2 | 3 => {
                let arguments = deep_copy.call(py, part(1))?;
                let made = Owned::take(py, py.PyObject_CallObject(part(0).as_ptr(), arguments.as_ptr()))?;
                if py.PyDict_SetItem(memo, key.as_ptr(), made.as_ptr()) != 0 {
                    return Err(Raised);
                }
                if size == 3 && part(2).as_ptr() != py.none() {
                    set_state(py, &made, deep_copy.call(py, part(2))?)?;
                }
                Ok(made)
            }
            // The result of a derived class's own method.
            _ => {
                let again = py.attribute(py.import(c"copy")?.as_ptr(), c"_reconstruct")?;
                let arguments = py.list_of(py.tuple([Owned::share(py, this), Owned::share(py, memo)])?.as_ptr())?;
                for index in 0..size {
                    if py.PyList_Append(arguments.as_ptr(), part(index).as_ptr()) != 0 {
                        return Err(Raised);
                    }
                }
                let arguments = py.call(py.PyTuple_Type(), [arguments])?;
                Owned::take(py, py.PyObject_CallObject(again.as_ptr(), arguments.as_ptr()))
            }
        }
    }
}

/// Sets the attributes that an object has besides its fields: a dict with them, or a pair of the
/// dict and those in slots.
///
/// # Safety
/// The lock is held.
unsafe fn set_state(py: Py, made: &Owned, state: Owned) -> PyResult<()> {
    // SAFETY: all are alive; a tuple keeps its elements.
    unsafe {
        if let Some(set) = py.attribute_if_any(made.as_ptr(), c"__setstate__")? {
            return py.call(set.as_ptr(), [state]).map(drop);
        }
        let is_pair = py.PyType_GetFlags(py.type_of(state.as_ptr())) & constant::TUPLE_SUBCLASS != 0
            && py.PyTuple_Size(state.as_ptr()) == 2;
        let [attributes, slots] = match is_pair {
            true => [0, 1].map(|index| Owned::share(py, py.PyTuple_GetItem(state.as_ptr(), index))),
            false => [state, Owned::share(py, py.none())],
        };
        if attributes.as_ptr() != py.none() {
            let own = py.attribute(made.as_ptr(), c"__dict__")?;
            let update = py.attribute(own.as_ptr(), c"update")?;
            py.call(update.as_ptr(), [attributes])?;
        }
        if slots.as_ptr() != py.none() {
            let slots = py.call(py.PyDict_Type(), [slots])?;
            for [name, value] in py.entries(slots.as_ptr())? {
                if py.PyObject_SetAttr(made.as_ptr(), name.as_ptr(), value.as_ptr()) != 0 {
                    return Err(Raised);
                }
            }
        }
        Ok(())
    }
}
