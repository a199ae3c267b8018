//! Symbolic graphs, extensible with operators and passes of every language.
//!
//! A [`Graph`] has the structure of NNVM's: outputs that lead to [`Node`]s, and attributes by name.
//! Nodes, edges and graphs are objects (`kernpack.graph.Node`, `.NodeEntry`, `.Graph`), so that
//! every language builds, reads, prints and compares them. Operators are registered ([`registry`]),
//! with columns of attributes that any crate may add. [`pass`]es have names, and declare the
//! attributes of a graph that they require and provide.
//!
//! ```
//! use kernpack_nnvm::symbol::{self, Value};
//!
//! let x = Value::variable("x");
//! let y = symbol::apply("relu", "", &[x], &[("__doc__", "no negative numbers")])?;
//! let graph = symbol::graph_of(&y);
//! assert_eq!(symbol::list_inputs(&graph)?, ["x"]);
//! let json = symbol::save_json(&graph)?;
//! let again = symbol::load_json(&json)?;
//! assert_eq!(symbol::save_json(&again)?, json);
//! # Ok::<(), kernpack_graph::GraphError>(())
//! ```

pub mod attr;
mod compose;
mod equal;
mod index;
pub mod infer;
mod json;
mod json_text;
mod native;
mod node;
mod order;
pub(crate) mod packed;
pub mod pass;
mod place_device;
mod print;
pub mod registry;
mod rewrite;

pub use attr::{Kind, Param};
pub(crate) use compose::written;
pub use compose::{
    apply, apply_named, compose, fresh_name, graph_of, group, internals, list_inputs, list_outputs, mutated,
};
pub use equal::difference;
pub(crate) use index::address;
pub use index::{Entry, IndexedGraph, IndexedNode};
pub use json::{load as load_json, save as save_json};
pub use native::{Compute, Gradient, InferShape, InferType, LayoutCall, Native, Pairs, PartialShape};
pub use node::{Graph, GraphRef, Node, NodeEntry, NodeRef, Typed, Value};
pub use pass::apply as apply_passes;
pub use print::print;
pub use registry::{Arity, Op, OpRef, Use};
pub use rewrite::rewrite;
