//! The position of a dimension in a shape.

/// A result, or the reason why a model cannot be split, for a node.
pub(super) type Outcome<T = ()> = Result<T, &'static str>;

pub(super) const OTHERS: &str =
    "what it gives for one index of the dimension depends on more than the inputs at that index";
pub(super) const EXTENT: &str = "what it computes depends on the extent of the dimension itself";
pub(super) const STATEMENTS: &str = "it is computed as a whole, by statements";

/// The position of the dimension in a shape: the axis has `outer * extent * inner` indices, and
/// those with `(o * extent + i) * inner + r` belong to index `i` of the dimension.
///
/// In a tensor of `[batch, heads, ..]` that becomes `[batch * heads, ..]`, one index of the batch
/// has `heads` adjacent indices (`inner`); in one of `[length, batch, ..]` that becomes
/// `[length * batch, ..]`, it occurs once in each of `length` blocks (`outer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) axis: usize,
    pub(super) outer: i64,
    pub(super) inner: i64,
}

/// Returns the possible positions of the dimension in a shape, given the shapes for two of its
/// extents: none, or some of one axis. In the first one, the dimension is the outermost part.
///
/// # Errors
/// Returns an error for shapes that differ by more than the dimension.
pub(super) fn places(first: &[i64], a: i64, second: &[i64], b: i64) -> Outcome<Vec<Open>> {
    if first.len() != second.len() {
        return Err(EXTENT);
    }
    let mut axes = (0..first.len()).filter(|axis| first[*axis] != second[*axis]);
    let Some(axis) = axes.next() else { return Ok(Vec::new()) };
    let share = second[axis] / b;
    if axes.next().is_some() || share == 0 || second[axis] != share * b || first[axis] != share * a {
        return Err(EXTENT);
    }
    // The innermost position is next, because transposing and merging produce it.
    let divisors = (1..=share.min(MOST_TRIED)).filter(|inner| share % inner == 0 && *inner != share);
    let inner = core::iter::once(share).chain(divisors);
    Ok(inner.map(|inner| Open { axis, outer: share / inner, inner }).collect())
}

/// The maximum number of adjacent indices that are tried for one index of the dimension, if it is
/// not the whole axis.
const MOST_TRIED: i64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::{Open, places};

    #[test]
    fn places_in_an_axis() {
        let found = |first: &[i64], second: &[i64]| places(first, 31, second, 4);
        assert_eq!(found(&[5, 2], &[5, 2]), Ok(vec![]));
        assert_eq!(found(&[31, 2], &[4, 2]), Ok(vec![Open { axis: 0, outer: 1, inner: 1 }]));
        let all = [(1, 6), (6, 1), (3, 2), (2, 3)].map(|(outer, inner)| Open { axis: 1, outer, inner });
        assert_eq!(found(&[2, 186], &[2, 24]), Ok(all.to_vec()));
        for (first, second) in [(&[31, 31][..], &[4, 4][..]), (&[32], &[5]), (&[31, 1], &[4]), (&[31], &[0])] {
            assert!(found(first, second).is_err(), "{first:?} {second:?}");
        }
    }
}
