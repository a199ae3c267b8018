//! Printing of statements, functions and modules.

use std::collections::HashSet;

use super::names::{quoted, string};
use super::printer::Printer;
use crate::ir::dtype::NOTHING;
use crate::ir::{
    Buffer, DataTypeExt, ExprNode, ForKind, FuncKind, I64, IrModule, LoweredFunc, Param, Stmt, StmtNode, Var,
    with_stack,
};

impl Printer {
    /// Prints a statement on separate lines.
    pub(super) fn stmt(&mut self, stmt: &Stmt) {
        with_stack(|| self.stmt_node(stmt));
    }

    /// Prints `{`, a body, and `}`, on separate lines.
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
        let outer = core::mem::take(&mut self.views);
        let annotations = self.aside(|this| match &**stmt {
            StmtNode::For { annotations, .. }
            | StmtNode::Alloc { annotations, .. }
            | StmtNode::Realize { annotations, .. } => this.annotations(annotations),
            _ => {}
        });
        let head = self.aside(|this| this.head(stmt));
        for view in core::mem::replace(&mut self.views, outer) {
            self.start_line();
            self.push(&view);
            self.end_line();
        }
        self.push(&annotations);
        self.lines.insert(stmt.clone(), self.line);
        self.start_line();
        self.push(&head);
        self.bodies(stmt);
        self.end_line();
    }

    /// Prints the bodies of a statement.
    fn bodies(&mut self, stmt: &Stmt) {
        match &**stmt {
            StmtNode::For { body, .. } | StmtNode::Attr { body, .. } | StmtNode::While { body, .. } => self.body(body),
            StmtNode::If { then_body, else_body, .. } => {
                self.body(then_body);
                let Some(body) = else_body else { return };
                self.push(" else");
                if !matches!(**body, StmtNode::If { .. }) {
                    return self.body(body);
                }
                let outer = core::mem::take(&mut self.views);
                let head = self.aside(|this| this.head(body));
                let views = core::mem::replace(&mut self.views, outer);
                self.lines.insert(body.clone(), self.line);
                if views.is_empty() {
                    self.push(" ");
                    self.push(&head);
                    with_stack(|| self.bodies(body));
                    return;
                }
                // Views are not allowed before `else if`.
                self.push(" {");
                self.end_line();
                self.indent += 1;
                for line in views.into_iter().chain([head]) {
                    self.start_line();
                    self.push(&line);
                    self.end_line();
                }
                self.out.pop();
                self.line -= 1;
                with_stack(|| self.bodies(body));
                self.end_line();
                self.indent -= 1;
                self.start_line();
                self.push("}");
            }
            _ => {}
        }
    }

    /// Prints the statement up to its body.
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

    /// Prints a buffer that a statement creates: its data pointer is bound here.
    fn declare(&mut self, buffer: &Buffer) {
        let text = self.aside(|this| this.buffer_type(buffer));
        self.declared_name(buffer);
        self.push(": ");
        self.push(&text);
    }

    /// The name of a buffer that is created here, and that of its data pointer if it differs from
    /// the expected one.
    fn declared_name(&mut self, buffer: &Buffer) {
        let again = !self.bind(&buffer.data);
        if self.buffers.contains(buffer) {
            self.push("same ");
            return self.buffer_name(buffer);
        }
        self.buffer_name(buffer);
        if again {
            let data = self.names.var(&buffer.data);
            self.push(&format!(" same {data}"));
        } else if let Some(data) = self.names.data_of(buffer) {
            self.push(&format!(" data {data}"));
        }
    }

    fn param(&mut self, param: &Param) {
        let Some(buffer) = &param.buffer else {
            if param.output {
                self.push("mut ");
            }
            // A scalar always has its type.
            return self.binder(&param.var, NOTHING);
        };
        let handle = if param.var == buffer.data {
            None
        } else {
            Some(self.aside(|this| this.binder(&param.var, crate::ir::POINTER)))
        };
        self.declared_name(buffer);
        self.push(if param.output { ": mut " } else { ": " });
        self.buffer_type_with(buffer, |this, expr| match Var::of(expr) {
            Some(var) if !this.bound.contains(&var) => {
                this.bind(&var);
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
        self.functions.push((func.name.to_string(), self.line));
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

    /// Prints a function, preceded by declarations of its free names.
    pub(super) fn whole_func(&mut self, func: &LoweredFunc) {
        let outer_line = self.line;
        self.free = Some(Vec::new());
        let text = self.aside(|this| this.func(func));
        let mut free = self.free.take().unwrap_or_default();
        free.append(&mut self.views);
        for declaration in &free {
            self.push(declaration);
            self.push("\n");
        }
        self.line = outer_line + free.len() + text.matches('\n').count();
        let heads = self.functions.iter_mut().map(|(_, line)| line);
        let moved = self.lines.values_mut().chain(heads).filter(|line| **line >= outer_line);
        moved.for_each(|line| *line += free.len());
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
        let mut texts = Vec::new();
        let mut bound: HashSet<Var> = HashSet::new();
        let mut shared = false;
        for func in module.functions.iter() {
            let mut inner = Self::new();
            inner.whole_func(&func);
            shared |= inner.bound.iter().any(|var| bound.contains(var));
            bound.extend(inner.bound);
            texts.push((inner.out, inner.lines, inner.functions));
        }
        if shared {
            // One set of names for all functions, so that the text shows which variables are the
            // same.
            let mut inner = Self::new();
            for (func, (text, lines, functions)) in module.functions.iter().zip(&mut texts) {
                inner.buffers.clear();
                inner.here.clear();
                inner.line = 0;
                inner.whole_func(&func);
                *text = core::mem::take(&mut inner.out);
                *lines = core::mem::take(&mut inner.lines);
                *functions = core::mem::take(&mut inner.functions);
            }
        }
        for (position, (text, lines, functions)) in texts.into_iter().enumerate() {
            if position > 0 || !module.attrs.is_empty() {
                self.push("\n");
            }
            let first = self.out.matches('\n').count();
            self.lines.extend(lines.into_iter().map(|(stmt, line)| (stmt, first + line)));
            self.functions.extend(functions.into_iter().map(|(name, line)| (name, first + line)));
            self.push(&text);
        }
    }
}
