//! Walks that look at what is shared once.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use super::analyzer::AddressHasher;
use crate::ir::visit::{Visit, walk_expr};
use crate::ir::{Expr, ExprNode, Var};

struct Search<F> {
    test: F,
    found: bool,
    seen: HashSet<usize, BuildHasherDefault<AddressHasher>>,
}

impl<F: FnMut(&Expr) -> bool> Visit for Search<F> {
    fn visit_expr(&mut self, expr: &Expr) {
        if self.found {
            return;
        }
        let leaf = matches!(**expr, ExprNode::Int { .. } | ExprNode::Var { .. } | ExprNode::Float { .. });
        if !leaf && expr.object().strong_count() > 1 && !self.seen.insert(expr.address()) {
            return;
        }
        self.found = (self.test)(expr);
        if !leaf && !self.found {
            walk_expr(self, expr);
        }
    }
}

/// Whether a part of an expression (or the expression itself) passes a test.
pub(crate) fn has_part(expr: &Expr, test: impl FnMut(&Expr) -> bool) -> bool {
    let mut search = Search { test, found: false, seen: HashSet::default() };
    search.visit_expr(expr);
    search.found
}

/// Whether a variable occurs for which the closure says yes. The data pointers of buffers that loads name count.
pub(crate) fn uses_var(expr: &Expr, is_wanted: impl Fn(&Var) -> bool) -> bool {
    has_part(expr, |part| match &**part {
        ExprNode::Var { .. } => Var::of(part).is_some_and(|var| is_wanted(&var)),
        ExprNode::Load { buffer, .. } => is_wanted(&buffer.data),
        _ => false,
    })
}
