//! NumPy's memory, held while Rust code uses it. A reference to an array, or a buffer of it, does
//! not hold its memory: `resize` and `__setstate__` replace it. They free only memory that the
//! array owns, so an array in use is temporarily marked as not owning its memory.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use super::lent_memory::{Lent, with_holders};
use crate::cpython::capi::{Py, PyObject};
use crate::cpython::object::PyResult;

/// `PyArrayObject_fields` of NumPy 1 and 2, after the object header.
#[repr(C)]
pub(super) struct ArrayFields {
    pub(super) data: *mut c_void,
    pub(super) ndim: c_int,
    pub(super) dimensions: *const isize,
    pub(super) strides: *const isize,
    pub(super) base: *mut PyObject,
    pub(super) descr: *mut PyObject,
    pub(super) flags: c_int,
}

/// NumPy's flag for an array that frees its memory.
const OWNS_DATA: c_int = 0x0004;

/// NumPy's array class, once NumPy was seen; a reference to it is kept.
static NDARRAY: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// NumPy's class of the object between an array and its base in `as_strided`, or NULL; a reference
/// to it is kept.
static DUMMY_ARRAY: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// The most bases that are followed. In NumPy 1 they can form a cycle.
const DEEPEST: usize = 1000;

/// NumPy's array class, if NumPy is imported, in a version whose memory layout is known; else NULL.
#[inline]
pub(crate) fn ndarray(py: Py) -> PyResult<*mut PyObject> {
    let known = NDARRAY.load(Ordering::Acquire);
    if known.is_null() { find_ndarray(py) } else { Ok(known) }
}

#[cold]
fn find_ndarray(py: Py) -> PyResult<*mut PyObject> {
    // SAFETY: the objects are alive while they are used.
    unsafe {
        let numpy = py.text("numpy")?;
        let Some(numpy) = py.imported(numpy.as_ptr())? else { return Ok(ptr::null_mut()) };
        let Some(ndarray) = py.attribute_if_any(numpy.as_ptr(), c"ndarray")? else { return Ok(ptr::null_mut()) };
        let Some(version) = py.attribute_if_any(numpy.as_ptr(), c"__version__")? else { return Ok(ptr::null_mut()) };
        let version = py.str_of(version.as_ptr());
        let is_known_version = version.starts_with("1.") || version.starts_with("2.");
        // Python code may put another class there. It cannot change the names of one that it did
        // not create.
        if !is_known_version || !py.is_fixed_class(ndarray.as_ptr()) {
            return Ok(ptr::null_mut());
        }
        for (attribute, expected) in [(c"__name__", "ndarray"), (c"__module__", "numpy")] {
            let found = py.attribute(ndarray.as_ptr(), attribute)?;
            if py.str_of(found.as_ptr()) != expected {
                return Ok(ptr::null_mut());
            }
        }
        for module in ["numpy.lib._stride_tricks_impl", "numpy.lib.stride_tricks"] {
            if let Some(module) = py.imported(py.text(module)?.as_ptr())?
                && let Some(dummy) = py.attribute_if_any(module.as_ptr(), c"DummyArray")?
            {
                DUMMY_ARRAY.store(dummy.into_ptr(), Ordering::Release);
                break;
            }
        }
        let class = ndarray.into_ptr();
        NDARRAY.store(class, Ordering::Release);
        Ok(class)
    }
}

/// The fields of an array.
///
/// # Safety
/// `array` is alive, and its class is [`ndarray`] or derived from it.
pub(super) unsafe fn fields(py: Py, array: *mut PyObject) -> *mut ArrayFields {
    // SAFETY: promised by the caller: they follow the header.
    unsafe { array.byte_add(py.header()).cast() }
}

/// # Safety
/// `array` is alive, and its class is [`ndarray`] or derived from it; the result is not used
/// longer.
unsafe fn flags<'a>(py: Py, array: *mut PyObject) -> &'a AtomicI32 {
    // SAFETY: promised by the caller.
    unsafe { AtomicI32::from_ptr(&raw mut (*fields(py, array)).flags) }
}

/// The memory of an array, which is not freed as long as this lives.
pub(crate) struct Held {
    /// The array that owns the memory, or another object that it comes from; the memory is NULL if
    /// the owner is not an array that owns memory.
    lent: Lent,
    /// True if there is a reference to the owner: it is not the array itself.
    is_counted: bool,
}

