//! What C++ has thrown, as an error: `super::call` catches it.

use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;
use core::ptr;

use crate::abi::{TVMFFIObject, type_index};
use crate::embedded::dynamic_linker::cpp_runtime_symbol;
use crate::{Error, embedded};

/// `_Unwind_Exception`. In memory of GCC's and Clang's C++ runtimes the thrown object follows it.
#[repr(C, align(16))]
pub(in crate::module) struct Exception {
    class: u64,
    cleanup: *const c_void,
    private: [u64; 2],
}

unsafe extern "C" {
    fn _Unwind_DeleteException(exception: *mut Exception);
}

/// An exception of libstdc++ that stands in no other's place.
const CLASS: u64 = u64::from_be_bytes(*b"GNUCC++\0");

/// How far in front of the exception's header the pointer to its type is: the first field of `__cxa_exception`.
const TYPE_BEFORE: usize = 80;

/// How far behind the C++ object's start its `ObjectRef` is: behind the pointer to the virtual functions of `std::exception`.
const OBJECT_IN_ERROR: usize = 8;

/// `std::type_info`; `base` is there in `__si_class_type_info`, the type of a class with one base class at its start.
#[repr(C)]
struct TypeInfo {
    functions: *const c_void,
    name: *const c_char,
    base: *const TypeInfo,
}

/// The error that an exception is, which is done with then.
///
/// # Safety
/// The unwinder gave the exception, and no other code has it.
pub(in crate::module) unsafe fn take(exception: *mut Exception) -> Error {
    // SAFETY: promised by the caller.
    unsafe {
        let error = read(exception);
        // The C++ runtime counts what is thrown and not caught.
        let begin = cpp_runtime_symbol(c"__cxa_begin_catch");
        let end = cpp_runtime_symbol(c"__cxa_end_catch");
        if (*exception).class != CLASS || begin.is_null() || end.is_null() {
            _Unwind_DeleteException(exception);
            return error;
        }
        transmute::<*mut c_void, unsafe extern "C" fn(*mut Exception) -> *mut c_void>(begin)(exception);
        transmute::<*mut c_void, unsafe extern "C" fn()>(end)();
        error
    }
}

/// # Safety
/// As for [`take`].
unsafe fn read(exception: *mut Exception) -> Error {
    // SAFETY: promised by the caller; the class says what is around the header.
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
            // The third virtual function, behind two destructors: `const char* what() const`.
            let functions = *thrown.cast::<*const unsafe extern "C" fn(*const c_void) -> *const c_char>();
            let text = (*functions.add(2))(thrown);
            if !text.is_null() {
                return Error::internal_error(CStr::from_ptr(text).to_string_lossy());
            }
        }
        Error::internal_error(format!("a virtual function of a module threw a C++ value of type {}", name(of_type)))
    }
}

/// The type's name as compilers write it.
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

/// Whether the type is `std::exception`, or has it as the first base of its first base, and so on.
///
/// # Safety
/// As for [`name`].
unsafe fn derives_from_exception(mut of_type: *const TypeInfo) -> bool {
    let of_single = cpp_runtime_symbol(c"_ZTVN10__cxxabiv120__si_class_type_infoE");
    // SAFETY: promised by the caller; a type whose functions are those of classes with one base has that base.
    unsafe {
        while !is_named(of_type, c"St9exception") {
            // A pointer to virtual functions points behind the two words that begin their table.
            if of_single.is_null() || !ptr::eq((*of_type).functions, of_single.byte_add(16)) {
                return false;
            }
            of_type = (*of_type).base;
        }
    }
    true
}
