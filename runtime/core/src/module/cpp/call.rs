//! Calls of C++ virtual functions that convert thrown exceptions to errors.
//!
//! Rust cannot catch a C++ exception, nor may one reach a frame that catches panics, which ends the
//! process. So the call is made by a few instructions with their own personality routine, like a
//! C++ function with `catch (...)`: the unwinder asks the routine whether to stop the exception
//! there, and continues after the call. On machines other than x86-64 and 64-bit ARM with Linux the
//! exception ends the process, with a message of the C++ or Rust runtime.
//!
//! The type of the exception determines the error: a `tvm::ffi::Error` is the error itself, other
//! exceptions that derive from `std::exception` provide their text (Itanium C++ ABI: Exception
//! Handling, and its implementation in GCC and Clang with libstdc++).

use core::ffi::c_void;
use core::ptr::{null, null_mut};

use super::error_relay;
use crate::Result;

/// Arguments of a virtual function, including the C++ object. Every function takes the object.
pub(in crate::module) type Arguments = [*const c_void; 3];

/// Calls a function, which uses only as many of the arguments as it takes. Returns the word that it
/// returns.
///
/// # Errors
/// Returns the exception that the function throws, or the error that it reports if it belongs to
/// another artifact of this project.
///
/// # Safety
/// `function` takes up to three words, which `arguments` contains, and returns up to one.
pub(in crate::module) unsafe fn call(function: *const c_void, arguments: Arguments) -> Result<usize> {
    // SAFETY: promised by the caller.
    error_relay::listening(|| unsafe { call_catching(function, arguments, null_mut()) })
}

/// Calls a function whose result has a destructor. The C++ code writes the result to `out`, unless
/// the call fails.
///
/// # Errors
/// As for [`call`].
///
/// # Safety
/// `function` takes up to two words, which `arguments` contains; its result has a destructor, and
/// fits into the memory at `out`.
pub(in crate::module) unsafe fn call_into(
    out: *mut c_void,
    function: *const c_void,
    arguments: [*const c_void; 2],
) -> Result<()> {
    let [a, b] = arguments;
    // The address of the result, as the C++ ABI passes it; see `super::result`.
    let arguments = if cfg!(target_arch = "aarch64") { [a, b, null()] } else { [out.cast_const(), a, b] };
    // SAFETY: promised by the caller.
    error_relay::listening(|| unsafe { call_catching(function, arguments, out) }).map(drop)
}

/// Calls a function that takes only the C++ object and is not expected to fail; returns 0 if it
/// does.
///
/// # Safety
/// As for [`call`].
pub(in crate::module) unsafe fn call_simple(function: *const c_void, this: *mut c_void) -> usize {
    // SAFETY: promised by the caller.
    unsafe { call_catching(function, [this, null(), null()], null_mut()) }.unwrap_or_default()
}

/// `out` is the address of the result on machines that have a register for it.
///
/// # Safety
/// As for [`call`] or [`call_into`].
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn call_catching(function: *const c_void, arguments: Arguments, out: *mut c_void) -> Result<usize> {
    let mut exception = null_mut();
    let [a, b, c] = arguments;
    // SAFETY: promised by the caller; the exception, if there is one, belongs to this function.
    unsafe {
        let result = catching::kernpack_call_catching(a, b, c, function, &mut exception, out);
        if exception.is_null() { Ok(result) } else { Err(super::thrown::take(exception)) }
    }
}

/// # Safety
/// As for [`call`] or [`call_into`].
#[cfg(not(any(target_arch = "aarch64", all(target_os = "linux", target_arch = "x86_64"))))]
unsafe fn call_catching(function: *const c_void, arguments: Arguments, _out: *mut c_void) -> Result<usize> {
    type Function = unsafe extern "C-unwind" fn(*const c_void, *const c_void, *const c_void) -> usize;
    let [a, b, c] = arguments;
    // SAFETY: promised by the caller; arguments that a function does not take stay in their
    // registers.
    Ok(unsafe { core::mem::transmute::<*const c_void, Function>(function)(a, b, c) })
}

/// `out` is the address of the result.
///
/// # Safety
/// As for [`call`] or [`call_into`].
#[cfg(all(target_arch = "aarch64", not(target_os = "linux")))]
unsafe fn call_catching(function: *const c_void, arguments: Arguments, out: *mut c_void) -> Result<usize> {
    /// Continues in the function, with x8 set.
    #[unsafe(naked)]
    unsafe extern "C-unwind" fn with_result(
        _a: *const c_void,
        _b: *const c_void,
        _c: *const c_void,
        _function: *const c_void,
        _out: *mut c_void,
    ) -> usize {
        core::arch::naked_asm!("mov x8, x4", "br x3")
    }
    let [a, b, c] = arguments;
    // SAFETY: promised by the caller; arguments that a function does not take stay in their
    // registers.
    Ok(unsafe { with_result(a, b, c, function, out) })
}

