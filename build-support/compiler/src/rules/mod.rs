//! Automatic scheduling by patterns.
//!
//! First, expressions that need no memory are inlined into their readers. Then the rules are tried
//! in order on each stage that is not inlined; the first rule that matches schedules it, together
//! with the stages that it fuses. A rule that declines records the reason in the notes of the
//! context.
//!
//! Each rule is a packed function `kernpack.rule.<name>`. User-defined rules, from any language,
//! can be inserted at any place of the list: [`insert`], the field `rules` of [`PassContext`],
//! [`crate::Kernel::rule`].

mod blocks;
mod code;
mod convolution;
mod dot;
mod elementwise;
mod extremum;
mod few_bits;
mod gemm;
mod inline;
mod list;
mod packed;
mod panels;
mod pattern;
mod places;
mod ranged;
mod reduction;
mod row_tiles;
mod rows;
mod strided;
mod target;
mod threads;
mod tile;
mod transpose;
mod window;

pub use convolution::{FilterForm, Filters};
pub use few_bits::weight_of;
pub use list::{DEVICE, PREFIX, USUAL, device, function, insert, names, usual};
pub(crate) use target::CPU;
pub use target::{DEVICES, TargetDescription};

use kernpack::{Any, Array, ObjRef};

use crate::error::Result;
use crate::pass::PassContext;
use crate::schedule::{Attach, Schedule, SharedSchedule, StageId};

/// Returns true if threads are profitable for this number of simple operations; a number that
/// depends on sizes is assumed to be large.
fn pays(target: &TargetDescription, work: Option<i64>) -> bool {
    work.is_none_or(|work| work >= target.parallel_work)
}

/// The kind of a loop that may be distributed over threads.
fn shared_kind(target: &TargetDescription, work: Option<i64>) -> crate::ir::ForKind {
    if pays(target, work) { crate::ir::ForKind::Parallel } else { crate::ir::ForKind::Serial }
}

/// The number of elements of the iteration space; `None` if it depends on sizes.
fn elements_of<'a>(axes: impl IntoIterator<Item = &'a crate::ir::IterVar>) -> Option<i64> {
    axes.into_iter().try_fold(1i64, |product, axis| product.checked_mul(pattern::extent_of(axis)?))
}

/// The result of a rule.
pub enum Outcome {
    /// The rule scheduled the stage and the stages that it fused.
    Applied,
    /// The rule does not apply to the stage, for this reason; nothing was changed.
    Declined(String),
}

/// Schedules all unscheduled stages with the rules of the context: the field `rules` of
/// [`PassContext`], or the usual ones.
///
/// # Errors
/// Returns the errors of primitives, which are bugs in a rule, and an error for a list with entries
/// that are not rules.
pub fn schedule(schedule: &mut Schedule, target: &TargetDescription, context: &PassContext) -> Result<()> {
    schedule_by(schedule, &of_target(context, target), target, context)
}

/// The rules of a context for a CPU: its own, or the usual ones.
pub fn of(context: &PassContext) -> Array<Any> {
    let own = context.rules.get();
    if own.is_empty() { usual() } else { own }
}

/// The rules of a context for a target: its own, or the usual ones.
pub(crate) fn of_target(context: &PassContext, target: &TargetDescription) -> Array<Any> {
    let own = context.rules.get();
    if own.is_empty() && !target.is_cpu() { device() } else { of(context) }
}

/// Schedules all unscheduled stages with these rules.
///
/// # Errors
/// Returns the errors of [`schedule`].
pub fn schedule_by(
    schedule: &mut Schedule,
    rules: &Array<Any>,
    target: &TargetDescription,
    context: &PassContext,
) -> Result<()> {
    let rules = list::resolve(rules)?;
    inline::apply(schedule)?;
    let shared = SharedSchedule::new(core::mem::replace(schedule, Schedule::new(&[])));
    let done = apply(&shared, &rules, &target.object(), context);
    // A rule that kept a reference to the object finds an empty schedule in it.
    *schedule = core::mem::replace(&mut *shared.lock(), Schedule::new(&[]));
    done
}

fn apply(
    shared: &SharedSchedule,
    rules: &[list::Rule],
    target: &ObjRef<TargetDescription>,
    context: &PassContext,
) -> Result<()> {
    // In reverse order, because a rule fuses the stages that its stage reads.
    let mut done: Vec<StageId> = Vec::new();
    loop {
        let (id, name, before) = {
            let schedule = shared.lock();
            let next = schedule.stages().rev().find(|id| {
                !done.contains(id) && !schedule[*id].is_placeholder() && schedule[*id].attach == Attach::Root
            });
            let Some(id) = next else { return Ok(()) };
            (id, schedule[id].name().to_owned(), schedule.stages().collect::<Vec<_>>())
        };
        for rule in rules {
            match rule.apply(shared, id, target)? {
                Outcome::Applied => {
                    context.note(format!("stage `{name}`: rule `{}`", rule.name));
                    break;
                }
                Outcome::Declined(reason) => {
                    context.note(format!("stage `{name}`: rule `{}` declined: {reason}", rule.name));
                }
            }
        }
        done.push(id);
        // Stages that a rule created are already scheduled.
        done.extend(shared.lock().stages().filter(|stage| !before.contains(stage)));
    }
}

/// Returns from a rule with the reason why it declines.
macro_rules! decline {
    ($($text:tt)*) => {
        return Ok($crate::rules::Outcome::Declined(format!($($text)*)))
    };
}

pub(crate) use decline;
