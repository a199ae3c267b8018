//! Object code in the memory of this process.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use std::ffi::CString;

use inkwell::llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use inkwell::llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use inkwell::llvm_sys::orc2::lljit::{
    LLVMOrcCreateLLJIT, LLVMOrcDisposeLLJIT, LLVMOrcLLJITAddObjectFile, LLVMOrcLLJITGetMainJITDylib,
    LLVMOrcLLJITLookup, LLVMOrcLLJITMangleAndIntern, LLVMOrcLLJITRef,
};
use inkwell::llvm_sys::orc2::{
    LLVMJITEvaluatedSymbol, LLVMJITSymbolFlags, LLVMJITSymbolGenericFlags, LLVMOrcAbsoluteSymbols,
    LLVMOrcCSymbolMapPair, LLVMOrcJITDylibDefine,
};

use crate::codegen::Target;
use crate::error::{Result, fail};

/// An object file, linked in the memory of this process; freed when it is dropped.
pub(crate) struct Jit {
    jit: LLVMOrcLLJITRef,
}

// SAFETY: ORC's sessions are locked inside.
unsafe impl Send for Jit {}
// SAFETY: as above.
unsafe impl Sync for Jit {}

/// The result of a function of ORC.
fn check(error: LLVMErrorRef) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: an error that was just returned; its message is taken once and given back.
    let text = unsafe {
        let message = LLVMGetErrorMessage(error);
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(message);
        text
    };
    fail!(Target, "the code cannot be linked into this process: {text}")
}

impl Jit {
    /// Links an object file for this machine. What it calls is found among `symbols`, then in the process.
    pub(crate) fn link(object: &[u8], target: &Target, symbols: &[(&CStr, *mut c_void)]) -> Result<Self> {
        // The back end of the target is initialized by it.
        super::target_machine(target)?;
        let mut jit = ptr::null_mut();
        // SAFETY: a null builder asks for the default one; the result is written before success is returned.
        check(unsafe { LLVMOrcCreateLLJIT(&mut jit, ptr::null_mut()) })?;
        let this = Self { jit };
        // SAFETY: the session is alive; names and bytes are copied by the functions; interned names and the unit of symbols go to the library, and
        // the buffer to the session.
        unsafe {
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
    /// It is not there, or the code calls what is not there.
    pub(crate) fn symbol(&self, name: &str) -> Result<*mut c_void> {
        let Ok(name) = CString::new(name) else { fail!(Target, "a symbol with a NUL byte") };
        let mut address = 0;
        // SAFETY: the session is alive; the name is a C string.
        check(unsafe { LLVMOrcLLJITLookup(self.jit, &mut address, name.as_ptr()) })?;
        Ok(ptr::with_exposed_provenance_mut(address as usize))
    }
}

impl Drop for Jit {
    fn drop(&mut self) {
        // SAFETY: the session is this one's own, and nothing runs in it: functions hold a reference to this.
        let _ = check(unsafe { LLVMOrcDisposeLLJIT(self.jit) });
    }
}
