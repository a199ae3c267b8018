//! Requirements of blocks that a machine may lack.

use super::Result;
use crate::apache_tvm;
use crate::environment::Environment;
use crate::workspace::find_on_path;
use std::path::Path;

/// The reason why this machine cannot run a block that needs `what`; `None` if it can.
///
/// # Errors
/// An unknown requirement.
pub(crate) fn lacks(environment: &Environment, what: &str) -> Result<Option<String>> {
    let program = |name: &str| find_on_path(name).is_none().then(|| format!("there is no {name} on PATH"));
    Ok(match what {
        // The driver's device file: querying the driver itself would load it.
        "gpu" => (!Path::new("/dev/nvidiactl").exists()).then(|| "there is no NVIDIA GPU".to_string()),
        "nvcc" => environment.cuda_missing().map(str::to_string),
        "opencl" => environment.opencl_missing().map(str::to_string),
        "apache-tvm" => apache_tvm::interpreter(&environment.workspace).err().map(|error| error.to_string()),
        "magika" => environment.magika().err().map(|error| error.to_string()),
        "clang" | "ray" => program(what),
        "qemu-aarch64" => program(what).filter(|_| find_on_path("qemu-aarch64-static").is_none()),
        "aarch64-gcc" => program("aarch64-linux-gnu-gcc"),
        _ => {
            return Err(format!(
                "no page needs '{what}'; needs are gpu, nvcc, opencl, apache-tvm, magika, clang, ray, qemu-aarch64, aarch64-gcc"
            )
            .into());
        }
    })
}
