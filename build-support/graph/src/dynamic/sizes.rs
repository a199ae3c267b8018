//! Models that are compiled for several extents of a dynamic dimension, such as the length of a
//! text, or the size of an image. Each call has one of them.
//!
//! Each extent has a separate graph, with everything that follows from the extent. Callers see one
//! function. Each of these graphs may be split along another dimension, too ([`super::parts`]).

use std::sync::Arc;

use crate::constant::Constant;
use crate::error::{Fix, GraphError, Result, require};
use crate::graph::{Graph, Sizes, ValueId};
use crate::names::argument_names;
use crate::options::ModelOptions;

/// The maximum number of extents of a dimension: each has separate code.
const MOST: usize = 64;

/// Reads a model for each extent of a dimension with several extents in the build script. `read`
/// reads it with the extents of its options.
///
/// # Errors
/// Returns the errors of `read`, and errors for a dimension that the model does not have, for
/// invalid extents, and for a model whose arguments differ between extents.
pub(crate) fn read<T>(
    options: &ModelOptions,
    named: &[String],
    read: impl Fn(&ModelOptions) -> Result<(Graph, T)>,
) -> Result<(Graph, T)> {
    let mut all = options.dims_in.iter();
    let Some((dim, extents)) = all.next() else { return read(options) };
    if let Some((other, _)) = all.next() {
        let what = format!("one dimension can have several extents, and not both '{dim}' and '{other}'");
        return Err(GraphError::new(what).fix(&Fix::Extent(other.clone())));
    }
    check(options, named, dim, extents)?;
    let of = |size: i64| {
        let mut fixed = options.clone();
        fixed.dims_in.clear();
        fixed.dims.insert(dim.clone(), size);
        read(&fixed)
    };
    let mut sizes = extents.clone();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let (mut graph, other) = of(sizes[0])?;
    if sizes.len() == 1 {
        return Ok((graph, other));
    }
    let mut others = Vec::new();
    for size in &sizes[1..] {
        let (mut made, _) = of(*size)?;
        made.share_known(&graph);
        same_arguments((&graph, sizes[0]), (&made, *size)).map_err(|what| {
            let what = format!("for other extents of '{dim}' the model has other arguments: {what}");
            GraphError::new(what).fix(&Fix::Extent(dim.clone()))
        })?;
        others.push((*size, made));
    }
    graph.sizes = Some(Arc::new(Sizes { dim: dim.clone(), size: sizes[0], others }));
    Ok((graph, other))
}

fn check(options: &ModelOptions, named: &[String], dim: &str, extents: &[i64]) -> Result<()> {
    require!(!extents.is_empty(), "the dimension '{dim}' is given no extent");
    require!(
        extents.len() <= MOST,
        "the dimension '{dim}' is given {} extents, and can have {MOST}: each has code of its own",
        extents.len()
    );
    for (place, extent) in extents.iter().enumerate() {
        require!(*extent >= 1, "an extent of the dimension '{dim}' is {extent}, and has to be 1 or more");
        require!(!extents[..place].contains(extent), "the dimension '{dim}' is given the extent {extent} twice");
    }
    require!(
        !options.dims.contains_key(dim) && !options.up_to.contains_key(dim),
        "the dimension '{dim}' is given one extent or a bound, and a list of extents: one of them is enough"
    );
    require!(
        named.iter().any(|name| name == dim),
        "the model has no dimension '{dim}' that is open; it has: {}",
        super::listed(named)
    );
    Ok(())
}

/// Returns the difference between the arguments of two graphs other than their extents.
fn same_arguments((a, a_size): (&Graph, i64), (b, b_size): (&Graph, i64)) -> core::result::Result<(), String> {
    let outputs = |graph: &Graph| -> Vec<(String, ValueId)> { graph.outputs.clone() };
    let inputs = |graph: &Graph| -> Vec<(String, ValueId)> {
        graph.inputs.iter().map(|id| (graph.values[*id].name.clone(), *id)).collect()
    };
    let is_cut = |graph: &Graph| -> Vec<bool> {
        graph.parts.iter().flat_map(|parts| parts.shares.iter().map(|share| *share > 0)).collect()
    };
    for (kind, first, second) in [("input", inputs(a), inputs(b)), ("output", outputs(a), outputs(b))] {
        if first.len() != second.len() {
            return Err(format!("{} {kind}s with {a_size}, {} with {b_size}", first.len(), second.len()));
        }
        for ((name, one), (other_name, other)) in first.iter().zip(&second) {
            let of = |graph: &Graph, id: ValueId| {
                let value = &graph.values[id];
                (value.dtype, value.shape.len(), graph.extents.contains_key(&id))
            };
            if name != other_name || of(a, *one) != of(b, *other) {
                let shown = |graph: &Graph, name: &str, id: ValueId| {
                    let value = &graph.values[id];
                    format!("'{name}' {}{:?}", value.dtype, value.shape)
                };
                return Err(format!(
                    "{kind} {} with {a_size}, {} with {b_size}",
                    shown(a, name, *one),
                    shown(b, other_name, *other)
                ));
            }
        }
    }
    let (first, second) = (is_cut(a), is_cut(b));
    if let Some(number) = (0..first.len()).find(|number| first[*number] != second[*number]) {
        let name = &argument_names(a)[number];
        return Err(format!(
            "'{name}' has the dimension that it is cut along with {} only",
            if first[number] { a_size } else { b_size }
        ));
    }
    Ok(())
}

impl Graph {
    /// Reuses the memory of another graph for tensors that both have under the same name, so that
    /// only one copy of the weights is in memory.
    pub(crate) fn share_known(&mut self, other: &Graph) {
        let known: std::collections::HashMap<&str, &Constant> =
            other.values.iter().filter_map(|value| Some((value.name.as_str(), value.known.as_ref()?))).collect();
        for value in &mut self.values {
            if let Some(own) = &mut value.known
                && let Some(shared) = known.get(value.name.as_str())
                && own == *shared
            {
                own.clone_from(shared);
            }
        }
    }
}
