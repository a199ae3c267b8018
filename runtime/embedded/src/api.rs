//! The 50 C functions over the cells and tables, and the table of them.
//!
//! A function that returns a status catches everything, panics included: it raises the error on this thread and returns
//! -1. Functions without a status raise what they can and return NULL or a negative index.

#![allow(clippy::missing_safety_doc, reason = "the C header says what each function expects from its caller")]

use core::any::Any;
use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{
    ApiTable, DLDataType, DLManagedTensor, DLManagedTensorVersioned, DLPackManagedTensorAllocator, DLTensor, SafeCall,
    TVMFFIAny, TVMFFIByteArray, TVMFFICustomAllocator, TVMFFIFieldInfo, TVMFFIFunctionCell, TVMFFIMethodInfo,
    TVMFFIObject, TVMFFIObjectHandle, TVMFFIStreamHandle, TVMFFITypeAttrColumn, TVMFFITypeInfo, TVMFFITypeMetadata,
    TVMFFIVersion, type_index,
};

use crate::backtrace;
use crate::backtrace::here;
use crate::cells::failure::Failure;
use crate::cells::release::{bytes_at, to_owned};
use crate::cells::{
    ObjectCell, big_int, dec_ref, dtype, inc_ref, new_bytes, new_error, new_string, opaque, tensor, trampoline_function,
};
use crate::env;
use crate::env::Allocation;
use crate::env::{custom_allocator, handle_once, module_env};
use crate::tables::type_table::NewType;
use crate::tables::{function_table, raised, type_attr, type_members, type_table};

/// The version of the ABI that this implementation speaks.
const VERSION: TVMFFIVersion = TVMFFIVersion { major: 0, minor: 1, patch: 16 };

/// The functions by value: a call of `FUNCTIONS.name` is a direct one.
pub const FUNCTIONS: ApiTable = ApiTable {
    magic: ApiTable::MAGIC,
    struct_size: size_of::<ApiTable>(),
    get_version,
    object_inc_ref,
    object_dec_ref,
    object_create_opaque,
    get_custom_allocator: Some(get_custom_allocator),
    set_custom_allocator: Some(set_custom_allocator),
    type_key_to_index,
    type_get_or_alloc_index,
    get_type_info,
    type_register_field,
    type_register_method,
    type_register_metadata,
    type_register_attr,
    get_type_attr_column,
    function_create,
    function_call,
    function_set_global,
    function_set_global_from_method_info,
    function_get_global,
    any_view_to_owned_any,
    error_move_from_raised,
    error_set_raised,
    error_set_raised_from_c_str,
    error_set_raised_from_c_str_parts,
    error_create,
    error_create_with_cause_and_extra_context,
    backtrace: backtrace_at,
    tensor_from_dlpack,
    tensor_from_dlpack_versioned,
    tensor_to_dlpack,
    tensor_to_dlpack_versioned,
    tensor_create_unsafe_view,
    string_from_byte_array,
    bytes_from_byte_array,
    data_type_from_string,
    data_type_to_string,
    handle_init_once,
    handle_deinit_once,
    env_set_stream,
    env_get_stream,
    env_set_tensor_allocator,
    env_get_tensor_allocator,
    env_tensor_alloc,
    env_check_signals,
    env_register_c_api,
    env_mod_lookup_from_imports,
    env_mod_register_context_symbol,
    env_mod_register_system_lib_symbol,
    big_int_from_byte_array: Some(big_int_from_byte_array),
    big_int_get_content_byte_array: Some(big_int_get_content_byte_array),
};

static TABLE: ApiTable = FUNCTIONS;

/// Our implementation of the ABI, all 50 functions.
pub fn table() -> &'static ApiTable {
    &TABLE
}

/// Runs the body of the C function `name`: 0, or -1 with an error raised.
#[inline]
fn status<F: Fn() -> Result<(), Failure>>(name: &str, body: F) -> c_int {
    /// Calls the body behind `body`.
    ///
    /// # Safety
    /// `body` is valid and of this type.
    unsafe fn run<F: Fn() -> Result<(), Failure>>(body: *const ()) -> Result<(), Failure> {
        // SAFETY: promised by the caller.
        unsafe { (*body.cast::<F>())() }
    }
    // SAFETY: the body lives for the call, and `run` is the function for its type.
    unsafe { status_of(name, run::<F>, (&raw const body).cast()) }
}

