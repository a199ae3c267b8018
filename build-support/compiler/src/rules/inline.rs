//! Puts expressions into their readers, where that costs nothing.

use super::pattern::{computed, cost, depends_on, is_injective, reads};
use crate::error::Result;
use crate::ir::{ExprNode, IterVar, OperationNode};
use crate::schedule::Schedule;

/// What an expression may cost that is computed again for each of several readers.
const CHEAP: usize = 2;

/// Inlines what is computed element by element, is no output, and is read by computed tensors only: by one, for each element once; or if it is cheap.
pub(crate) fn apply(schedule: &mut Schedule) -> Result<()> {
    for id in schedule.stages().collect::<Vec<_>>() {
        let stage = &schedule[id];
        if stage.is_output || stage.is_placeholder() || !is_injective(stage.operation()) {
            continue;
        }
        let op = stage.operation().clone();
        let Some(parts) = computed(&op) else { continue };
        let consumers = schedule.consumers(id);
        let all_computed =
            consumers.iter().all(|&reader| matches!(&**schedule[reader].operation(), OperationNode::Compute { .. }));
        if consumers.is_empty() || !all_computed {
            continue;
        }
        let mut uses = 0;
        let mut is_repeated = false;
        for &reader in &consumers {
            let OperationNode::Compute { bodies, axes, reduce_axes, .. } = &**schedule[reader].operation() else {
                continue;
            };
            let several = !matches!(bodies.get(0).as_deref(), Some(ExprNode::Reduce { .. }));
            for body in bodies.iter().take(if several { bodies.len() } else { 1 }) {
                for (tensor, indices) in reads(&body) {
                    if tensor.op != op {
                        continue;
                    }
                    uses += 1;
                    // A reader with more axes than it reads at computes each element several times; so does one that reads at sums of axes, as windows do.
                    let is_reduction = matches!(&*body, ExprNode::Reduce { .. });
                    let along = |axes: &kernpack::Array<IterVar>| {
                        let depends = |axis: &IterVar| indices.iter().any(|index| depends_on(index, axis));
                        axes.iter().filter(depends).count()
                    };
                    let reduced = if is_reduction { along(reduce_axes) } else { 0 };
                    is_repeated |= along(axes) < axes.len() || is_reduction && along(axes) + reduced > parts.axes.len();
                }
            }
        }
        if cost(&parts.body) <= CHEAP || uses <= 1 && !is_repeated {
            schedule.stage(id).compute_inline()?;
        }
    }
    Ok(())
}
