//! Reads lowered modules of Apache TVM 0.27.0.post1, as `tvm.ir.save_json` writes them, and
//! compiles them with our code generator.
//!
//! The reader is a table from type keys to conversions: an unknown node or operator is an error
//! with its name. It is for tests only: the keys change with each release of TVM.
//!
//! `differential.py` loads this library through `../generator.py`. It needs apache-tvm 0.27.0.post1
//! together with apache-tvm-ffi 0.1.14.post1 (with 0.1.15, its `save_json` crashes),
//! LD_LIBRARY_PATH with the folder of the LLVM that this library is linked with, and on a busy
//! machine `--timeout 3000`.

kernpack::library!();

mod entry;
mod expr;
mod graph;
mod operators;
mod stmt;

pub use entry::{build_json, module, target};

use kernpack::{Module, Result, packed_func};

/// Compiles a graph for a target, both as JSON. differential.py calls it.
#[packed_func(name = "kernpack.test.build_tvm")]
fn build_tvm(graph: &str, target_text: &str) -> Result<Module> {
    build_json(graph, target_text).map_err(Into::into)
}
