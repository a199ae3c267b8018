//! Schedules: the effect of primitives on loops, unchanged results (the interpreter compared with
//! the reference evaluator), and every error.

#[path = "schedule/behaviours.rs"]
mod behaviours;
#[path = "schedule/copies.rs"]
mod copies;
#[path = "schedule/errors.rs"]
mod errors;
#[path = "schedule/graph.rs"]
mod graph;
#[path = "schedule/languages.rs"]
mod languages;
#[path = "schedule/loops.rs"]
mod loops;
#[path = "schedule/lowering_errors.rs"]
mod lowering_errors;
#[path = "schedule/stages.rs"]
mod stages;
