//! Functions that C++ calls, and that return what has a destructor: strings, functions, arrays.
//!
//! The Itanium C++ ABI has the caller say where such a result goes. Most machines pass that address as a hidden first argument, which
//! is returned. 64-bit ARM has a register of its own for it, x8, and returns nothing (Procedure Call Standard for the Arm 64-bit
//! Architecture, "Result Return"; C++ ABI for the same, "Return Values"). Rust cannot name that register in a signature, so there
//! the function that C++ calls is a few instructions that move the arguments one place up.

/// Defines functions that C++ code calls by address or by name; no Rust code may call them. The first parameter is where the
/// result goes, and at most three more follow, each a word. What the block does may unwind.
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

            // A jump, not a call: what unwinds goes on in the caller.
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
