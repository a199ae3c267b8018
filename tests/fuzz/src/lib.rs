//! Properties that must hold for any input, one module for each reader of foreign data. `check`
//! takes any bytes and panics if a property does not hold. libFuzzer calls it with generated inputs
//! (`cargo xtask fuzz`), and `tests/corpus.rs` with those in `corpus/`.

mod call;
pub mod device_image;
pub mod dlpack;
pub mod dtype;
pub mod json;
pub mod json_graph;
pub mod library_bin;
#[cfg(feature = "models")]
pub mod limits;
pub mod module_tree;
mod node;
#[cfg(feature = "models")]
pub mod onnx;
pub mod rpc;

/// A module's name, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub static TARGETS: &[Target] = &[
    ("json", json::check),
    ("json_graph", json_graph::check),
    ("dtype", dtype::check),
    ("dlpack", dlpack::check),
    ("library_bin", library_bin::check),
    ("device_image", device_image::check),
    ("module_tree", module_tree::check),
    ("rpc", rpc::check),
    #[cfg(feature = "models")]
    ("onnx", onnx::check),
];
