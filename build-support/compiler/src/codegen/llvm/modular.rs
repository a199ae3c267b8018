//! Divisibility of indices, for alignment: `coefficient * anything + base`.

use std::collections::HashMap;

use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, Var, with_stack};

/// The numbers `coefficient * n + base`; with a coefficient of 0, a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Modular {
    /// The coefficient, not negative.
    pub(super) coefficient: i64,
    pub(super) base: i64,
}

impl Modular {
    pub(super) const ANY: Self = Self { coefficient: 1, base: 0 };

    fn constant(value: i64) -> Self {
        Self { coefficient: 0, base: value }
    }

    fn new(coefficient: i128, base: i128) -> Self {
        let fits = |value: i128| i64::try_from(value).ok();
        match (fits(coefficient.abs()), fits(base)) {
            (Some(0), Some(base)) => Self::constant(base),
            (Some(coefficient), Some(base)) => Self { coefficient, base: base.rem_euclid(coefficient) },
            _ => Self::ANY,
        }
    }

    /// The largest power of two, up to `limit`, that divides all of the numbers.
    pub(super) fn power_of_two(self, limit: i64) -> i64 {
        let divides = |power: i64| self.coefficient % power == 0 && self.base % power == 0;
        let mut power = 1;
        while power < limit && divides(power * 2) {
            power *= 2;
        }
        power
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

/// The divisibility of variables.
#[derive(Clone, Default)]
pub(super) struct ModularFacts {
    vars: HashMap<Var, Modular>,
}

impl ModularFacts {
    pub(super) fn set(&mut self, var: &Var, modular: Modular) {
        self.vars.insert(var.clone(), modular);
    }

    /// The divisibility of an integer expression; for vectors, that of the first lane.
    pub(super) fn of(&self, expr: &Expr) -> Modular {
        if !expr.dtype().is_integer() {
            return Modular::ANY;
        }
        with_stack(|| match &**expr {
            ExprNode::Int { value, .. } => Modular::constant(*value),
            ExprNode::Var { .. } => Var::of(expr).and_then(|var| self.vars.get(&var).copied()).unwrap_or(Modular::ANY),
            // A wider type contains the same numbers; a narrower one does not.
            ExprNode::Cast { dtype, value } if value.dtype().is_integer() && dtype.bits() >= value.dtype().bits() => {
                self.of(value)
            }
            ExprNode::Ramp { base, .. } => self.of(base),
            ExprNode::Broadcast { value, .. } => self.of(value),
            ExprNode::Select { true_value: a, false_value: b, .. }
            | ExprNode::IfThenElse { then_value: a, else_value: b, .. } => self.either(a, b),
            ExprNode::Binary { op, a, b, .. } => self.binary(*op, a, b),
            _ => Modular::ANY,
        })
    }

    fn either(&self, a: &Expr, b: &Expr) -> Modular {
        let (a, b) = (self.of(a), self.of(b));
        let (base, other) = (i128::from(a.base), i128::from(b.base));
        Modular::new(gcd(gcd(a.coefficient.into(), b.coefficient.into()), base - other), base)
    }

    fn binary(&self, op: BinaryOp, a: &Expr, b: &Expr) -> Modular {
        if matches!(op, BinaryOp::Min | BinaryOp::Max) {
            return self.either(a, b);
        }
        let (left, right) = (self.of(a), self.of(b));
        let (p, m) = (i128::from(left.coefficient), i128::from(left.base));
        let (q, n) = (i128::from(right.coefficient), i128::from(right.base));
        match op {
            BinaryOp::Add => Modular::new(gcd(p, q), m + n),
            BinaryOp::Sub => Modular::new(gcd(p, q), m - n),
            BinaryOp::Mul => {
                let products = (p.checked_mul(q), p.checked_mul(n), m.checked_mul(q), m.checked_mul(n));
                let (Some(pq), Some(pn), Some(mq), Some(mn)) = products else { return Modular::ANY };
                Modular::new(gcd(gcd(pq, pn), mq), mn)
            }
            BinaryOp::ShiftLeft if q == 0 && (0..62).contains(&n) => Modular::new(p << n, m << n),
            BinaryOp::FloorDiv if q == 0 && n > 0 && p != 0 && p % n == 0 && m % n == 0 => Modular::new(p / n, m / n),
            // This also holds for the division that rounds toward zero, because the quotient is
            // exact.
            BinaryOp::Div if q == 0 && n > 0 && p % n == 0 && m % n == 0 => Modular::new(p / n, m / n),
            BinaryOp::FloorMod if q == 0 && n > 0 => Modular::new(gcd(p, n), m),
            _ => Modular::ANY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_follow_through_index_arithmetic() {
        let (i, j) = (Var::index("i"), Var::index("j"));
        let facts = ModularFacts::default();
        let rows = [
            (&i * 16 + 8, 8),
            (&i * 16 + &j * 4, 4),
            (&i * 16 + &j, 1),
            ((&i * 6) * (&j * 4), 8),
            ((&i * 32 + 16).floor_div(4), 4),
            ((&i * 12).floor_mod(8), 4),
            ((&i * 32).min(&j * 8 + 16), 8),
            (Expr::int(0), 64),
        ];
        for (index, expected) in rows {
            assert_eq!(facts.of(&index).power_of_two(64), expected);
        }
        let mut facts = ModularFacts::default();
        facts.set(&i, Modular { coefficient: 8, base: 4 });
        assert_eq!(facts.of(&(&i + 4)).power_of_two(64), 8);
    }
}
