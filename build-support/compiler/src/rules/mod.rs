//! Schedules by pattern: rules that are tried in order, over a small description of the target.

mod target;

pub use target::TargetDescription;
