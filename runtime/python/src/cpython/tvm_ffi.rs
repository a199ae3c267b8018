//! The package tvm_ffi: a library that Python imports shares the implementation of the ABI with it,
//! whichever is imported first.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::ffi::CString;
use std::path::Path;

use kernpack_core::abi::{TVMFFIObject, type_index};
use kernpack_core::embedded::dynamic_linker::{Scope, flags};
use kernpack_core::provider::{self, Origin};
use kernpack_core::{Any, Function, embedded};

use super::capi::{Py, PyMethodDef, PyObject};
use super::heap_type::Shared;
use super::object::{Owned, PyResult, Raised};
use super::state::State;
use super::{alive, exception};

/// The path of the package's library, relative to a folder of `sys.path`.
const LIBRARY: &str = "tvm_ffi/lib/libtvm_ffi.so";

/// The environment variable that keeps the package's library out of the process until the package
/// itself is imported.
const ALONE: &str = "KERNPACK_PYTHON_ALONE";

/// Loads the library of the package tvm_ffi if it is installed, before this library is bound to its
/// own implementation: a later `import tvm_ffi` finds the same one, so functions, types and errors
/// are those of one implementation.
pub(crate) fn load_library(py: Py) -> PyResult<()> {
    if std::env::var_os(ALONE).is_some_and(|value| value == "1") {
        return Ok(());
    }
    // SAFETY: the objects are alive while they are used; the path may be no list.
    unsafe {
        let sys = py.import(c"sys")?;
        let Some(path) = py.attribute_if_any(sys.as_ptr(), c"path")? else { return Ok(()) };
        if py.type_of(path.as_ptr()) != py.PyList_Type() {
            return Ok(());
        }
        let mut index = 0;
        while let Some(folder) = py.list_item(path.as_ptr(), index)? {
            index += 1;
            if py.type_of(folder.as_ptr()) != py.PyUnicode_Type() {
                continue;
            }
            let Ok(folder) = py.utf8(folder.as_ptr()) else {
                py.PyErr_Clear();
                continue;
            };
            let Ok(folder) = core::str::from_utf8(folder) else { continue };
            let file = Path::new(if folder.is_empty() { "." } else { folder }).join(LIBRARY);
            if !file.is_file() {
                continue;
            }
            let Ok(name) = CString::new(file.into_os_string().into_encoded_bytes()) else { continue };
            // The same file that `import tvm_ffi` loads from this place, with the same flags. It
            // stays loaded.
            Scope::open(&name, flags::NOW | flags::GLOBAL);
            break;
        }
    }
    Ok(())
}

/// The package's base class of all objects of the ABI, once the package was seen; a reference to it
/// is kept.
static OBJECT: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// The name of the package's own module, borrowed: an object that is created once, whose hash is
/// then cached.
fn core_name(py: Py) -> PyResult<*mut PyObject> {
    static NAME: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
    let known = NAME.load(Ordering::Acquire);
    if !known.is_null() {
        return Ok(known);
    }
    let new = py.interned("tvm_ffi.core")?.into_ptr();
    // If two threads come first at the same time, a reference is leaked, which is harmless.
    NAME.store(new, Ordering::Release);
    Ok(new)
}

/// Returns true if the package is imported.
pub(crate) fn is_imported(py: Py) -> PyResult<bool> {
    Ok(!object_class(py)?.is_null())
}

/// The package's base class; NULL while the package is not imported.
fn object_class(py: Py) -> PyResult<*mut PyObject> {
    let known = OBJECT.load(Ordering::Acquire);
    if !known.is_null() {
        return Ok(known);
    }
    let name = core_name(py)?;
    // SAFETY: the objects are alive while they are used; the class is checked before it is kept.
    unsafe {
        let Some(core) = py.imported(name)? else { return Ok(ptr::null_mut()) };
        let Some(class) = py.attribute_if_any(core.as_ptr(), c"CObject")? else { return Ok(ptr::null_mut()) };
        // Python code may put other classes there, but cannot create one of these.
        if !py.is_fixed_class(class.as_ptr()) {
            return Ok(ptr::null_mut());
        }
        let class = class.into_ptr();
        OBJECT.store(class, Ordering::Release);
        Ok(class)
    }
}

/// The method of that class that returns the address of an object, borrowed: it lives as long as
/// the class, which cannot be changed.
fn address_method(py: Py) -> PyResult<*mut PyObject> {
    static METHOD: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
    let known = METHOD.load(Ordering::Acquire);
    if !known.is_null() {
        return Ok(known);
    }
    // SAFETY: the class is kept.
    let method = unsafe { py.attribute(object_class(py)?, c"__chandle__")?.into_ptr() };
    // If two threads come first at the same time, a reference is leaked, which is harmless.
    METHOD.store(method, Ordering::Release);
    Ok(method)
}

