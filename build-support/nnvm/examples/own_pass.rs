//! A pass of another crate: registered, and applied by its name.
//! `cargo run -p kernpack-nnvm --example own_pass`

use kernpack_nnvm::GraphError;
use kernpack_nnvm::symbol::pass::{PASSES, PassInfo};
use kernpack_nnvm::symbol::{self, GraphRef, IndexedGraph, Value};

#[linkme::distributed_slice(PASSES)]
static COUNT: PassInfo = PassInfo {
    name: "own.Count",
    doc: "Counts the nodes that have operators.",
    requires: &["shape"],
    provides: &["count"],
    run: count,
};

fn count(graph: &GraphRef) -> Result<GraphRef, GraphError> {
    let index = IndexedGraph::new(graph)?;
    let count = index.nodes.iter().filter(|node| node.node.op.is_some()).count();
    Ok(graph.with_attr("count", i64::try_from(count).unwrap_or(i64::MAX)))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = symbol::graph_of(&symbol::apply("relu", "relu", &[Value::variable("x")], &[])?);
    if let Err(error) = symbol::apply_passes(&graph, &["own.Count"]) {
        println!("{error}");
    }
    let graph = symbol::apply_passes(&graph, &["InferShape", "own.Count"])?;
    println!("{}", graph.attr::<i64>("count")?);
    Ok(())
}
