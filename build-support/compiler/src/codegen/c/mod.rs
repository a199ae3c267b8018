//! C source of lowered functions: portable C11 for compilers that LLVM does not reach, for reading, and for debugging.
//!
//! One file includes `kernpack/kernel.h` and nothing else. With GCC and Clang vectors are those of GNU C (`-DKP_VECTORS=0` leaves them out), with other
//! compilers arrays of lanes. Half precisions are held in single precision and rounded after each operation. Integers wrap without undefined
//! behaviour; a division by 0 is the program's own mistake. [`FLAGS`] are what a C compiler should be given besides a level of optimisation.
//!
//! ```
//! use kernpack_compiler::codegen::{RuntimeSymbols, c};
//! use kernpack_compiler::ir::{Buffer, Expr, F32, ForKind, FuncKind, IrModule, LoweredFunc, LoweredFuncNode, Param, ParamNode, Stmt, Var};
//!
//! let (a, n) = (Buffer::new("a", F32, [Expr::int(8)], "global"), Var::size("n", kernpack_compiler::ir::I64));
//! let i = Var::index("i");
//! let double = Stmt::store(a.clone(), &i, Expr::load(&a, &i) * 2.0);
//! let body = Stmt::for_loop(i, 0, &n, ForKind::Serial, double);
//! let param = |var: &Var, buffer| Param::from_node(ParamNode { var: var.clone(), buffer, output: true });
//! let function = LoweredFunc::from_node(LoweredFuncNode {
//!     name: "double_all".into(),
//!     params: [param(&a.data, Some(a.clone())), param(&n, None)].into_iter().collect(),
//!     ret: c::nothing(),
//!     kind: FuncKind::Mixed,
//!     thread_axes: Default::default(),
//!     body,
//!     attrs: Default::default(),
//! });
//! let source = c::source(&IrModule::new([function]), &RuntimeSymbols::Direct)?;
//! assert!(source.contains("void double_all(kp_f32* KP_RESTRICT const a, int64_t const n) {"));
//! assert!(source.contains("    a[i] = (a[i] * 2.0f);"));
//! # Ok::<(), kernpack_compiler::CompileError>(())
//! ```

mod body;
mod call;
mod compute;
mod expr;
mod function;
mod literal;
mod module;
mod names;
mod parallel;
mod runtime;
mod scalar;
mod stmt;
mod types;
mod unit;
mod vector;
mod vector_memory;

pub use module::build_module;

use kernpack::DataType;

use super::{RuntimeSymbols, Target};
use crate::error::Result;
use crate::ir::IrModule;
use crate::pass::lower_for_host;

/// What GCC and Clang should be told: `sqrt` and its like set no `errno`, products are not fused with sums unless the program says `fma`, and no exception of
/// floats is observed, so that both sides of a choice can be computed.
pub const FLAGS: &[&str] = &["-std=gnu11", "-fno-math-errno", "-ffp-contract=off", "-fno-trapping-math"];

/// The return type of a function that returns nothing.
pub fn nothing() -> DataType {
    crate::ir::dtype::NOTHING
}

/// The C file of a module.
///
/// Packed functions (kind `Host`) are exported as `__tvm_ffi_<name>`, functions before `MakePackedAPI` (`Mixed`) under their own name with data pointers
/// and scalars as parameters, others (`Internal`) are `static`; the attribute `global_symbol` gives another symbol.
///
/// `runtime` says how the code reaches the runtime.
///
/// # Errors
/// Nodes that passes should have lowered, types and builtins that C does not have, kernels of devices.
pub fn source(module: &IrModule, runtime: &RuntimeSymbols) -> Result<String> {
    function::module(module, runtime)
}

/// The C file of functions as schedules leave them: packed functions, with arguments checked and math functions as arithmetic.
///
/// # Errors
/// Those of the last passes and of [`source`].
pub fn build(module: &IrModule, target: &Target) -> Result<String> {
    source(&lower_for_host(module, target)?, &target.runtime)
}
