//! Statements: what is done, in order.
//!
//! A *body* is what a loop, a condition, a `while`, an attribute or a function owns. `Bind`, `Alloc`, `Alias` and `Realize` stand among the statements of a
//! body, and hold from there to the end of that body.

use kernpack::{Any, Array, Map, Object, Str};

use super::buffer::Buffer;
use super::expr::{Expr, Var};
use super::handle::handle;
use super::tensor::{Range, Tensor};

handle! {
    /// A reference to a statement; `match &*stmt` reads the node.
    Stmt => StmtNode
}

/// How the iterations of a loop are run.
#[derive(Object, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[object(key = "kernpack.ir.ForKind", enum = "int")]
pub enum ForKind {
    /// One after the other.
    Serial = 0,
    /// By several threads of the cpu, in any order.
    Parallel = 1,
    /// As lanes of vectors.
    Vectorized = 2,
    /// Written out.
    Unrolled = 3,
    /// By threads of a device; the annotation `thread` has the tag.
    ThreadBinding = 4,
}

/// What a statement is.
#[derive(Object)]
#[object(key = "kernpack.ir.Stmt")]
#[repr(C, u32)]
pub enum StmtNode {
    /// Statements one after the other; none inside is a `Seq` itself.
    #[object(key = "kernpack.ir.Seq")]
    Seq {
        /// In order.
        stmts: Array<Stmt>,
    },
    /// A loop over `min .. min + extent`.
    #[object(key = "kernpack.ir.For")]
    For {
        /// Its variable.
        #[field(structural = "def")]
        var: Var,
        /// The first value.
        min: Expr,
        /// How many; 0 or less: none.
        extent: Expr,
        /// How iterations are run.
        kind: ForKind,
        /// Hints by name.
        annotations: Map<Str, Any>,
        /// What is repeated.
        body: Stmt,
    },
    /// Writes memory.
    #[object(key = "kernpack.ir.Store")]
    Store {
        /// Where to.
        buffer: Buffer,
        /// In elements from the buffer's data pointer; a vector stores a lane to each place.
        index: Expr,
        /// What is written.
        value: Expr,
        /// Lanes that are written; without it all are.
        mask: Option<Expr>,
    },
    /// Writes an element of a tensor. Before storage is flattened.
    #[object(key = "kernpack.ir.TensorWrite")]
    TensorWrite {
        /// Which tensor.
        tensor: Tensor,
        /// One for each dimension.
        indices: Array<Expr>,
        /// What is written.
        value: Expr,
    },
    /// Memory for a region of a tensor, to the end of the body. Before storage is flattened.
    #[object(key = "kernpack.ir.Realize")]
    Realize {
        /// Which tensor.
        tensor: Tensor,
        /// Which part, for each dimension.
        region: Array<Range>,
        /// Scope of the memory; empty: it follows from the threads around it.
        scope: Str,
        /// Hints by name.
        annotations: Map<Str, Any>,
    },
    /// Memory, to the end of the body.
    #[object(key = "kernpack.ir.Alloc")]
    Alloc {
        /// What loads and stores name.
        #[field(structural = "def")]
        buffer: Buffer,
        /// Hints by name.
        annotations: Map<Str, Any>,
    },
    /// Another view of memory, to the end of the body.
    #[object(key = "kernpack.ir.Alias")]
    Alias {
        /// The view.
        #[field(structural = "def")]
        buffer: Buffer,
        /// Its data pointer.
        data: Expr,
    },
    /// A value with a name, to the end of the body.
    #[object(key = "kernpack.ir.Bind")]
    Bind {
        /// The name.
        #[field(structural = "def")]
        var: Var,
        /// Its value.
        value: Expr,
    },
    /// Something that is said of a body.
    #[object(key = "kernpack.ir.Attr")]
    Attr {
        /// What is said: `thread_extent`, `virtual_thread`, `storage_alignment`, `extern_scope`, `compute_scope`, `pragma_..`.
        key: Str,
        /// Of what: a variable, an iteration variable, a buffer, text.
        node: Any,
        /// The value.
        value: Expr,
        /// Where it holds.
        body: Stmt,
    },
    /// Ends the function with an error unless a condition holds.
    #[object(key = "kernpack.ir.Assert")]
    Assert {
        /// What has to hold.
        condition: Expr,
        /// Kind of the error: `ValueError`, `TypeError`, ..
        kind: Str,
        /// Parts of the message, which are joined.
        parts: Array<Str>,
    },
    /// A condition.
    #[object(key = "kernpack.ir.If")]
    If {
        /// A scalar truth value.
        condition: Expr,
        /// Done if it holds.
        then_body: Stmt,
        /// Done if it does not.
        else_body: Option<Stmt>,
    },
    /// Evaluates an expression for its effect.
    #[object(key = "kernpack.ir.Evaluate")]
    Evaluate {
        /// The expression.
        value: Expr,
    },
    /// Repeats a body as long as a condition holds.
    #[object(key = "kernpack.ir.While")]
    While {
        /// A scalar truth value, evaluated before each round.
        condition: Expr,
        /// What is repeated.
        body: Stmt,
    },
    /// Ends the function.
    #[object(key = "kernpack.ir.Return")]
    Return {
        /// Its value.
        value: Expr,
    },
    /// Touches a region of a tensor that is read soon. Before storage is flattened.
    #[object(key = "kernpack.ir.Prefetch")]
    Prefetch {
        /// Which tensor.
        tensor: Tensor,
        /// Which part.
        region: Array<Range>,
    },
}

impl Stmt {
    /// Statements one after the other; nested sequences become one, and one statement stays itself.
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

    /// Nothing.
    pub fn nothing() -> Self {
        Self::seq([])
    }

    /// Whether it is an empty sequence.
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

    /// A condition.
    pub fn if_then(condition: impl Into<Expr>, then_body: Stmt, else_body: Option<Stmt>) -> Self {
        Self::from_node(StmtNode::If { condition: condition.into(), then_body, else_body })
    }

    /// Memory to the end of the body.
    pub fn alloc(buffer: Buffer) -> Self {
        Self::from_node(StmtNode::Alloc { buffer, annotations: Map::default() })
    }

    /// A name for a value to the end of the body.
    pub fn bind(var: Var, value: impl Into<Expr>) -> Self {
        Self::from_node(StmtNode::Bind { var, value: value.into() })
    }

    /// An expression for its effect.
    pub fn evaluate(value: impl Into<Expr>) -> Self {
        Self::from_node(StmtNode::Evaluate { value: value.into() })
    }

    /// Something said of a body.
    pub fn attr(key: &str, node: impl Into<Any>, value: impl Into<Expr>, body: Stmt) -> Self {
        Self::from_node(StmtNode::Attr { key: key.into(), node: node.into(), value: value.into(), body })
    }

    /// A check.
    pub fn assert(condition: impl Into<Expr>, kind: &str, parts: impl IntoIterator<Item = Str>) -> Self {
        Self::from_node(StmtNode::Assert {
            condition: condition.into(),
            kind: kind.into(),
            parts: parts.into_iter().collect(),
        })
    }

    /// The end of the function.
    pub fn return_value(value: impl Into<Expr>) -> Self {
        Self::from_node(StmtNode::Return { value: value.into() })
    }
}
