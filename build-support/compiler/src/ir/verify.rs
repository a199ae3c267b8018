//! Checks that a pass left a sound program: what later passes and code generators take for granted.

use std::collections::{HashMap, HashSet};

use super::builtin;
use super::stmt::{Stmt, StmtNode};
use super::{
    BOOLEAN, BinaryOp, Buffer, CallKind, CompareOp, DataType, DataTypeExt, Expr, ExprNode, ForKind, FuncKind, IrModule,
    IterVar, LoweredFunc, Reducer, Var, visit, with_stack,
};
use crate::error::{CompileError, ErrorKind, Result, require};
use crate::text;

/// How far a program is lowered: each stage has the rules of those before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Loops over tensors: after ScheduleOps.
    Scheduled,
    /// Loads and stores with one flat index: after StorageFlatten. No tensors any more.
    Flat,
    /// After LoopPartition: no `likely`.
    Partitioned,
    /// After VectorizeLoop: no vectorized loops.
    Vectorized,
}

/// Checks all functions of a module, and that calls between them fit.
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

/// Checks a function: every variable is defined once, before it is used, and is in scope where it is used; types and lanes agree; indices are integers; what
/// the stage rules out is not there.
///
/// # Errors
/// `InternalError` with the statement and the text of the function around it.
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

type Check = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            return Err(format!($($text)*));
        }
    };
}

enum Added {
    Var(Var),
    Expr(usize),
}

struct Verifier {
    stage: Stage,
    ret: DataType,
    /// Variables that were defined so far, in scope or not.
    defined: HashSet<Var>,
    /// Variables of device threads, which several statements may name.
    threads: HashSet<Var>,
    scope: HashSet<Var>,
    /// `Let` nodes by variable: a node may occur several times.
    lets: HashMap<Var, usize>,
    /// Expressions that were checked in the scopes around, by node.
    checked: HashSet<usize>,
    /// What was added to `scope` and `checked`, to be taken back at the end of a scope.
    added: Vec<Added>,
    at: Option<Stmt>,
    loops: usize,
}

fn name(dtype: DataType) -> String {
    dtype.short_name()
}

