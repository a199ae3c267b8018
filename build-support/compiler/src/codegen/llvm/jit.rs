//! Object code in the memory of this process.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use std::ffi::CString;
use std::sync::{Mutex, OnceLock, PoisonError};

use inkwell::llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use inkwell::llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use inkwell::llvm_sys::orc2::lljit::{
    LLVMOrcCreateLLJIT, LLVMOrcDisposeLLJIT, LLVMOrcLLJITAddObjectFile, LLVMOrcLLJITGetExecutionSession,
    LLVMOrcLLJITGetMainJITDylib, LLVMOrcLLJITLookup, LLVMOrcLLJITMangleAndIntern, LLVMOrcLLJITRef,
};
use inkwell::llvm_sys::orc2::{
    LLVMJITEvaluatedSymbol, LLVMJITSymbolFlags, LLVMJITSymbolGenericFlags, LLVMOrcAbsoluteSymbols,
    LLVMOrcCSymbolMapPair, LLVMOrcExecutionSessionSetErrorReporter, LLVMOrcJITDylibDefine,
};

use crate::codegen::Target;
use crate::error::{CompileError, Result, fail};

/// An object file, linked in the memory of this process; freed when it is dropped.
pub(crate) struct Jit {
    jit: LLVMOrcLLJITRef,
    /// The reports of the session: missing symbols; the error of a look-up does not name them.
    reports: Box<Reports>,
    /// The reason why the code cannot be linked, once a look-up has failed.
    problem: OnceLock<CompileError>,
}

/// The messages of a session.
type Reports = Mutex<Vec<String>>;

// SAFETY: ORC's sessions are locked inside.
unsafe impl Send for Jit {}
// SAFETY: as above.
unsafe impl Sync for Jit {}

/// Consumes an error and returns its text.
fn message(error: LLVMErrorRef) -> String {
    // SAFETY: an error that was just returned; its message is taken once and disposed.
    unsafe {
        let message = LLVMGetErrorMessage(error);
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(message);
        text
    }
}

/// Keeps the reports of a session; by default they go to stderr.
extern "C" fn report(reports: *mut c_void, error: LLVMErrorRef) {
    // SAFETY: the address of the list that the session was made with, which outlives it.
    let reports = unsafe { &*reports.cast_const().cast::<Reports>() };
    reports.lock().unwrap_or_else(PoisonError::into_inner).push(message(error));
}

/// Checks the result of an ORC function.
fn check(error: LLVMErrorRef) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    fail!(Target, "the code cannot be linked into this process: {}", message(error))
}

impl Jit {
    /// Links an object file for this machine. External symbols are searched for in `symbols`, then
    /// in the process.
    pub(crate) fn link(object: &[u8], target: &Target, symbols: &[(&CStr, *mut c_void)]) -> Result<Self> {
        // This initializes the back end of the target.
        super::target_machine(target)?;
        let mut jit = ptr::null_mut();
        // SAFETY: a null builder requests the default one; the result is written before success is
        // returned.
        check(unsafe { LLVMOrcCreateLLJIT(&mut jit, ptr::null_mut()) })?;
        let this = Self { jit, reports: Box::default(), problem: OnceLock::new() };
        // SAFETY: the session is alive; the functions copy names and bytes; the library takes
        // ownership of interned names and the unit of symbols, and the session of the buffer.
        unsafe {
            let reports = (&raw const *this.reports).cast_mut().cast::<c_void>();
            LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(jit), report, reports);
            let library = LLVMOrcLLJITGetMainJITDylib(jit);
            let mut pairs: Vec<LLVMOrcCSymbolMapPair> = symbols
                .iter()
                .map(|(name, address)| LLVMOrcCSymbolMapPair {
                    Name: LLVMOrcLLJITMangleAndIntern(jit, name.as_ptr()),
                    Sym: LLVMJITEvaluatedSymbol {
                        Address: address.expose_provenance() as u64,
                        Flags: LLVMJITSymbolFlags {
                            GenericFlags: LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsExported as u8
                                | LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsCallable as u8,
                            TargetFlags: 0,
                        },
                    },
                })
                .collect();
            check(LLVMOrcJITDylibDefine(library, LLVMOrcAbsoluteSymbols(pairs.as_mut_ptr(), pairs.len())))?;
            let start = object.as_ptr().cast::<c_char>();
            let buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(start, object.len(), c"kernels".as_ptr());
            check(LLVMOrcLLJITAddObjectFile(jit, library, buffer))?;
        }
        Ok(this)
    }

    /// The address of a symbol.
    ///
    /// # Errors
    /// Returns an error if the symbol does not exist, or if the code refers to a missing symbol.
    pub(crate) fn symbol(&self, name: &str) -> Result<*mut c_void> {
        let Ok(name) = CString::new(name) else { fail!(Target, "a symbol with a NUL byte") };
        let mut address = 0;
        // SAFETY: the session is alive; the name is a C string.
        let looked_up = check(unsafe { LLVMOrcLLJITLookup(self.jit, &mut address, name.as_ptr()) });
        if let Err(error) = looked_up {
            let reports = core::mem::take(&mut *self.reports.lock().unwrap_or_else(PoisonError::into_inner));
            if reports.is_empty() {
                return Err(self.problem.get().cloned().unwrap_or(error));
            }
            let problem = reports.into_iter().fold(error, CompileError::note);
            return Err(self.problem.get_or_init(|| problem).clone());
        }
        Ok(ptr::with_exposed_provenance_mut(address as usize))
    }
}

impl Drop for Jit {
    fn drop(&mut self) {
        // SAFETY: the session is owned by this object, and no code in it is running: functions hold
        // a reference to this object.
        let _ = check(unsafe { LLVMOrcDisposeLLJIT(self.jit) });
    }
}
