//! Sets of integers with symbolic ends: which elements a loop nest touches.
//!
//! ```
//! use std::collections::HashMap;
//! use kernpack_compiler::arith::{Analyzer, IntSet};
//! use kernpack_compiler::ir::{Expr, Range, Var};
//!
//! let (i, o) = (Var::index("i"), Var::index("o"));
//! let analyzer = Analyzer::new();
//! let inner = IntSet::of_range(&Range::until(8));
//! let sets = HashMap::from([(i.clone(), inner)]);
//! let read = IntSet::evaluate(&(&o * 8 + &i + 1), &sets, &analyzer);
//! let range = read.cover_range(None, &analyzer).unwrap();
//! assert!(range.extent.is_int(8));
//! ```

use std::collections::HashMap;

use super::Analyzer;
use crate::ir::shared::{ByAddress, is_shared};
use crate::ir::{
    BinaryOp, CallKind, DataTypeExt, Expr, ExprNode, Range, Var, VarMap, builtin, substitute, visit, with_stack,
};

/// Integers between two ends, or none. Ends are expressions over variables that are outside; an end that is missing is infinite.
///
/// A set may be larger than it has to be, never smaller.
#[derive(Clone)]
pub enum IntSet {
    /// No integer.
    Nothing,
    /// All integers from `min` to `max`, both included. If `max` is below `min`, there are none.
    Interval {
        /// The smallest; none: there is no smallest.
        min: Option<Expr>,
        /// The largest; none: there is no largest.
        max: Option<Expr>,
    },
}

/// Sets by variable.
pub type SetMap = HashMap<Var, IntSet>;

impl IntSet {
    /// All integers.
    pub fn everything() -> Self {
        Self::Interval { min: None, max: None }
    }

    /// One integer.
    pub fn point(value: impl Into<Expr>) -> Self {
        let value = value.into();
        Self::Interval { min: Some(value.clone()), max: Some(value) }
    }

    /// From `min` to `max`, both included.
    pub fn interval(min: impl Into<Expr>, max: impl Into<Expr>) -> Self {
        Self::Interval { min: Some(min.into()), max: Some(max.into()) }
    }

    /// The integers of a range.
    pub fn of_range(range: &Range) -> Self {
        match range.extent.as_int() {
            Some(1) => Self::point(&range.min),
            Some(..=0) => Self::Nothing,
            _ => Self::interval(&range.min, &range.min + &range.extent - 1),
        }
    }

    /// Whether it is known to have no integer.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Whether neither end is known.
    pub fn is_everything(&self) -> bool {
        matches!(self, Self::Interval { min: None, max: None })
    }

    /// The only integer, if both ends are the same expression.
    pub fn as_point(&self) -> Option<&Expr> {
        match self {
            Self::Interval { min: Some(min), max: Some(max) } if same(min, max) => Some(min),
            _ => None,
        }
    }

    /// The smallest integer, if it is known.
    pub fn min(&self) -> Option<&Expr> {
        match self {
            Self::Interval { min, .. } => min.as_ref(),
            Self::Nothing => None,
        }
    }

    /// The largest integer, if it is known.
    pub fn max(&self) -> Option<&Expr> {
        match self {
            Self::Interval { max, .. } => max.as_ref(),
            Self::Nothing => None,
        }
    }

    /// All integers that are in one of both or between them.
    #[must_use]
    pub fn union(&self, other: &Self, analyzer: &Analyzer) -> Self {
        match (self, other) {
            (Self::Nothing, set) | (set, Self::Nothing) => set.clone(),
            (Self::Interval { min: a, max: b }, Self::Interval { min: c, max: d }) => Self::Interval {
                min: both(a, c).map(|(a, c)| smaller(a, c, analyzer)),
                max: both(b, d).map(|(b, d)| larger(b, d, analyzer)),
            },
        }
    }

    /// The set as a range. Ends that are missing are those of `default`; none: they are missing there, too.
    pub fn cover_range(&self, default: Option<&Range>, analyzer: &Analyzer) -> Option<Range> {
        let (min, max) = match self {
            Self::Nothing => {
                return Some(Range::new(default.map_or_else(|| Expr::int(0), |range| range.min.clone()), 0));
            }
            Self::Interval { min, max } => (min, max),
        };
        let min = match (min, default) {
            (Some(min), _) => min.clone(),
            (None, default) => default?.min.clone(),
        };
        let end = match (max, default) {
            (Some(max), _) => max + 1,
            (None, default) => {
                let range = default?;
                &range.min + &range.extent
            }
        };
        let extent = analyzer.simplify(&(end - &min));
        let extent = if extent.as_int().is_some_and(|extent| extent < 0) { Expr::int(0) } else { extent };
        Some(Range::new(analyzer.simplify(&min), extent))
    }

