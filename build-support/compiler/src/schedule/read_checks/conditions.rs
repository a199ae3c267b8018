//! The conditions under which an expression reads only elements that exist.

use std::collections::HashMap;
use std::rc::Rc;

use kernpack::structural;

use crate::arith::Analyzer;
use crate::ir::visit::{Visit, walk_expr};
use crate::ir::{Expr, ExprNode, OperationNode, Tensor, Var, VarMap, substitute};
use crate::te::in_bounds::Checks;
use crate::text;

/// A read that may be out of bounds. The condition itself reads only elements that exist.
#[derive(Clone)]
pub(super) struct Check {
    pub(super) condition: Expr,
    pub(super) message: Rc<str>,
    /// True if a violation is an error of the call; false if the element is not needed.
    pub(super) raises: bool,
}

/// The checks of an expression, one for each message.
#[derive(Clone, Default)]
pub(super) struct Found {
    checks: Vec<Check>,
    of: HashMap<Rc<str>, usize>,
}

impl Found {
    /// The checks, ordered such that a check comes after those that it depends on.
    pub(super) fn checks(&self) -> &[Check] {
        &self.checks
    }

    fn condition(&self, message: &str) -> Expr {
        self.of.get(message).map_or_else(|| Expr::bool(true), |&at| self.checks[at].condition.clone())
    }

    /// The conjunction of the conditions.
    fn all(&self) -> Option<Expr> {
        self.checks.iter().map(|check| check.condition.clone()).reduce(|a, b| a.and(b))
    }

    fn put(&mut self, check: Check) {
        match self.of.get(&check.message) {
            None => {
                self.of.insert(check.message.clone(), self.checks.len());
                self.checks.push(check);
            }
            Some(&at) => {
                let known = &mut self.checks[at].condition;
                if !known.same_as(&check.condition) {
                    *known = known.and(&check.condition);
                }
            }
        }
    }

    /// Adds the checks of another expression that is also evaluated.
    pub(super) fn join(&mut self, other: &Self) {
        other.checks.iter().for_each(|check| self.put(check.clone()));
    }

    /// The checks whose conditions are not among those of `others`.
    pub(super) fn without(self, others: &Self) -> Self {
        let mut left = Self::default();
        for check in self.checks {
            let same = |other: &Check| structural::equal(&other.condition, &check.condition).unwrap_or(false);
            if !others.checks.iter().any(same) {
                left.put(check);
            }
        }
        left
    }

    /// Applies a change to each condition. The new condition is evaluated only where the elements
    /// that it reads exist.
    fn each(&self, needed: &Self, change: impl Fn(&Expr) -> Expr) -> Vec<Check> {
        let needed = needed.all();
        let safe = |condition: Expr| match &needed {
            Some(needed) => Expr::if_then_else(needed, condition, Expr::bool(true)),
            None => condition,
        };
        self.checks.iter().map(|check| Check { condition: safe(change(&check.condition)), ..check.clone() }).collect()
    }
}

/// Finds the checks of expressions. Each part is visited once: parts that are shared between
/// selects have the same checks in each.
pub(super) struct Conditions<'a> {
    checks: &'a Checks,
    raises: bool,
    kernel: &'a str,
    analyzer: &'a Analyzer,
    known: HashMap<usize, Rc<Found>>,
}

impl<'a> Conditions<'a> {
    pub(super) fn new(checks: &'a Checks, raises: bool, kernel: &'a str, analyzer: &'a Analyzer) -> Self {
        Self { checks, raises, kernel, analyzer, known: HashMap::new() }
    }

    /// The checks of a read, without those of its indices.
    pub(super) fn read(&self, tensor: &Tensor, indices: &[Expr]) -> Found {
        let mut found = Found::default();
        let is_input = matches!(*tensor.op, OperationNode::Placeholder { .. });
        let is_listed = self.checks.reads.contains(&tensor.key());
        let raises = self.raises && (is_listed || !is_input && !self.checks.on_device);
        if is_input && !raises && !self.checks.partly.contains(&tensor.key()) {
            return found;
        }
        for (dimension, (index, extent)) in indices.iter().zip(tensor.shape.iter()).enumerate() {
            let condition = index.greater_equal(0).and(index.less(&extent));
            if condition.is_true() || self.analyzer.can_prove(&condition) {
                continue;
            }
            let same = |check: &Check| structural::equal(&check.condition, &condition).unwrap_or(false);
            if found.checks.iter().any(same) {
                continue;
            }
            let message = format!(
                "`{}`: `{}` is read at index `{}` of dimension {dimension}, outside of its extent `{}`",
                self.kernel,
                tensor.name(),
                text::print(index),
                text::print(&extent),
            );
            found.put(Check { condition, message: message.into(), raises });
        }
        found
    }

    /// The checks of an expression, which is kept alive as long as these conditions are used.
    pub(super) fn of(&mut self, expr: &Expr) -> Rc<Found> {
        if let Some(known) = self.known.get(&expr.address()) {
            return known.clone();
        }
        let found = Rc::new(crate::ir::with_stack(|| self.find(expr)));
        self.known.insert(expr.address(), found.clone());
        found
    }

    fn find(&mut self, expr: &Expr) -> Found {
        match &**expr {
            ExprNode::TensorRead { tensor, indices } => {
                let indices: Vec<Expr> = indices.to_vec();
                let mut found = Found::default();
                indices.iter().for_each(|index| found.join(&self.of(index)));
                let own = self.read(tensor, &indices).each(&found, Expr::clone);
                own.into_iter().for_each(|check| found.put(check));
                found
            }
            // A select whose sides read memory also becomes lazy: see `RewriteUnsafeSelect`.
            ExprNode::IfThenElse { condition, then_value: a, else_value: b }
            | ExprNode::Select { condition, true_value: a, false_value: b }
                if condition.lanes() == 1 =>
            {
                let mut found = self.of(condition).as_ref().clone();
                let (a, b) = (self.of(a), self.of(b));
                let mut sides = a.as_ref().clone();
                b.checks.iter().filter(|check| !a.of.contains_key(&check.message)).for_each(|check| {
                    sides.put(check.clone());
                });
                for check in &mut sides.checks {
                    let (then, otherwise) = (a.condition(&check.message), b.condition(&check.message));
                    if !then.same_as(&otherwise) {
                        check.condition = Expr::if_then_else(condition, then, otherwise);
                    }
                }
                sides.each(&found, Expr::clone).into_iter().for_each(|check| found.put(check));
                found
            }
            ExprNode::Let { var, value, body } => {
                let mut found = self.of(value).as_ref().clone();
                self.analyzer.with(|state| state.mark_value(var, value));
                let inner = self.of(body).each(&found, |check| {
                    // A name must be defined only once.
                    let own = Var::new(var.name(), var.dtype());
                    let check = substitute(check, &VarMap::from([(var.clone(), own.expr().clone())]));
                    Expr::from_node(ExprNode::Let { var: own, value: value.clone(), body: check })
                });
                inner.into_iter().for_each(|check| found.put(check));
                found
            }
            _ => {
                let mut found = Found::default();
                walk_expr(&mut Parts { conditions: self, found: &mut found }, expr);
                found
            }
        }
    }
}

/// Joins the checks of the parts of an expression.
struct Parts<'a, 'b> {
    conditions: &'a mut Conditions<'b>,
    found: &'a mut Found,
}

impl Visit for Parts<'_, '_> {
    fn visit_expr(&mut self, expr: &Expr) {
        let part = self.conditions.of(expr);
        self.found.join(&part);
    }
}
