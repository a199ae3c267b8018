//! Compares `kernpack::sys::abi` with the C headers of the PyPI wheel: sizes, offsets, constants,
//! and the types of all functions.
//!
//! A C program, generated from the names below and compiled with the headers, prints the values
//! that the C compiler computes; they are compared with those of Rust. The prototypes are compared
//! by the C compiler itself.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt::Write as _;
use std::mem::{align_of, offset_of, size_of};
use std::process::Command;

use kernpack::sys::abi::*;
use kernpack::sys::embedded;
use kernpack_tests::headers;

/// The comparisons: a C expression and its value in Rust.
#[derive(Default)]
struct Facts(Vec<(String, i64)>);

impl Facts {
    fn add(&mut self, c_expression: String, value: i64) {
        self.0.push((c_expression, value));
    }
}

/// Structs: `Type { rust_field = c_field, ... }`.
macro_rules! layouts {
    ($facts:ident: $($type:ident { $($field:ident $(= $c_field:ident)?),* $(,)? })*) => {
        $(
            $facts.add(format!("sizeof({})", stringify!($type)), size_of::<$type>() as i64);
            $facts.add(format!("_Alignof({})", stringify!($type)), align_of::<$type>() as i64);
            $({
                #[allow(unused_mut, unused_assignments)]
                let mut c_field = stringify!($field);
                $(c_field = stringify!($c_field);)?
                let expression = format!("offsetof({}, {c_field})", stringify!($type));
                $facts.add(expression, offset_of!($type, $field) as i64);
            })*
        )*
    };
}

/// Constants: `module: RUST = c_name, ...`.
macro_rules! constants {
    ($facts:ident: $($module:ident { $($rust:ident = $c:ident),* $(,)? })*) => {
        $($($facts.add(stringify!($c).to_owned(), $module::$rust as i64);)*)*
    };
}

