//! `LowerIntrin`: lowers arithmetic and math functions without a target instruction to supported
//! operations.

use crate::arith::Analyzer;
use crate::codegen::Target;
use crate::error::Result;
use crate::intrin::{Features, lower_floor_div, lower_math};
use crate::ir::mutate::{Mutate, mutate_expr_parts, mutate_stmt_parts};
use crate::ir::{
    BinaryOp, CallKind, CompareOp, DataTypeExt, Expr, ExprNode, LoweredFunc, Range, Stmt, StmtNode, builtin,
};

/// Returns a function without floor division and math functions, with `a * b + c` of floats as one
/// operation where the target supports it.
///
/// # Errors
/// Returns no errors of its own.
pub fn lower_intrin(function: &LoweredFunc, target: &Target) -> Result<LoweredFunc> {
    let fast_math = function.attr("fastmath").and_then(|value| value.to::<kernpack::Str>().ok());
    let contracts = target.has_fma() && fast_math.as_ref().is_none_or(|flags| flags.as_str() != "off");
    let reassociates =
        fast_math.is_some_and(|flags| flags.as_str().contains("reassoc") || flags.as_str().contains("fast"));
    let features =
        Features { fma: target.has_fma(), scales: target.kind == "llvm" && target.has_avx512(), reassociates };
    let mut lower = LowerIntrin { analyzer: Analyzer::of_params(&function.params), contracts, features };
    for param in function.params.iter() {
        if param.var.is_size() {
            lower.analyzer.enter(&param.var.greater_equal(Expr::constant(param.var.dtype(), 0)));
        }
    }
    Ok(function.with_body(lower.mutate_stmt(&function.body)?))
}

struct LowerIntrin {
    analyzer: Analyzer,
    contracts: bool,
    features: Features,
}

impl LowerIntrin {
    fn scoped<R>(&mut self, work: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let mark = self.analyzer.mark();
        let done = work(self);
        self.analyzer.restore(mark);
        done
    }

    /// The factors of a product of floats.
    fn product(expr: &Expr) -> Option<(Expr, Expr)> {
        match &**expr {
            ExprNode::Binary { op: BinaryOp::Mul, a, b, dtype } if dtype.is_float() => Some((a.clone(), b.clone())),
            _ => None,
        }
    }

    fn fused(op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
        let fma = |x: Expr, y: Expr, z: Expr| Expr::builtin(builtin::FMA, z.dtype(), [x, y, z]);
        match op {
            BinaryOp::Add => {
                if let Some((x, y)) = Self::product(a) {
                    return Some(fma(x, y, b.clone()));
                }
                Self::product(b).map(|(x, y)| fma(x, y, a.clone()))
            }
            BinaryOp::Sub => Self::product(a).map(|(x, y)| fma(x, y, -b)),
            _ => None,
        }
    }
}

impl Mutate for LowerIntrin {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        let lowered = mutate_expr_parts(self, expr)?;
        if let ExprNode::Call { kind: CallKind::Builtin, name, args, .. } = &*lowered {
            // The result is final: its products and sums are rounded where they should be.
            return Ok(lower_math(name.as_str(), &args.to_vec(), &self.features).unwrap_or(lowered));
        }
        let ExprNode::Binary { op, a, b, dtype } = &*lowered else { return Ok(lowered) };
        match op {
            BinaryOp::FloorDiv | BinaryOp::FloorMod => {
                // The original is examined, because the analyzer understands it.
                let (x, y) = match &**expr {
                    ExprNode::Binary { a, b, .. } => (a.clone(), b.clone()),
                    _ => (a.clone(), b.clone()),
                };
                let zero = |of: &Expr| Expr::constant(of.dtype(), 0);
                let nonneg = dtype.is_int()
                    && dtype.is_scalar()
                    && self.analyzer.can_prove(&Expr::compare(CompareOp::Ge, &x, zero(&x)))
                    && self.analyzer.can_prove(&Expr::compare(CompareOp::Gt, &y, zero(&y)));
                Ok(lower_floor_div(*op, a, b, nonneg))
            }
            _ if self.contracts && dtype.is_float() && dtype.bits() >= 32 => {
                Ok(Self::fused(*op, a, b).unwrap_or(lowered))
            }
            _ => Ok(lowered),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match &**stmt {
            StmtNode::For { var, min, extent, kind, annotations, body } => {
                let (low, count) = (self.mutate_expr(min)?, self.mutate_expr(extent)?);
                let inner = self.scoped(|this| {
                    this.analyzer.bind(var, &Range::new(min.clone(), extent.clone()));
                    crate::ir::with_stack(|| this.mutate_stmt(body))
                })?;
                if low.same_as(min) && count.same_as(extent) && inner.same_as(body) {
                    return Ok(stmt.clone());
                }
                Ok(Stmt::for_with(var.clone(), low, count, *kind, annotations.clone(), inner))
            }
            StmtNode::If { condition, then_body, else_body } => {
                let lowered = self.mutate_expr(condition)?;
                let (plain, _) = condition.without_likely();
                let then_body = self.scoped(|this| {
                    this.analyzer.enter(&plain);
                    this.mutate_stmt(then_body)
                })?;
                let else_body = match else_body {
                    Some(body) => Some(self.scoped(|this| {
                        this.analyzer.enter_negation(&plain);
                        this.mutate_stmt(body)
                    })?),
                    None => None,
                };
                Ok(Stmt::if_then(lowered, then_body, else_body))
            }
            StmtNode::Bind { var, value } => {
                let new = mutate_stmt_parts(self, stmt)?;
                if var.dtype().is_int() {
                    self.analyzer.bind_value(var, value);
                }
                Ok(new)
            }
            StmtNode::Attr { .. } | StmtNode::While { .. } => self.scoped(|this| mutate_stmt_parts(this, stmt)),
            _ => mutate_stmt_parts(self, stmt),
        }
    }
}
