//! Formulas: arithmetic that becomes an expression without repeated computations.

use core::cell::RefCell;
use core::ops;
use std::collections::HashMap;

use kernpack::DataType;

use super::Features;
use crate::ir::builtin::{ANY_LANE, FMA, REINTERPRET};
use crate::ir::visit::for_each_expr;
use crate::ir::{
    BOOLEAN, BinaryOp, CallKind, CompareOp, DataTypeExt, Expr, ExprNode, F32, F64, I16, I32, I64, Var, VarMap,
    substitute,
};

/// A formula under construction: the values so far, as variables, for each open scope.
pub(super) struct Formula {
    lanes: u16,
    features: Features,
    values: RefCell<Vec<Expr>>,
    scopes: RefCell<Vec<Vec<(Var, Expr)>>>,
}

/// A value of a formula. Operators combine values of one type; constants take the type of the
/// value.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    formula: &'a Formula,
    id: usize,
}

impl Formula {
    /// Creates a formula over vectors of this number of lanes.
    pub(super) fn new(lanes: u16, features: Features) -> Self {
        Self { lanes, features, values: RefCell::default(), scopes: RefCell::new(vec![Vec::new()]) }
    }

    /// Returns true if `a * b + c` is rounded once.
    pub(super) fn has_fma(&self) -> bool {
        self.features.fma
    }

    /// Returns true if [`Value::times_power_of_two`] is available.
    pub(super) fn scales(&self) -> bool {
        self.features.scales && self.lanes > 1 && self.lanes.is_power_of_two()
    }

    /// Calls an AVX-512 instruction for each 16 lanes of floats; `None` if there is no such
    /// instruction for these values.
    fn in_sixteens<'a>(&'a self, args: &[Value<'a>], call: impl Fn(Vec<Expr>) -> Expr) -> Option<Value<'a>> {
        const LANES: i64 = 16;
        let args: Vec<Expr> = args.iter().map(|arg| arg.expr()).collect();
        let is_single = args.iter().all(|arg| arg.dtype().element() == F32);
        let lanes = i64::from(self.lanes);
        if !self.features.scales || !is_single || lanes < LANES || !self.lanes.is_power_of_two() {
            return None;
        }
        let shuffle = |vectors: Vec<Expr>, lanes: ops::Range<i64>| {
            Expr::from_node(ExprNode::Shuffle { vectors: vectors.into(), indices: lanes.collect() })
        };
        let part = |first: i64| {
            let lanes = args.iter().map(|arg| shuffle(vec![arg.clone()], first..first + LANES));
            call(lanes.collect())
        };
        if lanes == LANES {
            return Some(self.value(call(args)));
        }
        let mut parts: Vec<Expr> = (0..lanes / LANES).map(|index| self.value(part(index * LANES)).expr()).collect();
        let mut wide = LANES;
        while parts.len() > 1 {
            wide *= 2;
            parts = parts.chunks(2).map(|both| self.value(shuffle(both.to_vec(), 0..wide)).expr()).collect();
        }
        parts.pop().map(|whole| self.value(whole))
    }

    /// Returns true if sums may be reordered.
    pub(super) fn reassociates(&self) -> bool {
        self.features.reassociates
    }

    /// Adds a value for an expression.
    pub(super) fn value(&self, expr: Expr) -> Value<'_> {
        let simple = match &*expr {
            ExprNode::Var { .. } | ExprNode::Int { .. } | ExprNode::Float { .. } => true,
            ExprNode::Broadcast { value, .. } => value.as_int().is_some() || value.as_float().is_some(),
            _ => false,
        };
        let expr = if simple {
            expr
        } else {
            let var = Var::new("t", expr.dtype());
            let reference = var.expr().clone();
            if let Some(scope) = self.scopes.borrow_mut().last_mut() {
                scope.push((var, expr));
            }
            reference
        };
        let mut values = self.values.borrow_mut();
        values.push(expr);
        Value { formula: self, id: values.len() - 1 }
    }

