//! The C++ symbols of the class of modules that compiled libraries need (apache-tvm-ffi 0.1.15, GCC's and Clang's C++ ABI).

/// The C++ names, in the order of the functions here, then the table of virtual functions and the type.
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
