//! One of our mutators, as the handle of a Rust callback that it calls: for mutating parts of a
//! value.

use super::map::{Mapping, mutate_value, remap_get, remap_set};
use super::outcome::into_result;
use super::region::Region;
use crate::Result;
use crate::abi::{TVMFFIObject, type_index};
use crate::value::{Any, AnyView};

/// A mutator that called a Rust callback.
#[derive(Clone, Copy)]
pub(crate) struct Running(*mut TVMFFIObject);

impl Running {
    /// # Safety
    /// `mutator` is a live mutator as long as this is used.
    pub(crate) const unsafe fn new(mutator: *mut TVMFFIObject) -> Self {
        Self(mutator)
    }

    /// Mutates a value; with `children_only` its own callback is not called.
    pub(crate) fn mutate(self, value: &AnyView<'_>, children_only: bool) -> Result<Any> {
        // SAFETY: the caller keeps the value alive, and the creator of this the mutator, which is
        // one of ours.
        unsafe {
            let outcome = if children_only {
                Mapping::of(self.0).mutate_inside(*value.as_raw())
            } else {
                mutate_value(self.0, *value.as_raw())
            };
            if outcome.type_index == type_index::UNCHANGED { value.try_to_owned() } else { into_result(outcome) }
        }
    }

    /// Calls `body` with the number of the region; with `enter`, after entering that region.
    pub(crate) fn in_region<R>(self, enter: Option<i32>, body: impl FnOnce(i32) -> R) -> R {
        // SAFETY: the creator of this promised a live mutator.
        let region = unsafe { Region::of(self.0) };
        let scope = enter.map(|kind| region.enter(kind));
        let result = body(region.get());
        if let Some(scope) = scope {
            region.leave(scope);
        }
        result
    }

    /// Returns the value that an object was mapped to; `None` if it was not mapped.
    pub(crate) fn mapped(self, object: &AnyView<'_>) -> Result<Any> {
        // SAFETY: as for `mutate`.
        unsafe { into_result(remap_get(self.0, *object.as_raw())) }
    }

    /// Maps an object to a value.
    pub(crate) fn map_to(self, object: &AnyView<'_>, value: &AnyView<'_>) -> Result<()> {
        // SAFETY: as for `mutate`.
        unsafe { into_result(remap_set(self.0, *object.as_raw(), *value.as_raw())).map(drop) }
    }
}
