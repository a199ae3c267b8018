//! Canonical sums: `base + scale_i * floordiv(floormod(index_i, upper_i), lower_i)`.

use kernpack::DataType;

use super::interval::ConstInterval;
use super::modular::{ModularSet, gcd};
use super::same::same;
use crate::ir::builder::wrap_int;
use crate::ir::{DataTypeExt, Expr};

/// The upper bound of a whole index that is not a remainder.
pub(crate) const WHOLE: i64 = i64::MAX;

/// `scale * floordiv(floormod(index, upper), lower)`; `lower` divides `upper`.
#[derive(Clone)]
pub(crate) struct Term {
    /// The index, simplified; not a constant, and not a sum if it is whole.
    pub(crate) index: Expr,
    /// True if the index is itself a sum (or a product with a constant).
    pub(crate) composite: bool,
    /// The divisor, 1 or more.
    pub(crate) lower: i64,
    /// The modulus, or [`WHOLE`].
    pub(crate) upper: i64,
    /// The factor; not 0.
    pub(crate) scale: i64,
    /// True if the index is data, on which arithmetic wraps.
    pub(crate) data: bool,
    /// Bounds of the index.
    pub(crate) index_range: ConstInterval,
    /// Divisibility of the index.
    pub(crate) index_mod: ModularSet,
    /// Bounds of the value without the factor.
    pub(crate) range: ConstInterval,
}

impl Term {
    /// A term that is a whole index.
    pub(crate) fn whole(index: Expr, range: ConstInterval, modular: ModularSet) -> Self {
        Self {
            index,
            composite: false,
            lower: 1,
            upper: WHOLE,
            scale: 1,
            data: false,
            index_range: range,
            index_mod: modular,
            range,
        }
    }

    /// The same index with another divisor and modulus.
    pub(crate) fn with(&self, lower: i64, upper: i64, scale: i64) -> Self {
        let mut term = self.clone();
        term.lower = lower;
        term.upper = upper;
        term.scale = scale;
        term.range = value_range(self.index_range, self.index_mod, lower, upper);
        term
    }

    /// Returns true if both have the same value except for their factors.
    pub(crate) fn same_value(&self, other: &Self) -> bool {
        self.lower == other.lower && self.upper == other.upper && same(&self.index, &other.index)
    }

    /// Returns true if the term is an index itself.
    pub(crate) fn is_whole(&self) -> bool {
        self.lower == 1 && self.upper == WHOLE
    }

    /// Divisibility of the value without its factor.
    pub(crate) fn modular(&self) -> ModularSet {
        let set = if self.upper == WHOLE { self.index_mod } else { self.index_mod.floor_mod(self.upper) };
        if self.lower == 1 { set } else { set.floor_div(self.lower) }
    }
}

/// Bounds of `floordiv(floormod(index, upper), lower)`.
pub(crate) fn value_range(index: ConstInterval, modular: ModularSet, lower: i64, upper: i64) -> ConstInterval {
    let remainder = if upper == WHOLE {
        index
    } else if let Some(block) = index.block(upper) {
        ConstInterval::new(index.min - block * upper, index.max - block * upper)
    } else {
        let step = gcd(modular.coeff, upper).max(1);
        let least = modular.base.rem_euclid(step);
        ConstInterval::new(least, upper - step + least)
    };
    if lower == 1 { remainder } else { remainder.floor_div(ConstInterval::point(lower)) }
}

/// A sum of terms and a constant, of one integer type.
#[derive(Clone)]
pub(crate) struct Sum {
    /// Type of the value, with one lane.
    pub(crate) dtype: DataType,
    /// The constant.
    pub(crate) base: i64,
    /// The terms, in the order of their first occurrence; no two have the same value.
    pub(crate) terms: Vec<Term>,
    /// True if a number did not fit: the sum has no meaning.
    pub(crate) overflow: bool,
    /// True if the sum is that of an expression with data, also where the data cancels out.
    pub(crate) of_data: bool,
}

impl Sum {
    /// A constant sum.
    pub(crate) fn constant(dtype: DataType, base: i64) -> Self {
        Self { dtype, base, terms: Vec::new(), overflow: false, of_data: false }
    }

    /// A sum of one term.
    pub(crate) fn of(dtype: DataType, term: Term) -> Self {
        let mut sum = Self::constant(dtype, 0);
        sum.add_term(term);
        sum
    }

