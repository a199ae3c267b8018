//! The classes of lists and dicts of the library, which are shared and change. Their objects behave
//! like a `MutableSequence` or a `MutableMapping`. Each class is created with its first object.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;

use kernpack_core::abi::{TVMFFIAny, TVMFFIObject, type_index};
use kernpack_core::embedded::any_hash;
use kernpack_core::embedded::list::shared as list;
use kernpack_core::embedded::map::shared as dict;
use kernpack_core::value::TypeSchema;
use kernpack_core::{Any, Error};

use super::{deep_copy, walk};
use crate::convert::from_python::result;
use crate::convert::to_python;
use crate::cpython::capi::{Py, PyMethodDef, PyObject, Slot, constant};
use crate::cpython::heap_type::{self, Shared, refuse_new, release};
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::{exception, tvm_ffi};
use crate::instance::container::{self, held, object_of};

const ANY: TypeSchema = TypeSchema::new("Any");

/// The own members of a class; its other methods are those of the abstract class.
struct Description {
    name: &'static CStr,
    doc: &'static CStr,
    slots: &'static [Slot],
    methods: *const PyMethodDef,
    abstract_class: &'static CStr,
    inherited: &'static [&'static CStr],
}

static LIST_METHODS: Shared<[PyMethodDef; 5]> = Shared([
    PyMethodDef {
        name: c"extend".as_ptr(),
        function: extend as *const c_void,
        flags: constant::METH_O,
        doc: c"extend($self, values, /)\n--\n\nAppend values, all in one step.".as_ptr(),
    },
    PyMethodDef {
        name: c"insert".as_ptr(),
        function: insert as *const c_void,
        flags: constant::METH_VARARGS,
        doc: c"insert($self, index, value, /)\n--\n\nInsert value before index.".as_ptr(),
    },
    PyMethodDef::no_arguments(c"__reduce__", reduce, c"A list of Python with the elements, for pickle and copies."),
    deep_copy::METHOD_OF_CONTAINERS,
    PyMethodDef::END,
]);

static DICT_METHODS: Shared<[PyMethodDef; 4]> = Shared([
    PyMethodDef::no_arguments(c"clear", clear, c"clear($self, /)\n--\n\nRemove all entries."),
    PyMethodDef::no_arguments(c"__reduce__", reduce, c"A dict of Python with the entries, for pickle and copies."),
    deep_copy::METHOD_OF_CONTAINERS,
    PyMethodDef::END,
]);

static LIST: Shared<Description> = Shared(Description {
    name: c"kernpack.List",
    doc: c"A list that the library shares: what one side changes, the other sees.",
    slots: &[
        Slot { id: constant::SQ_LENGTH, value: list_len as *const c_void },
        Slot { id: constant::SQ_ITEM, value: list_item as *const c_void },
        Slot { id: constant::MP_LENGTH, value: list_len as *const c_void },
        Slot { id: constant::MP_SUBSCRIPT, value: list_get as *const c_void },
        Slot { id: constant::MP_ASS_SUBSCRIPT, value: list_set as *const c_void },
    ],
    methods: (&raw const LIST_METHODS.0).cast(),
    abstract_class: c"MutableSequence",
    inherited: &[
        c"append",
        c"pop",
        c"remove",
        c"reverse",
        c"clear",
        c"index",
        c"count",
        c"__contains__",
        c"__iter__",
        c"__reversed__",
        c"__iadd__",
    ],
});

static DICT: Shared<Description> = Shared(Description {
    name: c"kernpack.Dict",
    doc: c"A dict that the library shares: what one side changes, the other sees.",
    slots: &[
        Slot { id: constant::MP_LENGTH, value: dict_len as *const c_void },
        Slot { id: constant::MP_SUBSCRIPT, value: dict_get as *const c_void },
        Slot { id: constant::MP_ASS_SUBSCRIPT, value: dict_set as *const c_void },
        Slot { id: constant::TP_ITER, value: dict_iter as *const c_void },
    ],
    methods: (&raw const DICT_METHODS.0).cast(),
    abstract_class: c"MutableMapping",
    inherited: &[
        c"keys",
        c"items",
        c"values",
        c"get",
        c"pop",
        c"popitem",
        c"update",
        c"setdefault",
        c"__contains__",
        // The default of `pop`.
        c"_MutableMapping__marker",
    ],
});