/// The one guard of all the C functions, which would be large in each of them.
///
/// # Safety
/// `run` may be called with `body`.
#[inline(never)]
unsafe fn status_of(name: &str, run: unsafe fn(*const ()) -> Result<(), Failure>, body: *const ()) -> c_int {
    // SAFETY: promised by the caller.
    let failure = match catch_unwind(AssertUnwindSafe(|| unsafe { run(body) })) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::internal(format_args!("{name} panicked: {}", panic_message(&*panic))),
    };
    raise(name, failure);
    -1
}

/// The status of the C function `name` whose work cannot panic, which needs no guard.
#[inline]
fn plain_status(name: &str, result: Result<(), Failure>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(failure) => {
            raise(name, failure);
            -1
        }
    }
}

/// Runs the body of the C function `name`: its value, or `otherwise` with an error raised.
#[inline]
fn guarded<T: Copy>(name: &str, otherwise: T, body: impl Fn() -> Result<T, Failure>) -> T {
    let value = Cell::new(otherwise);
    status(name, || {
        value.set(body()?);
        Ok(())
    });
    value.get()
}

#[cold]
fn raise(name: &str, failure: Failure) {
    // SAFETY: the new error's reference is given to the slot.
    unsafe { raised::set_raised_owned(failure.into_error(name)) }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (_, Some(message)) => message,
        _ => "no message",
    }
}

#[cold]
#[inline(never)]
fn is_null(parameter: &str) -> Failure {
    Failure::value(format_args!("the argument `{parameter}` is NULL"))
}

/// A reference to what a pointer parameter points to.
///
/// # Safety
/// The pointer is NULL or valid for `'a`.
unsafe fn checked<'a, T>(pointer: *const T, parameter: &str) -> Result<&'a T, Failure> {
    // SAFETY: promised by the caller.
    unsafe { pointer.as_ref() }.ok_or_else(|| is_null(parameter))
}

/// A result parameter that may be written.
fn writable<T>(pointer: *mut T, parameter: &str) -> Result<*mut T, Failure> {
    if pointer.is_null() { Err(is_null(parameter)) } else { Ok(pointer) }
}

/// The bytes of a NUL-terminated parameter.
///
/// # Safety
/// The pointer is NULL or NUL-terminated for `'a`.
unsafe fn c_text<'a>(text: *const c_char, parameter: &str) -> Result<&'a [u8], Failure> {
    if text.is_null() {
        return Err(is_null(parameter));
    }
    // SAFETY: promised by the caller.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// An object parameter of one type.
///
/// # Safety
/// The handle is NULL or a live object.
unsafe fn object_of(handle: TVMFFIObjectHandle, expected: i32, parameter: &str) -> Result<*mut TVMFFIObject, Failure> {
    // SAFETY: promised by the caller.
    let found = unsafe { checked(handle, parameter)? }.type_index;
    if found != expected {
        return Err(Failure::type_error(format_args!(
            "the argument `{parameter}` must be an object of type index {expected}, not {found}"
        )));
    }
    Ok(handle)
}

// SAFETY of all functions below: the caller follows the C header, that is, pointers are NULL or valid, texts end with a
// NUL or have their length, values follow their type index. What is NULL without being allowed to is reported.

unsafe extern "C" fn get_version(out: *mut TVMFFIVersion) {
    if !out.is_null() {
        // SAFETY: see above.
        unsafe { out.write(VERSION) }
    }
}

unsafe extern "C" fn object_inc_ref(obj: TVMFFIObjectHandle) -> c_int {
    if !obj.is_null() {
        // SAFETY: see above.
        unsafe { inc_ref(obj) }
    }
    0
}

unsafe extern "C" fn object_dec_ref(obj: TVMFFIObjectHandle) -> c_int {
    if !obj.is_null() {
        // SAFETY: see above.
        unsafe { dec_ref(obj) }
    }
    0
}

unsafe extern "C" fn object_create_opaque(
    handle: *mut c_void,
    type_index: i32,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe { out.write(opaque::new_opaque(handle, type_index, deleter)?) };
        Ok(())
    };
    plain_status("TVMFFIObjectCreateOpaque", run())
}

