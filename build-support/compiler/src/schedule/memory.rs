//! The amount of memory of a region: a constant if it has a constant bound, so that the memory does
//! not need to come from the heap.

use crate::arith::{Analyzer, ConstInterval};
use crate::error::Result;
use crate::ir::mutate::{Mutate, mutate_expr_parts};
use crate::ir::{BinaryOp, Expr, ExprNode, visit};

/// The maximum depth of case splits.
const MAX_DEPTH: u32 = 4;

/// Larger bounds are treated as unbounded, because memory of such a size is not intended.
const MAX_EXTENT: i64 = 1 << 40;

/// A constant upper bound of the extent, if there is one; otherwise the extent.
pub(crate) fn constant_extent(extent: &Expr, analyzer: &Analyzer) -> Expr {
    if extent.as_int().is_some() {
        return extent.clone();
    }
    match upper_bound(extent, analyzer, MAX_DEPTH) {
        bound if bound < MAX_EXTENT => Expr::int(bound.max(0)),
        _ => extent.clone(),
    }
}

/// The largest possible value of an expression. Intervals of the parts alone lose that parts depend
/// on each other: `min(a, b) - a` is examined as `a - a` and `b - a`.
fn upper_bound(expr: &Expr, analyzer: &Analyzer, depth: u32) -> i64 {
    let expr = analyzer.simplify(expr);
    let bound = analyzer.const_interval(&expr).max;
    if depth == 0 || expr.as_int().is_some() {
        return bound;
    }
    let Some(cases) = cases(&expr, analyzer) else { return bound };
    let split = cases.iter().map(|case| upper_bound(case, analyzer, depth - 1)).max();
    split.unwrap_or(ConstInterval::POS_INF).min(bound)
}

/// Expressions one of which has the value of `expr`.
fn cases(expr: &Expr, analyzer: &Analyzer) -> Option<[Expr; 2]> {
    let mut quotients: Vec<(Expr, Expr, i64)> = Vec::new();
    let mut found = None;
    visit::for_each_expr(expr, |part| {
        let ExprNode::Binary { op, a, b, .. } = &**part else { return };
        match (op, b.as_int()) {
            (BinaryOp::Min | BinaryOp::Max, _) if found.is_none() => found = Some((part.clone(), a.clone(), b.clone())),
            (BinaryOp::FloorDiv, Some(divisor)) if divisor > 0 => quotients.push((part.clone(), a.clone(), divisor)),
            _ => {}
        }
    });
    if let Some((part, a, b)) = found {
        return Some([replaced(expr, &part, &a), replaced(expr, &part, &b)]);
    }
    // floordiv(q + d, c) is floordiv(q, c) plus floordiv(d, c), or one more.
    for (position, (first, dividend, divisor)) in quotients.iter().enumerate() {
        for (second, other, other_divisor) in &quotients[position + 1..] {
            if divisor != other_divisor || same(first, second) {
                continue;
            }
            if let Some(distance) = analyzer.simplify(&(dividend - other)).as_int() {
                let steps = distance.div_euclid(*divisor);
                let least = replaced(expr, first, &(second + steps));
                return Some([replaced(expr, first, &(second + steps + 1)), least]);
            }
        }
    }
    None
}

fn same(a: &Expr, b: &Expr) -> bool {
    a == b || kernpack::structural::equal(a, b).unwrap_or(false)
}

struct Replace<'a> {
    part: &'a Expr,
    with: &'a Expr,
}

impl Mutate for Replace<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        if same(expr, self.part) { Ok(self.with.clone()) } else { mutate_expr_parts(self, expr) }
    }
}

fn replaced(expr: &Expr, part: &Expr, with: &Expr) -> Expr {
    Replace { part, with }.mutate_expr(expr).unwrap_or_else(|_| unreachable!("replacing has no errors"))
}
