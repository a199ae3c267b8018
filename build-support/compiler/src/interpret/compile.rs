//! From a lowered function to operations on registers.

use std::collections::HashMap;
use std::rc::Rc;

use super::code::{
    AllReduce, Allocation, Axis, BufferCode, Exchange, FunctionCode, Group, Op, Operand, Origin, ParamCode, Place,
    Quick, Reg, Value, Visible,
};
use super::number::{self, Lane};
use crate::error::{CompileError, ErrorKind, Result, fail, require};
use crate::ir::builtin;
use crate::ir::{
    BOOLEAN, BinaryOp, Buffer, CallKind, DataType, DataTypeExt, Expr, ExprNode, F32, ForKind, FuncKind, I64, IterVar,
    LoweredFunc, Reducer, Stmt, StmtNode, Var, visit, with_stack,
};

/// What all functions of a machine share.
pub(super) struct Shared<'a> {
    /// Position of each function of the module by name.
    pub(super) names: &'a HashMap<String, usize>,
    /// Statements for messages.
    pub(super) origins: &'a mut Vec<Origin>,
    /// Combiners of reductions across threads; they follow the module's functions.
    pub(super) reducers: &'a mut Vec<FunctionCode>,
}

struct LoopLabels {
    /// Jumps out, to be set to the end.
    breaks: Vec<usize>,
    /// Jumps to the next iteration.
    continues: Vec<usize>,
    /// Allocations outside the loop.
    allocated: usize,
    /// Whether an iteration can be left from inside: not if it is a thread's or a task's.
    serial: bool,
}

struct Compiler<'a, 'b> {
    shared: &'a mut Shared<'b>,
    function: Rc<str>,
    ops: Vec<Op>,
    origins: Vec<u32>,
    stmt: u32,
    vars: HashMap<Var, Reg>,
    visible: Option<Rc<Visible>>,
    /// First address and end of aliases by data pointer.
    views: HashMap<Var, Option<Reg>>,
    /// Registers from here on are free for temporaries.
    floor: Reg,
    next: Reg,
    registers: usize,
    /// Values of this statement's expressions by node; inner levels are conditional.
    memo: Vec<HashMap<(usize, bool), Reg>>,
    /// Lanes that count, under a vector condition.
    active: Option<(Reg, u16)>,
    /// Whether overflow is an error: in indices, extents and guards.
    checked: bool,
    allocated: Vec<Reg>,
    loops: Vec<LoopLabels>,
    kernel: bool,
    parallel: bool,
    reducers: Vec<Reducer>,
}

/// Translates a function.
pub(super) fn compile(func: &LoweredFunc, shared: &mut Shared<'_>) -> Result<FunctionCode> {
    let mut compiler = Compiler::new(func.name.as_str(), shared);
    compiler.function_code(func).map_err(|error| error.note(format!("in function `{}`", func.name)))
}

fn thread_axis(node: &kernpack::Any) -> Option<IterVar> {
    node.to::<IterVar>().ok()
}

/// The tag of a `thread_extent` or `virtual_thread` attribute, and the variable.
fn thread_of(node: &kernpack::Any) -> Result<(String, Var)> {
    if let Some(axis) = thread_axis(node) {
        return Ok((axis.thread_tag.to_string(), axis.var.clone()));
    }
    match node.to::<Var>() {
        Ok(var) => Ok((var.name().to_owned(), var)),
        Err(_) => fail!(Run, "a thread attribute of something that is no iteration variable"),
    }
}

fn is_virtual(key: &str, tag: &str) -> bool {
    key == "virtual_thread" || tag.starts_with("vthread") || tag.starts_with("cthread")
}

/// The tag of a loop that is bound to a thread.
fn loop_tag(annotations: &kernpack::Map<kernpack::Str, kernpack::Any>) -> Result<String> {
    match annotations.get("thread").and_then(|tag| tag.to::<String>().ok()) {
        Some(tag) => Ok(tag),
        None => fail!(Run, "a loop bound to a thread has no annotation `thread` with a tag"),
    }
}

/// Tags and extents of the threads of a kernel, in order of first occurrence.
fn thread_extents(stmt: &Stmt) -> Result<Vec<(String, Expr)>> {
    let (mut found, mut failed) = (Vec::new(), None);
    visit_outer_first(stmt, &mut |stmt| match &**stmt {
        StmtNode::Attr { key, node, value, .. } if key.as_str() == "thread_extent" => match thread_of(node) {
            Ok((tag, _)) if !is_virtual(key.as_str(), &tag) => found.push((tag, value.clone())),
            Ok(_) => {}
            Err(error) => failed = Some(error),
        },
        StmtNode::For { kind: ForKind::ThreadBinding, annotations, extent, .. } => match loop_tag(annotations) {
            Ok(tag) if !is_virtual("", &tag) => found.push((tag, extent.clone())),
            Ok(_) => {}
            Err(error) => failed = Some(error),
        },
        _ => {}
    });
    failed.map_or(Ok(found), Err)
}

struct OuterFirst<'a>(&'a mut dyn FnMut(&Stmt));

impl visit::Visit for OuterFirst<'_> {
    fn visit_expr(&mut self, _: &Expr) {}

    fn visit_stmt(&mut self, stmt: &Stmt) {
        (self.0)(stmt);
        visit::walk_stmt(self, stmt);
    }
}

fn visit_outer_first(stmt: &Stmt, found: &mut dyn FnMut(&Stmt)) {
    visit::Visit::visit_stmt(&mut OuterFirst(found), stmt);
}

fn reads_memory(expr: &Expr) -> bool {
    let mut reads = false;
    visit::for_each_expr(expr, |part| {
        reads |= match &**part {
            ExprNode::Load { .. } => true,
            ExprNode::Call { kind, name, .. } => builtin::effect(*kind, name.as_str()) >= builtin::Effect::Reads,
            _ => false,
        };
    });
    reads
}

