use std::cell::Cell;
use std::rc::Rc;

use super::session::{Entry, Session};
use super::{Callback, Flow, IntoFlow, lent};
use crate::abi::TVMFFIAny;
use crate::engines::visit;
use crate::value::{Any, AnyView, ToArg};
use crate::{Error, Result};

/// A walk through a value and everything that it contains: elements of sequences, values of maps,
/// and the fields of objects that structural equality compares. Walks through objects of all
/// languages; a type with a visiting hook (`__s_visit__`) is visited by the hook.
///
/// Callbacks are closures over nodes of one type each, see [`Callback`]; among those for the same
/// order, the first one whose type fits is called, so a callback for a derived type has to come
/// before that for its base. A shared object is visited at each of its places.
///
/// ```
/// use kernpack::structural::{Flow, Walk};
/// use kernpack::{ObjRef, Object};
///
/// #[derive(Object)]
/// #[object(key = "docs.walk.Number")]
/// #[repr(C)]
/// pub struct Number {
///     pub value: i64,
/// }
///
/// #[derive(Object)]
/// #[object(key = "docs.walk.Sum")]
/// #[repr(C)]
/// pub struct Sum {
///     pub left: ObjRef<Number>,
///     pub right: ObjRef<Number>,
/// }
///
/// let number = |value| ObjRef::new(Number { value });
/// let sum = ObjRef::new(Sum { left: number(1), right: number(20) });
///
/// let (mut total, mut order) = (0, Vec::new());
/// Walk::new()
///     .pre(|number: &Number| total += number.value)
///     .post(|node: &ObjRef<kernpack::ObjectRoot>| order.push(node.type_key()))
///     .run(&sum)?;
/// assert_eq!(total, 21);
/// assert_eq!(order, ["docs.walk.Number", "docs.walk.Number", "docs.walk.Sum"]);
///
/// // Stops at the first one that is large, and says which.
/// let large = Walk::returning()
///     .pre(|number: &ObjRef<Number>| if number.value > 9 { Flow::Stop(number.clone()) } else { Flow::Continue })
///     .run(&sum)?;
/// assert!(large.unwrap().ptr_eq(&sum.right));
/// # Ok::<(), kernpack::Error>(())
/// ```
#[must_use = "nothing happens before `run`"]
pub struct Walk<'a, B = ()> {
    before: Vec<Entry<'a>>,
    after: Vec<Entry<'a>>,
    interrupted: Option<Interrupted<'a, B>>,
    stopped: Stopped<B>,
}

type Interrupted<'a, B> = Box<dyn FnMut(Any) -> Result<B> + 'a>;

/// The value that a callback stopped with, and the interrupt that represents it on the way out.
type Stopped<B> = Rc<Cell<Option<(Any, B)>>>;

impl Walk<'_> {
    /// Creates a walk without callbacks, which may stop, but not with a value.
    pub fn new() -> Self {
        Self::returning()
    }
}

impl Default for Walk<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, B: 'a> Walk<'a, B> {
    /// Creates a walk without callbacks; callbacks may stop it with a value.
    pub fn returning() -> Self {
        Self { before: Vec::new(), after: Vec::new(), interrupted: None, stopped: Rc::default() }
    }

    /// Adds a callback that is called before a node's children.
    pub fn pre<M, F>(mut self, callback: F) -> Self
    where
        F: Callback<M> + 'a,
        F::Output: IntoFlow<B>,
    {
        self.before.push(entry(callback, &self.stopped));
        self
    }

    /// Adds a callback that is called after a node's children, also if they were skipped.
    pub fn post<M, F>(mut self, callback: F) -> Self
    where
        F: Callback<M> + 'a,
        F::Output: IntoFlow<B>,
    {
        self.after.push(entry(callback, &self.stopped));
        self
    }

    /// Sets the meaning of a stop with a value by the visiting hook of a foreign type. Without this
    /// it is an error.
    pub fn interrupted(mut self, meaning: impl FnMut(Any) -> Result<B> + 'a) -> Self {
        self.interrupted = Some(Box::new(meaning));
        self
    }

    /// Walks through a value; returns the value that the walk stopped with.
    ///
    /// # Errors
    /// Any error of a callback, a hook or a getter, with a record of the objects that were being
    /// visited ([`paths_of_error`](super::paths_of_error)).
    ///
    /// # Panics
    /// If a callback panics.
    pub fn run(&mut self, root: &(impl ToArg + ?Sized)) -> Result<Option<B>> {
        self.run_view(&lent(&root.to_arg()))
    }

    fn run_view(&mut self, root: &AnyView<'_>) -> Result<Option<B>> {
        self.stopped.take();
        let outcome =
            Session::run([&mut self.before, &mut self.after], |[before, after]| visit::walk(root, before, after))?;
        if outcome.is_none() {
            return Ok(None);
        }
        match self.stopped.take() {
            Some((interrupt, value)) if interrupt.as_view().as_raw().bits() == outcome.as_view().as_raw().bits() => {
                Ok(Some(value))
            }
            _ => {
                let value = visit::interrupt_value(&outcome);
                let Some(interrupted) = &mut self.interrupted else { return Err(interrupted_by_hook(&value)) };
                interrupted(value).map(Some)
            }
        }
    }
}

fn entry<'a, B: 'a, M, F>(callback: F, stopped: &Stopped<B>) -> Entry<'a>
where
    F: Callback<M> + 'a,
    F::Output: IntoFlow<B>,
{
    let stopped = stopped.clone();
    Entry::new(callback, move |output: F::Output, _| Ok(outcome(output.into_flow()?, &stopped)))
}

/// Converts an action to the engine's outcome.
fn outcome<B>(flow: Flow<B>, stopped: &Cell<Option<(Any, B)>>) -> TVMFFIAny {
    match flow {
        Flow::Continue => TVMFFIAny::NONE,
        Flow::Skip => TVMFFIAny::int(1),
        Flow::Stop(value) => {
            let interrupt = visit::new_interrupt();
            stopped.set(Some((interrupt.clone(), value)));
            interrupt.into_raw()
        }
    }
}

#[cold]
fn interrupted_by_hook(value: &Any) -> Error {
    crate::error!(
        RuntimeError,
        "the visiting hook of a type stopped the walk with a value of type {}; say with `Walk::interrupted` what that means",
        value.type_name()
    )
}
