//! Sets of integers with symbolic ends: the elements that a loop nest accesses.
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
use super::evaluate::Evaluation;
use crate::ir::shared::ByAddress;
use crate::ir::{Expr, Range, Var, VarMap, substitute, visit};

/// The integers between two ends, or no integers. Ends are expressions over outer variables; a
/// missing end is infinite.
///
/// A set may be larger than necessary, never smaller.
#[derive(Clone)]
pub enum IntSet {
    /// The empty set.
    Nothing,
    /// All integers from `min` to `max`, both included. If `max` is below `min`, there are none.
    Interval {
        /// The smallest integer, or `None` if the set is unbounded below.
        min: Option<Expr>,
        /// The largest integer, or `None` if the set is unbounded above.
        max: Option<Expr>,
    },
}

/// Sets of variables.
pub type SetMap = HashMap<Var, IntSet>;

impl IntSet {
    /// The set of all integers.
    pub fn everything() -> Self {
        Self::Interval { min: None, max: None }
    }

    /// A set of one integer.
    pub fn point(value: impl Into<Expr>) -> Self {
        let value = value.into();
        Self::Interval { min: Some(value.clone()), max: Some(value) }
    }

    /// The integers from `min` to `max`, both included.
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

    /// Returns true if the set is known to be empty.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Returns true if neither end is known.
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

    /// The smallest interval that contains both sets.
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

    /// The set as a range. Missing ends are taken from `default`; with no default, returns `None`
    /// if an end is missing.
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

    /// Returns true if the set provably equals the range.
    pub fn matches(&self, range: &Range, analyzer: &Analyzer) -> bool {
        let Self::Interval { min: Some(min), max: Some(max) } = self else {
            return self.is_nothing() && range.extent.is_int(0);
        };
        let last = &range.min + &range.extent - 1;
        (same(min, &range.min) || equal(min, &range.min, analyzer)) && (same(max, &last) || equal(max, &last, analyzer))
    }

    /// The set without the part that is provably outside of a range: an end beyond the end of the
    /// range is moved to that end.
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

    /// The set of values of an expression where each variable of `sets` takes every value of its
    /// set; other variables are fixed.
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
        // Simplified first, because intervals do not relate two occurrences of a variable.
        let expr = analyzer.simplify(&substitute(expr, &points));
        let set = Evaluation { sets: &mut rest, analyzer, known: ByAddress::default() }.expr(&expr);
        set.simplified(analyzer)
    }

    /// The set after the variables in its ends take all values of other sets.
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

/// Returns true if both are structurally the same expression.
fn same(a: &Expr, b: &Expr) -> bool {
    a == b || a.as_int().is_some() && a.as_int() == b.as_int()
}

fn equal(a: &Expr, b: &Expr, analyzer: &Analyzer) -> bool {
    analyzer.can_prove(&a.equals(b))
}

pub(super) fn both<'a>(a: &'a Option<Expr>, b: &'a Option<Expr>) -> Option<(&'a Expr, &'a Expr)> {
    Some((a.as_ref()?, b.as_ref()?))
}

pub(super) fn smaller(a: &Expr, b: &Expr, analyzer: &Analyzer) -> Expr {
    if same(a, b) || analyzer.can_prove(&a.less_equal(b)) {
        a.clone()
    } else if analyzer.can_prove(&b.less_equal(a)) {
        b.clone()
    } else {
        analyzer.simplify_operand(&a.min(b))
    }
}

pub(super) fn larger(a: &Expr, b: &Expr, analyzer: &Analyzer) -> Expr {
    if same(a, b) || analyzer.can_prove(&a.greater_equal(b)) {
        a.clone()
    } else if analyzer.can_prove(&b.greater_equal(a)) {
        b.clone()
    } else {
        analyzer.simplify_operand(&a.max(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::BinaryOp;

    fn numbers(seed: u64) -> impl FnMut(i64) -> i64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) as i64).rem_euclid(below)
        }
    }

    /// A random expression over variables.
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

    /// Every value is in the set, for all values of the variables.
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
            // Two occurrences of a variable have one value.
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