impl<'a, 'b> Compiler<'a, 'b> {
    fn new(function: &str, shared: &'a mut Shared<'b>) -> Self {
        let function: Rc<str> = function.into();
        shared.origins.push(Origin { stmt: None, function: function.clone(), visible: None });
        let stmt = shared.origins.len() as u32 - 1;
        Self {
            shared,
            function,
            ops: Vec::new(),
            origins: Vec::new(),
            stmt,
            vars: HashMap::new(),
            visible: None,
            views: HashMap::new(),
            floor: 0,
            next: 0,
            registers: 0,
            memo: vec![HashMap::new()],
            active: None,
            checked: false,
            allocated: Vec::new(),
            loops: Vec::new(),
            kernel: false,
            parallel: false,
            reducers: Vec::new(),
        }
    }

    fn emit(&mut self, op: Op) -> usize {
        self.ops.push(op);
        self.origins.push(self.stmt);
        self.ops.len() - 1
    }

    /// A register for a value of this statement.
    fn temporary(&mut self) -> Reg {
        let reg = self.next;
        self.next += 1;
        self.registers = self.registers.max(self.next);
        reg
    }

    /// A register to the end of the scope.
    fn lasting(&mut self) -> Reg {
        let reg = self.floor;
        self.floor += 1;
        self.next = self.next.max(self.floor);
        self.registers = self.registers.max(self.next);
        reg
    }

    fn define(&mut self, var: &Var) -> Reg {
        let reg = self.lasting();
        self.define_as(var, reg);
        reg
    }

    fn define_as(&mut self, var: &Var, reg: Reg) {
        self.vars.insert(var.clone(), reg);
        self.visible = Some(Rc::new(Visible { var: var.clone(), reg, outer: self.visible.take() }));
    }

    /// Begins a statement: its temporaries, its place in messages.
    fn begin(&mut self, stmt: &Stmt) {
        self.next = self.floor;
        self.memo = vec![HashMap::new()];
        self.shared.origins.push(Origin {
            stmt: Some(stmt.clone()),
            function: self.function.clone(),
            visible: self.visible.clone(),
        });
        self.stmt = self.shared.origins.len() as u32 - 1;
    }

    /// What a body defines ends with it.
    fn body(&mut self, stmt: &Stmt) -> Result<()> {
        let (vars, visible, views) = (self.vars.clone(), self.visible.clone(), self.views.clone());
        let (floor, allocated) = (self.floor, self.allocated.len());
        self.stmts(stmt)?;
        self.free_to(allocated);
        self.allocated.truncate(allocated);
        (self.vars, self.visible, self.views, self.floor) = (vars, visible, views, floor);
        Ok(())
    }

    /// Frees what was allocated since, without forgetting it.
    fn free_to(&mut self, count: usize) {
        for position in (count..self.allocated.len()).rev() {
            self.emit(Op::Free { data: self.allocated[position] });
        }
    }

    fn function_code(&mut self, func: &LoweredFunc) -> Result<FunctionCode> {
        let params: Vec<_> = func.params.iter().collect();
        for param in &params {
            self.define(&param.var);
        }
        // First come the symbols that shapes define, then the checks of the others.
        let mut codes = Vec::new();
        let mut checks = Vec::new();
        for param in &params {
            let var = self.vars[&param.var];
            let mut code = ParamCode { name: param.var.name().to_owned(), dtype: param.var.dtype(), var, buffer: None };
            if let Some(buffer) = &param.buffer {
                code.buffer = Some(self.param_buffer(buffer, param.output, &mut checks)?);
            }
            codes.push(code);
        }
        self.next = self.floor;
        for (given, expr, what) in checks {
            let expected = self.index(&expr)?;
            self.emit(Op::CheckArgument { given, expected, what });
        }
        let body = self.ops.len();
        let mut launch = Vec::new();
        if func.kind == FuncKind::Device {
            launch = self.device_body(func)?;
        } else {
            self.body(&func.body)?;
        }
        self.emit(Op::Return { value: None });
        Ok(FunctionCode {
            name: self.function.clone(),
            params: codes,
            ret: (func.ret.lanes() > 0).then_some(func.ret),
            ops: core::mem::take(&mut self.ops),
            origins: core::mem::take(&mut self.origins),
            registers: self.registers,
            body,
            launch,
        })
    }

    /// A kernel: its threads begin where it begins.
    fn device_body(&mut self, func: &LoweredFunc) -> Result<Vec<Axis>> {
        let mut axes: Vec<Axis> = Vec::new();
        for axis in func.thread_axes.iter() {
            let extent = self.lasting();
            axes.push(Axis { tag: axis.thread_tag.to_string(), extent });
        }
        let given = axes.iter().map(|axis| Axis { tag: axis.tag.clone(), extent: axis.extent }).collect();
        for (tag, extent) in thread_extents(&func.body)? {
            // An extent that the launch gives need not be known here.
            let launched = axes.iter().find(|axis| axis.tag == tag).map(|axis| axis.extent);
            match (launched, self.index(&extent)) {
                (Some(given), Ok(expected)) => {
                    self.emit(Op::CheckArgument { given, expected, what: format!("extent of {tag}") });
                }
                (Some(_), Err(_)) => {}
                (None, extent) => axes.push(Axis { tag, extent: extent? }),
            }
        }
        self.floor = self.next;
        let at = self.emit(Op::Launch { axes, end: 0 });
        self.kernel = true;
        for axis in func.thread_axes.iter() {
            let to = self.define(&axis.var);
            self.emit(Op::ThreadIndex { to, tag: axis.thread_tag.to_string() });
        }
        self.body(&func.body)?;
        self.emit(Op::EndThread);
        self.set_target(at);
        Ok(given)
    }

