use core::ffi::{c_char, c_int, c_void};

use super::{
    DLDataType, DLManagedTensor, DLManagedTensorVersioned, DLPackManagedTensorAllocator, DLTensor, SafeCall, TVMFFIAny,
    TVMFFIByteArray, TVMFFICustomAllocator, TVMFFIFieldInfo, TVMFFIMethodInfo, TVMFFIObjectHandle,
    TVMFFITypeAttrColumn, TVMFFITypeInfo, TVMFFITypeMetadata,
};

/// Version of an implementation of the ABI.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TVMFFIVersion {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Patch version.
    pub patch: u32,
}

/// A device's work queue.
pub type TVMFFIStreamHandle = *mut c_void;

macro_rules! api_table {
    (
        required { $($(#[doc = $doc:literal])+ $name:ident : $field:ident ( $($arg:ident : $type:ty),* ) $(-> $ret:ty)?;)* }
        optional {
            $($(#[doc = $opt_doc:literal])+ $opt_name:ident : $opt_field:ident ( $($opt_arg:ident : $opt_type:ty),* )
                $(-> $opt_ret:ty)?;)*
        }
    ) => {
        /// The 50 C functions of the ABI as one table, through which code calls the process's
        /// implementation.
        ///
        /// A Rust program passes this table to the libraries that it loads. New fields are only
        /// added at the end, and `struct_size` tells which fields exist. Optional functions are
        /// those that a supported older implementation lacks.
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct ApiTable {
            /// [`ApiTable::MAGIC`].
            pub magic: u64,
            /// `size_of::<ApiTable>()` in the artifact that created the table.
            pub struct_size: usize,
            $(
                #[doc = concat!("`", stringify!($name), "`:")]
                $(#[doc = $doc])+
                pub $field: unsafe extern "C" fn($($arg: $type),*) $(-> $ret)?,
            )*
            $(
                #[doc = concat!("`", stringify!($opt_name), "`, absent in older implementations:")]
                $(#[doc = $opt_doc])+
                pub $opt_field: Option<unsafe extern "C" fn($($opt_arg: $opt_type),*) $(-> $opt_ret)?>,
            )*
        }

        /// The C names, each followed by a NUL, in the order of the fields.
        static C_NAMES: &str = concat!($(stringify!($name), "\0",)* $(stringify!($opt_name), "\0",)*);

        impl ApiTable {
            /// Builds a table by looking up each C name.
            ///
            /// # Errors
            /// Returns the first required name for which `lookup` returns NULL.
            ///
            /// # Safety
            /// For each name, `lookup` returns NULL or the address of the function that has this
            /// name in the ABI.
            pub unsafe fn from_symbols(
                mut lookup: impl FnMut(&'static core::ffi::CStr) -> *mut c_void,
            ) -> Result<Self, &'static str> {
                const REQUIRED: usize = [$(stringify!($name)),*].len();
                let mut raw = RawTable {
                    magic: Self::MAGIC,
                    struct_size: core::mem::size_of::<Self>(),
                    functions: [core::ptr::null_mut(); COUNT],
                };
                let mut rest = C_NAMES;
                for (index, place) in raw.functions.iter_mut().enumerate() {
                    // Searched by hand: the string-splitting functions take half a kilobyte of
                    // code.
                    let Some(end) = rest.bytes().position(|byte| byte == 0) else { break };
                    let (this, others) = rest.split_at(end + 1);
                    rest = others;
                    // SAFETY: the part ends with its only NUL.
                    *place = lookup(unsafe { core::ffi::CStr::from_bytes_with_nul_unchecked(this.as_bytes()) });
                    if place.is_null() && index < REQUIRED {
                        return Err(&this[..end]);
                    }
                }
                // SAFETY: both types have the same layout, in the order of the names; the caller
                // promises that each address is the function of that name; NULL, which only an
                // optional function can be here, is `None`.
                Ok(unsafe { core::mem::transmute::<RawTable, Self>(raw) })
            }

            /// Returns the function with this C name; NULL if the name is not in the table or the
            /// function is absent.
            pub fn function(&self, name: &str) -> *mut c_void {
                // SAFETY: both types have the same layout; `None` is NULL.
                let raw = unsafe { &*core::ptr::from_ref(self).cast::<RawTable>() };
                let mut names = C_NAMES.split_terminator('\0');
                names.position(|known| known == name).map_or(core::ptr::null_mut(), |index| raw.functions[index])
            }

            /// The C names, in the order of the fields.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)* $(stringify!($opt_name),)*];
        }
    };
}

const COUNT: usize = ApiTable::NAMES.len();

/// An [`ApiTable`] as an array of addresses.
#[repr(C)]
struct RawTable {
    magic: u64,
    struct_size: usize,
    functions: [*mut c_void; COUNT],
}

impl ApiTable {
    /// Marks a table of this layout: "KPABI" and the layout's version.
    pub const MAGIC: u64 = u64::from_le_bytes(*b"KPABI\0\0\x01");
}

/// Passes the C functions with their documentation to a macro: it generates [`ApiTable`] here, the
/// exported functions in `kernpack-capi`, and those of a program in `kernpack-core`. The C header
/// is generated from this text. Type names resolve where the macro is called.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_function {
    ($make:ident) => {
        $make! {
            required {
                /// Writes the version of this implementation.
                TVMFFIGetVersion: get_version(out: *mut TVMFFIVersion);
                /// Adds a strong reference to an object. Any thread may call it.
                TVMFFIObjectIncRef: object_inc_ref(obj: TVMFFIObjectHandle) -> c_int;
                /// Releases a strong reference; releasing the last one destroys the object. NULL is
                /// allowed and has no effect.
                TVMFFIObjectDecRef: object_dec_ref(obj: TVMFFIObjectHandle) -> c_int;
                /// Wraps a foreign object (`type_index` must be `kTVMFFIOpaquePyObject`);
                /// `deleter(handle)` runs when the wrapper is destroyed. The caller owns the one
                /// reference in `*out`.
                TVMFFIObjectCreateOpaque: object_create_opaque(
                    handle: *mut c_void, type_index: i32, deleter: Option<unsafe extern "C" fn(*mut c_void)>,
                    out: *mut TVMFFIObjectHandle) -> c_int;
                /// Writes the type index of a type key; an unknown key is an InternalError.
                TVMFFITypeKeyToIndex: type_key_to_index(key: *const TVMFFIByteArray, out: *mut i32) -> c_int;
                /// Returns the index of a type key, which is registered if it is new.
                /// `static_index` is the requested index, or -1 for any; `depth` is the number of
                /// ancestors; `num_child_slots` indices are reserved for children, and more
                /// children are allowed if `child_slots_can_overflow` is 1. With `parent_index` -2,
                /// returns -2 for an unknown key and does not register it. Returns -1 with an error
                /// raised if the registration contradicts the table.
                TVMFFITypeGetOrAllocIndex: type_get_or_alloc_index(
                    key: *const TVMFFIByteArray, static_index: i32, depth: i32, num_child_slots: i32,
                    child_slots_can_overflow: i32, parent_index: i32) -> i32;
                /// Returns the record of a type; NULL for an index that is not registered. The
                /// address never changes.
                TVMFFIGetTypeInfo: get_type_info(type_index: i32) -> *const TVMFFITypeInfo;
                /// Adds a field to a type. Strings are copied; values get their own reference.
                TVMFFITypeRegisterField: type_register_field(type_index: i32, info: *const TVMFFIFieldInfo) -> c_int;
                /// Adds a method to a type. Strings are copied; the function gets its own
                /// reference.
                TVMFFITypeRegisterMethod: type_register_method(type_index: i32, info: *const TVMFFIMethodInfo) -> c_int;
                /// Sets the metadata of a type. Can be called once per type.
                TVMFFITypeRegisterMetadata: type_register_metadata(
                    type_index: i32, metadata: *const TVMFFITypeMetadata) -> c_int;
                /// Sets a type's value in an attribute column, once. The column is created if it is
                /// new. Type index 0 only creates the column.
                TVMFFITypeRegisterAttr: type_register_attr(
                    type_index: i32, name: *const TVMFFIByteArray, value: *const TVMFFIAny) -> c_int;
                /// Returns an attribute column; NULL if it is not registered. The address never
                /// changes, but its `data` may.
                TVMFFIGetTypeAttrColumn: get_type_attr_column(name: *const TVMFFIByteArray) -> *const TVMFFITypeAttrColumn;
                /// Creates a function from an entry point. If the first argument and `deleter` are
                /// both NULL, `safe_call` receives the function object as its handle; otherwise it
                /// receives the first argument, and `deleter` is called with it when the function
                /// is destroyed. The caller owns the one reference in `*out`.
                TVMFFIFunctionCreate: function_create(
                    this: *mut c_void, safe_call: Option<SafeCall>, deleter: Option<unsafe extern "C" fn(*mut c_void)>,
                    out: *mut TVMFFIObjectHandle) -> c_int;
                /// Calls a function. Arguments are borrowed; set `result->type_index` to
                /// `kTVMFFINone` before the call. The caller owns the result afterwards. Returns -1
                /// if an error is raised.
                TVMFFIFunctionCall: function_call(
                    func: TVMFFIObjectHandle, args: *mut TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> c_int;
                /// Registers a function under a name; the table takes its own reference.
                /// Registering an existing name is a RuntimeError unless `allow_override` is 1.
                TVMFFIFunctionSetGlobal: function_set_global(
                    name: *const TVMFFIByteArray, func: TVMFFIObjectHandle, allow_override: c_int) -> c_int;
                /// Like `TVMFFIFunctionSetGlobal`, with documentation and metadata.
                TVMFFIFunctionSetGlobalFromMethodInfo: function_set_global_from_method_info(
                    info: *const TVMFFIMethodInfo, allow_override: c_int) -> c_int;
                /// Looks up a global function. `*out` is a new reference, or NULL if the function
                /// does not exist (which is not an error).
                TVMFFIFunctionGetGlobal: function_get_global(
                    name: *const TVMFFIByteArray, out: *mut TVMFFIObjectHandle) -> c_int;
                /// Converts a borrowed value to an owned one: a string behind a pointer is copied,
                /// an object gets a reference, an rvalue reference is moved from.
                TVMFFIAnyViewToOwnedAny: any_view_to_owned_any(view: *const TVMFFIAny, out: *mut TVMFFIAny) -> c_int;
                /// Takes the error that this thread raised; the caller owns the reference in
                /// `*out`, NULL if there was none.
                TVMFFIErrorMoveFromRaised: error_move_from_raised(out: *mut TVMFFIObjectHandle);
                /// Raises an error object on this thread, replacing any other; takes its own
                /// reference.
                TVMFFIErrorSetRaised: error_set_raised(error: TVMFFIObjectHandle);
                /// Raises a new error on this thread, with the backtrace of the caller.
                TVMFFIErrorSetRaisedFromCStr: error_set_raised_from_c_str(kind: *const c_char, message: *const c_char);
                /// Like `TVMFFIErrorSetRaisedFromCStr`, with a message in parts; parts that are
                /// NULL are skipped.
                TVMFFIErrorSetRaisedFromCStrParts: error_set_raised_from_c_str_parts(
                    kind: *const c_char, parts: *const *const c_char, num_parts: i32);
                /// Creates an error object; strings are copied. The caller owns the one reference
                /// in `*out`.
                TVMFFIErrorCreate: error_create(
                    kind: *const TVMFFIByteArray, message: *const TVMFFIByteArray, backtrace: *const TVMFFIByteArray,
                    out: *mut TVMFFIObjectHandle) -> c_int;
                /// Like `TVMFFIErrorCreate`, with the error that caused this one and an object for
                /// the frontend; both may be NULL, and each gets its own reference.
                TVMFFIErrorCreateWithCauseAndExtraContext: error_create_with_cause_and_extra_context(
                    kind: *const TVMFFIByteArray, message: *const TVMFFIByteArray, backtrace: *const TVMFFIByteArray,
                    cause_chain: TVMFFIObjectHandle, extra_context: TVMFFIObjectHandle,
                    out: *mut TVMFFIObjectHandle) -> c_int;
                /// Returns the backtrace of the caller as a string, one line per frame, most recent
                /// call first; `filename`, `lineno` and `func`, if not NULL, are the first frame.
                /// The backtrace ends where a call crossed from another language unless
                /// `cross_ffi_boundary` is 1. Valid until the thread's next call.
                TVMFFIBacktrace: backtrace(
                    filename: *const c_char, lineno: c_int, func: *const c_char,
                    cross_ffi_boundary: c_int) -> *const TVMFFIByteArray;
                /// Creates a tensor that owns a DLPack tensor, whose deleter runs when the tensor
                /// is destroyed. On failure the caller still owns the DLPack tensor. The caller
                /// owns the one reference in `*out`.
                TVMFFITensorFromDLPack: tensor_from_dlpack(
                    from: *mut DLManagedTensor, require_alignment: i32, require_contiguous: i32,
                    out: *mut TVMFFIObjectHandle) -> c_int;
                /// Like `TVMFFITensorFromDLPack`, for the versioned form.
                TVMFFITensorFromDLPackVersioned: tensor_from_dlpack_versioned(
                    from: *mut DLManagedTensorVersioned, require_alignment: i32, require_contiguous: i32,
                    out: *mut TVMFFIObjectHandle) -> c_int;
                /// Creates a DLPack tensor that shares the tensor's data and keeps it alive until
                /// its deleter is called.
                TVMFFITensorToDLPack: tensor_to_dlpack(from: TVMFFIObjectHandle, out: *mut *mut DLManagedTensor) -> c_int;
                /// Like `TVMFFITensorToDLPack`, in the versioned form.
                TVMFFITensorToDLPackVersioned: tensor_to_dlpack_versioned(
                    from: TVMFFIObjectHandle, out: *mut *mut DLManagedTensorVersioned) -> c_int;
                /// Creates a tensor with the data, shape and strides of `prototype` that keeps
                /// `source` alive. Does not check that the data belongs to `source`. The caller
                /// owns the one reference in `*out`.
                TVMFFITensorCreateUnsafeView: tensor_create_unsafe_view(
                    source: TVMFFIObjectHandle, prototype: *const DLTensor, out: *mut TVMFFIObjectHandle) -> c_int;
                /// Creates a string; up to 7 bytes are stored in the value itself. `*out` is
                /// overwritten, not released.
                TVMFFIStringFromByteArray: string_from_byte_array(input: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int;
                /// Creates bytes; up to 7 are stored in the value itself. `*out` is overwritten,
                /// not released.
                TVMFFIBytesFromByteArray: bytes_from_byte_array(input: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int;
                /// Parses a data type such as `float32`, `int8x4`, `bool`.
                TVMFFIDataTypeFromString: data_type_from_string(text: *const TVMFFIByteArray, out: *mut DLDataType) -> c_int;
                /// Formats a data type; `*out` is an owned string.
                TVMFFIDataTypeToString: data_type_to_string(dtype: *const DLDataType, out: *mut TVMFFIAny) -> c_int;
                /// If `*addr` is NULL, calls `init(addr)`, which stores a handle there; only one of
                /// several threads calls it. Returns the result of `init`.
                TVMFFIHandleInitOnce: handle_init_once(
                    addr: *mut *mut c_void, init: Option<unsafe extern "C" fn(*mut *mut c_void) -> c_int>) -> c_int;
                /// Sets `*addr` to NULL and calls `deinit` with the previous value, unless that was
                /// NULL.
                TVMFFIHandleDeinitOnce: handle_deinit_once(
                    addr: *mut *mut c_void, deinit: Option<unsafe extern "C" fn(*mut c_void) -> c_int>) -> c_int;
                /// Sets this thread's current stream of a device; the previous one is written to
                /// `*out_previous` unless that is NULL.
                TVMFFIEnvSetStream: env_set_stream(
                    device_type: i32, device_id: i32, stream: TVMFFIStreamHandle, out_previous: *mut TVMFFIStreamHandle) -> c_int;
                /// Returns this thread's current stream of a device; NULL if none was set.
                TVMFFIEnvGetStream: env_get_stream(device_type: i32, device_id: i32) -> TVMFFIStreamHandle;
                /// Sets this thread's tensor allocator, and with `write_to_global` 1 also that of
                /// all threads without their own; the thread's previous one is written to
                /// `*out_previous` unless that is NULL.
                TVMFFIEnvSetDLPackManagedTensorAllocator: env_set_tensor_allocator(
                    allocator: Option<DLPackManagedTensorAllocator>, write_to_global: c_int,
                    out_previous: *mut Option<DLPackManagedTensorAllocator>) -> c_int;
                /// Returns the tensor allocator: this thread's, else the one for all threads, else
                /// NULL.
                TVMFFIEnvGetDLPackManagedTensorAllocator: env_get_tensor_allocator() -> Option<DLPackManagedTensorAllocator>;
                /// Creates a tensor like `prototype` (only type, device and shape are read) with
                /// the current allocator. The caller owns the one reference in `*out`.
                TVMFFIEnvTensorAlloc: env_tensor_alloc(prototype: *mut DLTensor, out: *mut TVMFFIObjectHandle) -> c_int;
                /// Lets the frontend handle signals that have arrived; returns -1 with an error
                /// raised if the work should stop.
                TVMFFIEnvCheckSignals: env_check_signals() -> c_int;
                /// Registers a function of the frontend: `PyErr_CheckSignals`, `PyGILState_Ensure`,
                /// `PyGILState_Release`.
                TVMFFIEnvRegisterCAPI: env_register_c_api(name: *const c_char, symbol: *mut c_void) -> c_int;
                /// Looks up a function in a library's imports, then among the global functions.
                /// `*out` is borrowed from the library.
                TVMFFIEnvModLookupFromImports: env_mod_lookup_from_imports(
                    library_ctx: TVMFFIObjectHandle, name: *const c_char, out: *mut TVMFFIObjectHandle) -> c_int;
                /// Registers an address that is written into the variable of this name in each
                /// library loaded from now on.
                TVMFFIEnvModRegisterContextSymbol: env_mod_register_context_symbol(
                    name: *const c_char, symbol: *mut c_void) -> c_int;
                /// Registers a symbol of the system library: code that is linked into the program
                /// itself.
                TVMFFIEnvModRegisterSystemLibSymbol: env_mod_register_system_lib_symbol(
                    name: *const c_char, symbol: *mut c_void) -> c_int;
            }
            optional {
                /// Returns the object allocator, which frontends may replace; never NULL.
                TVMFFIGetCustomAllocator: get_custom_allocator() -> *mut TVMFFICustomAllocator;
                /// Replaces the object allocator; NULL restores the built-in one.
                TVMFFISetCustomAllocator: set_custom_allocator(allocator: *mut TVMFFICustomAllocator) -> c_int;
                /// Creates an integer from two's complement words, least significant first; one
                /// that fits 64 bits becomes a plain integer. `*out` is overwritten, not released.
                TVMFFIBigIntFromByteArray: big_int_from_byte_array(input: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int;
                /// Returns the two's complement words of an integer, least significant first;
                /// borrowed from the value.
                TVMFFIBigIntGetContentByteArray: big_int_get_content_byte_array(value: *const TVMFFIAny) -> TVMFFIByteArray;
            }
        }
    };
}
#[doc(hidden)]
pub use for_each_function;

for_each_function!(api_table);

const _: () = assert!(ApiTable::NAMES.len() == 50);
