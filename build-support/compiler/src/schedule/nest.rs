//! Loops of a stage as statements around what is computed in them.

use kernpack::{Any, Map, Str};

use crate::ir::{BinaryOp, Expr, ExprNode, ForKind, IterVar, Stmt, StmtNode, Tensor, Var, visit};

/// How a leaf becomes a statement.
pub(crate) enum Header {
    /// A loop from 0.
    For {
        /// Its variable.
        var: Var,
        /// How many iterations.
        extent: Expr,
        /// How they are run.
        kind: ForKind,
    },
    /// Nothing: one iteration, or a thread that runs already.
    Open,
    /// Threads of a device.
    Threads {
        /// The thread.
        thread: IterVar,
        /// How many.
        extent: Expr,
        /// Copies that one thread interleaves.
        is_virtual: bool,
    },
}

/// A leaf with what is done in each of its iterations before the inner loops.
pub(crate) struct Level {
    /// The loop.
    pub(crate) header: Header,
    /// The leaf that it is made of.
    pub(crate) leaf: IterVar,
    /// Pragmas on the loop.
    pub(crate) pragmas: Vec<(String, Expr)>,
    /// Tensors that are touched this many iterations ahead.
    pub(crate) prefetch: Vec<(Tensor, Expr)>,
    /// What is computed at this loop for the inside.
    pub(crate) before: Vec<Stmt>,
}

impl Level {
    /// The thread that begins here.
    pub(crate) fn begun(&self) -> Option<Var> {
        match &self.header {
            Header::Threads { thread, .. } => Some(thread.var.clone()),
            Header::For { .. } | Header::Open => None,
        }
    }

    /// Whether a condition that does not depend on the loop can stand around it.
    fn lets_out(&self, condition: &Expr) -> bool {
        if !self.before.is_empty() || !self.prefetch.is_empty() || !self.pragmas.is_empty() {
            return false;
        }
        match &self.header {
            Header::Open => true,
            Header::For { var, .. } => !visit::uses_var(condition, |used| used == var) && !may_fault(condition),
            // Threads run the same statements: none is left out of a barrier.
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

/// Whether an expression divides by what may be 0: by the extent of a loop, it is only evaluated inside that loop.
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

/// Key of the attribute in a loop that says which tensor to touch ahead, and how many iterations; `InjectPrefetch` takes it away.
pub(crate) const PREFETCH_SCOPE: &str = "prefetch_scope";

/// Loops around a body under conditions. A condition stands as far out as it may: around loops that it does not depend on and that compute nothing else.
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
