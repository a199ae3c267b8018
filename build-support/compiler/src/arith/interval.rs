//! Intervals with constant ends: bounds that hold for all values of the variables.

use kernpack::DataType;

use crate::ir::DataTypeExt;
use crate::ir::builder::floor_div;

/// The integers from `min` to `max`, both included. `i64::MIN` and `i64::MAX` represent an infinite
/// end; arithmetic saturates towards them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConstInterval {
    /// The smallest value, or [`ConstInterval::NEG_INF`].
    pub min: i64,
    /// The largest value, or [`ConstInterval::POS_INF`].
    pub max: i64,
}

/// Both infinities, in the order of the integers.
const NEG: i64 = i64::MIN;
const POS: i64 = i64::MAX;

fn is_infinite(end: i64) -> bool {
    end == NEG || end == POS
}

fn add_end(a: i64, b: i64, absorbing: i64) -> i64 {
    if is_infinite(a) || is_infinite(b) {
        // The absorbing end is the one that carries less information.
        return if a == absorbing || b == absorbing {
            absorbing
        } else if is_infinite(a) {
            a
        } else {
            b
        };
    }
    a.saturating_add(b)
}

fn negate_end(end: i64) -> i64 {
    match end {
        NEG => POS,
        POS => NEG,
        _ => -end,
    }
}

fn mul_end(a: i64, b: i64) -> i64 {
    if a == 0 || b == 0 {
        return 0;
    }
    let infinite = if (a < 0) == (b < 0) { POS } else { NEG };
    if is_infinite(a) || is_infinite(b) { infinite } else { a.checked_mul(b).unwrap_or(infinite) }
}

/// Quotient of ends, rounded down or toward zero; the divisor is not 0.
fn div_end(a: i64, b: i64, floor: bool) -> i64 {
    let opposite = (a < 0) != (b < 0);
    if is_infinite(b) {
        return if floor && opposite && a != 0 { -1 } else { 0 };
    }
    if is_infinite(a) {
        return if opposite { NEG } else { POS };
    }
    if floor { floor_div(a, b) } else { a.wrapping_div(b) }
}

impl ConstInterval {
    /// No lower bound.
    pub const NEG_INF: i64 = NEG;
    /// No upper bound.
    pub const POS_INF: i64 = POS;
    /// Every integer.
    pub const EVERYTHING: Self = Self { min: NEG, max: POS };

    /// The interval from `min` to `max`. An end that equals a sentinel is widened, so that the
    /// interval is less precise than it could be.
    pub fn new(min: i64, max: i64) -> Self {
        Self { min: min.min(POS - 1), max: max.max(NEG + 1) }
    }

    /// The interval of one value.
    pub fn point(value: i64) -> Self {
        Self::new(value, value)
    }

