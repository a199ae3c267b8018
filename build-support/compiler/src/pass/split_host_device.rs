//! `SplitHostDevice`: extracts regions of device threads as kernels that the host launches.
//!
//! Before: functions with attributes `thread_extent`. After: the outermost ones are calls of the
//! packed function `<function>_kernel<number>`, a function of kind `Device` of the same module; if
//! the languages of devices do not have the name, it is changed. Its parameters are the outside
//! variables that the region uses: pointers first, then numbers, both in order of first use. They
//! are followed in the launch by the extents of the kernel's threads, in the order of
//! `thread_axes`. The kernel has its own variables.

use std::collections::{HashMap, HashSet};

use kernpack::{Any, Map, Result as PackedResult, packed_func};

use super::PassContext;
use super::accesses::Accesses;
use super::program::Program;
use super::threads::{TAGS, Threads, with_attributes};
use crate::arith::Analyzer;
use crate::codegen::source::OPENCL;
use crate::error::{CompileError, ErrorKind, Result, with_reported};
use crate::ir::dtype::NOTHING;
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::refresh::Replace;
use crate::ir::visit::{Visit, walk_expr, walk_stmt};
use crate::ir::{
    Buffer, CallKind, DataTypeExt, Expr, ExprNode, FuncKind, I32, IrModule, IrModuleNode, IterKind, IterVar,
    IterVarNode, LoweredFunc, LoweredFuncNode, MutateStmts, Param, ParamNode, Range, Stmt, StmtNode, Var, with_stack,
};

/// Returns the host function and its kernels, in the order of their launches.
///
/// # Errors
/// Returns an error for a number of threads that is not known at the launch, or for two different
/// numbers of the same threads.
pub fn split_host_device(function: &LoweredFunc, _: &PassContext) -> Result<Vec<LoweredFunc>> {
    if function.kind == FuncKind::Device {
        return Ok(vec![function.clone()]);
    }
    let body = with_attributes(&function.body)?;
    let mut split = Split { function, kernels: Vec::new(), analyzer: Analyzer::of_params(&function.params) };
    let body = split.mutate_stmt(&body).map_err(|error| error.note(format!("in function `{}`", function.name)))?;
    let mut functions = vec![function.with_body(body)];
    functions.append(&mut split.kernels);
    Ok(functions)
}

/// [`split_host_device`] for a function or for all functions of a module. Returns a module, unless
/// a function has no kernels.
pub(super) fn split_program(program: &Program, context: &PassContext) -> Result<Program> {
    let module = match program {
        Program::Function(function) => {
            let mut functions = split_host_device(function, context)?;
            return Ok(match functions.len() {
                1 => Program::Function(functions.remove(0)),
                _ => Program::Module(IrModule::new(functions)),
            });
        }
        Program::Module(module) => module,
    };
    let mut functions = Vec::new();
    for function in module.functions.iter() {
        functions.extend(split_host_device(&function, context)?);
    }
    let attrs = module.attrs.clone();
    Ok(Program::Module(IrModule::from_node(IrModuleNode { functions: functions.into(), attrs })))
}

/// [`split_program`] for other languages.
#[packed_func(name = "kernpack.pass.SplitHostDevice")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    let program = Program::of_argument(&program)?;
    Ok(with_reported(|| split_program(&program, &context))?.into())
}

struct Split<'a> {
    function: &'a LoweredFunc,
    kernels: Vec<LoweredFunc>,
    analyzer: Analyzer,
}

impl MutateStmts for Split<'_> {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match Threads::of(stmt) {
            Some(_) => self.launch(stmt),
            None => mutate_stmt_parts(self, stmt),
        }
    }
}

