//! The tables of DLPack's exchange interface, and the array classes that they belong to.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use kernpack_core::abi::{DLManagedTensorVersioned, DLPackVersion, DLTensor};

use crate::cpython::capi::{Py, PyObject, constant};
use crate::cpython::object::{Owned, PyResult};

/// The attribute of a class, and the name of the capsule in it.
pub(crate) const ATTRIBUTE: &CStr = c"__dlpack_c_exchange_api__";
pub(crate) const CAPSULE: &CStr = c"dlpack_exchange_api";
/// The first version of DLPack that has the interface.
pub(crate) const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 3 };

/// Reports a failed allocation.
pub(crate) type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// `DLPackExchangeAPI`. Functions return 0, or -1 with an exception set; a foreign library's table
/// may lack any of them.
#[repr(C)]
pub(crate) struct Api {
    pub(crate) version: DLPackVersion,
    pub(crate) previous: *const Api,
    pub(crate) allocate: Option<Allocate>,
    pub(crate) managed_of: Option<ManagedOf>,
    pub(crate) object_of: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned, *mut *mut PyObject) -> c_int>,
    /// Describes an array that stays alive; NULL if an exporter has no such function.
    pub(crate) borrow: Option<unsafe extern "C" fn(*mut PyObject, *mut DLTensor) -> c_int>,
    pub(crate) current_stream: Option<unsafe extern "C" fn(c_int, i32, *mut *mut c_void) -> c_int>,
}

type Allocate = unsafe extern "C" fn(*mut DLTensor, *mut *mut DLManagedTensorVersioned, *mut c_void, SetError) -> c_int;
pub(crate) type ManagedOf = unsafe extern "C" fn(*mut PyObject, *mut *mut DLManagedTensorVersioned) -> c_int;

/// An array class with the interface. It is never released, and neither is the capsule, so the
/// class and the table live forever.
pub(crate) struct Known {
    class: *mut PyObject,
    pub(crate) api: &'static Api,
    /// The method that returns an array's storage, for PyTorch's tensors; NULL for others. The lent
    /// description of such a tensor holds the tensor, and Python code may replace its storage and
    /// shape at any time.
    pub(crate) storage: *mut PyObject,
    /// The methods `is_conj` and `is_neg` of PyTorch's tensors: the elements are the conjugates, or
    /// the negatives, of those in memory, which the interface does not report. NULL for others.
    pub(crate) is_conjugate: *mut PyObject,
    pub(crate) is_negative: *mut PyObject,
}

/// The classes seen so far; there are few in a process.
static KNOWN: [AtomicPtr<Known>; 16] = [const { AtomicPtr::new(ptr::null_mut()) }; 16];

/// The class, if it has the interface.
///
/// # Safety
/// `class` is alive.
pub(crate) unsafe fn known(py: Py, class: *mut PyObject) -> PyResult<Option<&'static Known>> {
    for known in &KNOWN {
        // SAFETY: stored values live forever.
        match unsafe { known.load(Ordering::Acquire).as_ref() } {
            Some(known) if known.class == class => return Ok(Some(known)),
            Some(_) => {}
            None => break,
        }
    }
    // SAFETY: promised by the caller. Held: code of Python may give the attribute, and the object
    // another class.
    unsafe { new_known(py, Owned::share(py, class)) }
}

/// Examines a new class and caches it. `None` if it has no interface, or one that is not its own;
/// such arrays are converted through `__dlpack__`.
#[inline(never)]
fn new_known(py: Py, class: Owned) -> PyResult<Option<&'static Known>> {
    // SAFETY: the objects are alive. A capsule of this name has such a table, by the rules of
    // DLPack, which lives as long as the class and the capsule; these are kept.
    unsafe {
        let Some(capsule) = py.attribute_if_any(class.as_ptr(), ATTRIBUTE)? else { return Ok(None) };
        if !is_own_interface(py, &class, &capsule)? {
            return Ok(None);
        }
        let Some(api) = usable(py, &capsule) else { return Ok(None) };
        let mut methods = [None, None, None];
        for (method, name) in methods.iter_mut().zip([c"untyped_storage", c"is_conj", c"is_neg"]) {
            *method = py.attribute_if_any(class.as_ptr(), name)?;
            // Not one of PyTorch's classes.
            if method.is_none() {
                break;
            }
        }
        let [storage, is_conjugate, is_negative] =
            methods.each_ref().map(|method| method.as_ref().map_or(ptr::null_mut(), Owned::as_ptr));
        let known = Known { class: class.as_ptr(), api, storage, is_conjugate, is_negative };
        let new = Box::into_raw(Box::new(known));
        let is_taken = |place: &AtomicPtr<Known>| {
            place.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        if KNOWN.iter().any(is_taken) {
            let _kept = (class.into_ptr(), capsule.into_ptr(), methods.map(|method| method.map(Owned::into_ptr)));
            return Ok(Some(&*new));
        }
        // There is no slot left, so nothing would keep the table alive.
        drop(Box::from_raw(new));
        Ok(None)
    }
}

