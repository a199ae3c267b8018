//! The functions of CPython, looked up in the process when the library is imported. Nothing links
//! libpython, so one file serves every version and every other host.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use kernpack_core::embedded::dynamic_linker::{Scope, loaded_files};

/// A Python object. Its layout belongs to the interpreter; only the offset of its type is used.
#[repr(C)]
pub struct PyObject {
    _layout: [u8; 0],
}

/// `PyMethodDef`.
#[repr(C)]
pub(crate) struct PyMethodDef {
    pub(crate) name: *const c_char,
    pub(crate) function: *const c_void,
    pub(crate) flags: c_int,
    pub(crate) doc: *const c_char,
}

impl PyMethodDef {
    /// Ends a list of methods.
    pub(crate) const END: Self = Self { name: ptr::null(), function: ptr::null(), flags: 0, doc: ptr::null() };
}

/// `PyType_Slot`, and `PyModuleDef_Slot`, which has the same layout.
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) id: c_int,
    pub(crate) value: *const c_void,
}

impl Slot {
    /// Ends a list of slots.
    pub(crate) const END: Self = Self { id: 0, value: ptr::null() };
}

/// `PyType_Spec`.
#[repr(C)]
pub(crate) struct PyTypeSpec {
    pub(crate) name: *const c_char,
    pub(crate) basic_size: c_int,
    pub(crate) item_size: c_int,
    pub(crate) flags: c_uint,
    pub(crate) slots: *const Slot,
}

/// A function with `METH_FASTCALL | METH_KEYWORDS`.
pub(crate) type FastCall =
    unsafe extern "C" fn(*mut PyObject, *const *mut PyObject, isize, *mut PyObject) -> *mut PyObject;

/// Constants of the headers that never change.
pub(crate) mod constant {
    #![allow(missing_docs, reason = "the names are those of the headers")]
    use core::ffi::{c_int, c_uint, c_ulong};

    pub(crate) const METH_VARARGS: c_int = 1;
    pub(crate) const METH_KEYWORDS: c_int = 2;
    pub(crate) const METH_NOARGS: c_int = 4;
    pub(crate) const METH_O: c_int = 8;
    pub(crate) const METH_FASTCALL: c_int = 0x80;
    pub(crate) const TPFLAGS_DEFAULT: c_uint = 1 << 18;
    pub(crate) const LONG_SUBCLASS: c_ulong = 1 << 24;
    pub(crate) const LIST_SUBCLASS: c_ulong = 1 << 25;
    pub(crate) const TUPLE_SUBCLASS: c_ulong = 1 << 26;
    pub(crate) const BYTES_SUBCLASS: c_ulong = 1 << 27;
    pub(crate) const UNICODE_SUBCLASS: c_ulong = 1 << 28;
    pub(crate) const DICT_SUBCLASS: c_ulong = 1 << 29;
    pub(crate) const BASE_EXCEPTION_SUBCLASS: c_ulong = 1 << 30;
    pub(crate) const TYPE_SUBCLASS: c_ulong = 1 << 31;
    pub(crate) const HEAP_TYPE: c_ulong = 1 << 9;
    pub(crate) const IMMUTABLE_TYPE: c_ulong = 1 << 8;
    pub(crate) const TPFLAGS_HAVE_GC: c_uint = 1 << 14;
    pub(crate) const TP_CALL: c_int = 50;
    pub(crate) const TP_CLEAR: c_int = 51;
    pub(crate) const TP_TRAVERSE: c_int = 71;
    pub(crate) const TP_DEALLOC: c_int = 52;
    pub(crate) const TP_DOC: c_int = 56;
    pub(crate) const SQ_ITEM: c_int = 44;
    pub(crate) const SQ_LENGTH: c_int = 45;
    pub(crate) const MP_ASS_SUBSCRIPT: c_int = 3;
    pub(crate) const MP_LENGTH: c_int = 4;
    pub(crate) const MP_SUBSCRIPT: c_int = 5;
    pub(crate) const TP_ITER: c_int = 62;
    pub(crate) const BF_GETBUFFER: c_int = 1;
    pub(crate) const BF_RELEASEBUFFER: c_int = 2;
    pub(crate) const TP_HASH: c_int = 59;
    pub(crate) const TP_INIT: c_int = 60;
    pub(crate) const TP_REPR: c_int = 66;
    pub(crate) const TP_RICHCOMPARE: c_int = 67;
    pub(crate) const TP_MEMBERS: c_int = 72;
    pub(crate) const TP_GETSET: c_int = 73;
    pub(crate) const TPFLAGS_BASETYPE: c_uint = 1 << 10;
    pub(crate) const MEMBER_OFFSET: c_int = 19;
    pub(crate) const MEMBER_READ_ONLY: c_int = 1;
    pub(crate) const TP_METHODS: c_int = 64;
    pub(crate) const TP_NEW: c_int = 65;
    pub(crate) const TP_BASE: c_int = 48;
    pub(crate) const TP_FREE: c_int = 74;
    pub(crate) const MOD_EXEC: c_int = 2;
    pub(crate) const MOD_MULTIPLE_INTERPRETERS: c_int = 3;
    pub(crate) const MOD_GIL: c_int = 4;
    pub(crate) const MOD_GIL_NOT_USED: usize = 1;
}

