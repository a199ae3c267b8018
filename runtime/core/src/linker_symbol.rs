//! Functions under fixed names for the linker alone: it leaves them out where nothing asks for them, and no artifact exports them.
//! They are defined in assembly, because rustc exports every Rust function with a fixed name from every shared library.

/// The instruction that goes on in another function.
#[cfg(target_arch = "x86_64")]
#[doc(hidden)]
#[macro_export]
macro_rules! __jump {
    () => {
        "jmp {function}"
    };
}

/// The instruction that goes on in another function.
#[cfg(target_arch = "aarch64")]
#[doc(hidden)]
#[macro_export]
macro_rules! __jump {
    () => {
        "b {function}"
    };
}

/// A symbol for a function; the linker keeps it only if it is asked for. On Linux alone.
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
