//! Inlining of expressions into their readers, where this has no cost.

use std::collections::HashMap;

use super::pattern::{computed, depends_on, is_injective, reads};
use crate::arith::same;
use crate::error::Result;
use crate::ir::visit::cost;
use crate::ir::{Expr, ExprNode, IterVar, Operation, OperationNode};
use crate::schedule::Schedule;

/// The maximum cost of an expression that is recomputed for each of several readers.
const CHEAP: usize = 2;

/// The maximum cost including all inlined expressions: a chain of cheap expressions that are read
/// at several places has a cost exponential in its length.
const CHEAP_IN_ALL: usize = 24;

/// Inlines elementwise operations that are not outputs and are read only by computed tensors: by
/// one of them, once for each element; or if they are cheap.
pub(crate) fn apply(schedule: &mut Schedule) -> Result<()> {
    // The costs of inlined expressions, including all that is inlined into them.
    let mut costs: HashMap<Operation, usize> = HashMap::new();
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
        // An element that one reader reads several times is computed once.
        let mut uses: Vec<(Operation, Vec<Expr>)> = Vec::new();
        let mut is_repeated = false;
        for &reader in &consumers {
            let reading = schedule[reader].operation().clone();
            let OperationNode::Compute { bodies, axes, reduce_axes, .. } = &*reading else { continue };
            let several = !matches!(bodies.get(0).as_deref(), Some(ExprNode::Reduce { .. }));
            for body in bodies.iter().take(if several { bodies.len() } else { 1 }) {
                for (tensor, indices) in reads(&body) {
                    if tensor.op != op {
                        continue;
                    }
                    if !uses.iter().any(|(known, at)| *known == reading && are_same(at, &indices)) {
                        uses.push((reading.clone(), indices.clone()));
                    }
                    // A reader with more axes than occur in its indices computes each element
                    // several times; so does one whose indices are sums of axes, as in windows.
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
        let own = cost(&parts.body);
        let mut elements: Vec<(Operation, Vec<Expr>)> = Vec::new();
        for (tensor, indices) in reads(&parts.body) {
            if !elements.iter().any(|(known, at)| *known == tensor.op && are_same(at, &indices)) {
                elements.push((tensor.op.clone(), indices));
            }
        }
        let inside = elements.iter().filter_map(|(op, _)| costs.get(op));
        let all = inside.fold(own, |sum, cost| sum.saturating_add(*cost));
        if own <= CHEAP && all <= CHEAP_IN_ALL || uses.len() <= 1 && !is_repeated {
            schedule.stage(id).compute_inline()?;
            costs.insert(op, all);
        }
    }
    Ok(())
}

fn are_same(one: &[Expr], other: &[Expr]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
}
