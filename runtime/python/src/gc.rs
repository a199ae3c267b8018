//! Cyclic garbage: an object that holds a Python callable which refers to the object is found by Python's collector.
//!
//! The collector sees what Python objects refer to. Ours refer to objects of the ABI, whose fields may hold functions made of Python callables.
//! A callable counts as the Python object's own only while each step on the way is referred to once: else Rust code holds it as well.
//!
//! Threads without the interpreter's lock change these counts while the collector works. It first takes away from each object's count the references
//! that objects give it, and what is left comes from outside; then it marks what can be reached from there. In the first step a reference that is
//! not surely the Python object's own is left out, so it counts as one from outside. In the second step, and for all who ask for references, none
//! is left out, whatever the counts say by then: what a field holds is in use as long as the object is. A thread that makes a copy of a function
//! without a reference to the object borrows the object from the Python object, which is reachable then.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use kernpack_core::abi::{TVMFFIAny, TVMFFIObject, type_index};
use kernpack_core::embedded;
use kernpack_core::generated_code::FieldDef;
use kernpack_core::value::Storage;

use crate::capi::{Py, PyObject, Slot, constant};
use crate::class;
use crate::from_python::python_callable;
use crate::heap_type::pointer_place;
use crate::wanted::inner;

/// A field that may hold a function: its offset from the object, and how it lies there.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    offset: usize,
    is_any: bool,
}

impl Edge {
    /// Of a field that may hold a function.
    pub(crate) fn of(def: &FieldDef) -> Option<Self> {
        let ty = inner(&def.ty);
        let is_any = def.storage == Storage::Any;
        let may_hold = matches!(ty.key, "ffi.Function" | "Any") && (is_any || def.storage == Storage::Object);
        may_hold.then_some(Self { offset: def.offset, is_any })
    }

    /// The Python callable that the field holds; `alone`: no one else holds the function.
    ///
    /// # Safety
    /// The object is alive and of the field's type, or one derived from it.
    unsafe fn callable(self, object: *mut TVMFFIObject, alone: bool) -> Option<*mut PyObject> {
        // SAFETY: promised by the caller; the storage says what is at the offset: a value, or a pointer, where zeros are none. Fields of these
        // kinds change only while nothing but the one who writes refers to the object, and the Python object does.
        unsafe {
            let field = object.byte_add(self.offset);
            let function = match self.is_any {
                true => {
                    let value = &*field.cast::<TVMFFIAny>();
                    if value.type_index == type_index::FUNCTION { value.payload.v_obj } else { ptr::null_mut() }
                }
                false => *field.cast::<*mut TVMFFIObject>(),
            };
            if function.is_null() || (*function).type_index != type_index::FUNCTION {
                return None;
            }
            if alone && !embedded::is_unique(function) {
                return None;
            }
            python_callable(function)
        }
    }
}

/// The slots of a class whose objects the collector looks at, beyond those that all have.
pub(crate) fn slots() -> [Slot; 3] {
    [
        Slot { id: constant::TP_TRAVERSE, value: traverse as *const c_void },
        Slot { id: constant::TP_CLEAR, value: clear as *const c_void },
        Slot { id: constant::TP_DEALLOC, value: release as *const c_void },
    ]
}

/// Gives the collector a reference; anything but 0 ends the walk.
type Visit = unsafe extern "C" fn(*mut PyObject, *mut c_void) -> c_int;

/// Returns true if only references that are surely the object's own may be given to a visitor: the collector takes references away from counts.
/// The versions from 3.9 on pass the object itself to their visitor then, and builds without the interpreter's lock pass nothing; no other visitor
/// is given either of these. A version that has not passed one of them yet may be one that is not known here: there it is so always.
fn is_for_own_only(this: *mut PyObject, data: *mut c_void) -> bool {
    static IS_KNOWN: AtomicBool = AtomicBool::new(false);
    let subtracts = data.is_null() || data == this.cast();
    if subtracts {
        IS_KNOWN.store(true, Ordering::Relaxed);
    }
    subtracts || !IS_KNOWN.load(Ordering::Relaxed)
}

unsafe extern "C" fn traverse(this: *mut PyObject, visit: Visit, data: *mut c_void) -> c_int {
    // SAFETY: the collector calls with the lock held, for a live object of one of the classes. It only reads. The type of the object, and not the
    // Python class, says where its fields are.
    unsafe {
        let py = Py::held();
        let stopped = visit(py.type_of(this), data);
        let object = AtomicPtr::from_ptr(pointer_place(py, this)).load(Ordering::Acquire).cast::<TVMFFIObject>();
        if stopped != 0 || object.is_null() {
            return stopped;
        }
        let alone = is_for_own_only(this, data);
        if alone && !embedded::is_unique(object) {
            return 0;
        }
        let Some(class) = class::of_index((*object).type_index) else { return 0 };
        for callable in class.edges.iter().filter_map(|edge| edge.callable(object, alone)) {
            let stopped = visit(callable, data);
            if stopped != 0 {
                return stopped;
            }
        }
        0
    }
}

/// Lets go of the object: nothing but garbage refers to it.
unsafe extern "C" fn clear(this: *mut PyObject) -> c_int {
    // SAFETY: the collector calls with the lock held, for a live object of one of the classes.
    unsafe {
        let place = AtomicPtr::from_ptr(pointer_place(Py::held(), this));
        let object = place.swap(ptr::null_mut(), Ordering::AcqRel).cast::<TVMFFIObject>();
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
        class::release(this);
    }
}