/// Creates the class of lists or, if `is_dict`, of dicts.
pub(crate) fn class(py: Py, is_dict: bool) -> PyResult<Owned> {
    made(py, if is_dict { &DICT.0 } else { &LIST.0 })
}

fn made(py: Py, description: &'static Description) -> PyResult<Owned> {
    let mut slots = vec![
        Slot { id: constant::TP_DEALLOC, value: free as *const c_void },
        Slot { id: constant::TP_NEW, value: refuse_new as *const c_void },
        Slot { id: constant::TP_REPR, value: repr as *const c_void },
        Slot { id: constant::TP_RICHCOMPARE, value: compare as *const c_void },
        Slot { id: constant::TP_METHODS, value: description.methods.cast() },
        Slot { id: constant::TP_DOC, value: description.doc.as_ptr().cast() },
    ];
    slots.extend(description.slots.iter().map(|slot| Slot { id: slot.id, value: slot.value }));
    slots.push(Slot::END);
    let size = size_of::<*mut c_void>();
    let class = heap_type::new(py, description.name, size, constant::TPFLAGS_DEFAULT, &slots)?;
    tvm_ffi::offer(py, &class)?;
    // SAFETY: all objects are alive while they are used.
    unsafe {
        let module = py.import(c"collections.abc")?;
        let base = py.attribute(module.as_ptr(), description.abstract_class)?;
        for name in description.inherited {
            let method = py.attribute(base.as_ptr(), name)?;
            if py.PyObject_SetAttrString(class.as_ptr(), name.as_ptr(), method.as_ptr()) != 0 {
                return Err(Raised);
            }
        }
        let register = py.attribute(base.as_ptr(), c"register")?;
        py.call(register.as_ptr(), [Owned::share(py, class.as_ptr())])?;
    }
    Ok(class)
}

// SAFETY of all functions below: the interpreter calls with its lock held, with an object of the
// class, and other objects that are alive, or NULL where its documentation allows it.

/// The contents at this moment, as a list or dict of Python.
unsafe fn contents(py: Py, this: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: see above.
    unsafe { to_python::contents(py, held(py, this), &ANY) }
}

fn raised(py: Py, error: impl Into<Error>) -> Raised {
    exception::raise(py, &error.into())
}

fn pointer(made: PyResult<Owned>) -> *mut PyObject {
    made.map_or(ptr::null_mut(), Owned::into_ptr)
}

fn status(done: PyResult<()>) -> c_int {
    if done.is_ok() { 0 } else { -1 }
}

/// Frees the Python object of a list or dict.
unsafe extern "C" fn free(this: *mut PyObject) {
    // SAFETY: see above; the object has no references.
    unsafe {
        container::forget(Py::held(), this);
        release(this);
    }
}

unsafe extern "C" fn repr(this: *mut PyObject) -> *mut PyObject {
    // SAFETY: see above.
    unsafe {
        let py = Py::held();
        let text = |py: Py| Owned::take(py, py.PyObject_Repr(contents(py, this)?.as_ptr()));
        pointer(walk::text(py, held(py, this), || py.nested(text)))
    }
}

/// Compares like lists and dicts of Python, with those and with one another.
unsafe extern "C" fn compare(this: *mut PyObject, other: *mut PyObject, operation: c_int) -> *mut PyObject {
    // SAFETY: see above.
    unsafe {
        let py = Py::held();
        let compared = |py: Py| {
            let left = contents(py, this)?;
            let right = match object_of(py, other, py.type_of(other)) {
                Some(_) => contents(py, other)?,
                None => Owned::share(py, other),
            };
            Owned::take(py, py.PyObject_RichCompare(left.as_ptr(), right.as_ptr(), operation))
        };
        match object_of(py, other, py.type_of(other)) {
            Some(other) if matches!(operation, walk::EQUAL | walk::UNEQUAL) => {
                let objects = [held(py, this), other.payload.v_obj];
                pointer(walk::comparison(py, objects, operation, || py.nested(compared)))
            }
            _ => pointer(py.nested(compared)),
        }
    }
}