    fn param_buffer(
        &mut self,
        buffer: &Buffer,
        output: bool,
        checks: &mut Vec<(Reg, Expr, String)>,
    ) -> Result<BufferCode> {
        let name = buffer.name.to_string();
        let data = match self.vars.get(&buffer.data) {
            Some(reg) => *reg,
            None => self.define(&buffer.data),
        };
        self.views.insert(buffer.data.clone(), None);
        let mut symbol = |this: &mut Self, expr: &Expr, what: String| {
            let given = this.lasting();
            match Var::of(expr) {
                Some(var) if !this.vars.contains_key(&var) => this.define_as(&var, given),
                _ => checks.push((given, expr.clone(), what)),
            }
            given
        };
        let mut shape = Vec::new();
        for (axis, extent) in buffer.shape.iter().enumerate() {
            shape.push(symbol(self, &extent, format!("extent {axis} of `{name}`")));
        }
        let mut strides = Vec::new();
        for (axis, stride) in buffer.strides.iter().enumerate() {
            strides.push(symbol(self, &stride, format!("stride {axis} of `{name}`")));
        }
        let offset = symbol(self, &buffer.elem_offset, format!("offset of `{name}`"));
        Ok(BufferCode {
            name,
            data,
            dtype: buffer.dtype,
            alignment: buffer.data_alignment,
            output,
            shape,
            strides,
            offset,
        })
    }

    fn set_target(&mut self, at: usize) {
        let here = self.ops.len();
        match &mut self.ops[at] {
            Op::Jump { target } | Op::JumpUnless { target, .. } | Op::Loop { target, .. } => *target = here,
            Op::Launch { end, .. } | Op::Fork { end, .. } => *end = here,
            _ => unreachable!("only jumps have targets"),
        }
    }