unsafe extern "C" fn get_custom_allocator() -> *mut TVMFFICustomAllocator {
    custom_allocator::current()
}

unsafe extern "C" fn set_custom_allocator(allocator: *mut TVMFFICustomAllocator) -> c_int {
    custom_allocator::install(allocator);
    0
}

unsafe extern "C" fn type_key_to_index(key: *const TVMFFIByteArray, out: *mut i32) -> c_int {
    status("TVMFFITypeKeyToIndex", || {
        let out = writable(out, "out_tindex")?;
        // SAFETY: see above.
        unsafe { out.write(type_table::index_of(bytes_at(key, "type_key")?)?) };
        Ok(())
    })
}

unsafe extern "C" fn type_get_or_alloc_index(
    key: *const TVMFFIByteArray,
    static_index: i32,
    depth: i32,
    num_child_slots: i32,
    child_slots_can_overflow: i32,
    parent_index: i32,
) -> i32 {
    guarded("TVMFFITypeGetOrAllocIndex", -1, || {
        // SAFETY: see above.
        let key = unsafe { bytes_at(key, "type_key")? };
        type_table::get_or_allocate(NewType {
            key,
            static_index,
            depth,
            num_child_slots,
            can_overflow: child_slots_can_overflow != 0,
            parent: parent_index,
        })
    })
}

unsafe extern "C" fn get_type_info(type_index: i32) -> *const TVMFFITypeInfo {
    let info = type_table::type_info(type_index);
    if info.is_null() {
        raise(
            "TVMFFIGetTypeInfo",
            Failure::internal(format_args!(
                "Check failed: (entry != nullptr) is false: Cannot find type info for type_index={type_index}"
            )),
        );
    }
    info
}

unsafe extern "C" fn type_register_field(type_index: i32, info: *const TVMFFIFieldInfo) -> c_int {
    // SAFETY: see above.
    status("TVMFFITypeRegisterField", || unsafe { type_members::register_field(type_index, checked(info, "info")?) })
}

unsafe extern "C" fn type_register_method(type_index: i32, info: *const TVMFFIMethodInfo) -> c_int {
    // SAFETY: see above.
    status("TVMFFITypeRegisterMethod", || unsafe { type_members::register_method(type_index, checked(info, "info")?) })
}

unsafe extern "C" fn type_register_metadata(type_index: i32, metadata: *const TVMFFITypeMetadata) -> c_int {
    // SAFETY: see above.
    status("TVMFFITypeRegisterMetadata", || unsafe {
        type_members::register_metadata(type_index, checked(metadata, "metadata")?)
    })
}

unsafe extern "C" fn type_register_attr(
    type_index: i32,
    name: *const TVMFFIByteArray,
    value: *const TVMFFIAny,
) -> c_int {
    // SAFETY: see above.
    status("TVMFFITypeRegisterAttr", || unsafe {
        type_attr::register_attr(type_index, bytes_at(name, "attr_name")?, checked(value, "attr_value")?)
    })
}

unsafe extern "C" fn get_type_attr_column(name: *const TVMFFIByteArray) -> *const TVMFFITypeAttrColumn {
    guarded("TVMFFIGetTypeAttrColumn", core::ptr::null(), || {
        // SAFETY: see above.
        let name = unsafe { bytes_at(name, "attr_name")? };
        Ok(type_attr::column(name))
    })
}

unsafe extern "C" fn function_create(
    this: *mut c_void,
    safe_call: Option<SafeCall>,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        let Some(safe_call) = safe_call else {
            return Err(Failure::value("the argument `safe_call` is NULL"));
        };
        // SAFETY: see above.
        unsafe { out.write(trampoline_function(this, safe_call, deleter)) };
        Ok(())
    };
    plain_status("TVMFFIFunctionCreate", run())
}

unsafe extern "C" fn function_call(
    func: TVMFFIObjectHandle,
    args: *mut TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
) -> c_int {
    if func.is_null() {
        return no_function();
    }
    // Nothing is left to do after the call, and no register has to be saved: what stays is a test and a jump.
    // SAFETY: see above; every function begins with this cell and has an entry point.
    unsafe {
        let cell = &(*func.cast::<ObjectCell<TVMFFIFunctionCell>>()).body;
        cell.safe_call.unwrap_unchecked()(func.cast(), args, num_args, result)
    }
}

