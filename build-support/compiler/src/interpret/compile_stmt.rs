//! Compilation of statements.

use super::code::{Allocation, Group, Op, Place, Quick, Value};
use super::compile::{Compiler, LoopLabels};
use super::compile_thread::{loop_tag, thread_of};
use super::number::Lane;
use crate::error::{Result, fail, require};
use crate::ir::builtin;
use crate::ir::{
    BOOLEAN, BinaryOp, Buffer, CallKind, DataTypeExt, Expr, ExprNode, ForKind, I64, Reducer, Stmt, StmtNode, Var,
    visit, with_stack,
};

impl Compiler<'_, '_> {
    pub(super) fn stmts(&mut self, stmt: &Stmt) -> Result<()> {
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

    pub(super) fn statement(&mut self, stmt: &Stmt) -> Result<()> {
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
                        fail!(Run, "`reduce_scope` of something that is not a reducer");
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

    pub(super) fn enter_loop(&mut self, serial: bool) {
        self.loops.push(LoopLabels {
            breaks: Vec::new(),
            continues: Vec::new(),
            allocated: self.allocated.len(),
            serial,
        });
    }

    /// Sets the targets of the jumps to the next iteration to `top` or to the current position.
    pub(super) fn leave_loop(&mut self, top: Option<usize>, step: impl FnOnce(&mut Self)) {
        let continues = core::mem::take(&mut self.loops.last_mut().expect("inside a loop").continues);
        for at in continues {
            match top {
                Some(top) => self.ops[at] = Op::Jump { target: top },
                None => self.set_target(at),
            }
        }
        step(self);
    }

    pub(super) fn set_breaks(&mut self) {
        let labels = self.loops.pop().expect("inside a loop");
        for at in labels.breaks {
            self.set_target(at);
        }
    }

    pub(super) fn for_loop(&mut self, var: &Var, min: &Expr, extent: &Expr, kind: ForKind, body: &Stmt) -> Result<()> {
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

    pub(super) fn alloc(&mut self, buffer: &Buffer) -> Result<()> {
        let data = self.lasting();
        let mut shape = Vec::new();
        for extent in buffer.shape.iter() {
            shape.push(self.index(&extent)?);
        }
        let mut strides = Vec::new();
        for stride in buffer.strides.iter() {
            strides.push(self.index(&stride)?);
        }
        // Strides may leave gaps; the number of elements is then the product of the outermost
        // extent and its stride.
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

    pub(super) fn alias(&mut self, buffer: &Buffer, data: &Expr) -> Result<()> {
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

    pub(super) fn evaluate(&mut self, value: &Expr) -> Result<()> {
        if let ExprNode::Call { kind: CallKind::Builtin, name, args, .. } = &**value {
            match name.as_str() {
                builtin::STORAGE_SYNC => {
                    let scope = match args.get(0).as_deref() {
                        Some(ExprNode::Text { value }) => value.to_string(),
                        _ => fail!(Run, "`storage_sync` of something that is not a scope"),
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

    pub(super) fn jump(&mut self, leaves: bool) -> Result<()> {
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
