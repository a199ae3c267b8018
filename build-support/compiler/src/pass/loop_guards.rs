//! The guards of a loop, solved for its variable.

use std::collections::HashSet;

use super::hoist_if::conjuncts;
use super::loop_partition::thread_of;
use crate::arith::guard::{Iterations, solve};
use crate::arith::{Analyzer, IntSet, SetMap};
use crate::ir::builtin::{Effect, effect};
use crate::ir::visit::{Visit, for_each_expr, for_each_expr_in, for_each_stmt, uses_var, walk_expr, walk_stmt};
use crate::ir::{BinaryOp, Expr, ExprNode, Range, Stmt, StmtNode, Var};

/// Bounds of a variable.
#[derive(Default)]
pub(super) struct Bounds {
    /// It is at least all of these.
    pub(super) lower: Vec<Expr>,
    /// It is below all of these.
    pub(super) upper: Vec<Expr>,
}

impl Bounds {
    pub(super) fn is_empty(&self) -> bool {
        self.lower.is_empty() && self.upper.is_empty()
    }
}

/// Finds the guards in which a loop's variable occurs, and solves them for it.
pub(super) struct Guards<'a> {
    var: &'a Var,
    /// Intervals of the variables of loops inside.
    pub(super) sets: SetMap,
    /// All that is defined inside.
    pub(super) inner: HashSet<Var>,
    /// Of the loop.
    body: &'a Stmt,
    analyzer: &'a Analyzer,
    /// Whether what is visited is all that an iteration does.
    covers: bool,
    /// Guards, with the bounds between which they hold in any case.
    pub(super) found: Vec<(Expr, Bounds)>,
    /// Bounds beyond which no iteration does anything.
    pub(super) possible: Bounds,
}

impl Visit for Guards<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        let (condition, was_likely) = expr.without_likely();
        if !was_likely {
            return walk_expr(self, expr);
        }
        if !uses_var(&condition, |var| var == self.var) {
            return;
        }
        let mut bounds = Bounds::default();
        for part in conjuncts(&condition) {
            if self.solve(&part, true, &mut bounds).is_none() {
                return;
            }
        }
        self.found.push((expr.clone(), bounds));
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        let (covers, outside) = (self.covers, self.analyzer.mark());
        match &**stmt {
            StmtNode::For { var, min, extent, .. } => {
                let first = IntSet::evaluate(min, &self.sets, self.analyzer);
                let last = IntSet::evaluate(&(min + extent - 1), &self.sets, self.analyzer);
                let set = match (first.min(), last.max()) {
                    (Some(first), Some(last)) => IntSet::interval(first, last),
                    _ => IntSet::everything(),
                };
                self.sets.insert(var.clone(), set);
                self.inner.insert(var.clone());
                self.analyzer.bind(var, &Range::new(min, extent));
            }
            StmtNode::If { condition, else_body, .. } => {
                if covers && else_body.is_none() {
                    let mut possible = std::mem::take(&mut self.possible);
                    for part in conjuncts(condition) {
                        let (part, _) = part.without_likely();
                        if uses_var(&part, |var| var == self.var) {
                            // What cannot be solved bounds nothing.
                            let _ = self.solve(&part, false, &mut possible);
                        }
                    }
                    self.possible = possible;
                }
                self.covers &= else_body.is_none();
            }
            StmtNode::Bind { var, .. } => {
                self.inner.insert(var.clone());
            }
            StmtNode::Attr { value, .. } => {
                if let Some(var) = thread_of(stmt) {
                    let last = IntSet::evaluate(&(value - 1), &self.sets, self.analyzer);
                    let set = last.max().map_or_else(IntSet::everything, |last| IntSet::interval(0, last));
                    self.sets.insert(var.clone(), set);
                    self.analyzer.bind(&var, &Range::until(value));
                    self.inner.insert(var);
                }
            }
            StmtNode::Seq { stmts } => self.covers &= stmts.len() <= 1,
            _ => {}
        }
        walk_stmt(self, stmt);
        self.covers = covers;
        self.analyzer.restore(outside);
    }
}

impl<'a> Guards<'a> {
    /// Those in the body of a loop over the variable, none of which is known yet.
    pub(super) fn new(var: &'a Var, body: &'a Stmt, analyzer: &'a Analyzer) -> Self {
        Self {
            var,
            sets: SetMap::new(),
            inner: HashSet::new(),
            body,
            analyzer,
            covers: true,
            found: Vec::new(),
            possible: Bounds::default(),
        }
    }

    /// Adds the bounds of one comparison: those between which it holds for all values of inner variables (`always`), or those beyond which it holds for
    /// none. None: it cannot be solved.
    fn solve(&mut self, part: &Expr, always: bool, bounds: &mut Bounds) -> Option<()> {
        let (bound, ends) = match solve(self.var, part, &self.sets, self.analyzer, always)? {
            Iterations::All => return Some(()),
            Iterations::Below(bound) => (bound, &mut bounds.upper),
            Iterations::From(bound) => (bound, &mut bounds.lower),
        };
        let bound = self.analyzer.simplify(&bound);
        if uses_var(&bound, |var| self.inner.contains(var)) || may_fault(&bound) || may_change(&bound, self.body) {
            return None;
        }
        ends.push(bound);
        Some(())
    }
}

/// Whether a statement may change the value of an expression: it stores to a buffer that is read, or calls what may. Bounds are computed before the loop.
fn may_change(expr: &Expr, body: &Stmt) -> bool {
    let (mut reads, mut changes) = (Vec::new(), false);
    for_each_expr(expr, |part| match &**part {
        ExprNode::Load { buffer, .. } => reads.push(buffer.data.clone()),
        ExprNode::TensorRead { .. } => changes = true,
        ExprNode::Call { kind, name, .. } => changes |= effect(*kind, name.as_str()) != Effect::Pure,
        _ => {}
    });
    if reads.is_empty() || changes {
        return changes;
    }
    for_each_stmt(body, |stmt| match &**stmt {
        StmtNode::Store { buffer, .. } => changes |= reads.contains(&buffer.data),
        // Another name of the same memory.
        StmtNode::Alias { .. } => changes = true,
        _ => {}
    });
    for_each_expr_in(body, |part| {
        if let ExprNode::Call { kind, name, .. } = &**part {
            changes |= !matches!(effect(*kind, name.as_str()), Effect::Pure | Effect::Reads);
        }
    });
    changes
}

/// Whether an expression divides by what may be 0. Inside a loop over that many iterations it is not, but bounds are computed outside.
fn may_fault(expr: &Expr) -> bool {
    let mut found = false;
    for_each_expr(expr, |part| {
        if let ExprNode::Binary { op, b, .. } = &**part {
            let divides = matches!(op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod);
            found |= divides && b.as_int().is_none_or(|divisor| divisor == 0);
        }
    });
    found
}