impl Verifier {
    fn func(&mut self, func: &LoweredFunc) -> Check {
        for param in func.params.iter() {
            self.define(&param.var)?;
            if let Some(buffer) = &param.buffer {
                let same = buffer.data == param.var;
                ensure!(same || param.var.dtype().is_handle(), "tensor parameter `{}` is no pointer", param.var.name());
                if !same {
                    self.define(&buffer.data)?;
                }
            }
        }
        // Symbols of shapes, wherever they stand; then what is computed of them.
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
            ensure!(func.kind == FuncKind::Device, "threads of a function that is no kernel");
            self.define_thread(&axis)?;
        }
        self.body(&func.body)
    }

    fn define(&mut self, var: &Var) -> Check {
        ensure!(var.dtype().lanes() > 0, "variable `{}` has no lanes", var.name());
        ensure!(self.defined.insert(var.clone()), "variable `{}` is defined twice", var.name());
        self.enter(var.clone());
        Ok(())
    }

    fn define_thread(&mut self, axis: &IterVar) -> Check {
        let var = &axis.var;
        if self.threads.insert(var.clone()) {
            return self.define(var);
        }
        self.enter(var.clone());
        Ok(())
    }

    fn used(&self, var: &Var) -> Check {
        if self.scope.contains(var) {
            return Ok(());
        }
        Err(if self.defined.contains(var) {
            format!("variable `{}` is used outside of its scope", var.name())
        } else {
            format!("variable `{}` is used and not defined", var.name())
        })
    }

    fn body(&mut self, stmt: &Stmt) -> Check {
        let mark = self.added.len();
        self.stmts(stmt)?;
        self.leave(mark);
        Ok(())
    }

    fn enter(&mut self, var: Var) {
        if self.scope.insert(var.clone()) {
            self.added.push(Added::Var(var));
        }
    }

    /// Ends the scope that began when so much was added.
    fn leave(&mut self, mark: usize) {
        for added in self.added.drain(mark..) {
            match added {
                Added::Var(var) => self.scope.remove(&var),
                Added::Expr(node) => self.checked.remove(&node),
            };
        }
    }

    fn stmts(&mut self, stmt: &Stmt) -> Check {
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

    fn no_tensors(&self) -> Check {
        ensure!(self.stage < Stage::Flat, "a tensor after storage is flattened");
        Ok(())
    }

    fn buffer(&mut self, buffer: &Buffer) -> Check {
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

    fn stmt(&mut self, stmt: &Stmt) -> Check {
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

    /// A combiner, whose variables nothing else defines.
    fn reducer(&mut self, reducer: &Reducer) -> Check {
        let mark = self.added.len();
        reducer.lhs.iter().chain(reducer.rhs.iter()).for_each(|var| self.enter(var));
        for value in reducer.results.iter().chain(reducer.identity.iter()) {
            self.expr(&value)?;
        }
        self.leave(mark);
        Ok(())
    }

    fn same(&self, a: DataType, b: DataType, what: &str) -> Check {
        ensure!(a == b, "{what} of {} and {}", name(a), name(b));
        Ok(())
    }

    fn condition(&mut self, condition: &Expr) -> Check {
        self.expr(condition)?;
        ensure!(condition.dtype() == BOOLEAN, "a condition of {}", name(condition.dtype()));
        Ok(())
    }

    fn index(&mut self, index: &Expr, what: &str) -> Check {
        self.expr(index)?;
        ensure!(index.dtype().is_integer(), "{what} of {}", name(index.dtype()));
        Ok(())
    }

    /// A load or store.
    fn access(&mut self, buffer: &Buffer, index: &Expr, mask: Option<&Expr>, value: DataType, what: &str) -> Check {
        self.used(&buffer.data)?;
        self.index(index, "an index")?;
        let lanes = u32::from(buffer.dtype.lanes()) * u32::from(index.lanes());
        ensure!(
            value.element() == buffer.dtype.element() && u32::from(value.lanes()) == lanes,
            "{what} of {} at {} places of `{}`, whose elements are {}",
            name(value),
            index.lanes(),
            buffer.name,
            name(buffer.dtype)
        );
        let Some(mask) = mask else { return Ok(()) };
        self.expr(mask)?;
        let fits = mask.lanes() == index.lanes() || u32::from(mask.lanes()) == lanes;
        ensure!(mask.dtype().is_bool() && fits, "{what} of {lanes} lanes has a mask of {}", name(mask.dtype()));
        Ok(())
    }

    fn expr(&mut self, expr: &Expr) -> Check {
        // A node that is shared is checked once for each scope, so that the work is not exponential.
        if matches!(**expr, ExprNode::Var { .. }) || !self.checked.contains(&expr.address()) {
            with_stack(|| self.expr_node(expr))?;
            if self.checked.insert(expr.address()) {
                self.added.push(Added::Expr(expr.address()));
            }
        }
        Ok(())
    }

    fn expr_node(&mut self, expr: &Expr) -> Check {
        let dtype = expr.dtype();
        ensure!(dtype.lanes() > 0 || matches!(**expr, ExprNode::Call { .. }), "a value without lanes");
        match &**expr {
            ExprNode::Int { dtype, value } => {
                ensure!(
                    dtype.is_scalar() && (dtype.is_integer() || dtype.is_bool() || dtype.is_handle()),
                    "an integer constant of {}",
                    name(*dtype)
                );
                let whole = dtype.bits() == 64;
                ensure!(whole || dtype.can_hold(*value), "the constant {value} is no {}", name(*dtype));
                Ok(())
            }
            ExprNode::Float { dtype, .. } => {
                ensure!(dtype.is_scalar() && dtype.is_float(), "a float constant of {}", name(*dtype));
                Ok(())
            }
            ExprNode::Text { .. } => Ok(()),
            ExprNode::Var { .. } => self.used(&Var::of(expr).expect("a variable")),
            ExprNode::Cast { dtype, value } => {
                self.expr(value)?;
                ensure!(dtype.lanes() == value.lanes(), "a cast of {} to {}", name(value.dtype()), name(*dtype));
                Ok(())
            }
            ExprNode::Binary { op, a, b, dtype } => {
                self.expr(a)?;
                self.expr(b)?;
                self.same(a.dtype(), b.dtype(), "arithmetic")?;
                self.same(a.dtype(), *dtype, "the operands and value of arithmetic")?;
                ensure!(is_defined(*op, *dtype), "{op:?} of {}", name(*dtype));
                Ok(())
            }
            ExprNode::Compare { op, a, b } => {
                self.expr(a)?;
                self.expr(b)?;
                self.same(a.dtype(), b.dtype(), "a comparison")?;
                let equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
                ensure!(equality || !a.dtype().is_handle(), "an order of pointers");
                Ok(())
            }
            ExprNode::Logic { a, b, .. } => {
                self.expr(a)?;
                self.expr(b)?;
                self.same(a.dtype(), b.dtype(), "a connective")?;
                ensure!(a.dtype().is_bool(), "a connective of {}", name(a.dtype()));
                Ok(())
            }
            ExprNode::Not { value } => {
                self.expr(value)?;
                ensure!(value.dtype().is_bool(), "a negation of {}", name(value.dtype()));
                Ok(())
            }
            ExprNode::Select { condition, true_value: a, false_value: b }
            | ExprNode::IfThenElse { condition, then_value: a, else_value: b } => {
                for part in [condition, a, b] {
                    self.expr(part)?;
                }
                self.same(a.dtype(), b.dtype(), "a choice")?;
                let lanes = condition.lanes();
                ensure!(
                    condition.dtype().is_bool() && (lanes == 1 || lanes == a.lanes()),
                    "a choice between values of {} by {}",
                    name(a.dtype()),
                    name(condition.dtype())
                );
                Ok(())
            }
            ExprNode::Ramp { base, stride, lanes } => {
                self.index(base, "a ramp")?;
                self.expr(stride)?;
                self.same(base.dtype(), stride.dtype(), "a ramp")?;
                ensure!(base.dtype().is_scalar() && *lanes > 1, "a ramp of {lanes} lanes from {}", name(base.dtype()));
                Ok(())
            }
            ExprNode::Broadcast { value, lanes } => {
                self.expr(value)?;
                let dtype = value.dtype();
                ensure!(dtype.is_scalar() && *lanes > 1, "a broadcast of {} to {lanes} lanes", name(dtype));
                Ok(())
            }
            ExprNode::Shuffle { vectors, indices } => {
                let mut total = 0;
                for vector in vectors.iter() {
                    self.expr(&vector)?;
                    self.same(vector.dtype().element(), dtype.element(), "a shuffle")?;
                    total += i64::from(vector.lanes());
                }
                ensure!(!indices.is_empty(), "a shuffle of no lanes");
                for index in indices.iter() {
                    ensure!((0..total).contains(&index), "a shuffle of {total} lanes takes lane {index}");
                }
                Ok(())
            }
            ExprNode::Let { var, value, body } => {
                self.expr(value)?;
                self.same(var.dtype(), value.dtype(), "a binding")?;
                let known = self.lets.insert(var.clone(), expr.address());
                ensure!(known.is_none_or(|node| node == expr.address()), "variable `{}` is defined twice", var.name());
                let mark = self.added.len();
                if known.is_none() {
                    self.define(var)?;
                } else {
                    self.enter(var.clone());
                }
                self.expr(body)?;
                self.leave(mark);
                Ok(())
            }
            ExprNode::Load { buffer, index, mask, dtype } => {
                self.access(buffer, index, mask.as_ref(), *dtype, "a load")
            }
            ExprNode::TensorRead { tensor, indices } => {
                self.no_tensors()?;
                ensure!(
                    indices.len() == tensor.shape.len(),
                    "{} indices of tensor `{}`, which has {} dimensions",
                    indices.len(),
                    tensor.name(),
                    tensor.shape.len()
                );
                indices.iter().try_for_each(|index| self.index(&index, "an index"))
            }
            ExprNode::Call { kind, name, args, dtype } => self.call(*kind, name.as_str(), &args.to_vec(), *dtype),
            ExprNode::Reduce { .. } => Err("a reduction inside a lowered program".to_owned()),
        }
    }

    fn call(&mut self, kind: CallKind, called: &str, args: &[Expr], dtype: DataType) -> Check {
        for arg in args {
            self.expr(arg)?;
        }
        if kind != CallKind::Builtin {
            return Ok(());
        }
        ensure!(builtin::effect_of_builtin(called).is_some(), "unknown builtin `{called}`");
        if let Some(arity) = builtin::math_arity(called) {
            ensure!(args.len() == arity, "`{called}` of {} arguments, not {arity}", args.len());
            for arg in args {
                self.same(arg.dtype(), dtype, &format!("`{called}`"))?;
            }
        }
        match called {
            builtin::LIKELY => {
                ensure!(self.stage < Stage::Partitioned, "`likely` after loops are partitioned");
                ensure!(args.len() == 1 && args[0].dtype() == dtype && dtype.is_bool(), "`likely` of no condition");
            }
            builtin::ADDRESS_OF => {
                let is_load = matches!(args, [arg] if matches!(**arg, ExprNode::Load { .. }));
                ensure!(is_load, "`address_of` of something that is no load");
            }
            builtin::REINTERPRET => {
                let bits = |dtype: DataType| u32::from(dtype.bits()) * u32::from(dtype.lanes());
                let fits = matches!(args, [arg] if bits(arg.dtype()) == bits(dtype));
                ensure!(fits, "`reinterpret` as {} of another size", name(dtype));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether there is such an operation on such values.
fn is_defined(op: BinaryOp, dtype: DataType) -> bool {
    match op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => {
            dtype.is_integer() || dtype.is_float()
        }
        BinaryOp::Min | BinaryOp::Max => dtype.is_integer() || dtype.is_float() || dtype.is_bool(),
        BinaryOp::FloorDiv | BinaryOp::FloorMod | BinaryOp::ShiftLeft | BinaryOp::ShiftRight => dtype.is_integer(),
        BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => dtype.is_integer() || dtype.is_bool(),
    }
}