/// The usable table in a capsule: of the right major version, with the functions that are called
/// here.
///
/// # Safety
/// The capsule, which may be any object, is alive for as long as the result is used.
unsafe fn usable(py: Py, capsule: &Owned) -> Option<&'static Api> {
    /// The most older versions of a table that are examined.
    const VERSIONS: usize = 16;
    // SAFETY: promised by the caller. Every table begins with its version and the one before it;
    // one of the same major version has these functions.
    unsafe {
        if py.PyCapsule_IsValid(capsule.as_ptr(), CAPSULE.as_ptr()) == 0 {
            return None;
        }
        let mut table = py.PyCapsule_GetPointer(capsule.as_ptr(), CAPSULE.as_ptr()).cast_const().cast::<Api>();
        for _ in 0..VERSIONS {
            if table.is_null() || !table.is_aligned() {
                return None;
            }
            match (*table).version.major {
                major if major > VERSION.major => table = (*table).previous,
                major if major < VERSION.major => return None,
                _ => return Some(&*table).filter(|api| api.managed_of.is_some()),
            }
        }
        None
    }
}

/// Returns true if the interface of a class belongs to the class that determines the memory layout
/// of its objects. The functions do not check their arguments, and Python code may make any capsule
/// an attribute of any class.
fn is_own_interface(py: Py, class: &Owned, capsule: &Owned) -> PyResult<bool> {
    // SAFETY: the classes are alive, held by one that is derived from them. Slots are only read
    // from classes that Python code can create.
    unsafe {
        let Some(python) = destructor_of_python(py)? else { return Ok(false) };
        let mut derived = Vec::new();
        let mut native = Owned::share(py, class.as_ptr());
        while !py.is_fixed_class(native.as_ptr()) && py.PyType_GetSlot(native.as_ptr(), constant::TP_DEALLOC) == python
        {
            let base = py.PyType_GetSlot(native.as_ptr(), constant::TP_BASE).cast::<PyObject>();
            if base.is_null() {
                return Ok(false);
            }
            derived.push(core::mem::replace(&mut native, Owned::share(py, base)));
        }
        if native.as_ptr() == py.PyBaseObject_Type() {
            return Ok(false);
        }
        // The first class of the package of the native one, such as `torch.Tensor` for
        // `torch._C.TensorBase`.
        let package = package(py, &native)?;
        let mut owner = &native;
        for class in &derived {
            if self::package(py, class)? == package {
                owner = class;
                break;
            }
        }
        let own = py.attribute_if_any(owner.as_ptr(), ATTRIBUTE)?;
        Ok(own.is_some_and(|own| own.as_ptr() == capsule.as_ptr()))
    }
}

/// The first part of the name of a class's module.
fn package(py: Py, class: &Owned) -> PyResult<String> {
    // SAFETY: the objects are alive while they are used.
    unsafe {
        let Some(module) = py.attribute_if_any(class.as_ptr(), c"__module__")? else { return Ok(String::new()) };
        let module = py.str_of(module.as_ptr());
        Ok(module.split('.').next().unwrap_or_default().to_owned())
    }
}

/// The destructor of classes that Python code creates: one is created to read it.
fn destructor_of_python(py: Py) -> PyResult<Option<*mut c_void>> {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let mut found = FOUND.load(Ordering::Acquire);
    if found.is_null() {
        // SAFETY: the class of classes, called for a class without bases; its result is a class of
        // Python.
        unsafe {
            let arguments = [py.text("probe")?, py.tuple([])?, Owned::take(py, py.PyDict_New())?];
            let probe = py.call(py.type_of(py.PyBaseObject_Type()), arguments)?;
            found = py.PyType_GetSlot(probe.as_ptr(), constant::TP_DEALLOC);
        }
        FOUND.store(found, Ordering::Release);
    }
    Ok((!found.is_null()).then_some(found))
}
