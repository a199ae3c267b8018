use super::session::{Entry, Session, failed};
use super::{IntoReplacement, Mutator, NodeValue, forms, rewrite};
use crate::engines::visit::{self, Running};
use crate::value::{AnyView, FromAny, IntoAny};
use crate::{ObjRef, Object, Result};

/// A mutation of a value whose callbacks decide themselves how to continue: `ffi.StructuralMutate`
/// with typed closures.
///
/// A callback is called instead of visiting a node's children, and gets the [`Mutator`] for the
/// parts that it wants to mutate; nodes without a callback are mutated part by part. So a callback
/// knows the context of its node, unlike one of a [`Rewrite`](super::Rewrite), and its recursion
/// uses the thread's stack: when the stack is exhausted, it fails with an error.
///
/// ```
/// use kernpack::structural::{Mutate, Mutator};
/// use kernpack::{Array, Any, Result};
///
/// // Reverses arrays, on all levels.
/// let reversed = Mutate::new()
///     .on(|array: Array<Any>, mutator: &Mutator<'_>| -> Result<Array<Any>> {
///         let parts: Vec<Any> = array.iter().rev().map(|part| mutator.mutate(&part)).collect::<Result<_>>()?;
///         Ok(Array::from(parts))
///     })
///     .run(Array::from(vec![Array::from(vec![1_i64, 2]), Array::from(vec![3])]))?;
/// assert_eq!(reversed.get(1).unwrap().to_vec(), [2, 1]);
/// # Ok::<(), kernpack::Error>(())
/// ```
#[derive(Default)]
#[must_use = "nothing happens before `run`"]
pub struct Mutate<'a> {
    callbacks: Vec<Entry<'a>>,
}

/// A closure that is called for nodes of the type of its first parameter, see
/// [`Callback`](super::Callback), and gets a [`Mutator`] as its second one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot mutate nodes",
    note = "write a closure `|node: ObjRef<T>, mutator: &Mutator<'_>| ...` that may be called while it runs"
)]
pub trait MutateCallback<Form> {
    /// The return type.
    type Output;

    /// Index of the type that it is called for.
    #[doc(hidden)]
    fn target() -> i32;

    /// Calls it for a node of this type.
    #[doc(hidden)]
    fn call(&self, node: &AnyView<'_>, mutator: &Mutator<'_>) -> Result<Self::Output>;
}

macro_rules! callbacks {
    ($([$($generic:ident: $bound:path)?] $form:ty: ($($param:tt)*) => $target:expr, |$node:ident| $argument:expr;)*) => {$(
        impl<F: Fn($($param)*, &Mutator<'_>) -> R, R $(, $generic: $bound)?> MutateCallback<$form> for F {
            type Output = R;

            fn target() -> i32 {
                $target
            }

            fn call(&self, $node: &AnyView<'_>, mutator: &Mutator<'_>) -> Result<R> {
                Ok(self($argument, mutator))
            }
        }
    )*};
}
callbacks! {
    [T: Object] forms::Content<T>: (&T) => T::type_index(), |node| &*node.get::<ObjRef<T>>()?;
    [T: Object] forms::Reference<T>: (&ObjRef<T>) => T::type_index(), |node| &node.get::<ObjRef<T>>()?;
    [T: NodeValue] forms::Value<T>: (T) => T::target(), |node| node.get::<T>()?;
}

impl<'a> Mutate<'a> {
    /// Creates a mutation without callbacks, which changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a callback. Among those whose type fits, the first one is called.
    pub fn on<M, F>(mut self, callback: F) -> Self
    where
        F: MutateCallback<M> + 'a,
        F::Output: IntoReplacement,
    {
        let call = move |node: &AnyView<'_>, mutator: &crate::abi::TVMFFIAny| {
            // SAFETY: the engine calls with a live mutator, which is used no longer than the call.
            let mutator = Mutator::new(unsafe { Running::new(mutator.payload.v_obj) });
            let replacement = callback.call(node, &mutator).and_then(IntoReplacement::into_replacement);
            replacement.map_or_else(failed, |replacement| rewrite::outcome(replacement, node))
        };
        self.callbacks.push(Entry::shared(F::target(), Box::new(call)));
        self
    }

    /// Mutates a value. The result has the same type; [`Any`](crate::value::Any) allows any type.
    ///
    /// # Errors
    /// As for [`Rewrite::run`](super::Rewrite::run).
    ///
    /// # Panics
    /// If a callback panics.
    pub fn run<T: IntoAny + for<'x> FromAny<'x>>(&mut self, root: T) -> Result<T> {
        let root = root.into_any();
        Session::run([&mut self.callbacks], |[callbacks]| visit::mutate(root, callbacks))?.to()
    }
}
