//! `kernpack.graph.build`: from a graph to a compiled graph, a module and parameters.

use std::collections::{BTreeMap, BTreeSet};

use kernpack::{Any, DataType, Map, Module, Shape, Str, Tensor};
use kernpack_graph::{Result, require};

use super::executor::GraphExecutor;
use crate::symbol::{Graph, GraphRef, IndexedGraph, Value, apply_passes, list_inputs};

/// The options for building a graph.
#[derive(Clone, Default)]
pub struct BuildOptions {
    /// Shapes of variables.
    pub shapes: BTreeMap<String, Vec<i64>>,
    /// Element types of variables.
    pub types: BTreeMap<String, DataType>,
    /// The type of all variables without another type.
    pub dtype: Option<DataType>,
    /// Parameters, by the names of variables.
    pub params: BTreeMap<String, Tensor>,
    /// 0 to 3; see [`PASS_LEVELS`]. `None` means 2.
    pub opt_level: Option<i64>,
    /// Passes that run at every level.
    pub add_pass: Vec<String>,
}

/// The minimum level of each pass.
pub const PASS_LEVELS: [(&str, i64); 5] =
    [("SimplifyInference", 0), ("OpFusion", 1), ("PrecomputePrune", 2), ("FoldScaleAxis", 3), ("AlterOpLayout", 3)];

/// A compiled graph.
pub struct Built {
    /// Nodes `tvm_op` with shapes, types and storage, in the form of the graph executor.
    pub graph: GraphRef,
    /// The kernels.
    pub module: Module,
    /// Parameters of the compiled graph: the given ones, and values computed from them.
    pub params: BTreeMap<String, Tensor>,
}

impl BuildOptions {
    fn wants(&self, pass: &str) -> bool {
        let level = self.opt_level.unwrap_or(2);
        self.add_pass.iter().any(|name| name == pass)
            || PASS_LEVELS.iter().any(|(name, least)| *name == pass && level >= *least)
    }

    /// Returns the graph with the known facts about its variables.
    fn described(&self, graph: &GraphRef, params: &BTreeMap<String, Tensor>) -> Result<GraphRef> {
        let names = list_inputs(graph)?;
        let mut shapes: BTreeMap<&str, Vec<i64>> =
            self.shapes.iter().map(|(name, shape)| (name.as_str(), shape.clone())).collect();
        let mut types: BTreeMap<&str, DataType> = BTreeMap::new();
        for name in &names {
            if let Some(dtype) = self.types.get(name).copied().or(self.dtype) {
                types.insert(name, dtype);
            }
        }
        for (name, tensor) in params {
            shapes.insert(name, tensor.shape().to_vec());
            types.insert(name, tensor.dtype());
        }
        let shapes: Map<Str, Shape> =
            shapes.into_iter().map(|(name, shape)| (Str::from(name), Shape::new(&shape))).collect();
        let types: Map<Str, DataType> = types.into_iter().map(|(name, dtype)| (Str::from(name), dtype)).collect();
        let level = self.opt_level.unwrap_or(2);
        let fused = if self.wants("OpFusion") { level.max(1) } else { 0 };
        Ok(graph.with_attr("shape_inputs", shapes).with_attr("dtype_inputs", types).with_attr("opt_level", fused))
    }
}

