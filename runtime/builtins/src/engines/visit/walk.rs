//! `ffi.StructuralWalk` and `ffi.StructuralVisit`: our own visitors, which call callbacks for the
//! values that they reach.
//!
//! A walk calls the callback of each value before or after its children. A visit leaves a value's
//! children to its callback, which gets the visitor for that; only values without a callback are
//! visited by default.

use std::cell::Cell;

use super::children::{Children, Step};
use super::default_visit::{SEQUENCE, begin, default_visit, visit_whole, way_of};
use super::error_context::{record, with_context};
use super::frames::{Frames, too_deep};
use super::interrupt::interrupt_or_error;
use super::links::{self, Callback, Callbacks, HasLinks, Link, Links, Style};
use super::outcome::{failed, guard, into_result, is_error, is_pending, mismatch};
use super::plans::{Plan, Plans, Way};
use super::region::Region;
use super::traversal::Traversal;
use super::visitor::{VISITOR, VisitorTable, as_argument};
use crate::Result;
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::definition::function::Arguments;
use crate::embedded::release::release;
use crate::embedded::{self, list};
use crate::value::{Any, AnyView};
use crate::walker::stack_space;

/// The part of such a visitor that follows the header.
#[repr(C)]
struct WalkBody {
    cell: Traversal<VisitorTable>,
    style: Style,
    plans: Plans,
    // First the callbacks that get the value, then those that also get the region; or those for
    // before, then those for after.
    links: Links,
}

// SAFETY: it is a field.
unsafe impl HasLinks for WalkBody {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

thread_local! {
    static SPARE: Cell<Vec<Children>> = const { Cell::new(Vec::new()) };
}

static TABLE: VisitorTable = VisitorTable { visit: visit_value };

unsafe extern "C" fn visit_value(visitor: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: the convention of the table, which only our visitors have.
    unsafe {
        let walk = Walk::of(visitor);
        let plan = walk.plan(value.type_index);
        if plan.is_quiet() { TVMFFIAny::NONE } else { guard(|| walk.visit(value, plan)) }
    }
}

/// A running walk.
#[derive(Clone, Copy)]
struct Walk<'a> {
    visitor: *mut TVMFFIObject,
    body: &'a WalkBody,
    region: Region,
}

