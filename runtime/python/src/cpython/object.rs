//! References to Python objects, and operations on any object.

use core::cell::Cell;
use core::ffi::{CStr, c_ulong};
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

use super::capi::{Py, PyObject, constant};

/// A Python exception is set on this thread; the function that returns to the interpreter returns
/// NULL.
#[derive(Debug)]
pub(crate) struct Raised;

/// The result of code that may raise a Python exception.
pub(crate) type PyResult<T> = Result<T, Raised>;

/// One counted reference to a Python object. It is created and dropped while the interpreter's lock
/// is held: it never leaves the call that created it, and code that releases the lock keeps none
/// meanwhile.
#[repr(transparent)]
pub(crate) struct Owned(NonNull<PyObject>);

impl Owned {
    /// Takes over the new reference that a function of CPython returned; NULL means that it raised
    /// an exception.
    ///
    /// # Safety
    /// `object` is NULL with an exception set, or one reference to it is the caller's.
    #[inline]
    pub(crate) unsafe fn take(_: Py, object: *mut PyObject) -> PyResult<Self> {
        NonNull::new(object).map(Self).ok_or(Raised)
    }

    /// Another reference to an object.
    ///
    /// # Safety
    /// `object` is alive.
    #[inline]
    pub(crate) unsafe fn share(py: Py, object: *mut PyObject) -> Self {
        // SAFETY: promised by the caller; live objects are not at address 0.
        unsafe {
            py.Py_IncRef(object);
            Self(NonNull::new_unchecked(object))
        }
    }

    /// The object, borrowed.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut PyObject {
        self.0.as_ptr()
    }

    /// Gives up the reference: it now belongs to the pointer.
    #[inline]
    pub(crate) fn into_ptr(self) -> *mut PyObject {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for Owned {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this value owns the reference, and the lock is held, as the type requires.
        unsafe { release(self.0.as_ptr()) }
    }
}

/// Releases a reference. One small function for hundreds of call sites: because it cannot unwind,
/// it needs no landing pads.
///
/// # Safety
/// The reference is the caller's, and the lock is held.
#[inline(never)]
pub(crate) unsafe extern "C" fn release(object: *mut PyObject) {
    // SAFETY: promised by the caller.
    unsafe { Py::held().Py_DecRef(object) }
}

impl Py {
    /// Creates a text.
    #[inline]
    pub(crate) fn text(self, text: &str) -> PyResult<Owned> {
        self.text_of(text.as_bytes())
    }

    /// Creates a text. Text of other languages may be invalid UTF-8; invalid bytes become
    /// surrogates, as in file names.
    #[inline(never)]
    pub(crate) fn text_of(self, bytes: &[u8]) -> PyResult<Owned> {
        self.new_text(bytes)
    }

    /// Like [`Py::text_of`], for the few places that are time-critical.
    #[inline(always)]
    pub(crate) fn new_text(self, bytes: &[u8]) -> PyResult<Owned> {
        // The interpreter has a single text for each character, which the general function returns.
        if (2..=Self::SHORT).contains(&bytes.len())
            && bytes.is_ascii()
            && let Some(new) = self.PyUnicode_New()
        {
            const LARGEST_ASCII: u32 = 127;
            // SAFETY: a new text with that many characters, all of them ASCII, which nothing else
            // has yet.
            unsafe {
                let object = Owned::take(self, new(bytes.len() as isize, LARGEST_ASCII))?;
                if let Some(place) = self.ascii_place(object.as_ptr()) {
                    place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                    return Ok(object);
                }
            }
        }
        let (start, size) = (bytes.as_ptr().cast(), bytes.len() as isize);
        // SAFETY: the bytes live for the call.
        unsafe { Owned::take(self, self.PyUnicode_DecodeUTF8(start, size, c"surrogateescape".as_ptr())) }
    }

    /// The longest text, in bytes, that is examined here: for longer ones the interpreter is as
    /// fast.
    const SHORT: usize = 256;

