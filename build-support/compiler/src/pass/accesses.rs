//! The variables and memory that statements read, write, use and define.

use std::collections::HashSet;

use crate::ir::builtin::{self, Effect};
use crate::ir::visit::{Visit, walk_expr, walk_stmt};
use crate::ir::{Buffer, CallKind, DataTypeExt, Expr, ExprNode, IterVar, Stmt, StmtNode, Var};

/// The data pointers that are accessed, by kind of access, and other variables.
#[derive(Default)]
pub(crate) struct Accesses {
    /// Memory that is loaded.
    pub(crate) reads: HashSet<Var>,
    /// Memory that is stored.
    pub(crate) writes: HashSet<Var>,
    /// Memory whose address escapes: it may be read and written elsewhere.
    pub(crate) pointers: HashSet<Var>,
    /// Variables that are used.
    pub(crate) vars: HashSet<Var>,
    /// Variables that are defined inside, including data pointers of memory.
    pub(crate) defined: HashSet<Var>,
    /// True if there is a call with arbitrary effects, or one that leaves the function or loop.
    pub(crate) is_opaque: bool,
    /// True if threads synchronize.
    pub(crate) waits: bool,
}

impl Accesses {
    /// Collects the accesses of a statement.
    pub(crate) fn of(stmt: &Stmt) -> Self {
        let mut found = Self::default();
        found.visit_stmt(stmt);
        found
    }

    /// Collects the accesses of an expression.
    pub(crate) fn of_expr(expr: &Expr) -> Self {
        let mut found = Self::default();
        found.visit_expr(expr);
        found
    }

    /// Returns true if memory is accessed in any way.
    pub(crate) fn touches(&self, data: &Var) -> bool {
        self.reads.contains(data) || self.writes.contains(data) || self.pointers.contains(data)
    }

    /// Memory that may be written.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Var> {
        self.writes.iter().chain(&self.pointers)
    }
}

impl Visit for Accesses {
    fn visit_expr(&mut self, expr: &Expr) {
        match &**expr {
            ExprNode::Var { .. } => {
                if let Some(var) = Var::of(expr) {
                    if var.dtype().is_handle() {
                        self.pointers.insert(var.clone());
                    }
                    self.vars.insert(var);
                }
            }
            ExprNode::Load { buffer, .. } => {
                self.reads.insert(buffer.data.clone());
            }
            ExprNode::Let { var, .. } => {
                self.defined.insert(var.clone());
            }
            ExprNode::Call { kind, name, args, .. } => {
                let effect = builtin::effect(*kind, name.as_str());
                if *kind == CallKind::Builtin {
                    self.waits |= matches!(name.as_str(), builtin::STORAGE_SYNC | builtin::THREAD_ALLREDUCE);
                    // Only the address of the load is used, nothing is read.
                    if matches!(name.as_str(), builtin::ADDRESS_OF | builtin::ACCESS_PTR | builtin::MAKE_TENSOR)
                        && let Some(load) = args.get(0)
                        && let ExprNode::Load { buffer, index, .. } = &*load
                    {
                        self.pointers.insert(buffer.data.clone());
                        self.visit_expr(index);
                        args.iter().skip(1).for_each(|arg| self.visit_expr(&arg));
                        return;
                    }
                }
                self.is_opaque |= effect >= Effect::Opaque;
            }
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match &**stmt {
            StmtNode::For { var, .. } | StmtNode::Bind { var, .. } => {
                self.defined.insert(var.clone());
            }
            StmtNode::Store { buffer, .. } => {
                self.writes.insert(buffer.data.clone());
            }
            StmtNode::Alloc { buffer, .. } | StmtNode::Alias { buffer, .. } => {
                self.defined.insert(buffer.data.clone());
                buffer.shape.iter().for_each(|extent| self.visit_expr(&extent));
            }
            StmtNode::Attr { node, .. } => {
                if let Ok(axis) = node.to::<IterVar>() {
                    self.defined.insert(axis.var.clone());
                } else if let Ok(buffer) = node.to::<Buffer>() {
                    self.vars.insert(buffer.data.clone());
                }
            }
            StmtNode::Return { .. } | StmtNode::Assert { .. } => self.is_opaque = true,
            _ => {}
        }
        walk_stmt(self, stmt);
    }
}
