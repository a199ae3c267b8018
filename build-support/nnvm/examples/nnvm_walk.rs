//! Runs a graph through NNVM's passes, one after the other, and prints the graph after each:
//! `cargo run -p kernpack-nnvm --example nnvm_walk`.
//!
//! These are the steps that `kernpack.graph.build` runs in one call: correct layouts, initialize
//! parameters, simplify, compute values that depend only on parameters, fuse, lower, build, save
//! the parameters, run.

use std::collections::BTreeMap;
use std::error::Error;

use kernpack::{Any, Array, Map, Module, ObjRef, Shape, Str, Tensor};
use kernpack_nnvm as nnvm;
use kernpack_nnvm::symbol::{self, GraphRef, IndexedGraph, Value};
use kernpack_nnvm::{FusedEntry, GraphExecutor};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A convolution with a norm, pooling, and a classifier.
fn network() -> Outcome<GraphRef> {
    let first = |values: Vec<Value>| values.into_iter().take(1).collect::<Vec<_>>();
    let data = vec![Value::variable("data")];
    let attrs = [("channels", "8"), ("kernel_size", "(3, 3)"), ("padding", "(1, 1)"), ("use_bias", "False")];
    let conv = symbol::apply("conv2d", "conv", &data, &attrs)?;
    let norm = first(symbol::apply("batch_norm", "norm", &conv, &[("epsilon", "2e-05")])?);
    let relu = symbol::apply("relu", "relu", &norm, &[])?;
    let pool = symbol::apply("max_pool2d", "pool", &relu, &[("pool_size", "(2, 2)"), ("strides", "(2, 2)")])?;
    let flat = symbol::apply("flatten", "flat", &pool, &[])?;
    let dense = symbol::apply("dense", "fc", &flat, &[("units", "10")])?;
    Ok(symbol::graph_of(&symbol::apply("softmax", "prob", &dense, &[])?))
}

/// Adds the known facts about its variables to a graph.
fn described(graph: &GraphRef, params: &BTreeMap<String, Tensor>) -> GraphRef {
    let mut shapes = vec![(Str::from("data"), Shape::new(&[1, 3, 16, 16]))];
    shapes.extend(params.iter().map(|(name, tensor)| (Str::from(name.as_str()), Shape::new(tensor.shape()))));
    let names = symbol::list_inputs(graph).unwrap_or_default();
    let types = names.into_iter().map(|name| (Str::from(name), Any::from("float32")));
    graph
        .with_attr("shape_inputs", shapes.into_iter().collect::<Map<Str, Shape>>())
        .with_attr("dtype_inputs", types.collect::<Map<Str, Any>>())
        .with_attr("target", "llvm")
}

/// Returns small numbers that are the same in each run. Variances are positive.
fn initialized(graph: &GraphRef) -> Outcome<BTreeMap<String, Tensor>> {
    let shapes: Vec<Shape> = graph.attr("shape")?;
    let index = IndexedGraph::new(graph)?;
    let mut params = BTreeMap::new();
    for number in index.variables() {
        let name = index.nodes[number].node.name.as_str();
        if name == "data" {
            continue;
        }
        let shape = &shapes[index.row_ptr[number]];
        let count = shape.iter().product::<i64>();
        let least = if name.ends_with("var") { 0.5 } else { -0.1 };
        let values: Vec<f32> = (0..count).map(|place| (place * 29 % 41) as f32 / 200.0 + least).collect();
        params.insert(name.to_owned(), Tensor::from_slice(&values, shape)?);
    }
    Ok(params)
}

fn show(what: &str, graph: &GraphRef) -> Outcome<()> {
    println!("== {what}\n{}\n", symbol::print(graph)?);
    Ok(())
}

fn main() -> Outcome<()> {
    let none = BTreeMap::new();
    let graph = described(&network()?, &none);
    show("the graph", &graph)?;

    let graph = symbol::apply_passes(&graph, &["InferShape", "InferType", "CorrectLayout"])?;
    let layouts: Vec<String> = graph.attr("layout")?;
    println!("== layouts after CorrectLayout\n{}\n", layouts.join(" "));

    let graph = symbol::apply_passes(&described(&graph, &none), &["InferShape", "InferType"])?;
    show("shapes and types", &graph)?;
    let mut params = initialized(&graph)?;
    println!("== parameters\n{}\n", params.keys().cloned().collect::<Vec<_>>().join(" "));

    let graph = symbol::apply_passes(&graph, &["SimplifyInference"])?;
    show("after SimplifyInference", &graph)?;

    let graph = symbol::apply_passes(&described(&graph, &params), &["InferShape", "FoldScaleAxis"])?;
    show("after FoldScaleAxis", &graph)?;

    let names: Array<Str> = params.keys().map(|name| Str::from(name.as_str())).collect();
    let graph =
        symbol::apply_passes(&described(&graph, &params).with_attr("param_name_list", names), &["PrecomputePrune"])?;
    let before: GraphRef = graph.attr("precompute_graph")?;
    show("what depends on parameters alone", &before)?;
    let names: Vec<String> = graph.attr("output_names")?;
    for (name, tensor) in names.into_iter().zip(nnvm::run_graph(&before, &params, "llvm")?) {
        params.insert(name, tensor);
    }
    let left = symbol::list_inputs(&graph)?;
    params.retain(|name, _| left.contains(name));
    let graph = graph.without_attrs(&["precompute_graph", "output_names", "param_name_list"]);
    show("what is left", &graph)?;

    let passes = ["InferShape", "InferType", "GraphFindFusibleGroups", "GraphFuse"];
    let graph = symbol::apply_passes(&described(&graph, &params), &passes)?;
    println!("== groups");
    for entry in graph.attr::<Vec<Any>>("fused_entry")? {
        if let Ok(entry) = entry.to::<ObjRef<FusedEntry>>() {
            println!("{}\n", symbol::print(&entry.subgraph)?);
        }
    }

    let graph = symbol::apply_passes(&graph, &["GraphCompile"])?;
    let module: Module = graph.attr("module")?;
    let graph = graph.without_attrs(&["module"]);
    println!("== the compiled graph\n{}\n", symbol::save_json(&graph)?);
    println!("== functions of the module\n{}\n", module.function_names().join("\n"));
    let text = module.inspect_source("ll")?;
    println!("== LLVM IR: {} lines, of which the first ones are", text.lines().count());
    println!("{}\n", text.lines().take(5).collect::<Vec<_>>().join("\n"));

    let own: Map<Str, Tensor> =
        params.iter().map(|(name, tensor)| (Str::from(name.as_str()), tensor.clone())).collect();
    let bytes = nnvm::save_params(&own)?;
    println!("== parameters: {} bytes", bytes.len());

    let executor = GraphExecutor::new(&graph, &module)?;
    executor.load_params(&bytes)?;
    let pixels: Vec<f32> = (0..3 * 16 * 16).map(|place| (place % 17) as f32 / 17.0).collect();
    executor.set_input(executor.input_number("data")?, &Tensor::from_slice(&pixels, &[1, 3, 16, 16])?, true)?;
    executor.run()?;
    let scores = executor.output(0)?.view::<f32>()?.to_vec();
    println!("== scores\n{scores:.4?}");
    let total: f32 = scores.iter().sum();
    if (total - 1.0).abs() > 1e-5 {
        return Err(format!("the scores sum to {total}").into());
    }
    println!("\n== seconds");
    for (name, time) in executor.node_times(10)? {
        println!("{time:.2e} {name}");
    }
    Ok(())
}
