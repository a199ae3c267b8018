//! Modules, functions and targets.

use kernpack::{Any, Map, Module, Str};
use kernpack_compiler::codegen::{Target, c};
use kernpack_compiler::ir::{FuncKind, IrModule, IrModuleNode, LoweredFunc, LoweredFuncNode, Param, ParamNode, Var};
use kernpack_compiler::{Result, build};
use serde_json::Value;

use crate::graph::{Graph, problem};

/// Compiles a graph for a target, both as JSON.
///
/// # Errors
/// An unknown node, and errors of the code generator.
pub fn build_json(graph: &str, target_text: &str) -> Result<Module> {
    let parse = |text: &str| serde_json::from_str::<Value>(text).map_err(|error| problem(format!("no JSON: {error}")));
    build(module(&parse(graph)?)?, &target(&parse(target_text)?)?)
}

/// The target of an entry, from triple, CPU and features in its JSON.
///
/// # Errors
/// A target that is not for LLVM.
pub fn target(target: &Value) -> Result<Target> {
    if target["kind"] != "llvm" {
        return Err(problem(format!("a target of kind {}", target["kind"])));
    }
    let text = |name: &str| target[name].as_str().unwrap_or_default();
    let features: Vec<&str> = target["mattr"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let host = Target::llvm("x86_64-unknown-linux-gnu", "", "");
    let triple = if text("mtriple").is_empty() { host.triple.as_str() } else { text("mtriple") };
    Ok(Target::llvm(triple, text("mcpu"), &features.join(",")))
}

/// The module of a graph.
///
/// # Errors
/// An unknown node.
pub fn module(graph: &Value) -> Result<IrModule> {
    let nodes = graph["nodes"].as_array().ok_or_else(|| problem("a graph without nodes"))?;
    let root = graph["root_index"].as_u64().and_then(|root| usize::try_from(root).ok());
    let root = root.ok_or_else(|| problem("a graph without a root"))?;
    let mut graph = Graph::new(nodes);
    if graph.key(root)? != "ir.IRModule" {
        return Err(problem(format!("the root is {}, no module", graph.key(root)?)));
    }
    let functions = graph.array(graph.field(root, "functions")?)?;
    for pair in functions.chunks_exact(2) {
        let name = graph.text(pair[0])?;
        let function = graph.function(&name, pair[1])?;
        graph.functions.push(function);
    }
    let mut attrs: Vec<(Str, Any)> = Vec::new();
    if let Some(list) = graph.optional(root, "attrs")? {
        for (key, value) in graph.map(graph.field(list, "__dict__")?)? {
            if key == "system_lib_prefix" && graph.key(value)? != "None" {
                attrs.push((key.into(), Str::from(graph.text(value)?).into()));
            }
        }
    }
    let functions = graph.functions.into_iter().collect();
    Ok(IrModule::from_node(IrModuleNode { functions, attrs: attrs.into_iter().collect::<Map<Str, Any>>() }))
}

impl Graph<'_> {
    /// A function.
    fn function(&mut self, name: &str, index: usize) -> Result<LoweredFunc> {
        if self.key(index)? != "tirx.PrimFunc" {
            return Err(problem(format!("the function `{name}` is a {}", self.key(index)?)));
        }
        let attrs = self.map(self.field(self.field(index, "attrs")?, "__dict__")?)?;
        let attr = |wanted: &str| attrs.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value);
        let number = |graph: &Self, key: &str| attr(key).map(|value| graph.integer(value)).transpose();
        let convention = number(self, "calling_conv")?.unwrap_or(0);
        let kind = match convention {
            // Kernels, and functions with other conventions, are C functions if they are compiled
            // for the CPU.
            -1 | 0 | 2 => FuncKind::Internal,
            1 => FuncKind::Host,
            other => return Err(problem(format!("calling convention {other}"))),
        };
        let mut ours: Vec<(Str, Any)> = Vec::new();
        ours.push(("noalias".into(), number(self, "tirx.noalias")?.unwrap_or(0).into()));
        if let Some(symbol) = attr("global_symbol") {
            ours.push(("global_symbol".into(), Str::from(self.text(symbol)?).into()));
        }
        if number(self, "tirx.is_entry_func")?.unwrap_or(0) != 0 {
            ours.push(("is_entry_func".into(), 1.into()));
        }
        let params: Result<Vec<Var>> =
            self.array(self.field(index, "params")?)?.into_iter().map(|param| self.var(param)).collect();
        let plain = |var: Var| Param::from_node(ParamNode { var, buffer: None, output: false });
        let ret = self.dtype(self.field(index, "ret_type")?)?.unwrap_or_else(c::nothing);
        Ok(LoweredFunc::from_node(LoweredFuncNode {
            name: name.into(),
            params: params?.into_iter().map(plain).collect(),
            ret,
            kind,
            thread_axes: Default::default(),
            body: self.stmt(self.field(index, "body")?)?,
            attrs: ours.into_iter().collect(),
        }))
    }
}