/// Compiles a graph for a target: `CorrectLayout`, inference, the passes of the level, fusion,
/// kernels.
///
/// # Errors
/// Returns the error of a pass or a kernel, with the name of the node.
pub fn build(graph: &GraphRef, target: &str, options: &BuildOptions) -> Result<Built> {
    let names = list_inputs(graph)?;
    let unknown: Vec<&str> =
        options.shapes.keys().map(String::as_str).filter(|name| !names.iter().any(|own| own == name)).collect();
    require!(unknown.is_empty(), "shapes are given for {}; the variables are {}", unknown.join(", "), names.join(", "));
    // With two variables of one name, the name would be ambiguous.
    let mut sorted = names.clone();
    sorted.sort();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        kernpack_graph::fail!("two variables are called '{}': give each a name of its own", pair[0]);
    }
    let mut params = options.params.clone();
    params.retain(|name, _| names.contains(name));
    let mut graph = options.described(graph, &params)?.with_attr("target", target);
    graph = apply_passes(&graph, &["InferShape", "InferType", "CorrectLayout"])?;
    graph = options.described(&graph, &params)?;
    if options.wants("AlterOpLayout") {
        graph = apply_passes(&graph, &["InferShape", "InferType", "AlterOpLayout"])?;
        graph = apply_passes(&options.described(&graph, &params)?, &["CorrectLayout"])?;
        graph = options.described(&graph, &params)?;
    }
    if options.wants("SimplifyInference") {
        graph = apply_passes(&graph, &["InferShape", "SimplifyInference"])?;
    }
    if options.wants("FoldScaleAxis") {
        graph = apply_passes(&options.described(&graph, &params)?, &["InferShape", "FoldScaleAxis"])?;
    }
    graph = options.described(&graph, &params)?;
    retain_inputs(&mut params, &graph)?;
    if options.wants("PrecomputePrune") && !params.is_empty() {
        let list = params.keys().map(|name| Str::from(name.as_str())).collect::<kernpack::Array<Str>>();
        graph = apply_passes(&graph.with_attr("param_name_list", list), &["PrecomputePrune"])?;
        if let Ok(before) = graph.attr::<GraphRef>("precompute_graph") {
            let names: Vec<String> = graph.attr("output_names")?;
            for (name, tensor) in names.iter().zip(run_graph(&before, &params, target)?) {
                params.insert(name.clone(), tensor);
            }
        }
        retain_inputs(&mut params, &graph)?;
        graph = graph.without_attrs(&["precompute_graph", "output_names", "param_name_list"]);
    }
    let graph = options.described(&graph, &params)?.with_attr("target", target);
    complete(&graph)?;
    let compiled = apply_passes(
        &graph,
        &["OrderMutation", "InferShape", "InferType", "GraphFindFusibleGroups", "GraphFuse", "GraphCompile"],
    )?;
    let module: Module = compiled.attr("module")?;
    // Kernels need not read all inputs of their nodes: that of zeros_like only has a shape.
    retain_inputs(&mut params, &compiled)?;
    Ok(Built { graph: compiled.without_attrs(&["module"]), module, params })
}

/// Removes the parameters that are not inputs of a graph.
fn retain_inputs(params: &mut BTreeMap<String, Tensor>, graph: &Graph) -> Result<()> {
    let names: BTreeSet<String> = list_inputs(graph)?.into_iter().collect();
    params.retain(|name, _| names.contains(name));
    Ok(())
}

/// Returns an error unless everything that kernels need is known.
fn complete(graph: &Graph) -> Result<()> {
    let index = IndexedGraph::new(graph)?;
    crate::symbol::infer::complete(graph, &index).map(drop)
}

/// Computes a graph that depends only on parameters.
///
/// # Errors
/// As for [`build`].
pub fn run_graph(graph: &GraphRef, params: &BTreeMap<String, Tensor>, target: &str) -> Result<Vec<Tensor>> {
    // Outputs that are variables are not results of kernels.
    let values: Vec<Value> = graph.values();
    let options = BuildOptions { params: params.clone(), opt_level: Some(1), ..BuildOptions::default() };
    let built = build(&Graph::new(&values), host_part(target), &options)?;
    let executor = GraphExecutor::new(&built.graph, &built.module)?;
    for (name, tensor) in &built.params {
        executor.set_input(executor.input_number(name)?, tensor, false)?;
    }
    executor.run()?;
    (0..values.len()).map(|number| Ok(executor.output(number)?.to(kernpack::Device::CPU)?)).collect()
}

/// Parameters are computed on the host, whatever the target is.
fn host_part(target: &str) -> &str {
    if target.starts_with("llvm") && !target.contains("-mtriple") { target } else { "llvm" }
}

/// Converts names and tensors from another language.
pub(super) fn params_of(params: &Map<Str, Tensor>) -> BTreeMap<String, Tensor> {
    params.iter().map(|(name, tensor)| (name.as_str().to_owned(), tensor)).collect()
}

/// Converts parameters for another language, sorted by name.
pub(super) fn params_map(params: &BTreeMap<String, Tensor>) -> Map<Str, Tensor> {
    params.iter().map(|(name, tensor)| (Str::from(name.as_str()), tensor.clone())).collect()
}

/// Reads options from another language: `shape` by name, `dtype` by name or one for all.
///
/// # Errors
/// Returns an error if `dtype` is neither.
pub(super) fn options_of(shape: &Map<Str, Shape>, dtype: &Any, params: &Map<Str, Tensor>) -> Result<BuildOptions> {
    let mut options = BuildOptions { params: params_of(params), ..BuildOptions::default() };
    options.shapes = shape.iter().map(|(name, shape)| (name.as_str().to_owned(), shape.to_vec())).collect();
    if let Ok(by_name) = dtype.to::<Map<Str, Any>>() {
        for (name, value) in by_name.iter() {
            if let Some(dtype) = crate::symbol::infer::type_of(&value)? {
                options.types.insert(name.as_str().to_owned(), dtype);
            }
        }
    } else {
        options.dtype = crate::symbol::infer::type_of(dtype)?;
    }
    Ok(options)
}