unsafe extern "C" fn reduce(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: see above. A list or dict of Python is made of one.
    unsafe {
        let py = Py::held();
        let reduced = || {
            let contents = contents(py, this)?;
            let class = Owned::share(py, py.type_of(contents.as_ptr()));
            // Not created empty and filled afterwards: an object that contains it would be created
            // from an empty one.
            py.tuple([class, py.tuple([contents])?])
        };
        pointer(reduced())
    }
}

unsafe extern "C" fn list_len(this: *mut PyObject) -> isize {
    // SAFETY: see above.
    unsafe { list::len(held(Py::held(), this)) as isize }
}

unsafe extern "C" fn list_item(this: *mut PyObject, index: isize) -> *mut PyObject {
    // SAFETY: see above.
    unsafe {
        let py = Py::held();
        pointer(item(py, held(py, this), index as i64))
    }
}

unsafe fn item(py: Py, object: *mut TVMFFIObject, index: i64) -> PyResult<Owned> {
    // SAFETY: see above; the element is owned.
    match usize::try_from(index).ok().and_then(|index| unsafe { list::element(object, index) }) {
        // SAFETY: as above.
        Some(element) => to_python::value(py, unsafe { Any::from_raw(element) }, &ANY),
        None => Err(out_of_range(py)),
    }
}

#[cold]
fn out_of_range(py: Py) -> Raised {
    py.raise(py.PyExc_IndexError(), "list index out of range")
}

/// The number of an index, counted from the end if it is negative; `None` for a slice.
unsafe fn position(py: Py, object: *mut TVMFFIObject, key: *mut PyObject) -> PyResult<Option<i64>> {
    // SAFETY: see above.
    unsafe {
        if py.PyIndex_Check(key) == 0 {
            return Ok(None);
        }
        let index = match integer(py, key) {
            Ok(index) => index,
            Err(Raised) if py.PyErr_ExceptionMatches(py.PyExc_OverflowError()) != 0 => {
                py.PyErr_Clear();
                i64::MAX
            }
            Err(Raised) => return Err(Raised),
        };
        Ok(Some(if index < 0 { index.saturating_add(list::len(object) as i64) } else { index }))
    }
}

unsafe fn integer(py: Py, object: *mut PyObject) -> PyResult<i64> {
    // SAFETY: see above.
    unsafe {
        let number = Owned::take(py, py.PyNumber_Index(object))?;
        match py.PyLong_AsLongLong(number.as_ptr()) {
            -1 if !py.PyErr_Occurred().is_null() => Err(Raised),
            number => Ok(number),
        }
    }
}

unsafe extern "C" fn list_get(this: *mut PyObject, key: *mut PyObject) -> *mut PyObject {
    // SAFETY: see above.
    unsafe {
        let py = Py::held();
        let object = held(py, this);
        let get = || match position(py, object, key)? {
            Some(index) => item(py, object, index),
            None => Owned::take(py, py.PyObject_GetItem(contents(py, this)?.as_ptr(), key)),
        };
        pointer(get())
    }
}

/// Sets or, without a value, removes an element or the elements of a slice.
unsafe extern "C" fn list_set(this: *mut PyObject, key: *mut PyObject, value: *mut PyObject) -> c_int {
    // SAFETY: see above.
    unsafe {
        let py = Py::held();
        let object = held(py, this);
        let set = || match position(py, object, key)? {
            Some(index) => {
                let old = if value.is_null() {
                    list::pop(object, index)
                } else {
                    list::replace(object, index, result(py, value)?.into_raw())
                };
                old.map(|old| drop(Any::from_raw(old))).map_err(|_| out_of_range(py))
            }
            None => set_slice(py, object, key, value),
        };
        status(set())
    }
}