/// `PyGetSetDef`.
#[repr(C)]
pub(crate) struct PyGetSet {
    pub(crate) name: *const c_char,
    pub(crate) get: Option<Getter>,
    pub(crate) set: Option<Setter>,
    pub(crate) doc: *const c_char,
    pub(crate) closure: *mut c_void,
}

/// Reads a property.
pub(crate) type Getter = unsafe extern "C" fn(*mut PyObject, *mut c_void) -> *mut PyObject;
/// Writes a property; NULL deletes it.
pub(crate) type Setter = unsafe extern "C" fn(*mut PyObject, *mut PyObject, *mut c_void) -> c_int;

impl PyGetSet {
    /// Ends a list of properties.
    pub(crate) const END: Self =
        Self { name: ptr::null(), get: None, set: None, doc: ptr::null(), closure: ptr::null_mut() };

    /// Creates a read-only property.
    pub(crate) const fn new(name: &'static core::ffi::CStr, get: Getter, doc: &'static core::ffi::CStr) -> Self {
        Self { name: name.as_ptr(), get: Some(get), set: None, doc: doc.as_ptr(), closure: ptr::null_mut() }
    }
}

/// `PyMemberDef`.
#[repr(C)]
pub(crate) struct PyMember {
    pub(crate) name: *const c_char,
    pub(crate) kind: c_int,
    pub(crate) offset: isize,
    pub(crate) flags: c_int,
    pub(crate) doc: *const c_char,
}

/// `Py_buffer`, whose layout is the same since 3.3.
#[repr(C)]
pub(crate) struct PyBuffer {
    pub(crate) start: *mut c_void,
    pub(crate) owner: *mut PyObject,
    pub(crate) size: isize,
    pub(crate) item_size: isize,
    pub(crate) read_only: c_int,
    pub(crate) ndim: c_int,
    pub(crate) format: *const c_char,
    pub(crate) shape: *mut isize,
    pub(crate) strides: *mut isize,
    pub(crate) suboffsets: *mut isize,
    pub(crate) internal: *mut c_void,
}

