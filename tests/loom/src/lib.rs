//! The runtime's files with lock-free protocols, built over loom's atomics instead of the real
//! ones, and models of their use.
//!
//! A model is a function of a few threads. [`check`] runs it in every interleaving of the threads'
//! steps, with every value that the C++ memory model lets a load see (as far as loom supports it),
//! and fails if an assertion does, or if one thread writes a cell that another reads without an
//! order between them. `tests/models.rs` runs all models.
//!
//! Loom runs the thread that spawns others first and then explores alternatives. It misses an order
//! if that thread reads an atomic and another thread reads and then writes it, so the first thread
//! of a model is a writer.

pub mod backend_models;
mod counted;
pub mod name_table_models;
pub mod ref_count_models;
pub mod shared_ref_models;
pub mod tensor_borrow_models;

#[path = "../../../runtime/embedded/src/sync/name_table.rs"]
mod name_table;
#[path = "../../../runtime/embedded/src/sync/ref_count.rs"]
mod ref_count;
#[path = "../../../runtime/embedded/src/sync/shared_ref.rs"]
mod shared_ref;

/// The counterpart of `runtime/embedded/src/sync/atomic.rs`.
mod atomic {
    pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
    pub(super) use loom::sync::{Mutex, MutexGuard};

    pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }
}

/// The counterpart of `runtime/embedded/src/notice.rs`.
mod notice {
    pub(super) fn notice(line: core::fmt::Arguments<'_>) {
        panic!("{line}");
    }
}

/// Runs a model in all interleavings.
pub fn check(model: impl Fn() + Sync + Send + 'static) {
    loom::model(model);
}

/// Runs a model in all interleavings with at most `times` preemptions: for models that have too
/// many.
pub fn check_with_interruptions(times: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(times);
    builder.max_branches = 10_000;
    builder.check(model);
}