    /// Its value, if it has no terms.
    pub(crate) fn as_constant(&self) -> Option<i64> {
        (self.terms.is_empty() && !self.overflow).then_some(self.base)
    }

    /// The only term, if the sum is nothing else.
    pub(crate) fn as_term(&self) -> Option<&Term> {
        match &self.terms[..] {
            [term] if self.base == 0 && !self.overflow => Some(term),
            _ => None,
        }
    }

    /// Returns true if the numbers of the sum fit in its type.
    pub(crate) fn fits(&self) -> bool {
        !self.overflow
            && (self.dtype.bits() == 64
                || self.dtype.can_hold(self.base)
                    && self.terms.iter().all(|term| {
                        let upper = if term.upper == WHOLE { 1 } else { term.upper / term.lower };
                        [term.scale, term.lower, upper].iter().all(|number| self.dtype.can_hold(*number))
                    }))
    }

    /// Returns true if a term is data, on which arithmetic wraps.
    pub(crate) fn is_data(&self) -> bool {
        self.terms.iter().any(|term| term.data)
    }

    /// Returns true if the data of the expression cancels out, and indices are left.
    pub(crate) fn has_lost_data(&self) -> bool {
        self.of_data && !self.terms.is_empty() && !self.is_data() && self.as_number().is_none()
    }

    /// Its value, if it is a constant of any size.
    pub(crate) fn as_number(&self) -> Option<i64> {
        self.as_constant().or_else(|| {
            let term = self.as_term()?;
            if term.is_whole() && term.scale == 1 { term.index.as_int() } else { None }
        })
    }

    /// The sum with constant terms added to its base, modulo `2^n`.
    pub(crate) fn with_numbers(mut self) -> Self {
        if self.overflow || self.as_number().is_some() || self.terms.iter().all(|term| term.index.as_int().is_none()) {
            return self;
        }
        let mut base = self.base;
        self.terms.retain(|term| match term.index.as_int() {
            Some(value) if term.is_whole() => {
                base = base.wrapping_add(value.wrapping_mul(term.scale));
                false
            }
            _ => true,
        });
        self.base = 0;
        let base = wrap_int(self.dtype, base);
        if base == i64::MIN && self.terms.is_empty() {
            let number = Expr::constant(self.dtype, base);
            self.terms.push(Term::whole(number, ConstInterval::point(base), ModularSet::EVERYTHING));
            return self;
        }
        self.add_base(base);
        self
    }

    /// Adds a constant.
    pub(crate) fn add_base(&mut self, value: i64) {
        match self.base.checked_add(value) {
            // Numbers that cannot be negated are kept out of sums.
            Some(base) if base != i64::MIN => self.base = base,
            _ => self.overflow = true,
        }
    }

    /// Adds `other * factor`.
    pub(crate) fn add_scaled(&mut self, other: &Self, factor: i64) {
        self.of_data |= other.of_data;
        if factor == 0 {
            return;
        }
        self.overflow |= other.overflow;
        match other.base.checked_mul(factor) {
            Some(base) => self.add_base(base),
            None => self.overflow = true,
        }
        for term in &other.terms {
            self.add_term_scaled(term, factor);
        }
    }

    /// Adds `term * factor`.
    pub(crate) fn add_term_scaled(&mut self, term: &Term, factor: i64) {
        match term.scale.checked_mul(factor) {
            Some(scale) => {
                let mut term = term.clone();
                term.scale = scale;
                self.add_term(term);
            }
            None => self.overflow = true,
        }
    }

    /// `self * factor`, with unchanged terms.
    #[must_use]
    pub(crate) fn scaled(mut self, factor: i64) -> Self {
        if factor == 0 {
            return Self { of_data: self.of_data, ..Self::constant(self.dtype, 0) };
        }
        if factor == 1 {
            return self;
        }
        let mut scale = |number: &mut i64| match number.checked_mul(factor) {
            Some(product) if product != i64::MIN => *number = product,
            _ => self.overflow = true,
        };
        scale(&mut self.base);
        self.terms.iter_mut().for_each(|term| scale(&mut term.scale));
        self
    }