#[cold]
#[inline(never)]
extern "C" fn no_function() -> c_int {
    raise("TVMFFIFunctionCall", Failure::value("the argument `func` is NULL"));
    // Unknown to the compiler: otherwise the caller would put the constant in place itself after a call, for which it needs a stack.
    core::hint::black_box(-1)
}

unsafe extern "C" fn function_set_global(
    name: *const TVMFFIByteArray,
    func: TVMFFIObjectHandle,
    allow_override: c_int,
) -> c_int {
    // SAFETY: see above.
    status("TVMFFIFunctionSetGlobal", || unsafe {
        function_table::set_global(bytes_at(name, "name")?, func, allow_override != 0)
    })
}

unsafe extern "C" fn function_set_global_from_method_info(
    info: *const TVMFFIMethodInfo,
    allow_override: c_int,
) -> c_int {
    // SAFETY: see above.
    status("TVMFFIFunctionSetGlobalFromMethodInfo", || unsafe {
        function_table::set_global_with_info(checked(info, "method_info")?, allow_override != 0)
    })
}

unsafe extern "C" fn function_get_global(name: *const TVMFFIByteArray, out: *mut TVMFFIObjectHandle) -> c_int {
    status("TVMFFIFunctionGetGlobal", || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe { out.write(function_table::find_global(bytes_at(name, "name")?)) };
        Ok(())
    })
}

unsafe extern "C" fn any_view_to_owned_any(view: *const TVMFFIAny, out: *mut TVMFFIAny) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe { out.write(to_owned(checked(view, "any")?)?) };
        Ok(())
    };
    plain_status("TVMFFIAnyViewToOwnedAny", run())
}

unsafe extern "C" fn error_move_from_raised(out: *mut TVMFFIObjectHandle) {
    if !out.is_null() {
        // SAFETY: see above.
        unsafe { out.write(raised::take_raised()) }
    }
}

unsafe extern "C" fn error_set_raised(error: TVMFFIObjectHandle) {
    // SAFETY: see above.
    unsafe { raised::set_raised(error) }
}

unsafe extern "C" fn error_set_raised_from_c_str(kind: *const c_char, message: *const c_char) {
    // SAFETY: see above.
    unsafe { raise_with_backtrace(kind, c_text(message, "message").unwrap_or_default(), here()) }
}

unsafe extern "C" fn error_set_raised_from_c_str_parts(
    kind: *const c_char,
    parts: *const *const c_char,
    num_parts: i32,
) {
    let mut message = Vec::new();
    if !parts.is_null() {
        for index in 0..usize::try_from(num_parts).unwrap_or(0) {
            // SAFETY: see above.
            if let Ok(part) = unsafe { c_text(*parts.add(index), "part") } {
                message.extend_from_slice(part);
            }
        }
    }
    // SAFETY: see above.
    unsafe { raise_with_backtrace(kind, &message, here()) }
}

/// Raises an error with the backtrace of the caller of the function whose [`here`] is `below`.
#[cold]
#[inline(never)]
unsafe fn raise_with_backtrace(kind: *const c_char, message: &[u8], below: usize) {
    // SAFETY: see above. The backtrace is this thread's, and copied at once.
    unsafe {
        let backtrace = backtrace::backtrace(core::ptr::null(), 0, core::ptr::null(), false, below);
        raised::raise(c_text(kind, "kind").unwrap_or(b"RuntimeError"), message, (*backtrace).as_slice());
    }
}

unsafe extern "C" fn error_create(
    kind: *const TVMFFIByteArray,
    message: *const TVMFFIByteArray,
    backtrace: *const TVMFFIByteArray,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    let no = core::ptr::null_mut();
    // SAFETY: see above.
    unsafe { error_create_with_cause_and_extra_context(kind, message, backtrace, no, no, out) }
}