fn facts() -> Facts {
    let mut facts = Facts::default();
    layouts! { facts:
        TVMFFIVersion { major, minor, patch }
        TVMFFIObject { combined_ref_count, type_index, padding = __padding, deleter }
        TVMFFIAny { type_index, small_len = small_str_len, payload = v_int64 }
        TVMFFIByteArray { data, size }
        TVMFFIShapeCell { data, size }
        TVMFFISeqCell { data, size, capacity, data_deleter }
        TVMFFIErrorCell { kind, message, backtrace, update_backtrace, cause_chain, extra_context }
        TVMFFIFunctionCell { safe_call, cpp_call }
        TVMFFIOpaqueObjectCell { handle }
        TVMFFIObjectAllocHeader { delete_space }
        TVMFFICustomAllocator { allocate, context }
        TVMFFIFieldInfo {
            name, doc, metadata, flags, size, alignment, offset, getter, setter, default_value_or_factory,
            field_static_type_index,
        }
        TVMFFIMethodInfo { name, doc, metadata, flags, method }
        TVMFFITypeMetadata { doc, creator, total_size, structural_eq_hash_kind }
        TVMFFITypeInfo {
            type_index, type_depth, type_key, type_ancestors, type_key_hash, num_fields, num_methods, fields, methods,
            metadata,
        }
        TVMFFITypeAttrColumn { data, size, begin_index }
        DLPackVersion { major, minor }
        DLDevice { device_type, device_id }
        DLDataType { code, bits, lanes }
        DLTensor { data, device, ndim, dtype, shape, strides, byte_offset }
        DLManagedTensor { dl_tensor, manager_ctx, deleter }
        DLManagedTensorVersioned { version, manager_ctx, deleter, flags, dl_tensor }
    }
    constants! { facts:
        type_index {
            ANY = kTVMFFIAny, NONE = kTVMFFINone, INT = kTVMFFIInt, BOOL = kTVMFFIBool, FLOAT = kTVMFFIFloat,
            OPAQUE_PTR = kTVMFFIOpaquePtr, DATA_TYPE = kTVMFFIDataType, DEVICE = kTVMFFIDevice,
            DL_TENSOR_PTR = kTVMFFIDLTensorPtr, RAW_STR = kTVMFFIRawStr, BYTE_ARRAY_PTR = kTVMFFIByteArrayPtr,
            OBJECT_RVALUE_REF = kTVMFFIObjectRValueRef, SMALL_STR = kTVMFFISmallStr, SMALL_BYTES = kTVMFFISmallBytes,
            UNCHANGED = kTVMFFIUnchanged, STATIC_OBJECT_BEGIN = kTVMFFIStaticObjectBegin, OBJECT = kTVMFFIObject,
            STR = kTVMFFIStr, BYTES = kTVMFFIBytes, ERROR = kTVMFFIError, FUNCTION = kTVMFFIFunction,
            SHAPE = kTVMFFIShape, TENSOR = kTVMFFITensor, ARRAY = kTVMFFIArray, MAP = kTVMFFIMap, MODULE = kTVMFFIModule,
            OPAQUE_PY_OBJECT = kTVMFFIOpaquePyObject, LIST = kTVMFFIList, DICT = kTVMFFIDict,
            VISIT_INTERRUPT = kTVMFFIVisitInterrupt, BIG_INT = kTVMFFIBigInt, STATIC_OBJECT_END = kTVMFFIStaticObjectEnd,
            DYN_OBJECT_BEGIN = kTVMFFIDynObjectBegin,
        }
        deleter_flag {
            STRONG = kTVMFFIObjectDeleterFlagBitMaskStrong, WEAK = kTVMFFIObjectDeleterFlagBitMaskWeak,
            BOTH = kTVMFFIObjectDeleterFlagBitMaskBoth,
        }
        backtrace_update {
            REPLACE = kTVMFFIBacktraceUpdateModeReplace, APPEND = kTVMFFIBacktraceUpdateModeAppend,
        }
        field_flag {
            WRITABLE = kTVMFFIFieldFlagBitMaskWritable, HAS_DEFAULT = kTVMFFIFieldFlagBitMaskHasDefault,
            IS_STATIC_METHOD = kTVMFFIFieldFlagBitMaskIsStaticMethod,
            SEQ_HASH_IGNORE = kTVMFFIFieldFlagBitMaskSEqHashIgnore,
            SEQ_HASH_DEF_PATTERN = kTVMFFIFieldFlagBitMaskSEqHashDefPattern,
            DEFAULT_FROM_FACTORY = kTVMFFIFieldFlagBitMaskDefaultFromFactory,
            REPR_OFF = kTVMFFIFieldFlagBitMaskReprOff, COMPARE_OFF = kTVMFFIFieldFlagBitMaskCompareOff,
            HASH_OFF = kTVMFFIFieldFlagBitMaskHashOff, INIT_OFF = kTVMFFIFieldFlagBitMaskInitOff,
            KW_ONLY = kTVMFFIFieldFlagBitMaskKwOnly, SETTER_IS_FUNCTION_OBJ = kTVMFFIFieldFlagBitSetterIsFunctionObj,
            SEQ_HASH_DEF_SIMPLE = kTVMFFIFieldFlagBitMaskSEqHashDefSimple,
        }
        seq_hash_kind {
            UNSUPPORTED = kTVMFFISEqHashKindUnsupported, TREE_NODE = kTVMFFISEqHashKindTreeNode,
            FREE_VAR = kTVMFFISEqHashKindFreeVar, DAG_NODE = kTVMFFISEqHashKindDAGNode,
            CONST_TREE_NODE = kTVMFFISEqHashKindConstTreeNode, UNIQUE_INSTANCE = kTVMFFISEqHashKindUniqueInstance,
        }
        device_type {
            CPU = kDLCPU, CUDA = kDLCUDA, CUDA_HOST = kDLCUDAHost, OPENCL = kDLOpenCL, VULKAN = kDLVulkan,
            METAL = kDLMetal, VPI = kDLVPI, ROCM = kDLROCM, ROCM_HOST = kDLROCMHost, EXT_DEV = kDLExtDev,
            CUDA_MANAGED = kDLCUDAManaged, ONE_API = kDLOneAPI, WEBGPU = kDLWebGPU, HEXAGON = kDLHexagon,
            MAIA = kDLMAIA, TRN = kDLTrn,
        }
        dtype_code {
            INT = kDLInt, UINT = kDLUInt, FLOAT = kDLFloat, OPAQUE_HANDLE = kDLOpaqueHandle, BFLOAT = kDLBfloat,
            COMPLEX = kDLComplex, BOOL = kDLBool, FLOAT8_E3M4 = kDLFloat8_e3m4, FLOAT8_E4M3 = kDLFloat8_e4m3,
            FLOAT8_E4M3B11FNUZ = kDLFloat8_e4m3b11fnuz, FLOAT8_E4M3FN = kDLFloat8_e4m3fn,
            FLOAT8_E4M3FNUZ = kDLFloat8_e4m3fnuz, FLOAT8_E5M2 = kDLFloat8_e5m2, FLOAT8_E5M2FNUZ = kDLFloat8_e5m2fnuz,
            FLOAT8_E8M0FNU = kDLFloat8_e8m0fnu, FLOAT6_E2M3FN = kDLFloat6_e2m3fn, FLOAT6_E3M2FN = kDLFloat6_e3m2fn,
            FLOAT4_E2M1FN = kDLFloat4_e2m1fn,
        }
        dlpack_flags {
            READ_ONLY = DLPACK_FLAG_BITMASK_READ_ONLY, IS_COPIED = DLPACK_FLAG_BITMASK_IS_COPIED,
            IS_SUBBYTE_TYPE_PADDED = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
        }
    }
    for member in ["v_float64", "v_ptr", "v_c_str", "v_obj", "v_dtype", "v_device", "v_bytes", "v_uint64"] {
        facts.add(format!("offsetof(TVMFFIAny, {member})"), 8);
    }
    facts.add("offsetof(TVMFFIAny, zero_padding)".to_owned(), 4);
    facts.add("TVM_FFI_VERSION_MAJOR".to_owned(), i64::from(version().major));
    facts.add("TVM_FFI_VERSION_MINOR".to_owned(), i64::from(version().minor));
    facts
}

