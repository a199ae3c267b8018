//! `cargo xtask bench`: measurements against the peers, all in one run.

pub(crate) mod build;
pub(crate) mod caller;
pub(crate) mod calls;
pub(crate) mod compiler;
pub(crate) mod devices;
pub(crate) mod extension;
pub(crate) mod figures;
mod machine;
pub(crate) mod models;
pub(crate) mod modules;
mod page;
pub(crate) mod parallel;
mod peers;
pub(crate) mod plots;
mod programs;
pub(crate) mod rpc;
pub(crate) mod runtime;
pub(crate) mod samples;
pub(crate) mod size;
mod threads;
