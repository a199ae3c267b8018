//! `ffi.StructuralMap` and `ffi.StructuralMutate`: our own mutators, which call callbacks for the
//! values that they reach.
//!
//! A map calls the callback of each value before its children, and continues with the result, or
//! after them, with the mutated value. A mutation leaves a value's children to its callback, which
//! gets the mutator for that; only values without a callback are mutated by default.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};
use std::cell::Cell;

use super::default_mutate::{self, Begun, default_mutate, leaf, mutate_whole, way_of};
use super::error_context::{record, with_context};
use super::frames::{Frames, too_deep};
use super::links::{self, Callback, Callbacks, HasLinks, Link, Links, Style};
use super::mutation::{Mutation, Then};
use super::mutator::{self, MUTATOR, MutatorTable, is_exclusive, value_or_unchanged};
use super::outcome::{PENDING, UNCHANGED, failed, guard, into_result, is_error, is_pending, same, type_error};
use super::plans::{Plan, Plans};
use super::rebuild::{Identity, Next, Rebuild};
use super::region::{self, Region};
use super::remap::Remap;
use super::traversal::Traversal;
use super::visitor::as_argument;
use crate::Result;
use crate::abi::{TVMFFIAny, TVMFFIObject, seq_hash_kind, type_index};
use crate::definition::function::Arguments;
use crate::embedded;
use crate::embedded::release::{is_object, release, retain, to_owned};
use crate::value::Any;
use crate::walker::stack_space;
use kernpack_core::reflect::TypeInfo;

/// The part of such a mutator that follows the header.
#[repr(C)]
struct MapBody {
    cell: Traversal<MutatorTable>,
    style: Style,
    plans: Plans,
    remap: Remap,
    // The outcomes of shared objects, if all of them have to stay shared.
    shared: Option<Remap>,
    // True if the callbacks are safe Rust code: values that they keep must not be changed in place.
    is_safe: bool,
    // For a map, first the callbacks that get the value, then those that also get the region; or
    // those for before, then those for after.
    links: Links,
}

// SAFETY: it is a field.
unsafe impl HasLinks for MapBody {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// A value whose children are being mutated.
struct Frame {
    mutation: Mutation,
    rebuild: Rebuild,
}

thread_local! {
    static SPARE: Cell<Vec<Frame>> = const { Cell::new(Vec::new()) };
}

static TABLE: MutatorTable = MutatorTable {
    mutate: mutate_value,
    maybe_inplace_mutate: maybe_inplace_mutate_value,
    var_remap_get: remap_get,
    var_remap_set: remap_set,
};

pub(super) unsafe extern "C" fn mutate_value(mutator: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: the convention of the table, which only our mutators have.
    unsafe {
        let mapping = Mapping::of(mutator);
        let plan = mapping.plan(value.type_index);
        if plan.is_quiet() { leaf(&value) } else { guard(|| mapping.mutate(value, plan, false)) }
    }
}

unsafe extern "C" fn maybe_inplace_mutate_value(mutator: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: the convention of the table, which only our mutators have.
    guard(|| unsafe {
        let mapping = Mapping::of(mutator);
        mapping.mutate(value, mapping.plan(value.type_index), true)
    })
}

pub(super) unsafe extern "C" fn remap_get(mutator: *mut TVMFFIObject, var: TVMFFIAny) -> TVMFFIAny {
    if !is_object(&var) {
        return type_error("Variable-remap key must be an object-backed value");
    }
    // SAFETY: the convention of the table, which only our mutators have.
    guard(|| unsafe { embedded::body::<MapBody>(mutator).remap.get(var.payload.v_obj) })
}

pub(super) unsafe extern "C" fn remap_set(mutator: *mut TVMFFIObject, var: TVMFFIAny, mapped: TVMFFIAny) -> TVMFFIAny {
    if !is_object(&var) {
        return type_error("Variable-remap key must be an object-backed value");
    }
    // SAFETY: the convention of the table, which only our mutators have.
    guard(|| unsafe {
        let body = embedded::body::<MapBody>(mutator);
        match to_owned(&mapped) {
            Ok(mapped) => body.remap.set(var.payload.v_obj, mapped),
            Err(failure) => return failed(failure.into()),
        }
        if let Some(shared) = &body.shared
            && TypeInfo::find(var.type_index).is_some_and(|info| info.structural_kind() == seq_hash_kind::FREE_VAR)
        {
            // Objects that use this variable have a different outcome from now on.
            shared.clear();
        }
        TVMFFIAny::NONE
    })
}

/// A running mapping.
#[derive(Clone, Copy)]
pub(super) struct Mapping<'a> {
    mutator: *mut TVMFFIObject,
    body: &'a MapBody,
    region: Region,
}

