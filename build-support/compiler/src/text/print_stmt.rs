//! Statements, functions and modules as text.

use super::names::{quoted, string};
use super::printer::Printer;
use crate::interpret::NOTHING;
use crate::ir::{
    Buffer, DataTypeExt, Expr, ExprNode, ForKind, FuncKind, I64, IrModule, LoweredFunc, Param, Stmt, StmtNode, Var,
    visit, with_stack,
};

impl Printer {
    /// A statement on lines of its own.
    pub(super) fn stmt(&mut self, stmt: &Stmt) {
        with_stack(|| self.stmt_node(stmt));
    }

    /// Buffers that the statement's own expressions use and that nothing declares, but whose data pointer is known here: other views.
    fn views(&mut self, stmt: &Stmt) {
        if self.free.is_none() {
            return;
        }
        let mut found: Vec<Buffer> = Vec::new();
        let mut look = |expr: &Expr| {
            visit::for_each_expr(expr, |part| {
                if let ExprNode::Load { buffer, .. } = &**part {
                    found.push(buffer.clone());
                }
            });
        };
        match &**stmt {
            StmtNode::For { min, extent, .. } => {
                look(min);
                look(extent);
            }
            StmtNode::Store { buffer, index, value, mask } => {
                look(index);
                look(value);
                mask.iter().for_each(look);
                found.push(buffer.clone());
            }
            StmtNode::Alloc { buffer, .. } => buffer.shape.iter().for_each(|extent| look(&extent)),
            StmtNode::Alias { data: value, .. }
            | StmtNode::Bind { value, .. }
            | StmtNode::Evaluate { value }
            | StmtNode::Return { value }
            | StmtNode::Assert { condition: value, .. }
            | StmtNode::If { condition: value, .. }
            | StmtNode::While { condition: value, .. } => look(value),
            StmtNode::Attr { node, value, .. } => {
                look(value);
                if let Ok(buffer) = node.to::<Buffer>() {
                    found.push(buffer);
                }
            }
            StmtNode::TensorWrite { indices, value, .. } => {
                indices.iter().for_each(|index| look(&index));
                look(value);
            }
            StmtNode::Realize { region, .. } | StmtNode::Prefetch { region, .. } => {
                for range in region.iter() {
                    look(&range.min);
                    look(&range.extent);
                }
            }
            StmtNode::Seq { .. } => {}
        }
        for buffer in found {
            if self.buffers.contains(&buffer) || !self.bound.contains(&buffer.data) {
                continue;
            }
            self.start_line();
            self.push("view ");
            self.buffer_name(&buffer);
            self.push(": ");
            self.buffer_type(&buffer);
            self.push(" = ");
            self.var(&buffer.data);
            self.end_line();
        }
    }

    /// `{`, a body, `}`, on lines of their own.
    fn body(&mut self, body: &Stmt) {
        self.push(" {");
        self.end_line();
        self.indent += 1;
        self.stmt(body);
        self.indent -= 1;
        self.start_line();
        self.push("}");
    }

    fn stmt_node(&mut self, stmt: &Stmt) {
        if let StmtNode::Seq { stmts } = &**stmt {
            self.lines.insert(stmt.clone(), self.line);
            stmts.iter().for_each(|stmt| self.stmt(&stmt));
            return;
        }
        self.views(stmt);
        match &**stmt {
            StmtNode::For { annotations, .. }
            | StmtNode::Alloc { annotations, .. }
            | StmtNode::Realize { annotations, .. } => self.annotations(annotations),
            _ => {}
        }
        self.lines.insert(stmt.clone(), self.line);
        self.start_line();
        self.one(stmt);
        self.end_line();
    }

