//! Python's operators for objects: `repr`, `hash`, `==`, `<`.

use core::cmp::Ordering;
use core::ffi::{CStr, c_int, c_void};
use core::ptr;

use kernpack_builtins::{reflect, structural};
use kernpack_core::abi::TVMFFIObject;
use kernpack_core::generated_code::Recursion;
use kernpack_core::reflect::AttrColumn;
use kernpack_core::value::FromAny;
use kernpack_core::{Any, Error, Function, embedded};

use crate::cpython::capi::{Py, PyObject, constant};
use crate::cpython::exception;
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::pending;
use crate::cpython::state::State;
use crate::instance::table::object_of;

/// The comparison and hash of objects by hooks: linked into an artifact if one of its types has
/// such a hook.
pub static RECURSION: Recursion = Recursion {
    equal: |left, right| structural::recursive_equal(left, right),
    compare: |left, right| structural::recursive_compare(left, right),
    hash: |value| structural::recursive_hash(value),
};

static EQUAL: AttrColumn = AttrColumn::new("__ffi_eq__");
static COMPARE: AttrColumn = AttrColumn::new("__ffi_compare__");
static HASH: AttrColumn = AttrColumn::new("__ffi_hash__");

/// A value with another reference to an object.
///
/// # Safety
/// The object is alive.
unsafe fn value_of(object: *mut TVMFFIObject) -> Any {
    // SAFETY: promised by the caller; the new reference is transferred to the value.
    unsafe {
        embedded::inc_ref(object);
        Any::from_object(object)
    }
}

pub(crate) unsafe extern "C" fn repr(this: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, with an object of a class derived from the
    // base.
    let text = unsafe {
        let py = Py::held();
        object_of(py, this).and_then(|object| {
            let text = reflect::repr(&value_of(object)).map_err(|error| exception::raise(py, &error))?;
            py.text(&text)
        })
    };
    text.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// Returns true if objects of a type have a hash: types with their own comparison operator have a
/// hash only if they define one.
pub(crate) fn is_hashable(index: i32) -> bool {
    HASH.get(index).is_some() || EQUAL.get(index).is_none() && COMPARE.get(index).is_none()
}

pub(crate) unsafe extern "C" fn hash(this: *mut PyObject) -> isize {
    // SAFETY: as for `repr`.
    let value = unsafe {
        let py = Py::held();
        object_of(py, this).and_then(|object| {
            let index = (*object).type_index;
            if HASH.get(index).is_some() {
                let value = value_of(object);
                let hash = match State::get(py).recursion {
                    Some(recursion) => (recursion.hash)(&value),
                    None => elsewhere::<i64>(c"ffi.RecursiveHash", &[value]).map(|hash| hash as u64),
                };
                return pending::or(hash).map(|hash| hash as isize).map_err(|error| exception::raise(py, &error));
            }
            if !is_hashable(index) {
                let key = kernpack_core::value::type_key(index);
                return Err(py.raise(py.PyExc_TypeError(), &format!("unhashable type: '{key}'")));
            }
            Ok((object as isize) >> 4)
        })
    };
    match value {
        // -1 means that an exception is set.
        Ok(-1) => -2,
        Ok(value) => value,
        Err(Raised) => -1,
    }
}

/// The result of a global function of the process: if the hook of a type is another library's, so
/// is its implementation.
fn elsewhere<T: for<'a> FromAny<'a>>(name: &CStr, values: &[Any]) -> Result<T, Error> {
    Function::global(name.to_str().unwrap_or_default())?.call_as(values)
}

/// Returns true if an order satisfies a relation.
type Asks = fn(Ordering) -> bool;

/// `<`, `<=`, `>` and `>=`: the interpreter's number, the check of an order, and the corresponding
/// global function.
const ORDERS: [(c_int, Asks, &CStr); 4] = [
    (0, Ordering::is_lt, c"ffi.RecursiveLt"),
    (1, Ordering::is_le, c"ffi.RecursiveLe"),
    (4, Ordering::is_gt, c"ffi.RecursiveGt"),
    (5, Ordering::is_ge, c"ffi.RecursiveGe"),
];
const EQ: c_int = 2;
const NE: c_int = 3;

/// The function of a class for all six relations.
type Compare = unsafe extern "C" fn(*mut PyObject, *mut PyObject, c_int) -> *mut PyObject;

pub(crate) unsafe extern "C" fn compare(this: *mut PyObject, other: *mut PyObject, relation: c_int) -> *mut PyObject {
    // SAFETY: as for `repr`; the other object may be of any class.
    let result = unsafe {
        let py = Py::held();
        compared(py, this, other, relation)
    };
    result.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// # Safety
/// Both are alive, and `this` is of a class derived from the base.
unsafe fn compared(py: Py, this: *mut PyObject, other: *mut PyObject, relation: c_int) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the class of `other` determines whether it holds an object;
    // the slot of a class holds a function of this type.
    unsafe {
        let not_implemented = || Ok(Owned::share(py, py._Py_NotImplementedStruct()));
        if relation == NE {
            // Another function than this one looks up methods of the class, such as `__eq__`.
            let own = py.PyType_GetSlot(py.type_of(this), constant::TP_RICHCOMPARE);
            if !own.is_null() && own.cast_const() != compare as *const c_void {
                return unequal(py, this, other, core::mem::transmute::<*mut c_void, Compare>(own));
            }
        }
        if py.PyType_IsSubtype(py.type_of(other), State::get(py).object) == 0 {
            return not_implemented();
        }
        let (left, right) = (object_of(py, this)?, object_of(py, other)?);
        let index = (*left).type_index;
        // The hooks of a type compare its own objects; the other type may know both.
        if index != (*right).type_index {
            return not_implemented();
        }
        let is_equality = relation == EQ || relation == NE;
        let has_hook = COMPARE.get(index).is_some() || (is_equality && EQUAL.get(index).is_some());
        let order = ORDERS.iter().find(|(own, ..)| *own == relation);
        let answer = match (has_hook, order) {
            (true, None) if is_equality => {
                let values = [value_of(left), value_of(right)];
                match State::get(py).recursion {
                    Some(recursion) => (recursion.equal)(&values[0], &values[1]),
                    None => elsewhere(c"ffi.RecursiveEq", &values),
                }
            }
            (true, Some((_, is_so, name))) => {
                let values = [value_of(left), value_of(right)];
                match State::get(py).recursion {
                    Some(recursion) => (recursion.compare)(&values[0], &values[1]).map(is_so),
                    None => elsewhere(name, &values),
                }
            }
            (false, None) if is_equality && left == right => Ok(true),
            _ => return not_implemented(),
        };
        let answer = pending::or(answer).map_err(|error| exception::raise(py, &error))?;
        Owned::take(py, py.PyBool_FromLong((answer != (relation == NE)).into()))
    }
}

/// `!=` of a class that has no method for it: the opposite of its `==`.
///
/// # Safety
/// As for [`compared`]; the function is that of the class of `this`.
unsafe fn unequal(py: Py, this: *mut PyObject, other: *mut PyObject, own: Compare) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe {
        let equal = Owned::take(py, own(this, other, EQ))?;
        if equal.as_ptr() == py._Py_NotImplementedStruct() {
            return Ok(equal);
        }
        match py.PyObject_IsTrue(equal.as_ptr()) {
            ..0 => Err(Raised),
            is_equal => Owned::take(py, py.PyBool_FromLong((is_equal == 0).into())),
        }
    }
}
