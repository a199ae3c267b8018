//! Statements: nodes that are executed in order.
//!
//! A *body* is the statement of a loop, a condition, a `while`, an attribute or a function. `Bind`,
//! `Alloc`, `Alias` and `Realize` are statements inside a body; their scope extends from there to
//! the end of that body.

use kernpack::{Any, Array, Map, Object, Str};

use super::buffer::Buffer;
use super::expr::{Expr, Var};
use super::handle::handle;
use super::tensor::{Range, Tensor};

handle! {
    /// A reference to a statement; `match &*stmt` reads the node.
    Stmt => StmtNode
}

/// The kind of a loop.
#[derive(Object, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[object(key = "kernpack.ir.ForKind", enum = "int")]
pub enum ForKind {
    /// The iterations run one after the other.
    Serial = 0,
    /// CPU threads run the iterations, in any order.
    Parallel = 1,
    /// The iterations are vector lanes.
    Vectorized = 2,
    /// The loop is unrolled.
    Unrolled = 3,
    /// Device threads run the iterations; the annotation `thread` contains the tag.
    ThreadBinding = 4,
}

/// The kinds of statements.
#[derive(Object)]
#[object(key = "kernpack.ir.Stmt")]
#[repr(C, u32)]
pub enum StmtNode {
    /// A sequence of statements; no element is a `Seq` itself.
    #[object(key = "kernpack.ir.Seq")]
    Seq {
        /// The statements, in order.
        stmts: Array<Stmt>,
    },
    /// A loop over `min .. min + extent`.
    #[object(key = "kernpack.ir.For")]
    For {
        /// The loop variable.
        #[field(structural = "def")]
        var: Var,
        /// The first value.
        min: Expr,
        /// The number of iterations; 0 or less means none.
        extent: Expr,
        /// The kind of the loop.
        kind: ForKind,
        /// Hints by name.
        annotations: Map<Str, Any>,
        /// The loop body.
        body: Stmt,
    },
    /// A store to memory.
    #[object(key = "kernpack.ir.Store")]
    Store {
        /// The buffer that is written.
        buffer: Buffer,
        /// The index in elements, relative to the buffer's data pointer; a vector stores one lane
        /// to each index.
        index: Expr,
        /// The stored value.
        value: Expr,
        /// The lanes that are written; without a mask, all lanes.
        mask: Option<Expr>,
    },
    /// A write of an element of a tensor, before storage flattening.
    #[object(key = "kernpack.ir.TensorWrite")]
    TensorWrite {
        /// The tensor.
        tensor: Tensor,
        /// An index for each dimension.
        indices: Array<Expr>,
        /// The written value.
        value: Expr,
    },
    /// An allocation for a region of a tensor, until the end of the body, before storage
    /// flattening.
    #[object(key = "kernpack.ir.Realize")]
    Realize {
        /// The tensor.
        tensor: Tensor,
        /// The range of each dimension.
        region: Array<Range>,
        /// The memory scope; if empty, it is derived from the threads around the statement.
        scope: Str,
        /// Hints by name.
        annotations: Map<Str, Any>,
    },
    /// An allocation, until the end of the body.
    #[object(key = "kernpack.ir.Alloc")]
    Alloc {
        /// The buffer of the allocation.
        #[field(structural = "def")]
        buffer: Buffer,
        /// Hints by name.
        annotations: Map<Str, Any>,
    },
    /// Another view of memory, until the end of the body.
    #[object(key = "kernpack.ir.Alias")]
    Alias {
        /// The view.
        #[field(structural = "def")]
        buffer: Buffer,
        /// The data pointer of the view.
        data: Expr,
    },
    /// A named value, until the end of the body.
    #[object(key = "kernpack.ir.Bind")]
    Bind {
        /// The variable.
        #[field(structural = "def")]
        var: Var,
        /// Its value.
        value: Expr,
    },
    /// An attribute of a body.
    #[object(key = "kernpack.ir.Attr")]
    Attr {
        /// The key: `thread_extent`, `virtual_thread`, `storage_alignment`, `extern_scope`,
        /// `compute_scope`, `pragma_..`.
        key: Str,
        /// The object of the attribute: a variable, an iteration variable, a buffer, a string.
        node: Any,
        /// The value.
        value: Expr,
        /// The body to which the attribute applies.
        body: Stmt,
    },
    /// Ends the function with an error unless a condition holds.
    #[object(key = "kernpack.ir.Assert")]
    Assert {
        /// The required condition.
        condition: Expr,
        /// The kind of the error: `ValueError`, `TypeError`, ..
        kind: Str,
        /// The parts of the message, which are concatenated.
        parts: Array<Str>,
    },
    /// A conditional statement.
    #[object(key = "kernpack.ir.If")]
    If {
        /// A scalar truth value.
        condition: Expr,
        /// The statement that runs if the condition is true.
        then_body: Stmt,
        /// The statement that runs if the condition is false.
        else_body: Option<Stmt>,
    },
    /// Evaluates an expression for its side effects.
    #[object(key = "kernpack.ir.Evaluate")]
    Evaluate {
        /// The expression.
        value: Expr,
    },
    /// Repeats a body while a condition holds.
    #[object(key = "kernpack.ir.While")]
    While {
        /// A scalar truth value, evaluated before each iteration.
        condition: Expr,
        /// The loop body.
        body: Stmt,
    },
    /// Returns from the function.
    #[object(key = "kernpack.ir.Return")]
    Return {
        /// The return value.
        value: Expr,
    },
    /// Prefetches a region of a tensor, before storage flattening.
    #[object(key = "kernpack.ir.Prefetch")]
    Prefetch {
        /// The tensor.
        tensor: Tensor,
        /// The region.
        region: Array<Range>,
    },
}