    /// Creates an interned text, which is a single object.
    #[inline(never)]
    pub(crate) fn interned(self, text: &str) -> PyResult<Owned> {
        let mut object = self.text(text)?.into_ptr();
        // SAFETY: the reference is ours; the function may put another object in its place.
        unsafe {
            self.PyUnicode_InternInPlace(&mut object);
            Owned::take(self, object)
        }
    }

    /// Creates a tuple.
    pub(crate) fn tuple<const N: usize>(self, items: [Owned; N]) -> PyResult<Owned> {
        let items = ManuallyDrop::new(items);
        // SAFETY: an owned reference is a pointer; the references go over to the function.
        unsafe { self.tuple_of(items.as_ptr().cast(), N) }
    }

    /// Creates a tuple of `count` objects, whose references it takes over.
    ///
    /// # Safety
    /// There are `count` objects, and one reference to each is the caller's.
    #[inline(never)]
    unsafe fn tuple_of(self, items: *const *mut PyObject, count: usize) -> PyResult<Owned> {
        // SAFETY: promised by the caller; a new tuple with that many places, each of which takes
        // over a reference.
        unsafe {
            let mut tuple = Owned::take(self, self.PyTuple_New(count as isize));
            for index in 0..count {
                let item = *items.add(index);
                match &tuple {
                    // The tuple is new, and no other code has run since it was created.
                    Ok(new) => {
                        if !self.set_item(new.as_ptr(), index, item) {
                            tuple = Err(Raised);
                        }
                    }
                    Err(Raised) => self.Py_DecRef(item),
                }
            }
            tuple
        }
    }

    /// Sets an element of a tuple under construction. It is an error if other code has found the
    /// tuple meanwhile, through the garbage collector.
    ///
    /// # Safety
    /// `tuple` is a live `tuple`.
    pub(crate) unsafe fn put(self, tuple: &Owned, index: usize, item: Owned) -> PyResult<()> {
        // SAFETY: promised by the caller; the function takes the reference over, also when it
        // fails.
        match unsafe { self.PyTuple_SetItem(tuple.as_ptr(), index as isize, item.into_ptr()) } {
            0 => Ok(()),
            _ => Err(Raised),
        }
    }

    /// The class of an object, with a reference to it: Python code may change the object's class,
    /// and then there may be no other reference to this one.
    ///
    /// # Safety
    /// `object` is alive.
    pub(crate) unsafe fn class_of(self, object: *mut PyObject) -> Owned {
        // SAFETY: promised by the caller.
        unsafe { Owned::share(self, self.type_of(object)) }
    }

    /// Returns true if an object is a class that Python code can neither create nor change.
    ///
    /// # Safety
    /// `object` is alive.
    pub(crate) unsafe fn is_fixed_class(self, object: *mut PyObject) -> bool {
        const MADE: c_ulong = constant::HEAP_TYPE;
        const EITHER: c_ulong = MADE | constant::IMMUTABLE_TYPE;
        // SAFETY: promised by the caller; only the flags of a class are read.
        unsafe {
            let is_class = self.PyType_GetFlags(self.type_of(object)) & constant::TYPE_SUBCLASS != 0;
            is_class && self.PyType_GetFlags(object) & EITHER != MADE
        }
    }

    /// An attribute of an object.
    ///
    /// # Safety
    /// `object` is alive.
    #[inline(never)]
    pub(crate) unsafe fn attribute(self, object: *mut PyObject, name: &CStr) -> PyResult<Owned> {
        // SAFETY: promised by the caller.
        unsafe { Owned::take(self, self.PyObject_GetAttrString(object, name.as_ptr())) }
    }

    /// An attribute of an object, if it has one; other errors are exceptions.
    ///
    /// # Safety
    /// `object` is alive.
    #[inline(never)]
    pub(crate) unsafe fn attribute_if_any(self, object: *mut PyObject, name: &CStr) -> PyResult<Option<Owned>> {
        // SAFETY: promised by the caller.
        match unsafe { self.attribute(object, name) } {
            Ok(found) => Ok(Some(found)),
            // SAFETY: an exception is set.
            Err(Raised) => unsafe {
                if self.PyErr_ExceptionMatches(self.PyExc_AttributeError()) == 0 {
                    return Err(Raised);
                }
                self.PyErr_Clear();
                Ok(None)
            },
        }
    }

