//! Canonical sums as expressions, in a fixed order: terms with positive factors by descending
//! factor, the constant, terms with negative factors.

use kernpack::DataType;

use super::sum::{Sum, Term, WHOLE};
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode};

/// The operation on two operands; the expression `hint` itself if it is the same.
pub(crate) fn binary(op: BinaryOp, a: Expr, b: Expr, hint: Option<&Expr>) -> Expr {
    if let Some(hint) = hint
        && let ExprNode::Binary { op: own, a: x, b: y, .. } = &**hint
        && *own == op
        && x.same_as(&a)
        && y.same_as(&b)
    {
        return hint.clone();
    }
    let dtype = a.dtype();
    Expr::from_node(ExprNode::Binary { op, a, b, dtype })
}

/// The operands of `hint`, if it is this operation.
fn operands(op: BinaryOp, hint: Option<&Expr>) -> (Option<&Expr>, Option<&Expr>) {
    match hint.map(|hint| &**hint) {
        Some(ExprNode::Binary { op: own, a, b, .. }) if *own == op => (Some(a), Some(b)),
        _ => (None, None),
    }
}

/// A constant; the expression `hint` itself if it is the same.
fn constant(dtype: DataType, value: i64, hint: Option<&Expr>) -> Expr {
    if let Some(hint) = hint
        && let ExprNode::Int { dtype: own, value: number } = &**hint
        && *number == value
        && *own == dtype
    {
        return hint.clone();
    }
    Expr::constant(dtype, value)
}

/// A term with the magnitude of its factor.
fn term(term: &Term, dtype: DataType, hint: Option<&Expr>) -> Expr {
    let magnitude = term.scale.wrapping_abs();
    if magnitude == 1 {
        return unscaled(term, dtype, hint);
    }
    let (a, b) = operands(BinaryOp::Mul, hint);
    binary(BinaryOp::Mul, unscaled(term, dtype, a), constant(dtype, magnitude, b), hint)
}

fn unscaled(term: &Term, dtype: DataType, hint: Option<&Expr>) -> Expr {
    if term.upper == WHOLE {
        return quotient(term, dtype, hint);
    }
    let modulus = term.upper / term.lower;
    let (a, b) = operands(BinaryOp::FloorMod, hint);
    binary(BinaryOp::FloorMod, quotient(term, dtype, a), constant(dtype, modulus, b), hint)
}

fn quotient(term: &Term, dtype: DataType, hint: Option<&Expr>) -> Expr {
    if term.lower == 1 {
        return term.index.clone();
    }
    let (_, b) = operands(BinaryOp::FloorDiv, hint);
    binary(BinaryOp::FloorDiv, term.index.clone(), constant(dtype, term.lower, b), hint)
}

/// A part of the rendered sum: a term, or the constant.
enum Part<'a> {
    Term(&'a Term),
    Base(i64),
}

/// The sum as an expression. Where `hint` has the same structure, its nodes are reused.
pub(crate) fn render(sum: &Sum, hint: Option<&Expr>) -> Expr {
    let dtype = sum.dtype;
    if sum.terms.is_empty() {
        return constant(dtype, sum.base, hint);
    }
    let mut positive: Vec<&Term> = Vec::new();
    let mut negative: Vec<&Term> = Vec::new();
    for term in &sum.terms {
        if term.scale > 0 { positive.push(term) } else { negative.push(term) }
    }
    if positive.len() > 1 {
        positive.sort_by_key(|term| -term.scale);
    }
    if negative.len() > 1 {
        negative.sort_by_key(|term| term.scale);
    }
    let mut parts: Vec<(Part<'_>, bool)> = Vec::with_capacity(sum.terms.len() + 1);
    for term in positive {
        parts.push((Part::Term(term), false));
    }
    if sum.base != 0 || parts.is_empty() {
        // A negative constant is subtracted, unless it comes first or its magnitude does not fit.
        let subtract = sum.base < 0 && !parts.is_empty() && dtype.can_hold(sum.base.wrapping_neg());
        let magnitude = if subtract && sum.base != i64::MIN { -sum.base } else { sum.base };
        parts.push((Part::Base(magnitude), subtract && sum.base != i64::MIN));
    }
    for term in negative {
        parts.push((Part::Term(term), true));
    }
    // The left spine of the hint, outermost first.
    let mut spine: Vec<Option<&Expr>> = Vec::with_capacity(parts.len());
    let mut here = hint;
    for (_, subtract) in parts.iter().skip(1).rev() {
        spine.push(here);
        here = operands(if *subtract { BinaryOp::Sub } else { BinaryOp::Add }, here).0;
    }
    let mut result: Option<Expr> = None;
    for (part, subtract) in parts {
        let op = if subtract { BinaryOp::Sub } else { BinaryOp::Add };
        let whole = if result.is_none() { here } else { spine.pop().flatten() };
        let own = if result.is_none() { whole } else { operands(op, whole).1 };
        let value = match part {
            Part::Term(part) => term(part, dtype, own),
            Part::Base(base) => constant(dtype, base, own),
        };
        result = Some(match result {
            None => value,
            Some(left) => binary(op, left, value, whole),
        });
    }
    result.unwrap_or_else(|| Expr::constant(dtype, 0))
}
