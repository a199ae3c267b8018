//! Models with a dimension that each call tells: they are computed in parts of fixed sizes.
//!
//! A batch is such a dimension: what a model gives for one index of it depends on the inputs at that index alone. So a model of 64 rows gives for 7 rows what a model of 4 gives
//! for rows 0 to 3 and for rows 3 to 6. [`proof`] makes sure that this is so; a model of which it is not known is refused, and the node is named.

mod open;
mod proof;
mod rows;

use std::sync::Arc;

use crate::error::{Fix, GraphError, Result, require};
use crate::graph::{Graph, Parts};
use crate::options::ModelOptions;

/// The sizes of parts, largest first.
const SIZES: [i64; 4] = [64, 16, 4, 1];

/// The largest extent that a dimension may be given.
const MOST: i64 = (1 << 31) - 1;

/// Reads a model for each size of its parts, if the build script says that a dimension is told by each call; `read` reads it with the extents of its options.
///
/// # Errors
/// Those of `read`; a dimension that the model does not have, or cannot be cut along; a bound that is none.
pub(crate) fn read<T>(
    options: &ModelOptions,
    named: &[String],
    read: impl Fn(&ModelOptions) -> Result<(Graph, T)>,
) -> Result<(Graph, T)> {
    let mut all = options.up_to.iter();
    let Some((dim, most)) = all.next() else { return read(options) };
    if let Some((other, _)) = all.next() {
        let what = format!("each call can tell one dimension, and not both '{dim}' and '{other}'");
        return Err(GraphError::new(what).fix(&Fix::Extents(other.clone())));
    }
    require!((1..=MOST).contains(most), "the bound of the dimension '{dim}' is {most}, and has to be 1 to {MOST}");
    require!(
        !options.dims.contains_key(dim),
        "the dimension '{dim}' is given an extent and a bound: one of them is enough"
    );
    require!(
        named.contains(dim),
        "the model has no dimension '{dim}' that is open; it has: {}",
        if named.is_empty() { "none with a name".to_owned() } else { named.join(", ") }
    );
    let of = |size: i64| {
        let mut fixed = options.clone();
        fixed.up_to.clear();
        fixed.dims.insert(dim.clone(), size);
        read(&fixed)
    };
    let sizes: Vec<i64> = SIZES.into_iter().filter(|size| size <= most).collect();
    let (mut graph, other) = of(sizes[0])?;
    // An extent that no axis has by chance, and that is not computed with the same result as small ones.
    let probe = next_prime((*most).clamp(31, 127));
    let (reference, _) = of(probe)?;
    let shares = proof::shares(dim, (&reference, probe), (&graph, sizes[0]))?;
    require!(shares[..graph.inputs.len()].contains(&1), "no input that is a tensor has the dimension '{dim}'");
    let mut smaller = Vec::new();
    for size in &sizes[1..] {
        let (mut made, _) = of(*size)?;
        made.share_known(&graph);
        proof::shares(dim, (&reference, probe), (&made, *size))?;
        smaller.push((*size, made));
    }
    graph.parts = Some(Arc::new(Parts { dim: dim.clone(), most: *most, size: sizes[0], shares, smaller }));
    Ok((graph, other))
}

fn next_prime(least: i64) -> i64 {
    (least..).find(|number| (2..*number).take_while(|by| by * by <= *number).all(|by| number % by != 0)).unwrap_or(127)
}

#[cfg(test)]
mod tests {
    #[test]
    fn primes() {
        assert_eq!([31, 32, 64, 127].map(super::next_prime), [31, 37, 67, 127]);
    }
}