    /// The values of a type; [`Self::EVERYTHING`] for 64 bits and for types that are not integers.
    pub fn of_type(dtype: DataType) -> Self {
        if dtype.is_bool() {
            return Self::new(0, 1);
        }
        let bits = u32::from(dtype.bits());
        match (dtype.is_int(), dtype.is_uint()) {
            (true, _) if bits < 64 => Self::new(-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            (_, true) if bits < 64 => Self::new(0, (1 << bits) - 1),
            // The upper half of the unsigned 64-bit integers does not fit in i64.
            _ => Self::EVERYTHING,
        }
    }

    /// The values after a cast to an integer type: unchanged if the type contains all of them.
    #[must_use]
    pub(crate) fn cast(self, dtype: DataType) -> Self {
        let own = Self::of_type(dtype);
        // Negative integers become unsigned 64-bit integers that do not fit in i64.
        let wide = dtype.is_uint() && dtype.bits() == 64;
        if own.includes(self) && !(wide && self.min < 0) { self } else { own }
    }

    /// The value, if the interval has only one.
    pub fn as_point(self) -> Option<i64> {
        (self.min == self.max && !is_infinite(self.min)).then_some(self.min)
    }

    /// Returns true if both ends are finite.
    pub fn is_finite(self) -> bool {
        !is_infinite(self.min) && !is_infinite(self.max)
    }

    /// Returns true if the interval contains a value.
    pub fn contains(self, value: i64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    /// Returns true if the interval contains every value of another one.
    pub fn includes(self, other: Self) -> bool {
        self.min <= other.min && other.max <= self.max
    }

    /// The intersection; `self` if it is empty, which happens in unreachable code.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        let both = Self { min: self.min.max(other.min), max: self.max.min(other.max) };
        if both.min <= both.max { both } else { self }
    }

    /// The smallest interval that contains both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// `k` such that the interval is in `k * c .. (k + 1) * c`; `c` is positive.
    pub fn block(self, c: i64) -> Option<i64> {
        if !self.is_finite() {
            return None;
        }
        let block = self.min.div_euclid(c);
        // Callers subtract `block * c`, which has to fit.
        let fits = block.checked_mul(c).and_then(i64::checked_neg).is_some();
        (fits && block == self.max.div_euclid(c)).then_some(block)
    }

    /// `self * factor`.
    #[must_use]
    pub fn scaled(self, factor: i64) -> Self {
        match factor {
            1 => self,
            0.. => Self::new(mul_end(self.min, factor), mul_end(self.max, factor)),
            _ => Self::new(mul_end(self.max, factor), mul_end(self.min, factor)),
        }
    }

    /// Sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        // A lower bound above i64 may become smaller again in a longer sum: it is a bound, not an
        // infinity.
        Self::new(add_end(self.min, other.min, NEG), add_end(self.max, other.max, POS))
    }

