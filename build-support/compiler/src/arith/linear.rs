//! Expressions as sums of variables with coefficients.

use super::Analyzer;
use crate::ir::visit::uses_var;
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, Var, with_stack};

/// `base + coefficients[0] * vars[0] + ..`; coefficients and base do not depend on the variables.
#[derive(Clone)]
pub struct LinearForm {
    /// One coefficient for each variable, in order; 0 for a variable that does not occur.
    pub coefficients: Vec<Expr>,
    /// The value if all variables are 0.
    pub base: Expr,
}

/// Returns the expression as a linear function of variables; `None` if it is not linear, or not a
/// scalar integer. Coefficients may be symbolic.
///
/// ```
/// use kernpack_compiler::arith::{Analyzer, detect_linear};
/// use kernpack_compiler::ir::Var;
///
/// let (i, j, n) = (Var::index("i"), Var::index("j"), Var::index("n"));
/// let form = detect_linear(&((&i * &n + &j) * 4 + 3), &[i.clone(), j.clone()], &Analyzer::new()).unwrap();
/// assert!(form.coefficients[1].is_int(4) && form.base.is_int(3));
/// assert!(detect_linear(&i.floor_div(2), &[i.clone()], &Analyzer::new()).is_none());
/// ```
pub fn detect_linear(expr: &Expr, vars: &[Var], analyzer: &Analyzer) -> Option<LinearForm> {
    if !expr.dtype().is_int() || !expr.dtype().is_scalar() {
        return None;
    }
    let zero = Expr::constant(expr.dtype(), 0);
    let simple = analyzer.simplify(expr);
    let mut form = LinearForm { coefficients: vec![zero.clone(); vars.len()], base: zero };
    let one = Expr::constant(expr.dtype(), 1);
    if !add(&mut form, &simple, &one, vars) {
        return None;
    }
    for coefficient in form.coefficients.iter_mut().chain([&mut form.base]) {
        *coefficient = analyzer.simplify(coefficient);
    }
    Some(form)
}

/// Adds `expr * factor`; returns false if that is not linear.
fn add(form: &mut LinearForm, expr: &Expr, factor: &Expr, vars: &[Var]) -> bool {
    if let Some(var) = Var::of(expr)
        && let Some(place) = vars.iter().position(|other| *other == var)
    {
        form.coefficients[place] = &form.coefficients[place] + factor;
        return true;
    }
    let is_free = |part: &Expr| !uses_var(part, |var| vars.contains(var));
    if is_free(expr) {
        form.base = &form.base + &(expr * factor);
        return true;
    }
    let ExprNode::Binary { op, a, b, dtype } = &**expr else { return false };
    with_stack(|| match op {
        BinaryOp::Add => add(form, a, factor, vars) && add(form, b, factor, vars),
        BinaryOp::Sub => {
            let negative = Expr::constant(*dtype, 0) - factor;
            add(form, a, factor, vars) && add(form, b, &negative, vars)
        }
        BinaryOp::Mul if is_free(b) => add(form, a, &(factor * b), vars),
        BinaryOp::Mul if is_free(a) => add(form, b, &(factor * a), vars),
        _ => false,
    })
}
