//! The C++ symbols of the module class that compiled libraries need (apache-tvm-ffi 0.1.15, C++ ABI
//! of GCC and Clang).

/// The C++ names: the functions in the order of their definitions, then the vtable and the type
/// info.
pub const NAMES: [&str; 8] = [
    "_ZN3tvm3ffi9ModuleObj12ImportModuleERKNS0_6ModuleE",
    "_ZN3tvm3ffi9ModuleObj12ClearImportsEv",
    "_ZN3tvm3ffi9ModuleObj11GetFunctionERKNS0_6StringEb",
    "_ZN3tvm3ffi9ModuleObj18ImplementsFunctionERKNS0_6StringEb",
    "_ZN3tvm3ffi9ModuleObj14GetFunctionDocERKNS0_6StringEb",
    "_ZN3tvm3ffi9ModuleObj19GetFunctionMetadataERKNS0_6StringEb",
    "_ZTVN3tvm3ffi9ModuleObjE",
    "_ZTIN3tvm3ffi9ModuleObjE",
];
