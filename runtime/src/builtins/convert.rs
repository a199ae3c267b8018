//! Conversion of values to a type that is only known at run time: the hook `__ffi_convert__`.