impl Stmt {
    /// Creates a sequence of statements; nested sequences are flattened, and a single statement is
    /// returned itself.
    pub fn seq(stmts: impl IntoIterator<Item = Stmt>) -> Self {
        let mut flat = Vec::new();
        for stmt in stmts {
            match &*stmt {
                StmtNode::Seq { stmts } => flat.extend(stmts.iter()),
                _ => flat.push(stmt),
            }
        }
        match <[Stmt; 1]>::try_from(flat) {
            Ok([only]) => only,
            Err(flat) => Self::from_node(StmtNode::Seq { stmts: flat.into() }),
        }
    }

    /// The empty sequence.
    pub fn nothing() -> Self {
        Self::seq([])
    }

    /// Returns true for an empty sequence.
    pub fn is_nothing(&self) -> bool {
        matches!(&**self, StmtNode::Seq { stmts } if stmts.is_empty())
    }

    /// The statements of a sequence, or the statement itself.
    pub fn to_stmts(&self) -> Vec<Stmt> {
        match &**self {
            StmtNode::Seq { stmts } => stmts.to_vec(),
            _ => vec![self.clone()],
        }
    }

    /// A loop without annotations.
    pub fn for_loop(var: Var, min: impl Into<Expr>, extent: impl Into<Expr>, kind: ForKind, body: Stmt) -> Self {
        Self::for_with(var, min, extent, kind, Map::default(), body)
    }

    /// A loop.
    pub fn for_with(
        var: Var,
        min: impl Into<Expr>,
        extent: impl Into<Expr>,
        kind: ForKind,
        annotations: Map<Str, Any>,
        body: Stmt,
    ) -> Self {
        Self::from_node(StmtNode::For { var, min: min.into(), extent: extent.into(), kind, annotations, body })
    }

    /// A store without a mask.
    pub fn store(buffer: Buffer, index: impl Into<Expr>, value: impl Into<Expr>) -> Self {
        Self::store_masked(buffer, index, value, None)
    }

    /// A store of the lanes for which the mask holds.
    pub fn store_masked(buffer: Buffer, index: impl Into<Expr>, value: impl Into<Expr>, mask: Option<Expr>) -> Self {
        Self::from_node(StmtNode::Store { buffer, index: index.into(), value: value.into(), mask })
    }

    /// A conditional statement.
    pub fn if_then(condition: impl Into<Expr>, then_body: Stmt, else_body: Option<Stmt>) -> Self {
        Self::from_node(StmtNode::If { condition: condition.into(), then_body, else_body })
    }

    /// An allocation until the end of the body.
    pub fn alloc(buffer: Buffer) -> Self {
        Self::from_node(StmtNode::Alloc { buffer, annotations: Map::default() })
    }

    /// A named value until the end of the body.
    pub fn bind(var: Var, value: impl Into<Expr>) -> Self {
        Self::from_node(StmtNode::Bind { var, value: value.into() })
    }

    /// An expression that is evaluated for its side effects.
    pub fn evaluate(value: impl Into<Expr>) -> Self {
        Self::from_node(StmtNode::Evaluate { value: value.into() })
    }

    /// An attribute of a body.
    pub fn attr(key: &str, node: impl Into<Any>, value: impl Into<Expr>, body: Stmt) -> Self {
        Self::from_node(StmtNode::Attr { key: key.into(), node: node.into(), value: value.into(), body })
    }

    /// An assertion.
    pub fn assert(condition: impl Into<Expr>, kind: &str, parts: impl IntoIterator<Item = Str>) -> Self {
        Self::from_node(StmtNode::Assert {
            condition: condition.into(),
            kind: kind.into(),
            parts: parts.into_iter().collect(),
        })
    }

    /// A return statement.
    pub fn return_value(value: impl Into<Expr>) -> Self {
        Self::from_node(StmtNode::Return { value: value.into() })
    }
}
