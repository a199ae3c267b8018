//! The guards of a loop, solved for its variable.

use std::collections::HashSet;

use super::hoist_if::conjuncts;
use super::loop_partition::thread_of;
use crate::arith::guard::{Iterations, solve};
use crate::arith::{Analyzer, IntSet, SetMap};
use crate::ir::builtin::{Effect, effect};
use crate::ir::visit::{Visit, for_each_expr, for_each_expr_in, for_each_stmt, uses_var, walk_expr, walk_stmt};
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, Range, Stmt, StmtNode, Var};

/// Bounds of a variable.
pub(super) struct Bounds {
    /// The variable is greater than or equal to all of these.
    pub(super) lower: Vec<Expr>,
    /// The variable is less than all of these.
    pub(super) upper: Vec<Expr>,
    /// True if every iteration evaluates the guard, so that a bound may read memory if there is an
    /// iteration.
    certain: bool,
}

impl Bounds {
    fn new(certain: bool) -> Self {
        Self { lower: Vec::new(), upper: Vec::new(), certain }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lower.is_empty() && self.upper.is_empty()
    }

    /// Returns the bounds in a form that can be computed before a loop over `min .. min + extent`,
    /// under the facts that hold there. A load that may be out of range is executed only if the
    /// loop has an iteration; otherwise `min` replaces it. Returns `None` if the load may also be
    /// out of range in a loop with iterations.
    pub(super) fn before(mut self, min: &Expr, extent: &Expr, analyzer: &Analyzer) -> Option<Self> {
        for bound in self.lower.iter_mut().chain(&mut self.upper) {
            let runs = extent.greater_equal(1);
            if loads_in_range(bound, analyzer) || self.certain && analyzer.can_prove(&runs) {
                continue;
            }
            if !self.certain {
                return None;
            }
            *bound = Expr::if_then_else(runs, &*bound, min);
        }
        Some(self)
    }
}

/// Finds the guards that contain a loop's variable, and solves them for it.
pub(super) struct Guards<'a> {
    var: &'a Var,
    /// The intervals of the variables of inner loops.
    pub(super) sets: SetMap,
    /// All variables that are defined inside.
    pub(super) inner: HashSet<Var>,
    /// The body of the loop.
    body: &'a Stmt,
    analyzer: &'a Analyzer,
    /// True if the visited statement is the whole work of an iteration.
    covers: bool,
    /// True if every iteration evaluates the visited part.
    certain: bool,
    /// The guards, with the bounds between which they always hold.
    pub(super) found: Vec<(Expr, Bounds)>,
    /// Bounds outside of which no iteration has an effect.
    pub(super) possible: Vec<Bounds>,
}

impl Visit for Guards<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        let (condition, was_likely) = expr.without_likely();
        if !was_likely {
            return self.parts(expr);
        }
        if !uses_var(&condition, |var| var == self.var) {
            return;
        }
        let mut bounds = Bounds::new(self.certain);
        for part in conjuncts(&condition) {
            if self.solve(&part, true, &mut bounds).is_none() {
                return;
            }
        }
        self.found.push((expr.clone(), bounds));
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        let (covers, certain, outside) = (self.covers, self.certain, self.analyzer.mark());
        match &**stmt {
            StmtNode::For { var, min, extent, .. } => {
                self.certain &= self.analyzer.can_prove(&extent.greater_equal(1));
                let first = IntSet::evaluate(min, &self.sets, self.analyzer);
                let last = IntSet::evaluate(&(min + extent - 1), &self.sets, self.analyzer);
                let set = match (first.min(), last.max()) {
                    (Some(first), Some(last)) => IntSet::interval(first, last),
                    _ => IntSet::everything(),
                };
                self.sets.insert(var.clone(), set);
                self.inner.insert(var.clone());
                self.analyzer.bind(var, &Range::new(min, extent));
                walk_stmt(self, stmt);
            }
            StmtNode::If { condition, then_body, else_body } => {
                if covers && else_body.is_none() {
                    let mut possible = Bounds::new(certain);
                    for part in conjuncts(condition) {
                        let (part, _) = part.without_likely();
                        if uses_var(&part, |var| var == self.var) {
                            // A part that cannot be solved gives no bounds.
                            let _ = self.solve(&part, false, &mut possible);
                        }
                    }
                    if !possible.is_empty() {
                        self.possible.push(possible);
                    }
                }
                self.covers &= else_body.is_none();
                self.visit_expr(condition);
                self.certain = false;
                self.visit_stmt(then_body);
                else_body.iter().for_each(|body| self.visit_stmt(body));
            }
            StmtNode::While { condition, body } => {
                self.visit_expr(condition);
                self.certain = false;
                self.visit_stmt(body);
            }
            StmtNode::Bind { var, value } => {
                self.analyzer.with(|state| state.mark_value(var, value));
                self.inner.insert(var.clone());
                walk_stmt(self, stmt);
            }
            StmtNode::Attr { value, .. } => {
                if let Some(var) = thread_of(stmt) {
                    let last = IntSet::evaluate(&(value - 1), &self.sets, self.analyzer);
                    let set = last.max().map_or_else(IntSet::everything, |last| IntSet::interval(0, last));
                    self.sets.insert(var.clone(), set);
                    self.analyzer.bind(&var, &Range::until(value));
                    self.inner.insert(var);
                }
                walk_stmt(self, stmt);
            }
            StmtNode::Seq { stmts } => {
                self.covers &= stmts.len() <= 1;
                for part in stmts.iter() {
                    self.visit_stmt(&part);
                    self.certain &= !may_leave(&part);
                }
            }
            _ => walk_stmt(self, stmt),
        }
        (self.covers, self.certain) = (covers, certain);
        self.analyzer.restore(outside);
    }
}