macro_rules! table {
    (
        functions { $($function:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)* }
        waiting { $($waiting:ident($($waiting_argument:ident: $waiting_type:ty),*) $(-> $waiting_result:ty)?;)* }
        optional { $($maybe:ident($($maybe_argument:ident: $maybe_type:ty),*) $(-> $maybe_result:ty)?;)* }
        objects { $($object:ident)* }
        variables { $($variable:ident)* }
    ) => {
        /// Functions and objects of the process, in the order of [`NAMES`].
        #[repr(C)]
        #[allow(non_snake_case)]
        struct Table {
            $($function: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
            $($waiting: unsafe extern "C-unwind" fn($($waiting_type),*) $(-> $waiting_result)?,)*
            $($maybe: Option<unsafe extern "C" fn($($maybe_type),*) $(-> $maybe_result)?>,)*
            $($object: *mut PyObject,)*
            $($variable: *const *mut PyObject,)*
        }

        /// The names, each terminated by NUL: functions, functions that not every version has,
        /// objects, variables with objects.
        static NAMES: &str = concat!(
            $(stringify!($function), "\0",)* $(stringify!($waiting), "\0",)* $(stringify!($maybe), "\0",)* $(stringify!($object), "\0",)*
            $(stringify!($variable), "\0",)*
        );
        const FUNCTIONS: usize = [$(stringify!($function),)* $(stringify!($waiting)),*].len();
        const OPTIONAL: usize = [$(stringify!($maybe)),*].len();

        #[allow(non_snake_case, clippy::too_many_arguments, dead_code)]
        impl Py {
            $(
                #[inline]
                #[doc = concat!("`", stringify!($function), "`.")]
                ///
                /// # Safety
                /// The arguments are valid for the C function of this name.
                pub(crate) unsafe fn $function(self, $($argument: $type),*) $(-> $result)? {
                    // SAFETY: the token proves that the interpreter's lock is held; the rest is
                    // promised by the caller.
                    unsafe { (table().$function)($($argument),*) }
                }
            )*
            $(
                #[inline]
                #[doc = concat!("`", stringify!($waiting), "`, which waits for the interpreter's lock. When Python has ended meanwhile, versions before 3.14 end")]
                /// the thread, which unwinds it.
                ///
                /// # Safety
                /// The arguments are valid for the C function of this name.
                pub(crate) unsafe fn $waiting(self, $($waiting_argument: $waiting_type),*) $(-> $waiting_result)? {
                    // SAFETY: promised by the caller.
                    unsafe { (table().$waiting)($($waiting_argument),*) }
                }
            )*
            $(
                #[inline]
                #[doc = concat!("`", stringify!($maybe), "`, where this version has it.")]
                pub(crate) fn $maybe(self) -> Option<unsafe extern "C" fn($($maybe_type),*) $(-> $maybe_result)?> {
                    table().$maybe
                }
            )*
            $(
                #[inline]
                #[doc = concat!("The object `", stringify!($object), "`, borrowed; it lives as long as the interpreter.")]
                pub(crate) fn $object(self) -> *mut PyObject {
                    table().$object
                }
            )*
            $(
                #[inline]
                #[doc = concat!("The object in the variable `", stringify!($variable), "`, borrowed; it lives as long as the interpreter.")]
                pub(crate) fn $variable(self) -> *mut PyObject {
                    // SAFETY: the variable is the interpreter's, which sets it before it imports
                    // anything.
                    unsafe { *table().$variable }
                }
            )*
        }
    };
}

table! {
    functions {
        Py_IncRef(object: *mut PyObject);
        Py_DecRef(object: *mut PyObject);
        Py_IsInitialized() -> c_int;
        Py_GetVersion() -> *const c_char;
        Py_AtExit(function: extern "C" fn()) -> c_int;
        PyGILState_Release(state: c_int);
        PyGILState_GetThisThreadState() -> *mut c_void;
        PyEval_SaveThread() -> *mut c_void;
        PyThreadState_Get() -> *mut c_void;
        PyInterpreterState_Get() -> *mut c_void;
        PyInterpreterState_Main() -> *mut c_void;
        PyErr_Occurred() -> *mut PyObject;
        PyErr_Clear();
        PyErr_CheckSignals() -> c_int;
        PyErr_SetObject(class: *mut PyObject, value: *mut PyObject);
        PyErr_SetNone(class: *mut PyObject);
        PyErr_ExceptionMatches(class: *mut PyObject) -> c_int;
        PyErr_Fetch(class: *mut *mut PyObject, value: *mut *mut PyObject, traceback: *mut *mut PyObject);
        PyErr_Restore(class: *mut PyObject, value: *mut PyObject, traceback: *mut PyObject);
        PyErr_NormalizeException(class: *mut *mut PyObject, value: *mut *mut PyObject, traceback: *mut *mut PyObject);
        PyErr_NewException(name: *const c_char, base: *mut PyObject, dict: *mut PyObject) -> *mut PyObject;
        PyErr_WriteUnraisable(object: *mut PyObject);
        PyErr_WarnEx(category: *mut PyObject, text: *const c_char, level: isize) -> c_int;
        PyException_GetTraceback(exception: *mut PyObject) -> *mut PyObject;
        PyException_SetTraceback(exception: *mut PyObject, traceback: *mut PyObject) -> c_int;
        PyException_SetCause(exception: *mut PyObject, cause: *mut PyObject);
        PyLong_AsLongLong(object: *mut PyObject) -> c_longlong;
        PyLong_AsLongLongAndOverflow(object: *mut PyObject, overflow: *mut c_int) -> c_longlong;
        PyLong_FromLongLong(value: c_longlong) -> *mut PyObject;
        PyFloat_AsDouble(object: *mut PyObject) -> f64;
        PyFloat_FromDouble(value: f64) -> *mut PyObject;
        PyBool_FromLong(value: c_long) -> *mut PyObject;
        PyNumber_Index(object: *mut PyObject) -> *mut PyObject;
        PyIndex_Check(object: *mut PyObject) -> c_int;
        PyUnicode_AsUTF8AndSize(object: *mut PyObject, size: *mut isize) -> *const c_char;
        PyUnicode_FromStringAndSize(text: *const c_char, size: isize) -> *mut PyObject;
        PyUnicode_DecodeUTF8(text: *const c_char, size: isize, errors: *const c_char) -> *mut PyObject;
        PyUnicode_AsEncodedString(text: *mut PyObject, encoding: *const c_char, errors: *const c_char) -> *mut PyObject;
        PyUnicode_InternInPlace(object: *mut *mut PyObject);
        PyUnicode_Compare(left: *mut PyObject, right: *mut PyObject) -> c_int;
        PyBytes_AsStringAndSize(object: *mut PyObject, text: *mut *mut c_char, size: *mut isize) -> c_int;
        PyBytes_FromStringAndSize(text: *const c_char, size: isize) -> *mut PyObject;
        PyList_New(size: isize) -> *mut PyObject;
        PyList_Size(list: *mut PyObject) -> isize;
        PyList_GetItem(list: *mut PyObject, index: isize) -> *mut PyObject;
        PyList_SetItem(list: *mut PyObject, index: isize, item: *mut PyObject) -> c_int;
        PyTuple_New(size: isize) -> *mut PyObject;
        PyTuple_Size(tuple: *mut PyObject) -> isize;
        PyTuple_GetItem(tuple: *mut PyObject, index: isize) -> *mut PyObject;
        PyTuple_SetItem(tuple: *mut PyObject, index: isize, item: *mut PyObject) -> c_int;
        PyDict_New() -> *mut PyObject;
        PyDict_Items(dict: *mut PyObject) -> *mut PyObject;
        PyDict_Next(dict: *mut PyObject, place: *mut isize, key: *mut *mut PyObject, value: *mut *mut PyObject) -> c_int;
        PyDict_Update(dict: *mut PyObject, other: *mut PyObject) -> c_int;
        PySequence_Check(object: *mut PyObject) -> c_int;
        PySequence_List(object: *mut PyObject) -> *mut PyObject;
        PySequence_Contains(object: *mut PyObject, item: *mut PyObject) -> c_int;
        PyObject_GetIter(object: *mut PyObject) -> *mut PyObject;
        PyIter_Next(iterator: *mut PyObject) -> *mut PyObject;
        PyDict_SetItem(dict: *mut PyObject, key: *mut PyObject, value: *mut PyObject) -> c_int;
        PyDict_GetItemWithError(dict: *mut PyObject, key: *mut PyObject) -> *mut PyObject;
        PyDict_SetDefault(dict: *mut PyObject, key: *mut PyObject, value: *mut PyObject) -> *mut PyObject;
        PyDict_Size(dict: *mut PyObject) -> isize;
        PyDict_DelItem(dict: *mut PyObject, key: *mut PyObject) -> c_int;
        PyList_Append(list: *mut PyObject, item: *mut PyObject) -> c_int;
        PyObject_Str(object: *mut PyObject) -> *mut PyObject;
        PyObject_Repr(object: *mut PyObject) -> *mut PyObject;
        PyObject_IsTrue(object: *mut PyObject) -> c_int;
        PyObject_Hash(object: *mut PyObject) -> isize;
        PyObject_GetAttrString(object: *mut PyObject, name: *const c_char) -> *mut PyObject;
        PyObject_SetAttrString(object: *mut PyObject, name: *const c_char, value: *mut PyObject) -> c_int;
        PyObject_GetAttr(object: *mut PyObject, name: *mut PyObject) -> *mut PyObject;
        PyObject_SetAttr(object: *mut PyObject, name: *mut PyObject, value: *mut PyObject) -> c_int;
        PyObject_Call(callable: *mut PyObject, args: *mut PyObject, kwargs: *mut PyObject) -> *mut PyObject;
        PyObject_CallObject(callable: *mut PyObject, args: *mut PyObject) -> *mut PyObject;
        PyObject_GetItem(object: *mut PyObject, key: *mut PyObject) -> *mut PyObject;
        PyObject_SetItem(object: *mut PyObject, key: *mut PyObject, value: *mut PyObject) -> c_int;
        PyObject_DelItem(object: *mut PyObject, key: *mut PyObject) -> c_int;
        PyObject_Size(object: *mut PyObject) -> isize;
        PyObject_IsInstance(object: *mut PyObject, class: *mut PyObject) -> c_int;
        PyObject_RichCompare(left: *mut PyObject, right: *mut PyObject, operation: c_int) -> *mut PyObject;
        PyObject_CheckBuffer(object: *mut PyObject) -> c_int;
        PyObject_GetBuffer(object: *mut PyObject, buffer: *mut PyBuffer, flags: c_int) -> c_int;
        PyObject_ClearWeakRefs(object: *mut PyObject);
        PyWeakref_NewRef(object: *mut PyObject, callback: *mut PyObject) -> *mut PyObject;
        PyObject_GC_UnTrack(object: *mut c_void);
        PyBuffer_Release(buffer: *mut PyBuffer);
        PyCapsule_New(pointer: *mut c_void, name: *const c_char, destructor: Option<unsafe extern "C" fn(*mut PyObject)>) -> *mut PyObject;
        PyCapsule_IsValid(capsule: *mut PyObject, name: *const c_char) -> c_int;
        PyCapsule_GetPointer(capsule: *mut PyObject, name: *const c_char) -> *mut c_void;
        PyCapsule_SetName(capsule: *mut PyObject, name: *const c_char) -> c_int;
        PyDescr_NewMethod(class: *mut PyObject, method: *const PyMethodDef) -> *mut PyObject;
        PyInstanceMethod_New(function: *mut PyObject) -> *mut PyObject;
        PyStaticMethod_New(function: *mut PyObject) -> *mut PyObject;
        PyClassMethod_New(function: *mut PyObject) -> *mut PyObject;
        PyCallable_Check(object: *mut PyObject) -> c_int;
        PyType_IsSubtype(class: *mut PyObject, base: *mut PyObject) -> c_int;
        PyType_GetFlags(class: *mut PyObject) -> c_ulong;
        PyType_GetSlot(class: *mut PyObject, slot: c_int) -> *mut c_void;
        PyObject_Init(object: *mut PyObject, class: *mut PyObject) -> *mut PyObject;
        PyType_GenericAlloc(class: *mut PyObject, items: isize) -> *mut PyObject;
        PyType_FromSpecWithBases(spec: *const PyTypeSpec, bases: *mut PyObject) -> *mut PyObject;
        PyCFunction_NewEx(method: *const PyMethodDef, this: *mut PyObject, module: *mut PyObject) -> *mut PyObject;
        PyModuleDef_Init(def: *mut c_void) -> *mut PyObject;
        PyModule_NewObject(name: *mut PyObject) -> *mut PyObject;
        PyModule_GetNameObject(module: *mut PyObject) -> *mut PyObject;
        PyImport_ImportModule(name: *const c_char) -> *mut PyObject;
        PyImport_GetModuleDict() -> *mut PyObject;
    }
    waiting {
        PyGILState_Ensure() -> c_int;
        PyEval_RestoreThread(state: *mut c_void);
    }
    optional {
        PyErr_GetRaisedException() -> *mut PyObject;
        PyList_GetItemRef(list: *mut PyObject, index: isize) -> *mut PyObject;
        PyDict_GetItemRef(dict: *mut PyObject, key: *mut PyObject, value: *mut *mut PyObject) -> c_int;
        PyDict_SetDefaultRef(dict: *mut PyObject, key: *mut PyObject, value: *mut PyObject, found: *mut *mut PyObject) -> c_int;
        PyObject_Vectorcall(callable: *mut PyObject, args: *const *mut PyObject, count: usize, names: *mut PyObject) -> *mut PyObject;
        PyUnicode_New(size: isize, largest: u32) -> *mut PyObject;
        PyThreadState_GetUnchecked() -> *mut c_void;
        _PyThreadState_UncheckedGet() -> *mut c_void;
        PyCode_NewEmpty(file: *const c_char, function: *const c_char, line: c_int) -> *mut PyObject;
        PyFrame_New(state: *mut c_void, code: *mut PyObject, globals: *mut PyObject, locals: *mut PyObject) -> *mut PyObject;
        PyTraceBack_Here(frame: *mut PyObject) -> c_int;
    }
    objects {
        _Py_NoneStruct _Py_TrueStruct _Py_FalseStruct _Py_NotImplementedStruct PyLong_Type PyFloat_Type PyBool_Type PyUnicode_Type PyBytes_Type PyByteArray_Type PyList_Type PySlice_Type PyMemoryView_Type
        PyTuple_Type PyDict_Type PySet_Type PyComplex_Type PyModule_Type PyBaseObject_Type PyFunction_Type PyMethod_Type PyCFunction_Type
    }
    variables {
        PyExc_BaseException PyExc_Exception PyExc_TypeError PyExc_ValueError PyExc_RuntimeError PyExc_ImportError PyExc_OverflowError PyExc_RecursionError PyExc_AttributeError PyExc_BufferError PyExc_IndexError PyExc_KeyError PyExc_OSError
    }
}

const COUNT: usize = size_of::<Table>() / size_of::<*mut c_void>();

/// The table, once it was found. It is stored by value and not behind a pointer, because each call
/// of a function of CPython reads it.
struct Found(UnsafeCell<MaybeUninit<Table>>);

// SAFETY: it is written once, under a lock, and only read afterwards: by threads that have had the
// lock, or have seen `IS_FOUND`.
unsafe impl Sync for Found {}

static TABLE: Found = Found(UnsafeCell::new(MaybeUninit::uninit()));
/// True when the table exists, and layouts are known.
static IS_FOUND: AtomicBool = AtomicBool::new(false);
/// The offset of an object's type, and of the part that its class adds: 8 and 16, or 24 and 32
/// without the interpreter's lock.
static HEADER: AtomicUsize = AtomicUsize::new(16);

/// The memory layout of ints; 0 if it is unknown.
static LAYOUT: AtomicUsize = AtomicUsize::new(0);
/// The size includes the sign, and follows the header.
const BEFORE_3_12: usize = 1;
/// A tag follows the header: the sign in two bits, the number of digits from the fourth bit on.
const SINCE_3_12: usize = 2;

/// The offset of the characters in an ASCII text, and of the elements in a tuple; 0 if it is
/// unknown.
static TEXT: AtomicUsize = AtomicUsize::new(0);
static TUPLE: AtomicUsize = AtomicUsize::new(0);

#[inline]
fn table() -> &'static Table {
    // SAFETY: a `Py` is only made after `find`, which writes the table before.
    unsafe { (*TABLE.0.get()).assume_init_ref() }
}

