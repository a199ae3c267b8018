//! Known values whose rows along the last axis begin with one element and continue with another
//! one, such as causal masks of a cache: place `word` of row `token` is seen up to `past + token`.

use crate::constant::{Constant, element_bytes};
use crate::graph::Ranges;

use super::Formula;

/// The form of such a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Threshold {
    /// The number of elements at the beginning of the first row, and what is added to it for each
    /// step along the other axes. No row has fewer than 0, or more than all.
    numbers: Vec<i64>,
    /// The element at the beginning of rows, as bytes.
    inside: Vec<u8>,
    /// The element behind it.
    outside: Vec<u8>,
}

impl Threshold {
    /// Returns the form of a value, if it has this one.
    pub(crate) fn of(known: &Constant) -> Option<Self> {
        let (_, own) = known.shape().split_last()?;
        let counts = counts(known)?;
        let mut numbers = vec![*counts.first()?];
        let mut stride = counts.len();
        for extent in own {
            let extent = usize::try_from(*extent).ok()?;
            stride /= extent.max(1);
            numbers.push(if extent > 1 { counts.get(stride)? - numbers[0] } else { 0 });
        }
        let mut elements = known.bytes().chunks_exact(element_bytes(known.dtype()));
        let inside = elements.next()?.to_vec();
        let outside = elements.find(|element| *element != inside)?.to_vec();
        let found = Self { numbers, inside, outside };
        found.is(known).then_some(found)
    }

    /// Returns true if this is the form of a value.
    fn is(&self, known: &Constant) -> bool {
        let size = element_bytes(known.dtype());
        let Some((last, own)) = known.shape().split_last() else { return false };
        let row_bytes = usize::try_from(*last).unwrap_or(0) * size;
        if size == 0 || row_bytes == 0 {
            return true;
        }
        known.bytes().chunks_exact(row_bytes).enumerate().all(|(row, elements)| {
            let (mut rest, mut count) = (i64::try_from(row).unwrap_or(0), self.numbers[0]);
            for (extent, factor) in own.iter().zip(&self.numbers[1..]).rev() {
                count = count.saturating_add((rest % extent).saturating_mul(*factor));
                rest /= extent;
            }
            elements.chunks_exact(size).zip(0..).all(|(element, place)| {
                let expected = if place < count { &self.inside } else { &self.outside };
                element == expected.as_slice()
            })
        })
    }

    /// Returns the elements at the beginning of rows and behind it, as a value of two.
    pub(crate) fn elements(&self, like: &Constant) -> Option<Constant> {
        let bytes: Vec<u8> = self.inside.iter().chain(&self.outside).copied().collect();
        Constant::new(like.dtype(), &[2], bytes).ok()
    }

    /// Returns the form of a value in all readings: the numbers as formulas, and that of the first
    /// reading.
    pub(crate) fn of_readings(ranges: &Ranges, all: &[&Constant]) -> Option<(Vec<Formula>, Self)> {
        let own: Vec<Self> = all.iter().map(|known| Self::of(known)).collect::<Option<_>>()?;
        let first = own.first()?.clone();
        let fits = |other: &Self| {
            other.numbers.len() == first.numbers.len() && other.inside == first.inside && other.outside == first.outside
        };
        if !own.iter().all(fits) {
            return None;
        }
        let formula = |index: usize| {
            let values: Vec<i64> = own.iter().map(|own| own.numbers[index]).collect();
            ranges.formula(&values).ok()
        };
        let formulas: Vec<Formula> = (0..first.numbers.len()).map(formula).collect::<Option<_>>()?;
        Some((formulas, first))
    }

    /// Returns true if a value for these extents has the form that those of the readings have.
    pub(super) fn follows(formulas: &[Formula], first: &Self, found: &Constant, extents: &[i64]) -> bool {
        let numbers: Option<Vec<i64>> = formulas.iter().map(|formula| formula.at(extents)).collect();
        let own = numbers.map(|numbers| Self { numbers, ..first.clone() });
        own.is_some_and(|own| found.shape().len() == own.numbers.len() && own.is(found))
    }
}

/// Returns how many elements at the beginning of each row are the first element of the value.
fn counts(known: &Constant) -> Option<Vec<i64>> {
    let size = element_bytes(known.dtype());
    let row_bytes = usize::try_from(*known.shape().last()?).ok()?.checked_mul(size)?;
    if row_bytes == 0 {
        return None;
    }
    let first = known.bytes().get(..size)?;
    let count = |row: &[u8]| row.chunks_exact(size).take_while(|element| *element == first).count();
    known.bytes().chunks_exact(row_bytes).map(|row| i64::try_from(count(row)).ok()).collect()
}

#[cfg(test)]
mod tests {
    use kernpack_compiler::ir::{BOOLEAN, F32};

    use super::{Constant, Threshold};

    fn mask(tokens: i64, past: i64) -> Constant {
        let words = tokens + past;
        let seen = (0..tokens).flat_map(|token| (0..words).map(move |word| u8::from(word <= past + token)));
        Constant::new(BOOLEAN, &[1, tokens, words], seen.collect::<Vec<u8>>()).unwrap()
    }

    #[test]
    fn causal_masks_have_this_form() {
        let found = Threshold::of(&mask(5, 3)).unwrap();
        assert_eq!(found, Threshold { numbers: vec![4, 0, 1], inside: vec![1], outside: vec![0] });
        // A single row that sees everything has no other element.
        assert_eq!(Threshold::of(&mask(1, 3)), None);
        let with_hole = Constant::new(BOOLEAN, &[1, 4], vec![1, 0, 1, 0]).unwrap();
        assert_eq!(Threshold::of(&with_hole), None);
        let other_steps = Constant::new(BOOLEAN, &[3, 4], vec![1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0]).unwrap();
        assert_eq!(Threshold::of(&other_steps), None);
        let floats: Vec<u8> = [0.0_f32, -1e9, 0.0, 0.0].iter().flat_map(|value| value.to_ne_bytes()).collect();
        let floats = Constant::new(F32, &[2, 2], floats).unwrap();
        assert_eq!(Threshold::of(&floats).unwrap().numbers, [1, 1]);
    }
}
