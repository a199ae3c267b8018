//! The environment of a call: the current stream of each device, the tensor allocator, and signals.

use core::cell::{Cell, RefCell};
use core::ffi::{c_char, c_void};
use std::sync::{PoisonError, RwLock};

use crate::abi::{DLManagedTensorVersioned, DLPackManagedTensorAllocator, DLTensor, TVMFFIObject, TVMFFIStreamHandle};

use super::failure::Failure;
use super::{raised, tensor};

/// A stream that was set: device type, device id, stream.
type StreamEntry = (i32, i32, TVMFFIStreamHandle);

thread_local! {
    static STREAMS: RefCell<Vec<StreamEntry>> = const { RefCell::new(Vec::new()) };
    static ALLOCATOR: Cell<Option<DLPackManagedTensorAllocator>> = const { Cell::new(None) };
}

static GLOBAL_ALLOCATOR: RwLock<Option<DLPackManagedTensorAllocator>> = RwLock::new(None);

/// Sets this thread's current stream of a device and returns the one before (NULL if none was set).
pub fn set_stream(device_type: i32, device_id: i32, stream: TVMFFIStreamHandle) -> TVMFFIStreamHandle {
    let set = STREAMS.try_with(|streams| {
        let mut streams = streams.borrow_mut();
        match streams.iter_mut().find(|entry| (entry.0, entry.1) == (device_type, device_id)) {
            Some(entry) => core::mem::replace(&mut entry.2, stream),
            None => {
                streams.push((device_type, device_id, stream));
                core::ptr::null_mut()
            }
        }
    });
    set.unwrap_or(core::ptr::null_mut())
}

/// This thread's current stream of a device, NULL if none was set.
pub fn stream(device_type: i32, device_id: i32) -> TVMFFIStreamHandle {
    let found = STREAMS.try_with(|streams| {
        let streams = streams.borrow();
        streams.iter().find(|entry| (entry.0, entry.1) == (device_type, device_id)).map(|entry| entry.2)
    });
    found.ok().flatten().unwrap_or(core::ptr::null_mut())
}

/// Sets this thread's tensor allocator, and with `globally` also that of threads that have none of their own. Returns
/// this thread's allocator before.
pub fn set_tensor_allocator(
    allocator: Option<DLPackManagedTensorAllocator>,
    globally: bool,
) -> Option<DLPackManagedTensorAllocator> {
    if globally {
        *GLOBAL_ALLOCATOR.write().unwrap_or_else(PoisonError::into_inner) = allocator;
    }
    ALLOCATOR.replace(allocator)
}

/// The tensor allocator for this thread.
pub fn tensor_allocator() -> Option<DLPackManagedTensorAllocator> {
    ALLOCATOR.get().or_else(|| *GLOBAL_ALLOCATOR.read().unwrap_or_else(PoisonError::into_inner))
}

/// What became of an allocation.
#[derive(Debug)]
pub enum Allocation {
    /// A new tensor; the caller owns the reference.
    Tensor(*mut TVMFFIObject),
    /// The allocator failed with this code and raised its error itself.
    Failed(i32),
}

/// Allocates a tensor like `prototype` with the current allocator.
///
/// # Errors
/// `RuntimeError` when there is no allocator or it returns nothing.
///
/// # Safety
/// `prototype` is a valid tensor (data, strides and offset do not matter).
pub unsafe fn allocate_tensor(prototype: *mut DLTensor) -> Result<Allocation, Failure> {
    let Some(allocator) = tensor_allocator() else {
        return Err(Failure::runtime(
            "TVMFFIEnvTensorAlloc: allocator is nullptr, likely because TVMFFIEnvSetDLPackManagedTensorAllocator has not \
             been called.",
        ));
    };
    let mut managed: *mut DLManagedTensorVersioned = core::ptr::null_mut();
    // SAFETY: the frontend gave this allocator for such calls; the prototype is valid.
    let status = unsafe { allocator(prototype, &raw mut managed, core::ptr::null_mut(), set_error) };
    if status != 0 {
        return Ok(Allocation::Failed(status));
    }
    if managed.is_null() {
        return Err(Failure::runtime("TVMFFIEnvTensorAlloc: failed to allocate a tensor from the allocator"));
    }
    // SAFETY: the allocator returned a valid tensor that is ours.
    match unsafe { tensor::from_dlpack_versioned(managed, 0, false) } {
        Ok(tensor) => Ok(Allocation::Tensor(tensor)),
        Err(failure) => {
            // SAFETY: the tensor was not taken over, and nobody else knows it.
            unsafe {
                if let Some(deleter) = (*managed).deleter {
                    deleter(managed);
                }
            }
            Err(failure)
        }
    }
}

unsafe extern "C" fn set_error(_context: *mut c_void, kind: *const c_char, message: *const c_char) {
    let text = |text: *const c_char| {
        // SAFETY: the allocator passes NUL-terminated strings; NULL is checked.
        if text.is_null() { &b""[..] } else { unsafe { core::ffi::CStr::from_ptr(text) }.to_bytes() }
    };
    raised::raise(text(kind), text(message), b"");
}

/// Functions of a Python that is in the process.
#[derive(Clone, Copy)]
struct Python {
    check_signals: Option<unsafe extern "C" fn() -> i32>,
    ensure_gil: Option<unsafe extern "C" fn() -> *mut c_void>,
    release_gil: Option<unsafe extern "C" fn(*mut c_void)>,
}

