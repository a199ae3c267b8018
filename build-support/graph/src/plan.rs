//! Assigns values to places in one arena.
//!
//! The largest value is placed first, at the lowest offset that is free during its lifetime: the
//! greedy-by-size order of arXiv 2001.03288.

/// The alignment of offsets: a cache line, and the widest vector.
pub const ALIGNMENT: usize = 64;

/// A value that needs memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The number of bytes.
    pub bytes: usize,
    /// The step that writes it.
    pub first: usize,
    /// The last step that reads it.
    pub last: usize,
}

/// Rounds bytes up to the alignment.
pub fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Returns the offset of each value, and the size of the arena in bytes.
pub fn plan(needs: &[Need]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by_key(|index| (core::cmp::Reverse(needs[*index].bytes), needs[*index].first));
    let mut offsets = vec![0; needs.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut total = 0;
    for index in order {
        let need = needs[index];
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|other| needs[**other].first <= need.last && need.first <= needs[**other].last)
            .map(|other| (offsets[*other], offsets[*other] + aligned(needs[*other].bytes)))
            .collect();
        taken.sort_unstable();
        let mut offset = 0;
        for (begin, end) in taken {
            if offset + aligned(need.bytes) <= begin {
                break;
            }
            offset = offset.max(end);
        }
        offsets[index] = offset;
        total = total.max(offset + aligned(need.bytes));
        placed.push(index);
    }
    (offsets, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_needs_two_of_its_values() {
        let needs: Vec<Need> = (0..10).map(|step| Need { bytes: 100, first: step, last: step + 1 }).collect();
        assert_eq!(plan(&needs).1, 256);
    }

    #[test]
    fn values_that_live_together_do_not_overlap() {
        // A fixed stream of numbers: arbitrarily many different needs, the same in each run.
        let mut state = 1_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((state >> 33) % below).unwrap()
        };
        for _ in 0..50 {
            let needs: Vec<Need> = (0..40)
                .map(|_| {
                    let first = next(30);
                    Need { bytes: 1 + next(5000), first, last: first + next(8) }
                })
                .collect();
            let (offsets, total) = plan(&needs);
            for (a, one) in needs.iter().enumerate() {
                assert!(offsets[a] % ALIGNMENT == 0 && offsets[a] + one.bytes <= total);
                for (b, other) in needs.iter().enumerate().skip(a + 1) {
                    let together = one.first <= other.last && other.first <= one.last;
                    let apart = offsets[a] + one.bytes <= offsets[b] || offsets[b] + other.bytes <= offsets[a];
                    assert!(!together || apart, "{one:?} at {} and {other:?} at {}", offsets[a], offsets[b]);
                }
            }
        }
    }
}
