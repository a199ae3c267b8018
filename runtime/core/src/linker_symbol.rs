//! Functions under fixed names for the linker only: it omits them if nothing refers to them, and
//! they are not exported from any artifact. They are defined in assembly, because rustc exports
//! every Rust function with a fixed name from every shared library.

/// The instruction that jumps to another function.
#[cfg(target_arch = "x86_64")]
#[doc(hidden)]
#[macro_export]
macro_rules! __jump {
    () => {
        "jmp {function}"
    };
}

/// The instruction that jumps to another function.
#[cfg(target_arch = "aarch64")]
#[doc(hidden)]
#[macro_export]
macro_rules! __jump {
    () => {
        "b {function}"
    };
}

/// Defines a symbol for a function, which the linker keeps only if it is referenced. Linux only.
#[doc(hidden)]
#[macro_export]
macro_rules! __linker_symbol {
    ($name:expr, $function:path) => {
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        core::arch::global_asm!(
            concat!(".pushsection .text.", $name, ",\"ax\",%progbits"),
            concat!(".globl ", $name),
            concat!(".type ", $name, ",%function"),
            concat!($name, ":"),
            $crate::__jump!(),
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            function = sym $function,
        );
    };
}
