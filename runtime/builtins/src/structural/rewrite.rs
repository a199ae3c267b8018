use super::session::{Entry, Session};
use super::{Callback, IntoReplacement, Replacement};
use crate::Result;
use crate::abi::TVMFFIAny;
use crate::engines::visit;
use crate::value::{Any, AnyView, FromAny, IntoAny};

/// A rewrite of a value: `ffi.StructuralMap` with typed closures.
///
/// Callbacks are closures over nodes of one type each, see [`Callback`]; among those for the same
/// order, the first one whose type fits is called. A callback for before the children (top-down)
/// gets the node as it is, and the rewrite continues in the node that it returns; a callback for
/// after the children (bottom-up) gets the node with its children rewritten.
///
/// Unchanged parts are shared with the result, and changed parts are copied: objects field by field
/// through their setters. Arrays, lists, maps and dicts are changed in place if they have no other
/// references, nor has any object on the path to them from a root that is given away. A variable
/// and a node of a graph (`structural = "var"`, `"dag"`) become the same object at all their uses;
/// [`keep_sharing`](Self::keep_sharing) extends this to all other objects.
///
/// ```
/// use kernpack::structural::Rewrite;
/// use kernpack::{ObjRef, Object};
///
/// #[derive(Object, Clone)]
/// #[object(key = "docs.rewrite.Number")]
/// #[repr(C)]
/// pub struct Number {
///     pub value: i64,
/// }
///
/// let numbers: Vec<_> = (1..4).map(|value| ObjRef::new(Number { value })).collect();
/// let array = kernpack::Array::from(numbers.clone());
/// let doubled = Rewrite::new()
///     .pre(|number: ObjRef<Number>| {
///         if number.value == 1 { number } else { ObjRef::new(Number { value: number.value * 2 }) }
///     })
///     .run(array.clone())?;
/// assert_eq!(doubled.iter().map(|number| number.value).collect::<Vec<_>>(), [1, 4, 6]);
/// assert!(doubled.get(0).unwrap().ptr_eq(&numbers[0]));
/// // The array had another owner, which keeps it unchanged.
/// assert_eq!(array.get(2).unwrap().value, 3);
/// # Ok::<(), kernpack::Error>(())
/// ```
#[derive(Default)]
#[must_use = "nothing happens before `run`"]
pub struct Rewrite<'a> {
    before: Vec<Entry<'a>>,
    after: Vec<Entry<'a>>,
    keep_sharing: bool,
}

impl<'a> Rewrite<'a> {
    /// Creates a rewrite without callbacks, which changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a callback that is called before a node's children: the rewrite continues in the node
    /// that it returns.
    pub fn pre<M, F>(mut self, callback: F) -> Self
    where
        F: Callback<M> + 'a,
        F::Output: IntoReplacement,
    {
        self.before.push(entry(callback));
        self
    }

    /// Adds a callback that is called after a node's children, with the rewritten node.
    pub fn post<M, F>(mut self, callback: F) -> Self
    where
        F: Callback<M> + 'a,
        F::Output: IntoReplacement,
    {
        self.after.push(entry(callback));
        self
    }

    /// Rewrites each object once, independent of the number of its references, so that a graph
    /// stays a graph: callbacks are called once for it, and all references get the same result. In
    /// regions that define variables, and after a variable was rewritten, objects are rewritten
    /// again, because their result may differ.
    pub const fn keep_sharing(mut self) -> Self {
        self.keep_sharing = true;
        self
    }

    /// Rewrites a value, in place as far as there are no other references. The result has the same
    /// type; [`Any`] allows any type.
    ///
    /// # Errors
    /// Any error of a callback, a hook, a getter or a setter, with a record of the objects that
    /// were being rewritten ([`paths_of_error`](super::paths_of_error)); TypeError when the result
    /// has another type.
    ///
    /// # Panics
    /// If a callback panics.
    pub fn run<T: IntoAny + for<'x> FromAny<'x>>(&mut self, root: T) -> Result<T> {
        let (root, keep_sharing) = (root.into_any(), self.keep_sharing);
        let map = |[before, after]: [&[visit::Callback]; 2]| visit::map(root, before, after, keep_sharing);
        Session::run([&mut self.before, &mut self.after], map)?.to()
    }
}

fn entry<'a, M, F>(callback: F) -> Entry<'a>
where
    F: Callback<M> + 'a,
    F::Output: IntoReplacement,
{
    Entry::new(callback, |output: F::Output, node| Ok(outcome(output.into_replacement()?, node)))
}

/// Converts a replacement to the engine's outcome. An object that is kept does not get another
/// reference: it may still be changed in place.
pub(super) fn outcome(replacement: Replacement, node: &AnyView<'_>) -> TVMFFIAny {
    match replacement {
        Replacement::Keep => visit::UNCHANGED,
        Replacement::With(value) if is_same(&value, node) => visit::UNCHANGED,
        Replacement::With(value) => value.into_raw(),
    }
}

fn is_same(value: &Any, node: &AnyView<'_>) -> bool {
    let (value, node) = (value.as_view().as_raw(), node.as_raw());
    value.type_index == node.type_index && value.small_len == node.small_len && value.bits() == node.bits()
}