    /// A module, imported if necessary.
    #[inline(never)]
    pub(crate) fn import(self, name: &CStr) -> PyResult<Owned> {
        // SAFETY: a C string.
        unsafe { Owned::take(self, self.PyImport_ImportModule(name.as_ptr())) }
    }

    /// The entry of a dict for a key.
    ///
    /// # Safety
    /// `dict` is a live `dict`, `key` a live `str`.
    #[inline(never)]
    pub(crate) unsafe fn dict_item(self, dict: *mut PyObject, key: *mut PyObject) -> PyResult<Option<Owned>> {
        // SAFETY: promised by the caller. Without the interpreter's lock other threads may change
        // the dict meanwhile, so a reference is requested; versions without that function have the
        // lock.
        unsafe {
            let mut found = ptr::null_mut();
            match self.PyDict_GetItemRef() {
                Some(get) if get(dict, key, &mut found) < 0 => return Err(Raised),
                Some(_) => {}
                None => {
                    found = self.PyDict_GetItemWithError(dict, key);
                    if found.is_null() && !self.PyErr_Occurred().is_null() {
                        return Err(Raised);
                    }
                    if !found.is_null() {
                        self.Py_IncRef(found);
                    }
                }
            }
            Ok(NonNull::new(found).map(Owned))
        }
    }

    /// The entry of a dict for a key, which is `value` if there was none.
    ///
    /// # Safety
    /// `dict` is a live `dict`, `key` a `str`.
    pub(crate) unsafe fn set_default(self, dict: *mut PyObject, key: &Owned, value: &Owned) -> PyResult<Owned> {
        // SAFETY: promised by the caller. As for `dict_item`: a borrowed entry is shared before
        // other code runs.
        unsafe {
            let Some(set) = self.PyDict_SetDefaultRef() else {
                let found = self.PyDict_SetDefault(dict, key.as_ptr(), value.as_ptr());
                return NonNull::new(found).map(|found| Owned::share(self, found.as_ptr())).ok_or(Raised);
            };
            let mut found = ptr::null_mut();
            match set(dict, key.as_ptr(), value.as_ptr(), &mut found) {
                -1 => Err(Raised),
                _ => Owned::take(self, found),
            }
        }
    }

    /// The element of a list at an index; `None` at its end, which other threads may move
    /// meanwhile.
    ///
    /// # Safety
    /// `list` is a live `list`.
    #[inline]
    pub(crate) unsafe fn list_item(self, list: *mut PyObject, index: isize) -> PyResult<Option<Owned>> {
        // SAFETY: promised by the caller; as for a dict.
        unsafe {
            if index >= self.PyList_Size(list) {
                return Ok(None);
            }
            let Some(get) = self.PyList_GetItemRef() else {
                return Ok(Some(Owned::share(self, self.PyList_GetItem(list, index))));
            };
            match Owned::take(self, get(list, index)) {
                Ok(item) => Ok(Some(item)),
                Err(Raised) if self.PyErr_ExceptionMatches(self.PyExc_IndexError()) != 0 => {
                    self.PyErr_Clear();
                    Ok(None)
                }
                Err(Raised) => Err(Raised),
            }
        }
    }

    /// A module that is imported already.
    ///
    /// # Safety
    /// `name` is a live `str`.
    pub(crate) unsafe fn imported(self, name: *mut PyObject) -> PyResult<Option<Owned>> {
        // SAFETY: promised by the caller; the dict of modules lives as long as the interpreter.
        unsafe { self.dict_item(self.PyImport_GetModuleDict(), name) }
    }

    /// Calls a callable with positional arguments.
    ///
    /// # Safety
    /// `callable` is alive.
    pub(crate) unsafe fn call<const N: usize>(self, callable: *mut PyObject, arguments: [Owned; N]) -> PyResult<Owned> {
        let arguments = self.tuple(arguments);
        // SAFETY: promised by the caller.
        unsafe { self.call_with(callable, arguments) }
    }

