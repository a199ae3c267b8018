//! Recursive comparison: equality, and an order for ordered values.
//!
//! A walk with an explicit stack. It borrows the values that it reads from objects; before a hook
//! runs, which may change anything, it takes references to all values that it still needs.

mod hooks;

use core::cmp::Ordering;

use super::found_equal::FoundEqual;
use super::leaf::compare_leaves;
use super::pair_set::PairSet;
use crate::abi::{TVMFFIAny, TVMFFIObject, field_flag, type_index};
use crate::embedded::{map, release, seq};
use crate::value::Any;
use crate::walker::field_value::{Read, give_up, read_both, type_of};
use crate::walker::frozen::Frozen;
use crate::walker::reentry::{Reentry, hook};
use crate::walker::stack::{Frame, MAX_DEPTH, Stack, Waiting};
use crate::{Error, Result, bail, error};
use kernpack_core::reflect::{AttrColumn, Fields};

static EQUAL_HOOKS: AttrColumn = AttrColumn::new("__ffi_eq__");
static COMPARE_HOOKS: AttrColumn = AttrColumn::new("__ffi_compare__");
const EQUAL_SIGNATURE: &str = "(0: ffi.Object, 1: ffi.Object, 2: (0: AnyView, 1: AnyView) -> bool) -> bool";
const COMPARE_SIGNATURE: &str = "(0: ffi.Object, 1: ffi.Object, 2: (0: AnyView, 1: AnyView) -> int) -> int";

/// Compares two values. With `equality_only`, any unequal value counts as greater.
///
/// # Safety
/// Both are valid values or views, but no rvalue references, and stay alive for the call.
#[inline]
pub(crate) unsafe fn compare(left: &TVMFFIAny, right: &TVMFFIAny, equality_only: bool) -> Result<Ordering> {
    // SAFETY: promised by the caller.
    unsafe {
        if let Some(ordering) = compare_leaves(left, right, equality_only)? {
            return Ok(ordering);
        }
        let mut comparer = Comparer {
            equality_only,
            on_stack: PairSet::default(),
            equal: FoundEqual::default(),
            frames: Stack::new(),
            base: 0,
            pairs: Waiting::new(),
            equal_reentry: None,
            compare_reentry: None,
        };
        comparer.run(*left, *right)
    }
}

/// A walk over two values at once.
struct Comparer {
    equality_only: bool,
    /// The objects of the frames that have reached a part with parts of its own.
    on_stack: PairSet,
    /// Pairs of shared objects that were found equal: they are compared once.
    equal: FoundEqual,
    /// The objects that are being compared, the roots first.
    frames: Stack<2, Progress>,
    /// The index of the innermost run's first frame.
    base: usize,
    /// Values of equal keys, of the maps on the stack.
    pairs: Waiting<(), 2>,
    equal_reentry: Option<Reentry>,
    compare_reentry: Option<Reentry>,
}

/// The state of the walk for a pair of objects.
struct Progress {
    parts: Parts,
    /// True if the objects are in the set of those on the stack.
    listed: bool,
}

/// The next part.
enum Parts {
    /// The index of the next element.
    Elements([Frozen; 2], usize),
    /// Positions among the pairs: the first one of these maps, the next one, and the end.
    Entries(usize, usize, usize),
    Fields(Fields),
}

#[cold]
#[inline]
fn no_order_of_maps() -> Error {
    error!(TypeError, "Cannot order Map/Dict values")
}

// SAFETY of all unsafe blocks below: the caller of `compare` keeps the roots alive. The values that
// a frame borrows live as long as the frame below it keeps its objects alive and unchanged, which
// only hooks can end: `retain_all` is called before them.

impl Comparer {
    /// Compares two borrowed values.
    #[inline]
    unsafe fn run(&mut self, left: TVMFFIAny, right: TVMFFIAny) -> Result<Ordering> {
        let outer = core::mem::replace(&mut self.base, self.frames.len());
        let known = self.equal.len();
        let [left, right] = [left, right].map(|value| Read { value, owned: false });
        // SAFETY: see above.
        let outcome = unsafe {
            match self.enter(left, right) {
                Ok(None) => self.walk(),
                Ok(Some(ordering)) => Ok(ordering),
                Err(error) => Err(error),
            }
        };
        self.drop_frames(self.base);
        self.base = outer;
        if !matches!(outcome, Ok(Ordering::Equal)) {
            // Some of them are equal only if the objects around them are.
            self.equal.truncate(known);
        }
        outcome
    }

