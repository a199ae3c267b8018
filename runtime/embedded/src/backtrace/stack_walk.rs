//! The native frames of this thread, through the unwinder that Rust's panics use.

use core::ffi::{c_int, c_void};

/// A frame: a function that has called another one.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// The return address of the call.
    pub(super) address: usize,
    /// The stack pointer during the call; the function's own variables are not below it.
    pub(super) stack_pointer: usize,
}

type Visit<'a> = &'a mut dyn FnMut(Frame) -> bool;

#[repr(C)]
struct UnwindContext {
    _opaque: [u8; 0],
}

const GO_ON: c_int = 0;
const END_OF_STACK: c_int = 5;

unsafe extern "C" {
    fn _Unwind_Backtrace(
        visit: unsafe extern "C" fn(*mut UnwindContext, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut UnwindContext) -> usize;
    fn _Unwind_GetCFA(context: *mut UnwindContext) -> usize;
}

unsafe extern "C" fn visit_frame(context: *mut UnwindContext, argument: *mut c_void) -> c_int {
    // SAFETY: the unwinder passes its context, and the argument that `walk` gave it.
    unsafe {
        let frame = Frame { address: _Unwind_GetIP(context), stack_pointer: _Unwind_GetCFA(context) };
        let visit: Visit<'_> = *argument.cast::<Visit<'_>>();
        if frame.address != 0 && visit(frame) { GO_ON } else { END_OF_STACK }
    }
}

/// Visits the frames of this thread, the most recent one first, until `visit` returns false. It
/// must not panic.
pub(super) fn walk(mut visit: Visit<'_>) {
    // SAFETY: the argument lives during the call, which is the only one that uses it.
    unsafe { _Unwind_Backtrace(visit_frame, (&raw mut visit).cast()) };
}

/// The number of libraries that have been unloaded from this process.
#[cfg(target_os = "linux")]
pub(super) fn unload_count() -> u64 {
    let mut count = 0;
    // All files report the same number; the first is enough.
    crate::dynamic_linker::each_loaded(&mut |info| {
        count = info.dlpi_subs;
        true
    });
    count
}

/// The same on systems that do not report it.
#[cfg(not(target_os = "linux"))]
pub(super) fn unload_count() -> u64 {
    0
}
