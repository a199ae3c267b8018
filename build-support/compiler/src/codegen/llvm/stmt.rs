//! Statements.

use inkwell::values::IntValue;
use kernpack::{Any, Map, Str};

use super::CodeGenLLVM;
use super::control::LoopHints;
use super::emit::Value;
use super::loop_cost::may_vectorize;
use super::state::LoopFrame;
use crate::error::{Result, fail};
use crate::ir::{CallKind, DataTypeExt, Expr, ExprNode, ForKind, Stmt, StmtNode, Var, builtin, with_stack};

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Emits a statement.
    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Result<()> {
        let outer = self.enter_line(stmt);
        let done = with_stack(|| self.write(stmt));
        self.leave_line(outer);
        done
    }

    fn write(&mut self, stmt: &Stmt) -> Result<()> {
        match &**stmt {
            StmtNode::Seq { stmts } => stmts.iter().try_for_each(|stmt| self.stmt(&stmt)),
            StmtNode::For { var, min, extent, kind, annotations, body } => match kind {
                ForKind::Parallel => {
                    self.state.index_facts.note_loop(var, min, extent);
                    let is_strided = annotations.get("parallel_stride_pattern").is_some();
                    self.parallel_for(var, (min, extent), is_strided, hints(annotations), body)
                }
                ForKind::ThreadBinding => {
                    fail!(
                        Target,
                        "the loop `{}` is bound to a thread of a device; this code runs on the cpu",
                        var.name()
                    )
                }
                ForKind::Serial | ForKind::Unrolled | ForKind::Vectorized => {
                    self.state.index_facts.note_loop(var, min, extent);
                    let mut hints = hints(annotations);
                    hints.unroll |= *kind == ForKind::Unrolled;
                    hints.no_vectorize |= !may_vectorize(body);
                    hints.no_unroll |= self.is_large && !hints.unroll && hints.unroll_count.is_none();
                    let (begin, end) = self.bounds(min, extent)?;
                    let step = begin.get_type().const_int(1, false);
                    self.for_range(var, (begin, end, step), hints, |this| this.body(body))
                }
            },
            StmtNode::Store { buffer, index, value, mask } => self.store(buffer, index, value, mask.as_ref()),
            StmtNode::Alloc { buffer, .. } => self.allocate(buffer),
            StmtNode::Alias { buffer, data } => {
                self.bind(&buffer.data, data)?;
                self.note_pointer(buffer, Self::is_argument(data));
                Ok(())
            }
            StmtNode::Bind { var, value } => self.bind(var, value),
            StmtNode::Attr { key, node, value, body } => self.attribute(key.as_str(), node, value, body),
            StmtNode::Assert { condition, kind, parts } => {
                let parts: Vec<_> = parts.iter().map(|part| part.as_str().to_owned()).collect();
                self.assert(condition, kind.as_str(), &parts)
            }
            StmtNode::If { condition, then_body, else_body } => self.if_stmt(condition, then_body, else_body.as_ref()),
            StmtNode::Evaluate { value } => {
                if !matches!(**value, ExprNode::Int { .. } | ExprNode::Float { .. } | ExprNode::Var { .. }) {
                    self.data_value(value)?;
                }
                Ok(())
            }
            StmtNode::While { condition, body } => self.while_stmt(condition, body),
            StmtNode::Return { value } => self.return_value(value),
            StmtNode::TensorWrite { tensor, .. }
            | StmtNode::Realize { tensor, .. }
            | StmtNode::Prefetch { tensor, .. } => {
                fail!(Lower, "the program still names the tensor `{}`: storage is not flattened", tensor.name())
            }
        }
    }

    /// The first value of a loop's variable, and the value after the last one.
    pub(super) fn bounds(&mut self, min: &Expr, extent: &Expr) -> Result<(IntValue<'ctx>, IntValue<'ctx>)> {
        let (begin, extent) = (self.index_value(min)?, self.index_value(extent)?);
        match (begin, extent) {
            (Value::IntValue(begin), Value::IntValue(extent)) => {
                let end = if begin.get_zero_extended_constant() == Some(0) {
                    extent
                } else {
                    self.builder.build_int_nsw_add(begin, extent, "")?
                };
                Ok((begin, end))
            }
            _ => fail!(Lower, "the bounds of a loop are scalar integers, not {}", min.dtype().short_name()),
        }
    }

    /// Binds a name to a value.
    fn bind(&mut self, var: &Var, value: &Expr) -> Result<()> {
        if var.dtype().is_handle() {
            let region = self.region_of(value, var.name());
            self.state.regions.set(var, region);
            if let Some(other) = Var::of(value)
                && let Some(facts) = self.state.pointers.get(&other).copied()
            {
                self.state.pointers.insert(var.clone(), facts);
            }
        }
        let bound = if var.dtype().is_integer() { self.index_value(value)? } else { self.data_value(value)? };
        self.define(var, value, bound);
        if let ExprNode::Call { kind: CallKind::Builtin, name, args, .. } = &**value
            && name.as_str() == builtin::ALLOC_WORKSPACE
            && let (Some(kind), Some(id), Value::PointerValue(pointer)) = (args.get(0), args.get(1), bound)
        {
            let device = (self.value(&kind)?, self.value(&id)?);
            self.note_workspace(var, device, pointer);
        }
        Ok(())
    }

    fn attribute(&mut self, key: &str, node: &Any, value: &Expr, body: &Stmt) -> Result<()> {
        match key {
            "compute_scope" => self.compute_scope(node, body),
            "storage_alignment" => {
                if let (Ok(var), Some(align)) = (node.to::<Var>(), value.as_int().and_then(|a| u64::try_from(a).ok()))
                    && align.is_power_of_two()
                {
                    self.state.pointers.entry(var).or_default().align = align;
                }
                self.body(body)
            }
            "pragma_import_llvm" => {
                let ExprNode::Text { value } = &**value else {
                    fail!(Target, "the pragma `import_llvm` takes text of LLVM, or the path of a file with it")
                };
                self.import(value.as_str())?;
                self.body(body)
            }
            "pragma_parallel_launch_point" => self.launch_point(body),
            "pragma_parallel_stride_pattern" => match self.state.task.as_mut() {
                Some(task) => {
                    let outer = core::mem::replace(&mut task.is_strided, true);
                    let done = self.body(body);
                    if let Some(task) = self.state.task.as_mut() {
                        task.is_strided = outer;
                    }
                    done
                }
                None => self.body(body),
            },
            "pragma_parallel_barrier_when_finish" => {
                self.body(body)?;
                self.barrier()
            }
            "thread_extent" | "virtual_thread" => {
                fail!(Target, "the program has threads of a device (`{key}`); this code runs on the cpu")
            }
            _ => self.body(body),
        }
    }

    fn if_stmt(&mut self, condition: &Expr, then_body: &Stmt, else_body: Option<&Stmt>) -> Result<()> {
        let (condition, is_likely) = self.condition(condition)?;
        let (then_block, after) = (self.new_block("then"), self.new_block("after"));
        let else_block = if else_body.is_some() { self.new_block("else") } else { after };
        self.branch_if(condition, then_block, else_block, is_likely)?;
        self.builder.position_at_end(then_block);
        self.body(then_body)?;
        self.jump(after)?;
        if let Some(else_body) = else_body {
            self.builder.position_at_end(else_block);
            self.body(else_body)?;
            self.jump(after)?;
        }
        self.builder.position_at_end(after);
        Ok(())
    }

    fn while_stmt(&mut self, condition: &Expr, body: &Stmt) -> Result<()> {
        let (head, inside, after) = (self.new_block("while"), self.new_block("body"), self.new_block("end"));
        self.jump(head)?;
        self.builder.position_at_end(head);
        let (more, _) = self.condition(condition)?;
        self.branch_if(more, inside, after, false)?;
        self.builder.position_at_end(inside);
        let cleanups = self.state.cleanups.len();
        self.state.loops.push(LoopFrame { break_to: after, continue_to: head, cleanups });
        let done = self.body(body);
        self.state.loops.pop();
        done?;
        self.jump(head)?;
        self.builder.position_at_end(after);
        Ok(())
    }
}

/// The LLVM loop hints of annotations.
fn hints(annotations: &Map<Str, Any>) -> LoopHints {
    let number = |name: &str| annotations.get(name).and_then(|value| value.to::<i64>().ok());
    LoopHints {
        no_unroll: number("unroll") == Some(0),
        unroll: number("unroll") == Some(-1),
        unroll_count: number("unroll").filter(|count| *count > 1),
        no_vectorize: number("vectorize") == Some(0),
    }
}
