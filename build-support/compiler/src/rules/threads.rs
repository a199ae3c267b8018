//! The rule for devices that applies to any computed tensor: one thread for each element. A
//! reduction is a loop of its thread.

use super::{Outcome, TargetDescription, decline};
use crate::error::Result;
use crate::ir::OperationNode;
use crate::schedule::{Schedule, StageId};
use crate::te::thread_axis;

/// The number of threads of a block, which every device accepts.
const THREADS: i64 = 64;

/// Binds the elements of a stage to threads.
pub(crate) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    if target.is_cpu() {
        decline!("`{}` has no threads of blocks", target.name);
    }
    let op = schedule[id].operation().clone();
    let OperationNode::Compute { axes, .. } = &*op else { decline!("`{}` is not computed by element", op.name()) };
    let axes = axes.to_vec();
    let thread = thread_axis(None, "threadIdx.x");
    let mut stage = schedule.stage(id);
    let elements = stage.fuse_all(&axes)?;
    if axes.is_empty() {
        stage.bind(&elements, &thread)?;
        return Ok(Outcome::Applied);
    }
    let (block, inner) = stage.split(&elements, THREADS)?;
    stage.bind(&block, &thread_axis(None, "blockIdx.x"))?.bind(&inner, &thread)?;
    Ok(Outcome::Applied)
}