    /// Difference.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(other.negated())
    }

    /// `-self`.
    #[must_use]
    pub fn negated(self) -> Self {
        Self::new(negate_end(self.max), negate_end(self.min))
    }

    fn of_ends(self, other: Self, mut end: impl FnMut(i64, i64) -> i64) -> Self {
        let ends =
            [end(self.min, other.min), end(self.min, other.max), end(self.max, other.min), end(self.max, other.max)];
        let (mut min, mut max) = (ends[0], ends[0]);
        for end in ends {
            min = min.min(end);
            max = max.max(end);
        }
        Self::new(min, max)
    }

    /// Product.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        self.of_ends(other, mul_end)
    }

    /// Calls `part` for the negative and the positive values of a divisor, and returns the union of
    /// the results.
    fn by_sign(self, mut part: impl FnMut(Self) -> Self) -> Self {
        let mut result = None;
        if self.min < 0 {
            result = Some(part(Self { min: self.min, max: self.max.min(-1) }));
        }
        if self.max > 0 {
            let positive = part(Self { min: self.min.max(1), max: self.max });
            result = Some(result.map_or(positive, |negative: Self| negative.union(positive)));
        }
        result.unwrap_or(Self::EVERYTHING)
    }

    /// Quotient, rounded down; the divisor is assumed not to be 0.
    #[must_use]
    pub fn floor_div(self, divisor: Self) -> Self {
        divisor.by_sign(|divisor| self.of_ends(divisor, |a, b| div_end(a, b, true)))
    }

    /// Quotient, rounded toward zero; the divisor is assumed not to be 0.
    #[must_use]
    pub fn trunc_div(self, divisor: Self) -> Self {
        divisor.by_sign(|divisor| self.of_ends(divisor, |a, b| div_end(a, b, false)))
    }

    /// Remainder with the sign of the divisor; the divisor is assumed not to be 0.
    #[must_use]
    pub fn floor_mod(self, divisor: Self) -> Self {
        divisor.by_sign(|divisor| {
            if divisor.min > 0 {
                if divisor.as_point().is_some_and(|c| self.block(c).is_some()) {
                    let c = divisor.min;
                    return Self { min: self.min.rem_euclid(c), max: self.max.rem_euclid(c) };
                }
                if self.min >= 0 && self.max < divisor.min {
                    return self;
                }
                let largest = if divisor.max == POS { POS } else { divisor.max - 1 };
                return Self { min: 0, max: if self.min >= 0 { largest.min(self.max) } else { largest } };
            }
            let smallest = if divisor.min == NEG { NEG } else { divisor.min + 1 };
            Self { min: if self.max <= 0 { smallest.max(self.min) } else { smallest }, max: 0 }
        })
    }

    /// Remainder with the sign of the dividend; the divisor is assumed not to be 0.
    #[must_use]
    pub fn trunc_mod(self, divisor: Self) -> Self {
        let largest = negate_end(divisor.min).max(divisor.max);
        let largest = if is_infinite(largest) { largest } else { (largest - 1).max(0) };
        if self.min >= 0 && divisor.min > self.max {
            return self;
        }
        Self {
            min: if self.min >= 0 { 0 } else { negate_end(largest).max(self.min) },
            max: if self.max <= 0 { 0 } else { largest.min(self.max) },
        }
    }

    /// The minimum of two values.
    #[must_use]
    pub fn minimum(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.min(other.max) }
    }

    /// The maximum of two values.
    #[must_use]
    pub fn maximum(self, other: Self) -> Self {
        Self { min: self.min.max(other.min), max: self.max.max(other.max) }
    }

    /// Bitwise and of signed integers.
    #[must_use]
    pub fn bit_and(self, other: Self) -> Self {
        match (self.min >= 0, other.min >= 0) {
            (true, true) => Self { min: 0, max: self.max.min(other.max) },
            (true, false) => Self { min: 0, max: self.max },
            (false, true) => Self { min: 0, max: other.max },
            (false, false) => Self::EVERYTHING,
        }
    }

    /// Bitwise or, or exclusive or, of integers that are not negative; otherwise
    /// [`Self::EVERYTHING`].
    #[must_use]
    pub fn bit_or(self, other: Self) -> Self {
        if self.min < 0 || other.min < 0 {
            return Self::EVERYTHING;
        }
        let largest = self.max.max(other.max);
        let bits = 64 - largest.leading_zeros();
        Self { min: 0, max: if bits >= 63 { POS } else { (1 << bits) - 1 } }
    }

    /// Arithmetic shift to the right. A negative shift amount shifts out all bits.
    #[must_use]
    pub fn shift_right(self, by: Self) -> Self {
        let by = if by.min < 0 {
            Self { min: if by.max < 0 { 63 } else { 0 }, max: 63 }
        } else {
            Self { min: by.min.min(63), max: by.max.min(63) }
        };
        let shifted = |a: i64, by: i64| if is_infinite(a) && by < 63 { a } else { a >> by };
        self.of_ends(by, shifted)
    }
}