    /// The statement itself, from its place on the line.
    fn one(&mut self, stmt: &Stmt) {
        self.head(stmt);
        match &**stmt {
            StmtNode::For { body, .. } | StmtNode::Attr { body, .. } | StmtNode::While { body, .. } => self.body(body),
            StmtNode::If { then_body, else_body, .. } => {
                self.body(then_body);
                match else_body.as_ref().map(|body| (body, &**body)) {
                    None => {}
                    Some((body, StmtNode::If { condition, .. })) if !self.has_views(condition) => {
                        self.push(" else ");
                        self.lines.insert(body.clone(), self.line);
                        with_stack(|| self.one(body));
                    }
                    Some((body, _)) => {
                        self.push(" else");
                        self.body(body);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a view has to be declared before an expression.
    fn has_views(&self, expr: &Expr) -> bool {
        let mut found = false;
        visit::for_each_expr(expr, |part| {
            if let ExprNode::Load { buffer, .. } = &**part {
                found |= self.free.is_some() && !self.buffers.contains(buffer);
            }
        });
        found
    }

    /// The statement up to its body.
    pub(super) fn head(&mut self, stmt: &Stmt) {
        match &**stmt {
            StmtNode::Seq { stmts } => self.push(&format!("{} statements", stmts.len())),
            StmtNode::For { var, min, extent, kind, .. } => {
                self.push(match kind {
                    ForKind::Serial => "for ",
                    ForKind::Parallel => "parallel ",
                    ForKind::Vectorized => "vectorized ",
                    ForKind::Unrolled => "unrolled ",
                    ForKind::ThreadBinding => "thread_binding ",
                });
                let range = self.aside(|this| this.range(min, extent));
                self.binder(var, I64);
                self.push(" in ");
                self.push(&range);
            }
            StmtNode::Store { buffer, index, value, mask } => {
                self.buffer(buffer);
                self.index(index);
                self.push(" = ");
                self.expr(value, 1);
                if let Some(mask) = mask {
                    self.push(" where ");
                    self.expr(mask, 0);
                }
            }
            StmtNode::TensorWrite { tensor, indices, value } => {
                self.tensor(tensor);
                self.push("[");
                self.exprs(indices);
                self.push("] = ");
                self.expr(value, 1);
            }
            StmtNode::Realize { tensor, region, scope, .. } => {
                self.push("realize ");
                self.tensor(tensor);
                self.region(region);
                if !scope.is_empty() {
                    self.push(" @");
                    self.push(&quoted(scope.as_str()));
                }
            }
            StmtNode::Prefetch { tensor, region } => {
                self.push("prefetch ");
                self.tensor(tensor);
                self.region(region);
            }
            StmtNode::Alloc { buffer, .. } => {
                self.push("alloc ");
                self.declare(buffer);
            }
            StmtNode::Alias { buffer, data } => {
                self.push("alias ");
                let data = self.aside(|this| this.expr(data, 0));
                self.declare(buffer);
                self.push(" = ");
                self.push(&data);
            }
            StmtNode::Bind { var, value } => {
                self.push("let ");
                let text = self.aside(|this| this.expr(value, 0));
                self.binder(var, value.dtype());
                self.push(" = ");
                self.push(&text);
            }
            StmtNode::Attr { key, node, value, .. } => {
                self.push("attr ");
                self.push(&quoted(key.as_str()));
                let value = self.aside(|this| this.expr(value, 1));
                self.push("(");
                self.any(node);
                self.push(") = ");
                self.push(&value);
            }
            StmtNode::Assert { condition, kind, parts } => {
                self.push("assert ");
                self.expr(condition, 0);
                self.push(", ");
                self.push(&string(kind.as_str()));
                for part in parts.iter() {
                    self.push(", ");
                    self.push(&string(part.as_str()));
                }
            }
            StmtNode::If { condition, .. } => {
                self.push("if ");
                self.expr(condition, 0);
            }
            StmtNode::Evaluate { value } => {
                if !matches!(&**value, ExprNode::Call { .. }) {
                    self.push("eval ");
                }
                self.expr(value, 0);
            }
            StmtNode::While { condition, .. } => {
                self.push("while ");
                self.expr(condition, 0);
            }
            StmtNode::Return { value } => {
                self.push("return ");
                self.expr(value, 0);
            }
        }
    }

    /// A buffer where a statement makes it: its data pointer is bound here.
    fn declare(&mut self, buffer: &Buffer) {
        let text = self.aside(|this| this.buffer_type(buffer));
        let again = !self.bound.insert(buffer.data.clone());
        let known = self.buffers.contains(buffer);
        if known {
            self.push("same ");
        }
        self.buffer_name(buffer);
        if again && !known {
            // Another node for a pointer that is bound already.
            let data = self.names.var(&buffer.data);
            self.push(&format!(" same {data}"));
        } else {
            self.names.data_of(buffer);
        }
        self.push(": ");
        self.push(&text);
    }

    fn param(&mut self, param: &Param) {
        let Some(buffer) = &param.buffer else {
            if param.output {
                self.push("mut ");
            }
            // A scalar has its type always.
            return self.binder(&param.var, NOTHING);
        };
        let handle = if param.var == buffer.data {
            None
        } else {
            Some(self.aside(|this| this.binder(&param.var, crate::ir::POINTER)))
        };
        let again = !self.bound.insert(buffer.data.clone());
        self.buffer_name(buffer);
        if again {
            let data = self.names.var(&buffer.data);
            self.push(&format!(" same {data}"));
        } else {
            self.names.data_of(buffer);
        }
        self.push(if param.output { ": mut " } else { ": " });
        self.buffer_type_with(buffer, |this, expr| match Var::of(expr) {
            Some(var) if this.bound.insert(var.clone()) => {
                let name = this.names.var(&var);
                this.push(&name);
                if !var.is_size() || var.dtype() != I64 {
                    let size = if var.is_size() { "size " } else { "" };
                    this.push(&format!(": {size}{}", var.dtype().short_name()));
                }
            }
            _ => this.expr(expr, 0),
        });
        if let Some(handle) = handle {
            self.push(" handle ");
            self.push(&handle);
        }
    }

    pub(super) fn func(&mut self, func: &LoweredFunc) {
        self.annotations(&func.attrs);
        self.start_line();
        self.push(match func.kind {
            FuncKind::Mixed => "func ",
            FuncKind::Host => "host func ",
            FuncKind::Device => "device func ",
            FuncKind::Internal => "internal func ",
        });
        self.push(&quoted(func.name.as_str()));
        self.push("(");
        self.list(func.params.iter(), |this, param| this.param(&param));
        self.push(")");
        if func.ret != NOTHING {
            self.push(&format!(" -> {}", func.ret.short_name()));
        }
        if !func.thread_axes.is_empty() {
            self.push(" threads [");
            self.list(func.thread_axes.iter(), |this, axis| this.iter_var(&axis));
            self.push("]");
        }
        self.body(&func.body);
        self.end_line();
    }

    /// A function with declarations of what is free in it before it.
    pub(super) fn whole_func(&mut self, func: &LoweredFunc) {
        let outer_line = self.line;
        self.free = Some(Vec::new());
        let text = self.aside(|this| this.func(func));
        let free = self.free.take().unwrap_or_default();
        for declaration in &free {
            self.push(declaration);
            self.push("\n");
        }
        self.line = outer_line + free.len() + text.matches('\n').count();
        self.lines.values_mut().filter(|line| **line >= outer_line).for_each(|line| *line += free.len());
        self.push(&text);
    }

    pub(super) fn module(&mut self, module: &IrModule) {
        for (key, value) in module.attrs.iter() {
            self.push("#![");
            self.push(&quoted(key.as_str()));
            self.push(" = ");
            self.any(&value);
            self.push("]\n");
        }
        for (position, func) in module.functions.iter().enumerate() {
            if position > 0 || !module.attrs.is_empty() {
                self.push("\n");
            }
            let mut inner = Self::new();
            inner.whole_func(&func);
            self.push(&inner.out);
        }
    }
}