impl Split<'_> {
    /// Creates a kernel of a region, and its launch.
    fn launch(&mut self, region: &Stmt) -> Result<Stmt> {
        let mut strip = Strip::default();
        let body = strip.mutate_stmt(region)?;
        let inside = Accesses::of(region).defined;
        let mut launched: Vec<(IterVar, Expr)> = Vec::new();
        let mut values = HashMap::new();
        for tag in TAGS {
            let mut found = strip.threads.iter().filter(|threads| threads.tag == tag);
            let Some(first) = found.next() else { continue };
            for other in strip.threads.iter().filter(|threads| threads.tag == tag) {
                if Accesses::of_expr(&other.extent).vars.iter().any(|var| inside.contains(var)) {
                    let what =
                        format!("the extent {} of {tag} is not known where the kernel is launched", other.extent);
                    return Err(CompileError::new(ErrorKind::Lower, what).note("bind loops whose extents are sizes"));
                }
                if !self.analyzer.can_prove_equal(&first.extent, &other.extent) {
                    let what = format!("a kernel with {} and {} of {tag}", first.extent, other.extent);
                    return Err(CompileError::new(ErrorKind::Lower, what)
                        .note("all stages of a kernel that bind a thread use as many of them"));
                }
            }
            let var = first.var.renamed(tag);
            for other in strip.threads.iter().filter(|threads| threads.tag == tag) {
                values.insert(other.var.clone(), var.expr().clone());
            }
            let axis = IterVar::from_node(IterVarNode {
                dom: first.extent.as_int().map(|_| Range::until(&first.extent)),
                var,
                kind: IterKind::ThreadIndex,
                thread_tag: tag.into(),
                span: "".into(),
            });
            launched.push((axis, first.extent.clone()));
        }
        if let Some(other) = strip.threads.iter().find(|threads| !TAGS.contains(&threads.tag.as_str())) {
            crate::error::fail!(Lower, "unknown thread `{}`: run InjectVirtualThread first", other.tag);
        }

        let mut free = Free { defined: inside, order: Vec::new(), known: HashSet::new() };
        free.visit_stmt(&body);
        let (pointers, numbers): (Vec<Var>, Vec<Var>) = free.order.into_iter().partition(|var| var.dtype().is_handle());
        let mut params = Vec::new();
        let mut args = Vec::new();
        for var in pointers.into_iter().chain(numbers) {
            let own = var.renamed(var.name());
            values.insert(var.clone(), own.expr().clone());
            params.push(Param::from_node(ParamNode { var: own, buffer: None, output: false }));
            args.push(Expr::from(var));
        }
        let name = OPENCL.identifier(&format!("{}_kernel{}", self.function.name, self.kernels.len()));
        let attrs = self.function.attrs.iter().filter(|(key, _)| matches!(key.as_str(), "noalias" | "fastmath"));
        self.kernels.push(LoweredFunc::from_node(LoweredFuncNode {
            name: name.as_str().into(),
            params: params.into_iter().collect(),
            ret: NOTHING,
            kind: FuncKind::Device,
            thread_axes: launched.iter().map(|(axis, _)| axis.clone()).collect(),
            body: crate::ir::Mutate::mutate_stmt(&mut Replace::fresh(values), &body)?,
            attrs: attrs.collect::<Map<_, _>>(),
        }));
        // Devices reject empty launches.
        let mut condition = Expr::bool(true);
        for (_, extent) in &launched {
            if !self.analyzer.can_prove(&extent.greater_equal(1)) {
                condition = condition.and(extent.greater_equal(1));
            }
        }
        args.extend(launched.into_iter().map(|(_, extent)| extent));
        let call = Stmt::evaluate(Expr::call(CallKind::Packed, &name, I32, args));
        Ok(if condition.is_true() { call } else { Stmt::if_then(condition, call, None) })
    }
}

/// Removes the attributes that launch threads.
#[derive(Default)]
struct Strip {
    threads: Vec<Threads>,
}

impl MutateStmts for Strip {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match Threads::of(stmt) {
            Some((threads, body)) => {
                self.threads.push(threads);
                with_stack(|| self.mutate_stmt(&body))
            }
            None => mutate_stmt_parts(self, stmt),
        }
    }
}

/// The free variables, in order of first use.
struct Free {
    defined: HashSet<Var>,
    order: Vec<Var>,
    known: HashSet<Var>,
}

impl Free {
    fn add(&mut self, var: &Var) {
        if !self.defined.contains(var) && self.known.insert(var.clone()) {
            self.order.push(var.clone());
        }
    }

    fn shape(&mut self, buffer: &Buffer) {
        for part in buffer.shape.iter().chain(buffer.strides.iter()).chain([buffer.elem_offset.clone()]) {
            self.visit_expr(&part);
        }
    }
}

impl Visit for Free {
    fn visit_expr(&mut self, expr: &Expr) {
        match &**expr {
            ExprNode::Var { .. } => {
                if let Some(var) = Var::of(expr) {
                    self.add(&var);
                }
            }
            ExprNode::Load { buffer, .. } => self.add(&buffer.data),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match &**stmt {
            StmtNode::Store { buffer, .. } => self.add(&buffer.data),
            StmtNode::Alloc { buffer, .. } | StmtNode::Alias { buffer, .. } => self.shape(buffer),
            StmtNode::Attr { node, .. } => {
                if let Ok(buffer) = node.to::<Buffer>() {
                    self.add(&buffer.data);
                }
            }
            _ => {}
        }
        walk_stmt(self, stmt);
    }
}