impl core::fmt::Display for ConstInterval {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let end = |end: i64| match end {
            NEG => "-inf".to_owned(),
            POS => "inf".to_owned(),
            _ => end.to_string(),
        };
        write!(f, "[{}, {}]", end(self.min), end(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::builder::floor_mod;

    fn intervals() -> Vec<ConstInterval> {
        let ends = [-7, -3, -1, 0, 1, 2, 5, 8];
        ends.iter()
            .flat_map(|&a| ends.iter().filter(move |&&b| a <= b).map(move |&b| ConstInterval::new(a, b)))
            .collect()
    }

    /// The smallest interval that contains all results, computed one by one.
    fn exact(a: ConstInterval, b: ConstInterval, op: impl Fn(i64, i64) -> Option<i64>) -> Option<ConstInterval> {
        let mut all: Option<ConstInterval> = None;
        for x in a.min..=a.max {
            for y in b.min..=b.max {
                if let Some(value) = op(x, y) {
                    all = Some(all.map_or(ConstInterval::point(value), |all| all.union(ConstInterval::point(value))));
                }
            }
        }
        all
    }

    type Op = (&'static str, fn(ConstInterval, ConstInterval) -> ConstInterval, fn(i64, i64) -> Option<i64>, bool);

    const OPS: &[Op] = &[
        ("plus", ConstInterval::plus, |a, b| Some(a + b), true),
        ("minus", ConstInterval::minus, |a, b| Some(a - b), true),
        ("times", ConstInterval::times, |a, b| Some(a * b), true),
        ("floor_div", ConstInterval::floor_div, |a, b| (b != 0).then(|| floor_div(a, b)), true),
        ("trunc_div", ConstInterval::trunc_div, |a, b| (b != 0).then(|| a / b), true),
        ("floor_mod", ConstInterval::floor_mod, |a, b| (b != 0).then(|| floor_mod(a, b)), false),
        ("trunc_mod", ConstInterval::trunc_mod, |a, b| (b != 0).then(|| a % b), false),
        ("minimum", ConstInterval::minimum, |a, b| Some(a.min(b)), true),
        ("maximum", ConstInterval::maximum, |a, b| Some(a.max(b)), true),
        ("bit_and", ConstInterval::bit_and, |a, b| Some(a & b), false),
        ("bit_or", ConstInterval::bit_or, |a, b| Some(a | b), false),
        ("bit_xor", ConstInterval::bit_or, |a, b| Some(a ^ b), false),
        ("shift_right", ConstInterval::shift_right, |a, b| Some(a >> if (0..64).contains(&b) { b } else { 63 }), false),
    ];

    #[test]
    fn operations_hold_all_values_and_are_tight_where_they_say_so() {
        for (name, op, value, tight) in OPS {
            for a in intervals() {
                for b in intervals() {
                    let Some(exact) = exact(a, b, value) else { continue };
                    let found = op(a, b);
                    assert!(found.includes(exact), "{name} of {a} and {b}: {found}, but values are in {exact}");
                    assert!(!tight || found == exact, "{name} of {a} and {b}: {found}, not {exact}");
                }
            }
        }
    }

    #[test]
    fn infinite_ends_hold_whatever_a_finite_one_gives() {
        let ends = [NEG, -7, -1, 0, 1, 5, POS];
        let mut open = Vec::new();
        for a in ends {
            for b in ends {
                if a <= b && a != POS && b != NEG {
                    open.push(ConstInterval::new(a, b));
                }
            }
        }
        let cut = |i: ConstInterval| ConstInterval::new(i.min.max(-40), i.max.min(40));
        for (name, op, value, _) in OPS {
            for &a in &open {
                for &b in &open {
                    let Some(exact) = exact(cut(a), cut(b), value) else { continue };
                    assert!(op(a, b).includes(exact), "{name} of {a} and {b}: {} without {exact}", op(a, b));
                }
            }
        }
    }

    #[test]
    fn sums_saturate() {
        let large = ConstInterval::new(POS - 2, POS - 1);
        assert_eq!(large.plus(large).max, POS);
        assert_eq!(large.times(large).max, POS);
        assert_eq!(ConstInterval::point(POS), ConstInterval { min: POS - 1, max: POS });
        assert_eq!(ConstInterval::EVERYTHING.plus(ConstInterval::point(1)), ConstInterval::EVERYTHING);
        // Sums beyond i64 that become smaller again stay inside.
        let (one, negative) = (ConstInterval::point(1), ConstInterval::point(NEG + 2));
        assert!(large.plus(one).plus(one).plus(negative).contains(1));
        assert!(large.plus(one).plus(one).negated().plus(large).contains(-2));
        assert!(large.scaled(2).plus(negative).plus(negative).contains(0));
        assert!(large.scaled(-2).plus(large).plus(large).contains(0));
        assert!(large.times(ConstInterval::point(-2)).plus(large).plus(large).contains(0));
    }
}
