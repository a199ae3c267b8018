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
        required { $($name:ident : $field:ident ( $($arg:ident : $type:ty),* ) $(-> $ret:ty)?;)* }
        optional { $($opt_name:ident : $opt_field:ident ( $($opt_arg:ident : $opt_type:ty),* ) $(-> $opt_ret:ty)?;)* }
    ) => {
        /// The 50 C functions of the ABI as one table: what a process's one implementation is reached through.
        ///
        /// A Rust host hands this table to the libraries that it loads. Fields are only ever added at the end, and
        /// `struct_size` says how many there are. Optional functions are those that a supported older implementation
        /// lacks.
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct ApiTable {
            /// [`ApiTable::MAGIC`].
            pub magic: u64,
            /// `size_of::<ApiTable>()` where the table was made.
            pub struct_size: usize,
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub $field: unsafe extern "C" fn($($arg: $type),*) $(-> $ret)?,
            )*
            $(
                #[doc = concat!("`", stringify!($opt_name), "`; absent in older implementations.")]
                pub $opt_field: Option<unsafe extern "C" fn($($opt_arg: $opt_type),*) $(-> $opt_ret)?>,
            )*
        }

        /// The C names, each with a NUL behind it, in the order of the fields.
        const C_NAMES: &str = concat!($(stringify!($name), "\0",)* $(stringify!($opt_name), "\0",)*);

        impl ApiTable {
            /// Builds a table by looking up each C name.
            ///
            /// # Errors
            /// The first required name for which `lookup` returns NULL.
            ///
            /// # Safety
            /// What `lookup` returns for a name is NULL or the address of the function that the ABI gives this name.
            pub unsafe fn from_symbols(
                mut lookup: impl FnMut(&'static core::ffi::CStr) -> *mut c_void,
            ) -> Result<Self, &'static str> {
                const REQUIRED: usize = [$(stringify!($name)),*].len();
                let mut raw = RawTable {
                    magic: Self::MAGIC,
                    struct_size: core::mem::size_of::<Self>(),
                    functions: [core::ptr::null_mut(); COUNT],
                };
                for (index, name) in C_NAMES.split_inclusive('\0').enumerate() {
                    // SAFETY: each part ends with its only NUL.
                    let address = lookup(unsafe { core::ffi::CStr::from_bytes_with_nul_unchecked(name.as_bytes()) });
                    if address.is_null() && index < REQUIRED {
                        return Err(&name[..name.len() - 1]);
                    }
                    raw.functions[index] = address;
                }
                // SAFETY: the two have one layout, in the order of the names; the caller promises that each address is the
                // function of that name; NULL, which only an optional one can be here, is `None`.
                Ok(unsafe { core::mem::transmute::<RawTable, Self>(raw) })
            }

            /// The function with this C name; NULL when it is none of the table's or is absent.
            pub fn function(&self, name: &str) -> *mut c_void {
                // SAFETY: the two have one layout; `None` is NULL.
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

/// An [`ApiTable`] as addresses.
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

/// The C functions, for a macro that makes something of each. It sees the names of types as they stand here.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_function {
    ($make:ident) => {
        $make! {
            required {
                TVMFFIGetVersion: get_version(out: *mut TVMFFIVersion);
                TVMFFIObjectIncRef: object_inc_ref(obj: TVMFFIObjectHandle) -> c_int;
                TVMFFIObjectDecRef: object_dec_ref(obj: TVMFFIObjectHandle) -> c_int;
                TVMFFIObjectCreateOpaque: object_create_opaque(
                    handle: *mut c_void, type_index: i32, deleter: Option<unsafe extern "C" fn(*mut c_void)>,
                    out: *mut TVMFFIObjectHandle) -> c_int;
                TVMFFITypeKeyToIndex: type_key_to_index(key: *const TVMFFIByteArray, out: *mut i32) -> c_int;
                TVMFFITypeGetOrAllocIndex: type_get_or_alloc_index(
                    key: *const TVMFFIByteArray, static_index: i32, depth: i32, num_child_slots: i32,
                    child_slots_can_overflow: i32, parent_index: i32) -> i32;
                TVMFFIGetTypeInfo: get_type_info(type_index: i32) -> *const TVMFFITypeInfo;
                TVMFFITypeRegisterField: type_register_field(type_index: i32, info: *const TVMFFIFieldInfo) -> c_int;
                TVMFFITypeRegisterMethod: type_register_method(type_index: i32, info: *const TVMFFIMethodInfo) -> c_int;
                TVMFFITypeRegisterMetadata: type_register_metadata(
                    type_index: i32, metadata: *const TVMFFITypeMetadata) -> c_int;
                TVMFFITypeRegisterAttr: type_register_attr(
                    type_index: i32, name: *const TVMFFIByteArray, value: *const TVMFFIAny) -> c_int;
                TVMFFIGetTypeAttrColumn: get_type_attr_column(name: *const TVMFFIByteArray) -> *const TVMFFITypeAttrColumn;
                TVMFFIFunctionCreate: function_create(
                    this: *mut c_void, safe_call: Option<SafeCall>, deleter: Option<unsafe extern "C" fn(*mut c_void)>,
                    out: *mut TVMFFIObjectHandle) -> c_int;
                TVMFFIFunctionCall: function_call(
                    func: TVMFFIObjectHandle, args: *mut TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> c_int;
                TVMFFIFunctionSetGlobal: function_set_global(
                    name: *const TVMFFIByteArray, func: TVMFFIObjectHandle, allow_override: c_int) -> c_int;
                TVMFFIFunctionSetGlobalFromMethodInfo: function_set_global_from_method_info(
                    info: *const TVMFFIMethodInfo, allow_override: c_int) -> c_int;
                TVMFFIFunctionGetGlobal: function_get_global(
                    name: *const TVMFFIByteArray, out: *mut TVMFFIObjectHandle) -> c_int;
                TVMFFIAnyViewToOwnedAny: any_view_to_owned_any(view: *const TVMFFIAny, out: *mut TVMFFIAny) -> c_int;
                TVMFFIErrorMoveFromRaised: error_move_from_raised(out: *mut TVMFFIObjectHandle);
                TVMFFIErrorSetRaised: error_set_raised(error: TVMFFIObjectHandle);
                TVMFFIErrorSetRaisedFromCStr: error_set_raised_from_c_str(kind: *const c_char, message: *const c_char);
                TVMFFIErrorSetRaisedFromCStrParts: error_set_raised_from_c_str_parts(
                    kind: *const c_char, parts: *const *const c_char, num_parts: i32);
                TVMFFIErrorCreate: error_create(
                    kind: *const TVMFFIByteArray, message: *const TVMFFIByteArray, backtrace: *const TVMFFIByteArray,
                    out: *mut TVMFFIObjectHandle) -> c_int;
                TVMFFIErrorCreateWithCauseAndExtraContext: error_create_with_cause_and_extra_context(
                    kind: *const TVMFFIByteArray, message: *const TVMFFIByteArray, backtrace: *const TVMFFIByteArray,
                    cause_chain: TVMFFIObjectHandle, extra_context: TVMFFIObjectHandle,
                    out: *mut TVMFFIObjectHandle) -> c_int;
                TVMFFIBacktrace: backtrace(
                    filename: *const c_char, lineno: c_int, func: *const c_char,
                    cross_ffi_boundary: c_int) -> *const TVMFFIByteArray;
                TVMFFITensorFromDLPack: tensor_from_dlpack(
                    from: *mut DLManagedTensor, require_alignment: i32, require_contiguous: i32,
                    out: *mut TVMFFIObjectHandle) -> c_int;
                TVMFFITensorFromDLPackVersioned: tensor_from_dlpack_versioned(
                    from: *mut DLManagedTensorVersioned, require_alignment: i32, require_contiguous: i32,
                    out: *mut TVMFFIObjectHandle) -> c_int;
                TVMFFITensorToDLPack: tensor_to_dlpack(from: TVMFFIObjectHandle, out: *mut *mut DLManagedTensor) -> c_int;
                TVMFFITensorToDLPackVersioned: tensor_to_dlpack_versioned(
                    from: TVMFFIObjectHandle, out: *mut *mut DLManagedTensorVersioned) -> c_int;
                TVMFFITensorCreateUnsafeView: tensor_create_unsafe_view(
                    source: TVMFFIObjectHandle, prototype: *const DLTensor, out: *mut TVMFFIObjectHandle) -> c_int;
                TVMFFIStringFromByteArray: string_from_byte_array(input: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int;
                TVMFFIBytesFromByteArray: bytes_from_byte_array(input: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int;
                TVMFFIDataTypeFromString: data_type_from_string(text: *const TVMFFIByteArray, out: *mut DLDataType) -> c_int;
                TVMFFIDataTypeToString: data_type_to_string(dtype: *const DLDataType, out: *mut TVMFFIAny) -> c_int;
                TVMFFIHandleInitOnce: handle_init_once(
                    addr: *mut *mut c_void, init: Option<unsafe extern "C" fn(*mut *mut c_void) -> c_int>) -> c_int;
                TVMFFIHandleDeinitOnce: handle_deinit_once(
                    addr: *mut *mut c_void, deinit: Option<unsafe extern "C" fn(*mut c_void) -> c_int>) -> c_int;
                TVMFFIEnvSetStream: env_set_stream(
                    device_type: i32, device_id: i32, stream: TVMFFIStreamHandle, out_previous: *mut TVMFFIStreamHandle) -> c_int;
                TVMFFIEnvGetStream: env_get_stream(device_type: i32, device_id: i32) -> TVMFFIStreamHandle;
                TVMFFIEnvSetDLPackManagedTensorAllocator: env_set_tensor_allocator(
                    allocator: Option<DLPackManagedTensorAllocator>, write_to_global: c_int,
                    out_previous: *mut Option<DLPackManagedTensorAllocator>) -> c_int;
                TVMFFIEnvGetDLPackManagedTensorAllocator: env_get_tensor_allocator() -> Option<DLPackManagedTensorAllocator>;
                TVMFFIEnvTensorAlloc: env_tensor_alloc(prototype: *mut DLTensor, out: *mut TVMFFIObjectHandle) -> c_int;
                TVMFFIEnvCheckSignals: env_check_signals() -> c_int;
                TVMFFIEnvRegisterCAPI: env_register_c_api(name: *const c_char, symbol: *mut c_void) -> c_int;
                TVMFFIEnvModLookupFromImports: env_mod_lookup_from_imports(
                    library_ctx: TVMFFIObjectHandle, name: *const c_char, out: *mut TVMFFIObjectHandle) -> c_int;
                TVMFFIEnvModRegisterContextSymbol: env_mod_register_context_symbol(
                    name: *const c_char, symbol: *mut c_void) -> c_int;
                TVMFFIEnvModRegisterSystemLibSymbol: env_mod_register_system_lib_symbol(
                    name: *const c_char, symbol: *mut c_void) -> c_int;
            }
            optional {
                TVMFFIGetCustomAllocator: get_custom_allocator() -> *mut TVMFFICustomAllocator;
                TVMFFISetCustomAllocator: set_custom_allocator(allocator: *mut TVMFFICustomAllocator) -> c_int;
                TVMFFIBigIntFromByteArray: big_int_from_byte_array(input: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int;
                TVMFFIBigIntGetContentByteArray: big_int_get_content_byte_array(value: *const TVMFFIAny) -> TVMFFIByteArray;
            }
        }
    };
}
#[doc(hidden)]
pub use for_each_function;

for_each_function!(api_table);

const _: () = assert!(ApiTable::NAMES.len() == 50);