/// Converts the elements of a list of Python.
unsafe fn converted(py: Py, elements: &Owned) -> PyResult<Vec<Any>> {
    let mut values = Vec::new();
    // SAFETY: see above. Python code that made the elements may have found the list.
    while let Some(element) = unsafe { py.list_item(elements.as_ptr(), values.len() as isize)? } {
        // SAFETY: the element is alive.
        values.push(unsafe { result(py, element.as_ptr())? });
    }
    Ok(values)
}

unsafe fn set_slice(py: Py, object: *mut TVMFFIObject, key: *mut PyObject, value: *mut PyObject) -> PyResult<()> {
    // SAFETY: see above; values that are passed on are owned.
    unsafe {
        if py.type_of(key) != py.PySlice_Type() {
            return Err(py.raise(py.PyExc_TypeError(), "list indices must be integers or slices"));
        }
        let indices = py.attribute(key, c"indices")?;
        let mut values = Vec::new();
        if !value.is_null() {
            let elements = py.list_of(value)?;
            values = converted(py, &elements)?;
        }
        let len = list::len(object);
        let bounds = py.call(indices.as_ptr(), [Owned::take(py, py.PyLong_FromLongLong(len as i64))?])?;
        let bound = |index| integer(py, py.PyTuple_GetItem(bounds.as_ptr(), index));
        let (start, stop, step) = (bound(0)?, bound(1)?, bound(2)?);
        if step == 1 {
            let values: Vec<TVMFFIAny> = values.into_iter().map(Any::into_raw).collect();
            return list::replace_range(object, start, Some(stop.max(start)), &values)
                .map_err(|error| raised(py, error));
        }
        let mut places = Vec::new();
        let mut place = start;
        while if step > 0 { place < stop } else { place > stop } {
            places.push(place);
            let Some(next) = place.checked_add(step) else { break };
            place = next;
        }
        if value.is_null() {
            places.sort_unstable();
            for place in places.into_iter().rev() {
                list::pop(object, place).map(|old| drop(Any::from_raw(old))).map_err(|_| out_of_range(py))?;
            }
            return Ok(());
        }
        if places.len() != values.len() {
            let (given, taken) = (values.len(), places.len());
            let text = format!("attempt to assign sequence of size {given} to extended slice of size {taken}");
            return Err(py.raise(py.PyExc_ValueError(), &text));
        }
        for (place, value) in places.into_iter().zip(values) {
            let old = list::replace(object, place, value.into_raw());
            old.map(|old| drop(Any::from_raw(old))).map_err(|_| out_of_range(py))?;
        }
    }
    Ok(())
}

unsafe extern "C" fn insert(this: *mut PyObject, arguments: *mut PyObject) -> *mut PyObject {
    // SAFETY: see above; the arguments are a tuple.
    unsafe {
        let py = Py::held();
        let object = held(py, this);
        let insert = || {
            if py.PyTuple_Size(arguments) != 2 {
                return Err(py.raise(py.PyExc_TypeError(), "insert expects an index and a value"));
            }
            let index = integer(py, py.PyTuple_GetItem(arguments, 0))?;
            let value = result(py, py.PyTuple_GetItem(arguments, 1))?;
            let len = list::len(object) as i64;
            let index = if index < 0 { index.saturating_add(len).max(0) } else { index };
            if index >= len {
                list::push(object, value.into_raw())
            } else {
                list::insert(object, Some(index), &[value.into_raw()])
            }
            .map_err(|error| raised(py, error))?;
            Ok(Owned::share(py, py.none()))
        };
        pointer(insert())
    }
}

unsafe extern "C" fn extend(this: *mut PyObject, values: *mut PyObject) -> *mut PyObject {
    // SAFETY: see above; values that are passed on are owned.
    unsafe {
        let py = Py::held();
        let extend = || {
            // Convert all of them first: they may be those of the list itself.
            let values = converted(py, &py.list_of(values)?)?;
            let values: Vec<TVMFFIAny> = values.into_iter().map(Any::into_raw).collect();
            list::insert(held(py, this), None, &values).map_err(|error| raised(py, error))?;
            Ok(Owned::share(py, py.none()))
        };
        pointer(extend())
    }
}