impl Mapping<'_> {
    /// # Safety
    /// `mutator` is one of ours and lives as long as the mapping.
    #[inline]
    pub(super) unsafe fn of(mutator: *mut TVMFFIObject) -> Self {
        // SAFETY: promised by the caller.
        unsafe { Self { mutator, body: embedded::body(mutator), region: Region::of(mutator) } }
    }

    #[inline]
    fn plan(self, type_index: i32) -> Plan {
        self.body.plans.get(type_index, &self.body.links, way_of)
    }

    // SAFETY of the functions below: the mutator is alive, values are valid views, and plans and
    // ways are those of their types. With `in_place`, there is no other reference to the value, and
    // no other code uses its content.

    /// Mutates a value.
    unsafe fn mutate(self, value: TVMFFIAny, plan: Plan, in_place: bool) -> TVMFFIAny {
        if let Err(error) = stack_space::check() {
            return failed(error);
        }
        // SAFETY: see above.
        unsafe {
            let mut mutation = Mutation::new(value, in_place);
            let outcome = self.arrive(&mut mutation, plan);
            if is_pending(&outcome) { self.traverse(mutation) } else { outcome }
        }
    }

    /// Mutates only the children of a value, by default.
    pub(super) unsafe fn mutate_inside(self, value: TVMFFIAny) -> TVMFFIAny {
        if let Err(error) = stack_space::check() {
            return failed(error);
        }
        // SAFETY: see above.
        unsafe {
            let outcome = mutate_whole(self.mutator, &value, way_of(value.type_index), false);
            if is_pending(&outcome) {
                return self.traverse(Mutation::new(value, false));
            }
            with_context(outcome, &value)
        }
    }

    /// Mutates the children of a value, and their descendants.
    unsafe fn traverse(self, mutation: Mutation) -> TVMFFIAny {
        let mut frames = Frames::new(&SPARE);
        // SAFETY: see above; children are valid until they are taken.
        unsafe {
            let mut outcome = self.descend(&mut frames, &mutation);
            loop {
                if !is_pending(&outcome) {
                    // A value is finished: its parent takes the outcome.
                    if is_error(&outcome) {
                        return self.unwind(&mut frames, outcome);
                    }
                    let Some(frame) = frames.last() else { return outcome };
                    frame.rebuild.take(outcome);
                }
                let Some(frame) = frames.last() else { return outcome };
                outcome = match frame.rebuild.step(self.region) {
                    Next::Child { child, in_place } => {
                        let plan = self.plan(child.type_index);
                        if plan.is_quiet() {
                            UNCHANGED
                        } else {
                            let mut mutation = Mutation::new(child, in_place);
                            match self.arrive(&mut mutation, plan) {
                                outcome if is_pending(&outcome) => self.descend(&mut frames, &mutation),
                                outcome => outcome,
                            }
                        }
                    }
                    Next::Failed(error) => error,
                    Next::Done => {
                        let mutation = frame.mutation;
                        let finished = frame.rebuild.finish(self.mutator, &mutation.node, &TABLE);
                        frames.drop_last();
                        self.depart(finished, &mutation)
                    }
                };
            }
        }
    }

    /// Reaches a value: returns its outcome, or [`PENDING`] when its children come next.
    #[inline]
    unsafe fn arrive(self, mutation: &mut Mutation, plan: Plan) -> TVMFFIAny {
        let mut way = plan.way();
        // SAFETY: see above.
        unsafe {
            if let Some(shared) = &self.body.shared
                && !mutation.in_place
                && is_object(&mutation.node)
                && self.region.get() == region::NONE
            {
                let known = shared.get(mutation.node.payload.v_obj);
                if known.type_index != type_index::NONE {
                    return known;
                }
                mutation.origin = mutation.node.payload.v_obj;
            }
            let link = match self.body.style {
                Style::After => None,
                Style::Both => plan.pair(&self.body.links)[0],
                Style::Before | Style::Instead => plan.link(&self.body.links),
            };
            if matches!(self.body.style, Style::After | Style::Both) {
                mutation.then = Then::Call;
            }
            if let Some(link) = link {
                if self.body.style == Style::Instead {
                    let mode = TVMFFIAny::int(i64::from(mutation.in_place));
                    let args = [mutation.node, as_argument(self.mutator), mode];
                    let outcome = link.call(if link.takes_more { &args } else { &args[..2] });
                    return with_context(outcome, &mutation.node);
                }
                let owners = if self.body.is_safe && mutation.in_place { owners(&mutation.node) } else { 0 };
                let given = self.call(link, &mutation.node);
                if is_error(&given) {
                    return given;
                }
                if owners != 0 && owners != self::owners(&mutation.node) {
                    mutation.in_place = false;
                }
                mutation.then = if self.body.style == Style::Both { Then::UseGivenAndCall } else { Then::UseGiven };
                mutation.given = given;
                if given.type_index != type_index::UNCHANGED {
                    mutation.in_place = mutation.in_place && (same(&given, &mutation.node) || is_exclusive(&given));
                    mutation.node = given;
                    way = self.plan(given.type_index).way();
                }
            }
            let outcome = mutate_whole(self.mutator, &mutation.node, way, mutation.in_place);
            if is_pending(&outcome) { PENDING } else { self.depart(outcome, mutation) }
        }
    }

    /// Calls the callback of a map.
    #[inline]
    unsafe fn call(self, link: &Link, value: &TVMFFIAny) -> TVMFFIAny {
        // SAFETY: see above.
        unsafe {
            let args = [*value, TVMFFIAny::int(i64::from(self.region.get()))];
            with_context(link.call(if link.takes_more { &args } else { &args[..1] }), value)
        }
    }

    /// Begins with the children of a value: pushes a frame and returns [`PENDING`], or returns the
    /// outcome if it is already known.
    #[inline]
    unsafe fn descend(self, frames: &mut Frames<Frame>, mutation: &Mutation) -> TVMFFIAny {
        // SAFETY: see above.
        unsafe {
            if frames.is_full() {
                return self.depart(failed(too_deep()), mutation);
            }
            let (node, way) = (&mutation.node, self.plan(mutation.node.type_index).way());
            let (copy, identity) = match default_mutate::begin(self.mutator, node, way) {
                Begun::Container => (null_mut(), Identity::None),
                Begun::Object(copy, identity) => (copy, identity),
                Begun::Done(outcome) => return self.depart(outcome, mutation),
            };
            let rebuild = default_mutate::rebuild(self.mutator, node, way, mutation.in_place, copy, identity);
            frames.push(Frame { mutation: *mutation, rebuild });
            PENDING
        }
    }

    /// Leaves a value: returns its outcome, given the outcome of its default mutation.
    #[inline]
    unsafe fn depart(self, outcome: TVMFFIAny, mutation: &Mutation) -> TVMFFIAny {
        // SAFETY: see above; the origin is alive, because the value is.
        unsafe {
            let outcome = self.finish(outcome, mutation);
            if let Some(shared) = &self.body.shared
                && !mutation.origin.is_null()
                && !is_error(&outcome)
            {
                shared.set(mutation.origin, retain(&outcome));
            }
            outcome
        }
    }

    #[inline]
    unsafe fn finish(self, outcome: TVMFFIAny, mutation: &Mutation) -> TVMFFIAny {
        // SAFETY: see above; the outcome and the arguments are released.
        unsafe {
            if is_error(&outcome) {
                record(&outcome, &mutation.node);
                release(mutation.given);
                return outcome;
            }
            match mutation.then {
                Then::Nothing => outcome,
                Then::UseGiven if outcome.type_index == type_index::UNCHANGED => mutation.given,
                Then::UseGiven => {
                    release(mutation.given);
                    outcome
                }
                Then::Call => self.call_after(outcome, &mutation.node),
                Then::UseGivenAndCall if outcome.type_index == type_index::UNCHANGED => {
                    self.call_after(mutation.given, &mutation.node)
                }
                Then::UseGivenAndCall => {
                    let outcome = self.call_after(outcome, &mutation.node);
                    release(mutation.given);
                    outcome
                }
            }
        }
    }

    /// Calls the callback for after the children, if there is one, with the value that results from
    /// the outcome.
    #[inline]
    unsafe fn call_after(self, outcome: TVMFFIAny, node: &TVMFFIAny) -> TVMFFIAny {
        // SAFETY: see above; the outcome is given up.
        unsafe {
            let now = if outcome.type_index == type_index::UNCHANGED { node } else { &outcome };
            let plan = self.plan(now.type_index);
            let link = if self.body.style == Style::Both {
                plan.pair(&self.body.links)[1]
            } else {
                plan.link(&self.body.links)
            };
            let Some(link) = link else { return outcome };
            let called = self.call(link, now);
            if called.type_index == type_index::UNCHANGED {
                return outcome;
            }
            release(outcome);
            called
        }
    }

    /// Leaves all values, because of an error.
    #[cold]
    unsafe fn unwind(self, frames: &mut Frames<Frame>, error: TVMFFIAny) -> TVMFFIAny {
        while let Some(Frame { mutation, rebuild }) = frames.last() {
            // SAFETY: the children of the frame are not used any more; its node is still alive.
            unsafe {
                rebuild.abandon(self.region);
                record(&error, &mutation.node);
                release(mutation.given);
            }
            frames.drop_last();
        }
        error
    }
}

