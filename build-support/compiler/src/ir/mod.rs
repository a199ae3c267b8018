//! Lowered programs and tensor expressions, as objects.
//!
//! [`Expr`] and [`Stmt`] are references; `match &*expr { ExprNode::Binary { op, a, b, .. } => .. }`
//! reads a node. Nodes are immutable. Operators build expressions and fold constants; `builder` has
//! the other constructors.

pub mod buffer;
pub mod builder;
pub mod builtin;
pub mod dtype;
pub mod expr;
pub(crate) mod float_math;
pub mod function;
pub(crate) mod handle;
pub mod mutate;
pub mod refresh;
pub mod share;
pub mod shared;
pub mod stmt;
pub mod substitute;
pub mod tensor;
pub mod verify;
pub mod visit;

pub use buffer::{Buffer, BufferNode, DEFAULT_ALIGNMENT};
pub use dtype::{BF16, BOOLEAN, DataTypeExt, F16, F32, F64, I8, I16, I32, I64, POINTER, U8, U16, U32, U64};
pub use expr::{BinaryOp, CallKind, CompareOp, Expr, ExprNode, LogicOp, Reducer, ReducerNode, Var};
pub use function::{
    FuncKind, IrModule, IrModuleNode, LoweredFunc, LoweredFuncNode, NODES, PARALLEL_TASK, Param, ParamNode,
};
pub(crate) use handle::handle;
pub use kernpack::DataType;
pub use mutate::{Mutate, MutateStmts};
pub use stmt::{ForKind, Stmt, StmtNode};
pub use substitute::{VarMap, substitute, substitute_stmt};
pub use tensor::{IterKind, IterVar, IterVarNode, Operation, OperationNode, Range, RangeNode, Tensor, TensorNode};
pub use visit::Visit;

/// Runs recursive work on a growing stack, so that the depth of a program is limited only by
/// memory.
#[inline]
pub fn with_stack<R>(work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, work)
}
