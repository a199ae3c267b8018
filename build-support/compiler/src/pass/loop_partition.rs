//! `LoopPartition`: moves the iterations for which all guards hold to a separate loop without
//! guards.
//!
//! A guard is a condition in `likely(..)`. For each loop whose variable occurs in guards, the pass
//! solves for the interval of iterations in which they hold for all values of the variables of
//! inner loops; the loop becomes three: before, clean, after. A parallel loop stays one loop, with
//! a condition in its body. Guards of vectorized and unrolled loops are solved for by the
//! surrounding loops. Iterations without an effect are removed. The parts before and after a clean
//! part are also partitioned, but at most twice, which limits the growth of the code.
//!
//! After it there is no `likely(..)`.

use std::collections::HashMap;

use kernpack::{Any, Result as PackedResult, packed_func};

use super::PassContext;
use super::loop_guards::{Bounds, Guards};
use super::pipeline::on_functions;
use crate::arith::{Analyzer, IntSet};
use crate::error::Result;
use crate::ir::mutate::{mutate_expr_parts, mutate_stmt_parts};
use crate::ir::refresh::fresh_copy;
use crate::ir::shared::Memo;
use crate::ir::visit::Visit;
use crate::ir::{
    Expr, ExprNode, ForKind, IterVar, LoweredFunc, Mutate, Range, Stmt, StmtNode, Var, VarMap, with_stack,
};

/// Splits loops so that most iterations have no guards.
///
/// # Errors
/// Returns no errors of its own.
pub fn loop_partition(function: &LoweredFunc, context: &PassContext) -> Result<LoweredFunc> {
    let mut partition =
        Partition { context, analyzer: Analyzer::of_params(&function.params), depth: 0, threads: Vec::new() };
    let body = partition.mutate_stmt(&function.body)?;
    Ok(function.with_body(Unlikely::default().mutate_stmt(&body)?))
}

/// [`loop_partition`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.LoopPartition")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, loop_partition)
}

/// Removes `likely`.
#[derive(Default)]
struct Unlikely {
    memo: Memo,
}

impl Mutate for Unlikely {
    fn memo(&mut self) -> Option<&mut Memo> {
        Some(&mut self.memo)
    }

    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        let (bare, was_likely) = expr.without_likely();
        if was_likely { self.mutate_expr(&bare) } else { mutate_expr_parts(self, expr) }
    }
}

/// The maximum depth to which the parts before and after a clean part are partitioned themselves.
const MAX_DEPTH: usize = 2;

struct Partition<'a> {
    context: &'a PassContext,
    analyzer: Analyzer,
    depth: usize,
    /// The surrounding threads of a block, and copies of them: they take the same path, so that all
    /// of them reach each barrier.
    threads: Vec<(Var, Expr)>,
}

impl Mutate for Partition<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        Ok(expr.clone())
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match &**stmt {
            StmtNode::For { var, min, extent, kind, .. } => {
                let is_const = extent.as_int().is_some();
                let wanted = matches!(kind, ForKind::Serial | ForKind::Parallel | ForKind::ThreadBinding)
                    && (!is_const || self.context.options.partition_const_loop)
                    && extent.as_int() != Some(1);
                let parts = if wanted { with_stack(|| self.parts(stmt))? } else { None };
                match parts {
                    Some(parts) => Ok(parts),
                    None => self.inside(var, &Range::new(min, extent), |this| mutate_stmt_parts(this, stmt)),
                }
            }
            StmtNode::Attr { value, .. } => match thread_of(stmt) {
                Some(var) => {
                    let count = self.threads.len();
                    if !is_block(stmt) {
                        self.threads.push((var.clone(), value.clone()));
                    }
                    let new = self.inside(&var, &Range::until(value), |this| mutate_stmt_parts(this, stmt));
                    self.threads.truncate(count);
                    new
                }
                None => mutate_stmt_parts(self, stmt),
            },
            StmtNode::Bind { var, value, .. } => {
                self.analyzer.with(|state| state.mark_value(var, value));
                mutate_stmt_parts(self, stmt)
            }
            _ => mutate_stmt_parts(self, stmt),
        }
    }
}

