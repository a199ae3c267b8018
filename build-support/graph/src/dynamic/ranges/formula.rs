//! Numbers that follow from the extents of dynamic dimensions: sums of products.
//!
//! The products are those of multiples where all extents of a dimension are multiples of a number,
//! its step: with a step of 32, half of the height is 16 times `height / 32`.

use kernpack_compiler::ir::{Expr, Var};

/// A number that follows from the extents of dynamic dimensions: `2 * batch * words + 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula {
    /// The products: a factor, and how often it is multiplied by each dimension's extent divided by
    /// its step.
    terms: Vec<(i64, Vec<u32>)>,
    /// The number that is added.
    constant: i64,
    /// The steps of the dimensions.
    steps: Vec<i64>,
}

/// The maximum number of dimensions that are multiplied.
const DEGREE: u32 = 3;
/// The maximum number of products.
const TERMS: usize = 3;

impl Formula {
    /// Creates a number that does not depend on the extents.
    pub(crate) fn of_constant(constant: i64) -> Self {
        Self { terms: Vec::new(), constant, steps: Vec::new() }
    }

    /// Finds the formula with these values at these extents, which are multiples of the steps of
    /// the dimensions. One with fewer and shorter products is preferred. `None` if there are not at
    /// least two more values than unknowns, or for one with the maximum number of products, one.
    pub(crate) fn find(extents: &[Vec<i64>], steps: &[i64], values: &[i64]) -> Option<Self> {
        let first = *values.first()?;
        if values.iter().all(|value| *value == first) {
            return Some(Self::of_constant(first));
        }
        let dims = extents.first()?.len();
        let products = products(dims);
        let units: Vec<Vec<i64>> = extents.iter().map(|at| units(at, steps)).collect::<Option<_>>()?;
        let columns: Option<Vec<Vec<i128>>> =
            products.iter().map(|powers| units.iter().map(|at| product(powers, at)).collect()).collect();
        let columns = columns?;
        for count in 1..=TERMS.min(extents.len().saturating_sub(2)) {
            for chosen in choices(products.len(), count) {
                let own: Vec<&Vec<i128>> = chosen.iter().map(|index| &columns[*index]).collect();
                let Some(factors) = solve(&own, values) else { continue };
                let terms = factors.into_iter().zip(chosen).map(|(factor, index)| (factor, products[index].clone()));
                let mut found = Self { terms: terms.collect(), constant: 0, steps: steps.to_vec() };
                let Some(constant) = found.at(&extents[0]).and_then(|value| first.checked_sub(value)) else { continue };
                found.constant = constant;
                if extents.iter().zip(values).all(|(at, value)| found.at(at) == Some(*value)) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Returns the number for these extents, if they are multiples of the steps, and the number is
    /// not too large.
    pub fn at(&self, extents: &[i64]) -> Option<i64> {
        if self.terms.is_empty() {
            return Some(self.constant);
        }
        let extents = &units(extents, &self.steps)?[..];
        let value = self.terms.iter().try_fold(i128::from(self.constant), |sum, (factor, powers)| {
            sum.checked_add(product(powers, extents)?.checked_mul(i128::from(*factor))?)
        })?;
        i64::try_from(value).ok()
    }

    /// Returns a number that is at least as large as those for extents between these.
    pub(crate) fn bound(&self, least: &[i64], most: &[i64]) -> Option<i64> {
        if self.terms.is_empty() {
            return Some(self.constant);
        }
        let (least, most) = (units(least, &self.steps)?, units(most, &self.steps)?);
        let value = self.terms.iter().try_fold(i128::from(self.constant), |sum, (factor, powers)| {
            let extents = if *factor < 0 { &least } else { &most };
            sum.checked_add(product(powers, extents)?.checked_mul(i128::from(*factor))?)
        })?;
        i64::try_from(value).ok()
    }

    /// Returns the number, if it is the same for all extents.
    pub fn fixed(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// Returns the index of the dimension whose extent this is.
    pub fn dim(&self) -> Option<usize> {
        let [(factor, powers)] = &self.terms[..] else { return None };
        let dim = powers.iter().position(|power| *power == 1)?;
        let is_one = self.constant == 0 && powers.iter().sum::<u32>() == 1 && self.steps[dim] == *factor;
        is_one.then_some(dim)
    }

    /// Formats the formula with names of the dimensions: `2 * batch * words + 1`, `height / 2`. It
    /// is also an expression of Rust, whose quotients are exact.
    pub fn text(&self, names: &[impl AsRef<str>]) -> String {
        let mut text = String::new();
        for (factor, powers) in &self.terms {
            let sign = match (text.is_empty(), *factor < 0) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            // The extents in the text are not divided by their steps.
            let steps = self.steps.iter().zip(powers).map(|(step, power)| step.unsigned_abs().saturating_pow(*power));
            let steps = steps.fold(1, u64::saturating_mul);
            let common = gcd(factor.unsigned_abs(), steps);
            let (size, divisor) = (factor.unsigned_abs() / common, steps / common);
            let own = (size != 1).then(|| size.to_string());
            let names = names.iter().zip(powers).flat_map(|(name, power)| {
                core::iter::repeat_n(name.as_ref().to_owned(), usize::try_from(*power).unwrap_or(0))
            });
            text += sign;
            text += &own.into_iter().chain(names).collect::<Vec<_>>().join(" * ");
            if divisor != 1 {
                text += &format!(" / {divisor}");
            }
        }
        match (text.is_empty(), self.constant) {
            (true, constant) => constant.to_string(),
            (false, 0) => text,
            (false, constant) if constant < 0 => format!("{text} - {}", constant.unsigned_abs()),
            (false, constant) => format!("{text} + {constant}"),
        }
    }

    /// Returns the formula as an expression of the compiler. The variables are the extents divided
    /// by the steps.
    pub(crate) fn expr(&self, units: &[Var]) -> Expr {
        self.expr_of(&units.iter().map(|unit| unit.expr().clone()).collect::<Vec<_>>())
    }

    /// Like [`Self::expr`], with expressions.
    pub(crate) fn expr_of(&self, units: &[Expr]) -> Expr {
        let mut sum: Option<Expr> = None;
        for (factor, powers) in &self.terms {
            let mut term: Option<Expr> = None;
            for (unit, power) in units.iter().zip(powers) {
                for _ in 0..*power {
                    term = Some(term.map_or_else(|| unit.clone(), |term| term * unit));
                }
            }
            let term = term.unwrap_or_else(|| Expr::int(1));
            let term = if *factor == 1 { term } else { term * *factor };
            sum = Some(sum.map_or_else(|| term.clone(), |sum| sum + &term));
        }
        match (sum, self.constant) {
            (None, constant) => Expr::int(constant),
            (Some(sum), 0) => sum,
            (Some(sum), constant) => sum + constant,
        }
    }
}

/// Returns extents divided by the steps, if these divide them.
fn units(extents: &[i64], steps: &[i64]) -> Option<Vec<i64>> {
    let unit = |(extent, step): (&i64, &i64)| (extent % step == 0).then(|| extent / step);
    extents.iter().zip(steps).map(unit).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns numbers as integers, if they are.
pub(crate) fn whole(values: &[f64]) -> Option<Vec<i64>> {
    /// Integers up to here are exact.
    const EXACT: f64 = 9e15;
    let is_whole = |value: &f64| value.fract() == 0.0 && value.abs() <= EXACT;
    #[expect(clippy::cast_possible_truncation, reason = "these are integers of at most 2^53")]
    values.iter().all(is_whole).then(|| values.iter().map(|value| *value as i64).collect())
}

/// Returns all products of up to [`DEGREE`] dimensions, short ones first.
fn products(dims: usize) -> Vec<Vec<u32>> {
    let mut all: Vec<Vec<u32>> = Vec::new();
    let mut last = vec![vec![0; dims]];
    for _ in 0..DEGREE {
        let mut next: Vec<Vec<u32>> = Vec::new();
        for powers in &last {
            for dim in 0..dims {
                let mut powers = powers.clone();
                powers[dim] += 1;
                if !next.contains(&powers) {
                    next.push(powers);
                }
            }
        }
        all.extend(next.iter().cloned());
        last = next;
    }
    all
}

fn product(powers: &[u32], extents: &[i64]) -> Option<i128> {
    powers
        .iter()
        .zip(extents)
        .try_fold(1_i128, |product, (power, extent)| product.checked_mul(i128::from(*extent).checked_pow(*power)?))
}

/// Returns all sets of `count` of the numbers below `below`, those with small numbers first.
fn choices(below: usize, count: usize) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..count {
        let longer = |set: &Vec<usize>| {
            let set = set.clone();
            let from = set.last().map_or(0, |last| last + 1);
            (from..below).map(move |next| set.iter().copied().chain([next]).collect())
        };
        sets = sets.iter().flat_map(longer).collect();
    }
    sets.sort_by_key(|set| set.iter().sum::<usize>());
    sets
}

/// Returns the factors with which the differences of the columns from their first numbers add up
/// to those of the values, if they are integers other than 0. As many differences are used as there
/// are columns.
fn solve(columns: &[&Vec<i128>], values: &[i64]) -> Option<Vec<i64>> {
    let count = columns.len();
    let row = |index: usize| -> Option<Vec<i128>> {
        columns.iter().map(|column| column.get(index)?.checked_sub(column[0])).collect()
    };
    let matrix: Vec<Vec<i128>> = (1..=count).map(row).collect::<Option<_>>()?;
    let right: Vec<i128> = (1..=count).map(|index| i128::from(values[index]) - i128::from(values[0])).collect();
    let whole = determinant(&matrix)?;
    if whole == 0 {
        return None;
    }
    (0..count)
        .map(|column| {
            let mut replaced = matrix.clone();
            for (row, value) in replaced.iter_mut().zip(&right) {
                row[column] = *value;
            }
            let part = determinant(&replaced)?;
            let is_factor = part != 0 && part % whole == 0;
            if is_factor { i64::try_from(part / whole).ok() } else { None }
        })
        .collect()
}

/// Returns the determinant of a small matrix, if it is not too large.
fn determinant(matrix: &[Vec<i128>]) -> Option<i128> {
    let [first, rest @ ..] = matrix else { return Some(1) };
    let mut sum = 0_i128;
    for (column, value) in first.iter().enumerate() {
        let minor: Vec<Vec<i128>> = rest
            .iter()
            .map(|row| row.iter().enumerate().filter(|(index, _)| *index != column).map(|(_, value)| *value).collect())
            .collect();
        let part = value.checked_mul(determinant(&minor)?)?;
        sum = if column % 2 == 0 { sum.checked_add(part)? } else { sum.checked_sub(part)? };
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::Formula;

    const EXTENTS: [[i64; 2]; 5] = [[64, 512], [47, 211], [31, 97], [13, 373], [2, 5]];

    fn found(of: impl Fn(i64, i64) -> i64) -> Option<String> {
        let extents: Vec<Vec<i64>> = EXTENTS.iter().map(|extents| extents.to_vec()).collect();
        let values: Vec<i64> = EXTENTS.iter().map(|[n, m]| of(*n, *m)).collect();
        let formula = Formula::find(&extents, &[1, 1], &values)?;
        for n in [1, 3, 64] {
            for m in [1, 7, 512] {
                assert_eq!(formula.at(&[n, m]), Some(of(n, m)), "{n} {m}");
            }
        }
        Some(formula.text(&["n", "m"]))
    }

    #[test]
    fn sums_of_products_are_found() {
        type Of = fn(i64, i64) -> i64;
        let rows: [(Of, &str); 11] = [
            (|_, _| 7, "7"),
            (|n, _| n, "n"),
            (|n, m| n * m, "n * m"),
            (|n, _| 12 * n, "12 * n"),
            (|_, m| m + 1, "m + 1"),
            (|_, m| 4 * m - 3, "4 * m - 3"),
            (|n, m| n + m, "n + m"),
            (|n, m| 12 * n * m * m, "12 * n * m * m"),
            (|n, m| m - n, "-n + m"),
            (|n, m| 2 * n * m - 3 * n + 5, "-3 * n + 2 * n * m + 5"),
            (|n, m| n * m + n + m, "n + m + n * m"),
        ];
        for (of, text) in rows {
            assert_eq!(found(of).as_deref(), Some(text));
        }
    }

    #[test]
    fn others_are_not() {
        let rows: [fn(i64, i64) -> i64; 4] =
            [|n, _| n.min(40), |_, m| m.max(100), |_, m| m / 2, |n, m| if n > 40 { n * m } else { 3 }];
        for of in rows {
            assert_eq!(found(of), None);
        }
    }

    /// The height is a multiple of 32, the width one of 8.
    #[test]
    fn quotients_by_parts_of_the_step() {
        let extents: Vec<Vec<i64>> = EXTENTS.iter().map(|[n, m]| vec![32 * n, 8 * m]).collect();
        let found = |of: fn(i64, i64) -> i64| {
            let values: Vec<i64> = extents.iter().map(|at| of(at[0], at[1])).collect();
            let formula = Formula::find(&extents, &[32, 8], &values)?;
            for (h, w) in [(32, 8), (64, 24), (320, 8 * 77)] {
                assert_eq!(formula.at(&[h, w]), Some(of(h, w)), "{h} {w}");
            }
            assert_eq!(formula.at(&[33, 8]), None);
            assert_eq!(formula.bound(&[32, 8], &[64, 80]), Some(of(64, 80).max(of(32, 8))));
            Some((formula.text(&["h", "w"]), formula.dim()))
        };
        type Of = fn(i64, i64) -> i64;
        let rows: [(Of, &str, Option<usize>); 7] = [
            (|h, _| h, "h", Some(0)),
            (|h, _| h / 2, "h / 2", None),
            (|_, w| w / 8, "w / 8", None),
            (|h, _| 2 * h, "2 * h", None),
            (|h, w| (h / 32) * (w / 8), "h * w / 256", None),
            (|h, w| 3 * (h / 4) * w + 5, "3 * h * w / 4 + 5", None),
            (|h, w| 64 * (h / 32) + w / 4 * 3, "2 * h + 3 * w / 4", None),
        ];
        for (of, text, dim) in rows {
            assert_eq!(found(of), Some((text.to_owned(), dim)));
        }
        assert_eq!(found(|h, _| h / 64), None);
    }

    #[test]
    fn dimensions_are_recognized() {
        let extents: Vec<Vec<i64>> = EXTENTS.iter().map(|extents| extents.to_vec()).collect();
        let of = |value: fn(i64, i64) -> i64| {
            let values: Vec<i64> = EXTENTS.iter().map(|[n, m]| value(*n, *m)).collect();
            Formula::find(&extents, &[1, 1], &values).unwrap()
        };
        assert_eq!(of(|_, m| m).dim(), Some(1));
        assert_eq!(of(|_, m| 2 * m).dim(), None);
        assert_eq!(of(|_, m| m + 1).dim(), None);
        assert_eq!((of(|_, _| 9).fixed(), of(|n, _| n).fixed()), (Some(9), None));
    }
}