/// A token that this thread holds the interpreter's lock, and the interpreter's functions are
/// known. All code that calls CPython takes one.
#[derive(Clone, Copy)]
pub(crate) struct Py(PhantomData<*mut ()>);

impl Py {
    /// The token of this thread.
    ///
    /// # Safety
    /// The library was imported, and this thread holds the interpreter's lock for as long as the
    /// token is used.
    #[inline]
    pub(crate) unsafe fn held() -> Self {
        Self(PhantomData)
    }

    /// The type of an object, borrowed from it.
    ///
    /// # Safety
    /// `object` is alive.
    #[inline]
    pub(crate) unsafe fn type_of(self, object: *mut PyObject) -> *mut PyObject {
        // SAFETY: the type is the last word of an object's header in every version that `find`
        // accepts.
        unsafe { *object.byte_add(HEADER.load(Ordering::Relaxed) - size_of::<usize>()).cast::<*mut PyObject>() }
    }

    /// Returns true if objects have the header of builds with the interpreter's lock: the layouts
    /// of CPython's own structs are then known.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        HEADER.load(Ordering::Relaxed) == 16
    }

    /// Returns true if there may be more than this number of references to an object.
    ///
    /// # Safety
    /// `object` is alive.
    #[inline]
    pub(crate) unsafe fn may_be_shared(self, object: *mut PyObject, references: usize) -> bool {
        // SAFETY: promised by the caller; in these builds a header begins with the number of
        // references, which only this thread changes.
        !self.is_plain() || unsafe { *object.cast::<isize>() as u32 as usize } > references
    }

    /// The size of the part before the one that a class adds to an object, in bytes.
    #[inline]
    pub(crate) fn header(self) -> usize {
        HEADER.load(Ordering::Relaxed)
    }

    /// The value of an `int` of one digit, read in place.
    ///
    /// # Safety
    /// `object` is a live `int`.
    #[inline]
    pub(crate) unsafe fn small_int(self, object: *mut PyObject) -> Option<i64> {
        // SAFETY: promised by the caller; `find` has seen that these versions lay ints out so.
        unsafe {
            let word = *object.byte_add(16).cast::<isize>();
            let digit = i64::from(*object.byte_add(24).cast::<u32>());
            match LAYOUT.load(Ordering::Relaxed) {
                BEFORE_3_12 if (-1..=1).contains(&word) => Some(digit * word as i64),
                SINCE_3_12 if word < 16 => Some(digit * (1 - (word as i64 & 3))),
                _ => None,
            }
        }
    }

    /// The value of a `float`, read in place, if the layout is known.
    ///
    /// # Safety
    /// `object` is a live `float`.
    #[inline]
    pub(crate) unsafe fn float_in_place(self, object: *mut PyObject) -> Option<f64> {
        // SAFETY: promised by the caller; the number follows the header.
        (LAYOUT.load(Ordering::Relaxed) != 0).then(|| unsafe { *object.byte_add(16).cast::<f64>() })
    }

    /// The number of elements of a `list` and their address, if the layout is known; valid until
    /// Python code runs.
    ///
    /// # Safety
    /// `list` is a live `list`.
    #[inline]
    pub(crate) unsafe fn list_in_place(self, list: *mut PyObject) -> Option<(isize, *const *mut PyObject)> {
        // SAFETY: promised by the caller; the size follows the header, and then the address of the
        // elements.
        let read =
            || unsafe { (*list.byte_add(16).cast::<isize>(), *list.byte_add(24).cast::<*const *mut PyObject>()) };
        (LAYOUT.load(Ordering::Relaxed) != 0).then(read)
    }

    /// The characters of an ASCII text, read in place, if the layout is known; they are followed by
    /// a NUL, and live as long as the text.
    ///
    /// # Safety
    /// `text` is a live `str`, and the result is not used longer than it.
    #[inline]
    pub(crate) unsafe fn ascii<'a>(self, text: *mut PyObject) -> Option<&'a [u8]> {
        let place = TEXT.load(Ordering::Relaxed);
        if place == 0 {
            return None;
        }
        // SAFETY: promised by the caller; `find` has seen that texts lie so.
        unsafe { ascii_at(place, text) }
    }

    /// Writes an element of a new tuple, which takes over the reference to it. Returns false, with
    /// an exception set, if another thread has found the tuple through the garbage collector, which
    /// is only possible without the interpreter's lock.
    ///
    /// # Safety
    /// `tuple` is a new tuple, to which only the caller has a reference. It has such a place, which
    /// is empty. The caller owns the reference to `item`.
    #[inline]
    #[must_use]
    pub(crate) unsafe fn set_item(self, tuple: *mut PyObject, index: usize, item: *mut PyObject) -> bool {
        // SAFETY: promised by the caller; `find` has seen that elements are there.
        unsafe {
            match TUPLE.load(Ordering::Relaxed) {
                0 => self.PyTuple_SetItem(tuple, index as isize, item) == 0,
                place => {
                    tuple.byte_add(place).cast::<*mut PyObject>().add(index).write(item);
                    true
                }
            }
        }
    }

    /// Determines the memory layouts of texts and tuples by examining some. Another thread may do
    /// the same, with the same results.
    fn look_at_layouts(self, layout: usize) {
        let text_place = match layout {
            BEFORE_3_12 => 48,
            SINCE_3_12 => 40,
            _ => return,
        };
        let lies_so = ["probe", "pr\u{f6}be", "\u{3b1}"].into_iter().all(|probe| {
            // SAFETY: a new text; the state of every text is at the same place in these versions.
            unsafe {
                let text = self.PyUnicode_FromStringAndSize(probe.as_ptr().cast(), probe.len() as isize);
                if text.is_null() {
                    self.PyErr_Clear();
                    return false;
                }
                let found = ascii_at(text_place, text);
                let start = self.PyUnicode_AsUTF8AndSize(text, ptr::null_mut());
                let lies_so = match found {
                    Some(found) => probe.is_ascii() && found.as_ptr().cast() == start && found == probe.as_bytes(),
                    None => !probe.is_ascii(),
                };
                self.Py_DecRef(text);
                lies_so
            }
        });
        TEXT.store(if lies_so { text_place } else { 0 }, Ordering::Relaxed);
        // SAFETY: a new tuple of two elements, of which None is the second; a tuple is larger than
        // the bytes that are read.
        unsafe {
            let tuple = self.PyTuple_New(2);
            if tuple.is_null() {
                return self.PyErr_Clear();
            }
            self.Py_IncRef(self.none());
            self.PyTuple_SetItem(tuple, 1, self.none());
            // The number of elements follows the header; since 3.14 a hash follows it.
            let is_second = |place: &usize| *tuple.byte_add(place + 8).cast::<*mut PyObject>() == self.none();
            TUPLE.store([24, 32].into_iter().find(is_second).unwrap_or(0), Ordering::Relaxed);
            self.Py_DecRef(tuple);
        }
    }

    /// The function that returns the interpreter's state that holds the lock, or NULL; it may be
    /// called without the lock. Versions before 3.13 have it under another name.
    #[inline]
    pub(crate) fn current_state(self) -> Option<unsafe extern "C" fn() -> *mut c_void> {
        self.PyThreadState_GetUnchecked().or(self._PyThreadState_UncheckedGet())
    }

    /// The address of the characters in a new ASCII text, if the layout is known.
    ///
    /// # Safety
    /// `text` is a live `str` of ASCII characters only.
    #[inline]
    pub(crate) unsafe fn ascii_place(self, text: *mut PyObject) -> Option<*mut u8> {
        let place = TEXT.load(Ordering::Relaxed);
        // SAFETY: promised by the caller; the characters follow a header of this size.
        (place != 0).then(|| unsafe { text.cast::<u8>().add(place) })
    }

    /// The interpreter's `None`, borrowed.
    #[inline]
    pub(crate) fn none(self) -> *mut PyObject {
        self._Py_NoneStruct()
    }
}

