//! NNVM's graphs: built, inferred, compiled, run.

#[path = "nnvm/build.rs"]
mod build;
#[path = "nnvm/gradient.rs"]
mod gradient;
#[path = "nnvm/graph.rs"]
mod graph;
#[path = "nnvm/inference.rs"]
mod inference;
#[path = "nnvm/layout.rs"]
mod layout;
#[path = "nnvm/operators.rs"]
mod operators;
#[path = "nnvm/support.rs"]
mod support;
#[path = "nnvm/table.rs"]
mod table;
#[path = "nnvm/vision.rs"]
mod vision;
