//! The environment of a call: the current stream of each device, the tensor allocator, and signals.

pub mod custom_allocator;
pub mod handle_once;
pub mod module_env;

use core::cell::{Cell, UnsafeCell};
use core::ffi::{c_char, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::abi::{DLManagedTensorVersioned, DLPackManagedTensorAllocator, DLTensor, TVMFFIObject, TVMFFIStreamHandle};

use crate::cells::failure::Failure;
use crate::cells::tensor;
use crate::tables::raised;

/// A stream that was set.
struct StreamEntry {
    device_type: i32,
    device_id: i32,
    stream: TVMFFIStreamHandle,
}

thread_local! {
    /// The streams that were set on this thread.
    static STREAMS: Streams = const { Streams(UnsafeCell::new(Vec::new())) };
    /// Points to the streams, for reading only. Without a destructor, which every access would have
    /// to check.
    static SET: Cell<*const [StreamEntry]> = const { Cell::new(&[]) };
    static ALLOCATOR: Cell<Option<DLPackManagedTensorAllocator>> = const { Cell::new(None) };
}

struct Streams(UnsafeCell<Vec<StreamEntry>>);

impl Drop for Streams {
    fn drop(&mut self) {
        SET.set(&[]);
    }
}

/// The allocator of threads without their own: NULL or a [`DLPackManagedTensorAllocator`].
static GLOBAL_ALLOCATOR: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

impl StreamEntry {
    fn is_of(&self, device_type: i32, device_id: i32) -> bool {
        self.device_type == device_type && self.device_id == device_id
    }
}

/// Sets this thread's current stream of a device and returns the previous one (NULL if none was
/// set).
pub fn set_stream(device_type: i32, device_id: i32, stream: TVMFFIStreamHandle) -> TVMFFIStreamHandle {
    let set = STREAMS.try_with(|streams| {
        // SAFETY: only this thread has the list, and nothing that is called here comes back to it.
        let streams = unsafe { &mut *streams.0.get() };
        if let Some(entry) = streams.iter_mut().find(|entry| entry.is_of(device_type, device_id)) {
            return core::mem::replace(&mut entry.stream, stream);
        }
        streams.push(StreamEntry { device_type, device_id, stream });
        SET.set(core::ptr::slice_from_raw_parts(streams.as_ptr(), streams.len()));
        null_mut()
    });
    set.unwrap_or(null_mut())
}

/// This thread's current stream of a device, NULL if none was set.
pub fn stream(device_type: i32, device_id: i32) -> TVMFFIStreamHandle {
    // SAFETY: this is kept up to date when the list grows and when it is dropped; only this thread
    // has it.
    let set = unsafe { &*SET.get() };
    set.iter().find(|entry| entry.is_of(device_type, device_id)).map_or(null_mut(), |entry| entry.stream)
}

/// Sets this thread's tensor allocator, and with `globally` also that of threads without their own.
/// Returns this thread's previous allocator.
pub fn set_tensor_allocator(
    allocator: Option<DLPackManagedTensorAllocator>,
    globally: bool,
) -> Option<DLPackManagedTensorAllocator> {
    if globally {
        let address = allocator.map_or(null_mut(), |allocator| allocator as *mut c_void);
        GLOBAL_ALLOCATOR.store(address, Ordering::Release);
    }
    ALLOCATOR.replace(allocator)
}

/// The tensor allocator for this thread.
pub fn tensor_allocator() -> Option<DLPackManagedTensorAllocator> {
    // SAFETY: NULL or a function of this type, see `set_tensor_allocator`.
    ALLOCATOR.get().or_else(|| unsafe { function(&GLOBAL_ALLOCATOR) })
}

/// The function whose address was stored, `None` for NULL.
///
/// # Safety
/// The address is NULL or that of an `F`, which is a function pointer.
unsafe fn function<F: Copy>(address: &AtomicPtr<c_void>) -> Option<F> {
    const { assert!(size_of::<Option<F>>() == size_of::<*mut c_void>()) };
    // SAFETY: promised by the caller; `None` is NULL.
    unsafe { core::mem::transmute_copy(&address.load(Ordering::Acquire)) }
}

/// The result of an allocation.
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
/// `prototype` is a valid tensor (data, strides and offset are ignored).
pub unsafe fn allocate_tensor(prototype: *mut DLTensor) -> Result<Allocation, Failure> {
    let Some(allocator) = tensor_allocator() else {
        return Err(Failure::runtime(
            "TVMFFIEnvTensorAlloc: allocator is nullptr, likely because TVMFFIEnvSetDLPackManagedTensorAllocator has not \
             been called.",
        ));
    };
    let mut managed: *mut DLManagedTensorVersioned = null_mut();
    // SAFETY: the frontend gave this allocator for such calls; the prototype is valid.
    let status = unsafe { allocator(prototype, &raw mut managed, null_mut(), set_error) };
    if status != 0 {
        return Ok(Allocation::Failed(status));
    }
    if managed.is_null() {
        return Err(Failure::runtime(
            "Check failed: (dlpack_tensor != nullptr) is false: TVMFFIEnvTensorAlloc: failed to allocate a tensor from the \
             allocator",
        ));
    }
    // SAFETY: the allocator returned a valid tensor that is ours.
    match unsafe { tensor::from_dlpack_versioned(managed, 0, false) } {
        Ok(tensor) => Ok(Allocation::Tensor(tensor)),
        Err(failure) => {
            // SAFETY: the tensor was not taken over, and no other code knows it.
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

/// Functions of a Python interpreter in the process, or NULL.
static CHECK_SIGNALS: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static ENSURE_GIL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static RELEASE_GIL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Registers a function of the frontend.
///
/// # Errors
/// `ValueError` for an unknown name.
///
/// # Safety
/// `symbol` is NULL or the function of that name.
pub unsafe fn register_c_api(name: &[u8], symbol: *mut c_void) -> Result<(), Failure> {
    let function = match name {
        b"PyErr_CheckSignals" => &CHECK_SIGNALS,
        b"PyGILState_Ensure" => &ENSURE_GIL,
        b"PyGILState_Release" => &RELEASE_GIL,
        _ => return Err(Failure::of_parts("ValueError", &[b"Unknown env API ", name])),
    };
    function.store(symbol, Ordering::Release);
    Ok(())
}

/// Returns true if there is a frontend with signals.
#[inline]
pub fn has_signals() -> bool {
    !CHECK_SIGNALS.load(Ordering::Acquire).is_null()
}

/// Lets the frontend handle signals. Returns false if it then has an error set (such as a
/// KeyboardInterrupt).
///
/// # Errors
/// `InternalError` if the frontend registered only a part of the functions that this needs.
pub fn check_signals() -> Result<bool, Failure> {
    // SAFETY: the frontend registered these functions of Python.
    let functions = unsafe {
        (
            function::<unsafe extern "C" fn() -> i32>(&CHECK_SIGNALS),
            function::<unsafe extern "C" fn() -> *mut c_void>(&ENSURE_GIL),
            function::<unsafe extern "C" fn(*mut c_void)>(&RELEASE_GIL),
        )
    };
    match functions {
        (None, ..) => Ok(true),
        // SAFETY: as above; the state is passed back unchanged.
        (Some(check_signals), Some(ensure_gil), Some(release_gil)) => unsafe {
            let state = ensure_gil();
            let status = check_signals();
            release_gil(state);
            Ok(status == 0)
        },
        _ => {
            Err(Failure::internal("PyErr_CheckSignals is registered without PyGILState_Ensure and PyGILState_Release"))
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicI32, Ordering};

    use super::*;
    use crate::abi::TVMFFIErrorCell;
    use crate::cells::{body, dec_ref};

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
            let prototype = null_mut();
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
        null_mut()
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
            register_c_api(b"PyErr_CheckSignals", null_mut()).unwrap();
            assert!(check_signals().unwrap());
            assert_eq!(
                register_c_api(b"Py_Exit", ensure as *mut c_void).unwrap_err().message(),
                "Unknown env API Py_Exit"
            );
        }
    }
}
