//! Modules for devices: kernels as an image of their source, and the functions that launch them as
//! machine code of the host.

use kernpack::Module;
use kernpack::module::device_image::DeviceImage;

use crate::codegen::Target;
use crate::codegen::source::{Kernel, OPENCL, Vocabulary, source};
use crate::error::{Result, fail};
use crate::ir::{FuncKind, IrModule};
use crate::pass::PassContext;
use crate::pass::host_half::{host_half, host_versions};
use crate::pass::lower_builtin::LINKED_CALLS;
use crate::pass::make_packed_api::make_packed_api;
use crate::pass::versions::{version_symbol, with_versions};

use super::{IntoIrModule, build};

/// A kind of device that modules are built for.
struct Device {
    /// The kind of targets and of modules.
    kind: &'static str,
    /// The number in DLPack.
    device_type: i64,
    /// The format of the image.
    format: &'static str,
    words: &'static Vocabulary,
}

/// The kinds of devices.
static DEVICES: &[Device] = &[Device { kind: "opencl", device_type: 4, format: "cl", words: &OPENCL }];

impl Device {
    fn find(kind: &str) -> Result<&'static Self> {
        match DEVICES.iter().find(|device| device.kind == kind) {
            Some(device) => Ok(device),
            None => fail!(Target, "no source of kernels is generated for targets of kind `{kind}`, only for `opencl`"),
        }
    }
}

/// Compiles functions and their kernels to a module of kind `llvm`, whose functions take tensors on
/// a device and launch the kernels, which are in a module of the device that it imports. Kernels
/// without functions are a module of the device.
///
/// The kind of the target is that of the device, `opencl`; its other options describe the CPU of
/// the host, whose baseline is the default.
///
/// # Errors
/// Returns an error for a kind of device that is not known, for kernels that its language does not
/// have, and for a process that cannot make modules of the kind (kernpack's Cargo feature
/// `opencl`).
pub fn build_device(program: impl IntoIrModule, target: &Target) -> Result<Module> {
    let program = program.into_ir_module();
    let device = Device::find(&target.kind)?;
    let kernels = kernels(device, &program)?;
    if program.functions.iter().all(|function| function.kind == FuncKind::Device) {
        return Ok(kernels);
    }
    let host = Target { kind: "llvm".to_owned(), ..target.clone() };
    let module = build(host_half(&program, device.device_type)?, &host)?;
    module.import(&kernels)?;
    Ok(module)
}

/// The module of the kernels.
fn kernels(device: &Device, program: &IrModule) -> Result<Module> {
    let (code, kernels) = source(device.words, program)?;
    if kernels.is_empty() {
        fail!(
            Target,
            "no function has a kernel for {}: bind loops to threads, and lower with the pipeline for devices",
            device.kind
        )
    }
    let entries = kernels.iter().map(|kernel| kernel.entry()).collect();
    Ok(Module::from_image(device.kind, &DeviceImage::new(device.format, entries, code.as_bytes()))?)
}

/// The version of a function for a device, which becomes a part of a library.
pub struct DeviceVersion {
    /// The functions of the host, whose symbols are those that the version for CPUs calls.
    pub host: IrModule,
    /// The source of the kernels; empty if there are none.
    pub code: String,
    /// The format of the source in an image: `cl`.
    pub format: &'static str,
    /// The kernels.
    pub kernels: Vec<Kernel>,
}

/// Returns the version of functions for a kind of device. `program` is lowered with the pipeline
/// for devices.
///
/// The attribute `versions` of the functions lists the kinds of devices that there are versions
/// for. `calls` is the prefix of the C symbols that launch the kernels; the symbol of
/// `__tvm_set_device`, which sets the device of the launches, has it, too.
///
/// # Errors
/// Returns an error for a kind of device that is not known, and for kernels that its language does
/// not have.
pub fn device_version(program: &IrModule, kind: &str, versions: &[String], calls: &str) -> Result<DeviceVersion> {
    let device = Device::find(kind)?;
    let (code, kernels) = source(device.words, program)?;
    let code = if kernels.is_empty() { String::new() } else { code };
    let mut functions = Vec::new();
    for function in host_versions(program, device.device_type)?.functions.iter() {
        let symbol = version_symbol(kind, function.name.as_str());
        let function = with_versions(&function, versions).with_attr(LINKED_CALLS, calls);
        let packed = make_packed_api(&function.with_attr("global_symbol", symbol), &PassContext::default())?;
        functions.push(packed);
    }
    Ok(DeviceVersion { host: IrModule::new(functions), code, format: device.format, kernels })
}
