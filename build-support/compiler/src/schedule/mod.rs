//! Schedules: the loops in which tensors are computed, separate from the definition of the tensors.
//!
//! A [`Schedule`] has a [`Stage`] for each operation. `schedule.stage(&tensor)` returns a
//! [`StageHandle`] with the primitives; each returns a `Result` whose error names the stage, the
//! axis and the user's line.
//!
//! ```
//! use kernpack_compiler::ir::F32;
//! use kernpack_compiler::schedule::create_schedule;
//! use kernpack_compiler::te::{compute, placeholder, reduce_axis, sum};
//!
//! # fn main() -> kernpack_compiler::Result<()> {
//! let (a, b) = (placeholder([64, 64], F32, "a"), placeholder([64, 64], F32, "b"));
//! let k = reduce_axis(0, 64, "k");
//! let c = compute([64, 64], |[i, j]| sum(a.at([&i, &k]) * b.at([&k, &j]), &k)).named("c");
//!
//! let mut s = create_schedule([&c]);
//! let [i, j] = s.stage(&c).axes()?;
//! let (io, jo, ii, ji) = s.stage(&c).tile(&i, &j, 4, 16)?;
//! s.stage(&c).reorder([&io, &jo, &k, &ii, &ji])?.unroll(&ii)?.vectorize(&ji)?.parallel(&io)?;
//!
//! let mistake = s.stage(&c).split(&i, 8).unwrap_err();
//! assert_eq!(mistake.what(), "split: `i` of stage `c` is no longer a loop");
//! # Ok(())
//! # }
//! ```

pub(crate) mod attach;
mod cache;
pub(crate) mod derive;
pub(crate) mod gather;
mod group;
pub(crate) mod guards;
pub mod infer_bound;
mod loop_nest;
pub mod lower;
pub(crate) mod lower_compute;
pub mod lower_function;
pub(crate) mod lower_scan;
pub(crate) mod lower_tensorize;
pub(crate) mod memory;
pub(crate) mod nest;
pub mod normalize;
pub mod object;
mod packed;
pub mod pass_down;
pub mod primitives;
mod read_checks;
pub mod relations;
mod replace;
mod rfactor;
pub mod stage;
pub mod tensorize;

pub use infer_bound::infer_bound;
pub(crate) use lower::bound_buffer;
pub use lower::lower;
pub use lower_function::{Argument, lower_function};
pub(crate) use lower_function::{lower_checked, named_buffer};
pub(crate) use lower_tensorize::bound_region;
pub(crate) use nest::PREFETCH_SCOPE;
pub use object::{SharedSchedule, SharedStage};
pub(crate) use packed::function_of;
pub use primitives::{StageHandle, StageKey};
pub use relations::{Relation, Tail};
pub use stage::{Annotation, Attach, AxisAttr, Schedule, Stage, StageId, create_schedule};
pub use tensorize::{TensorIntrin, TensorIntrinNode};
