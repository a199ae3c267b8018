//! NNVM: its operators, its passes, `build`, the graph executor and files with parameters.
//!
//! Operators are those of NNVM 0.5, with its names and attributes. They compute with the operators
//! of models ([`kernpack_graph::op`]) if the meaning is the same. They are registered in
//! [`crate::symbol::registry`], and lowered like all others: tensor expressions, rules, code
//! generators.
//!
//! ```
//! use kernpack::Tensor;
//! use kernpack_nnvm::{self as nnvm, BuildOptions, GraphExecutor};
//! use kernpack_nnvm::symbol::{self, Value};
//!
//! let x = Value::variable("x");
//! let y = symbol::apply("exp", "y", &symbol::apply("__add_scalar__", "", &[x], &[("scalar", "1")])?, &[])?;
//! let mut options = BuildOptions { dtype: Some(kernpack::DataType::FLOAT32), ..BuildOptions::default() };
//! options.shapes.insert("x".into(), vec![2]);
//! let built = nnvm::build(&symbol::graph_of(&y), "llvm", &options)?;
//! let executor = GraphExecutor::new(&built.graph, &built.module)?;
//! executor.set_input(0, &Tensor::from_slice(&[0.0f32, -1.0], &[2])?, true)?;
//! executor.run()?;
//! assert_eq!(executor.output(0)?.view::<f32>()?.to_vec()[1], 1.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod build;
mod common_sub_expression;
mod compile;
mod compute;
mod correct_layout;
mod executor;
mod fuse;
mod gradient;
pub mod layout;
mod layout_rules;
mod make;
mod memory;
pub mod op;
mod packed;
mod params;
mod precompute;
mod scale;
mod simplify;
pub mod symbol;

kernpack::library!(with = [kernpack_graph]);

pub use kernpack_graph::{GraphError, Result};

pub use build::{BuildOptions, Built, PASS_LEVELS, build, run_graph};
pub use compile::{cached, clear_cache};
pub use executor::GraphExecutor;
pub use fuse::FusedEntry;
pub use params::{load as load_params, save as save_params};
