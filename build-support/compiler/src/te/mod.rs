//! Tensor expressions: definitions of tensors, one element at a time.
//!
//! ```
//! use kernpack_compiler::ir::F32;
//! use kernpack_compiler::te::{compute, placeholder, reduce_axis, size, sum};
//!
//! let n = size("n");
//! let a = placeholder((&n, 64), F32, "a");
//! let k = reduce_axis(0, 64, "k");
//! let rows = compute([&n], |[i]| sum(a.at([&i, &k]), &k)).named("rows");
//! assert_eq!(rows.shape.len(), 1);
//! kernpack_compiler::take_reported().unwrap();
//! ```

pub mod axis;
pub mod compute;
pub mod eval;
pub mod exprs;
pub mod extern_op;
pub(crate) mod in_bounds;
pub mod math;
pub mod operation;
pub(crate) mod packed;
pub mod placeholder;
pub mod reduce;
pub mod reducer;
pub mod scan;

pub use axis::{reduce_axis, thread_axis};
pub use compute::{Bodies, Named, compute, compute_dyn};
pub use exprs::{Axes, ExprArray, Exprs};
pub use extern_op::{ExternOp, extern_op, pointer_argument, tensor_argument};
pub use math::*;
pub use placeholder::{placeholder, size, var};
pub use reduce::{argmax, argmin, max_value, min_value, product, reduce_all, reduce_any, reduce_max, reduce_min, sum};
pub use reducer::{CommReducer, comm_reducer};
pub use scan::{scan, scan_dyn};