impl Held {
    /// Holds the memory of an array.
    ///
    /// # Safety
    /// `array` is alive until the memory is released, and its class is [`ndarray`], not NULL, or
    /// derived from it.
    #[inline]
    pub(crate) unsafe fn new(py: Py, array: *mut PyObject) -> Self {
        // SAFETY: promised by the caller. No code of Python runs.
        unsafe {
            match (*fields(py, array)).base.is_null() {
                true => Self { lent: hold(py, array), is_counted: false },
                false => Self::of_view(py, array),
            }
        }
    }

    /// Holds the memory of an object with a buffer if it is an array, or a `memoryview` of one;
    /// `None` for other objects.
    ///
    /// # Safety
    /// `object` is alive, and stays so until the memory is released.
    pub(crate) unsafe fn behind(py: Py, object: *mut PyObject) -> PyResult<Option<Self>> {
        let class = ndarray(py)?;
        // SAFETY: promised by the caller.
        unsafe {
            if class.is_null() {
                return Ok(None);
            }
            if is_array(py, object, class) {
                return Ok(Some(Self::new(py, object)));
            }
            Ok((py.type_of(object) == py.PyMemoryView_Type()).then(|| Self::of_view(py, object)))
        }
    }

    /// Finds the array that owns the memory of an array with a base, or of a `memoryview`. An array
    /// with a base may own memory, too: the base of an array with `WRITEBACKIFCOPY` is the array to
    /// which it is written back.
    ///
    /// # Safety
    /// As for [`Held::new`], or `view` is a `memoryview`.
    #[inline(never)]
    unsafe fn of_view(py: Py, view: *mut PyObject) -> Self {
        let class = NDARRAY.load(Ordering::Acquire);
        let dummy = DUMMY_ARRAY.load(Ordering::Acquire);
        // SAFETY: promised by the caller; an array keeps its base. What else has led to the owner
        // is kept here.
        unsafe {
            let mut owner = view;
            let mut kept;
            let mut steps = 0;
            let memory = loop {
                steps += 1;
                if steps > DEEPEST {
                    break ptr::null_mut();
                }
                if is_array(py, owner, class) {
                    let memory = hold(py, owner).memory;
                    let base = (*fields(py, owner)).base;
                    if !memory.is_null() || base.is_null() {
                        break memory;
                    }
                    owner = base;
                    continue;
                }
                let class = py.type_of(owner);
                let attribute = if class == py.PyMemoryView_Type() {
                    c"obj"
                } else if class == dummy {
                    c"base"
                } else {
                    break ptr::null_mut();
                };
                kept = py.attribute(owner, attribute);
                let Ok(object) = &kept else {
                    // A released `memoryview`.
                    py.PyErr_Clear();
                    break ptr::null_mut();
                };
                owner = object.as_ptr();
            };
            py.Py_IncRef(owner);
            Self { lent: Lent { memory, owner }, is_counted: true }
        }
    }

    /// Releases the memory. An array that has got other memory meanwhile does not get this memory
    /// back: it is leaked.
    #[inline]
    pub(crate) fn release(self, py: Py) {
        let Lent { memory, owner } = self.lent;
        // SAFETY: the owner is alive: the array that was held is, or it has a reference, which is
        // given up once.
        unsafe {
            if !memory.is_null() {
                with_holders(py, |holders| {
                    if holders.remove(self.lent) && (*fields(py, owner)).data == memory {
                        let flags = flags(py, owner);
                        flags.store(flags.load(Ordering::Relaxed) | OWNS_DATA, Ordering::Relaxed);
                    }
                });
            }
            if self.is_counted {
                py.Py_DecRef(owner);
            }
        }
    }
}

/// # Safety
/// `object` is alive.
unsafe fn is_array(py: Py, object: *mut PyObject, class: *mut PyObject) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        let of = py.type_of(object);
        of == class || py.PyType_IsSubtype(of, class) != 0
    }
}

/// Holds the memory that an array owns, or owned before others held it; it is NULL for another
/// array.
///
/// # Safety
/// As for [`flags`].
#[inline]
unsafe fn hold(py: Py, owner: *mut PyObject) -> Lent {
    // SAFETY: promised by the caller.
    unsafe {
        let lent = Lent { memory: (*fields(py, owner)).data, owner };
        with_holders(py, |holders| {
            let flags = flags(py, owner);
            let now = flags.load(Ordering::Relaxed);
            if now & OWNS_DATA != 0 {
                // The interpreter's lock, or that of the table, is held. NumPy has no other lock.
                flags.store(now & !OWNS_DATA, Ordering::Relaxed);
                holders.insert(lent);
                return lent;
            }
            if holders.add(lent) { lent } else { Lent { memory: ptr::null_mut(), owner } }
        })
    }
}
