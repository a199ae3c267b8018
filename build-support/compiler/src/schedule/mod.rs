//! Schedules: in which loops tensors are computed, apart from what they are.
//!
//! A [`Schedule`] has a [`Stage`] for each operation. `schedule.stage(&tensor)` gives a handle with the primitives; each returns a `Result` that names the
//! stage, the axis and the user's line.

pub mod normalize;
pub mod relations;
pub mod stage;
pub mod tensorize;

pub use relations::{Relation, Tail};
pub use stage::{Annotation, Attach, AxisAttr, Schedule, Stage, StageId};
pub use tensorize::{TensorIntrin, TensorIntrinNode};