unsafe extern "C" fn error_create_with_cause_and_extra_context(
    kind: *const TVMFFIByteArray,
    message: *const TVMFFIByteArray,
    backtrace: *const TVMFFIByteArray,
    cause_chain: TVMFFIObjectHandle,
    extra_context: TVMFFIObjectHandle,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    if out.is_null() {
        return -1;
    }
    // An error about an error would only hide it, so nothing is raised here: what is NULL is taken as empty.
    // SAFETY: see above.
    unsafe {
        let text = |array: *const TVMFFIByteArray| if array.is_null() { &b""[..] } else { (*array).as_slice() };
        out.write(new_error(text(kind), text(message), text(backtrace), cause_chain, extra_context));
    }
    0
}

unsafe extern "C" fn backtrace_at(
    filename: *const c_char,
    lineno: c_int,
    func: *const c_char,
    cross_ffi_boundary: c_int,
) -> *const TVMFFIByteArray {
    // SAFETY: see above.
    unsafe { backtrace::backtrace(filename, lineno, func, cross_ffi_boundary != 0, here()) }
}

unsafe extern "C" fn tensor_from_dlpack(
    from: *mut DLManagedTensor,
    require_alignment: i32,
    require_contiguous: i32,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe { out.write(tensor::from_dlpack(from, require_alignment, require_contiguous != 0)?) };
        Ok(())
    };
    plain_status("TVMFFITensorFromDLPack", run())
}

unsafe extern "C" fn tensor_from_dlpack_versioned(
    from: *mut DLManagedTensorVersioned,
    require_alignment: i32,
    require_contiguous: i32,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe { out.write(tensor::from_dlpack_versioned(from, require_alignment, require_contiguous != 0)?) };
        Ok(())
    };
    plain_status("TVMFFITensorFromDLPackVersioned", run())
}

unsafe extern "C" fn tensor_to_dlpack(from: TVMFFIObjectHandle, out: *mut *mut DLManagedTensor) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe { out.write(tensor::to_dlpack(object_of(from, type_index::TENSOR, "from")?)) };
        Ok(())
    };
    plain_status("TVMFFITensorToDLPack", run())
}

unsafe extern "C" fn tensor_to_dlpack_versioned(
    from: TVMFFIObjectHandle,
    out: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe { out.write(tensor::to_dlpack_versioned(object_of(from, type_index::TENSOR, "from")?)) };
        Ok(())
    };
    plain_status("TVMFFITensorToDLPackVersioned", run())
}

unsafe extern "C" fn tensor_create_unsafe_view(
    source: TVMFFIObjectHandle,
    prototype: *const DLTensor,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe {
            let source = object_of(source, type_index::TENSOR, "source")?;
            out.write(tensor::unsafe_view(source, checked(prototype, "prototype")?)?);
        }
        Ok(())
    };
    plain_status("TVMFFITensorCreateUnsafeView", run())
}

unsafe extern "C" fn string_from_byte_array(input: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe { out.write(new_string(bytes_at(input, "input")?)) };
        Ok(())
    };
    plain_status("TVMFFIStringFromByteArray", run())
}

unsafe extern "C" fn bytes_from_byte_array(input: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe { out.write(new_bytes(bytes_at(input, "input")?)) };
        Ok(())
    };
    plain_status("TVMFFIBytesFromByteArray", run())
}

unsafe extern "C" fn data_type_from_string(text: *const TVMFFIByteArray, out: *mut DLDataType) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe { out.write(dtype::parse(bytes_at(text, "str")?)?) };
        Ok(())
    };
    plain_status("TVMFFIDataTypeFromString", run())
}

unsafe extern "C" fn data_type_to_string(dtype: *const DLDataType, out: *mut TVMFFIAny) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above. The string is an object also when it is short, as callers of the stock library expect.
        unsafe {
            let text = dtype::new_text_object(*checked(dtype, "dtype")?)?;
            out.write(TVMFFIAny::pointer(type_index::STR, text.cast()));
        }
        Ok(())
    };
    plain_status("TVMFFIDataTypeToString", run())
}

unsafe extern "C" fn handle_init_once(
    addr: *mut *mut c_void,
    init: Option<unsafe extern "C" fn(*mut *mut c_void) -> c_int>,
) -> c_int {
    // SAFETY: see above.
    if !addr.is_null() && unsafe { handle_once::is_initialized(addr) } {
        return 0;
    }
    guarded("TVMFFIHandleInitOnce", -1, || {
        let addr = writable(addr, "handle_addr")?;
        let Some(init) = init else { return Err(Failure::value("the argument `init_func` is NULL")) };
        // SAFETY: see above.
        unsafe { handle_once::init_once(addr, init) }
    })
}