/// The characters of an ASCII text, which begin at this offset.
///
/// # Safety
/// `text` is a live `str` of a version with this layout of texts: their length follows the header,
/// then a hash, then the state. The result is not used longer than the text.
#[inline]
unsafe fn ascii_at<'a>(place: usize, text: *mut PyObject) -> Option<&'a [u8]> {
    /// The characters follow the header, and all of them are ASCII.
    const COMPACT_ASCII: u32 = 0b11 << 5;
    // SAFETY: promised by the caller.
    unsafe {
        if *text.byte_add(32).cast::<u32>() & COMPACT_ASCII != COMPACT_ASCII {
            return None;
        }
        Some(core::slice::from_raw_parts(text.byte_add(place).cast(), *text.byte_add(16).cast()))
    }
}

/// Returns true if the interpreter's functions were found, that is, if Python has imported this
/// library.
pub(crate) fn is_found() -> bool {
    IS_FOUND.load(Ordering::Acquire)
}

/// Looks up the functions, once. If this Python cannot import the library, returns the reason as a
/// sentence.
///
/// # Safety
/// This thread runs in a Python interpreter and holds its lock.
pub(crate) unsafe fn find() -> Result<Py, String> {
    if is_found() {
        // SAFETY: promised by the caller.
        return Ok(unsafe { Py::held() });
    }
    let scope = interpreter().ok_or_else(|| {
        let is_pypy = !Scope::DEFAULT.symbol(c"PyPyErr_SetString").is_null();
        let problem =
            if is_pypy { "PyPy is not supported" } else { "the functions of CPython are not in this process" };
        format!("{problem}; CPython 3.9 or newer is needed")
    })?;
    let mut addresses = [ptr::null_mut::<c_void>(); COUNT];
    for (index, name) in NAMES.split_inclusive('\0').enumerate() {
        // SAFETY: each part ends with its only NUL.
        let address = scope.symbol(unsafe { core::ffi::CStr::from_bytes_with_nul_unchecked(name.as_bytes()) });
        if address.is_null() && !(FUNCTIONS..FUNCTIONS + OPTIONAL).contains(&index) {
            let name = &name[..name.len() - 1];
            return Err(format!("this Python lacks {name}; CPython 3.9 or newer is needed"));
        }
        addresses[index] = address;
    }
    // SAFETY: the two have one layout, in the order of the names, whose functions have these types
    // in every version since 3.9; NULL, which only an optional one can be here, is `None`.
    let table = unsafe { core::mem::transmute::<[*mut c_void; COUNT], Table>(addresses) };
    {
        // Without the interpreter's lock two threads may get here at the same time. No Python code
        // runs meanwhile.
        static IS_WRITTEN: Mutex<bool> = Mutex::new(false);
        let mut is_written = IS_WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_written {
            // SAFETY: nothing reads the table before it is written, and the lock keeps other
            // writers away.
            unsafe { (*TABLE.0.get()).write(table) };
            *is_written = true;
        }
    }
    // SAFETY: promised by the caller; the table is there.
    let py = unsafe { Py::held() };
    // SAFETY: the class `object` has this attribute, an integer.
    let header = unsafe {
        let size = py.PyObject_GetAttrString(py.PyBaseObject_Type(), c"__basicsize__".as_ptr());
        let header = if size.is_null() { 0 } else { py.PyLong_AsLongLong(size) };
        if !size.is_null() {
            py.Py_DecRef(size);
        }
        header
    };
    if header != 16 && header != 32 {
        return Err(format!("objects of this Python begin with {header} bytes of its own, which is not known here"));
    }
    HEADER.store(header as usize, Ordering::Relaxed);
    // SAFETY: the function gives a C string that lives forever.
    let version = unsafe { core::ffi::CStr::from_ptr(py.Py_GetVersion()) }.to_string_lossy();
    let layout = if header == 16 { layout(&version) } else { 0 };
    LAYOUT.store(layout, Ordering::Relaxed);
    py.look_at_layouts(layout);
    // Last of all: others rely on what was stored before.
    IS_FOUND.store(true, Ordering::Release);
    Ok(py)
}