    /// # Safety
    /// As for [`Py::call`]; the arguments are a tuple.
    #[inline(never)]
    unsafe fn call_with(self, callable: *mut PyObject, arguments: PyResult<Owned>) -> PyResult<Owned> {
        let arguments = arguments?;
        // SAFETY: promised by the caller; the arguments are a tuple.
        unsafe { Owned::take(self, self.PyObject_CallObject(callable, arguments.as_ptr())) }
    }

    /// The number that an object represents as an index.
    ///
    /// # Safety
    /// `object` is alive.
    #[inline(never)]
    pub(crate) unsafe fn integer_of(self, object: *mut PyObject) -> PyResult<i64> {
        // SAFETY: promised by the caller; `__index__` returns an `int`, or the call raises.
        unsafe {
            let index = Owned::take(self, self.PyNumber_Index(object))?;
            let value = self.PyLong_AsLongLong(index.as_ptr());
            if value == -1 && !self.PyErr_Occurred().is_null() { Err(Raised) } else { Ok(value) }
        }
    }

    /// The name of an object's class, for messages.
    ///
    /// # Safety
    /// `object` is alive.
    #[inline(never)]
    pub(crate) unsafe fn class_name(self, object: *mut PyObject) -> String {
        // SAFETY: promised by the caller.
        let name = unsafe { self.attribute(self.class_of(object).as_ptr(), c"__name__") };
        let text = name.and_then(|name| {
            // SAFETY: `name` is alive until the text was copied.
            unsafe { self.utf8(name.as_ptr()).map(|bytes| String::from_utf8_lossy(bytes).into_owned()) }
        });
        text.unwrap_or_else(|Raised| {
            // SAFETY: an exception is set; the name is only decoration.
            unsafe { self.PyErr_Clear() };
            "object".to_owned()
        })
    }

    /// The UTF-8 form of a text, which the text caches.
    ///
    /// # Safety
    /// `text` is a live `str`, and the result is not used longer than it.
    #[inline]
    pub(crate) unsafe fn utf8<'a>(self, text: *mut PyObject) -> PyResult<&'a [u8]> {
        let mut size = 0;
        // SAFETY: promised by the caller; the function returns `size` bytes of the object.
        unsafe {
            let start = self.PyUnicode_AsUTF8AndSize(text, &mut size);
            if start.is_null() {
                return Err(Raised);
            }
            Ok(core::slice::from_raw_parts(start.cast(), size as usize))
        }
    }

    /// The text of `str(object)`; a placeholder if that raises.
    ///
    /// # Safety
    /// `object` is alive.
    #[inline(never)]
    pub(crate) unsafe fn str_of(self, object: *mut PyObject) -> String {
        // SAFETY: promised by the caller; the text lives until it was copied.
        let text = unsafe {
            Owned::take(self, self.PyObject_Str(object))
                .and_then(|text| self.utf8(text.as_ptr()).map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
        };
        text.unwrap_or_else(|Raised| {
            // SAFETY: an exception is set, about a text that is only shown.
            unsafe { self.PyErr_Clear() };
            "<no text>".to_owned()
        })
    }

    /// Converts a value that may be nested infinitely, such as a list that contains itself; beyond
    /// a depth for which every thread has enough stack, this raises a RecursionError.
    pub(crate) fn nested<T, E: From<Raised>>(self, convert: impl FnOnce(Self) -> Result<T, E>) -> Result<T, E> {
        const DEEPEST: u32 = 400;
        thread_local!(static DEPTH: Cell<u32> = const { Cell::new(0) });
        let depth = DEPTH.get();
        if depth >= DEEPEST {
            return Err(self.raise(self.PyExc_RecursionError(), "a container is nested more than 400 deep").into());
        }
        DEPTH.set(depth + 1);
        let result = convert(self);
        DEPTH.set(depth);
        result
    }

    /// Sets an exception of a class with this text.
    #[cold]
    pub(crate) fn raise(self, class: *mut PyObject, text: &str) -> Raised {
        if let Ok(text) = self.text(text) {
            // SAFETY: the class is one of the interpreter's, and the text is alive.
            unsafe { self.PyErr_SetObject(class, text.as_ptr()) };
        }
        // Otherwise there is no memory, and the MemoryError is raised.
        Raised
    }
}
