//! Callbacks by the types that they are for.

use super::outcome;
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::container::sequence;
use crate::embedded::{ObjectCell, dec_ref, inc_ref, new_object_with_tail};
use crate::reflect::TypeInfo;
use crate::value::AnyView;

/// A callback.
pub(super) struct Link {
    // A strong reference to a function.
    function: *mut TVMFFIObject,
    // The type index that it is for.
    target: i32,
    /// Whether it takes one argument more: the region, or whether the value may be changed in place.
    pub(super) takes_more: bool,
}

/// Callbacks in the order in which they are tried; the first one whose type fits is called. They lie behind the body of the visitor
/// or mutator that has them.
pub(super) struct Links {
    first: *mut Link,
    count: usize,
}

/// More callbacks than anyone has; a plan has 24 bits for their number.
const MAX_LINKS: usize = 1 << 20;

/// The body of an object that has callbacks.
///
/// # Safety
/// [`HasLinks::links`] gives a field of the body.
pub(super) unsafe trait HasLinks {
    /// The callbacks.
    fn links(&mut self) -> &mut Links;
}

/// Callbacks from a caller: a sequence of tuples of a type index, a function and, unless `takes_more` says so for all of them,
/// whether it takes one argument more. Tuples of another shape, which a function's signature does not let through, are left out.
pub(super) struct Callbacks<'a> {
    /// The sequence.
    pub(super) entries: &'a AnyView<'a>,
    /// See there.
    pub(super) takes_more: Option<bool>,
}

/// A new visitor or mutator with these callbacks, in their order; the caller owns its reference.
pub(super) fn new_object<B: HasLinks>(type_index: i32, body: B, callbacks: &[Callbacks<'_>]) -> *mut TVMFFIObject {
    let count: usize = callbacks.iter().map(|callbacks| sequence(callbacks.entries).map_or(0, <[_]>::len)).sum();
    let count = count.min(MAX_LINKS);
    let object = new_object_with_tail(type_index, body, count * size_of::<Link>());
    // SAFETY: the object is new and ours; its tail has room for so many links and is aligned to 8.
    unsafe {
        let cell = object.cast::<ObjectCell<B>>();
        let links = (*cell).body.links();
        links.first = cell.add(1).cast();
        for callbacks in callbacks {
            for entry in sequence(callbacks.entries).unwrap_or_default() {
                let Some(link) = Link::new(entry, callbacks.takes_more) else { continue };
                if links.count < count {
                    links.first.add(links.count).write(link);
                    links.count += 1;
                }
            }
        }
    }
    object
}

impl Links {
    /// None.
    pub(super) const fn new() -> Self {
        Self { first: core::ptr::dangling_mut(), count: 0 }
    }

    fn all(&self) -> &[Link] {
        // SAFETY: so many links are there, and live as long as the object that this is in.
        unsafe { core::slice::from_raw_parts(self.first, self.count) }
    }

    /// The number of the callback for values of this type.
    pub(super) fn find(&self, type_index: i32) -> Option<usize> {
        self.all().iter().position(|link| link.target == type_index || fits(type_index, link.target))
    }

    /// The callback of this number.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&Link> {
        self.all().get(number)
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

/// Whether a value of one type is also of the other.
fn fits(actual: i32, target: i32) -> bool {
    match target {
        type_index::ANY => true,
        type_index::STR => actual == type_index::SMALL_STR,
        type_index::BYTES => actual == type_index::SMALL_BYTES,
        type_index::OBJECT => actual >= type_index::STATIC_OBJECT_BEGIN,
        // A type's index is always larger than its parent's.
        _ if target < type_index::STATIC_OBJECT_BEGIN || actual < target => false,
        _ => TypeInfo::of(actual).is_some_and(|info| info.is_a(target)),
    }
}

impl Link {
    fn new(entry: &AnyView<'_>, takes_more: Option<bool>) -> Option<Self> {
        let [target, function, rest @ ..] = sequence(entry).ok()? else { return None };
        let object = function.object()?;
        // SAFETY: the tuple keeps the function alive; the link takes a reference of its own.
        unsafe {
            if (*object).type_index != type_index::FUNCTION {
                return None;
            }
            inc_ref(object);
        }
        let more = || rest.first().is_some_and(|flag| flag.raw().bits() != 0);
        Some(Self { function: object, target: target.raw().bits() as i32, takes_more: takes_more.unwrap_or_else(more) })
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

// SAFETY: functions may be called and released on any thread: the ABI's rule for objects. The links are never changed.
unsafe impl Send for Links {}
// SAFETY: as above.
unsafe impl Sync for Links {}
