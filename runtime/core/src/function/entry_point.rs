//! The functions with the C ABI of packed functions, methods, properties and kernels. They differ
//! only in names and numbers, so generated code has one line for each. They are macros because each
//! function needs its own symbol or address.

/// A function with the packed calling convention, with a symbol if one is given:
/// `call = call_packed::<2>(&INFO; body)` forwards the call to
/// `call_packed::<2, _>(&INFO, args, num_args, result, body)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __entry_point {
    (
        $($symbol:literal)? $name:ident = $function:ident $(::<$count:literal>)?($($before:expr),* $(; $body:ident)?)
    ) => {
        $(#[unsafe(export_name = $symbol)])?
        unsafe extern "C" fn $name(
            _this: *mut $crate::generated_code::c_void,
            args: *const $crate::generated_code::TVMFFIAny,
            num_args: ::core::primitive::i32,
            result: *mut $crate::generated_code::TVMFFIAny,
        ) -> ::core::primitive::i32 {
            // SAFETY: the caller of a packed function passes `num_args` valid views and a writable
            // result.
            unsafe {
                $crate::generated_code::$function$(::<$count, _>)?($($before,)* args, num_args, result $(, $body)?)
            }
        }
    };
}

/// A symbol with the packed calling convention whose function returns a string:
/// `"symbol" doc = kernel_doc(INFO.doc)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __text_symbol {
    ($symbol:literal $name:ident = $function:ident($text:expr)) => {
        #[unsafe(export_name = $symbol)]
        unsafe extern "C" fn $name(
            _this: *mut $crate::generated_code::c_void,
            _args: *const $crate::generated_code::TVMFFIAny,
            _num_args: ::core::primitive::i32,
            result: *mut $crate::generated_code::TVMFFIAny,
        ) -> ::core::primitive::i32 {
            // SAFETY: the caller of a packed function passes a writable result.
            unsafe { $crate::generated_code::$function($text, result) }
        }
    };
}

/// The symbols of a packed function: the call, its metadata and, if there is a third, its
/// documentation. `$info` is the static with its description; `$body` converts `$count` arguments,
/// calls the user's function and converts its result. `$optional` has a bit for each argument that
/// may be omitted.
#[doc(hidden)]
#[macro_export]
macro_rules! __packed_function {
    ($info:ident, $name:ident = $body:ident($count:literal), $call:literal, $($symbols:literal),+) => {
        $crate::__entry_point!($call $name = call_packed::<$count>(&$info; $body));
        $crate::__packed_function!($info: $($symbols),+);
    };
    ($info:ident, $name:ident = $body:ident($count:literal, $optional:literal), $call:literal, $($symbols:literal),+) => {
        $crate::__entry_point!($call $name = call_bound::<$count>(&$info, $optional; $body));
        $crate::__packed_function!($info: $($symbols),+);
    };
    ($info:ident: $metadata:literal $(, $doc:literal)?) => {
        $crate::__text_symbol!($metadata __kernpack_metadata = return_metadata(&$info));
        $($crate::__text_symbol!($doc __kernpack_doc = return_doc(&$info));)?
    };
}

/// The getter of a property.
#[doc(hidden)]
#[macro_export]
macro_rules! __getter {
    ($name:ident = call_getter(&$info:ident; $body:ident)) => {
        unsafe extern "C" fn $name(
            object: *mut $crate::generated_code::c_void,
            result: *mut $crate::generated_code::TVMFFIAny,
        ) -> ::core::primitive::i32 {
            // SAFETY: the property is registered at offset 0, so the caller passes a live object
            // and a writable result.
            unsafe { $crate::generated_code::call_getter(&$info, object, result, $body) }
        }
    };
}

/// A function with the packed calling convention that another object file of the library defines.
#[doc(hidden)]
#[macro_export]
macro_rules! __foreign_entry_point {
    ($symbol:literal $name:ident) => {
        unsafe extern "C" {
            #[link_name = $symbol]
            fn $name(
                this: *mut $crate::generated_code::c_void,
                args: *const $crate::generated_code::TVMFFIAny,
                num_args: ::core::primitive::i32,
                result: *mut $crate::generated_code::TVMFFIAny,
            ) -> ::core::primitive::i32;
        }
    };
}

/// A CPU kernel, generated from the data of `kernpack-build`.
#[doc(hidden)]
#[macro_export]
macro_rules! __host_kernel {
    ($info:ident) => {
        // SAFETY: the name of the symbol that `info` calls states that it follows the packed
        // calling convention.
        unsafe { $crate::generated_code::Kernel::new(&$info) }
    };
}
