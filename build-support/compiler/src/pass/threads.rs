//! Device threads in programs: their launches, and their identification.

use crate::error::Result;
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::visit::for_each_stmt;
use crate::ir::{
    Expr, ForKind, I32, IterKind, IterVar, IterVarNode, MutateStmts, Range, Stmt, StmtNode, Var, builtin,
    substitute_stmt,
};

/// The tags of threads, in the order of a launch.
pub(crate) const TAGS: [&str; 6] =
    ["blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"];

/// Threads that an attribute launches.
#[derive(Clone)]
pub(crate) struct Threads {
    /// `threadIdx.x` and so on.
    pub(crate) tag: String,
    /// The thread index variable.
    pub(crate) var: Var,
    /// The number of threads.
    pub(crate) extent: Expr,
}

impl Threads {
    /// The threads of an attribute `thread_extent`.
    pub(crate) fn of(stmt: &Stmt) -> Option<(Self, Stmt)> {
        let StmtNode::Attr { key, node, value, body } = &**stmt else { return None };
        if key.as_str() != "thread_extent" {
            return None;
        }
        let (tag, var) = match (node.to::<IterVar>(), node.to::<Var>()) {
            (Ok(axis), _) => (axis.thread_tag.to_string(), axis.var.clone()),
            (_, Ok(var)) => (var.name().to_owned(), var),
            _ => return None,
        };
        Some((Self { tag, var, extent: value.clone() }, body.clone()))
    }

    /// Returns true if they share the memory of a block: `threadIdx`.
    pub(crate) fn is_inside_block(&self) -> bool {
        self.tag.starts_with("threadIdx")
    }
}

/// A barrier of the threads that share memory of a scope.
pub(crate) fn barrier(scope: &str) -> Stmt {
    Stmt::evaluate(Expr::builtin(builtin::STORAGE_SYNC, I32, [Expr::text(scope)]))
}

/// The program with attributes `thread_extent` instead of loops of kind `ThreadBinding`.
pub(crate) fn with_attributes(body: &Stmt) -> Result<Stmt> {
    let mut found = false;
    for_each_stmt(body, |stmt| found |= matches!(&**stmt, StmtNode::For { kind: ForKind::ThreadBinding, .. }));
    if found { Attributes.mutate_stmt(body) } else { Ok(body.clone()) }
}

struct Attributes;

impl MutateStmts for Attributes {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let stmt = mutate_stmt_parts(self, stmt)?;
        let StmtNode::For { var, min, extent, kind: ForKind::ThreadBinding, annotations, body } = &*stmt else {
            return Ok(stmt);
        };
        let Some(tag) = annotations.get("thread").and_then(|tag| tag.to::<String>().ok()) else {
            crate::error::fail!(Lower, "loop `{}` is bound to a thread, but no annotation says which", var.name());
        };
        let index = var.renamed(&tag);
        let body = substitute_stmt(body, &[(var.clone(), min + &index)].into_iter().collect());
        let axis = IterVar::from_node(IterVarNode {
            dom: Some(Range::until(extent)),
            var: index,
            kind: IterKind::ThreadIndex,
            thread_tag: tag.as_str().into(),
            span: "".into(),
        });
        Ok(Stmt::attr("thread_extent", axis, extent, body))
    }
}