fn version() -> TVMFFIVersion {
    let mut version = TVMFFIVersion { major: 9, minor: 9, patch: 9 };
    // SAFETY: the argument is writable.
    unsafe { (embedded::table().get_version)(&raw mut version) };
    version
}

/// A Rust type, with its name in C.
trait CType {
    fn name() -> String;
}

macro_rules! c_types {
    ($($type:ty = $name:expr),* $(,)?) => { $(impl CType for $type { fn name() -> String { $name.to_owned() } })* };
}

type Deleter = Option<unsafe extern "C" fn(*mut c_void)>;
type HandleInit = Option<unsafe extern "C" fn(*mut *mut c_void) -> i32>;
type HandleDeinit = Option<unsafe extern "C" fn(*mut c_void) -> i32>;

c_types! {
    () = "void", i32 = "int32_t", c_void = "void", u8 = "uint8_t", std::ffi::c_char = "char",
    TVMFFIVersion = "TVMFFIVersion", TVMFFIObject = "void", TVMFFIAny = "TVMFFIAny", TVMFFIByteArray = "TVMFFIByteArray",
    TVMFFICustomAllocator = "TVMFFICustomAllocator", TVMFFITypeInfo = "TVMFFITypeInfo",
    TVMFFIFieldInfo = "TVMFFIFieldInfo", TVMFFIMethodInfo = "TVMFFIMethodInfo", TVMFFITypeMetadata = "TVMFFITypeMetadata",
    TVMFFITypeAttrColumn = "TVMFFITypeAttrColumn", DLManagedTensor = "DLManagedTensor",
    DLManagedTensorVersioned = "DLManagedTensorVersioned", DLTensor = "DLTensor", DLDataType = "DLDataType",
    Option<SafeCall> = "TVMFFISafeCallType", Option<DLPackManagedTensorAllocator> = "DLPackManagedTensorAllocator",
    Deleter = "Deleter", HandleInit = "HandleInit", HandleDeinit = "HandleDeinit",
}

