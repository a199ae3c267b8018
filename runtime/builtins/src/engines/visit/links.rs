//! Callbacks by the types that they are for.

use super::outcome;
use crate::Function;
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::container::{Sequence, sequence};
use crate::definition::function::Arguments;
use crate::embedded::{ObjectCell, dec_ref, inc_ref, new_object_with_tail};
use crate::value::{AnyView, IntoAny};
use kernpack_core::reflect::TypeInfo;

/// A callback.
pub(super) struct Link {
    // A strong reference to a function.
    function: *mut TVMFFIObject,
    // The type index that it is for.
    target: i32,
    /// True if it takes another argument: the region, or whether the value may be changed in place.
    pub(super) takes_more: bool,
}

/// Callbacks in the order in which they are tried; the first one whose type fits is called. They
/// are stored after the body of the visitor or mutator that has them.
pub(super) struct Links {
    first: *mut Link,
    count: usize,
    // The number of callbacks for before the children, if there are callbacks for before and for
    // after; else 0.
    before: usize,
}

/// A callback of a Rust operation: the type index that it is for, and its function.
pub(crate) type Callback = (i32, Function);

/// A practically unlimited number of callbacks; a plan has 24 bits for it.
const MAX_LINKS: usize = 1 << 20;

/// The most callbacks of each order if there are callbacks for both orders: a plan then stores a
/// pair of numbers.
pub(crate) const MAX_PAIRED: usize = (1 << 12) - 2;

/// The body of an object that has callbacks.
///
/// # Safety
/// [`HasLinks::links`] returns a field of the body.
pub(super) unsafe trait HasLinks {
    /// The callbacks.
    fn links(&mut self) -> &mut Links;
}

/// Callbacks from a caller: a sequence of tuples of a type index, a function and, unless
/// `takes_more` applies to all of them, a flag whether it takes another argument. Tuples of another
/// shape, which a function's signature rejects, are ignored.
pub(super) struct Callbacks<'a> {
    /// The sequence.
    pub(super) entries: &'a AnyView<'a>,
    /// The flag for all callbacks, if any; see [`Callbacks`].
    pub(super) takes_more: Option<bool>,
}

/// The order in which callbacks are called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Before the children, which the callback of a walk may skip.
    Before,
    /// After the children.
    After,
    /// Some before, some after.
    Both,
    /// Instead of going into the children.
    Instead,
}

impl Style {
    /// The style for callbacks before and after the children.
    pub(super) const fn of_pairs(before: &[Callback], after: &[Callback]) -> Self {
        match (before.is_empty(), after.is_empty()) {
            (_, true) => Self::Before,
            (true, false) => Self::After,
            (false, false) => Self::Both,
        }
    }
}

