//! And, or: chains of conditions.

use super::analyzer::State;
use super::facts::is_index;
use super::same::same;
use super::sum::Sum;
use crate::ir::shared::Seen;
use crate::ir::visit::has_part;
use crate::ir::{BinaryOp, CompareOp, Expr, ExprNode, LogicOp};

/// Returns true if evaluation has no effect and cannot fail for any values of the variables. Such
/// an expression may be replaced by one that is correct only under a condition.
pub(super) fn is_total(expr: &Expr) -> bool {
    !has_part(expr, |part| match &**part {
        ExprNode::Load { .. } | ExprNode::TensorRead { .. } | ExprNode::Call { .. } | ExprNode::Reduce { .. } => true,
        ExprNode::Binary { op: BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod, b, .. } => {
            b.as_int().is_none()
        }
        _ => false,
    })
}

/// Returns true if a condition may be simplified under the assumption that others hold: see
/// [`is_total`].
fn is_movable(condition: &Expr) -> bool {
    is_total(&condition.without_likely().0)
}

/// The number of parts of a connective that serve as assumptions for the other parts.
const MOST_FACTS: usize = 12;

/// Collects the parts of a chain of one connective.
fn operands(op: LogicOp, expr: &Expr, parts: &mut Vec<Expr>) {
    // A work list, because chains may be long. A repeated part adds nothing.
    let mut open = vec![expr.clone()];
    let mut seen = Seen::default();
    while let Some(next) = open.pop() {
        if matches!(*next, ExprNode::Logic { .. }) && !seen.is_new(&next) {
            continue;
        }
        match &*next {
            ExprNode::Logic { op: own, a, b } if *own == op => {
                open.push(b.clone());
                open.push(a.clone());
            }
            _ => parts.push(next.clone()),
        }
    }
}

impl State {
    /// And, or: simplifies each part under the assumption that those before it hold (or do not
    /// hold), and leaves out parts that follow from the others.
    pub(super) fn connect(&mut self, op: LogicOp, expr: &Expr) -> Expr {
        let and = op == LogicOp::And;
        let mut parts = Vec::new();
        operands(op, expr, &mut parts);
        let mark = self.mark();
        let mut kept: Vec<Expr> = Vec::with_capacity(parts.len());
        let most = if self.may_enter() { MOST_FACTS } else { 0 };
        let mut entered = 0;
        let mut changed = false;
        self.enter_scope();
        for part in &parts {
            let new = if entered == 0 || is_movable(part) {
                self.simplify(part)
            } else {
                // A part that is always evaluated keeps indices that are valid in all cases.
                self.restore(mark);
                let new = self.simplify(part);
                for condition in &kept {
                    self.assume(condition, and);
                }
                new
            };
            changed |= !new.same_as(part);
            if new.is_true() || new.is_false() {
                if new.is_true() == and {
                    continue;
                }
                self.scopes -= 1;
                self.restore(mark);
                return new;
            }
            if kept.iter().any(|other| same(other, &new)) {
                changed = true;
                continue;
            }
            if entered < most {
                self.assume(&new, and);
                entered += 1;
            }
            // The simplified part may itself be a chain.
            operands(op, &new, &mut kept);
        }
        self.scopes -= 1;
        self.restore(mark);
        if kept.len() > 1 && kept.len() <= MOST_FACTS {
            changed |= self.drop_implied(op, &mut kept);
        }
        if !changed {
            return expr.clone();
        }
        let mut parts = kept.into_iter();
        let first = parts.next().unwrap_or_else(|| Expr::bool(and));
        parts.fold(first, |a, b| Expr::from_node(ExprNode::Logic { op, a, b }))
    }

    /// Leaves out comparisons that follow from a later one. Those that follow from an earlier one
    /// are already gone.
    pub(super) fn drop_implied(&mut self, op: LogicOp, kept: &mut Vec<Expr>) -> bool {
        let sums: Vec<Option<Sum>> = kept.iter().map(|part| self.not_positive_form(part)).collect();
        let equal: Vec<Option<Sum>> = kept.iter().map(|part| self.zero_form(part)).collect();
        let before = kept.len();
        for place in (0..before).rev() {
            let Some(own) = &sums[place] else { continue };
            let weaker = sums[place + 1..].iter().flatten().any(|other| {
                // With equal terms the larger constant is the stronger condition.
                let stronger = if op == LogicOp::And { own.base <= other.base } else { own.base >= other.base };
                stronger && own.multiple_of_terms(other) == Some(1)
            });
            let decided = op == LogicOp::And
                && equal[place + 1..].iter().flatten().any(|other| match own.multiple_of_terms(other) {
                    // own - base = factor * (other - base), and other is 0.
                    Some(factor @ (1 | -1)) => own.base <= factor * other.base,
                    _ => false,
                });
            if weaker || decided {
                kept.remove(place);
            }
        }
        kept.len() != before
    }

    /// The sum that is not positive where an inequality of an index type holds.
    pub(super) fn not_positive_form(&mut self, condition: &Expr) -> Option<Sum> {
        let inner = condition.without_likely().0;
        let ExprNode::Compare { op, a, b } = &*inner else { return None };
        if !is_index(a) || matches!(op, CompareOp::Eq | CompareOp::Ne) {
            return None;
        }
        let mut sum = self.sum_of(a).minus(&self.sum_of(b));
        if matches!(op, CompareOp::Gt | CompareOp::Ge) {
            sum = sum.scaled(-1);
        }
        if matches!(op, CompareOp::Lt | CompareOp::Gt) {
            sum.add_base(1);
        }
        (!sum.overflow).then_some(sum)
    }

    /// The sum that is 0 where an equation of an index type holds.
    pub(super) fn zero_form(&mut self, condition: &Expr) -> Option<Sum> {
        let inner = condition.without_likely().0;
        let ExprNode::Compare { op: CompareOp::Eq, a, b } = &*inner else { return None };
        if !is_index(a) {
            return None;
        }
        let sum = self.sum_of(a).minus(&self.sum_of(b));
        (!sum.overflow).then_some(sum)
    }
}