/// The reference counts of an object, which show whether another reference was added.
unsafe fn owners(value: &TVMFFIAny) -> u64 {
    // SAFETY: the caller passes a live object, whose counts are only ever accessed atomically.
    unsafe { AtomicU64::from_ptr(&raw mut (*value.payload.v_obj).combined_ref_count) }.load(Ordering::Acquire)
}

fn body(style: Style, is_safe: bool, shared: Option<Remap>) -> MapBody {
    let cell = Traversal::new(&TABLE);
    MapBody { cell, style, plans: Plans::new(), remap: Remap::default(), shared, is_safe, links: Links::new() }
}

/// Creates a mutator and mutates an owned value with it, in place when there is no other reference
/// to it.
fn start(root: Any, style: Style, callbacks: &[Callbacks<'_>]) -> Result<Any> {
    // SAFETY: the mutator is new, and its reference is given up.
    unsafe { run(root, links::new_object(MUTATOR.host_index(), body(style, false, None), callbacks)) }
}

/// Maps an owned value, in place when there is no other reference to it, with callbacks for before
/// and for after the children, at most [`links::MAX_PAIRED`] each if there are both. `keep_shared`
/// maps each shared object once, whatever its kind.
pub(crate) fn map(root: Any, before: &[Callback], after: &[Callback], keep_shared: bool) -> Result<Any> {
    let style = Style::of_pairs(before, after);
    let body = body(style, true, keep_shared.then(Remap::default));
    // SAFETY: the mutator is new, and its reference is given up.
    unsafe { run(root, links::new_object_of_pairs(MUTATOR.host_index(), body, before, after)) }
}

/// Mutates an owned value with callbacks that get the mutator and handle the children themselves.
pub(crate) fn mutate(root: Any, callbacks: &[Callback]) -> Result<Any> {
    // SAFETY: the mutator is new, and its reference is given up.
    unsafe {
        run(root, links::new_object_of_pairs(MUTATOR.host_index(), body(Style::Instead, true, None), callbacks, &[]))
    }
}

/// # Safety
/// The mutator is one of ours; the caller's reference to it is consumed.
unsafe fn run(root: Any, mutator: *mut TVMFFIObject) -> Result<Any> {
    // SAFETY: promised by the caller; the value is ours.
    unsafe {
        let view = *root.as_view().as_raw();
        let mapping = Mapping::of(mutator);
        let outcome = mapping.mutate(view, mapping.plan(view.type_index), is_exclusive(&view));
        release(as_argument(mutator));
        if outcome.type_index == type_index::UNCHANGED { Ok(root) } else { into_result(outcome) }
    }
}

/// `ffi.StructuralMap`.
pub(super) fn run_map(args: &Arguments<'_>) -> Result<Any> {
    let (style, callbacks) = links::in_order(args);
    start(args.owned(0)?, style, &callbacks)
}

/// `ffi.StructuralMutate`.
pub(super) fn run_mutate(args: &Arguments<'_>) -> Result<Any> {
    start(args.owned(0)?, Style::Instead, &[Callbacks { entries: args.view(1), takes_more: None }])
}

/// `ffi.StructuralMutatorDefaultMutate`.
pub(super) fn run_default_mutate(args: &Arguments<'_>) -> Result<Any> {
    let (mutator, value) = (args.object(0), *args.view(1).as_raw());
    // SAFETY: the signature requires a mutator; the caller keeps the arguments alive.
    let outcome = unsafe {
        if core::ptr::eq(mutator::table(mutator)?, &TABLE) {
            Mapping::of(mutator).mutate_inside(value)
        } else {
            default_mutate(mutator, value, false)
        }
    };
    value_or_unchanged(args, outcome)
}