unsafe extern "C" fn clear(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: see above.
    unsafe {
        let py = Py::held();
        dict::clear(held(py, this));
        Owned::share(py, py.none()).into_ptr()
    }
}

unsafe extern "C" fn dict_len(this: *mut PyObject) -> isize {
    // SAFETY: see above.
    unsafe { dict::len(held(Py::held(), this)) as isize }
}

unsafe extern "C" fn dict_get(this: *mut PyObject, key: *mut PyObject) -> *mut PyObject {
    // SAFETY: see above; a value that is found is owned.
    unsafe {
        let py = Py::held();
        let get = || {
            let wanted = result(py, key)?;
            let found = dict::get(held(py, this), wanted.as_raw()).map_err(|error| raised(py, error))?;
            match found {
                Some(value) => to_python::value(py, Any::from_raw(value), &ANY),
                None => Err(no_key(py, key)),
            }
        };
        pointer(get())
    }
}

#[cold]
unsafe fn no_key(py: Py, key: *mut PyObject) -> Raised {
    // SAFETY: see above. In a tuple, because one that is the key would be taken for the arguments.
    unsafe {
        if let Ok(arguments) = py.tuple([Owned::share(py, key)]) {
            py.PyErr_SetObject(py.PyExc_KeyError(), arguments.as_ptr());
        }
    }
    Raised
}

unsafe extern "C" fn dict_set(this: *mut PyObject, key: *mut PyObject, value: *mut PyObject) -> c_int {
    // SAFETY: see above; a value that was taken out is owned.
    unsafe {
        let py = Py::held();
        let object = held(py, this);
        let set = || {
            let wanted = result(py, key)?;
            if value.is_null() {
                let old = dict::erase(object, wanted.as_raw()).map_err(|error| raised(py, error))?;
                return old.map(|old| drop(Any::from_raw(old))).ok_or_else(|| no_key(py, key));
            }
            // A key that Python cannot hash could not be converted back.
            if py.PyObject_Hash(key) == -1 {
                return Err(Raised);
            }
            check_key(py, key, &wanted)?;
            let value = result(py, value)?;
            dict::set(object, wanted.into_raw(), value.into_raw()).map_err(|error| raised(py, error))
        };
        status(set())
    }
}

/// Rejects a key that would not be found again: one for which each conversion creates another
/// object, as for a tuple, a function or an object of a class that the library does not know. Such
/// objects are keys by their addresses.
unsafe fn check_key(py: Py, key: *mut PyObject, converted: &Any) -> PyResult<()> {
    let index = converted.type_index();
    if index < type_index::STATIC_OBJECT_BEGIN || matches!(index, type_index::STR | type_index::BYTES) {
        return Ok(());
    }
    // SAFETY: see above; both are valid values.
    unsafe {
        let again = result(py, key)?;
        if any_hash::equal(converted.as_raw(), again.as_raw()).map_err(|error| raised(py, error))? {
            return Ok(());
        }
        let class = py.class_name(key);
        let text = format!(
            "a key of type {class} would not be found again: the library's dicts have numbers, strings, bytes and objects of the \
             library as keys"
        );
        Err(py.raise(py.PyExc_TypeError(), &text))
    }
}

/// Creates an iterator over the keys at this moment.
unsafe extern "C" fn dict_iter(this: *mut PyObject) -> *mut PyObject {
    // SAFETY: see above.
    unsafe {
        let py = Py::held();
        let keys = || {
            let entries = dict::contents(held(py, this));
            let keys: Vec<TVMFFIAny> = entries.iter().step_by(2).copied().collect();
            let keys = to_python::list(py, &keys, &ANY)?;
            Owned::take(py, py.PyObject_GetIter(keys.as_ptr()))
        };
        pointer(keys())
    }
}
