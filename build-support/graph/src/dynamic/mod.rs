//! Models with dynamic dimensions: they are read for several extents, and callers see one function.
//!
//! - [`sizes`]: a dimension has one of a few extents, each with a graph of its own;
//! - [`parts`]: a dimension has any extent up to a bound, and the model is computed in parts;
//! - [`ranges`]: several dimensions have any extents of a range each, with one graph for all;
//! - [`extent`]: the extents of the arguments, which follow from these.

mod extent;
mod parts;
mod ranges;
mod sizes;

pub use extent::{Extent, Extents, OpenDim};
pub use ranges::Formula;
pub(crate) use ranges::{Hidden, Threshold, same_nodes, whole};

use crate::error::Result;
use crate::graph::Graph;
use crate::options::ModelOptions;

/// Formats the names of open dimensions for people.
pub(crate) fn listed(named: &[String]) -> String {
    if named.is_empty() { "none with a name".to_owned() } else { named.join(", ") }
}

/// Reads a model for all extents of its dynamic dimensions. `named` are the dimensions that have
/// names in the model, and `read` reads it with the extents of its options.
///
/// # Errors
/// Returns the errors of `read`, and errors for invalid dimensions and extents.
pub(crate) fn read<T>(
    options: &ModelOptions,
    named: &[String],
    read: impl Fn(&ModelOptions) -> Result<(Graph, T)>,
) -> Result<(Graph, T)> {
    ranges::read(options, named, |options| sizes::read(options, named, |options| parts::read(options, named, &read)))
}