    fn stmts(&mut self, stmt: &Stmt) -> Result<()> {
        with_stack(|| match &**stmt {
            StmtNode::Seq { stmts } => {
                for stmt in stmts.iter() {
                    self.stmts(&stmt)?;
                }
                Ok(())
            }
            _ => {
                let outer = self.stmt;
                self.begin(stmt);
                let result = self.statement(stmt);
                self.stmt = outer;
                result
            }
        })
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<()> {
        match &**stmt {
            StmtNode::Seq { .. } => self.stmts(stmt),
            StmtNode::For { var, min, extent, kind, annotations, body } => {
                if *kind == ForKind::ThreadBinding {
                    let tag = loop_tag(annotations)?;
                    require!(min.is_int(0), Run, "the loop over {tag} does not begin at 0");
                    return self.threads(stmt, "", &tag, var, extent, body);
                }
                self.for_loop(var, min, extent, *kind, body)
            }
            StmtNode::Store { buffer, index, value, mask } => {
                let place = self.place(buffer)?;
                require!(
                    value.dtype() == buffer.dtype.with_lanes(buffer.dtype.lanes() * index.lanes()),
                    Run,
                    "a value of {} is stored at {} places of {}",
                    value.dtype().short_name(),
                    index.lanes(),
                    buffer.dtype.short_name()
                );
                let index = self.index(index)?;
                let mask = mask.as_ref().map(|mask| self.index(mask)).transpose()?;
                let value = self.value(value)?;
                self.emit(Op::Store { place, index, value, mask });
                Ok(())
            }
            StmtNode::TensorWrite { .. } | StmtNode::Realize { .. } | StmtNode::Prefetch { .. } => {
                fail!(Run, "the interpreter runs programs after StorageFlatten: this one has tensors")
            }
            StmtNode::Alloc { buffer, .. } => self.alloc(buffer),
            StmtNode::Alias { buffer, data } => self.alias(buffer, data),
            StmtNode::Bind { var, value } => {
                let to = self.lasting();
                let index = var.dtype() == I64 && !reads_memory(value);
                let from = if index { self.index(value)? } else { self.value(value)? };
                self.emit(Op::Copy { to, from });
                self.define_as(var, to);
                Ok(())
            }
            StmtNode::Attr { key, node, value, body } => match key.as_str() {
                "thread_extent" | "virtual_thread" => {
                    let (tag, var) = thread_of(node)?;
                    self.threads(stmt, key.as_str(), &tag, &var, value, body)
                }
                "reduce_scope" => {
                    let Ok(reducer) = node.to::<Reducer>() else {
                        fail!(Run, "`reduce_scope` of something that is no reducer");
                    };
                    self.reducers.push(reducer);
                    self.body(body)?;
                    self.reducers.pop();
                    Ok(())
                }
                _ => self.body(body),
            },
            StmtNode::Assert { condition, kind, parts } => {
                let condition = self.index(condition)?;
                let message = parts.iter().map(|part| part.to_string()).collect();
                self.emit(Op::Assert { condition, kind: kind.to_string(), message });
                Ok(())
            }
            StmtNode::If { condition, then_body, else_body } => {
                require!(condition.dtype() == BOOLEAN, Run, "a condition of type {}", condition.dtype().short_name());
                let condition = self.index(condition)?;
                let skip = self.emit(Op::JumpUnless { condition, target: 0 });
                self.body(then_body)?;
                if let Some(body) = else_body {
                    let end = self.emit(Op::Jump { target: 0 });
                    self.set_target(skip);
                    self.body(body)?;
                    self.set_target(end);
                } else {
                    self.set_target(skip);
                }
                Ok(())
            }
            StmtNode::Evaluate { value } => self.evaluate(value),
            StmtNode::While { condition, body } => {
                let top = self.ops.len();
                let condition = self.index(condition)?;
                let leave = self.emit(Op::JumpUnless { condition, target: 0 });
                self.enter_loop(true);
                self.body(body)?;
                self.leave_loop(Some(top), |_| {});
                self.emit(Op::Jump { target: top });
                self.set_target(leave);
                self.set_breaks();
                Ok(())
            }
            StmtNode::Return { value } => {
                let value = self.value(value)?;
                self.emit(Op::Return { value: Some(value) });
                Ok(())
            }
        }
    }

    fn enter_loop(&mut self, serial: bool) {
        self.loops.push(LoopLabels {
            breaks: Vec::new(),
            continues: Vec::new(),
            allocated: self.allocated.len(),
            serial,
        });
    }

    /// Sets the jumps to the next iteration, to `top` or to here.
    fn leave_loop(&mut self, top: Option<usize>, step: impl FnOnce(&mut Self)) {
        let continues = core::mem::take(&mut self.loops.last_mut().expect("inside a loop").continues);
        for at in continues {
            match top {
                Some(top) => self.ops[at] = Op::Jump { target: top },
                None => self.set_target(at),
            }
        }
        step(self);
    }

    fn set_breaks(&mut self) {
        let labels = self.loops.pop().expect("inside a loop");
        for at in labels.breaks {
            self.set_target(at);
        }
    }

    fn for_loop(&mut self, var: &Var, min: &Expr, extent: &Expr, kind: ForKind, body: &Stmt) -> Result<()> {
        require!(
            var.dtype().is_integer() && min.dtype() == var.dtype() && extent.dtype() == var.dtype(),
            Run,
            "a loop over {} from {} with an extent of {}",
            var.dtype().short_name(),
            min.dtype().short_name(),
            extent.dtype().short_name()
        );
        let (outer_vars, outer_visible, floor) = (self.vars.clone(), self.visible.clone(), self.floor);
        let lane = Lane::of(var.dtype())?;
        let parallel = kind == ForKind::Parallel;
        if parallel {
            require!(!self.kernel, Run, "a parallel loop of the cpu inside a kernel");
        }
        let (reg, end) = (self.lasting(), self.lasting());
        let min = self.index(min)?;
        let extent = self.index(extent)?;
        self.emit(Op::Copy { to: reg, from: min });
        let op = BinaryOp::Add;
        self.emit(Op::Binary { to: end, op, lane, a: min, b: extent, checked: true, active: None });
        self.define_as(var, reg);
        if parallel {
            self.emit(Op::EnterParallel);
        }
        let outer_parallel = self.parallel;
        self.parallel |= parallel;
        let top = self.emit(Op::Loop { var: reg, end, lane, signed: var.dtype().is_int(), target: 0 });
        if parallel {
            self.emit(Op::NextParallel);
        }
        self.enter_loop(!parallel);
        self.body(body)?;
        self.leave_loop(None, |_| {});
        let one = self.temporary();
        self.emit(Op::Constant { to: one, value: Value::One(1) });
        if var.dtype() == I64 {
            self.emit(Op::Quick { to: reg, quick: Quick::Index(BinaryOp::Add, true), a: reg, b: one });
        } else {
            let op = BinaryOp::Add;
            self.emit(Op::Binary { to: reg, op, lane, a: reg, b: one, checked: true, active: None });
        }
        self.emit(Op::Jump { target: top });
        self.set_target(top);
        self.set_breaks();
        if parallel {
            self.emit(Op::LeaveParallel);
        }
        self.parallel = outer_parallel;
        (self.vars, self.visible, self.floor) = (outer_vars, outer_visible, floor);
        Ok(())
    }

    /// A body that threads run: real ones that a launch makes, or copies of one thread.
    fn threads(&mut self, stmt: &Stmt, key: &str, tag: &str, var: &Var, extent: &Expr, body: &Stmt) -> Result<()> {
        let (vars, visible, floor) = (self.vars.clone(), self.visible.clone(), self.floor);
        let mut launch = None;
        if !self.kernel {
            let mut axes: Vec<Axis> = Vec::new();
            for (tag, extent) in thread_extents(stmt)? {
                let extent = self.index(&extent).map_err(|error| {
                    error.note(format!("the extent of {tag} has to be known where the kernel is launched"))
                })?;
                match axes.iter().find(|axis| axis.tag == tag) {
                    Some(axis) => {
                        let what = format!("second extent of {tag}");
                        self.emit(Op::CheckArgument { given: extent, expected: axis.extent, what });
                    }
                    None => axes.push(Axis { tag, extent }),
                }
            }
            launch = Some(self.emit(Op::Launch { axes, end: 0 }));
            self.kernel = true;
        }
        let reg = self.lasting();
        let mut fork = None;
        if is_virtual(key, tag) {
            let extent = self.index(extent)?;
            fork = Some(self.emit(Op::Fork { var: reg, extent, end: 0 }));
        } else {
            self.emit(Op::ThreadIndex { to: reg, tag: tag.to_owned() });
        }
        self.define_as(var, reg);
        let loops = core::mem::take(&mut self.loops);
        self.body(body)?;
        self.loops = loops;
        if let Some(fork) = fork {
            self.emit(Op::EndThread);
            self.set_target(fork);
        }
        if let Some(launch) = launch {
            self.emit(Op::EndThread);
            self.set_target(launch);
            self.kernel = false;
        }
        (self.vars, self.visible, self.floor) = (vars, visible, floor);
        Ok(())
    }

    fn alloc(&mut self, buffer: &Buffer) -> Result<()> {
        let data = self.lasting();
        let mut shape = Vec::new();
        for extent in buffer.shape.iter() {
            shape.push(self.index(&extent)?);
        }
        let mut strides = Vec::new();
        for stride in buffer.strides.iter() {
            strides.push(self.index(&stride)?);
        }
        // Strides may leave gaps; the number of elements is then that of the outermost dimension times its stride.
        if let (Some(first), Some(stride)) = (shape.first().copied(), strides.first().copied()) {
            shape = vec![first, stride];
        }
        let scope = buffer.scope.as_str().split('.').next().unwrap_or("");
        let shared = match scope {
            "shared" if self.kernel => Some(Group::Block),
            "warp" if self.kernel => Some(Group::Warp),
            _ => None,
        };
        self.emit(Op::Alloc(Box::new(Allocation {
            data,
            name: buffer.name.to_string(),
            dtype: buffer.dtype,
            shape,
            alignment: buffer.data_alignment,
            shared,
        })));
        if shared.is_none() {
            self.allocated.push(data);
        }
        self.define_as(&buffer.data, data);
        self.views.insert(buffer.data.clone(), None);
        Ok(())
    }

    fn alias(&mut self, buffer: &Buffer, data: &Expr) -> Result<()> {
        let (reg, view) = (self.lasting(), self.lasting());
        let from = self.value(data)?;
        self.emit(Op::Copy { to: reg, from });
        let shape = buffer.shape.iter().map(|extent| self.index(&extent)).collect::<Result<Vec<_>>>()?;
        let strides = buffer.strides.iter().map(|stride| self.index(&stride)).collect::<Result<Vec<_>>>()?;
        let offset = self.index(&buffer.elem_offset)?;
        let place = Place::new(reg, None, buffer.name.as_str(), buffer.dtype);
        self.emit(Op::View { to: view, place, shape, strides, offset, alignment: buffer.data_alignment });
        self.define_as(&buffer.data, reg);
        self.views.insert(buffer.data.clone(), Some(view));
        Ok(())
    }

    fn place(&mut self, buffer: &Buffer) -> Result<Place> {
        let Some(data) = self.vars.get(&buffer.data).copied() else {
            return Err(CompileError::new(ErrorKind::Run, format!("unknown buffer `{}`", buffer.name))
                .note("no parameter, `alloc` or `alias` around the statement defines its data pointer"));
        };
        let view = self.views.get(&buffer.data).copied().flatten();
        Ok(Place::new(data, view, buffer.name.as_str(), buffer.dtype))
    }

    /// An expression whose overflow is an error.
    fn index(&mut self, expr: &Expr) -> Result<Reg> {
        let outer = core::mem::replace(&mut self.checked, true);
        let result = self.expr(expr);
        self.checked = outer;
        result
    }

    /// An expression that computes data.
    fn value(&mut self, expr: &Expr) -> Result<Reg> {
        let outer = core::mem::replace(&mut self.checked, false);
        let result = self.expr(expr);
        self.checked = outer;
        result
    }

    fn expr(&mut self, expr: &Expr) -> Result<Reg> {
        with_stack(|| {
            let key = (expr.address(), self.checked);
            if let Some(reg) = self.memo.iter().rev().find_map(|known| known.get(&key)) {
                return Ok(*reg);
            }
            let reg = self.new_expr(expr)?;
            let repeatable = match &**expr {
                ExprNode::Call { kind, name, .. } => builtin::effect(*kind, name.as_str()) <= builtin::Effect::Reads,
                _ => true,
            };
            if repeatable {
                self.memo.last_mut().expect("one at least").insert(key, reg);
            }
            Ok(reg)
        })
    }

    fn same_lanes(&self, what: &str, a: &Expr, b: &Expr) -> Result<()> {
        require!(a.dtype() == b.dtype(), Run, "{what} of {} and {}", a.dtype().short_name(), b.dtype().short_name());
        Ok(())
    }

    /// The lanes that count, if the value has as many.
    fn active_for(&self, lanes: u16) -> Option<Reg> {
        self.active.filter(|(_, count)| *count == lanes).map(|(reg, _)| reg)
    }

    fn new_expr(&mut self, expr: &Expr) -> Result<Reg> {
        let dtype = expr.dtype();
        Ok(match &**expr {
            ExprNode::Int { value, .. } => self.constant(Value::One(*value as u64)),
            ExprNode::Float { dtype, value } => {
                let bits = number::from_f64(*dtype, *value);
                self.constant(Value::One(bits))
            }
            ExprNode::Text { .. } => fail!(Run, "a text that is no argument of a call"),
            ExprNode::Var { name, .. } => {
                let var = Var::of(expr).expect("a variable");
                match self.vars.get(&var) {
                    Some(reg) => *reg,
                    None => fail!(Run, "unknown variable `{name}`: nothing around the statement defines it"),
                }
            }
            ExprNode::Cast { dtype, value } => {
                require!(dtype.lanes() == value.lanes(), Run, "a cast that changes the number of lanes");
                let (old, new) = (value.dtype().element(), dtype.element());
                Lane::of(old)?;
                Lane::of(new)?;
                let from = self.expr(value)?;
                let to = self.temporary();
                self.emit(Op::Cast { to, from, old, new });
                to
            }
            ExprNode::Binary { op, a, b, .. } => {
                self.same_lanes("arithmetic", a, b)?;
                let lane = Lane::of(a.dtype())?;
                let (x, y) = (self.expr(a)?, self.expr(b)?);
                let (to, active, checked) = (self.temporary(), self.active_for(dtype.lanes()), self.checked);
                let arithmetic = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul);
                let quick = match dtype {
                    I64 if arithmetic => Some(Quick::Index(*op, checked)),
                    F32 if arithmetic => Some(Quick::Single(*op)),
                    _ => None,
                };
                if let Some(quick) = quick {
                    self.emit(Op::Quick { to, quick, a: x, b: y });
                    return Ok(to);
                }
                self.emit(Op::Binary { to, op: *op, lane, a: x, b: y, checked, active });
                to
            }
            ExprNode::Compare { op, a, b } => {
                self.same_lanes("comparison", a, b)?;
                let lane = Lane::of(a.dtype())?;
                let (x, y) = (self.expr(a)?, self.expr(b)?);
                let to = self.temporary();
                if a.dtype() == I64 {
                    self.emit(Op::Quick { to, quick: Quick::Compare(*op), a: x, b: y });
                    return Ok(to);
                }
                self.emit(Op::Compare { to, op: *op, lane, a: x, b: y });
                to
            }
            ExprNode::Logic { op, a, b } => {
                self.same_lanes("condition", a, b)?;
                let (x, y) = (self.expr(a)?, self.expr(b)?);
                let to = self.temporary();
                self.emit(Op::Logic { to, op: *op, a: x, b: y });
                to
            }
            ExprNode::Not { value } => {
                let from = self.expr(value)?;
                let to = self.temporary();
                self.emit(Op::Not { to, from });
                to
            }
            ExprNode::Select { condition, true_value, false_value } => {
                self.same_lanes("choice", true_value, false_value)?;
                let lanes = condition.lanes();
                require!(lanes == 1 || lanes == dtype.lanes(), Run, "a condition of {lanes} lanes");
                let condition = self.expr(condition)?;
                let (a, b) = (self.expr(true_value)?, self.expr(false_value)?);
                let to = self.temporary();
                self.emit(Op::Select { to, condition, a, b });
                to
            }
            ExprNode::IfThenElse { condition, then_value, else_value } => {
                self.same_lanes("choice", then_value, else_value)?;
                if condition.lanes() > 1 {
                    return self.lanes_choice(condition, then_value, else_value);
                }
                let condition = self.expr(condition)?;
                let to = self.temporary();
                let skip = self.emit(Op::JumpUnless { condition, target: 0 });
                self.arm(then_value, to)?;
                let end = self.emit(Op::Jump { target: 0 });
                self.set_target(skip);
                self.arm(else_value, to)?;
                self.set_target(end);
                to
            }
            ExprNode::Ramp { base, stride, lanes } => {
                self.same_lanes("ramp", base, stride)?;
                let dtype = base.dtype();
                require!(dtype.is_integer() && dtype.is_scalar(), Run, "a ramp of {}", dtype.short_name());
                let (base, stride) = (self.expr(base)?, self.expr(stride)?);
                let (to, checked) = (self.temporary(), self.checked);
                self.emit(Op::Ramp { to, dtype, base, stride, lanes: *lanes, checked });
                to
            }
            ExprNode::Broadcast { value, lanes } => {
                require!(value.dtype().is_scalar(), Run, "a broadcast of a vector");
                let from = self.expr(value)?;
                let to = self.temporary();
                self.emit(Op::Broadcast { to, from, lanes: *lanes });
                to
            }
            ExprNode::Shuffle { vectors, indices } => {
                let total: i64 = vectors.iter().map(|vector| i64::from(vector.lanes())).sum();
                let mut lanes = Vec::new();
                for index in indices.iter() {
                    require!((0..total).contains(&index), Run, "a shuffle takes lane {index} of {total}");
                    lanes.push(index as usize);
                }
                let vectors = vectors.iter().map(|vector| self.expr(&vector)).collect::<Result<Vec<_>>>()?;
                let to = self.temporary();
                self.emit(Op::Shuffle { to, vectors, indices: lanes });
                to
            }
            ExprNode::Let { var, value, body } => {
                let from = self.expr(value)?;
                let (outer_vars, outer_visible) = (self.vars.get(var).copied(), self.visible.clone());
                self.define_as(var, from);
                let result = self.expr(body)?;
                if let Some(reg) = outer_vars {
                    self.vars.insert(var.clone(), reg);
                }
                self.visible = outer_visible;
                result
            }
            ExprNode::Load { buffer, index, mask, .. } => {
                let place = self.place(buffer)?;
                require!(index.dtype().is_integer(), Run, "an index of {}", index.dtype().short_name());
                let active = self.active_for(index.lanes());
                let index = self.index(index)?;
                let mask = mask.as_ref().map(|mask| self.index(mask)).transpose()?;
                let mask = match (mask, active) {
                    (Some(mask), Some(active)) => {
                        let to = self.temporary();
                        self.emit(Op::Logic { to, op: crate::ir::LogicOp::And, a: mask, b: active });
                        Some(to)
                    }
                    (mask, active) => mask.or(active),
                };
                let to = self.temporary();
                self.emit(Op::Load { to, place, index, mask });
                to
            }
            ExprNode::TensorRead { .. } | ExprNode::Reduce { .. } => {
                fail!(Run, "the interpreter runs programs after StorageFlatten: this one has tensors")
            }
            ExprNode::Call { kind, name, args, dtype } => {
                let args: Vec<Expr> = args.iter().collect();
                self.call(*kind, name.as_str(), &args, *dtype)?
            }
        })
    }

