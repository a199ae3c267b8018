//! Substitution of expressions for variables.

use std::collections::HashMap;

use super::expr::{Expr, ExprNode, Var};
use super::mutate::{Mutate, mutate_expr_parts};
use super::shared::Memo;
use super::stmt::Stmt;
use crate::error::Result;

/// Expressions by variable.
pub type VarMap = HashMap<Var, Expr>;

struct Substitute<'a> {
    values: &'a VarMap,
    memo: Memo,
}

impl Mutate for Substitute<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        if let ExprNode::Var { .. } = **expr {
            return Ok(Var::of(expr).and_then(|var| self.values.get(&var).cloned()).unwrap_or_else(|| expr.clone()));
        }
        mutate_expr_parts(self, expr)
    }

    fn memo(&mut self) -> Option<&mut Memo> {
        Some(&mut self.memo)
    }
}

/// Returns the expression with values substituted for variables. Data pointers of buffers are not
/// replaced.
pub fn substitute(expr: &Expr, values: &VarMap) -> Expr {
    if values.is_empty() {
        return expr.clone();
    }
    Substitute { values, memo: Memo::default() }
        .mutate_expr(expr)
        .unwrap_or_else(|_| unreachable!("a substitution has no errors"))
}

/// Returns the statement with values substituted for variables. Data pointers and shapes of buffers
/// are not replaced.
pub fn substitute_stmt(stmt: &Stmt, values: &VarMap) -> Stmt {
    if values.is_empty() {
        return stmt.clone();
    }
    Substitute { values, memo: Memo::default() }
        .mutate_stmt(stmt)
        .unwrap_or_else(|_| unreachable!("a substitution has no errors"))
}
