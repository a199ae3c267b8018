//! Pickles and copies of objects.

use core::ffi::{CStr, c_void};
use core::ptr;
use std::ffi::CString;

use kernpack_core::reflect::TypeInfo;
use kernpack_core::value::type_key;

use super::construct::{call_by_name, parameters};
use super::tensor_copy;
use crate::cpython::capi::{Py, PyMethodDef, PyObject, constant};
use crate::cpython::heap_type::Shared;
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::state::State;
use crate::instance::table::{self, object_of};

/// Pickles and copies an object: the class, called with the values of the fields that its
/// constructor takes by name.
pub(crate) unsafe extern "C" fn reduce(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: as for `repr`.
    let reduced = unsafe { reduced(Py::held(), this) };
    reduced.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// # Safety
/// `this` is alive and of a class derived from the base.
unsafe fn reduced(py: Py, this: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; all objects used are alive.
    unsafe {
        let class = class_of(py, this)?;
        let (again, arguments) = match py.attribute_if_any(class.as_ptr(), NEW_ARGUMENTS)? {
            Some(_) => (Owned::share(py, class.as_ptr()), new_arguments(py, this)?),
            None => {
                let (class, named) = class_and_arguments(py, this)?;
                (State::attribute_of_module(py, OBJECT)?, py.tuple([class, named])?)
            }
        };
        let has_state = !table::is_known(class.as_ptr()) || has_own_state(py, &class)?;
        let added = if has_state { added(py, this, &class)? } else { None };
        match added {
            Some(added) => py.tuple([again, arguments, added]),
            None => py.tuple([again, arguments]),
        }
    }
}

/// The method that returns the arguments of a constructor by position.
const NEW_ARGUMENTS: &CStr = c"__getnewargs__";
const GET_STATE: &CStr = c"__getstate__";

/// Returns true if a class has methods for pickles and copies of its objects.
///
/// # Safety
/// `class` is alive.
pub(crate) unsafe fn has_own_methods(py: Py, class: &Owned) -> PyResult<bool> {
    // SAFETY: promised by the caller.
    Ok(unsafe { py.attribute_if_any(class.as_ptr(), NEW_ARGUMENTS)?.is_some() || has_own_state(py, class)? })
}

/// Returns true if a class has another `__getstate__` than the one of all objects, which exists
/// since Python 3.11.
///
/// # Safety
/// `class` is alive.
unsafe fn has_own_state(py: Py, class: &Owned) -> PyResult<bool> {
    // SAFETY: promised by the caller.
    unsafe {
        let Some(own) = py.attribute_if_any(class.as_ptr(), GET_STATE)? else { return Ok(false) };
        let usual = py.attribute_if_any(py.PyBaseObject_Type(), GET_STATE)?;
        Ok(usual.is_none_or(|usual| usual.as_ptr() != own.as_ptr()))
    }
}

/// The tuple of arguments that an object's method returns.
///
/// # Safety
/// `this` is alive, and its class has the method.
unsafe fn new_arguments(py: Py, this: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe {
        let arguments = py.call(py.attribute(this, NEW_ARGUMENTS)?.as_ptr(), [])?;
        let class = py.type_of(arguments.as_ptr());
        if py.PyType_GetFlags(class) & constant::TUPLE_SUBCLASS == 0 {
            let name = py.class_name(arguments.as_ptr());
            let text = format!(
                "__getnewargs__ returns a tuple of the constructor's arguments, and not a value of type {name}"
            );
            return Err(py.raise(py.PyExc_TypeError(), &text));
        }
        Ok(arguments)
    }
}

/// The state that a class derived in Python adds to an object: its attributes, or a pair of those
/// and the ones in slots; the result of `__getstate__`, if the class has it.
///
/// # Safety
/// `this` is alive and of this class.
unsafe fn added(py: Py, this: *mut PyObject, class: &Owned) -> PyResult<Option<Owned>> {
    // SAFETY: promised by the caller; all objects used are alive.
    unsafe {
        // All objects have it since Python 3.11.
        if py.attribute_if_any(class.as_ptr(), GET_STATE)?.is_some() {
            let state = py.call(py.attribute(this, GET_STATE)?.as_ptr(), [])?;
            return Ok((state.as_ptr() != py.none()).then_some(state));
        }
        let attributes = py.attribute_if_any(this, c"__dict__")?;
        let names = py.attribute(py.import(c"copyreg")?.as_ptr(), c"_slotnames")?;
        let names = py.list_of(py.call(names.as_ptr(), [Owned::share(py, class.as_ptr())])?.as_ptr())?;
        let slots = Owned::take(py, py.PyDict_New())?;
        let mut index = 0;
        while let Some(name) = py.list_item(names.as_ptr(), index)? {
            let c_name = CString::new(py.str_of(name.as_ptr())).unwrap_or_default();
            if let Some(value) = py.attribute_if_any(this, &c_name)?
                && py.PyDict_SetItem(slots.as_ptr(), name.as_ptr(), value.as_ptr()) != 0
            {
                return Err(Raised);
            }
            index += 1;
        }
        if py.PyDict_Size(slots.as_ptr()) == 0 {
            return Ok(attributes);
        }
        let attributes = attributes.unwrap_or_else(|| Owned::share(py, py.none()));
        Ok(Some(py.tuple([attributes, slots])?))
    }
}

/// The class of an object, unless it is not of the type that its Python class says.
///
/// # Safety
/// `this` is alive and of a class derived from the base.
unsafe fn class_of(py: Py, this: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; all objects used are alive.
    unsafe {
        let object = object_of(py, this)?;
        // Python code runs below, which may give the object another class.
        let class = py.class_of(this);
        let (index, name) = table::registered(py, class.as_ptr());
        if !table::is_a((*object).type_index, index) {
            let key = type_key((*object).type_index);
            let text = format!(
                "the object is of type {key}, so as one of {name}, which its Python class says, it cannot be pickled or copied"
            );
            return Err(py.raise(py.PyExc_TypeError(), &text));
        }
        Ok(class)
    }
}

/// The class of an object, and a new dict with the arguments that its constructor takes by name.
///
/// # Safety
/// `this` is alive and of a class derived from the base.
pub(crate) unsafe fn class_and_arguments(py: Py, this: *mut PyObject) -> PyResult<(Owned, Owned)> {
    // SAFETY: promised by the caller; all objects used are alive.
    unsafe {
        let class = class_of(py, this)?;
        let (index, name) = table::registered(py, class.as_ptr());
        let Some(names) = TypeInfo::find(index).and_then(|info| parameters(py, info)) else {
            return Err(py.raise(
                py.PyExc_TypeError(),
                &format!("{name} has no constructor, so it cannot be pickled or copied"),
            ));
        };
        let named = Owned::take(py, py.PyDict_New())?;
        for text in names {
            let c_name = CString::new(text.as_str()).unwrap_or_default();
            let parameter = py.interned(&text)?;
            let Some(value) = py.attribute_if_any(this, &c_name)? else {
                return Err(py.raise(
                    py.PyExc_TypeError(),
                    &format!(
                        "{name} cannot be pickled or copied: its constructor takes '{text}', and it has no field or property of that \
                         name"
                    ),
                ));
            };
            if py.PyDict_SetItem(named.as_ptr(), parameter.as_ptr(), value.as_ptr()) != 0 {
                return Err(Raised);
            }
        }
        Ok((class, named))
    }
}

/// The name of the function of the module that creates an object of a pickle.
const OBJECT: &CStr = c"_object";

/// Adds the functions that create pickled objects.
pub(crate) fn add(py: Py, module: &Owned) -> PyResult<()> {
    static METHODS: Shared<[PyMethodDef; 2]> = Shared([
        PyMethodDef {
            name: OBJECT.as_ptr(),
            function: make as *const c_void,
            flags: constant::METH_VARARGS,
            doc: c"_object(class, arguments, /)\n--\n\nAn object of a pickle.".as_ptr(),
        },
        PyMethodDef {
            name: tensor_copy::MAKE.as_ptr(),
            function: tensor_copy::make as *const c_void,
            flags: constant::METH_VARARGS,
            doc: c"_tensor(dtype, shape, data, /)\n--\n\nA tensor of a pickle.".as_ptr(),
        },
    ]);
    let name = py.text(&State::get(py).module)?;
    for method in &METHODS.0 {
        // SAFETY: the definitions live forever, and the others are alive.
        unsafe {
            let function = Owned::take(py, py.PyCFunction_NewEx(method, ptr::null_mut(), name.as_ptr()))?;
            if py.PyObject_SetAttrString(module.as_ptr(), method.name, function.as_ptr()) != 0 {
                return Err(Raised);
            }
        }
    }
    Ok(())
}

unsafe extern "C" fn make(_: *mut PyObject, arguments: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, with a tuple, which keeps its elements.
    let made = unsafe {
        let py = Py::held();
        if py.PyTuple_Size(arguments) != 2 {
            Err(py.raise(py.PyExc_TypeError(), "_object() takes a class and its arguments"))
        } else {
            let (class, named) = (py.PyTuple_GetItem(arguments, 0), py.PyTuple_GetItem(arguments, 1));
            if py.PyType_GetFlags(py.type_of(named)) & constant::DICT_SUBCLASS == 0 {
                Err(py.raise(py.PyExc_TypeError(), "_object() takes a class and its arguments"))
            } else {
                call_by_name(py, class, &Owned::share(py, named))
            }
        }
    };
    made.map_or(ptr::null_mut(), Owned::into_ptr)
}
