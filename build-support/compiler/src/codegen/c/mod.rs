//! C source of lowered functions: portable C11 for compilers of targets that LLVM does not support,
//! for reading, and for debugging.
//!
//! One file includes only `kernpack/kernel.h`. With GCC and Clang, vectors are those of GNU C
//! (`-DKP_VECTORS=0` disables them); with other compilers, they are arrays of lanes. Half
//! precisions are represented in single precision and rounded after each operation. Integers wrap
//! without undefined behavior; a division by 0 is an error in the program. A C compiler should get
//! the flags [`FLAGS`] in addition to an optimization level.
//!
//! C is a vocabulary of the generator of [`source`](super::source); this module has what only code
//! of the host has: the runtime, packed functions, parallel loops.
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

mod call;
mod compute;
mod function;
mod module;
mod parallel;
mod preamble;
mod runtime;
mod stmt;
pub(crate) mod vector_memory;

pub use module::build_module;
pub(crate) use preamble::PREAMBLE;

use kernpack::DataType;

use super::{RuntimeSymbols, Target};
use crate::error::Result;
use crate::ir::IrModule;
use crate::pass::lower_for_host;

/// The flags for GCC and Clang: `sqrt` and similar functions do not set `errno`, products are not
/// fused with sums unless the program uses `fma`, and floating point exceptions are not observed,
/// so that both sides of a select can be computed.
pub const FLAGS: &[&str] = &["-std=gnu11", "-fno-math-errno", "-ffp-contract=off", "-fno-trapping-math"];

/// The return type of a function that returns nothing.
pub fn nothing() -> DataType {
    crate::ir::dtype::NOTHING
}

/// Returns the C file of a module.
///
/// Packed functions (kind `Host`) are exported as `__tvm_ffi_<name>`; functions before
/// `MakePackedAPI` (`Mixed`) under their own name with data pointers and scalars as parameters;
/// others (`Internal`) are `static`. The attribute `global_symbol` sets another symbol.
///
/// `runtime` sets the way in which the code accesses the runtime.
///
/// # Errors
/// Returns an error for nodes that passes should have lowered, types and builtins that C does not
/// support, and device kernels.
pub fn source(module: &IrModule, runtime: &RuntimeSymbols) -> Result<String> {
    function::module(module, runtime)
}

/// Returns the C file of functions in the form that schedules produce: packed functions that check
/// their arguments, with math functions lowered to arithmetic.
///
/// # Errors
/// Returns the errors of the final passes and of [`source`].
pub fn build(module: &IrModule, target: &Target) -> Result<String> {
    source(&lower_for_host(module, target)?, &target.runtime)
}