/// The arguments of `ffi.StructuralWalk` and `ffi.StructuralMap` after the value: callbacks of the
/// value, callbacks that also get the region, and the order in which they are called.
pub(super) fn in_order<'a>(args: &Arguments<'a>) -> (Style, [Callbacks<'a>; 2]) {
    let style = if args.int(3) as i32 == 0 { Style::Before } else { Style::After };
    let callbacks = [(1, false), (2, true)]
        .map(|(at, takes_more)| Callbacks { entries: args.view(at), takes_more: Some(takes_more) });
    (style, callbacks)
}

/// Creates a visitor or mutator with these callbacks, in their order; the caller owns its
/// reference.
pub(super) fn new_object<B: HasLinks>(type_index: i32, body: B, callbacks: &[Callbacks<'_>]) -> *mut TVMFFIObject {
    let count: usize =
        callbacks.iter().map(|callbacks| sequence(callbacks.entries).map_or(0, |entries| entries.views().len())).sum();
    let all = callbacks.iter().flat_map(|callbacks| {
        let entries = sequence(callbacks.entries);
        let entries = entries.as_ref().map_or(&[][..], Sequence::views);
        entries.iter().filter_map(|entry| Link::new(entry, callbacks.takes_more)).collect::<Vec<_>>()
    });
    with_links(type_index, body, count.min(MAX_LINKS), 0, all)
}

/// Creates a visitor or mutator with the callbacks of a Rust operation, those for before and those
/// for after the children; all get the region. The caller owns its reference.
pub(super) fn new_object_of_pairs<B: HasLinks>(
    type_index: i32,
    body: B,
    before: &[Callback],
    after: &[Callback],
) -> *mut TVMFFIObject {
    let all = before.iter().chain(after).map(|(target, function)| {
        // SAFETY: the reference of a function's value is transferred to the link.
        let function = unsafe { function.clone().into_any().into_raw().payload.v_obj };
        Link { function, target: *target, takes_more: true }
    });
    let first_after = if after.is_empty() { 0 } else { before.len() };
    with_links(type_index, body, before.len() + after.len(), first_after, all)
}

fn with_links<B: HasLinks>(
    type_index: i32,
    body: B,
    capacity: usize,
    before: usize,
    all: impl Iterator<Item = Link>,
) -> *mut TVMFFIObject {
    let object = new_object_with_tail(type_index, body, capacity * size_of::<Link>());
    // SAFETY: the object is new and ours; its tail has room for so many links and is aligned to 8.
    unsafe {
        let cell = object.cast::<ObjectCell<B>>();
        let links = (*cell).body.links();
        links.first = cell.add(1).cast();
        links.before = before;
        for link in all.take(capacity) {
            links.first.add(links.count).write(link);
            links.count += 1;
        }
    }
    object
}

impl Links {
    /// No callbacks.
    pub(super) const fn new() -> Self {
        Self { first: core::ptr::dangling_mut(), count: 0, before: 0 }
    }

    fn all(&self) -> &[Link] {
        // SAFETY: so many links are there, and live as long as the object that this is in.
        unsafe { core::slice::from_raw_parts(self.first, self.count) }
    }

    /// The number of the callback for values of this type, or of the pair of callbacks for before
    /// and after, one of which may be missing.
    pub(super) fn find(&self, type_index: i32) -> Option<usize> {
        let fitting = |link: &Link| link.target == type_index || fits(type_index, link.target);
        if self.before == 0 {
            return self.all().iter().position(fitting);
        }
        let (before, after) = self.all().split_at(self.before);
        let number = |links: &[Link]| links.iter().position(fitting).map_or(0, |number| number + 1);
        (number(before) * (after.len() + 1) + number(after)).checked_sub(1)
    }

    /// The callback with this number.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&Link> {
        self.all().get(number)
    }

    /// The callbacks of a pair; numbers count from 1, and 0 means that there is no callback.
    #[inline(never)]
    pub(super) fn pair(&self, number: usize) -> [Option<&Link>; 2] {
        let (before, after) = self.all().split_at(self.before);
        let (first, second) = (number / (after.len() + 1), number % (after.len() + 1));
        [before.get(first.wrapping_sub(1)), after.get(second.wrapping_sub(1))]
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        for link in self.all() {
            // SAFETY: the link owns this reference.
            unsafe { dec_ref(link.function) }
        }
    }
}

/// Returns true if a value of the first type also is of the second type.
fn fits(actual: i32, target: i32) -> bool {
    match target {
        type_index::ANY => true,
        type_index::STR => actual == type_index::SMALL_STR,
        type_index::BYTES => actual == type_index::SMALL_BYTES,
        type_index::OBJECT => actual >= type_index::STATIC_OBJECT_BEGIN,
        // A type's index is always larger than its parent's.
        _ if target < type_index::STATIC_OBJECT_BEGIN || actual < target => false,
        _ => TypeInfo::find(actual).is_some_and(|info| info.is_a(target)),
    }
}

impl Link {
    fn new(entry: &AnyView<'_>, takes_more: Option<bool>) -> Option<Self> {
        let parts = sequence(entry).ok()?;
        let [target, function, rest @ ..] = parts.views() else { return None };
        let object = function.object()?;
        // SAFETY: the tuple keeps the function alive; the link takes a reference of its own.
        unsafe {
            if (*object).type_index != type_index::FUNCTION {
                return None;
            }
            inc_ref(object);
        }
        let more = || rest.first().is_some_and(|flag| flag.as_raw().bits() != 0);
        Some(Self {
            function: object,
            target: target.as_raw().bits() as i32,
            takes_more: takes_more.unwrap_or_else(more),
        })
    }

    /// Calls the callback.
    ///
    /// # Safety
    /// The arguments are valid views.
    #[inline]
    pub(super) unsafe fn call(&self, args: &[TVMFFIAny]) -> TVMFFIAny {
        // SAFETY: promised by the caller; the link keeps the function alive.
        unsafe { outcome::call(self.function, args) }
    }
}

// SAFETY: functions may be called and released on any thread: the ABI's rule for objects. The links
// are never changed.
unsafe impl Send for Links {}
// SAFETY: as above.
unsafe impl Sync for Links {}
