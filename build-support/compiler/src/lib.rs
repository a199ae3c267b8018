//! A compiler from tensor expressions to machine code: expressions (`te`), schedules (`schedule`),
//! loops (`ir`), passes over them, and code generators.
//!
//! At run time, from the expression to a result (in `build.rs`, `Library::te` of kernpack-build
//! does this):
//!
//! ```
//! # #[cfg(feature = "llvm")] {
//! use kernpack_compiler::codegen::Target;
//! use kernpack_compiler::{Kernel, PassContext, TargetDescription, build, ir::F32, te::compute};
//!
//! let mut kernel = Kernel::new("double");
//! let n = kernel.size("n");
//! let x = kernel.input("x", [&n], F32);
//! kernel.output("y", compute([&n], |[i]| x.at([&i]) * 2.0));
//! let target = Target::host();
//! let module = build(&kernel.lower(&TargetDescription::of(&target), &PassContext::default())?, &target)?;
//! let (x, y) = (kernpack::Tensor::from_slice(&[1.0f32, 2.5], &[2])?, kernpack::Tensor::from_slice(&[0f32; 2], &[2])?);
//! module.function("double")?.call((&x, &y))?;
//! assert_eq!(y.view::<f32>()?.to_vec(), [2.0, 5.0]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The nodes are objects: other languages build, read, print, compare, copy, serialize and rewrite
//! them through their registered fields.

kernpack::library!();

pub mod arith;
#[cfg(feature = "llvm")]
mod build;
pub mod codegen;
pub mod error;
pub mod interpret;
pub mod intrin;
pub mod ir;
pub mod kernel;
mod packed;
pub mod pass;
pub mod rules;
pub mod schedule;
pub mod te;
pub mod text;

#[cfg(feature = "llvm")]
pub use build::{DeviceVersion, IntoIrModule, build, build_device, device_version};
pub use error::{CompileError, ErrorKind, Result, collect_reported, take_reported, with_reported};
pub use kernel::{Kernel, KernelParam, KernelParamKind};
pub use pass::{PassContext, PassOptions};
pub use rules::TargetDescription;
