//! Models with a dynamic dimension: they are computed in parts of fixed sizes.
//!
//! A batch is such a dimension: the output of a model for one index of it depends only on the
//! inputs at that index. So for 7 rows, a model of 64 rows gives the same results as a model of 4
//! rows for rows 0 to 3 and for rows 3 to 6. [`proof`] verifies this. If it cannot be proven for a
//! model, the model is rejected, and the error names the node.

mod live;
mod open;
mod proof;
mod rows;
mod statements;

use std::sync::Arc;

use crate::error::{Fix, GraphError, Result, require};
use crate::graph::{Graph, Parts};
use crate::options::ModelOptions;

/// The sizes of parts, largest first.
const SIZES: [i64; 4] = [64, 16, 4, 1];

/// The maximum extent of a dimension.
const MOST: i64 = (1 << 31) - 1;

/// Reads a model for each size of its parts, if the build script declares a dynamic dimension.
/// `read` reads it with the extents of its options.
///
/// # Errors
/// Returns the errors of `read`, and errors for a dimension that the model does not have, or that
/// it cannot be split along, and for an invalid bound.
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
        crate::dynamic::listed(named)
    );
    let of = |size: i64| -> Result<(Graph, T)> {
        let mut fixed = options.clone();
        fixed.up_to.clear();
        fixed.dims.insert(dim.clone(), size);
        let (mut graph, other) = read(&fixed)?;
        graph.drop_dead_nodes();
        Ok((graph, other))
    };
    let sizes: Vec<i64> = SIZES.into_iter().filter(|size| size <= most).collect();
    let (mut graph, other) = of(sizes[0])?;
    // An extent that no axis has by chance, and that gives different results in computations than
    // small ones.
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
