//! Source in languages like C, whose words differ ([`Vocabulary`]): kernels for devices, and
//! functions in C ([`super::c`]).
//!
//! A kernel is a function of kind `Device`, as `SplitHostDevice` makes it. Its parameters in the
//! source are, for each pointer, the block of the tensor and the offset of its first element in
//! bytes (memory of OpenCL is an object without arithmetic), and the numbers as they are. The
//! extents of its threads are not parameters.
//!
//! Half precisions are in single precision and are rounded after each operation. Integers wrap
//! without undefined behavior, a quotient by 0 is 0, and products are not fused with sums unless
//! the program uses `fma`, as in the code for CPUs (CUDA C++ needs the option `-fmad=false`). Math
//! functions are those of the language, with its precision; in OpenCL C, so is the division of
//! single precision. Whatever a language does not have is an error that names the construct.
//!
//! ```
//! use kernpack_compiler::codegen::source;
//! use kernpack_compiler::text;
//!
//! let module = text::parse(
//!     "device func twice(p: ptr, n: i64) threads [axis b thread \"blockIdx.x\",
//!          axis t thread \"threadIdx.x\" in 0..64] {
//!        alias a: f32[n] align 4 = p
//!        if b * 64 + t < n { a[b * 64 + t] = a[b * 64 + t] * 2.0 }
//!      }",
//! )?;
//! let (source, kernels) = source::source(&source::OPENCL, &module)?;
//! assert!(source.contains("a[((b * 64L) + t)] = (a[((b * 64L) + t)] * 2.0f);"));
//! assert_eq!(kernels[0].tags, ["blockIdx.x", "threadIdx.x"]);
//! # Ok::<(), kernpack_compiler::CompileError>(())
//! ```

pub(crate) mod access;
pub(crate) mod body;
mod call;
pub(crate) mod expr;
mod function;
pub(crate) mod half;
pub(crate) mod literal;
mod names;
pub(crate) mod scalar;
pub(crate) mod stmt;
pub(crate) mod unit;
mod vector;
pub(crate) mod vocabulary;

pub use vocabulary::{CUDA, OPENCL, Vocabulary};

use kernpack::module::device_image::{ArgType, DeviceFunction};

use crate::error::Result;
use crate::ir::IrModule;

/// A kernel of generated source, as its launches need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The name.
    pub name: String,
    /// The parameters: two for each pointer, the block and the offset in bytes.
    pub arg_types: Vec<ArgType>,
    /// The tags of the extents that a launch passes after the arguments.
    pub tags: Vec<String>,
}

impl Kernel {
    /// The entry in the table of a device image.
    pub fn entry(&self) -> DeviceFunction<'_> {
        DeviceFunction {
            name: &self.name,
            arg_types: self.arg_types.clone(),
            launch_params: self.tags.iter().map(String::as_str).collect(),
            extra_tags: vec![0; self.arg_types.len()],
        }
    }
}

/// Returns the source of all kernels of a module, and their parameters. Functions of the host are
/// ignored.
///
/// # Errors
/// Returns an error for nodes that passes should have lowered, and for what the language does not
/// have.
pub fn source(words: &'static Vocabulary, module: &IrModule) -> Result<(String, Vec<Kernel>)> {
    function::module(words, module)
}
