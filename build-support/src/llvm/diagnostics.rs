//! Errors that LLVM reports to its context.

use std::cell::RefCell;
use std::ffi::{CStr, c_void};

use inkwell::context::Context;
use inkwell::llvm_sys::LLVMDiagnosticSeverity;
use inkwell::llvm_sys::core::{
    LLVMContextSetDiagnosticHandler, LLVMDisposeMessage, LLVMGetDiagInfoDescription, LLVMGetDiagInfoSeverity,
};
use inkwell::llvm_sys::prelude::LLVMDiagnosticInfoRef;

use crate::{Error, Result, tool};

/// Collects the errors that LLVM reports during code generation. By default LLVM prints the first
/// and ends the process.
#[derive(Default)]
pub(crate) struct Diagnostics {
    errors: RefCell<Vec<String>>,
}

impl Diagnostics {
    /// Returns the errors reported since the last check as one error.
    pub(crate) fn check(&self, source: &str) -> Result<()> {
        let errors = self.errors.take();
        if errors.is_empty() {
            return Ok(());
        }
        Err(Error::new(format!("{source}: LLVM cannot compile it\n{}", tool::indented(&errors.join("\n")))))
    }
}

/// Runs `work` with a context whose errors are collected.
pub(crate) fn in_context<R>(work: impl FnOnce(&Context, &Diagnostics) -> R) -> R {
    let diagnostics = Diagnostics::default();
    let context = Context::create();
    let sink = std::ptr::from_ref(&diagnostics).cast_mut().cast();
    // SAFETY: the context is alive, and it is dropped before `diagnostics`, which was made first
    // and does not move. LLVM calls the handler on this thread, while it works for us.
    unsafe { LLVMContextSetDiagnosticHandler(context.raw(), Some(report), sink) };
    work(&context, &diagnostics)
}

extern "C" fn report(info: LLVMDiagnosticInfoRef, sink: *mut c_void) {
    // SAFETY: LLVM passes a live diagnostic and the sink that `in_context` gave it. This function
    // must free the description.
    unsafe {
        if LLVMGetDiagInfoSeverity(info) != LLVMDiagnosticSeverity::LLVMDSError {
            return;
        }
        let description = LLVMGetDiagInfoDescription(info);
        if description.is_null() {
            return;
        }
        let text = CStr::from_ptr(description).to_string_lossy().into_owned();
        LLVMDisposeMessage(description);
        (*sink.cast::<Diagnostics>()).errors.borrow_mut().push(text);
    }
}
