//! DLPack's exchange interface: a table of C functions behind a class of arrays, `__dlpack_c_exchange_api__`. PyTorch's tensors are taken by it,
//! and those of the library are given by it, without a capsule or a call of Python code.

use core::alloc::Layout;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::alloc;

use kernpack_core::abi::{DLManagedTensorVersioned, DLPackVersion, DLTensor, TVMFFIAny, TVMFFIObject, device_type};
use kernpack_core::{Device, Error, embedded, provider};

use crate::capi::{Py, PyObject};
use crate::heap_type::{Shared, pointer_place};
use crate::lend::LentTensor;
use crate::object::{Owned, PyResult, Raised};
use crate::state::State;
use crate::{array, exception};

/// The attribute of a class, and the name of the capsule in it.
const ATTRIBUTE: &CStr = c"__dlpack_c_exchange_api__";
const CAPSULE: &CStr = c"dlpack_exchange_api";
/// The first version of DLPack that has the interface.
const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 3 };

/// Reports what went wrong in an allocation.
type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// `DLPackExchangeAPI`. Functions give 0, or -1 with an exception set.
#[repr(C)]
struct Api {
    version: DLPackVersion,
    previous: *const Api,
    allocate: unsafe extern "C" fn(*mut DLTensor, *mut *mut DLManagedTensorVersioned, *mut c_void, SetError) -> c_int,
    managed_of: unsafe extern "C" fn(*mut PyObject, *mut *mut DLManagedTensorVersioned) -> c_int,
    object_of: unsafe extern "C" fn(*mut DLManagedTensorVersioned, *mut *mut PyObject) -> c_int,
    /// Describes an array that lives on; NULL where an exporter has no such function.
    borrow: Option<unsafe extern "C" fn(*mut PyObject, *mut DLTensor) -> c_int>,
    current_stream: unsafe extern "C" fn(c_int, i32, *mut *mut c_void) -> c_int,
}

/// A class of arrays with the interface. It is never given back, so the class lives on.
struct Known {
    class: *mut PyObject,
    api: &'static Api,
}

/// The classes that were seen; there are few in a process.
static KNOWN: [AtomicPtr<Known>; 8] = [const { AtomicPtr::new(ptr::null_mut()) }; 8];

/// The interface of a class.
///
/// # Safety
/// `class` is alive.
unsafe fn api(py: Py, class: *mut PyObject) -> PyResult<Option<&'static Api>> {
    for known in &KNOWN {
        // SAFETY: what is stored lives forever.
        match unsafe { known.load(Ordering::Acquire).as_ref() } {
            Some(known) if known.class == class => return Ok(Some(known.api)),
            Some(_) => {}
            None => break,
        }
    }
    // SAFETY: promised by the caller. A capsule of this name has such a table, by the rules of DLPack, which lives as long as the class; that is
    // kept. A table of the same major version has these functions.
    unsafe {
        // Held: it may be code of Python that gives the attribute, and that gives the object another class.
        let class = Owned::share(py, class);
        let Some(capsule) = py.attribute_if_any(class.as_ptr(), ATTRIBUTE)? else { return Ok(None) };
        if py.PyCapsule_IsValid(capsule.as_ptr(), CAPSULE.as_ptr()) == 0 {
            return Ok(None);
        }
        let mut table = py.PyCapsule_GetPointer(capsule.as_ptr(), CAPSULE.as_ptr()).cast_const().cast::<Api>();
        while !table.is_null() && (*table).version.major > VERSION.major {
            table = (*table).previous;
        }
        if table.is_null() || (*table).version.major != VERSION.major {
            return Ok(None);
        }
        let api = &*table;
        let new = Box::into_raw(Box::new(Known { class: class.into_ptr(), api }));
        let is_taken = |place: &AtomicPtr<Known>| {
            place.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        if !KNOWN.iter().any(is_taken) {
            // No place is left: the capsule keeps the class's table for this call.
            let Known { class, .. } = *Box::from_raw(new);
            py.Py_DecRef(class);
        }
        Ok(Some(api))
    }
}