    /// Whether it is provably the range.
    pub fn matches(&self, range: &Range, analyzer: &Analyzer) -> bool {
        let Self::Interval { min: Some(min), max: Some(max) } = self else {
            return self.is_nothing() && range.extent.is_int(0);
        };
        let last = &range.min + &range.extent - 1;
        (same(min, &range.min) || equal(min, &range.min, analyzer)) && (same(max, &last) || equal(max, &last, analyzer))
    }

    /// The set without what is provably outside of a range: where it reaches beyond an end of the range, it ends there.
    #[must_use]
    pub fn clipped(&self, range: &Range, analyzer: &Analyzer) -> Self {
        let Self::Interval { min, max } = self else {
            return Self::Nothing;
        };
        let last = &range.min + &range.extent - 1;
        let min = match min {
            Some(min) if !analyzer.can_prove(&min.less_equal(&range.min)) => min.clone(),
            _ => range.min.clone(),
        };
        let max = match max {
            Some(max) if !analyzer.can_prove(&max.greater_equal(&last)) => max.clone(),
            _ => last,
        };
        Self::Interval { min: Some(min), max: Some(max) }
    }

    /// The values of an expression where each variable of `sets` takes every value of its set; other variables are fixed.
    pub fn evaluate(expr: &Expr, sets: &SetMap, analyzer: &Analyzer) -> Self {
        let mut points = VarMap::new();
        let mut rest = SetMap::new();
        for (var, set) in sets {
            match set {
                Self::Nothing if visit::uses_var(expr, |used| used == var) => return Self::Nothing,
                Self::Nothing => {}
                Self::Interval { .. } => match set.as_point() {
                    Some(point) => {
                        points.insert(var.clone(), point.clone());
                    }
                    None => {
                        rest.insert(var.clone(), set.clone());
                    }
                },
            }
        }
        // Simplified first: intervals do not know that two occurrences of a variable have the same value.
        let expr = analyzer.simplify(&substitute(expr, &points));
        let set = Evaluation { sets: &mut rest, analyzer, known: ByAddress::default() }.expr(&expr);
        set.simplified(analyzer)
    }

    /// The set where variables that its ends depend on take all values of other sets.
    #[must_use]
    pub fn relaxed(&self, sets: &SetMap, analyzer: &Analyzer) -> Self {
        let Self::Interval { min, max } = self else {
            return Self::Nothing;
        };
        if let Some(point) = self.as_point() {
            return Self::evaluate(point, sets, analyzer);
        }
        let mut ends = [None, None];
        for (end, (value, is_max)) in ends.iter_mut().zip([(min, false), (max, true)]) {
            match value.as_ref().map(|value| Self::evaluate(value, sets, analyzer)) {
                Some(Self::Nothing) => return Self::Nothing,
                Some(Self::Interval { min, max }) => *end = if is_max { max } else { min },
                None => {}
            }
        }
        let [min, max] = ends;
        Self::Interval { min, max }
    }

    fn simplified(self, analyzer: &Analyzer) -> Self {
        let point = self.as_point().is_some();
        match self {
            Self::Nothing => Self::Nothing,
            Self::Interval { min: Some(value), .. } if point => Self::point(analyzer.simplify(&value)),
            Self::Interval { min, max } => Self::Interval {
                min: min.map(|min| analyzer.simplify(&min)),
                max: max.map(|max| analyzer.simplify(&max)),
            },
        }
    }
}

/// Whether both are the same expression by structure.
fn same(a: &Expr, b: &Expr) -> bool {
    a == b || a.as_int().is_some() && a.as_int() == b.as_int()
}

fn equal(a: &Expr, b: &Expr, analyzer: &Analyzer) -> bool {
    analyzer.can_prove(&a.equals(b))
}

fn both<'a>(a: &'a Option<Expr>, b: &'a Option<Expr>) -> Option<(&'a Expr, &'a Expr)> {
    Some((a.as_ref()?, b.as_ref()?))
}

fn smaller(a: &Expr, b: &Expr, analyzer: &Analyzer) -> Expr {
    if same(a, b) || analyzer.can_prove(&a.less_equal(b)) {
        a.clone()
    } else if analyzer.can_prove(&b.less_equal(a)) {
        b.clone()
    } else {
        analyzer.simplify(&a.min(b))
    }
}