    /// An integer of this element type.
    pub(super) fn int(&self, dtype: DataType, value: i64) -> Value<'_> {
        self.value(Expr::constant(dtype.with_lanes(self.lanes), value))
    }

    /// `coefficients[0] + coefficients[1] * x + ..`.
    pub(super) fn polynomial<'a>(&'a self, x: Value<'a>, coefficients: &[f64]) -> Value<'a> {
        let mut rest = coefficients.iter().rev();
        let mut sum = x.like(rest.next().copied().unwrap_or(0.0));
        for coefficient in rest {
            sum = sum.mul_add(x, x.like(*coefficient));
        }
        sum
    }

    /// Returns the formula as an expression, with names for values that are used more than once.
    pub(super) fn finish(&self, result: Value<'_>) -> Expr {
        let body = result.expr();
        let scope = self.scopes.borrow_mut().pop().unwrap_or_default();
        close(scope, body)
    }

    /// Returns `rare` for the lanes where a condition holds if there is such a lane, otherwise only
    /// `usual`. Both are computed for all lanes.
    pub(super) fn rarely<'a>(
        &'a self,
        condition: Value<'a>,
        rare: impl FnOnce() -> Value<'a>,
        usual: impl FnOnce() -> Value<'a>,
    ) -> Value<'a> {
        let scoped = |work: &mut dyn FnMut() -> Value<'a>| {
            self.scopes.borrow_mut().push(Vec::new());
            let value = work();
            self.finish(value)
        };
        let usual_value = usual();
        let mut rare = Some(rare);
        let rare = scoped(&mut || {
            let rare = rare.take().map_or(usual_value, |rare| rare());
            condition.select(rare, usual_value)
        });
        let any = match condition.expr() {
            one if one.lanes() == 1 => one,
            lanes => Expr::builtin(ANY_LANE, BOOLEAN, [lanes]),
        };
        self.value(Expr::if_then_else(any, rare, usual_value.expr()))
    }
}

/// The body with the values of the scope that it uses: a value with a single use is inlined.
fn close(scope: Vec<(Var, Expr)>, body: Expr) -> Expr {
    let mut uses: HashMap<Var, usize> = scope.iter().map(|(var, _)| (var.clone(), 0)).collect();
    let mut count = |expr: &Expr| {
        for_each_expr(expr, |part| {
            if let Some(uses) = Var::of(part).and_then(|var| uses.get_mut(&var)) {
                *uses += 1;
            }
        });
    };
    count(&body);
    scope.iter().for_each(|(_, expr)| count(expr));
    let mut inlined = VarMap::new();
    let mut kept = Vec::new();
    for (var, expr) in scope {
        let expr = substitute(&expr, &inlined);
        match uses[&var] {
            0 => {}
            1 => {
                inlined.insert(var, expr);
            }
            _ => kept.push((var, expr)),
        }
    }
    let mut body = substitute(&body, &inlined);
    for (var, value) in kept.into_iter().rev() {
        body = Expr::from_node(ExprNode::Let { var, value, body });
    }
    body
}

impl<'a> Value<'a> {
    /// The value as an expression.
    pub(super) fn expr(self) -> Expr {
        self.formula.values.borrow()[self.id].clone()
    }

