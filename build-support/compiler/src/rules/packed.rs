//! Rules for other languages.

use kernpack::packed_func;

use super::TargetDescription;
use crate::codegen::Target;
use crate::error::with_place;
use crate::pass::PassContext;
use crate::schedule::SharedSchedule;

/// Schedules all unscheduled stages for a target string. The notes of the context list the rules
/// that were applied or declined.
#[packed_func(name = "kernpack.rules.schedule")]
fn schedule(schedule: SharedSchedule, target: &str, context: PassContext) -> kernpack::Result<()> {
    let description = TargetDescription::of(&Target::parse(target)?);
    with_place("", || Ok(super::schedule(&mut schedule.lock(), &description, &context)?))
}