impl Walk<'_> {
    /// # Safety
    /// `visitor` is one of ours and lives as long as the walk.
    #[inline]
    unsafe fn of(visitor: *mut TVMFFIObject) -> Self {
        // SAFETY: promised by the caller.
        unsafe { Self { visitor, body: embedded::body(visitor), region: Region::of(visitor) } }
    }

    #[inline]
    fn plan(self, type_index: i32) -> Plan {
        self.body.plans.get(type_index, &self.body.links, way_of)
    }

    // SAFETY of the functions below: the visitor is alive, values are valid views, and plans and
    // ways are those of their types.

    /// Visits a value.
    unsafe fn visit(self, value: TVMFFIAny, plan: Plan) -> TVMFFIAny {
        if let Err(error) = stack_space::check() {
            return failed(error);
        }
        // SAFETY: see above.
        unsafe {
            let outcome = self.arrive(&value, plan);
            if is_pending(&outcome) { self.traverse(&value, plan.way(), false) } else { outcome }
        }
    }

    /// Visits only the children of a value, by default.
    unsafe fn visit_inside(self, value: TVMFFIAny) -> TVMFFIAny {
        if let Err(error) = stack_space::check() {
            return failed(error);
        }
        // SAFETY: see above.
        unsafe {
            let way = way_of(value.type_index);
            let outcome = visit_whole(self.visitor, &value, way);
            if is_pending(&outcome) { self.traverse(&value, way, true) } else { outcome }
        }
    }

    /// Visits the children of a value, and their descendants. With `children_only`, the value
    /// itself has no callback, and is not recorded in an error's context.
    unsafe fn traverse(self, root: &TVMFFIAny, way: Way, children_only: bool) -> TVMFFIAny {
        // Each frame belongs to the current child of the frame below, which keeps it alive; the
        // lowest one belongs to the root.
        let mut frames = Frames::new(&SPARE);
        // SAFETY: see above; the child that a step goes to is valid until the next step.
        unsafe {
            frames.push_with(|place| begin(place, self.visitor, root, way));
            while let Some(frame) = frames.last() {
                let outcome = match frame.step_past(self.region, |type_index| self.plan(type_index).is_quiet()) {
                    Step::Child => {
                        let child = frame.child();
                        let plan = self.plan(child.type_index);
                        match self.arrive(child, plan) {
                            outcome if !is_pending(&outcome) => outcome,
                            _ if plan.way() == SEQUENCE && list::shared::len(child.payload.v_obj) == 0 => {
                                self.depart(child, plan)
                            }
                            _ => {
                                let child: *const TVMFFIAny = child;
                                if frames.is_full() {
                                    with_context(failed(too_deep()), &*child)
                                } else {
                                    // The child is copied before its frame may move.
                                    let child = *child;
                                    frames.push_with(|place| begin(place, self.visitor, &child, plan.way()));
                                    continue;
                                }
                            }
                        }
                    }
                    Step::Failed(error) => error,
                    Step::Done => {
                        frame.end(self.region);
                        frames.drop_last();
                        let node = match frames.last() {
                            Some(frame) => frame.child(),
                            None if children_only => return TVMFFIAny::NONE,
                            None => root,
                        };
                        self.depart(node, self.plan(node.type_index))
                    }
                };
                if outcome.type_index != type_index::NONE {
                    return self.unwind(&mut frames, outcome, (!children_only).then_some(root));
                }
            }
        }
        TVMFFIAny::NONE
    }

    /// Reaches a value: returns its outcome, or [`PENDING`](super::outcome::PENDING) when its
    /// children come next.
    #[inline]
    unsafe fn arrive(self, value: &TVMFFIAny, plan: Plan) -> TVMFFIAny {
        if value.type_index == type_index::NONE {
            return TVMFFIAny::NONE;
        }
        // SAFETY: see above.
        unsafe {
            match self.body.style {
                Style::Before => {
                    if let Some(link) = plan.link(&self.body.links) {
                        let outcome = self.call(link, value);
                        if outcome.type_index == type_index::INT {
                            return TVMFFIAny::NONE;
                        }
                        if outcome.type_index != type_index::NONE {
                            return outcome;
                        }
                    }
                }
                Style::After => {}
                Style::Both => {
                    let outcome = self.call_of_pair(value, plan, 0);
                    if outcome.type_index == type_index::INT {
                        return self.depart(value, plan);
                    }
                    if outcome.type_index != type_index::NONE {
                        return outcome;
                    }
                }
                Style::Instead => {
                    if let Some(link) = plan.link(&self.body.links) {
                        let outcome = interrupt_or_error(link.call(&[*value, as_argument(self.visitor)]));
                        return with_context(outcome, value);
                    }
                }
            }
            let outcome = visit_whole(self.visitor, value, plan.way());
            match outcome.type_index {
                type_index::NONE => self.depart(value, plan),
                _ => with_context(outcome, value),
            }
        }
    }

    /// Leaves a value whose children were visited.
    #[inline]
    unsafe fn depart(self, node: &TVMFFIAny, plan: Plan) -> TVMFFIAny {
        // SAFETY: see above.
        let outcome = unsafe {
            match self.body.style {
                Style::After => {
                    let Some(link) = plan.link(&self.body.links) else { return TVMFFIAny::NONE };
                    self.call(link, node)
                }
                Style::Both => self.call_of_pair(node, plan, 1),
                Style::Before | Style::Instead => return TVMFFIAny::NONE,
            }
        };
        if outcome.type_index == type_index::INT { TVMFFIAny::NONE } else { outcome }
    }

    /// Calls the callback for before (0) or after (1) the children, if there is one. Out of line:
    /// the builtins never call it.
    #[inline(never)]
    unsafe fn call_of_pair(self, value: &TVMFFIAny, plan: Plan, which: usize) -> TVMFFIAny {
        match plan.pair(&self.body.links)[which] {
            // SAFETY: see above.
            Some(link) => unsafe { self.call(link, value) },
            None => TVMFFIAny::NONE,
        }
    }

    /// Calls the callback of a walk: it returns `None` to continue, the integer 1 to skip the
    /// children, else a value that stops the walk.
    #[inline]
    unsafe fn call(self, link: &Link, value: &TVMFFIAny) -> TVMFFIAny {
        // SAFETY: see above.
        unsafe {
            let args = [*value, TVMFFIAny::int(i64::from(self.region.get()))];
            let outcome = link.call(if link.takes_more { &args } else { &args[..1] });
            match outcome.type_index {
                type_index::NONE => outcome,
                type_index::INT | type_index::BOOL if outcome.bits() as i32 == 1 => TVMFFIAny::int(1),
                type_index::INT | type_index::BOOL => TVMFFIAny::NONE,
                type_index::VISIT_INTERRUPT | type_index::ERROR => with_context(outcome, value),
                _ => with_context(mismatch("WalkResult", outcome), value),
            }
        }
    }

    /// Leaves all values, because of an interrupt or an error, whose context gets all values, and
    /// the root if it is given.
    #[cold]
    unsafe fn unwind(self, frames: &mut Frames<Children>, outcome: TVMFFIAny, root: Option<&TVMFFIAny>) -> TVMFFIAny {
        while let Some(frame) = frames.last() {
            // SAFETY: the children of the frame are not used any more; its node is still alive.
            unsafe {
                frame.end(self.region);
                frames.drop_last();
                let node = frames.last().map_or(root, |frame| Some(frame.child()));
                if let Some(node) = node.filter(|_| is_error(&outcome)) {
                    record(&outcome, node);
                }
            }
        }
        outcome
    }
}

