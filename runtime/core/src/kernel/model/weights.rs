//! The weights of a model that are in a file beside the library: for generated code.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use kernpack_formats::weights_file::{self, Digest};

use super::source::WeightsSource;
use crate::{Error, Result};

/// The weights of one model, for all CPU levels. Compiled kernels read the pointers in the slots.
pub struct ModelWeights {
    name: &'static str,
    code: Digest,
    /// For each CPU level, the size of its weights, and the slot of their address.
    levels: &'static [(u64, WeightsSlot)],
    /// The digest of the content that is loaded.
    loaded: Mutex<Option<Digest>>,
}

/// The address of a variable that the kernels of a CPU level read.
pub struct WeightsSlot(*const AtomicPtr<c_void>);

// SAFETY: the variable is atomic and lives as long as the code of this artifact.
unsafe impl Sync for WeightsSlot {}

impl WeightsSlot {
    /// # Safety
    /// The address is that of a pointer variable of the artifact, which only `ModelWeights` writes,
    /// and whose readers need the weights of this model in the layout of the code digest.
    pub const unsafe fn new(variable: *const AtomicPtr<c_void>) -> Self {
        Self(variable)
    }

    #[inline]
    fn variable(&self) -> &AtomicPtr<c_void> {
        // SAFETY: promised to `new`.
        unsafe { &*self.0 }
    }
}

/// The slot of the pointer variable that an object of this artifact defines under a symbol, for
/// generated code.
#[doc(hidden)]
#[macro_export]
macro_rules! __weights_slot {
    ($symbol:literal) => {{
        unsafe extern "C" {
            #[link_name = $symbol]
            static ADDRESS: ::core::sync::atomic::AtomicPtr<$crate::generated_code::c_void>;
        }
        // SAFETY: kernpack-build defines the variable for the weights of this model.
        unsafe { $crate::generated_code::WeightsSlot::new(&raw const ADDRESS) }
    }};
}

impl ModelWeights {
    /// Describes the weights of a model: its name, the digest of its code, and its levels.
    pub const fn new(name: &'static str, code: u128, levels: &'static [(u64, WeightsSlot)]) -> Self {
        Self { name, code: Digest::from_number(code), levels, loaded: Mutex::new(None) }
    }

    /// Loads the weights. They stay in memory until the process ends.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, if it is not the file of this model, or if
    /// other weights are loaded.
    #[inline]
    pub fn load(&self, source: WeightsSource) -> Result<()> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = source.shown();
        let memory = source.open()?;
        let sizes: Vec<u64> = self.levels.iter().map(|(size, _)| *size).collect();
        let checked = weights_file::read(memory.bytes(), self.name, self.code, &sizes);
        let (content, offsets) =
            checked.map_err(|refusal| Error::value_error(format!("{}_weights: {shown}: {refusal}", self.name)))?;
        match *loaded {
            Some(known) if known == content => return Ok(()),
            Some(known) => {
                return Err(Error::value_error(format!(
                    "{}_weights: {shown}: its content has the digest {content}, and the weights with the digest {known} are \
                     loaded already; a process loads the weights of a model once",
                    self.name
                )));
            }
            None => {}
        }
        let bytes = memory.keep();
        for ((_, slot), offset) in self.levels.iter().zip(offsets) {
            let address = bytes[offset..].as_ptr().cast_mut().cast();
            slot.variable().store(address, Ordering::Release);
        }
        *loaded = Some(content);
        Ok(())
    }

    /// Returns true if the weights are loaded.
    #[inline]
    pub fn are_loaded(&self) -> bool {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}
