//! Cyclic garbage: Python's garbage collector finds an object that holds a Python callable which
//! refers to the object.
//!
//! The collector sees references of Python objects. Ours refer to objects of the ABI, whose fields
//! may hold functions created from Python callables, and other Python objects. Such an object is
//! reported as the Python object's own only while each step on the path has a single reference:
//! otherwise Rust code holds it as well.
//!
//! Threads without the interpreter's lock change these counts while the collector works. It first
//! subtracts from each object's count the references from other tracked objects, so that the
//! external ones remain; then it marks everything that is reachable from there. In the first step a
//! reference that is not certain to be the Python object's own is skipped, so it counts as an
//! external one. In the second step, and for all other visits, all references are reported,
//! whatever the counts are by then: the value of a field is in use as long as the object is. A
//! thread that copies a function without a reference to the object borrows the object from the
//! Python object, which is then reachable.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use kernpack_core::abi::{TVMFFIAny, TVMFFIObject, TVMFFIOpaqueObjectCell, type_index};
use kernpack_core::embedded;

use crate::convert::lent::python_callable;
use crate::cpython::alive;
use crate::cpython::capi::{Py, PyObject, Slot, constant};
use crate::cpython::heap_type::pointer_place;
use crate::instance::edge::Edge;
use crate::instance::{table, wrap};

impl Edge {
    /// The Python object that the field holds; with `alone`, only if there is no other reference to
    /// the value that holds it.
    ///
    /// # Safety
    /// The object is alive and of the field's type, or one derived from it.
    unsafe fn python_object(self, py: Py, object: *mut TVMFFIObject, alone: bool) -> Option<*mut PyObject> {
        // SAFETY: promised by the caller; the storage determines the type at the offset: a value,
        // or a pointer, which is absent if it is zero. Fields of these kinds change only while the
        // writer has the only reference to the object, and the Python object has one here.
        unsafe {
            let field = object.byte_add(self.offset);
            let held = match self.is_any {
                true => {
                    let value = &*field.cast::<TVMFFIAny>();
                    let is_object = value.type_index >= type_index::STATIC_OBJECT_BEGIN;
                    if is_object { value.payload.v_obj } else { ptr::null_mut() }
                }
                false => *field.cast::<*mut TVMFFIObject>(),
            };
            if held.is_null() || alone && !embedded::is_unique(held) {
                return None;
            }
            match (*held).type_index {
                type_index::FUNCTION => python_callable(py, held),
                type_index::OPAQUE_PY_OBJECT => {
                    let object = embedded::body::<TVMFFIOpaqueObjectCell>(held).handle;
                    (!object.is_null()).then_some(object.cast())
                }
                _ => None,
            }
        }
    }
}

/// The additional slots of a class whose objects the garbage collector tracks.
pub(crate) fn slots() -> [Slot; 3] {
    [
        Slot { id: constant::TP_TRAVERSE, value: traverse as *const c_void },
        Slot { id: constant::TP_CLEAR, value: clear as *const c_void },
        Slot { id: constant::TP_DEALLOC, value: release as *const c_void },
    ]
}

/// Reports a reference to the collector; any result but 0 ends the walk.
type Visit = unsafe extern "C" fn(*mut PyObject, *mut c_void) -> c_int;

/// Returns true if only references that are certain to be the object's own may be reported to a
/// visitor: the collector subtracts references from counts. In that case, the versions since 3.9
/// pass the object itself to their visitor, and builds without the interpreter's lock pass NULL; no
/// other visitor gets either of these. A version that has not passed one of them yet may be
/// unknown: for it, the result is always true.
fn is_for_own_only(this: *mut PyObject, data: *mut c_void) -> bool {
    static IS_KNOWN: AtomicBool = AtomicBool::new(false);
    let subtracts = data.is_null() || data == this.cast();
    if subtracts {
        IS_KNOWN.store(true, Ordering::Relaxed);
    }
    subtracts || !IS_KNOWN.load(Ordering::Relaxed)
}

unsafe extern "C" fn traverse(this: *mut PyObject, visit: Visit, data: *mut c_void) -> c_int {
    // SAFETY: the collector calls with the lock held, for a live object of one of the classes. It
    // only reads. The type of the object, and not the Python class, determines the positions of its
    // fields.
    unsafe {
        let py = Py::held();
        let stopped = visit(py.type_of(this), data);
        let object = alive::object_in(alive::word_of(py, this));
        if stopped != 0 || object.is_null() {
            return stopped;
        }
        let alone = is_for_own_only(this, data);
        if alone && !embedded::is_unique(object) {
            return 0;
        }
        let Some(class) = table::of_index((*object).type_index) else { return 0 };
        for held in class.edges.iter().filter_map(|edge| edge.python_object(py, object, alone)) {
            let stopped = visit(held, data);
            if stopped != 0 {
                return stopped;
            }
        }
        0
    }
}

/// Releases the object: only garbage refers to it.
unsafe extern "C" fn clear(this: *mut PyObject) -> c_int {
    // SAFETY: the collector calls with the lock held, for a live object of one of the classes.
    unsafe {
        let py = Py::held();
        let word = AtomicPtr::from_ptr(pointer_place(py, this)).swap(ptr::null_mut(), Ordering::AcqRel);
        let object = alive::object_in(word);
        if alive::is_noted(word) {
            alive::forget(py, this, object);
        }
        if !object.is_null() {
            embedded::dec_ref(object);
        }
    }
    0
}

unsafe extern "C" fn release(this: *mut PyObject) {
    // SAFETY: the interpreter calls with its lock held for an object without references.
    unsafe {
        Py::held().PyObject_GC_UnTrack(this.cast());
        wrap::release(this);
    }
}