unsafe extern "C" fn handle_deinit_once(
    addr: *mut *mut c_void,
    deinit: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
) -> c_int {
    guarded("TVMFFIHandleDeinitOnce", -1, || {
        let addr = writable(addr, "handle_addr")?;
        let Some(deinit) = deinit else { return Err(Failure::value("the argument `deinit_func` is NULL")) };
        // SAFETY: see above.
        Ok(unsafe { handle_once::deinit_once(addr, deinit) })
    })
}

unsafe extern "C" fn env_set_stream(
    device_type: i32,
    device_id: i32,
    stream: TVMFFIStreamHandle,
    out_previous: *mut TVMFFIStreamHandle,
) -> c_int {
    let previous = env::set_stream(device_type, device_id, stream);
    if !out_previous.is_null() {
        // SAFETY: see above.
        unsafe { out_previous.write(previous) };
    }
    0
}

unsafe extern "C" fn env_get_stream(device_type: i32, device_id: i32) -> TVMFFIStreamHandle {
    env::stream(device_type, device_id)
}

unsafe extern "C" fn env_set_tensor_allocator(
    allocator: Option<DLPackManagedTensorAllocator>,
    write_to_global: c_int,
    out_previous: *mut Option<DLPackManagedTensorAllocator>,
) -> c_int {
    status("TVMFFIEnvSetDLPackManagedTensorAllocator", || {
        let previous = env::set_tensor_allocator(allocator, write_to_global != 0);
        if !out_previous.is_null() {
            // SAFETY: see above.
            unsafe { out_previous.write(previous) };
        }
        Ok(())
    })
}

unsafe extern "C" fn env_get_tensor_allocator() -> Option<DLPackManagedTensorAllocator> {
    env::tensor_allocator()
}

unsafe extern "C" fn env_tensor_alloc(prototype: *mut DLTensor, out: *mut TVMFFIObjectHandle) -> c_int {
    guarded("TVMFFIEnvTensorAlloc", -1, || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe {
            match env::allocate_tensor(writable(prototype, "prototype")?)? {
                Allocation::Tensor(tensor) => {
                    out.write(tensor);
                    Ok(0)
                }
                Allocation::Failed(code) => Ok(code),
            }
        }
    })
}

unsafe extern "C" fn env_check_signals() -> c_int {
    if !env::has_signals() {
        return 0;
    }
    let went_on = guarded("TVMFFIEnvCheckSignals", false, env::check_signals);
    if went_on { 0 } else { -1 }
}

unsafe extern "C" fn env_register_c_api(name: *const c_char, symbol: *mut c_void) -> c_int {
    // SAFETY: see above.
    status("TVMFFIEnvRegisterCAPI", || unsafe { env::register_c_api(c_text(name, "name")?, symbol) })
}

unsafe extern "C" fn env_mod_lookup_from_imports(
    library_ctx: TVMFFIObjectHandle,
    name: *const c_char,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    status("TVMFFIEnvModLookupFromImports", || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe { out.write(module_env::lookup_from_imports(library_ctx, c_text(name, "func_name")?)?) };
        Ok(())
    })
}

unsafe extern "C" fn env_mod_register_context_symbol(name: *const c_char, symbol: *mut c_void) -> c_int {
    status("TVMFFIEnvModRegisterContextSymbol", || {
        // SAFETY: see above.
        module_env::register_context_symbol(unsafe { c_text(name, "name")? }, symbol);
        Ok(())
    })
}

unsafe extern "C" fn env_mod_register_system_lib_symbol(name: *const c_char, symbol: *mut c_void) -> c_int {
    status("TVMFFIEnvModRegisterSystemLibSymbol", || {
        // SAFETY: see above.
        module_env::register_system_lib_symbol(unsafe { c_text(name, "name")? }, symbol);
        Ok(())
    })
}

unsafe extern "C" fn big_int_from_byte_array(input: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe {
            out.write(TVMFFIAny::NONE);
            out.write(big_int::from_words(bytes_at(input, "input")?)?);
        }
        Ok(())
    };
    plain_status("TVMFFIBigIntFromByteArray", run())
}

