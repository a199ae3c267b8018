//! Modules of kind `opencl` (Cargo feature `opencl`): OpenCL C, or the output of a device's
//! compiler.
//!
//! The payload is TVM's ([`device_image`](super::device_image)). Its format determines the code:
//!
//! | format | code |
//! |---|---|
//! | `cl` | OpenCL C, compiled for a device when one of the kernels is first called there |
//! | `xclbin`, `awsxclbin`, `aocx` | a program binary, made by a vendor's compiler |
//! | `clbin` | a program binary of one device and driver, made by [`compile`]; Apache TVM does not know this one |
//!
//! Buffers are passed to a kernel as `cl_mem`. A view that begins inside a buffer becomes a
//! sub-buffer for the launch, which must begin at a multiple of the device's
//! `CL_DEVICE_MEM_BASE_ADDR_ALIGN` (often 128 bytes); a view that does not must be copied first.
//! Dynamic shared memory is the memory of a `__local` pointer that comes after all other parameters
//! and is not in the function table: OpenCL does not have another form. A launch of `grid` and
//! `block` has `grid * block` work items, in groups of `block`.

mod code;
mod kernel;
mod program;

use std::sync::Arc;

use self::code::OpenClCode;
use self::program::Program;
use super::Module;
use super::device_image::DeviceImage;
use super::kinds::KindInfo;
use super::kinds::image_module::image_module;
use crate::abi::device_type;
use crate::function::Function;
use crate::value::{Bytes, Device};
use crate::{Error, Result, ensure};

/// Name of the kind.
const KIND: &str = "opencl";
/// Format of source.
const SOURCE_FORMAT: &str = "cl";
/// Format of the output of [`compile`].
const BINARY_FORMAT: &str = "clbin";
/// Formats of program binaries.
const BINARY_FORMATS: [&str; 4] = [BINARY_FORMAT, "xclbin", "awsxclbin", "aocx"];

/// The kind and the loader of its modules.
pub(super) const KIND_INFO: KindInfo = KindInfo { kind: KIND, loader: || Function::from_fn(load) };

/// Creates the module of an image.
#[inline]
fn load(payload: Bytes) -> Result<Module> {
    image_module(KIND, payload, |image| Ok(Arc::new(OpenClCode::new(image))))
}

/// Compiles an `opencl` module in format `cl` for a device: the result has the same kernels in
/// format `clbin`, and loads without a compiler on systems with the same device and driver. Other
/// systems cannot load it, so ship the source, too.
///
/// ```no_run
/// use kernpack::{Device, Module, module::opencl};
/// let library = Module::load("libfilters.so")?;
/// let [source] = &library.imports()[..] else { panic!() };
/// let compiled = opencl::compile(source, "opencl:0".parse::<Device>()?)?;
/// compiled.write_to_file("filters.clbin", "clbin")?;
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// # Errors
/// Returns a ValueError for a device or a module of another kind, and a RuntimeError with the
/// compiler's log if the code cannot be built.
#[inline]
pub fn compile(module: &Module, device: Device) -> Result<Module> {
    ensure!(
        device.device_type() == device_type::OPENCL,
        ValueError,
        "an opencl module cannot be compiled for {device}"
    );
    let kind = module.kind();
    ensure!(
        kind == KIND,
        ValueError,
        "only modules of kind 'opencl' can be compiled for {device}, this is one of kind '{kind}'"
    );
    let payload = module.save_to_bytes()?;
    let image = DeviceImage::parse(&payload).map_err(|error| Error::runtime_error(error.to_string()))?;
    let format = image.format();
    ensure!(
        format == SOURCE_FORMAT,
        ValueError,
        "the module is in format '{format}'; only source, 'cl', can be compiled"
    );
    let binary = Program::build(device.index(), format, image.code())?.binary()?;
    load(Bytes::from(DeviceImage::new(BINARY_FORMAT, image.kernels().to_vec(), &binary).to_vec()))
}