impl<T: CType> CType for *mut T {
    fn name() -> String {
        format!("{}*", T::name())
    }
}

impl<T: CType> CType for *const T {
    fn name() -> String {
        // In these headers, C has no const between two pointers.
        if T::name().ends_with('*') { format!("{}*", T::name()) } else { format!("const {}*", T::name()) }
    }
}

/// A function pointer's type in C.
trait CFunction {
    fn c_type(&self) -> String;
}

impl<F: CFunction> CFunction for Option<F> {
    fn c_type(&self) -> String {
        self.as_ref().unwrap().c_type()
    }
}

macro_rules! c_functions {
    ($(($($arg:ident),*))*) => { $(
        impl<R: CType, $($arg: CType),*> CFunction for unsafe extern "C" fn($($arg),*) -> R {
            fn c_type(&self) -> String {
                let args: Vec<String> = vec![$($arg::name()),*];
                let args = if args.is_empty() { "void".to_owned() } else { args.join(", ") };
                format!("{}({args})", R::name())
            }
        }
    )* };
}

c_functions! { () (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }

macro_rules! prototypes {
    ($($name:ident = $field:ident),* $(,)?) => {{
        let table = embedded::table();
        vec![$((stringify!($name), table.$field.c_type())),*]
    }};
}

fn prototypes() -> Vec<(&'static str, String)> {
    prototypes! {
        TVMFFIGetVersion = get_version,
        TVMFFIObjectIncRef = object_inc_ref,
        TVMFFIObjectDecRef = object_dec_ref,
        TVMFFIObjectCreateOpaque = object_create_opaque,
        TVMFFITypeKeyToIndex = type_key_to_index,
        TVMFFITypeGetOrAllocIndex = type_get_or_alloc_index,
        TVMFFIGetTypeInfo = get_type_info,
        TVMFFITypeRegisterField = type_register_field,
        TVMFFITypeRegisterMethod = type_register_method,
        TVMFFITypeRegisterMetadata = type_register_metadata,
        TVMFFITypeRegisterAttr = type_register_attr,
        TVMFFIGetTypeAttrColumn = get_type_attr_column,
        TVMFFIFunctionCreate = function_create,
        TVMFFIFunctionCall = function_call,
        TVMFFIFunctionSetGlobal = function_set_global,
        TVMFFIFunctionSetGlobalFromMethodInfo = function_set_global_from_method_info,
        TVMFFIFunctionGetGlobal = function_get_global,
        TVMFFIAnyViewToOwnedAny = any_view_to_owned_any,
        TVMFFIErrorMoveFromRaised = error_move_from_raised,
        TVMFFIErrorSetRaised = error_set_raised,
        TVMFFIErrorSetRaisedFromCStr = error_set_raised_from_c_str,
        TVMFFIErrorSetRaisedFromCStrParts = error_set_raised_from_c_str_parts,
        TVMFFIErrorCreate = error_create,
        TVMFFIErrorCreateWithCauseAndExtraContext = error_create_with_cause_and_extra_context,
        TVMFFIBacktrace = backtrace,
        TVMFFITensorFromDLPack = tensor_from_dlpack,
        TVMFFITensorFromDLPackVersioned = tensor_from_dlpack_versioned,
        TVMFFITensorToDLPack = tensor_to_dlpack,
        TVMFFITensorToDLPackVersioned = tensor_to_dlpack_versioned,
        TVMFFITensorCreateUnsafeView = tensor_create_unsafe_view,
        TVMFFIStringFromByteArray = string_from_byte_array,
        TVMFFIBytesFromByteArray = bytes_from_byte_array,
        TVMFFIDataTypeFromString = data_type_from_string,
        TVMFFIDataTypeToString = data_type_to_string,
        TVMFFIHandleInitOnce = handle_init_once,
        TVMFFIHandleDeinitOnce = handle_deinit_once,
        TVMFFIEnvSetStream = env_set_stream,
        TVMFFIEnvGetStream = env_get_stream,
        TVMFFIEnvSetDLPackManagedTensorAllocator = env_set_tensor_allocator,
        TVMFFIEnvGetDLPackManagedTensorAllocator = env_get_tensor_allocator,
        TVMFFIEnvTensorAlloc = env_tensor_alloc,
        TVMFFIEnvCheckSignals = env_check_signals,
        TVMFFIEnvRegisterCAPI = env_register_c_api,
        TVMFFIEnvModLookupFromImports = env_mod_lookup_from_imports,
        TVMFFIEnvModRegisterContextSymbol = env_mod_register_context_symbol,
        TVMFFIEnvModRegisterSystemLibSymbol = env_mod_register_system_lib_symbol,
        TVMFFIGetCustomAllocator = get_custom_allocator,
        TVMFFISetCustomAllocator = set_custom_allocator,
        TVMFFIBigIntFromByteArray = big_int_from_byte_array,
        TVMFFIBigIntGetContentByteArray = big_int_get_content_byte_array,
    }
}

#[test]
fn layouts_constants_and_prototypes_are_those_of_the_headers() {
    let Some(include_dirs) = headers::include_dirs_or_skip() else { return };
    compare("stock", "#include <tvm/ffi/c_api.h>\n#include <tvm/ffi/extra/c_env_api.h>\n", &include_dirs);
}

#[test]
fn our_header_says_the_same() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/capi/include");
    // The version is not part of the interface: `TVMFFIGetVersion` returns it.
    let version = version();
    let version =
        format!("#define TVM_FFI_VERSION_MAJOR {}\n#define TVM_FFI_VERSION_MINOR {}\n", version.major, version.minor);
    compare("ours", &format!("#include <kernpack/c_api.h>\n{version}"), &[folder]);
}

