//! Compiles models to kernels, weights and one entry function.
//!
//! An ONNX file is read ([`onnx`]) and becomes a [`Graph`] of operators ([`op`]) on tensors of
//! known shapes ([`import`]). Passes replace nodes with faster equivalents and pack weights
//! ([`Dump`]). Operators are fused ([`Group`]), values share one arena ([`plan`]), and the graph is
//! lowered to functions for the code generators of the compiler ([`lower()`]).

mod attrs;
#[cfg(feature = "llvm")]
mod build;
mod constant;
mod copy;
mod dequantized;
#[cfg(feature = "llvm")]
pub mod diff;
mod dynamic;
mod effort;
mod error;
mod fold_layout_moves;
mod fuse;
mod graph;
mod import;
mod infer;
pub mod lower;
mod model;
mod names;
mod numpy_random;
pub mod onnx;
pub mod op;
mod optimize;
mod options;
pub mod plan;
mod print;
#[doc(hidden)]
pub mod tensors;
pub mod text;

kernpack::library!(with = [kernpack_compiler]);

pub use attrs::{Attr, Attrs};
#[cfg(feature = "llvm")]
pub use build::build;
pub use constant::{Constant, element_bytes, num_elements, stored};
pub use dynamic::{Extent, Extents, Formula, OpenDim};
pub use error::{GraphError, Result};
pub use fuse::Group;
pub use graph::{Dequantized, Graph, Node, Parts, RangeDim, Ranges, Sizes, Value, ValueId};
pub use import::{Imported, import, import_and_dump, import_owned};
pub use lower::weights_file;
pub use lower::{
    KernelInfo, LowerOptions, Lowered, Place, Threads, ValueInfo, Weights, lower, lower_apart, lower_for_file,
};
pub use model::{Argument, Model};
pub use op::CustomOperator;
pub use optimize::Dump;
pub use options::ModelOptions;