    fn constant(&mut self, value: Value) -> Reg {
        let to = self.temporary();
        self.emit(Op::Constant { to, value });
        to
    }

    /// A value that is evaluated only if its side is chosen.
    fn arm(&mut self, value: &Expr, to: Reg) -> Result<()> {
        self.memo.push(HashMap::new());
        let from = self.expr(value);
        self.memo.pop();
        let from = from?;
        self.emit(Op::Copy { to, from });
        Ok(())
    }

    /// A choice for each lane, of which only the chosen side is evaluated.
    fn lanes_choice(&mut self, condition: &Expr, then_value: &Expr, else_value: &Expr) -> Result<Reg> {
        let lanes = condition.lanes();
        require!(lanes == then_value.lanes(), Run, "a condition of {lanes} lanes for {}", then_value.lanes());
        let condition = self.expr(condition)?;
        let negated = self.temporary();
        self.emit(Op::Not { to: negated, from: condition });
        let mut sides = [0; 2];
        for (side, (chosen, value)) in sides.iter_mut().zip([(condition, then_value), (negated, else_value)]) {
            let mut active = chosen;
            if let Some(outer) = self.active_for(lanes) {
                active = self.temporary();
                self.emit(Op::Logic { to: active, op: crate::ir::LogicOp::And, a: chosen, b: outer });
            }
            *side = self.temporary();
            let any = self.temporary();
            self.emit(Op::Any { to: any, from: active });
            let skip = self.emit(Op::JumpUnless { condition: any, target: 0 });
            let outer = self.active.replace((active, lanes));
            let result = self.arm(value, *side);
            self.active = outer;
            result?;
            let end = self.emit(Op::Jump { target: 0 });
            self.set_target(skip);
            let zeros = vec![0; usize::from(lanes)];
            self.emit(Op::Constant { to: *side, value: Value::Many(zeros.into()) });
            self.set_target(end);
        }
        let to = self.temporary();
        self.emit(Op::Select { to, condition, a: sides[0], b: sides[1] });
        Ok(to)
    }

