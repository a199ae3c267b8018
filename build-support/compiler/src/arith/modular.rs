//! Divisibility of integers: the remainder modulo a number.

use core::fmt;

use kernpack::DataType;

use crate::ir::builder::{floor_div, wrap_int};

/// The integers `coeff * k + base`: one number if `coeff` is 0, all integers if it is 1. `base` is
/// in `0 .. coeff` otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModularSet {
    /// The distance between neighbors; never negative.
    pub coeff: i64,
    /// One of the integers.
    pub base: i64,
}

/// Greatest common divisor of magnitudes; that of 0 and x is x.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    // Only |i64::MIN| does not fit; 1 is also a common divisor.
    i64::try_from(a).unwrap_or(1)
}

impl ModularSet {
    /// The set of all integers.
    pub const EVERYTHING: Self = Self { coeff: 1, base: 0 };

    /// The integers `coeff * k + base`.
    pub fn new(coeff: i64, base: i64) -> Self {
        let coeff = if coeff == i64::MIN { 1 } else { coeff.abs() };
        if coeff == 0 { Self { coeff, base } } else { Self { coeff, base: base.rem_euclid(coeff) } }
    }

    /// The set of one number.
    pub fn point(value: i64) -> Self {
        Self { coeff: 0, base: value }
    }

    /// Returns true if the set contains a number.
    pub fn contains(self, value: i64) -> bool {
        if self.coeff == 0 {
            return value == self.base;
        }
        // The difference may not fit.
        (i128::from(value) - i128::from(self.base)) % i128::from(self.coeff) == 0
    }

    /// The remainder modulo `c`, if it is the same for all; `c` is positive.
    pub fn remainder(self, c: i64) -> Option<i64> {
        (self.coeff % c == 0).then(|| self.base.rem_euclid(c))
    }

    /// `self * factor`.
    #[must_use]
    pub fn scaled(self, factor: i64) -> Self {
        match (self.coeff.checked_mul(factor), self.base.checked_mul(factor)) {
            (Some(coeff), Some(base)) => Self::new(coeff, base),
            _ => Self::EVERYTHING,
        }
    }

    /// The set after the values wrap in a signed type of n bits: only the factor of the modulus
    /// that is a power of two remains, at most `2^n`.
    #[must_use]
    pub(crate) fn wrapped(self, dtype: DataType) -> Self {
        if self.coeff == 0 {
            return Self::point(wrap_int(dtype, self.base));
        }
        // A modulus greater than 2^62 does not fit in i64.
        let bits = self.coeff.trailing_zeros().min(u32::from(dtype.bits())).min(62);
        Self::new(1 << bits, self.base)
    }

    /// Sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        match self.base.checked_add(other.base) {
            Some(base) => Self::new(gcd(self.coeff, other.coeff), base),
            None => Self::EVERYTHING,
        }
    }

    /// Product.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        let product = || {
            let coeff = gcd(
                self.coeff.checked_mul(other.coeff)?,
                gcd(self.coeff.checked_mul(other.base)?, other.coeff.checked_mul(self.base)?),
            );
            Some(Self::new(coeff, self.base.checked_mul(other.base)?))
        };
        product().unwrap_or(Self::EVERYTHING)
    }

    /// Quotient by a positive constant, rounded down.
    #[must_use]
    pub fn floor_div(self, c: i64) -> Self {
        if self.coeff % c == 0 { Self::new(self.coeff / c, floor_div(self.base, c)) } else { Self::EVERYTHING }
    }

    /// Remainder by a positive constant.
    #[must_use]
    pub fn floor_mod(self, c: i64) -> Self {
        match self.remainder(c) {
            Some(remainder) => Self::point(remainder),
            None => Self::new(gcd(self.coeff, c), self.base),
        }
    }

    /// A set that contains both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        match self.base.checked_sub(other.base) {
            Some(difference) => Self::new(gcd(gcd(self.coeff, other.coeff), difference), self.base),
            None => Self::EVERYTHING,
        }
    }

    /// The intersection, if the moduli are small enough to compute it; otherwise the finer set.
    /// `self` if the intersection is empty.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        if self.coeff == 0 || other == Self::EVERYTHING {
            return self;
        }
        if other.coeff == 0 || self == Self::EVERYTHING {
            return if self.contains(other.base) { other } else { self };
        }
        let common = gcd(self.coeff, other.coeff);
        let (fine, coarse) = if self.coeff >= other.coeff { (self, other) } else { (other, self) };
        if (fine.base - coarse.base) % common != 0 {
            return self;
        }
        let Some(coeff) = (fine.coeff / common).checked_mul(coarse.coeff) else { return fine };
        // Only a few steps are tried: moduli are factors of loops.
        let mut base = fine.base;
        for _ in 0..(coarse.coeff / common).min(4096) {
            if coarse.contains(base) {
                return Self::new(coeff, base);
            }
            let Some(next) = base.checked_add(fine.coeff) else { return fine };
            base = next;
        }
        fine
    }
}

impl fmt::Display for ModularSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}k + {}", self.coeff, self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::builder::floor_mod;

    fn sets() -> Vec<ModularSet> {
        let mut sets: Vec<_> = (-3..=3).map(ModularSet::point).collect();
        for coeff in 1..=9 {
            sets.extend((0..coeff).map(|base| ModularSet::new(coeff, base)));
        }
        sets
    }

    fn members(set: ModularSet) -> impl Iterator<Item = i64> {
        (-40..=40).filter(move |value| set.contains(*value))
    }

    #[test]
    fn operations_hold_all_values() {
        type Op = (&'static str, fn(ModularSet, ModularSet) -> ModularSet, fn(i64, i64) -> i64);
        let ops: &[Op] = &[("plus", ModularSet::plus, |a, b| a + b), ("times", ModularSet::times, |a, b| a * b)];
        for (name, op, value) in ops {
            for a in sets() {
                for b in sets() {
                    let found = op(a, b);
                    for x in members(a) {
                        for y in members(b).take(6) {
                            assert!(found.contains(value(x, y)), "{name} of {a} and {b}: {found}, {x} {y}");
                        }
                    }
                }
            }
        }
        for a in sets() {
            for c in 1..=12 {
                for x in members(a) {
                    assert!(a.floor_div(c).contains(floor_div(x, c)), "{a} / {c}: {x}");
                    assert!(a.floor_mod(c).contains(floor_mod(x, c)), "{a} % {c}: {x}");
                    assert!(a.scaled(-c).contains(-c * x), "{a} * -{c}: {x}");
                    assert!(a.remainder(c).is_none_or(|r| r == floor_mod(x, c)), "{a} rem {c}: {x}");
                }
            }
        }
    }

    #[test]
    fn union_holds_both_and_intersection_what_is_in_both() {
        for a in sets() {
            for b in sets() {
                assert!(members(a).chain(members(b)).all(|x| a.union(b).contains(x)), "{a} or {b}");
                let both: Vec<_> = members(a).filter(|x| b.contains(*x)).collect();
                let found: Vec<_> = members(a.intersect(b)).collect();
                assert!(both.is_empty() || found == both, "{a} and {b}: {}", a.intersect(b));
            }
        }
    }
}
