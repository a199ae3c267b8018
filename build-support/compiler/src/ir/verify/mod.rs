//! The verifier: checks that a pass left a valid program, with the invariants that later passes and
//! code generators rely on.

use std::collections::{HashMap, HashSet};

use crate::error::{CompileError, ErrorKind, Result, require};
use crate::ir::builtin;
use crate::ir::stmt::{Stmt, StmtNode};
use crate::ir::{
    Buffer, CallKind, DataType, DataTypeExt, Expr, ExprNode, ForKind, FuncKind, IrModule, IterVar, LoweredFunc,
    Reducer, Var, visit, with_stack,
};
use crate::text;

macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            return Err(format!($($text)*));
        }
    };
}

mod expr;

/// The lowering stage of a program: each stage includes the rules of the previous ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Loops over tensors: after ScheduleOps.
    Scheduled,
    /// Loads and stores with one flat index: after StorageFlatten. There are no tensors left.
    Flat,
    /// After LoopPartition: without `likely`.
    Partitioned,
    /// After VectorizeLoop: without vectorized loops.
    Vectorized,
}

/// Checks all functions of a module, and that calls between them match.
///
/// # Errors
/// See [`verify`].
pub fn verify_module(module: &IrModule, stage: Stage) -> Result<()> {
    let mut names = HashMap::new();
    for func in module.functions.iter() {
        let name = func.name.to_string();
        require!(names.insert(name, func.params.len()).is_none(), Internal, "two functions are called `{}`", func.name);
    }
    let check = |func: LoweredFunc| {
        verify(&func, stage)?;
        let mut wrong = None;
        visit::for_each_expr_in(&func.body, |expr| {
            let ExprNode::Call { kind: CallKind::Function, name, args, .. } = &**expr else { return };
            match names.get(name.as_str()) {
                None => wrong = Some(format!("call of function `{name}`, which the module does not have")),
                Some(count) if *count != args.len() => {
                    wrong = Some(format!("call of `{name}` with {} arguments, not {count}", args.len()));
                }
                Some(_) => {}
            }
        });
        match wrong {
            Some(wrong) => {
                Err(CompileError::new(ErrorKind::Internal, wrong).note(format!("in function `{}`", func.name)))
            }
            None => Ok(()),
        }
    };
    let errors: Vec<CompileError> = module.functions.iter().filter_map(|func| check(func).err()).collect();
    CompileError::all(errors).map_or(Ok(()), Err)
}

/// Checks a function: every variable is defined once, before it is used, and is in scope where it
/// is used; types and lanes match; indices are integers; and there are no nodes that the stage
/// excludes.
///
/// # Errors
/// Returns an `InternalError` with the statement and the text of the function around it.
pub fn verify(func: &LoweredFunc, stage: Stage) -> Result<()> {
    let mut verifier = Verifier {
        stage,
        ret: func.ret,
        defined: HashSet::new(),
        threads: HashSet::new(),
        scope: HashSet::new(),
        lets: HashMap::new(),
        checked: HashSet::new(),
        added: Vec::new(),
        at: None,
        loops: 0,
    };
    verifier.func(func).map_err(|what| {
        let mut error = CompileError::new(ErrorKind::Internal, what).note(format!("in function `{}`", func.name));
        if let Some(stmt) = &verifier.at {
            error = error.note(format!("in `{}`", text::headline(stmt)));
            let around = text::around(func, stmt);
            if !around.is_empty() {
                error = error.note(format!("which is here:\n{around}"));
            }
        }
        error
    })
}

pub(super) type Check = Result<(), String>;

pub(super) enum Added {
    Var(Var),
    Expr(usize),
}

pub(super) struct Verifier {
    pub(super) stage: Stage,
    pub(super) ret: DataType,
    /// The variables that were defined so far, in scope or not.
    pub(super) defined: HashSet<Var>,
    /// The variables of device threads, which several statements may define.
    pub(super) threads: HashSet<Var>,
    pub(super) scope: HashSet<Var>,
    /// The `Let` nodes by variable: a node may occur several times.
    pub(super) lets: HashMap<Var, usize>,
    /// The expressions that were checked in the surrounding scopes, by node.
    pub(super) checked: HashSet<usize>,
    /// The additions to `scope` and `checked`, which are removed at the end of a scope.
    pub(super) added: Vec<Added>,
    pub(super) at: Option<Stmt>,
    pub(super) loops: usize,
}

pub(super) fn name(dtype: DataType) -> String {
    dtype.short_name()
}