fn body(style: Style) -> WalkBody {
    WalkBody { cell: Traversal::new(&TABLE), style, plans: Plans::new(), links: Links::new() }
}

/// Creates a visitor and visits a value with it.
fn start(value: &AnyView<'_>, style: Style, callbacks: &[Callbacks<'_>]) -> Result<Any> {
    // SAFETY: the visitor is new, and its reference is given up.
    unsafe { run(value, links::new_object(VISITOR.host_index(), body(style), callbacks)) }
}

/// Walks through a value with callbacks for before and for after the children, at most
/// [`links::MAX_PAIRED`] each if there are both. Returns `None`, or the interrupt that stopped the
/// walk.
pub(crate) fn walk(value: &AnyView<'_>, before: &[Callback], after: &[Callback]) -> Result<Any> {
    let style = Style::of_pairs(before, after);
    // SAFETY: the visitor is new, and its reference is given up.
    unsafe { run(value, links::new_object_of_pairs(VISITOR.host_index(), body(style), before, after)) }
}

/// # Safety
/// The visitor is one of ours; the caller's reference to it is consumed.
unsafe fn run(value: &AnyView<'_>, visitor: *mut TVMFFIObject) -> Result<Any> {
    // SAFETY: promised by the caller, who also keeps the value alive.
    unsafe {
        let walk = Walk::of(visitor);
        let outcome = walk.visit(*value.as_raw(), walk.plan(value.type_index()));
        release(as_argument(visitor));
        into_result(outcome)
    }
}

/// `ffi.StructuralWalk`.
pub(super) fn run_walk(args: &Arguments<'_>) -> Result<Any> {
    let (style, callbacks) = links::in_order(args);
    start(args.view(0), style, &callbacks)
}

/// `ffi.StructuralVisit`.
pub(super) fn run_visit(args: &Arguments<'_>) -> Result<Any> {
    start(args.view(0), Style::Instead, &[Callbacks { entries: args.view(1), takes_more: Some(false) }])
}

/// `ffi.StructuralVisitorDefaultVisit`.
pub(super) fn run_default_visit(args: &Arguments<'_>) -> Result<Any> {
    let (visitor, value) = (args.object(0), *args.view(1).as_raw());
    // SAFETY: the signature requires a visitor; the caller keeps the arguments alive.
    unsafe {
        into_result(if Traversal::table(visitor) == &raw const TABLE {
            Walk::of(visitor).visit_inside(value)
        } else {
            default_visit(visitor, value)
        })
    }
}