    fn evaluate(&mut self, value: &Expr) -> Result<()> {
        if let ExprNode::Call { kind: CallKind::Builtin, name, args, .. } = &**value {
            match name.as_str() {
                builtin::STORAGE_SYNC => {
                    let scope = match args.get(0).as_deref() {
                        Some(ExprNode::Text { value }) => value.to_string(),
                        _ => fail!(Run, "`storage_sync` of something that is no scope"),
                    };
                    let group = match scope.as_str() {
                        "shared" => Group::Block,
                        "warp" => Group::Warp,
                        _ => fail!(Run, "`storage_sync` of scope `{scope}`: the interpreter knows shared and warp"),
                    };
                    require!(self.kernel, Run, "a barrier outside of a kernel");
                    self.emit(Op::Sync(group));
                    return Ok(());
                }
                builtin::THREAD_ALLREDUCE => return self.all_reduce(&args.to_vec()),
                builtin::BREAK_LOOP | builtin::CONTINUE_LOOP => return self.jump(name.as_str() == builtin::BREAK_LOOP),
                _ => {}
            }
        }
        self.value(value)?;
        Ok(())
    }

    fn jump(&mut self, leaves: bool) -> Result<()> {
        let Some(labels) = self.loops.last() else { fail!(Run, "`break_loop` or `continue_loop` outside of a loop") };
        require!(labels.serial || !leaves, Run, "`break_loop` in a parallel loop");
        let allocated = labels.allocated;
        self.free_to(allocated);
        let at = self.emit(Op::Jump { target: 0 });
        let labels = self.loops.last_mut().expect("there is one");
        if leaves {
            labels.breaks.push(at)
        } else {
            labels.continues.push(at)
        }
        Ok(())
    }