impl Verifier {
    pub(super) fn func(&mut self, func: &LoweredFunc) -> Check {
        for param in func.params.iter() {
            self.define(&param.var)?;
            if let Some(buffer) = &param.buffer {
                let same = buffer.data == param.var;
                ensure!(
                    same || param.var.dtype().is_handle(),
                    "tensor parameter `{}` is not a pointer",
                    param.var.name()
                );
                if !same {
                    self.define(&buffer.data)?;
                }
            }
        }
        // Symbols in shapes, at any position, come first; then expressions of them.
        let buffers: Vec<Buffer> = func.params.iter().filter_map(|param| param.buffer.clone()).collect();
        let parts = |buffer: &Buffer| -> Vec<Expr> {
            let offset = core::iter::once(buffer.elem_offset.clone());
            buffer.shape.iter().chain(buffer.strides.iter()).chain(offset).collect()
        };
        for part in buffers.iter().flat_map(parts) {
            if let Some(var) = Var::of(&part)
                && !self.defined.contains(&var)
            {
                self.define(&var)?;
            }
        }
        for buffer in &buffers {
            self.buffer(buffer)?;
        }
        for axis in func.thread_axes.iter() {
            ensure!(func.kind == FuncKind::Device, "threads of a function that is not a kernel");
            self.define_thread(&axis)?;
        }
        self.body(&func.body)
    }

    pub(super) fn define(&mut self, var: &Var) -> Check {
        ensure!(var.dtype().lanes() > 0, "variable `{}` has no lanes", var.name());
        ensure!(self.defined.insert(var.clone()), "variable `{}` is defined twice", var.name());
        self.enter(var.clone());
        Ok(())
    }

    pub(super) fn define_thread(&mut self, axis: &IterVar) -> Check {
        let var = &axis.var;
        if self.threads.insert(var.clone()) {
            return self.define(var);
        }
        self.enter(var.clone());
        Ok(())
    }

    pub(super) fn used(&self, var: &Var) -> Check {
        if self.scope.contains(var) {
            return Ok(());
        }
        Err(if self.defined.contains(var) {
            format!("variable `{}` is used outside of its scope", var.name())
        } else {
            format!("variable `{}` is used and not defined", var.name())
        })
    }

    pub(super) fn body(&mut self, stmt: &Stmt) -> Check {
        let mark = self.added.len();
        self.stmts(stmt)?;
        self.leave(mark);
        Ok(())
    }

    pub(super) fn enter(&mut self, var: Var) {
        if self.scope.insert(var.clone()) {
            self.added.push(Added::Var(var));
        }
    }

    /// Ends the scope that started when `added` had `mark` elements.
    pub(super) fn leave(&mut self, mark: usize) {
        for added in self.added.drain(mark..) {
            match added {
                Added::Var(var) => self.scope.remove(&var),
                Added::Expr(node) => self.checked.remove(&node),
            };
        }
    }

    pub(super) fn stmts(&mut self, stmt: &Stmt) -> Check {
        match &**stmt {
            StmtNode::Seq { stmts } => {
                for part in stmts.iter() {
                    ensure!(!matches!(&*part, StmtNode::Seq { .. }), "a sequence inside a sequence");
                    self.stmts(&part)?;
                }
                Ok(())
            }
            _ => {
                let outer = self.at.replace(stmt.clone());
                with_stack(|| self.stmt(stmt))?;
                self.at = outer;
                Ok(())
            }
        }
    }

    pub(super) fn no_tensors(&self) -> Check {
        ensure!(self.stage < Stage::Flat, "a tensor after storage is flattened");
        Ok(())
    }

