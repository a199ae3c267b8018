//! The extents for which a model is read. Where all extents are multiples of a step, the rules
//! below are about the multiples.

use crate::graph::RangeDim;

/// The number of readings: one for the largest extents, and others that tell sums of products
/// apart.
const COUNT: usize = 5;
/// Parts of the largest extent, in percent. The last one is the least extent, or 2.
const PARTS: [i64; COUNT - 1] = [73, 41, 19, 0];
/// The part whose extent has small factors: a number that follows from a remainder of the extent,
/// such as the columns that are missing to an even number of them, is another one there than for
/// primes.
const COMPOSITE: i64 = 41;

/// Returns the extents of each reading, those of the first one the largest.
///
/// They are within the ranges, except if a range has too few extents. None is 1, because an extent
/// of 1 is broadcast. In each reading but the first they are different for each dimension. They are
/// spread over the ranges, so that a number that is a formula only for large or small extents is
/// noticed; one is a multiple of 12, or of 2, and the others are prime, where the range has such
/// extents. Every second dimension grows from reading to reading while the others become smaller,
/// so that the larger one of two dimensions is not the same in all readings.
pub(super) fn readings(dims: &[RangeDim]) -> Vec<Vec<i64>> {
    let mut columns: Vec<Vec<i64>> = Vec::new();
    for (number, dim) in dims.iter().enumerate() {
        let mut own = extents(dim);
        if number % 2 == 1 {
            own[1..].reverse();
        }
        own[1..].rotate_left(number / 2);
        let is_used = |reading: usize, extent: i64| columns.iter().any(|column| column[reading] == extent);
        let collides = |own: &[i64]| (1..COUNT).any(|reading| is_used(reading, own[reading]));
        for _ in 1..COUNT {
            if collides(&own) {
                own[1..].rotate_left(1);
            }
        }
        for reading in 1..COUNT {
            while is_used(reading, own[reading]) {
                own[reading] = own.iter().max().map_or(2 * dim.step, |largest| largest + dim.step);
            }
        }
        own[0] = own.iter().copied().max().unwrap_or(dim.most);
        columns.push(own);
    }
    (0..COUNT).map(|reading| columns.iter().map(|column| column[reading]).collect()).collect()
}

/// Returns different extents of a dimension, in descending order.
fn extents(dim: &RangeDim) -> Vec<i64> {
    let (mut own, most) = (Vec::new(), dim.most / dim.step);
    if most >= 2 {
        own.push(most);
    }
    let least = (dim.least / dim.step).max(2);
    for part in PARTS {
        let near = (i128::from(most) * i128::from(part) / 100).try_into().unwrap_or(most).max(least);
        // The next free one, first below and then above.
        let free = |extent: &i64| !own.contains(extent);
        let below = (least..=near).rev().take(64).filter(free);
        let above = (near..=most).take(64).filter(free);
        let wanted = if part == COMPOSITE {
            below.clone().find(|extent| extent % 12 == 0).or_else(|| below.clone().find(|extent| extent % 2 == 0))
        } else {
            below.clone().find(|extent| is_prime(*extent))
        };
        let found = wanted.or_else(|| below.chain(above).next());
        let found = found.or_else(|| (most.max(1) + 1..).find(free));
        own.extend(found);
    }
    let next = most.max(1) + 1;
    own.extend((next..).filter(|extent| !own.contains(extent)).take(COUNT - own.len()).collect::<Vec<_>>());
    own.sort_unstable_by(|a, b| b.cmp(a));
    own.iter().map(|unit| unit * dim.step).collect()
}

fn is_prime(number: i64) -> bool {
    number >= 2 && (2..number).take_while(|by| by * by <= number).all(|by| number % by != 0)
}

#[cfg(test)]
mod tests {
    use super::{COUNT, RangeDim, readings};

    fn of(ranges: &[(i64, i64)]) -> Vec<Vec<i64>> {
        let dim = |(least, most): &(i64, i64)| RangeDim { name: String::new(), least: *least, most: *most, step: 1 };
        readings(&ranges.iter().map(dim).collect::<Vec<_>>())
    }

    #[test]
    fn readings_are_different() {
        for ranges in [
            &[(1, 64), (1, 512)][..],
            &[(1, 8), (1, 8)],
            &[(1, 1), (1, 2), (3, 3)],
            &[(1, 4), (1, 4), (1, 4), (1, 4)],
            &[(500, 512), (1, (1 << 31) - 1)],
        ] {
            let found = of(ranges);
            assert_eq!(found.len(), COUNT);
            for (dim, (_, most)) in ranges.iter().enumerate() {
                let mut own: Vec<i64> = found.iter().map(|reading| reading[dim]).collect();
                assert!(own.iter().any(|extent| extent % 2 == 0) && own.iter().any(|extent| extent % 2 == 1));
                assert!(own[0] >= *most && own.iter().all(|extent| (2..=own[0]).contains(extent)), "{own:?}");
                own.sort_unstable();
                own.dedup();
                assert_eq!(own.len(), COUNT);
            }
            // The largest extents may be the same.
            let is_largest = |extent: &i64| ranges.iter().any(|(_, most)| most == extent);
            for reading in &found[1..] {
                let mut own: Vec<i64> = reading.iter().copied().filter(|extent| !is_largest(extent)).collect();
                let count = own.len();
                own.sort_unstable();
                own.dedup();
                assert_eq!(own.len(), count, "{found:?}");
            }
        }
        assert_eq!(of(&[(1, 64), (1, 512)])[0], [64, 512]);
        let dim = |least, most, step| RangeDim { name: String::new(), least, most, step };
        let found = readings(&[dim(32, 2048, 32), dim(8, 64, 8)]);
        assert_eq!(found[0], [2048, 64]);
        assert!(
            found.iter().all(|reading| reading[0] % 32 == 0 && reading[1] % 8 == 0 && reading[0] >= 64),
            "{found:?}"
        );
        assert!(found.iter().any(|reading| reading[0] % 64 != 0), "{found:?}");
    }
}