    /// `thread_allreduce(n, sources.., condition, results.., threads..)`
    fn all_reduce(&mut self, args: &[Expr]) -> Result<()> {
        require!(self.kernel, Run, "`thread_allreduce` outside of a kernel");
        let Some(reducer) = self.reducers.last().cloned() else {
            fail!(Run, "`thread_allreduce` without an attribute `reduce_scope` around it");
        };
        let count = args.first().and_then(|count| count.as_int()).unwrap_or(0) as usize;
        require!(count > 0 && args.len() > 2 * count + 2, Run, "`thread_allreduce` with {} arguments", args.len());
        let sources = args[1..=count].iter().map(|source| self.value(source)).collect::<Result<Vec<_>>>()?;
        let condition = self.value(&args[count + 1])?;
        let mut results = Vec::new();
        for (handle, source) in args[count + 2..2 * count + 2].iter().zip(&args[1..]) {
            let data = self.value(handle)?;
            results.push(Place::new(data, None, "result", source.dtype()));
        }
        let mut tags = Vec::new();
        for thread in &args[2 * count + 2..] {
            let Some(reg) = Var::of(thread).and_then(|var| self.vars.get(&var).copied()) else {
                fail!(Run, "`thread_allreduce` over something that is no thread");
            };
            let tag = self.ops.iter().rev().find_map(|op| match op {
                Op::ThreadIndex { to, tag } if *to == reg => Some(tag.clone()),
                _ => None,
            });
            let Some(tag) = tag else { fail!(Run, "`thread_allreduce` over a variable that is no thread") };
            tags.push(tag);
        }
        let reducer = self.reducer(&reducer)?;
        self.emit(Op::AllReduce(Box::new(AllReduce { reducer, sources, condition, results, tags })));
        Ok(())
    }

    /// A function of the combiner: left values, right values and after them the results and the identity.
    fn reducer(&mut self, reducer: &Reducer) -> Result<usize> {
        let mut inner = Compiler::new(&self.function, self.shared);
        for var in reducer.lhs.iter().chain(reducer.rhs.iter()) {
            inner.define(&var);
        }
        let outputs: Vec<Reg> =
            reducer.results.iter().chain(reducer.identity.iter()).map(|_| inner.lasting()).collect();
        for (value, to) in reducer.results.iter().chain(reducer.identity.iter()).zip(outputs) {
            let from = inner.value(&value)?;
            inner.emit(Op::Copy { to, from });
        }
        inner.emit(Op::Return { value: None });
        let code = FunctionCode {
            name: inner.function.clone(),
            params: Vec::new(),
            ret: None,
            ops: inner.ops,
            origins: inner.origins,
            registers: inner.registers,
            body: 0,
            launch: Vec::new(),
        };
        self.shared.reducers.push(code);
        Ok(self.shared.names.len() + self.shared.reducers.len() - 1)
    }

    fn operands(&mut self, args: &[Expr]) -> Result<Vec<Operand>> {
        let mut operands = Vec::new();
        for arg in args {
            operands.push(match &**arg {
                ExprNode::Text { value } => Operand::Text(value.to_string()),
                _ => Operand::Value(self.expr(arg)?, arg.dtype()),
            });
        }
        Ok(operands)
    }

    fn call(&mut self, kind: CallKind, name: &str, args: &[Expr], dtype: DataType) -> Result<Reg> {
        if self.active.is_some() && builtin::effect(kind, name) > builtin::Effect::Reads {
            fail!(Run, "a call of `{name}` under a condition for each lane");
        }
        match kind {
            CallKind::Builtin => self.builtin(name, args, dtype),
            CallKind::LlvmIntrinsic => {
                let Some(known) = llvm_math(name) else { fail!(Run, "unknown intrinsic `{name}`") };
                self.builtin(known, args, dtype)
            }
            CallKind::Extern | CallKind::PureExtern => {
                let args = self.operands(args)?;
                let to = self.temporary();
                self.emit(Op::Extern { to, name: name.to_owned(), dtype, args });
                Ok(to)
            }
            CallKind::Packed => {
                let args = self.operands(args)?;
                let to = self.temporary();
                self.emit(Op::Packed { to, name: name.to_owned(), dtype, args });
                Ok(to)
            }
            CallKind::Function => {
                let Some(function) = self.shared.names.get(name).copied() else {
                    fail!(Run, "the module has no function `{name}`");
                };
                let args = args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>>>()?;
                let to = self.temporary();
                self.emit(Op::Call { to, function, args });
                Ok(to)
            }
        }
    }