    /// Continues until the first frame of this run is done, or the result is known.
    #[inline]
    unsafe fn walk(&mut self) -> Result<Ordering> {
        'frames: loop {
            let top = self.frames.len() - 1;
            loop {
                // SAFETY: see above.
                unsafe {
                    let Frame { objects, state: frame, .. } = &mut self.frames[top];
                    let objects = *objects;
                    let [left, right] = match &mut frame.parts {
                        Parts::Elements(sequences, next) => {
                            let [left, right] =
                                sequences.each_ref().map(|sequence| seq::elements(sequence.get()).get(*next));
                            let (Some(left), Some(right)) = (left, right) else { break };
                            *next += 1;
                            [*left, *right].map(|value| Read { value, owned: false })
                        }
                        Parts::Entries(_, next, end) => {
                            if next == end {
                                break;
                            }
                            let (_, pair) = self.pairs.from(*next)[0];
                            *next += 1;
                            pair.map(|value| Read { value, owned: false })
                        }
                        Parts::Fields(fields) => {
                            let Some(field) = fields.next() else { break };
                            if field.has(field_flag::COMPARE_OFF) {
                                continue;
                            }
                            read_both(field, objects)?
                        }
                    };
                    let ordering = match compare_leaves(&left.value, &right.value, self.equality_only) {
                        Ok(None) => {
                            if !core::mem::replace(&mut frame.listed, true) {
                                self.on_stack.insert(objects.map(|object| object.addr()).into());
                            }
                            match self.enter(left, right)? {
                                None => continue 'frames,
                                Some(ordering) => ordering,
                            }
                        }
                        decided => {
                            give_up(left);
                            give_up(right);
                            decided?.unwrap_or(Ordering::Equal)
                        }
                    };
                    if ordering.is_ne() {
                        return self.decide(ordering);
                    }
                }
            }
            // SAFETY: see above.
            let ordering = unsafe { self.leave() };
            if self.frames.len() == self.base {
                return Ok(ordering);
            }
            if ordering.is_ne() {
                return self.decide(ordering);
            }
        }
    }

    /// The result for the roots of a difference inside the frames on the stack: maps are equal or
    /// not, but have no order.
    #[inline]
    fn decide(&self, ordering: Ordering) -> Result<Ordering> {
        let in_map = || self.frames.from(self.base).iter().any(|frame| matches!(frame.state.parts, Parts::Entries(..)));
        if !self.equality_only && in_map() {
            return Err(no_order_of_maps());
        }
        Ok(ordering)
    }

    /// Compares two values, which are not leaves, or pushes them on the stack. Takes over the
    /// readers' references.
    #[inline]
    unsafe fn enter(&mut self, left: Read, right: Read) -> Result<Option<Ordering>> {
        // SAFETY: see above.
        unsafe {
            let prepared = self.prepare(left.value.payload.v_obj, right.value.payload.v_obj);
            let (parts, hook) = match prepared {
                Ok(Prepared::Parts(parts)) => (parts, None),
                Ok(Prepared::Hook(parts, hook, is_equality)) => (parts, Some((hook, is_equality))),
                outcome => {
                    give_up(left);
                    give_up(right);
                    return match outcome {
                        Ok(Prepared::Decided(ordering)) => Ok(Some(ordering)),
                        Err(error) => Err(error),
                        _ => Ok(None),
                    };
                }
            };
            self.frames.push([left, right], Progress { parts, listed: false });
            let Some((hook, is_equality)) = hook else { return Ok(None) };
            let ordering = self.call_hook(hook, is_equality)?;
            self.finish(ordering);
            Ok(Some(ordering))
        }
    }

    /// Compares two objects of the same type as far as possible before their parts are visited.
    #[inline]
    unsafe fn prepare(&mut self, left: *mut TVMFFIObject, right: *mut TVMFFIObject) -> Result<Prepared> {
        // SAFETY: see above.
        unsafe {
            let index = (*left).type_index;
            if self.on_stack.contains((left.addr(), right.addr())) {
                if self.equality_only {
                    return Ok(Prepared::Decided(Ordering::Equal));
                }
                bail!(ValueError, "RecursiveCompare: cyclic reference detected in ordering");
            }
            if self.equal.contains(left, right) {
                return Ok(Prepared::Decided(Ordering::Equal));
            }
            let info = type_of(index)?;
            if index >= type_index::STATIC_OBJECT_END {
                if self.equality_only
                    && let Some(hook) = hook(&EQUAL_HOOKS, index, EQUAL_SIGNATURE)?
                {
                    return Ok(Prepared::Hook(Parts::Fields(info.fields()), hook, true));
                }
                if let Some(hook) = hook(&COMPARE_HOOKS, index, COMPARE_SIGNATURE)? {
                    return Ok(Prepared::Hook(Parts::Fields(info.fields()), hook, false));
                }
            }
            if self.frames.len() - self.base >= MAX_DEPTH {
                bail!(ValueError, "RecursiveCompare: maximum stack depth ({MAX_DEPTH}) exceeded");
            }
            match index {
                type_index::ARRAY | type_index::LIST => {
                    Ok(Prepared::Parts(Parts::Elements(self.freeze([left, right]), 0)))
                }
                type_index::MAP | type_index::DICT => match self.add_pairs(left, right)? {
                    Some(parts) => Ok(Prepared::Parts(parts)),
                    None if self.equality_only => Ok(Prepared::Decided(Ordering::Greater)),
                    None => Err(no_order_of_maps()),
                },
                _ => Ok(Prepared::Parts(Parts::Fields(info.fields()))),
            }
        }
    }

    /// Returns the two containers as they are now.
    #[inline]
    unsafe fn freeze(&mut self, containers: [*mut TVMFFIObject; 2]) -> [Frozen; 2] {
        // SAFETY: see above.
        let frozen = containers.map(|container| unsafe { Frozen::of(container) });
        if frozen.iter().any(Frozen::is_copy) {
            self.retain_all();
        }
        frozen
    }

    /// Appends the values of the keys of both maps to those of the maps below; `None` when the keys
    /// differ.
    #[inline]
    unsafe fn add_pairs(&mut self, left: *mut TVMFFIObject, right: *mut TVMFFIObject) -> Result<Option<Parts>> {
        let first = self.pairs.len();
        // SAFETY: see above. Positions remain valid when a key's hook changes the map, but the
        // values would be lost: maps whose keys may have hooks are held during the iteration.
        unsafe {
            let maps = self.freeze([left, right]);
            let [left, right] = maps.each_ref().map(Frozen::get);
            if map::len(left) != map::len(right) {
                return Ok(None);
            }
            self.pairs.reserve(map::len(left));
            let mut position = map::first(left);
            while let Some((key, value)) = map::entry_at(left, position) {
                let may_call_hooks = key.type_index >= type_index::DYN_OBJECT_BEGIN;
                let _held = may_call_hooks.then(|| {
                    self.retain_all();
                    let [left, right] = [left, right].map(|map| TVMFFIAny::pointer((*map).type_index, map.cast()));
                    [key, value, left, right].map(|value| Any::from_raw(release::retain(&value)))
                });
                let other = match map::get(right, &key) {
                    Ok(Some(other)) => other,
                    outcome => {
                        self.pairs.truncate(first);
                        return outcome.map(|_| None).map_err(Error::from);
                    }
                };
                self.pairs.push((), [value, other]);
                if may_call_hooks {
                    self.pairs.retain_all();
                }
                position = map::next(left, position);
            }
            if maps.iter().any(Frozen::is_copy) {
                // The copies are dropped before their values are compared.
                self.pairs.retain_all();
            }
        }
        Ok(Some(Parts::Entries(first, first, self.pairs.len())))
    }

    /// Pops the top frame, whose parts are all equal.
    #[inline]
    unsafe fn leave(&mut self) -> Ordering {
        let top = self.frames.len() - 1;
        let Frame { state, .. } = &self.frames[top];
        let ordering = match &state.parts {
            // SAFETY: see above.
            Parts::Elements([left, right], _) => unsafe {
                seq::elements(left.get()).len().cmp(&seq::elements(right.get()).len())
            },
            _ => Ordering::Equal,
        };
        self.finish(ordering);
        ordering
    }

    /// Pops the top frame, whose objects have this order.
    #[inline]
    fn finish(&mut self, ordering: Ordering) {
        if ordering.is_eq()
            && let Some(frame) = self.frames.last()
        {
            // SAFETY: the frame keeps the objects alive.
            unsafe { self.equal.note(frame.parts()) };
        }
        self.drop_frames(self.frames.len() - 1);
    }

    #[inline]
    fn drop_frames(&mut self, base: usize) {
        self.frames.truncate(base, |frame| {
            if let Parts::Entries(first, ..) = frame.state.parts {
                self.pairs.truncate(first);
            }
            if frame.state.listed {
                self.on_stack.remove(frame.objects.map(|object| object.addr()).into());
            }
        });
    }
}

enum Prepared {
    Decided(Ordering),
    Parts(Parts),
    /// The hook, and whether it is an equality hook.
    Hook(Parts, TVMFFIAny, bool),
}
