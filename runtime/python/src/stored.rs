//! The storage of tensors like PyTorch's that are given as capsules. A capsule holds the tensor,
//! and code of Python may give this another storage at any time (`t.data = other`, `t.set_()`): the
//! memory is that of the storage, so the storage is held.

use core::ffi::CStr;
use core::mem::ManuallyDrop;
use core::ops::RangeInclusive;

use kernpack_core::abi::{DLTensor, TVMFFIObject};
use kernpack_core::embedded;

use crate::capi::{Py, PyObject};
use crate::from_python::Refused;
use crate::interpreter::with_lock;
use crate::number::integer_of;
use crate::object::{Owned, PyResult, Raised};

/// The method that returns a tensor's storage.
const STORAGE: &CStr = c"untyped_storage";

/// The storage of a tensor, obtained before the capsule is requested.
pub(crate) struct Stored {
    storage: Owned,
    /// The address of the elements at that time.
    start: Option<i64>,
}

impl Stored {
    /// Returns the storage of an array whose class has the method `untyped_storage`; `None` for
    /// other arrays.
    ///
    /// # Safety
    /// `object` is alive.
    pub(crate) unsafe fn of(py: Py, object: *mut PyObject) -> Result<Option<Self>, Refused> {
        // SAFETY: promised by the caller.
        unsafe {
            if py.attribute_if_any(py.class_of(object).as_ptr(), STORAGE)?.is_none() {
                return Ok(None);
            }
            let start = start(py, object)?;
            let Some(storage) = ask(py, object, STORAGE)? else { return Ok(None) };
            for (bit, of) in [("conjugate", c"is_conj"), ("negative", c"is_neg")] {
                if ask(py, object, of)?.is_some_and(|is_set| is_set.as_ptr() == py._Py_TrueStruct()) {
                    return Err(bit_is_set(bit));
                }
            }
            Ok(Some(Self { storage, start }))
        }
    }

    /// A tensor over the memory of one that the array gave, which holds both this one and the
    /// storage. The reference is taken over.
    ///
    /// # Safety
    /// `object` is alive, and `tensor` a reference to a tensor.
    pub(crate) unsafe fn hold(
        self,
        py: Py,
        object: *mut PyObject,
        tensor: *mut TVMFFIObject,
    ) -> Result<*mut TVMFFIObject, Refused> {
        let Self { storage, start: before } = self;
        let owner = Owner { tensor, storage: ManuallyDrop::new(storage) };
        // SAFETY: promised by the caller; the owner has the reference, and what describes a tensor
        // lives as long as that.
        unsafe {
            let DLTensor { data, device, ndim, dtype, shape, strides, byte_offset } =
                *embedded::tensor::dl_tensor(tensor);
            if !is_of_storage(py, object, &owner.storage, before, data.addr())? {
                return Err(moved());
            }
            let ndim = usize::try_from(ndim).unwrap_or(0);
            let extents = |start: *mut i64| match start.is_null() || ndim == 0 {
                true => &[][..],
                false => core::slice::from_raw_parts(start, ndim),
            };
            let strides = (!strides.is_null()).then(|| extents(strides));
            let is_read_only = embedded::tensor::is_read_only(tensor);
            let held = embedded::tensor::new_tensor(data, device, dtype, extents(shape), strides, byte_offset, owner)?;
            if is_read_only {
                embedded::tensor::set_read_only(held);
            }
            Ok(held)
        }
    }
}

/// A tensor, and the storage that its memory is in. The storage is given back with the
/// interpreter's lock.
struct Owner {
    tensor: *mut TVMFFIObject,
    storage: ManuallyDrop<Owned>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: this value owns the reference.
        unsafe { embedded::dec_ref(self.tensor) };
        // After the interpreter has shut down, its objects no longer exist.
        // SAFETY: dropped once, and not used afterwards.
        with_lock(|_| unsafe { ManuallyDrop::drop(&mut self.storage) });
    }
}

/// Returns true if the memory that a tensor exported belongs to the storage, or is not shared with
/// other objects.
///
/// # Safety
/// `object` is alive.
unsafe fn is_of_storage(
    py: Py,
    object: *mut PyObject,
    storage: &Owned,
    before: Option<i64>,
    data: usize,
) -> PyResult<bool> {
    let data = data as i64;
    // SAFETY: promised by the caller; the storage is held.
    unsafe {
        // The memory is not reused while the storage is alive, so the address identifies it.
        let memory = memory(py, storage.as_ptr());
        if data == 0 || memory.as_ref().is_some_and(|memory| memory.contains(&data)) {
            return Ok(true);
        }
        let after = start(py, object)?;
        // A derived class may export a copy, which is not shared.
        Ok(after == before && (memory.is_none() || after != Some(data)))
    }
}

/// Returns the addresses of a storage's memory; `None` if the storage does not report them, or does
/// not have memory.
///
/// # Safety
/// `storage` is alive.
unsafe fn memory(py: Py, storage: *mut PyObject) -> Option<RangeInclusive<i64>> {
    // SAFETY: promised by the caller.
    unsafe {
        let number = |name| {
            let number = ask(py, storage, name).and_then(|number| match number {
                Some(number) => integer_of(py, number.as_ptr()).map(Some),
                None => Ok(None),
            });
            number.unwrap_or_else(|Raised| {
                // The storages of devices without addresses raise an error.
                py.PyErr_Clear();
                None
            })
        };
        match (number(c"data_ptr"), number(c"nbytes")) {
            (Some(start @ 1..), Some(size)) => Some(start..=start.saturating_add(size)),
            _ => None,
        }
    }
}

/// The error for a tensor whose memory is not that of the storage that was obtained before.
pub(crate) fn moved() -> Refused {
    Refused::Because { kind: "ValueError", clause: "the tensor was given other memory while it was converted".into() }
}

/// The error for a tensor whose elements differ from those in memory.
pub(crate) fn bit_is_set(bit: &str) -> Refused {
    let method = if bit == "conjugate" { "resolve_conj" } else { "resolve_neg" };
    let clause = format!("the tensor has its {bit} bit set; pass tensor.{method}()");
    Refused::Because { kind: "ValueError", clause }
}

/// The result of a method of an array's class that takes the array alone; `None` if the class has
/// no such method.
///
/// # Safety
/// `object` is alive.
unsafe fn ask(py: Py, object: *mut PyObject, name: &CStr) -> PyResult<Option<Owned>> {
    // SAFETY: promised by the caller.
    unsafe {
        let Some(method) = py.attribute_if_any(py.class_of(object).as_ptr(), name)? else { return Ok(None) };
        py.call(method.as_ptr(), [Owned::share(py, object)]).map(Some)
    }
}

/// Returns the address of the elements of an array, if its class reports it.
///
/// # Safety
/// `object` is alive.
unsafe fn start(py: Py, object: *mut PyObject) -> PyResult<Option<i64>> {
    // SAFETY: promised by the caller.
    unsafe {
        let Some(start) = ask(py, object, c"data_ptr")? else { return Ok(None) };
        integer_of(py, start.as_ptr()).map(Some)
    }
}