static PYTHON: RwLock<Python> = RwLock::new(Python { check_signals: None, ensure_gil: None, release_gil: None });

/// Registers a function of the frontend.
///
/// # Errors
/// `ValueError` for a name that means nothing to us.
///
/// # Safety
/// `symbol` is NULL or the function of that name.
pub unsafe fn register_c_api(name: &[u8], symbol: *mut c_void) -> Result<(), Failure> {
    let mut python = PYTHON.write().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: promised by the caller; NULL becomes `None`.
    unsafe {
        match name {
            b"PyErr_CheckSignals" => python.check_signals = core::mem::transmute::<*mut c_void, Option<_>>(symbol),
            b"PyGILState_Ensure" => python.ensure_gil = core::mem::transmute::<*mut c_void, Option<_>>(symbol),
            b"PyGILState_Release" => python.release_gil = core::mem::transmute::<*mut c_void, Option<_>>(symbol),
            _ => return Err(Failure::value(format_args!("Unknown env API {}", String::from_utf8_lossy(name)))),
        }
    }
    Ok(())
}

/// Lets the frontend handle signals. False when it then has an error of its own set (a KeyboardInterrupt, say).
///
/// # Errors
/// `InternalError` when the frontend registered only a part of what this needs.
pub fn check_signals() -> Result<bool, Failure> {
    let python = *PYTHON.read().unwrap_or_else(PoisonError::into_inner);
    let Some(check_signals) = python.check_signals else { return Ok(true) };
    let (Some(ensure_gil), Some(release_gil)) = (python.ensure_gil, python.release_gil) else {
        return Err(Failure::internal(
            "PyErr_CheckSignals is registered without PyGILState_Ensure and PyGILState_Release",
        ));
    };
    // SAFETY: the frontend registered these functions of Python; the state goes back as it came.
    unsafe {
        let state = ensure_gil();
        let status = check_signals();
        release_gil(state);
        Ok(status == 0)
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicI32, Ordering};

    use super::*;
    use crate::abi::TVMFFIErrorCell;
    use crate::embedded::{body, dec_ref};

    #[test]
    fn streams_belong_to_the_thread() {
        let stream_at = |address: usize| core::ptr::without_provenance_mut::<c_void>(address);
        assert!(stream(2, 0).is_null() && stream(-5, i32::MAX).is_null());
        assert!(set_stream(2, 0, stream_at(16)).is_null());
        assert_eq!(set_stream(2, 0, stream_at(32)), stream_at(16));
        set_stream(2, 1, stream_at(48));
        assert_eq!((stream(2, 0), stream(2, 1)), (stream_at(32), stream_at(48)));
        std::thread::spawn(|| assert!(stream(2, 0).is_null())).join().unwrap();
    }

    unsafe extern "C" fn failing(
        _: *mut DLTensor,
        _: *mut *mut DLManagedTensorVersioned,
        context: *mut c_void,
        set_error: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char),
    ) -> i32 {
        // SAFETY: literals are NUL-terminated.
        unsafe { set_error(context, c"MemoryError".as_ptr(), c"full".as_ptr()) };
        -3
    }

    #[test]
    fn allocator_errors_pass_through() {
        // SAFETY: the failing allocator does not look at the prototype.
        unsafe {
            let prototype = core::ptr::null_mut();
            assert!(allocate_tensor(prototype).unwrap_err().message().contains("allocator is nullptr"));
            assert!(set_tensor_allocator(Some(failing), false).is_none());
            assert!(matches!(allocate_tensor(prototype), Ok(Allocation::Failed(-3))));
            let error = raised::take_raised();
            assert_eq!(body::<TVMFFIErrorCell>(error).message.as_slice(), b"full");
            dec_ref(error);
            assert!(set_tensor_allocator(None, false).is_some());
        }
    }

    static GIL: AtomicI32 = AtomicI32::new(0);
    unsafe extern "C" fn ensure() -> *mut c_void {
        GIL.fetch_add(1, Ordering::Relaxed);
        core::ptr::null_mut()
    }
    unsafe extern "C" fn give_back(_: *mut c_void) {
        GIL.fetch_add(10, Ordering::Relaxed);
    }
    unsafe extern "C" fn interrupted() -> i32 {
        -1
    }

    #[test]
    fn signals_are_checked_under_the_lock_of_python() {
        assert!(check_signals().unwrap());
        // SAFETY: the functions have the types that their names stand for.
        unsafe {
            register_c_api(b"PyErr_CheckSignals", interrupted as *mut c_void).unwrap();
            assert_eq!(check_signals().unwrap_err().kind(), "InternalError");
            register_c_api(b"PyGILState_Ensure", ensure as *mut c_void).unwrap();
            register_c_api(b"PyGILState_Release", give_back as *mut c_void).unwrap();
            assert!(!check_signals().unwrap());
            assert_eq!(GIL.load(Ordering::Relaxed), 11);
            register_c_api(b"PyErr_CheckSignals", core::ptr::null_mut()).unwrap();
            assert!(check_signals().unwrap());
            assert_eq!(
                register_c_api(b"Py_Exit", ensure as *mut c_void).unwrap_err().message(),
                "Unknown env API Py_Exit"
            );
        }
    }
}