/// The variable of the threads that an attribute launches.
pub(super) fn thread_of(stmt: &Stmt) -> Option<Var> {
    match &**stmt {
        StmtNode::Attr { key, node, .. } if matches!(key.as_str(), "thread_extent" | "virtual_thread") => {
            node.to::<IterVar>().map(|axis| axis.var.clone()).or_else(|_| node.to::<Var>()).ok()
        }
        _ => None,
    }
}

/// Returns true if an attribute launches blocks of threads.
fn is_block(stmt: &Stmt) -> bool {
    match &**stmt {
        StmtNode::Attr { node, .. } => {
            node.to::<IterVar>().is_ok_and(|axis| axis.thread_tag.as_str().starts_with("blockIdx"))
        }
        _ => false,
    }
}

impl Partition<'_> {
    /// Runs work inside a loop: there the loop has at least one iteration, which is not a fact
    /// outside.
    fn inside<R>(&mut self, var: &Var, range: &Range, work: impl FnOnce(&mut Self) -> R) -> R {
        let outside = self.analyzer.mark();
        self.analyzer.bind(var, range);
        let result = work(self);
        self.analyzer.restore(outside);
        result
    }

    /// The parts of a loop, if partitioning is useful.
    fn parts(&mut self, stmt: &Stmt) -> Result<Option<Stmt>> {
        let StmtNode::For { var, min, extent, kind, annotations, body } = &**stmt else { return Ok(None) };
        let outside = self.analyzer.mark();
        self.analyzer.bind(var, &Range::new(min, extent));
        let mut guards = Guards::new(var, body, &self.analyzer);
        for (thread, extent) in &self.threads {
            guards.sets.insert(thread.clone(), IntSet::interval(0, extent - 1));
            guards.inner.insert(thread.clone());
        }
        guards.visit_stmt(body);
        let Guards { found, possible, .. } = guards;
        self.analyzer.restore(outside);
        let before = |bounds: Bounds| bounds.before(min, extent, &self.analyzer);
        let found: Vec<_> = found.into_iter().filter_map(|(guard, bounds)| Some((guard, before(bounds)?))).collect();
        let possible: Vec<_> = possible.into_iter().filter_map(before).collect();
        if found.is_empty() && possible.is_empty() {
            return Ok(None);
        }
        // Iterations in which a guard of the whole body cannot hold have no effect.
        let is_shared = matches!(kind, ForKind::Parallel | ForKind::ThreadBinding);
        let (min, end) = if is_shared {
            (min.clone(), min + extent)
        } else {
            let end = possible.iter().flat_map(|bounds| &bounds.upper).fold(min + extent, |end, upper| end.min(upper));
            let min = possible.iter().flat_map(|bounds| &bounds.lower).fold(min.clone(), |min, lower| min.max(lower));
            (self.analyzer.simplify(&min), self.analyzer.simplify(&end.max(&min)))
        };
        let (mut begin, mut stop) = (min.clone(), end.clone());
        let mut solved = HashMap::new();
        for (guard, bounds) in found {
            begin = bounds.lower.into_iter().fold(begin, |begin, lower| begin.max(lower));
            stop = bounds.upper.into_iter().fold(stop, |stop, upper| stop.min(upper));
            solved.insert(guard, Expr::bool(true));
        }
        let begin = self.analyzer.simplify(&begin.min(&end));
        let stop = self.analyzer.simplify(&stop.max(&begin));
        let clean_extent = self.analyzer.simplify(&(&stop - &begin));
        if solved.is_empty() || clean_extent.as_int().is_some_and(|extent| extent < 1) {
            let extent = self.analyzer.simplify(&(&end - &min));
            let body = self.inside(var, &Range::new(&min, &extent), |this| this.mutate_stmt(body))?;
            return Ok(Some(Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), body)));
        }
        let clean_body = ReplaceGuards(&solved).mutate_stmt(body)?;
        if is_shared {
            let body = self.inside(var, &Range::new(&min, extent), |this| -> Result<Stmt> {
                let clean_body = this.mutate_stmt(&clean_body)?;
                let mut conditions = Vec::new();
                if !this.analyzer.can_prove(&min.equals(&begin)) {
                    conditions.push(begin.less_equal(var));
                }
                if !this.analyzer.can_prove(&stop.equals(&end)) {
                    conditions.push(var.less(&stop));
                }
                let Some(condition) = conditions.into_iter().reduce(|all, part| all.and(part)) else {
                    return Ok(clean_body);
                };
                let outside = this.analyzer.mark();
                this.analyzer.enter_negation(&condition);
                let guarded = this.guarded(&fresh_copy(body, VarMap::new()))?;
                this.analyzer.restore(outside);
                Ok(Stmt::if_then(condition, clean_body, Some(guarded)))
            })?;
            return Ok(Some(Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), body)));
        }
        let mut parts = Vec::new();
        let before = self.analyzer.simplify(&(&begin - &min));
        if !before.is_int(0) {
            parts.push(self.rest(stmt, &min, &before)?);
        }
        let clean_body = self.inside(var, &Range::new(&begin, &clean_extent), |this| this.mutate_stmt(&clean_body))?;
        parts.push(Stmt::for_with(var.clone(), &begin, &clean_extent, *kind, annotations.clone(), clean_body));
        let after = self.analyzer.simplify(&(&end - &stop));
        if !after.is_int(0) {
            parts.push(self.rest(stmt, &stop, &after)?);
        }
        Ok(Some(Stmt::seq(parts)))
    }

    /// A copy of a loop over some of its iterations, with its guards; a single iteration needs no
    /// loop.
    fn rest(&mut self, stmt: &Stmt, min: &Expr, extent: &Expr) -> Result<Stmt> {
        let StmtNode::For { var, kind, annotations, body, .. } = &**stmt else { return Ok(stmt.clone()) };
        if extent.is_int(1) {
            return self.guarded(&fresh_copy(body, [(var.clone(), min.clone())].into_iter().collect()));
        }
        let copy = Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), body.clone());
        let copy = fresh_copy(&copy, VarMap::new());
        let StmtNode::For { var, body, .. } = &*copy else { return Ok(copy) };
        let body = self.inside(var, &Range::new(min, extent), |this| this.guarded(body))?;
        Ok(Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), body))
    }

    /// Rewrites loops inside of the parts before and after the clean part, which are also
    /// partitioned up to the maximum depth.
    fn guarded(&mut self, body: &Stmt) -> Result<Stmt> {
        if self.depth >= MAX_DEPTH {
            return Ok(body.clone());
        }
        self.depth += 1;
        let body = self.mutate_stmt(body);
        self.depth -= 1;
        body
    }
}

/// Replaces guards by conditions.
struct ReplaceGuards<'a>(&'a HashMap<Expr, Expr>);

impl Mutate for ReplaceGuards<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        match self.0.get(expr) {
            Some(new) => Ok(new.clone()),
            None => folded(mutate_expr_parts(self, expr)?),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let stmt = mutate_stmt_parts(self, stmt)?;
        Ok(match &*stmt {
            StmtNode::If { condition, then_body, .. } if condition.is_true() => then_body.clone(),
            _ => stmt,
        })
    }
}

/// Folds conjunctions and selects whose condition has become constant.
fn folded(expr: Expr) -> Result<Expr> {
    match &*expr {
        ExprNode::Logic { op, a, b } => crate::ir::builder::try_logic(*op, a, b),
        ExprNode::Select { condition, true_value, false_value } => {
            crate::ir::builder::try_select(condition, true_value, false_value, false)
        }
        ExprNode::IfThenElse { condition, then_value, else_value } => {
            crate::ir::builder::try_select(condition, then_value, else_value, true)
        }
        _ => Ok(expr),
    }
}
