//! Statements. A body is a block, so that the declarations of a `Bind` or an `Alloc` end with it.

use kernpack::{Any, Str};

use super::body::{Body, Exit, element_of};
use super::expr::{DONE, is_void};
use super::runtime::{FREE_WORKSPACE, RAISE};
use super::{literal, scalar, vector_memory};
use crate::error::{Result, fail, require};
use crate::ir::builtin::{self, Effect};
use crate::ir::{Buffer, CallKind, DataTypeExt, Expr, ExprNode, ForKind, Stmt, StmtNode, Var, visit, with_stack};

impl Body<'_> {
    /// Writes a statement.
    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Result<()> {
        with_stack(|| self.stmt_node(stmt))
    }

    fn stmt_node(&mut self, stmt: &Stmt) -> Result<()> {
        match &**stmt {
            StmtNode::Seq { stmts } => {
                for stmt in stmts.iter() {
                    self.stmt(&stmt)?;
                }
                Ok(())
            }
            StmtNode::For { var, min, extent, kind, annotations, body } => match kind {
                ForKind::Parallel if !self.in_task => {
                    self.index_facts.note_loop(var, min, extent);
                    let interleaved = annotations.get("parallel_stride_pattern").is_some();
                    self.parallel(var, min, extent, interleaved, body)
                }
                ForKind::ThreadBinding => {
                    fail!(Target, "C has no threads of a device: loop `{}` is bound to one", var.name())
                }
                _ => self.serial(var, min, extent, *kind, body),
            },
            StmtNode::Store { buffer, index, value, mask } => {
                self.ordered = changes_memory(value) || changes_memory(index);
                self.store(buffer, index, value, mask.as_ref())
            }
            StmtNode::Alloc { buffer, .. } => self.alloc(buffer),
            StmtNode::Alias { buffer, data } => {
                let data = self.statement_value(data)?;
                let memory = self.unit.memory_type(buffer.dtype)?;
                let name = self.define(&buffer.data, Some(element_of(buffer)), false);
                self.line(format!("{memory}* const {name} = ({memory}*){data};"));
                Ok(())
            }
            StmtNode::Bind { var, value } if is_builtin(value, builtin::ALLOC_WORKSPACE) => self.workspace(var, value),
            StmtNode::Bind { var, value } => {
                let text = self.statement_value(value)?;
                self.index_facts.note_value(var, value);
                let ty = self.unit.value_type(var.dtype())?;
                let name = self.define(var, None, false);
                self.line(format!("{ty} const {name} = {text};"));
                Ok(())
            }
            StmtNode::Attr { key, node, value, body } => self.attr(key.as_str(), node, value, body),
            StmtNode::Assert { condition, kind, parts } => {
                require!(
                    self.exit == Exit::Status,
                    Target,
                    "`{}` returns no status, so its assertions have no way to fail",
                    self.function
                );
                let condition = self.statement_value(condition)?;
                let message: String = parts.iter().map(|part| part.as_str().to_owned()).collect();
                let (kind, message) = (literal::text(kind.as_str()), literal::text(&message));
                let raise = self.unit.runtime(&RAISE);
                let leave = self.leave("-1");
                self.line(format!("if (!KP_LIKELY({condition})) {{ {raise}({kind}, {message}); {leave} }}"));
                Ok(())
            }
            StmtNode::If { condition, then_body, else_body } => {
                let condition = self.guard(condition)?;
                self.line(format!("if ({condition}) {{"));
                self.indented(|body| body.stmt(then_body))?;
                if let Some(else_body) = else_body {
                    self.line("} else {");
                    self.indented(|body| body.stmt(else_body))?;
                }
                self.line("}");
                Ok(())
            }
            StmtNode::Evaluate { value } => {
                if matches!(**value, ExprNode::Int { .. } | ExprNode::Float { .. }) {
                    return Ok(());
                }
                let text = self.statement_value(value)?;
                if let ExprNode::Call { args, .. } = &**value
                    && is_builtin(value, builtin::FREE_WORKSPACE)
                    && let Some(pointer) = args.get(2)
                    && Var::of(&pointer).is_some()
                {
                    let pointer = self.value(&pointer)?;
                    self.line(format!("(void){text};"));
                    self.line(format!("{pointer} = NULL;"));
                } else if text != DONE {
                    self.line(if is_void(value.dtype()) { format!("{text};") } else { format!("(void){text};") });
                }
                Ok(())
            }
            StmtNode::While { condition, body } => self.block("for (;;) {", |inner| {
                let condition = inner.guard(condition)?;
                inner.line(format!("if (!({condition})) break;"));
                inner.looped(body)
            }),
            StmtNode::Return { value } => {
                let text = self.statement_value(value)?;
                let leave = self.leave(&text);
                self.line(leave);
                Ok(())
            }
            StmtNode::TensorWrite { tensor, .. } => {
                fail!(Lower, "C: a write of tensor `{}` is left: run StorageFlatten first", tensor.op.name())
            }
            StmtNode::Realize { tensor, .. } | StmtNode::Prefetch { tensor, .. } => {
                fail!(Lower, "C: memory for tensor `{}` is left: run StorageFlatten first", tensor.op.name())
            }
        }
    }

    /// Allocates a workspace, which is freed where the program frees it, or when the function ends
    /// earlier.
    fn workspace(&mut self, var: &Var, value: &Expr) -> Result<()> {
        let text = self.statement_value(value)?;
        let free = self.unit.runtime(&FREE_WORKSPACE);
        let name = self.define(var, None, true);
        let device = match &**value {
            ExprNode::Call { args, .. } => {
                [0, 1].map(|at| args.get(at).and_then(|arg| arg.as_int()).unwrap_or(1 - at as i64))
            }
            _ => [1, 0],
        };
        let give_back = format!("if ({name} != NULL) (void){free}({}, {}, {name});", device[0], device[1]);
        self.hoisted.push(format!("  void* {name} = NULL;"));
        // It is allocated again if an iteration has ended early.
        if self.in_loop > 0 {
            self.line(&give_back);
        }
        self.line(format!("{name} = {text};"));
        self.cleanup.push(give_back);
        Ok(())
    }

    fn indented(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.indent += 1;
        let result = work(self);
        self.indent -= 1;
        result
    }

    /// Writes the value of a statement.
    fn statement_value(&mut self, value: &Expr) -> Result<String> {
        self.ordered = changes_memory(value);
        self.value(value)
    }

    /// Writes a condition of sizes and indices.
    fn guard(&mut self, condition: &Expr) -> Result<String> {
        self.ordered = changes_memory(condition);
        self.index(condition)
    }

    fn serial(&mut self, var: &Var, min: &Expr, extent: &Expr, kind: ForKind, body: &Stmt) -> Result<()> {
        self.ordered = changes_memory(min) || changes_memory(extent);
        self.index_facts.note_loop(var, min, extent);
        let first = self.index(min)?;
        let end = if min.is_int(0) { extent.clone() } else { min + extent };
        let mut last = self.index(&end)?;
        if end.as_int().is_none() && Var::of(&end).is_none() {
            last = self.bind(&format!("{}_end", var.name()), end.dtype(), &last)?;
        }
        let ty = self.unit.value_type(var.dtype())?;
        if kind == ForKind::Unrolled && extent.as_int().is_some_and(|count| (2..=65534).contains(&count)) {
            let count = extent.as_int().unwrap_or(1);
            self.lines.push(format!("#if defined(__GNUC__)\n#pragma GCC unroll {count}\n#endif"));
        }
        let name = self.define(var, None, false);
        self.block(&format!("for ({ty} {name} = {first}; {name} < {last}; ++{name}) {{"), |inner| inner.looped(body))
    }

    /// Writes the body of a loop.
    fn looped(&mut self, body: &Stmt) -> Result<()> {
        self.in_loop += 1;
        let written = self.stmt(body);
        self.in_loop -= 1;
        written
    }

    fn store(&mut self, buffer: &Buffer, index: &Expr, value: &Expr, mask: Option<&Expr>) -> Result<()> {
        let dtype = value.dtype();
        let pointer = self.pointer(buffer)?;
        require!(
            dtype.element() == element_of(buffer),
            Type,
            "a {} is stored in buffer `{}` of {}",
            dtype.short_name(),
            buffer.name.as_str(),
            buffer.dtype.short_name()
        );
        if dtype.lanes() == 1 {
            let mask = mask.filter(|mask| !mask.is_true()).map(|mask| self.value(mask)).transpose()?;
            self.indent += usize::from(mask.is_some());
            let written = self.apart(|body| Ok((body.index(index)?, body.value(value)?)));
            self.indent -= usize::from(mask.is_some());
            let ((place, value), lines) = written?;
            let value = scalar::to_memory(self.unit, dtype, value);
            let store = format!("{pointer}[{place}] = {value};");
            match mask {
                Some(mask) if lines.is_empty() => self.line(format!("if ({mask}) {store}")),
                Some(mask) => {
                    self.line(format!("if ({mask}) {{"));
                    self.lines.extend(lines);
                    self.line(format!("  {store}"));
                    self.line("}");
                }
                None => {
                    self.lines.extend(lines);
                    self.line(store);
                }
            }
            return Ok(());
        }
        let lanes = usize::from(index.lanes()) * usize::from(buffer.dtype.lanes());
        require!(lanes == usize::from(dtype.lanes()), Type, "{} is stored at {lanes} places", dtype.short_name());
        let mask = self.mask(mask, dtype)?;
        let place = self.place(buffer, &pointer, index)?;
        let value = self.value(value)?;
        let text = vector_memory::store(self.unit, dtype, &place, &value, mask.as_deref())?;
        self.line(format!("{text};"));
        Ok(())
    }

    fn alloc(&mut self, buffer: &Buffer) -> Result<()> {
        let scope = buffer.scope.as_str();
        let memory_of_cpu = ["", "global", "local"].iter().any(|known| scope.split('.').next() == Some(*known));
        require!(memory_of_cpu, Target, "C has no memory of scope `{scope}` for `{}`", buffer.name.as_str());
        let mut count = i64::from(buffer.dtype.lanes());
        for extent in buffer.shape.iter() {
            let Some(extent) = extent.as_int() else {
                fail!(
                    Lower,
                    "C: the extents of `{}` are not constant: run LowerBuiltin first, which takes its memory from the workspace",
                    buffer.name.as_str()
                )
            };
            count = count.saturating_mul(extent.max(0));
        }
        let memory = self.unit.memory_type(buffer.dtype)?;
        let name = self.define(&buffer.data, Some(element_of(buffer)), true);
        let alignment = buffer.data_alignment.max(1);
        self.line(format!("KP_ALIGN({alignment}) {memory} {name}[{}];", count.max(1)));
        Ok(())
    }

    fn attr(&mut self, key: &str, node: &Any, value: &Expr, body: &Stmt) -> Result<()> {
        match (key, &**value) {
            ("thread_extent" | "virtual_thread", _) => {
                fail!(Target, "C has no threads of a device: `{key}` is left in `{}`", self.function)
            }
            ("pragma_import_c", ExprNode::Text { value }) => {
                let text = format!("{}\n", value.as_str());
                self.unit.functions.push_str(&text);
                self.stmt(body)
            }
            ("compute_scope", _) if !self.in_task => {
                let name = node.to::<Str>().map_or_else(|_| "compute".to_owned(), |name| name.as_str().to_owned());
                self.compute_scope(&name, body)
            }
            _ => self.block("{", |inner| inner.stmt(body)),
        }
    }
}

fn is_builtin(expr: &Expr, wanted: &str) -> bool {
    matches!(&**expr, ExprNode::Call { kind: CallKind::Builtin, name, .. } if name.as_str() == wanted)
}

/// Returns true if the evaluation may change memory, so that the surrounding expressions have to
/// run in order.
pub(super) fn changes_memory(expr: &Expr) -> bool {
    let mut changes = false;
    visit::for_each_expr(expr, |part| {
        if let ExprNode::Call { kind, name, .. } = &**part {
            changes |= builtin::effect(*kind, name.as_str()) >= Effect::Updates;
        }
    });
    changes
}
