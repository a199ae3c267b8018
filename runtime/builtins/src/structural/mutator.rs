use core::marker::PhantomData;

use super::{Region, lent};
use crate::Result;
use crate::engines::visit::Running;
use crate::value::{Any, FromAny, ToArg};

/// What a callback of a [`Mutate`](super::Mutate) goes on with.
pub struct Mutator<'m> {
    running: Running,
    // Only for the call that lent it, and on its thread.
    lent: PhantomData<(&'m (), *const ())>,
}

impl Mutator<'_> {
    pub(super) const fn new(running: Running) -> Self {
        Self { running, lent: PhantomData }
    }

    /// What a value becomes: calls the callback for its type, or mutates what is in it.
    ///
    /// # Errors
    /// What a callback, a hook, a getter or a setter raises; RecursionError when the callbacks are nested so deeply that the thread's
    /// stack has no room for more; TypeError when the result has another type.
    pub fn mutate<T: ToArg + for<'a> FromAny<'a>>(&self, value: &T) -> Result<T> {
        self.running.mutate(&lent(&value.to_arg()), false)?.to()
    }

    /// What a value becomes when only what is in it is mutated, and its own callback is not called.
    ///
    /// # Errors
    /// As for [`mutate`](Self::mutate).
    pub fn mutate_children<T: ToArg + for<'a> FromAny<'a>>(&self, value: &T) -> Result<T> {
        self.running.mutate(&lent(&value.to_arg()), true)?.to()
    }

    /// Whether variables are defined here.
    pub fn region(&self) -> Region {
        self.running.in_region(None, |region| Region::of_number(i64::from(region)))
    }

    /// Enters a region for a call. Inside [`Region::Pattern`] it has no effect.
    pub fn with_region<R>(&self, region: Region, body: impl FnOnce() -> R) -> R {
        self.running.in_region(Some(region.number()), |_| body())
    }

    /// What a variable or a node of a graph has become; `None` when nothing is remembered.
    ///
    /// # Errors
    /// TypeError for a value that is not an object.
    pub fn remembered(&self, node: &(impl ToArg + ?Sized)) -> Result<Option<Any>> {
        let mapped = self.running.mapped(&lent(&node.to_arg()))?;
        Ok((!mapped.is_none()).then_some(mapped))
    }

    /// Remembers what a variable or a node of a graph becomes: it stands in its place from now on, wherever it is met and not mutated
    /// by a callback.
    ///
    /// # Errors
    /// TypeError for a node that is not an object.
    pub fn remember(&self, node: &(impl ToArg + ?Sized), becomes: &(impl ToArg + ?Sized)) -> Result<()> {
        self.running.map_to(&lent(&node.to_arg()), &lent(&becomes.to_arg()))
    }
}
