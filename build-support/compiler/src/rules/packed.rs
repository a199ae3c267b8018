//! Rules for other languages.

use kernpack::packed_func;

use super::TargetDescription;
use crate::codegen::Target;
use crate::error::{with_place, with_reported};
use crate::pass::PassContext;
use crate::schedule::SharedSchedule;

/// Schedules all unscheduled stages for a target string. The notes of the context list the rules
/// that were applied or declined.
#[packed_func(name = "kernpack.rules.schedule")]
fn schedule(schedule: SharedSchedule, target: &str, context: PassContext) -> kernpack::Result<()> {
    let description = TargetDescription::of(&Target::parse(target)?);
    let scheduled = with_place("", || with_reported(|| super::schedule(&mut schedule.lock(), &description, &context)));
    Ok(scheduled?)
}