    /// The formula of the value.
    pub(super) fn formula(self) -> &'a Formula {
        self.formula
    }

    fn dtype(self) -> DataType {
        self.formula.values.borrow()[self.id].dtype()
    }

    fn made(self, expr: Expr) -> Self {
        self.formula.value(expr)
    }

    /// A constant of the same type.
    pub(super) fn like(self, value: f64) -> Self {
        self.made(Expr::float(self.dtype(), value))
    }

    fn like_int(self, value: i64) -> Self {
        self.made(Expr::constant(self.dtype(), value))
    }

    fn binary(self, op: BinaryOp, other: Self) -> Self {
        self.made(Expr::binary(op, self.expr(), other.expr()))
    }

    fn compare(self, op: CompareOp, other: Self) -> Self {
        self.made(Expr::compare(op, self.expr(), other.expr()))
    }

    fn math(self, name: &str, others: &[Self]) -> Self {
        let args = [self].iter().chain(others).map(|value| value.expr()).collect::<Vec<_>>();
        self.made(Expr::builtin(name, self.dtype(), args))
    }

    /// `self * b + c`, rounded once where that is as fast.
    pub(super) fn mul_add(self, b: impl Operand<'a>, c: impl Operand<'a>) -> Self {
        let (b, c) = (b.beside(self), c.beside(self));
        if self.formula.has_fma() { self.math(FMA, &[b, c]) } else { self * b + c }
    }

    /// `c - self * b`, rounded once where that is as fast.
    pub(super) fn neg_mul_add(self, b: impl Operand<'a>, c: impl Operand<'a>) -> Self {
        let (b, c) = (b.beside(self), c.beside(self));
        if self.formula.has_fma() { (-self).math(FMA, &[b, c]) } else { c - self * b }
    }

    /// The nearest integer, half to even.
    pub(super) fn round(self) -> Self {
        self.math("round", &[])
    }

    pub(super) fn abs(self) -> Self {
        self.math("abs", &[])
    }

    pub(super) fn sqrt(self) -> Self {
        self.math("sqrt", &[])
    }

    /// The magnitude of this value with the sign of another.
    pub(super) fn copysign(self, sign: Self) -> Self {
        self.math("copysign", &[sign])
    }

    /// `min(limit, self)`: NaN stays NaN.
    pub(super) fn at_most(self, limit: f64) -> Self {
        self.like(limit).binary(BinaryOp::Min, self)
    }

    /// `max(limit, self)`: NaN stays NaN.
    pub(super) fn at_least(self, limit: f64) -> Self {
        self.like(limit).binary(BinaryOp::Max, self)
    }

    /// `self * 2^n` for any integer n, rounded once. `count`: the same n as a float.
    pub(super) fn times_power_of_two(self, n: Self, count: Self) -> Self {
        let scaled = self.formula.in_sixteens(&[self, count], |args| {
            let dtype = args[0].dtype();
            // All lanes, with the default rounding.
            let args =
                args.into_iter().chain([Expr::float(dtype, 0.0), Expr::constant(I16, -1), Expr::constant(I32, 4)]);
            Expr::call(CallKind::LlvmIntrinsic, "llvm.x86.avx512.mask.scalef.ps.512", dtype, args)
        });
        if let Some(scaled) = scaled {
            return scaled;
        }
        let args = [self.expr(), n.cast(I32).expr()];
        self.made(Expr::call(CallKind::LlvmIntrinsic, "llvm.ldexp", self.dtype(), args))
    }

    fn reinterpret(self, dtype: DataType) -> Self {
        let dtype = dtype.with_lanes(self.dtype().lanes());
        self.made(Expr::builtin(REINTERPRET, dtype, [self.expr()]))
    }

    /// The bits of a float as a signed integer.
    pub(super) fn bits(self) -> Self {
        self.reinterpret(if self.dtype().bits() == 64 { I64 } else { I32 })
    }

    /// The float that has these bits.
    pub(super) fn float_of_bits(self) -> Self {
        self.reinterpret(if self.dtype().bits() == 64 { F64 } else { F32 })
    }

    /// A conversion.
    pub(super) fn cast(self, dtype: DataType) -> Self {
        self.made(self.expr().cast(dtype.element()))
    }

    /// Selects one of two values by the condition `self`.
    pub(super) fn select(self, a: impl Operand<'a>, b: Value<'a>) -> Self {
        let a = a.beside(b);
        self.made(Expr::select(self.expr(), a.expr(), b.expr()))
    }

    pub(super) fn and(self, other: Self) -> Self {
        self.made(self.expr().and(other.expr()))
    }

    pub(super) fn or(self, other: Self) -> Self {
        self.made(self.expr().or(other.expr()))
    }

    pub(super) fn not(self) -> Self {
        debug_assert_eq!(self.dtype().element(), BOOLEAN);
        self.made(self.expr().negated())
    }

    pub(super) fn lt(self, other: impl Operand<'a>) -> Self {
        self.compare(CompareOp::Lt, other.beside(self))
    }

    pub(super) fn le(self, other: impl Operand<'a>) -> Self {
        self.compare(CompareOp::Le, other.beside(self))
    }

    pub(super) fn gt(self, other: impl Operand<'a>) -> Self {
        self.compare(CompareOp::Gt, other.beside(self))
    }

    pub(super) fn ge(self, other: impl Operand<'a>) -> Self {
        self.compare(CompareOp::Ge, other.beside(self))
    }

    pub(super) fn eq(self, other: impl Operand<'a>) -> Self {
        self.compare(CompareOp::Eq, other.beside(self))
    }

    pub(super) fn ne(self, other: impl Operand<'a>) -> Self {
        self.compare(CompareOp::Ne, other.beside(self))
    }

    /// True for NaN.
    pub(super) fn is_nan(self) -> Self {
        self.ne(self)
    }
}

/// An operand of an operator on a value: another value, or a constant.
pub(super) trait Operand<'a>: Copy {
    /// The operand as a value of the type of `value`.
    fn beside(self, value: Value<'a>) -> Value<'a>;
}

impl<'a> Operand<'a> for Value<'a> {
    fn beside(self, _: Value<'a>) -> Value<'a> {
        self
    }
}

impl<'a> Operand<'a> for f64 {
    fn beside(self, value: Value<'a>) -> Value<'a> {
        value.like(self)
    }
}

impl<'a> Operand<'a> for i64 {
    fn beside(self, value: Value<'a>) -> Value<'a> {
        value.like_int(self)
    }
}

macro_rules! operators {
    ($($trait:ident, $method:ident, $op:ident;)*) => {$(
        impl<'a, T: Operand<'a>> ops::$trait<T> for Value<'a> {
            type Output = Self;

            fn $method(self, other: T) -> Self {
                self.binary(BinaryOp::$op, other.beside(self))
            }
        }
    )*};
}

operators! {
    Add, add, Add;
    Sub, sub, Sub;
    Mul, mul, Mul;
    Div, div, Div;
    BitAnd, bitand, BitAnd;
    BitOr, bitor, BitOr;
    BitXor, bitxor, BitXor;
    Shl, shl, ShiftLeft;
    Shr, shr, ShiftRight;
}

impl ops::Neg for Value<'_> {
    type Output = Self;

    fn neg(self) -> Self {
        self.made(-self.expr())
    }
}