/// The object that a Python object of the package holds, with its own reference: Python code may
/// remove it from the Python object while a call uses it. `None` for every other Python object, and
/// for objects of types that this library's implementation of the ABI does not know.
///
/// # Safety
/// `object` is alive and of this class.
pub(crate) unsafe fn object_of(py: Py, object: *mut PyObject, class: *mut PyObject) -> PyResult<Option<Any>> {
    // SAFETY: promised by the caller. The method is that of the package's own class, even if a
    // derived class overrides it, and gives the address of the object. No Python code runs before
    // its reference is counted. Type indices below the dynamic ones are the same in all
    // implementations.
    unsafe {
        let base = object_class(py)?;
        if base.is_null() || py.PyType_IsSubtype(class, base) == 0 {
            return Ok(None);
        }
        let address = py.call(address_method(py)?, [Owned::share(py, object)])?;
        let address = py.PyLong_AsLongLong(address.as_ptr());
        if address == -1 && !py.PyErr_Occurred().is_null() {
            return Err(Raised);
        }
        let found = ptr::with_exposed_provenance_mut::<TVMFFIObject>(address as usize);
        if found.is_null() {
            let class = py.class_name(object);
            let text =
                format!("the {class} is empty: its object was moved elsewhere, or its constructor was not called");
            return Err(py.raise(py.PyExc_ValueError(), &text));
        }
        let is_shared = provider::origin() == Origin::Process;
        let is_known = is_shared || (*found).type_index < type_index::DYN_OBJECT_BEGIN;
        Ok(is_known.then(|| {
            embedded::inc_ref(found);
            Any::from_object(found)
        }))
    }
}

/// Makes the objects of a class usable for functions of the package tvm_ffi, which calls
/// `__tvm_ffi_object__`. Only if the package's implementation of the ABI is also this library's:
/// otherwise the package does not know the objects.
pub(crate) fn offer(py: Py, class: &Owned) -> PyResult<()> {
    static METHOD: Shared<PyMethodDef> = Shared(PyMethodDef::no_arguments(
        NAME,
        object,
        c"__tvm_ffi_object__($self, /)\n--\n\nThe object as one of the package tvm_ffi.",
    ));
    if provider::origin() != Origin::Process {
        return Ok(());
    }
    // SAFETY: a class, and a definition that lives forever.
    unsafe {
        let method = Owned::take(py, py.PyDescr_NewMethod(class.as_ptr(), &raw const METHOD.0))?;
        match py.PyObject_SetAttrString(class.as_ptr(), NAME.as_ptr(), method.as_ptr()) {
            0 => Ok(()),
            _ => Err(Raised),
        }
    }
}

/// The method that the package calls.
const NAME: &core::ffi::CStr = c"__tvm_ffi_object__";

thread_local! {
    /// The object that the next call of the global function on this thread returns; one reference
    /// to it.
    static GIVEN: Cell<Option<Any>> = const { Cell::new(None) };
}

/// The global function that returns the content of [`GIVEN`]; its name contains the address of this
/// artifact's own variable, since each artifact has one.
fn giver() -> Result<String, kernpack_core::Error> {
    static THIS: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
    let name = format!("kernpack.python.give_{:x}", (&raw const THIS).addr());
    if THIS.load(Ordering::Acquire).is_null() {
        let give = Function::from_fn(|| GIVEN.take());
        Function::register_global_override(&name, &give)?;
        THIS.store(ptr::dangling_mut(), Ordering::Release);
    }
    Ok(name)
}

unsafe extern "C" fn object(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter's convention for methods: an object of a class that was offered,
    // which has a pointer behind the header.
    let found = unsafe {
        let py = Py::held();
        (|| {
            let object = alive::object_in(alive::word_of(py, this));
            if object.is_null() {
                return Err(py.raise(py.PyExc_ValueError(), "the object is empty: its constructor was not called"));
            }
            // Not a tensor or function.
            if py.PyType_IsSubtype(py.type_of(this), State::get(py).object) != 0 {
                alive::note(py, this, object)?;
            }
            let name = py.text(&giver().map_err(|error| exception::raise(py, &error))?)?;
            let package = py.import(c"tvm_ffi")?;
            let find = py.attribute(package.as_ptr(), c"get_global_func")?;
            let give = py.call(find.as_ptr(), [name])?;
            embedded::inc_ref(object);
            GIVEN.set(Some(Any::from_object(object)));
            let found = py.call(give.as_ptr(), []);
            GIVEN.set(None);
            found
        })()
    };
    found.map_or(ptr::null_mut(), Owned::into_ptr)
}
