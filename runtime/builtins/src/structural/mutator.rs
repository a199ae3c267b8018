use core::marker::PhantomData;

use super::{Region, lent};
use crate::Result;
use crate::engines::visit::Running;
use crate::value::{Any, FromAny, ToArg};

/// The handle with which a callback of a [`Mutate`](super::Mutate) continues the mutation.
pub struct Mutator<'m> {
    running: Running,
    // Only valid during the call that lent it, and on its thread.
    lent: PhantomData<(&'m (), *const ())>,
}

impl Mutator<'_> {
    pub(super) const fn new(running: Running) -> Self {
        Self { running, lent: PhantomData }
    }

    /// Mutates a value: calls the callback for its type, or mutates its children.
    ///
    /// # Errors
    /// Any error of a callback, a hook, a getter or a setter; RecursionError when the callbacks are
    /// nested so deeply that the thread's stack has no room for more; TypeError when the result has
    /// another type.
    pub fn mutate<T: ToArg + for<'a> FromAny<'a>>(&self, value: &T) -> Result<T> {
        self.running.mutate(&lent(&value.to_arg()), false)?.to()
    }

    /// Mutates only the children of a value, and does not call its own callback.
    ///
    /// # Errors
    /// As for [`mutate`](Self::mutate).
    pub fn mutate_children<T: ToArg + for<'a> FromAny<'a>>(&self, value: &T) -> Result<T> {
        self.running.mutate(&lent(&value.to_arg()), true)?.to()
    }

    /// The region of the callback: whether variables are defined here.
    pub fn region(&self) -> Region {
        self.running.in_region(None, |region| Region::of_number(i64::from(region)))
    }

    /// Enters a region for a call. Inside [`Region::Pattern`] it has no effect.
    pub fn with_region<R>(&self, region: Region, body: impl FnOnce() -> R) -> R {
        self.running.in_region(Some(region.number()), |_| body())
    }

    /// Returns the value that a variable or a node of a graph has become; `None` when no value is
    /// remembered.
    ///
    /// # Errors
    /// TypeError for a value that is not an object.
    pub fn remembered(&self, node: &(impl ToArg + ?Sized)) -> Result<Option<Any>> {
        let mapped = self.running.mapped(&lent(&node.to_arg()))?;
        Ok((!mapped.is_none()).then_some(mapped))
    }

    /// Records the value that a variable or a node of a graph becomes: it replaces the node from
    /// now on, wherever the node occurs and is not mutated by a callback.
    ///
    /// # Errors
    /// TypeError for a node that is not an object.
    pub fn remember(&self, node: &(impl ToArg + ?Sized), becomes: &(impl ToArg + ?Sized)) -> Result<()> {
        self.running.map_to(&lent(&node.to_arg()), &lent(&becomes.to_arg()))
    }
}