    /// `self - other`.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let mut difference = self.clone();
        difference.add_scaled(other, -1);
        difference
    }

    /// Adds a term: equal values are merged, and quotient and remainder of one index are joined.
    pub(crate) fn add_term(&mut self, mut term: Term) {
        self.of_data |= term.data;
        loop {
            if term.scale == i64::MIN {
                self.overflow = true;
                return;
            }
            let mut index = 0;
            let joined = loop {
                let Some(own) = self.terms.get_mut(index) else { break None };
                if same(&own.index, &term.index) {
                    if own.lower == term.lower && own.upper == term.upper {
                        match own.scale.checked_add(term.scale) {
                            Some(0) => drop(self.terms.remove(index)),
                            Some(scale) if scale != i64::MIN => {
                                own.scale = scale;
                                own.range = own.range.intersect(term.range);
                            }
                            _ => self.overflow = true,
                        }
                        return;
                    }
                    if let Some(joined) = join(own, &term).or_else(|| join(&term, own)) {
                        break Some(joined);
                    }
                }
                index += 1;
            };
            match joined {
                Some(joined) => {
                    self.terms.remove(index);
                    term = joined;
                }
                None => break,
            }
        }
        self.terms.push(term);
    }

    /// Bounds, from those of the terms.
    pub(crate) fn range(&self) -> ConstInterval {
        if self.overflow {
            return ConstInterval::EVERYTHING;
        }
        let mut range = ConstInterval::point(self.base);
        for term in &self.terms {
            range = range.plus(term.range.scaled(term.scale));
        }
        range
    }

    /// Divisibility, from that of the terms.
    pub(crate) fn modular(&self) -> ModularSet {
        if self.overflow {
            return ModularSet::EVERYTHING;
        }
        let mut set = ModularSet::point(self.base);
        for term in &self.terms {
            if set.coeff == 1 {
                break;
            }
            set = set.plus(term.modular().scaled(term.scale));
        }
        set
    }

    /// Greatest common divisor of the factors; 0 if there are none.
    pub(crate) fn common_scale(&self) -> i64 {
        let mut common = 0;
        for term in &self.terms {
            common = gcd(common, term.scale);
        }
        common
    }

    /// `self / divisor`, where `divisor` divides all numbers.
    pub(crate) fn divided(mut self, divisor: i64) -> Self {
        if divisor != 1 {
            self.base /= divisor;
            self.terms.iter_mut().for_each(|term| term.scale /= divisor);
        }
        self
    }

    /// The factor of a value in this sum, 0 if the sum does not contain it.
    pub(crate) fn scale_of(&self, term: &Term) -> i64 {
        self.terms.iter().find(|own| own.same_value(term)).map_or(0, |own| own.scale)
    }

    /// `k` such that the terms of this sum are `k` times those of another one.
    pub(crate) fn multiple_of_terms(&self, other: &Self) -> Option<i64> {
        if self.terms.len() != other.terms.len() || self.terms.is_empty() {
            return None;
        }
        let mut factor = None;
        for own in &self.terms {
            let scale = other.scale_of(own);
            if scale == 0 || own.scale % scale != 0 || factor.is_some_and(|factor| factor != own.scale / scale) {
                return None;
            }
            factor = Some(own.scale / scale);
        }
        factor
    }
}

/// One term for two of the same index, if the first one is the quotient or the whole:
/// `v(l', u) = v(l, u) * (l / l') + v(l', l)`, for `l'` that divides `l`, and `l` that divides `u`.
fn join(high: &Term, other: &Term) -> Option<Term> {
    // Quotient and remainder form the whole.
    if other.upper == high.lower && high.lower % other.lower == 0 {
        let ratio = high.lower / other.lower;
        if other.scale.checked_mul(ratio) == Some(high.scale) {
            return Some(high.with(other.lower, high.upper, other.scale));
        }
    }
    // The whole without the quotient is the remainder.
    if other.upper == high.upper && other.lower % high.lower == 0 && other.lower > high.lower {
        let ratio = other.lower / high.lower;
        if high.scale.checked_mul(ratio).and_then(i64::checked_neg) == Some(other.scale) {
            return Some(high.with(high.lower, other.lower, high.scale));
        }
    }
    // The whole without the remainder is the quotient.
    if other.lower == high.lower && other.upper != WHOLE && other.upper < high.upper {
        let divides = high.upper == WHOLE || high.upper % other.upper == 0;
        if divides && high.scale.checked_neg() == Some(other.scale) {
            let ratio = other.upper / other.lower;
            let scale = high.scale.checked_mul(ratio)?;
            return Some(high.with(other.upper, high.upper, scale));
        }
    }
    None
}

/// Quotient rounded up; the divisor is positive.
pub(crate) fn ceil_div(a: i64, b: i64) -> i64 {
    a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0)
}