/// The view of an array of a class with the interface, described in `place`, which stays where it is for the call. `None`: the array has to go
/// another way, as those in a device's memory do, whose stream has to be waited for.
///
/// # Safety
/// `object` is alive for the call.
pub(crate) unsafe fn lend(
    py: Py,
    object: *mut PyObject,
    place: &mut MaybeUninit<LentTensor>,
) -> PyResult<Option<TVMFFIAny>> {
    // SAFETY: promised by the caller; the function fills the description when it succeeds, and what that points to lives until other code runs.
    unsafe {
        let class = py.type_of(object);
        if class == State::get(py).tensor {
            return Ok(None);
        }
        let Some(borrow) = api(py, class)?.and_then(|api| api.borrow) else { return Ok(None) };
        let mut tensor = MaybeUninit::<DLTensor>::zeroed();
        if borrow(object, tensor.as_mut_ptr()) != 0 {
            return Err(Raised);
        }
        let tensor = tensor.assume_init();
        if !Device::from_raw(tensor.device).is_host_accessible() {
            return Ok(None);
        }
        Ok(LentTensor::copied(&tensor, place))
    }
}

/// The tensor of an array of a class with the interface, which is the caller's. `None` as for [`lend`].
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn managed(py: Py, object: *mut PyObject) -> PyResult<Option<*mut DLManagedTensorVersioned>> {
    // SAFETY: promised by the caller; the function gives a tensor when it succeeds.
    unsafe {
        let Some(api) = api(py, py.type_of(object))? else { return Ok(None) };
        let mut managed = ptr::null_mut();
        if (api.managed_of)(object, &mut managed) != 0 {
            return Err(Raised);
        }
        if Device::from_raw((*managed).dl_tensor.device).is_host_accessible() {
            return Ok(Some(managed));
        }
        if let Some(delete) = (*managed).deleter {
            delete(managed);
        }
        Ok(None)
    }
}

/// While it lives, the stream that an array's framework works in is the library's current one on its device.
pub(crate) struct CurrentStream {
    device: Device,
    before: *mut c_void,
}

impl Drop for CurrentStream {
    fn drop(&mut self) {
        // SAFETY: the stream was current before, so it is alive; what it replaces is not needed. No provider refuses: it stores three words.
        unsafe {
            let (kind, index) = (self.device.device_type(), self.device.index());
            (provider::api().env_set_stream)(kind, index, self.before, ptr::null_mut());
        }
    }
}

/// Makes the current stream of the framework that an array in a device's memory is from the library's own, so that kernels are put behind
/// the framework's work, and the framework's later work behind the kernels. `None` for other objects.
///
/// # Safety
/// `object` is alive for the call.
pub(crate) unsafe fn enter_stream(py: Py, object: *mut PyObject) -> PyResult<Option<CurrentStream>> {
    // SAFETY: promised by the caller; the functions fill their results when they succeed. A framework's current stream outlives the call.
    unsafe {
        let class = py.type_of(object);
        if class == State::get(py).tensor {
            return Ok(None);
        }
        let Some(api) = api(py, class)? else { return Ok(None) };
        let Some(borrow) = api.borrow else { return Ok(None) };
        let mut tensor = MaybeUninit::<DLTensor>::zeroed();
        if borrow(object, tensor.as_mut_ptr()) != 0 {
            return Err(Raised);
        }
        let device = Device::from_raw(tensor.assume_init().device);
        if device.is_host_accessible() {
            return Ok(None);
        }
        let (mut stream, mut before) = (ptr::null_mut(), ptr::null_mut());
        if (api.current_stream)(device.device_type(), device.index(), &mut stream) != 0 {
            return Err(Raised);
        }
        let status = (provider::api().env_set_stream)(device.device_type(), device.index(), stream, &mut before);
        Error::check(status).map_err(|error| exception::raise(py, &error))?;
        Ok(Some(CurrentStream { device, before }))
    }
}

/// Gives the class of tensors the interface.
pub(crate) fn offer(py: Py, class: &Owned) -> PyResult<()> {
    static API: Shared<Api> = Shared(Api {
        version: VERSION,
        previous: ptr::null(),
        allocate,
        managed_of,
        object_of,
        borrow: Some(borrow),
        current_stream,
    });
    // SAFETY: a table that lives forever, and a class.
    unsafe {
        let capsule = Owned::take(py, py.PyCapsule_New((&raw const API.0).cast_mut().cast(), CAPSULE.as_ptr(), None))?;
        match py.PyObject_SetAttrString(class.as_ptr(), ATTRIBUTE.as_ptr(), capsule.as_ptr()) {
            0 => Ok(()),
            _ => Err(Raised),
        }
    }
}

/// The tensor of one of our objects; NULL, with an exception set, for others.
///
/// # Safety
/// The interpreter's lock is held, and the object is alive.
unsafe fn own(py: Py, object: *mut PyObject) -> *mut TVMFFIObject {
    // SAFETY: promised by the caller; an object of the class has a tensor behind its header.
    unsafe {
        if py.type_of(object) != State::get(py).tensor {
            py.raise(py.PyExc_TypeError(), "this interface is for tensors of one Kernpack library");
            return ptr::null_mut();
        }
        (*pointer_place(py, object)).cast()
    }
}