/// Compiles and runs the program with these headers.
fn compare(name: &str, includes: &str, include_dirs: &[std::path::PathBuf]) {
    let (facts, prototypes) = (facts(), prototypes());
    let names: Vec<_> = prototypes.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ApiTable::NAMES);

    let mut program = format!(
        "#include <stddef.h>\n#include <stdio.h>\n{includes}\
         typedef void (*Deleter)(void*);\ntypedef int (*HandleInit)(void**);\ntypedef int (*HandleDeinit)(void*);\n\
         int main(void) {{\n",
    );
    for (expression, _) in &facts.0 {
        writeln!(program, "  printf(\"%s=%lld\\n\", \"{expression}\", (long long)({expression}));").unwrap();
    }
    for (name, prototype) in &prototypes {
        // In an old header, `f()` is a prototype without parameter types, which is compatible with
        // any.
        writeln!(
            program,
            "  printf(\"%s=%d\\n\", \"{name}\", __builtin_types_compatible_p(__typeof__({name}), {prototype}));"
        )
        .unwrap();
    }
    program.push_str("  return 0;\n}\n");

    let dir = headers::scratch_dir(&format!("abi_headers_{name}"));
    let (source, binary) = (dir.join("facts.c"), dir.join("facts"));
    std::fs::write(&source, program).unwrap();
    headers::compile("cc", &source, &binary, include_dirs, &["-std=gnu11"]);
    let output = headers::run(&mut Command::new(&binary));
    let printed = String::from_utf8(output.stdout).unwrap();
    let seen: BTreeMap<&str, i64> = printed
        .lines()
        .map(|line| line.rsplit_once('=').unwrap())
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect();

    let mut wrong = Vec::new();
    for (expression, value) in &facts.0 {
        if seen[expression.as_str()] != *value {
            wrong.push(format!("{expression}: {} in C, {value} in Rust", seen[expression.as_str()]));
        }
    }
    for (name, prototype) in &prototypes {
        if seen[name] != 1 {
            wrong.push(format!("{name}: the header has another type than {prototype}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} values and {} prototypes are the same", facts.0.len(), prototypes.len());
}
