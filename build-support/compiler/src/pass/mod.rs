//! Lowering in steps: each pass performs one transformation and establishes an invariant.

mod accesses;
pub mod common_subexpr_elim;
mod context;
pub mod hoist_if;
mod host;
pub mod inject_double_buffer;
pub mod inject_prefetch;
pub mod inject_virtual_thread;
pub mod instrument_bound_checkers;
mod loop_guards;
pub mod loop_partition;
pub mod lower_builtin;
pub mod lower_intrin;
pub mod lower_thread_allreduce;
pub mod lower_warp_memory;
pub mod make_packed_api;
pub mod narrow_index;
mod overlaps;
mod packed;
pub mod pipeline;
pub mod program;
mod relocate;
pub mod remove_no_op;
pub mod rewrite_unsafe_select;
pub mod simplify;
pub mod split_host_device;
pub mod storage_flatten;
pub mod storage_rewrite;
pub mod thread_sync;
mod threads;
pub mod unroll_loop;
pub mod vectorize_loop;
pub mod verify_memory;

pub use context::{PassContext, PassContextNode, PassOptions};
pub use host::lower_for_host;
pub use program::{Pass, Program};