/// The layout of CPython's ints, from a version such as `3.11.7 (main, ..)`. In unknown versions,
/// functions are called instead.
fn layout(version: &str) -> usize {
    let minor = version.strip_prefix("3.").and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    match minor.and_then(|minor| minor.parse().ok()) {
        Some(9..=11) => BEFORE_3_12,
        Some(12..=15) => SINCE_3_12,
        _ => 0,
    }
}

/// The file that contains the functions: the program, or a libpython that another library loaded.
fn interpreter() -> Option<Scope> {
    const PROBE: &core::ffi::CStr = c"Py_GetVersion";
    if !Scope::DEFAULT.symbol(PROBE).is_null() {
        return Some(Scope::DEFAULT);
    }
    loaded_files().iter().filter_map(|name| Scope::loaded(name)).find(|scope| !scope.symbol(PROBE).is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_of_versions() {
        for (version, expected) in [
            ("3.9.18 (main, Nov 23 2023)", BEFORE_3_12),
            ("3.11.2", BEFORE_3_12),
            ("3.12.0a1", SINCE_3_12),
            ("3.15.2+", SINCE_3_12),
            ("3.8.18", 0),
            ("3.16.0", 0),
            ("4.0", 0),
            ("", 0),
        ] {
            assert_eq!(layout(version), expected, "{version}");
        }
    }
}
