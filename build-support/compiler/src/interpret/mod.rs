//! An interpreter that runs lowered functions step by step and reports errors that compiled code
//! would not detect.
//!
//! ```
//! use kernpack_compiler::interpret::{Block, Machine};
//! use kernpack_compiler::ir::{Buffer, Expr, F32, ForKind, FuncKind, LoweredFunc, LoweredFuncNode, Param, ParamNode, Stmt, Var};
//!
//! let (n, i) = (Var::size("n", kernpack_compiler::ir::I64), Var::index("i"));
//! let a = Buffer::new("a", F32, [n.expr().clone()], "global");
//! let b = Buffer::new("b", F32, [n.expr().clone()], "global");
//! let store = Stmt::store(b.clone(), &i, Expr::load(&a, &i) * 2.0);
//! let body = Stmt::for_loop(i, 0, &n, ForKind::Parallel, store);
//! let param = |buffer: &Buffer, output| Param::from_node(ParamNode { var: buffer.data.clone(), buffer: Some(buffer.clone()), output });
//! let double = LoweredFunc::from_node(LoweredFuncNode {
//!     name: "double".into(),
//!     params: [param(&a, false), param(&b, true)].into_iter().collect(),
//!     ret: kernpack_compiler::interpret::NOTHING,
//!     kind: FuncKind::Mixed,
//!     thread_axes: Default::default(),
//!     body,
//!     attrs: Default::default(),
//! });
//!
//! let (input, output) = (Block::from_f32(&[1.0, 2.0, 3.0]), Block::uninit(F32, &[3]));
//! Machine::new(&double)?.run("double", &[(&input).into(), (&output).into()])?;
//! assert_eq!(output.to_f32()?, [2.0, 4.0, 6.0]);
//! # Ok::<(), kernpack_compiler::CompileError>(())
//! ```
//!
//! Errors contain the statement and the values of its variables. These are errors: an access
//! outside of a buffer or after the end of its scope; a read of bytes that have no value; a write
//! to a parameter that is not an output; an address that is not a multiple of the element size or
//! of the alignment of the buffer; a data race, where two iterations of a parallel loop, or two
//! device threads without a barrier in between, access the same byte and one of them writes; a
//! barrier that some threads do not reach; overflow and division by zero in indices, extents and
//! guards; a failed assertion; too many steps.
//!
//! Arithmetic results in the same bits as compiled code: each operation is computed in its type,
//! and `fma` rounds once. Math functions (`exp`, ..) are computed in double precision and rounded:
//! compiled code may differ from them by its own error.
//!
//! Loops that will be vectorized or unrolled run serially. The blocks of a device's threads run one
//! after the other, the threads of a block in turns from barrier to barrier. Copies of a virtual
//! thread count as one thread for data races.

mod access;
mod arguments;
mod block;
mod builtins;
mod code;
mod collective;
mod compile;
mod compile_call;
mod compile_expr;
mod compile_stmt;
mod compile_thread;
mod frame;
mod grid;
mod machine;
mod memory;
mod number;
mod packed;
mod race;
mod report;
mod run;
mod step;
mod value;

pub use block::{Arg, Block};
pub use machine::Machine;

pub use crate::ir::dtype::NOTHING;
pub use packed::{PackedCall, PackedValue};