    pub(super) fn buffer(&mut self, buffer: &Buffer) -> Check {
        let data = buffer.data.dtype();
        ensure!(data.is_handle() && data.is_scalar(), "the data pointer of `{}` is {}", buffer.name, name(data));
        for part in buffer.shape.iter().chain(buffer.strides.iter()).chain([buffer.elem_offset.clone()]) {
            self.index(&part, "an extent, stride or offset")?;
            ensure!(part.dtype().is_scalar(), "an extent, stride or offset of {}", name(part.dtype()));
        }
        let (shape, strides) = (buffer.shape.len(), buffer.strides.len());
        ensure!(strides == 0 || strides == shape, "`{}` has {shape} dimensions and {strides} strides", buffer.name);
        Ok(())
    }

    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Check {
        match &**stmt {
            StmtNode::Seq { .. } => self.stmts(stmt),
            StmtNode::For { var, min, extent, kind, annotations, body } => {
                ensure!(
                    *kind != ForKind::Vectorized || self.stage < Stage::Vectorized,
                    "a vectorized loop after loops are vectorized"
                );
                if *kind == ForKind::ThreadBinding {
                    ensure!(
                        annotations.get("thread").is_some(),
                        "a loop bound to a thread without annotation `thread`"
                    );
                }
                let dtype = var.dtype();
                ensure!(dtype.is_integer() && dtype.is_scalar(), "a loop over {}", name(dtype));
                for (part, what) in [(min, "begins with"), (extent, "has an extent of")] {
                    self.expr(part)?;
                    ensure!(part.dtype() == dtype, "a loop over {} {what} {}", name(dtype), name(part.dtype()));
                }
                let mark = self.added.len();
                self.define(var)?;
                self.loops += 1;
                self.body(body)?;
                self.loops -= 1;
                self.leave(mark);
                Ok(())
            }
            StmtNode::Store { buffer, index, value, mask } => {
                self.access(buffer, index, mask.as_ref(), value.dtype(), "a store")?;
                self.expr(value)
            }
            StmtNode::TensorWrite { tensor, indices, value } => {
                self.no_tensors()?;
                ensure!(
                    indices.len() == tensor.shape.len(),
                    "{} indices of tensor `{}`, which has {} dimensions",
                    indices.len(),
                    tensor.name(),
                    tensor.shape.len()
                );
                for index in indices.iter() {
                    self.index(&index, "an index")?;
                }
                self.expr(value)?;
                ensure!(
                    value.dtype() == tensor.dtype,
                    "a value of {} for tensor `{}` of {}",
                    name(value.dtype()),
                    tensor.name(),
                    name(tensor.dtype)
                );
                Ok(())
            }
            StmtNode::Realize { tensor, region, .. } | StmtNode::Prefetch { tensor, region } => {
                self.no_tensors()?;
                ensure!(
                    region.len() == tensor.shape.len(),
                    "a region of {} dimensions of tensor `{}`, which has {}",
                    region.len(),
                    tensor.name(),
                    tensor.shape.len()
                );
                for range in region.iter() {
                    self.index(&range.min, "a region")?;
                    self.index(&range.extent, "a region")?;
                }
                Ok(())
            }
            StmtNode::Alloc { buffer, .. } => {
                self.buffer(buffer)?;
                self.define(&buffer.data)
            }
            StmtNode::Alias { buffer, data } => {
                self.expr(data)?;
                ensure!(data.dtype().is_handle() && data.dtype().is_scalar(), "an alias of {}", name(data.dtype()));
                self.buffer(buffer)?;
                self.define(&buffer.data)
            }
            StmtNode::Bind { var, value } => {
                self.expr(value)?;
                self.same(var.dtype(), value.dtype(), "a binding")?;
                self.define(var)
            }
            StmtNode::Attr { key, node, value, body } => {
                self.expr(value)?;
                let mark = self.added.len();
                let is_thread = matches!(key.as_str(), "thread_extent" | "virtual_thread");
                if let Ok(axis) = node.to::<IterVar>() {
                    if is_thread {
                        self.index(value, "a thread extent")?;
                        ensure!(
                            axis.var.dtype().is_integer() && axis.var.dtype().is_scalar(),
                            "a thread index of {}",
                            name(axis.var.dtype())
                        );
                        self.define_thread(&axis)?;
                    }
                } else if let Ok(var) = node.to::<Var>() {
                    if is_thread {
                        if self.threads.insert(var.clone()) {
                            self.define(&var)?;
                        }
                        self.enter(var);
                    } else {
                        self.used(&var)?;
                    }
                } else if let Ok(buffer) = node.to::<Buffer>() {
                    self.used(&buffer.data)?;
                } else if let Ok(reducer) = node.to::<Reducer>() {
                    self.reducer(&reducer)?;
                }
                self.body(body)?;
                self.leave(mark);
                Ok(())
            }
            StmtNode::Assert { condition, .. } => self.condition(condition),
            StmtNode::If { condition, then_body, else_body } => {
                self.condition(condition)?;
                self.body(then_body)?;
                else_body.as_ref().map_or(Ok(()), |body| self.body(body))
            }
            StmtNode::While { condition, body } => {
                self.condition(condition)?;
                self.loops += 1;
                self.body(body)?;
                self.loops -= 1;
                Ok(())
            }
            StmtNode::Evaluate { value } => {
                if let ExprNode::Call { kind: CallKind::Builtin, name, .. } = &**value
                    && matches!(name.as_str(), builtin::BREAK_LOOP | builtin::CONTINUE_LOOP)
                {
                    ensure!(self.loops > 0, "`{name}` outside of a loop");
                }
                self.expr(value)
            }
            StmtNode::Return { value } => {
                self.expr(value)?;
                ensure!(
                    self.ret.lanes() == 0 || value.dtype() == self.ret,
                    "a function that returns {} returns {}",
                    name(self.ret),
                    name(value.dtype())
                );
                Ok(())
            }
        }
    }
}
