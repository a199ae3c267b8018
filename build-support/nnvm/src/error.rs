//! Errors are those of models, with the place in the graph.

pub(crate) use kernpack_graph::shared::{fail, require};
pub(crate) use kernpack_graph::{GraphError, Result};
