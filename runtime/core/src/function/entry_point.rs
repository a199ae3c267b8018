//! The functions with the C ABI of packed functions, methods and properties. They differ in names and numbers only, so generated code has one line
//! for each: a macro, because every one needs a symbol or an address of its own.

/// The exported functions of a packed function: the call, its metadata and, with a third symbol, its documentation. Its description is the static
/// `$info`; `$body` converts `$count` arguments, calls the user's function and converts its result.
#[doc(hidden)]
#[macro_export]
macro_rules! __packed_function {
    ($info:ident, $name:ident = $body:ident($count:literal), $call:literal, $metadata:literal $(, $doc:literal)?) => {
        $crate::__method!(#[unsafe(export_name = $call)] $info, $name = call_packed::<$count>($body));
        $crate::__packed_text!($metadata, __kernpack_metadata, return_metadata(&$info));
        $($crate::__packed_text!($doc, __kernpack_doc, return_doc(&$info));)?
    };
}

/// A packed function that returns a text about another one.
#[doc(hidden)]
#[macro_export]
macro_rules! __packed_text {
    ($symbol:literal, $name:ident, $text:ident(&$info:ident)) => {
        #[unsafe(export_name = $symbol)]
        unsafe extern "C" fn $name(
            _this: *mut $crate::generated_code::c_void,
            _args: *const $crate::generated_code::TVMFFIAny,
            _num_args: ::core::primitive::i32,
            result: *mut $crate::generated_code::TVMFFIAny,
        ) -> ::core::primitive::i32 {
            // SAFETY: the caller of a packed function passes a writable result.
            unsafe { $crate::generated_code::$text(&$info, result) }
        }
    };
}

/// The function behind a method: `call_packed::<3>`, or, where callers may name arguments or leave them away, `call_bound::<3>(optional)` with a
/// bit for each parameter that has a default.
#[doc(hidden)]
#[macro_export]
macro_rules! __method {
    (
        $(#[$attribute:meta])?
        $info:ident, $name:ident = $call:ident::<$count:literal>($body:ident $(, $optional:literal)?)
    ) => {
        $(#[$attribute])?
        unsafe extern "C" fn $name(
            _this: *mut $crate::generated_code::c_void,
            args: *const $crate::generated_code::TVMFFIAny,
            num_args: ::core::primitive::i32,
            result: *mut $crate::generated_code::TVMFFIAny,
        ) -> ::core::primitive::i32 {
            // SAFETY: the caller of a packed function passes `num_args` valid views and a writable result.
            unsafe { $crate::generated_code::$call::<$count, _>(&$info $(, $optional)?, args, num_args, result, $body) }
        }
    };
}

/// The getter of a property.
#[doc(hidden)]
#[macro_export]
macro_rules! __getter {
    ($info:ident, $name:ident = $body:ident) => {
        unsafe extern "C" fn $name(
            object: *mut $crate::generated_code::c_void,
            result: *mut $crate::generated_code::TVMFFIAny,
        ) -> ::core::primitive::i32 {
            // SAFETY: the property is registered at offset 0, so the caller passes a live object and a writable result.
            unsafe { $crate::generated_code::call_getter(&$info, object, result, $body) }
        }
    };
}