fn larger(a: &Expr, b: &Expr, analyzer: &Analyzer) -> Expr {
    if same(a, b) || analyzer.can_prove(&a.greater_equal(b)) {
        a.clone()
    } else if analyzer.can_prove(&b.greater_equal(a)) {
        b.clone()
    } else {
        analyzer.simplify(&a.max(b))
    }
}

struct Evaluation<'a> {
    /// Sets of variables that are no points.
    sets: &'a mut SetMap,
    analyzer: &'a Analyzer,
    /// Sets of parts that are shared.
    known: ByAddress<IntSet>,
}

impl Evaluation<'_> {
    fn varies(&self, expr: &Expr) -> bool {
        visit::uses_var(expr, |var| self.sets.contains_key(var))
    }

    fn proves(&mut self, condition: &Expr) -> bool {
        self.analyzer.can_prove(condition)
    }

    fn expr(&mut self, expr: &Expr) -> IntSet {
        let shared = is_shared(expr);
        if shared && let Some(set) = self.known.get(&expr.address()) {
            return set.clone();
        }
        let set = with_stack(|| self.expr_on_stack(expr));
        if shared {
            self.known.insert(expr.address(), set.clone());
        }
        set
    }

    fn expr_on_stack(&mut self, expr: &Expr) -> IntSet {
        if let Some(var) = Var::of(expr) {
            return self.sets.get(&var).cloned().unwrap_or_else(|| IntSet::point(expr));
        }
        if !self.varies(expr) {
            return IntSet::point(expr);
        }
        match &**expr {
            ExprNode::Binary { op, a, b, dtype } if dtype.is_scalar() && dtype.is_integer() => {
                let (left, right) = (self.expr(a), self.expr(b));
                // Unsigned arithmetic wraps.
                let exact = dtype.is_int() || matches!(op, BinaryOp::Min | BinaryOp::Max);
                if left.is_nothing() || right.is_nothing() {
                    IntSet::Nothing
                } else if exact {
                    self.binary(*op, &left, &right)
                } else {
                    of_dtype(expr)
                }
            }
            ExprNode::Select { true_value: a, false_value: b, .. }
            | ExprNode::IfThenElse { then_value: a, else_value: b, .. } => {
                let (left, right) = (self.expr(a), self.expr(b));
                left.union(&right, self.analyzer)
            }
            ExprNode::Cast { dtype, value } if dtype.is_integer() && value.dtype().is_integer() => {
                self.cast(expr, value)
            }
            ExprNode::Let { var, value, body } => {
                let value = self.expr(value);
                self.sets.insert(var.clone(), value);
                let set = self.expr(body);
                self.sets.remove(var);
                set
            }
            ExprNode::Call { kind: CallKind::Builtin, name, args, .. } if name.as_str() == builtin::LIKELY => {
                self.expr(&args.get(0).expect("likely has an argument"))
            }
            _ => of_dtype(expr),
        }
    }

    /// A conversion to a type that has all values of the old one; otherwise anything of the new type.
    fn cast(&mut self, expr: &Expr, value: &Expr) -> IntSet {
        let (to, from) = (expr.dtype(), value.dtype());
        let widens = from.is_int() == to.is_int() && from.bits() <= to.bits() || to.is_int() && from.bits() < to.bits();
        if !widens {
            return of_dtype(expr);
        }
        match self.expr(value) {
            IntSet::Nothing => IntSet::Nothing,
            IntSet::Interval { min, max } => {
                let (low, high) = limits(value);
                IntSet::Interval {
                    min: min.map(|min| min.cast(to)).or_else(|| low.map(|low| Expr::constant(to, low))),
                    max: max.map(|max| max.cast(to)).or_else(|| high.map(|high| Expr::constant(to, high))),
                }
            }
        }
    }

    fn binary(&mut self, op: BinaryOp, left: &IntSet, right: &IntSet) -> IntSet {
        let (IntSet::Interval { min: a, max: b }, IntSet::Interval { min: c, max: d }) = (left, right) else {
            return IntSet::Nothing;
        };
        match op {
            BinaryOp::Add => {
                IntSet::Interval { min: both(a, c).map(|(a, c)| a + c), max: both(b, d).map(|(b, d)| b + d) }
            }
            BinaryOp::Sub => {
                IntSet::Interval { min: both(a, d).map(|(a, d)| a - d), max: both(b, c).map(|(b, c)| b - c) }
            }
            BinaryOp::Mul => match (left.as_point(), right.as_point()) {
                (_, Some(factor)) => self.scaled(left, factor),
                (Some(factor), _) => self.scaled(right, factor),
                (None, None) => self.product(left, right),
            },
            BinaryOp::FloorDiv | BinaryOp::Div => self.quotient(op, left, right),
            BinaryOp::FloorMod | BinaryOp::Mod => self.remainder(op, left, right),
            // With an end missing the other side's still bounds it.
            BinaryOp::Min => IntSet::Interval {
                min: both(a, c).map(|(a, c)| smaller(a, c, self.analyzer)),
                max: match (b, d) {
                    (Some(b), Some(d)) => Some(smaller(b, d, self.analyzer)),
                    (b, d) => b.clone().or_else(|| d.clone()),
                },
            },
            BinaryOp::Max => IntSet::Interval {
                min: match (a, c) {
                    (Some(a), Some(c)) => Some(larger(a, c, self.analyzer)),
                    (a, c) => a.clone().or_else(|| c.clone()),
                },
                max: both(b, d).map(|(b, d)| larger(b, d, self.analyzer)),
            },
            BinaryOp::ShiftLeft => match right.as_point().and_then(|shift| shift.as_int()) {
                Some(shift @ 0..=62) => self.scaled(left, &Expr::int(1 << shift)),
                _ => IntSet::everything(),
            },
            BinaryOp::ShiftRight => match right.as_point() {
                Some(shift) => {
                    IntSet::Interval { min: a.as_ref().map(|a| a >> shift), max: b.as_ref().map(|b| b >> shift) }
                }
                None => IntSet::everything(),
            },
            BinaryOp::BitAnd => {
                let mask = [left, right].into_iter().filter_map(IntSet::as_point).find_map(|point| point.as_int());
                match mask {
                    Some(mask) if mask >= 0 => IntSet::interval(0, mask),
                    _ => IntSet::everything(),
                }
            }
            BinaryOp::BitOr | BinaryOp::BitXor => IntSet::everything(),
        }
    }

    fn scaled(&mut self, set: &IntSet, factor: &Expr) -> IntSet {
        let IntSet::Interval { min, max } = set else {
            return IntSet::Nothing;
        };
        let times = |end: &Option<Expr>| end.as_ref().map(|end| end * factor);
        if factor.is_int(0) {
            IntSet::point(factor)
        } else if self.proves(&factor.greater_equal(0)) {
            IntSet::Interval { min: times(min), max: times(max) }
        } else if self.proves(&factor.less_equal(0)) {
            IntSet::Interval { min: times(max), max: times(min) }
        } else {
            IntSet::everything()
        }
    }

    /// Of two sets without negative integers.
    fn product(&mut self, left: &IntSet, right: &IntSet) -> IntSet {
        match (left, right) {
            (IntSet::Interval { min: Some(a), max: Some(b) }, IntSet::Interval { min: Some(c), max: Some(d) })
                if self.proves(&a.greater_equal(0)) && self.proves(&c.greater_equal(0)) =>
            {
                IntSet::interval(a * c, b * d)
            }
            _ => IntSet::everything(),
        }
    }

    fn quotient(&mut self, op: BinaryOp, left: &IntSet, right: &IntSet) -> IntSet {
        let IntSet::Interval { min, max } = left else {
            return IntSet::Nothing;
        };
        let Some(divisor) = right.as_point() else {
            // By something positive a quotient is not further from 0 than the dividend.
            let positive = right.min().cloned().is_some_and(|min| self.proves(&min.greater(0)));
            return match (min, max) {
                (Some(min), Some(max)) if positive => {
                    let zero = Expr::constant(min.dtype(), 0);
                    IntSet::interval(smaller(min, &zero, self.analyzer), larger(max, &zero, self.analyzer))
                }
                _ => IntSet::everything(),
            };
        };
        let divided = |end: &Option<Expr>| end.as_ref().map(|end| Expr::binary(op, end, divisor));
        if divisor.is_int(0) {
            IntSet::everything()
        } else if self.proves(&divisor.greater(0)) {
            IntSet::Interval { min: divided(min), max: divided(max) }
        } else if self.proves(&divisor.less(0)) {
            IntSet::Interval { min: divided(max), max: divided(min) }
        } else {
            IntSet::everything()
        }
    }

    fn remainder(&mut self, op: BinaryOp, left: &IntSet, right: &IntSet) -> IntSet {
        let Some(divisor) = right.as_point().filter(|divisor| !divisor.is_int(0)).cloned() else {
            return match (left.min().cloned(), right.min().cloned(), right.max()) {
                (Some(a), Some(c), Some(d)) if self.proves(&a.greater_equal(0)) && self.proves(&c.greater(0)) => {
                    IntSet::interval(0, d - 1)
                }
                _ => IntSet::everything(),
            };
        };
        if !self.proves(&divisor.greater(0)) {
            return IntSet::everything();
        }
        let last = &divisor - 1;
        let natural = left.min().cloned().is_some_and(|min| self.proves(&min.greater_equal(0)));
        if op == BinaryOp::Mod && !natural {
            return IntSet::interval(1 - &divisor, last);
        }
        if let IntSet::Interval { min: Some(min), max: Some(max) } = left {
            if natural && self.proves(&max.less(&divisor)) {
                return left.clone();
            }
            let first = min.floor_div(&divisor);
            if self.proves(&first.equals(max.floor_div(&divisor))) {
                return IntSet::interval(min.floor_mod(&divisor), max.floor_mod(&divisor));
            }
        }
        IntSet::interval(0, last)
    }
}