unsafe extern "C" fn big_int_get_content_byte_array(value: *const TVMFFIAny) -> TVMFFIByteArray {
    // SAFETY: see above.
    unsafe { big_int::content(value) }
}

#[cfg(test)]
mod tests {
    use core::ptr::{null, null_mut};

    use super::*;
    use crate::abi::TVMFFIErrorCell;
    use crate::cells::{body, new_string_object};

    fn raised_error() -> (String, String, String) {
        let error = raised::take_raised();
        assert!(!error.is_null());
        // SAFETY: the reference is ours.
        unsafe {
            let cell = body::<TVMFFIErrorCell>(error);
            let text = |array: TVMFFIByteArray| String::from_utf8(array.as_slice().to_vec()).unwrap();
            let texts = (text(cell.kind), text(cell.message), text(cell.backtrace));
            dec_ref(error);
            texts
        }
    }

    #[test]
    fn failures_and_panics_are_raised() {
        assert_eq!(status("TVMFFITest", || Err(Failure::value("bad"))), -1);
        let (kind, message, backtrace) = raised_error();
        assert_eq!((kind.as_str(), message.as_str()), ("ValueError", "bad"));
        let first = backtrace.lines().next().unwrap_or_default();
        assert!(first.contains("api.rs\", line ") && first.ends_with(", in TVMFFITest"), "{backtrace}");
        assert_eq!(status("TVMFFITest", || panic!("no {}", 7)), -1);
        let (kind, message, _) = raised_error();
        assert_eq!((kind.as_str(), message.as_str()), ("InternalError", "TVMFFITest panicked: no 7"));
    }

    #[test]
    fn null_arguments_are_reported() {
        let api = table();
        // SAFETY: NULL is what this test is about.
        unsafe {
            assert_eq!((api.object_inc_ref)(null_mut()) + (api.object_dec_ref)(null_mut()), 0);
            assert_eq!((api.function_get_global)(null(), null_mut()), -1);
            assert_eq!(raised_error().1, "the argument `out` is NULL");
            assert_eq!((api.function_call)(null_mut(), null_mut(), 0, null_mut()), -1);
            assert_eq!(raised_error().1, "the argument `func` is NULL");
            assert_eq!((api.env_register_c_api)(null(), null_mut()), -1);
            assert_eq!(raised_error().1, "the argument `name` is NULL");
            let mut out = null_mut();
            assert_eq!((api.tensor_from_dlpack)(null_mut(), 0, 0, &raw mut out), -1);
            assert_eq!(raised_error().1, "FromDLPack: the tensor is NULL");
            assert!((api.get_type_info)(1 << 20).is_null());
            assert!(raised_error().1.contains("type_index=1048576"));
            assert_eq!((api.type_get_or_alloc_index)(null(), -1, 1, 0, 1, 64), -1);
            assert_eq!(raised_error().1, "the argument `type_key` is NULL");
            (api.error_set_raised_from_c_str)(c"KeyError".as_ptr(), c"k".as_ptr());
            assert_eq!(raised_error().1, "k");
            let parts = [c"a ".as_ptr(), null_mut(), c"b".as_ptr()];
            (api.error_set_raised_from_c_str_parts)(c"KeyError".as_ptr(), parts.as_ptr(), 3);
            let (kind, message, _) = raised_error();
            assert_eq!((kind.as_str(), message.as_str()), ("KeyError", "a b"));
            let (mut error, text) = (null_mut(), TVMFFIByteArray::new(b"text"));
            assert_eq!((api.error_create)(&raw const text, &raw const text, null(), &raw mut error), 0);
            (api.error_set_raised)(error);
            dec_ref(error);
            assert_eq!(raised_error().0, "text");
        }
    }

    #[test]
    fn wrong_object_types_are_reported() {
        let api = table();
        let string = new_string_object(b"no tensor");
        let mut out = null_mut();
        // SAFETY: the object is alive.
        unsafe {
            assert_eq!((api.tensor_to_dlpack)(string, &raw mut out), -1);
            assert_eq!(raised_error().1, "the argument `from` must be an object of type index 70, not 65");
            dec_ref(string);
        }
    }
}
