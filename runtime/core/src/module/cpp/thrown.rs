//! Converts C++ exceptions to errors; `super::call` catches them.
//!
//! A process may have several C++ runtimes: that of the system, and copies inside shared libraries
//! (Rust's libLLVM exports the symbols of its copy). A symbol with the name alone may belong to
//! another copy than the exception, so types are recognized by their names, and an exception is
//! released with the functions of the copy that threw it.

use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;

use crate::abi::{TVMFFIObject, type_index};
use crate::embedded::dynamic_linker;
use crate::{Error, embedded};

/// `_Unwind_Exception`. In GCC's and Clang's C++ runtimes the thrown object follows it in memory.
#[repr(C, align(16))]
pub(in crate::module) struct Exception {
    class: u64,
    cleanup: *const c_void,
    private: [u64; 2],
}

unsafe extern "C" {
    fn _Unwind_DeleteException(exception: *mut Exception);
}

/// Class of an exception of libstdc++ that is not a dependent exception.
const CLASS: u64 = u64::from_be_bytes(*b"GNUCC++\0");

/// Distance from the pointer to the exception's type to the exception's header, which follows it:
/// the pointer is the first field of `__cxa_exception`.
const TYPE_BEFORE: usize = 80;

/// Offset of the `ObjectRef` in the C++ object: after the vtable pointer of `std::exception`.
const OBJECT_IN_ERROR: usize = 8;

/// `std::type_info`; `base` exists in `__si_class_type_info`, the type of a class with one base
/// class at its start.
#[repr(C)]
struct TypeInfo {
    functions: *const c_void,
    name: *const c_char,
    base: *const TypeInfo,
}

/// Converts an exception to an error, and releases the exception.
///
/// # Safety
/// The unwinder returned the exception, and no other code has it.
pub(in crate::module) unsafe fn take(exception: *mut Exception) -> Error {
    // SAFETY: promised by the caller.
    unsafe {
        let error = read(exception);
        // The C++ runtime that threw the exception counts uncaught exceptions; it is the one that
        // contains the cleanup function.
        let symbol = |name| dynamic_linker::symbol_beside((*exception).cleanup, name);
        let is_cpp = (*exception).class == CLASS;
        match (symbol(c"__cxa_begin_catch"), symbol(c"__cxa_end_catch")) {
            (Some(begin), Some(end)) if is_cpp => {
                transmute::<*mut c_void, unsafe extern "C" fn(*mut Exception) -> *mut c_void>(begin)(exception);
                transmute::<*mut c_void, unsafe extern "C" fn()>(end)();
            }
            _ => _Unwind_DeleteException(exception),
        }
        error
    }
}

/// # Safety
/// As for [`take`].
unsafe fn read(exception: *mut Exception) -> Error {
    // SAFETY: promised by the caller; the exception's class determines the layout around the
    // header.
    unsafe {
        if (*exception).class != CLASS {
            return Error::internal_error("a virtual function of a module threw something that is not a C++ exception");
        }
        let thrown = exception.add(1).cast::<c_void>();
        let of_type = *exception.byte_sub(TYPE_BEFORE).cast::<*const TypeInfo>();
        if is_named(of_type, c"N3tvm3ffi5ErrorE") {
            let object = *thrown.byte_add(OBJECT_IN_ERROR).cast::<*mut TVMFFIObject>();
            if !object.is_null() && (*object).type_index == type_index::ERROR {
                embedded::inc_ref(object);
                return Error::from_raw(object.cast());
            }
        }
        if derives_from_exception(of_type) {
            // The third virtual function, after two destructors: `const char* what() const`.
            let functions = *thrown.cast::<*const unsafe extern "C" fn(*const c_void) -> *const c_char>();
            let text = (*functions.add(2))(thrown);
            if !text.is_null() {
                return Error::internal_error(CStr::from_ptr(text).to_string_lossy());
            }
        }
        Error::internal_error(format!("a virtual function of a module threw a C++ value of type {}", name(of_type)))
    }
}

/// Returns the type's name as compilers write it.
///
/// # Safety
/// `of_type` is a type of the C++ runtime.
unsafe fn name(of_type: *const TypeInfo) -> String {
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr((*of_type).name) }.to_string_lossy().trim_start_matches('*').to_owned()
}

/// # Safety
/// As for [`name`].
unsafe fn is_named(of_type: *const TypeInfo, expected: &CStr) -> bool {
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr((*of_type).name) == expected }
}

/// Returns whether the type is `std::exception`, or has it as the first base of its first base, and
/// so on.
///
/// # Safety
/// As for [`name`].
unsafe fn derives_from_exception(mut of_type: *const TypeInfo) -> bool {
    // SAFETY: promised by the caller; a type of a class with one base has that base.
    unsafe {
        while !is_named(of_type, c"St9exception") {
            if !has_one_base(of_type) {
                return false;
            }
            of_type = (*of_type).base;
        }
    }
    true
}

/// Returns whether the type describes a class with one base class at its start.
///
/// # Safety
/// As for [`name`].
unsafe fn has_one_base(of_type: *const TypeInfo) -> bool {
    // SAFETY: promised by the caller. A type info is itself an object of a C++ class, and the word
    // before a vtable's functions is a pointer to the class's type info, or NULL.
    unsafe {
        let class = *(*of_type).functions.cast::<*const TypeInfo>().sub(1);
        !class.is_null() && is_named(class, c"N10__cxxabiv120__si_class_type_infoE")
    }
}