/// The call, and the landing pad for the unwinder.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod catching {
    use core::ffi::{c_int, c_void};

    use crate::module::cpp::thrown::Exception;

    #[cfg(target_arch = "x86_64")]
    core::arch::global_asm!(
        ".pushsection .text.kernpack_call_catching,\"ax\",@progbits",
        ".globl kernpack_call_catching",
        ".hidden kernpack_call_catching",
        ".type kernpack_call_catching,@function",
        "kernpack_call_catching:",
        ".cfi_startproc",
        // A pointer to a pointer to the routine, relative to its own position.
        ".cfi_personality 0x9b, .Lkernpack_personality",
        "push rbx",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbx, -16",
        // The arguments are in place; the place for the exception outlives the call in a
        // callee-saved register.
        "mov rbx, r8",
        "call rcx",
        "2:",
        ".cfi_remember_state",
        "pop rbx",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_restore_state",
        ".globl kernpack_call_landing",
        ".hidden kernpack_call_landing",
        "kernpack_call_landing:",
        // The personality routine has put the exception into rax.
        "mov [rbx], rax",
        "xor eax, eax",
        "jmp 2b",
        ".cfi_endproc",
        ".size kernpack_call_catching, . - kernpack_call_catching",
        ".popsection",
        ".pushsection .data.rel.ro.kernpack_personality,\"aw\",@progbits",
        ".balign 8",
        ".Lkernpack_personality:",
        ".quad {personality}",
        ".popsection",
        personality = sym personality,
    );

    #[cfg(target_arch = "aarch64")]
    core::arch::global_asm!(
        ".pushsection .text.kernpack_call_catching,\"ax\",%progbits",
        ".globl kernpack_call_catching",
        ".hidden kernpack_call_catching",
        ".type kernpack_call_catching,%function",
        ".balign 4",
        "kernpack_call_catching:",
        ".cfi_startproc",
        // A pointer to a pointer to the routine, relative to its own position.
        ".cfi_personality 0x9b, .Lkernpack_personality",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "mov x29, sp",
        "str x19, [sp, #16]",
        ".cfi_offset x19, -16",
        // The arguments are in place; the place for the exception outlives the call in a
        // callee-saved register.
        "mov x19, x4",
        "mov x8, x5",
        "blr x3",
        "2:",
        ".cfi_remember_state",
        "ldr x19, [sp, #16]",
        ".cfi_restore x19",
        "ldp x29, x30, [sp], #32",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_def_cfa_offset 0",
        "ret",
        ".cfi_restore_state",
        ".globl kernpack_call_landing",
        ".hidden kernpack_call_landing",
        "kernpack_call_landing:",
        // The personality routine has put the exception into x0.
        "str x0, [x19]",
        "mov x0, xzr",
        "b 2b",
        ".cfi_endproc",
        ".size kernpack_call_catching, . - kernpack_call_catching",
        ".popsection",
        ".pushsection .data.rel.ro.kernpack_personality,\"aw\",%progbits",
        ".balign 8",
        ".Lkernpack_personality:",
        ".quad {personality}",
        ".popsection",
        personality = sym personality,
    );

    unsafe extern "C" {
        /// Calls `function` with three words, and on machines that have a register for it, with the
        /// address of the result. A thrown exception is stored in `exception`.
        pub(in crate::module) fn kernpack_call_catching(
            a: *const c_void,
            b: *const c_void,
            c: *const c_void,
            function: *const c_void,
            exception: *mut *mut Exception,
            out: *mut c_void,
        ) -> usize;
        /// Not a function: the landing pad where the unwinder continues.
        fn kernpack_call_landing();
        fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: usize);
        fn _Unwind_SetIP(context: *mut c_void, address: usize);
    }

    /// Stops every exception, but lets thread cancellation pass.
    unsafe extern "C" fn personality(
        _version: c_int,
        actions: c_int,
        _class: u64,
        exception: *mut Exception,
        context: *mut c_void,
    ) -> c_int {
        const SEARCH_PHASE: c_int = 1;
        const HANDLER_FRAME: c_int = 4;
        const HANDLER_FOUND: c_int = 6;
        const INSTALL_CONTEXT: c_int = 7;
        const CONTINUE_UNWIND: c_int = 8;
        if actions & SEARCH_PHASE != 0 {
            return HANDLER_FOUND;
        }
        if actions & HANDLER_FRAME == 0 {
            return CONTINUE_UNWIND;
        }
        // SAFETY: the unwinder calls this for the frame above; register 0 is rax or x0.
        unsafe {
            _Unwind_SetGR(context, 0, exception.addr());
            _Unwind_SetIP(context, kernpack_call_landing as *const () as usize);
        }
        INSTALL_CONTEXT
    }
}
