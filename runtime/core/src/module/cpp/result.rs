//! Functions that C++ calls and whose result has a destructor: strings, functions, arrays.
//!
//! In the Itanium C++ ABI the caller provides the address of such a result. Most machines pass that
//! address as a hidden first argument, which is returned. 64-bit ARM has a separate register for
//! it, x8, and does not return it (Procedure Call Standard for the Arm 64-bit Architecture, "Result
//! Return"; C++ ABI for the same, "Return Values"). Rust cannot express that register in a
//! signature, so there the function that C++ calls is a few instructions that move the arguments up
//! by one.

/// Defines functions that C++ code calls by address or by name; no Rust code may call them. The
/// first parameter is the address of the result, followed by at most three more, each a word. The
/// block's code may unwind.
#[doc(hidden)]
#[macro_export]
macro_rules! __cpp_result {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis unsafe fn $name:ident($out:ident: $out_type:ty, $($arg:ident: $type:ty),* $(,)?) $body:block
    )*) => {$(
        #[cfg(not(target_arch = "aarch64"))]
        $(#[$attribute])*
        $visibility unsafe extern "C-unwind" fn $name($out: $out_type, $($arg: $type),*) -> *mut ::core::ffi::c_void {
            $body
            $out.cast()
        }

        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        $(#[$attribute])*
        $visibility unsafe extern "C-unwind" fn $name() {
            unsafe extern "C-unwind" fn with_pointer($out: $out_type, $($arg: $type),*) $body

            // A jump, not a call: unwinding continues in the caller.
            ::core::arch::naked_asm!(
                "mov x3, x2",
                "mov x2, x1",
                "mov x1, x0",
                "mov x0, x8",
                "b {function}",
                function = sym with_pointer,
            )
        }
    )*};
}
