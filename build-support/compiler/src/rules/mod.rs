//! Schedules by pattern.
//!
//! First, expressions that need no memory of their own are put into their readers. Then the rules are tried in order on each stage that is still computed by
//! itself; the first one that fits schedules it, together with the stages that it takes in. A rule that declines says why, in the notes of the context.

mod elementwise;
mod gemm;
mod inline;
mod packed;
mod pattern;
mod reduction;
mod rows;
mod target;

pub use target::TargetDescription;

use crate::error::Result;
use crate::pass::PassContext;
use crate::schedule::{Attach, Schedule, StageId};

/// What a rule did.
pub enum Outcome {
    /// It scheduled the stage and those that it took in.
    Applied,
    /// The stage is none for this rule, for this reason; nothing was changed.
    Declined(String),
}

/// A rule.
type Rule = fn(&mut Schedule, StageId, &TargetDescription) -> Result<Outcome>;

/// The rules, in the order in which they are tried.
const RULES: &[(&str, Rule)] = &[
    ("gemm", gemm::apply),
    ("rows", rows::apply),
    ("reduction", reduction::apply),
    ("elementwise", elementwise::apply),
];

/// Schedules everything that is not scheduled.
///
/// # Errors
/// Those of primitives: a defect of a rule.
pub fn schedule(schedule: &mut Schedule, target: &TargetDescription, context: &PassContext) -> Result<()> {
    inline::apply(schedule)?;
    // From the last one on: a rule takes in what its stage reads.
    let mut done: Vec<StageId> = Vec::new();
    loop {
        let next = schedule
            .stages()
            .rev()
            .find(|id| !done.contains(id) && !schedule[*id].is_placeholder() && schedule[*id].attach == Attach::Root);
        let Some(id) = next else { return Ok(()) };
        let name = schedule[id].name().to_owned();
        let before: Vec<StageId> = schedule.stages().collect();
        for (rule, apply) in RULES {
            match apply(schedule, id, target)? {
                Outcome::Applied => {
                    context.note(format!("stage `{name}`: rule `{rule}`"));
                    break;
                }
                Outcome::Declined(reason) => context.note(format!("stage `{name}`: rule `{rule}` declined: {reason}")),
            }
        }
        done.push(id);
        // Stages that a rule made are its own.
        done.extend(schedule.stages().filter(|stage| !before.contains(stage)));
    }
}

/// Returns from a rule with the reason why it does not fit.
macro_rules! decline {
    ($($text:tt)*) => {
        return Ok($crate::rules::Outcome::Declined(format!($($text)*)))
    };
}

pub(crate) use decline;
