//! The loops of a stage as statements around their body.

use kernpack::{Any, Map, Str};

use crate::ir::{BinaryOp, Expr, ExprNode, ForKind, IterVar, Stmt, StmtNode, Tensor, Var, visit};

/// The statement that a leaf becomes.
pub(crate) enum Header {
    /// A loop from 0.
    For {
        /// Its variable.
        var: Var,
        /// The number of iterations.
        extent: Expr,
        /// The kind of the loop.
        kind: ForKind,
    },
    /// No statement: one iteration, or a thread that is already launched.
    Open,
    /// A launch of device threads.
    Threads {
        /// The thread.
        thread: IterVar,
        /// The number of threads.
        extent: Expr,
        /// True for virtual threads: copies that one thread interleaves.
        is_virtual: bool,
    },
}

/// A leaf with the statements at the beginning of each of its iterations.
pub(crate) struct Level {
    /// The loop.
    pub(crate) header: Header,
    /// The leaf that the loop comes from.
    pub(crate) leaf: IterVar,
    /// Pragmas on the loop.
    pub(crate) pragmas: Vec<(String, Expr)>,
    /// Tensors that are prefetched this many iterations ahead.
    pub(crate) prefetch: Vec<(Tensor, Expr)>,
    /// The stages that are computed at this loop, before the inner loops.
    pub(crate) before: Vec<Stmt>,
}

impl Level {
    /// The thread that is launched here.
    pub(crate) fn begun(&self) -> Option<Var> {
        match &self.header {
            Header::Threads { thread, .. } => Some(thread.var.clone()),
            Header::For { .. } | Header::Open => None,
        }
    }

    /// Returns true if a condition that does not depend on the loop can be moved around it.
    fn lets_out(&self, condition: &Expr) -> bool {
        if !self.before.is_empty() || !self.prefetch.is_empty() || !self.pragmas.is_empty() {
            return false;
        }
        match &self.header {
            Header::Open => true,
            Header::For { var, .. } => !visit::uses_var(condition, |used| used == var) && !may_fault(condition),
            // Threads run the same statements: every thread has to reach each barrier.
            Header::Threads { .. } => false,
        }
    }

    fn around(&self, body: Stmt) -> Stmt {
        let mut body = Stmt::seq(self.before.iter().cloned().chain([body]));
        for (tensor, ahead) in self.prefetch.iter().rev() {
            body = Stmt::attr(PREFETCH_SCOPE, tensor.clone(), ahead, body);
        }
        body = match &self.header {
            Header::Open => body,
            Header::For { var, extent, kind } => {
                let annotations: Map<Str, Any> = Map::default();
                Stmt::for_with(var.clone(), 0, extent, *kind, annotations, body)
            }
            Header::Threads { thread, extent, is_virtual } => {
                let key = if *is_virtual { "virtual_thread" } else { "thread_extent" };
                Stmt::attr(key, thread.clone(), extent, body)
            }
        };
        for (key, value) in self.pragmas.iter().rev() {
            body = Stmt::attr(&format!("pragma_{key}"), self.leaf.clone(), value, body);
        }
        body
    }
}

/// Returns true if an expression has a division by a value that may be 0: a division by the extent
/// of a loop is evaluated only inside that loop.
fn may_fault(condition: &Expr) -> bool {
    let mut found = false;
    visit::for_each_expr(condition, |part| {
        if let ExprNode::Binary { op, b, .. } = &**part {
            let divides = matches!(op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod);
            found |= divides && b.as_int().is_none_or(|divisor| divisor == 0);
        }
    });
    found
}

/// The key of the attribute in a loop that gives the tensor to prefetch and the number of
/// iterations ahead; `InjectPrefetch` removes it.
pub(crate) const PREFETCH_SCOPE: &str = "prefetch_scope";

/// Wraps loops around a body under conditions. Each condition is placed as far out as possible:
/// around loops that it does not depend on and that compute nothing else.
pub(crate) fn nest(levels: &[Level], conditions: Vec<Expr>, body: Stmt) -> Stmt {
    let mut at = vec![Vec::new(); levels.len() + 1];
    for condition in conditions {
        let mut place = levels.len();
        while place > 0 && levels[place - 1].lets_out(&condition) {
            place -= 1;
        }
        at[place].push(condition);
    }
    let mut body = guarded(&at[levels.len()], body);
    for (level, conditions) in levels.iter().zip(&at).rev() {
        body = guarded(conditions, level.around(body));
    }
    body
}

fn guarded(conditions: &[Expr], body: Stmt) -> Stmt {
    conditions.iter().rev().fold(body, |body, condition| {
        Stmt::from_node(StmtNode::If { condition: condition.clone(), then_body: body, else_body: None })
    })
}