unsafe extern "C" fn managed_of(object: *mut PyObject, out: *mut *mut DLManagedTensorVersioned) -> c_int {
    // SAFETY: a consumer calls with the lock held, a live object and a writable place.
    unsafe {
        let py = Py::held();
        let tensor = own(py, object);
        if tensor.is_null() {
            return -1;
        }
        match Error::check((provider::api().tensor_to_dlpack_versioned)(tensor, out)) {
            Ok(()) => 0,
            Err(error) => {
                exception::raise(py, &error);
                -1
            }
        }
    }
}

unsafe extern "C" fn object_of(managed: *mut DLManagedTensorVersioned, out: *mut *mut PyObject) -> c_int {
    // SAFETY: as for `managed_of`; the tensor is ours from now on, and the new object holds a reference of its own.
    unsafe {
        let py = Py::held();
        let mut tensor = ptr::null_mut();
        let taken = Error::check((provider::api().tensor_from_dlpack_versioned)(managed, 0, 0, &mut tensor));
        if let Err(error) = taken {
            exception::raise(py, &error);
            return -1;
        }
        let object = array::new(py, tensor);
        embedded::dec_ref(tensor);
        match object {
            Ok(object) => {
                out.write(object.into_ptr());
                0
            }
            Err(Raised) => -1,
        }
    }
}

unsafe extern "C" fn borrow(object: *mut PyObject, out: *mut DLTensor) -> c_int {
    // SAFETY: as for `managed_of`.
    unsafe {
        let tensor = own(Py::held(), object);
        if tensor.is_null() {
            return -1;
        }
        out.copy_from_nonoverlapping(embedded::tensor::dl_tensor(tensor), 1);
        0
    }
}

unsafe extern "C" fn current_stream(kind: c_int, index: i32, out: *mut *mut c_void) -> c_int {
    // SAFETY: the function may be called with any numbers; the place is writable.
    unsafe { out.write((provider::api().env_get_stream)(kind, index)) };
    0
}

/// Host memory of a tensor.
struct Memory(*mut u8, Layout);

// SAFETY: the memory is this value's.
unsafe impl Send for Memory {}

impl Memory {
    /// What loads of vectors want.
    const ALIGNMENT: usize = 64;

    fn new(size: usize) -> Option<Self> {
        let layout = Layout::from_size_align(size.max(1), Self::ALIGNMENT).ok()?;
        // SAFETY: the size is not 0.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        (!start.is_null()).then_some(Self(start, layout))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { alloc::dealloc(self.0, self.1) }
    }
}

/// A new tensor like another, with zeros in it; in host memory only.
unsafe extern "C" fn allocate(
    like: *mut DLTensor,
    out: *mut *mut DLManagedTensorVersioned,
    context: *mut c_void,
    set_error: SetError,
) -> c_int {
    // SAFETY: the consumer passes a tensor's description, a writable place, and what reports errors.
    unsafe {
        let refuse = |text: &CStr| {
            set_error(context, c"RuntimeError".as_ptr(), text.as_ptr());
            -1
        };
        let DLTensor { device, dtype, ndim, shape, .. } = *like;
        if device.device_type != device_type::CPU {
            return refuse(c"a Kernpack library allocates tensors in host memory only");
        }
        let shape = match usize::try_from(ndim) {
            Ok(ndim) if ndim > 0 => core::slice::from_raw_parts(shape, ndim),
            _ => &[],
        };
        let bits = usize::from(dtype.bits) * usize::from(dtype.lanes);
        let count = shape.iter().try_fold(1usize, |count, extent| count.checked_mul(usize::try_from(*extent).ok()?));
        let size = count.and_then(|count| count.checked_mul(bits)).map(|bits| bits.div_ceil(8));
        let Some(memory) = size.and_then(Memory::new) else { return refuse(c"there is no memory for the tensor") };
        let start = memory.0.cast();
        let Ok(tensor) = embedded::tensor::new_tensor(start, device, dtype, shape, None, 0, memory) else {
            return refuse(c"the tensor has too many dimensions");
        };
        let status = (provider::api().tensor_to_dlpack_versioned)(tensor, out);
        embedded::dec_ref(tensor);
        if status == 0 { 0 } else { refuse(c"the tensor cannot be exported") }
    }
}
