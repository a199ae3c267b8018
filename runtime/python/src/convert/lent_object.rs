//! Python objects as values of the ABI, which are lent to a call or kept.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use kernpack_core::abi::{TVMFFIAny, TVMFFIObject, TVMFFIOpaqueObjectCell, type_index};
use kernpack_core::{Any, embedded};

use crate::cpython::capi::{Py, PyObject};
use crate::cpython::exception;
use crate::cpython::freelist::Pool;

/// An opaque object for a Python object that an argument of a call keeps alive: no reference is
/// counted for it, unless the opaque object is kept longer than the call. Those that were not kept
/// are reused.
pub(crate) struct LentObject(NonNull<TVMFFIObject>);

/// Opaque objects that were lent, and that nothing refers to any more.
static UNUSED: Pool<TVMFFIObject> = Pool::new();

impl LentObject {
    /// Lends a Python object to the running call.
    ///
    /// # Safety
    /// `object` is alive for as long as the result, which is dropped on this thread, with the lock
    /// held.
    #[inline]
    pub(crate) unsafe fn new(py: Py, object: *mut PyObject) -> Self {
        // SAFETY: promised by the caller; an opaque object that nothing else refers to, whose
        // handle is written here. Live objects are not at address 0.
        unsafe {
            match UNUSED.take(py) {
                Some(opaque) => {
                    handle_place(opaque).write(object);
                    Self(NonNull::new_unchecked(opaque))
                }
                None => Self(NonNull::new_unchecked(exception::opaque_of(object))),
            }
        }
    }

    /// The opaque object, as an argument.
    pub(crate) fn view(&self) -> TVMFFIAny {
        TVMFFIAny::pointer(type_index::OPAQUE_PY_OBJECT, self.0.as_ptr().cast())
    }

    /// Converts to a value, which owns a reference to the Python object from now on.
    pub(crate) fn into_value(self, py: Py) -> Any {
        let opaque = ManuallyDrop::new(self).0.as_ptr();
        // SAFETY: the Python object is still alive; the reference to the opaque object is
        // transferred to the value.
        unsafe {
            py.Py_IncRef(handle_place(opaque).read());
            Any::from_object(opaque)
        }
    }
}

impl Drop for LentObject {
    #[inline]
    fn drop(&mut self) {
        let opaque = self.0.as_ptr();
        // SAFETY: one reference to the opaque object is this value's, and the lock is held. One
        // without other references is used by no other code, now or later.
        unsafe {
            let py = Py::held();
            if embedded::is_unique(opaque) && UNUSED.give(py, opaque) {
                return;
            }
            // It is kept elsewhere, or there is no room: from now on it owns a reference to the
            // Python object, which is alive until here.
            py.Py_IncRef(handle_place(opaque).read());
            embedded::dec_ref(opaque);
        }
    }
}

/// The address of the Python object's address.
///
/// # Safety
/// `opaque` is a live opaque object.
unsafe fn handle_place(opaque: *mut TVMFFIObject) -> *mut *mut PyObject {
    // SAFETY: promised by the caller; the cell begins with the handle.
    unsafe { (&raw mut (*embedded::body_ptr::<TVMFFIOpaqueObjectCell>(opaque)).handle).cast() }
}
