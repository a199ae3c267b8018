//! Loaders of device images: what restores a module of some kind from the bytes in a library's import tree.

use super::device_module;
use crate::Result;
use crate::function::Function;
use crate::registration::KERNPACK_LOADERS_V1;

/// A loader that this artifact brings, because it carries images of the kind.
pub struct LoaderInfo {
    /// Kind of module.
    pub kind: &'static str,
    /// Makes the function that turns bytes into a module.
    pub loader: fn() -> Function,
}

/// Registers this artifact's loaders; a kind that has one in this process keeps it.
pub(crate) fn register_loaders() -> Result<()> {
    for info in KERNPACK_LOADERS_V1 {
        register(info.kind, info.loader)?;
    }
    Ok(())
}

fn register(kind: &str, loader: fn() -> Function) -> Result<()> {
    let name = format!("ffi.Module.load_from_bytes.{kind}");
    if Function::get_global(&name)?.is_none() {
        Function::register_global(&name, &loader())?;
    }
    Ok(())
}

/// Makes the loader of CUDA images.
pub fn cuda_loader() -> Function {
    device_module::loader(c"cuda")
}

/// Lets this process load CUDA images, also from libraries that bring no loader, such as those that Apache TVM exports.
/// A library of ours that carries such images does it by itself.
///
/// # Errors
/// What the host reports.
pub fn enable_cuda() -> Result<()> {
    register("cuda", cuda_loader)
}
