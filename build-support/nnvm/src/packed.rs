//! NNVM for other languages: `kernpack.graph.build`, the graph executor, files with parameters,
//! passes.

use kernpack::{Any, Bytes, Map, Module, Result, Shape, Str, Tensor, error, packed_func};
use linkme::distributed_slice;

use super::build::{BuildOptions, options_of, params_map};
use super::executor::GraphExecutor;
use crate::symbol::GraphRef;
use crate::symbol::packed::passes;

fn built(graph: &GraphRef, target: &str, options: &BuildOptions) -> Result<(GraphRef, Module, Map<Str, Tensor>)> {
    let built = super::build(graph, target, options)?;
    Ok((built.graph, built.module, params_map(&built.params)))
}

/// Compiles a graph: shapes by name, types by name or one for all, parameters by name. Returns the
/// compiled graph, its module and the parameters that it takes.
#[packed_func(name = "kernpack.graph.build")]
fn build(
    graph: GraphRef,
    target: &str,
    shape: Map<Str, Shape>,
    dtype: Any,
    params: Map<Str, Tensor>,
) -> Result<(GraphRef, Module, Map<Str, Tensor>)> {
    built(&graph, target, &options_of(&shape, &dtype, &params)?)
}

/// Like `kernpack.graph.build`, with options: `opt_level` (0 to 3, the default is 2) and `add_pass`
/// (names of passes that run at every level).
#[packed_func(name = "kernpack.graph.build_with")]
fn build_with(
    graph: GraphRef,
    target: &str,
    shape: Map<Str, Shape>,
    dtype: Any,
    params: Map<Str, Tensor>,
    options: Map<Str, Any>,
) -> Result<(GraphRef, Module, Map<Str, Tensor>)> {
    let mut all = options_of(&shape, &dtype, &params)?;
    for (name, value) in options.iter() {
        match name.as_str() {
            "opt_level" => all.opt_level = Some(value.to()?),
            "add_pass" => all.add_pass = value.to()?,
            other => {
                return Err(error!(ValueError, "unknown option `{other}`: the options are opt_level and add_pass"));
            }
        }
    }
    built(&graph, target, &all)
}

/// Creates a graph executor from a compiled graph or its JSON, and its module. Its functions:
/// `set_input`, `run`, `get_output`, `load_params`, `node_times`, ..
#[packed_func(name = "kernpack.graph.executor.create")]
fn create(graph: Any, module: Module) -> Result<Module> {
    let graph: GraphRef = match graph.to::<String>() {
        Ok(text) => crate::symbol::load_json(&text)?,
        Err(_) => graph.to()?,
    };
    Ok(Module::new(GraphExecutor::new(&graph, &module)?))
}

/// Computes a graph that depends only on parameters.
#[packed_func(name = "kernpack.graph.run_graph")]
fn run_graph(graph: GraphRef, params: Map<Str, Tensor>) -> Result<Vec<Tensor>> {
    Ok(super::build::run_graph(&graph, &super::build::params_of(&params), "llvm")?)
}

/// Returns parameters as the bytes of a file.
#[packed_func(name = "kernpack.graph.save_param_dict")]
fn save_param_dict(params: Map<Str, Tensor>) -> Result<Bytes> {
    Ok(super::params::save(&params)?)
}

/// Loads the parameters of a file.
#[packed_func(name = "kernpack.graph.load_param_dict")]
fn load_param_dict(bytes: Bytes) -> Result<Map<Str, Tensor>> {
    Ok(super::params::load(&bytes)?)
}

/// Returns the contents of the compile cache: descriptions of kernels, and the number of requests
/// for each.
#[packed_func(name = "kernpack.graph.engine.items")]
fn engine_items() -> Map<Str, i64> {
    super::compile::cached().into_iter().map(|(key, uses)| (Str::from(key), uses)).collect()
}

/// Removes all kernels from the compile cache.
#[packed_func(name = "kernpack.graph.engine.clear")]
fn engine_clear() {
    super::compile::clear_cache();
}

passes! {
    /// Replaces nodes that only training needs: batch_norm by a scale and a shift, dropout by its
    /// input.
    SIMPLIFY simplify "SimplifyInference" "kernpack.graph.pass.SimplifyInference" [] [] super::simplify::simplify_inference;
    /// Differentiates entries by others.
    GRADIENT gradient "Gradient" "kernpack.graph.pass.Gradient" ["grad_ys", "grad_xs"] [] super::gradient::gradient;
    /// Joins nodes that compute the same.
    COMMON common "CommonSubExpression" "kernpack.graph.pass.CommonSubExpression" [] [] super::common_sub_expression::common_sub_expression;
    /// Moves factors by channel into weights.
    FOLD_SCALE fold_scale_axis "FoldScaleAxis" "kernpack.graph.pass.FoldScaleAxis" ["shape"] [] super::scale::fold_scale_axis;
    /// Moves nodes that depend only on parameters to a separate graph.
    PRECOMPUTE precompute "PrecomputePrune" "kernpack.graph.pass.PrecomputePrune" ["param_name_list"] [] super::precompute::precompute_prune;
    /// Determines the layouts of all entries, and changes them where an operator requires another
    /// one.
    CORRECT_LAYOUT correct_layout "CorrectLayout" "kernpack.graph.pass.CorrectLayout" [] ["layout"] super::correct_layout::correct_layout;
    /// Replaces operators by those in layouts of the target.
    ALTER_LAYOUT alter_op_layout "AlterOpLayout" "kernpack.graph.pass.AlterOpLayout" ["shape", "dtype"] [] super::correct_layout::alter_op_layout;
    /// Determines the nodes of each kernel.
    GROUPS groups "GraphFindFusibleGroups" "kernpack.graph.pass.GraphFindFusibleGroups" ["shape"] ["group_root", "group_master", "pattern"] super::fuse::find_fusible_groups;
    /// The same pass under its name in NNVM before TVM.
    PARTITION partition "GraphFusePartition" "kernpack.graph.pass.GraphFusePartition" ["shape"] ["group_root", "group_master", "pattern"] super::fuse::find_fusible_groups;
    /// Creates a graph of each group.
    FUSE fuse "GraphFuse" "kernpack.graph.pass.GraphFuse" ["group_root", "group_master", "pattern"] ["fused_entry"] super::fuse::fuse;
    /// Compiles the groups.
    COMPILE compile "GraphCompile" "kernpack.graph.pass.GraphCompile" ["shape", "dtype", "fused_entry"] ["module", "shape", "dltype", "storage_id"] super::compile::compile;
    /// Fuses and compiles, under the name in NNVM before TVM.
    FUSE_COMPILE fuse_compile "GraphFuseCompile" "kernpack.graph.pass.GraphFuseCompile" ["shape", "dtype", "group_root", "group_master", "pattern"] ["module"] fuse_and_compile;
    /// Determines the entries that share memory.
    PLAN_MEMORY plan_memory "PlanMemory" "kernpack.graph.pass.PlanMemory" ["shape", "dtype"] ["storage_id", "storage_inplace_index", "storage_allocated_bytes"] super::memory::plan_memory;
}

fn fuse_and_compile(graph: &GraphRef) -> kernpack_graph::Result<GraphRef> {
    super::compile::compile(&super::fuse::fuse(graph)?)
}