/// The smallest and the largest value that the type of an expression has, if they fit.
fn limits(expr: &Expr) -> (Option<i64>, Option<i64>) {
    let dtype = expr.dtype();
    let bits = u32::from(dtype.bits());
    if dtype.is_bool() {
        (Some(0), Some(1))
    } else if dtype.is_uint() {
        (Some(0), (bits < 64).then(|| (1 << bits) - 1))
    } else if dtype.is_int() && bits < 32 {
        (Some(-(1 << (bits - 1))), Some((1 << (bits - 1)) - 1))
    } else {
        (None, None)
    }
}

fn of_dtype(expr: &Expr) -> IntSet {
    let dtype = expr.dtype();
    if !dtype.is_integer() || !dtype.is_scalar() {
        return IntSet::everything();
    }
    let (min, max) = limits(expr);
    let constant = |value: Option<i64>| value.map(|value| Expr::constant(dtype, value));
    IntSet::Interval { min: constant(min), max: constant(max) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: u64) -> impl FnMut(i64) -> i64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) as i64).rem_euclid(below)
        }
    }

    /// A random expression of variables.
    fn expression(vars: &[&Var], depth: u32, next: &mut impl FnMut(i64) -> i64) -> Expr {
        if depth == 0 || next(5) == 0 {
            return match next(4) {
                0 => Expr::int(next(9) - 4),
                _ => vars[next(vars.len() as i64) as usize].expr().clone(),
            };
        }
        let a = expression(vars, depth - 1, next);
        let b = expression(vars, depth - 1, next);
        let constant = [1i64, 2, 3, 4, 7, -1, -3][next(7) as usize];
        match next(12) {
            0 | 1 => a + b,
            2 | 3 => a - b,
            4 => a * constant,
            5 => a.floor_div(constant),
            6 => a.floor_mod(constant.abs()),
            7 => a.min(b),
            8 => a.max(b),
            9 => Expr::select(a.less(&b), a, b + 1),
            10 => Expr::binary(BinaryOp::Div, a, constant),
            _ => Expr::binary(BinaryOp::Mod, a, constant.abs()),
        }
    }

    fn value(expr: &Expr, values: &VarMap) -> i64 {
        let value = Analyzer::new().simplify(&substitute(expr, values));
        value.as_int().unwrap_or_else(|| panic!("{expr} has no value"))
    }

    /// Every value is in the set, whatever the variables are.
    #[test]
    fn sets_have_all_values() {
        let (i, j, n) = (Var::index("i"), Var::index("j"), Var::size("n", crate::ir::I64));
        for seed in 0..400 {
            let mut next = numbers(seed);
            let expr = expression(&[&i, &j, &n], 3, &mut next);
            let (low, extent) = (next(7) - 3, next(6) + 1);
            let analyzer = Analyzer::new();
            let sets = SetMap::from([
                (i.clone(), IntSet::of_range(&Range::new(low, extent))),
                (j.clone(), IntSet::interval(0, n.expr() - 1)),
            ]);
            let set = IntSet::evaluate(&expr, &sets, &analyzer);
            for _ in 0..20 {
                let size = next(5) + 1;
                let values: VarMap = [
                    (i.clone(), Expr::int(low + next(extent))),
                    (j.clone(), Expr::int(next(size))),
                    (n.clone(), Expr::int(size)),
                ]
                .into_iter()
                .collect();
                let found = value(&expr, &values);
                for (end, is_max) in [(set.min(), false), (set.max(), true)] {
                    let Some(end) = end else { continue };
                    let bound = value(end, &values);
                    let fits = if is_max { found <= bound } else { bound <= found };
                    assert!(fits, "seed {seed}: {expr} is {found}, beyond {end} = {bound}");
                }
            }
        }
    }

    #[test]
    fn sets_of_usual_indices_are_exact() {
        let (o, i, n) = (Var::index("o"), Var::index("i"), Var::size("n", crate::ir::I64));
        let analyzer = Analyzer::new();
        let eight = SetMap::from([(i.clone(), IntSet::of_range(&Range::until(8)))]);
        let whole = SetMap::from([(i.clone(), IntSet::of_range(&Range::until(&n)))]);
        let row = &o * 8 + &i;
        let cases: Vec<(&SetMap, Expr, &str)> = vec![
            (&eight, &row + 1, "[o * 8 + 1, o * 8 + 8]"),
            (&eight, &row * 2 + 2, "[o * 16 + 2, o * 16 + 16]"),
            (&eight, 3 - &row, "[-4 - o * 8, 3 - o * 8]"),
            (&eight, row.floor_div(8), "o"),
            (&eight, row.floor_mod(8), "[0, 7]"),
            (&eight, row.floor_div(4), "[o * 2, o * 2 + 1]"),
            // A variable and itself is one value.
            (&eight, (&row + 5) - &i, "o * 8 + 5"),
            (&eight, i.expr() - i.expr(), "0"),
            (&eight, i.expr().min(3), "[0, 3]"),
            (&whole, i.expr() * 2 + 1, "[1, n * 2 - 1]"),
            (&whole, (n.expr() - 1) - i.expr(), "[0, n - 1]"),
            (&whole, i.expr().floor_mod(4), "[0, 3]"),
        ];
        for (sets, expr, wanted) in cases {
            let set = IntSet::evaluate(&expr, sets, &analyzer);
            let found = match (set.as_point(), set.min(), set.max()) {
                (Some(point), ..) => point.to_string(),
                (None, Some(min), Some(max)) => format!("[{min}, {max}]"),
                _ => "everything".to_owned(),
            };
            assert_eq!(found, wanted, "{expr}");
        }
    }

    #[test]
    fn what_is_read_from_memory_can_be_anything_unless_it_is_clipped() {
        let i = Var::index("i");
        let buffer = crate::ir::Buffer::new("index", crate::ir::U8, [Expr::int(4)], "global");
        let wide = crate::ir::Buffer::new("wide", crate::ir::I64, [Expr::int(4)], "global");
        let sets = SetMap::from([(i.clone(), IntSet::of_range(&Range::until(4)))]);
        let analyzer = Analyzer::new();
        let loaded = Expr::load(&wide, &i);
        assert!(IntSet::evaluate(&loaded, &sets, &analyzer).is_everything());
        let byte = IntSet::evaluate(&Expr::load(&buffer, &i).cast(crate::ir::I64), &sets, &analyzer);
        assert!(byte.matches(&Range::until(256), &analyzer));
        let clipped = IntSet::evaluate(&loaded.max(0).min(9), &sets, &analyzer);
        assert!(clipped.matches(&Range::until(10), &analyzer));
        assert!(IntSet::evaluate(&Expr::load(&wide, 2), &sets, &analyzer).as_point().is_some());
    }

    #[test]
    fn unions_cover_both_and_an_empty_range_is_nothing() {
        let n = Var::size("n", crate::ir::I64);
        let analyzer = Analyzer::new();
        let left = IntSet::interval(0, n.expr() - 1);
        let both = left.union(&IntSet::interval(1, &n), &analyzer);
        assert_eq!(format!("{}..{}", both.min().unwrap(), both.max().unwrap()), "0..n");
        assert!(IntSet::of_range(&Range::until(0)).is_nothing());
        assert!(left.union(&IntSet::Nothing, &analyzer).matches(&Range::until(&n), &analyzer));
        let range = IntSet::Nothing.cover_range(Some(&Range::new(3, 5)), &analyzer).unwrap();
        assert!(range.extent.is_int(0));
        let inside = IntSet::interval(-1, &n).clipped(&Range::until(&n), &analyzer);
        assert!(inside.matches(&Range::until(&n), &analyzer));
    }
}
