//! Modules for devices: kernels as an image of their source, and the functions that launch them as
//! machine code of the host.

use kernpack::Module;
use kernpack::module::device_image::DeviceImage;

use crate::codegen::Target;
use crate::codegen::source::{OPENCL, Vocabulary, source};
use crate::error::{Result, fail};
use crate::ir::{FuncKind, IrModule};
use crate::pass::host_half::host_half;

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
    let Some(device) = DEVICES.iter().find(|device| device.kind == target.kind) else {
        fail!(Target, "no source of kernels is generated for targets of kind `{}`, only for `opencl`", target.kind)
    };
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
