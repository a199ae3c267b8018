//! Code that LLVM takes long to compile: very large functions, and loops whose expressions are
//! large trees because of shared parts.
//!
//! LLVM's loop vectorizer checks whether values are the same in all iterations, and traverses their
//! computation as a tree. A loop of a few dozen statements, each of which uses the value of the
//! previous one twice, has a tree of billions of nodes. Vectorization is decided by schedules here,
//! so the vectorizer is disabled for such a loop.

use std::collections::HashMap;

use crate::ir::visit::{Visit, for_each_stmt, walk_expr};
use crate::ir::{Expr, ExprNode, Stmt, StmtNode, Var};

/// The size of trees up to which the vectorizer needs only milliseconds.
const MOST: u64 = 1 << 14;

/// The number of statements above which a function is large.
const LARGE: usize = 512;

/// Returns true if a function is so large that LLVM's own unrolling costs more than it gains:
/// schedules unroll where it is useful. A convolution by Winograd's algorithm has 945 statements;
/// without LLVM's unrolling, the compilation takes 0.65 times as long, and the kernel 1.04 times as
/// long.
pub(super) fn is_large(body: &Stmt) -> bool {
    let mut count = 0;
    for_each_stmt(body, |stmt| count += usize::from(matches!(**stmt, StmtNode::Store { .. } | StmtNode::Bind { .. })));
    count > LARGE
}

/// The number of checks above which the code is not optimized.
const MANY_CHECKS: usize = 256;

/// Returns true if a function has so many checks that their optimization would take LLVM longer
/// than a caller can notice. A model with 200 arguments, whose entry has 2,600 checks, is compiled
/// in 1.1 s instead of 5.7 s.
pub(super) fn has_many_checks(body: &Stmt) -> bool {
    let mut count = 0;
    for_each_stmt(body, |stmt| count += usize::from(matches!(**stmt, StmtNode::Assert { .. })));
    count > MANY_CHECKS
}

/// Returns true if the vectorizer may process the loop with this body.
pub(super) fn may_vectorize(body: &Stmt) -> bool {
    let (mut is_innermost, mut largest, mut sizes) = (true, 0, Sizes::default());
    for_each_stmt(body, |stmt| {
        is_innermost &= !matches!(**stmt, StmtNode::For { .. } | StmtNode::While { .. });
        if is_innermost {
            largest = largest.max(sizes.of_stmt(stmt));
        }
    });
    // The vectorizer processes only the innermost loops.
    !is_innermost || largest <= MOST
}

/// Sizes of trees.
#[derive(Default)]
struct Sizes {
    /// The sizes of named values.
    names: HashMap<Var, u64>,
    /// The size of the largest value that was stored to memory, by pointer.
    memory: HashMap<Var, u64>,
}

impl Sizes {
    /// The size of the largest tree of a statement's own expressions.
    fn of_stmt(&mut self, stmt: &Stmt) -> u64 {
        match &**stmt {
            StmtNode::Bind { var, value } => {
                let size = self.of([value]);
                self.names.insert(var.clone(), size);
                size
            }
            StmtNode::Store { buffer, index, value, mask } => {
                let size = self.of([index, value].into_iter().chain(mask));
                let stored = self.memory.entry(buffer.data.clone()).or_default();
                *stored = size.max(*stored);
                size
            }
            StmtNode::If { condition: value, .. }
            | StmtNode::Evaluate { value }
            | StmtNode::Assert { condition: value, .. } => self.of([value]),
            _ => 0,
        }
    }

    fn of<'a>(&mut self, exprs: impl IntoIterator<Item = &'a Expr>) -> u64 {
        let mut tree = Tree { sizes: self, size: 0 };
        exprs.into_iter().for_each(|expr| tree.visit_expr(expr));
        tree.size
    }
}

/// Counts the nodes of a tree.
struct Tree<'a> {
    sizes: &'a mut Sizes,
    size: u64,
}

impl Visit for Tree<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        let known = match &**expr {
            ExprNode::Var { .. } => Var::of(expr).and_then(|var| self.sizes.names.get(&var).copied()),
            ExprNode::Load { buffer, .. } => self.sizes.memory.get(&buffer.data).copied(),
            ExprNode::Let { var, value, .. } => {
                let size = self.sizes.of([value]);
                self.sizes.names.insert(var.clone(), size);
                None
            }
            _ => None,
        };
        self.size = self.size.saturating_add(known.unwrap_or(1));
        walk_expr(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Buffer, F32};

    #[test]
    fn sums_of_sums_are_large() {
        let (a, i) = (Buffer::new("a", F32, [Expr::int(9)], "global"), Var::index("i"));
        let chain = |length: usize, through_memory: bool| {
            let mut stmts = Vec::new();
            let mut value = Expr::load(&a, &i);
            for _ in 0..length {
                if through_memory {
                    stmts.push(Stmt::store(a.clone(), &i, &value + &value));
                    value = Expr::load(&a, &i);
                } else {
                    let name = Var::new("x", F32);
                    stmts.push(Stmt::bind(name.clone(), &value + &value));
                    value = name.into();
                }
            }
            stmts.push(Stmt::store(a.clone(), &i, value));
            Stmt::seq(stmts)
        };
        for through_memory in [false, true] {
            assert!(may_vectorize(&chain(6, through_memory)));
            assert!(!may_vectorize(&chain(60, through_memory)));
            // Inner loops are examined separately.
            let around = Stmt::for_loop(Var::index("j"), 0, 9, crate::ir::ForKind::Serial, chain(60, through_memory));
            assert!(may_vectorize(&around));
        }
    }
}