    /// The address of what a load would read.
    fn address(&mut self, name: &str, load: &Expr) -> Result<Reg> {
        let ExprNode::Load { buffer, index, .. } = &**load else { fail!(Run, "`{name}` takes a load") };
        let place = self.place(buffer)?;
        let index = match &**index {
            ExprNode::Ramp { base, .. } => self.index(base)?,
            _ => self.index(index)?,
        };
        let to = self.temporary();
        self.emit(Op::Address { to, place, index });
        Ok(to)
    }

    fn builtin(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<Reg> {
        if let Some(arity) = builtin::math_arity(name) {
            require!(args.len() == arity, Run, "`{name}` takes {arity} arguments, got {}", args.len());
            for arg in args {
                self.same_lanes(name, arg, &args[0])?;
            }
            Lane::of(args[0].dtype())?;
            let args = args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>>>()?;
            let (to, active) = (self.temporary(), self.active_for(dtype.lanes()));
            self.emit(Op::Math { to, name: name.to_owned(), dtype: dtype.element(), args, active });
            return Ok(to);
        }
        require!(builtin::effect_of_builtin(name).is_some(), Run, "unknown builtin `{name}`");
        let arity = |count: usize| -> Result<()> {
            require!(args.len() == count, Run, "`{name}` takes {count} arguments, got {}", args.len());
            Ok(())
        };
        match name {
            builtin::LIKELY => {
                arity(1)?;
                self.expr(&args[0])
            }
            builtin::ADDRESS_OF | builtin::ACCESS_PTR => {
                arity(if name == builtin::ADDRESS_OF { 1 } else { 3 })?;
                self.address(name, &args[0])
            }
            builtin::MAKE_TENSOR => {
                require!(
                    args.len() >= 2 && args.len() % 2 == 0,
                    Run,
                    "`{name}` takes a load, a number, extents, strides"
                );
                let ExprNode::Load { buffer, .. } = &*args[0] else { fail!(Run, "`{name}` takes a load") };
                let data = self.address(name, &args[0])?;
                let sizes = args[2..].iter().map(|size| self.index(size)).collect::<Result<Vec<_>>>()?;
                let (shape, strides) = sizes.split_at(sizes.len() / 2);
                let (shape, strides) = (shape.to_vec(), strides.to_vec());
                let to = self.temporary();
                self.emit(Op::MakeTensor { to, data, dtype: buffer.dtype, shape, strides });
                Ok(to)
            }
            builtin::ANY_LANE => {
                arity(1)?;
                let from = self.expr(&args[0])?;
                let to = self.temporary();
                self.emit(Op::Any { to, from });
                Ok(to)
            }
            builtin::ASSUME => {
                arity(1)?;
                let condition = self.index(&args[0])?;
                self.emit(Op::Assume { condition });
                Ok(condition)
            }
            builtin::WARP_SHUFFLE | "warp_shuffle_up" | "warp_shuffle_down" | "warp_shuffle_xor" => {
                arity(5)?;
                require!(self.kernel, Run, "`{name}` outside of a kernel");
                let exchange = match name {
                    builtin::WARP_SHUFFLE => Exchange::Index,
                    "warp_shuffle_up" => Exchange::Up,
                    "warp_shuffle_down" => Exchange::Down,
                    _ => Exchange::Xor,
                };
                let (mask, value) = (self.expr(&args[0])?, self.expr(&args[1])?);
                let (lane, width) = (self.expr(&args[2])?, self.expr(&args[3])?);
                let to = self.temporary();
                self.emit(Op::WarpShuffle { to, exchange, mask, value, lane, width });
                Ok(to)
            }
            builtin::PARALLEL_BARRIER => {
                require!(!self.parallel, Run, "`parallel_barrier` inside a parallel loop");
                Ok(self.constant(Value::One(0)))
            }
            builtin::STORAGE_SYNC | builtin::THREAD_ALLREDUCE | builtin::BREAK_LOOP | builtin::CONTINUE_LOOP => {
                fail!(Run, "`{name}` inside an expression: it is a statement of its own")
            }
            builtin::CALL_PACKED => {
                let Some(ExprNode::Text { value }) = args.first().map(|arg| &**arg) else {
                    fail!(Run, "`call_packed` takes the name of a function first");
                };
                self.call(CallKind::Packed, value.as_str(), &args[1..], dtype)
            }
            _ => {
                let args = self.operands(args)?;
                let to = self.temporary();
                self.emit(Op::Builtin { to, name: name.to_owned(), dtype, args });
                Ok(to)
            }
        }
    }
}

/// The math function or builtin that an intrinsic of LLVM is.
fn llvm_math(name: &str) -> Option<&'static str> {
    Some(match name.strip_prefix("llvm.")? {
        "sqrt" => "sqrt",
        "fabs" => "abs",
        "abs" => "abs",
        "floor" => "floor",
        "ceil" => "ceil",
        "trunc" => "trunc",
        "roundeven" | "rint" | "nearbyint" => "round",
        "fma" | "fmuladd" => "fma",
        "copysign" => "copysign",
        "minimum" => "nanmin",
        "maximum" => "nanmax",
        "exp" => "exp",
        "exp2" => "exp2",
        "log" => "log",
        "log2" => "log2",
        "log10" => "log10",
        "sin" => "sin",
        "cos" => "cos",
        "pow" => "pow",
        "ctpop" => "popcount",
        "ctlz" => "clz",
        "cttz" => "ctz",
        _ => return None,
    })
}
