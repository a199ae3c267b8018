//! Compiles models to kernels, weights and one entry function.
//!
//! An ONNX file is read ([`onnx`]) and becomes a [`Graph`] of operators ([`op`]) on tensors of
//! known shapes ([`import`]). Operators are fused ([`Group`]), values share one arena ([`plan`]),
//! and the graph is lowered to functions for the code generators of the compiler ([`lower()`]).

mod attrs;
#[cfg(feature = "llvm")]
mod build;
mod constant;
mod copy;
#[cfg(feature = "llvm")]
pub mod diff;
mod effort;
mod error;
mod extent;
mod filters;
mod fuse;
mod graph;
mod import;
mod infer;
pub mod lower;
mod model;
mod moved;
mod names;
mod numpy_random;
pub mod onnx;
pub mod op;
mod options;
mod parts;
pub mod plan;
mod quantized;
mod rows;
mod sizes;
#[doc(hidden)]
pub mod tensors;
pub mod text;
mod turned;
mod unread;
mod weights;

kernpack::library!(with = [kernpack_compiler]);

pub use attrs::{Attr, Attrs};
#[cfg(feature = "llvm")]
pub use build::build;
pub use constant::{Constant, element_bytes, num_elements, stored};
pub use error::{GraphError, Result};
pub use extent::{Extent, Extents, OpenDim};
pub use fuse::Group;
pub use graph::{Dequantized, Graph, Node, Parts, Sizes, Value, ValueId};
pub use import::{Imported, import, import_owned};
pub use lower::{KernelInfo, LowerOptions, Lowered, Place, Threads, ValueInfo, Weights, lower, lower_apart};
pub use model::{Argument, Model};
pub use op::CustomOperator;
pub use options::ModelOptions;
