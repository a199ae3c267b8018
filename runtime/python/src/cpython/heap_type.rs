//! Classes created from specifications, and the beginning of their objects: a header of CPython's,
//! then a pointer of ours.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use std::ffi::CString;

use kernpack_core::abi::TVMFFIObject;
use kernpack_core::embedded;

use super::capi::{Py, PyMethodDef, PyObject, PyTypeSpec, Slot, constant};
use super::freelist::FreeList;
use super::object::{Owned, PyResult};

/// A table that CPython only reads.
pub(crate) struct Shared<T>(pub(crate) T);
// SAFETY: the tables hold pointers to constants and functions, and nothing writes to them.
unsafe impl<T> Sync for Shared<T> {}

/// A function without arguments: `METH_NOARGS`.
pub(crate) type NoArguments = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;

impl PyMethodDef {
    /// A method without arguments.
    pub(crate) const fn no_arguments(name: &'static CStr, function: NoArguments, doc: &'static CStr) -> Self {
        let function = function as *const c_void;
        Self { name: name.as_ptr(), function, flags: constant::METH_NOARGS, doc: doc.as_ptr() }
    }
}

/// The methods of a class whose objects are pickled by the result of `function`.
pub(crate) const fn pickled_by(function: NoArguments, doc: &'static CStr) -> Shared<[PyMethodDef; 2]> {
    Shared([PyMethodDef::no_arguments(c"__reduce__", function, doc), PyMethodDef::END])
}

/// Creates a class whose objects have `size` bytes after the header.
pub(crate) fn new(py: Py, name: &'static CStr, size: usize, flags: u32, slots: &[Slot]) -> PyResult<Owned> {
    derived(py, name, size, flags, slots, None)
}

/// Like [`new`], derived from the classes in a tuple.
#[inline(never)]
pub(crate) fn derived(
    py: Py,
    name: &'static CStr,
    size: usize,
    flags: u32,
    slots: &[Slot],
    bases: Option<&Owned>,
) -> PyResult<Owned> {
    let spec = PyTypeSpec {
        name: name.as_ptr(),
        basic_size: (py.header() + size) as i32,
        item_size: 0,
        flags,
        slots: slots.as_ptr(),
    };
    // SAFETY: the description is complete and ends with its mark; CPython copies everything except
    // the name, which lives forever.
    unsafe { Owned::take(py, py.PyType_FromSpecWithBases(&spec, bases.map_or(ptr::null_mut(), Owned::as_ptr))) }
}

/// A C string that lives forever; the part after a NUL is left out.
#[inline(never)]
pub(crate) fn leaked(text: &str) -> *const c_char {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default().into_raw()
}

/// The address after an object's header.
///
/// # Safety
/// `object` is alive and of a class of this module, which has a pointer there.
#[inline]
pub(crate) unsafe fn pointer_place(py: Py, object: *mut PyObject) -> *mut *mut c_void {
    // SAFETY: promised by the caller.
    unsafe { object.byte_add(py.header()).cast() }
}

/// Freed memory of objects of [`holder`].
static HOLDERS: FreeList = FreeList::new();

/// Creates a Python object of a class whose objects hold only an object of the ABI, with another
/// reference to it.
///
/// # Safety
/// The class is one of this module, which frees its objects by [`release`], and holds objects of
/// this kind; the object is alive.
pub(crate) unsafe fn holder(py: Py, class: *mut PyObject, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the new reference is transferred to the value.
    unsafe {
        embedded::inc_ref(object);
        holder_of_owned(py, class, object)
    }
}

/// Like [`holder`], but takes over the reference.
///
/// # Safety
/// As for [`holder`]; the reference is the caller's.
pub(crate) unsafe fn holder_of_owned(py: Py, class: *mut PyObject, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; an object of the class has room for a pointer behind its
    // header.
    unsafe {
        let holder = HOLDERS.take(py, class);
        match &holder {
            Ok(holder) => *pointer_place(py, holder.as_ptr()) = object.cast(),
            Err(_) => embedded::dec_ref(object),
        }
        holder
    }
}

/// Frees a Python object of [`holder`].
pub(crate) unsafe extern "C" fn release(this: *mut PyObject) {
    // SAFETY: the interpreter calls with its lock held for an object without references, whose
    // pointer is an object or NULL.
    unsafe {
        let py = Py::held();
        let object = (*pointer_place(py, this)).cast::<TVMFFIObject>();
        // No class is derived from those of holders.
        if !HOLDERS.give(py, this, py.type_of(this)) {
            dealloc(this);
        }
        if !object.is_null() {
            embedded::dec_ref(object);
        }
    }
}

/// Frees an object that owns nothing.
#[inline(never)]
pub(crate) unsafe extern "C" fn dealloc(this: *mut PyObject) {
    // SAFETY: the interpreter calls with its lock held for an object without references; a class
    // made of a specification has this slot, and each of its objects holds a reference to it.
    unsafe {
        let py = Py::held();
        let class = py.type_of(this);
        let free = py.PyType_GetSlot(class, constant::TP_FREE);
        if !free.is_null() {
            core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(free)(this.cast());
        }
        py.Py_DecRef(class);
    }
}

/// The constructor of classes whose objects only this module creates.
pub(crate) unsafe extern "C" fn refuse_new(_: *mut PyObject, _: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held.
    let py = unsafe { Py::held() };
    py.raise(py.PyExc_TypeError(), "objects of this class are made by the library only");
    ptr::null_mut()
}