impl<'a> Guards<'a> {
    /// Creates the search in the body of a loop over the variable, without guards yet.
    pub(super) fn new(var: &'a Var, body: &'a Stmt, analyzer: &'a Analyzer) -> Self {
        Self {
            var,
            sets: SetMap::new(),
            inner: HashSet::new(),
            body,
            analyzer,
            covers: true,
            certain: true,
            found: Vec::new(),
            possible: Vec::new(),
        }
    }

    /// Visits the parts of an expression; one side of a select is not evaluated.
    fn parts(&mut self, expr: &Expr) {
        match &**expr {
            ExprNode::Select { condition, true_value: a, false_value: b }
            | ExprNode::IfThenElse { condition, then_value: a, else_value: b } => {
                self.visit_expr(condition);
                let certain = std::mem::replace(&mut self.certain, false);
                self.visit_expr(a);
                self.visit_expr(b);
                self.certain = certain;
            }
            ExprNode::Let { var, value, .. } => {
                self.analyzer.with(|state| state.mark_value(var, value));
                self.inner.insert(var.clone());
                walk_expr(self, expr);
            }
            _ => walk_expr(self, expr),
        }
    }

    /// Adds the bounds of one comparison: those between which it holds for all values of inner
    /// variables (if `always`), or those outside of which it holds for none (otherwise). Returns
    /// `None` if it cannot be solved.
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

/// Returns true if the elements that an expression reads are certainly in range.
fn loads_in_range(expr: &Expr, analyzer: &Analyzer) -> bool {
    let mut inside = true;
    for_each_expr(expr, |part| {
        let ExprNode::Load { buffer, index, .. } = &**part else { return };
        let compact = buffer.strides.is_empty() && buffer.elem_offset.is_int(0);
        let count = buffer.shape.iter().fold(Expr::constant(index.dtype(), 1), |count, extent| {
            if extent.dtype() == index.dtype() { count * extent } else { count * extent.cast(index.dtype()) }
        });
        inside &= compact && index.lanes() == 1 && analyzer.can_prove(&index.greater_equal(0).and(index.less(count)));
    });
    inside
}

/// Returns true if a statement may end the function, or may not terminate.
fn may_leave(stmt: &Stmt) -> bool {
    let mut found = false;
    for_each_stmt(stmt, |part| {
        found |= matches!(
            **part,
            StmtNode::Assert { .. } | StmtNode::Return { .. } | StmtNode::Evaluate { .. } | StmtNode::While { .. }
        );
    });
    found
}

/// Returns true if a statement may change the value of an expression: it stores to a buffer that
/// the expression reads, or calls a function that may. Bounds are computed before the loop.
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
        // An alias of the same memory.
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

/// Returns true if an expression divides by a value that may be 0. Inside a loop with that number
/// of iterations it is not 0, but bounds are computed outside.
pub(super) fn may_fault(expr: &Expr) -> bool {
    let mut found = false;
    for_each_expr(expr, |part| {
        if let ExprNode::Binary { op, b, .. } = &**part {
            let divides = matches!(op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod);
            found |= divides && !b.dtype().is_float() && b.as_int().is_none_or(|divisor| divisor == 0);
        }
    });
    found
}
