//! The images of the kit: PTX and machine code of the kernels of `matmul.cu` for another
//! architecture, packed by the kit's own program.

use crate::Result;
use crate::environment::Environment;
use crate::step::{self, Show};
use crate::workspace::find_on_path;
use std::env;
use std::path::{Path, PathBuf};

/// An architecture whose code does not run on GPUs from Ampere on.
const OTHER_ARCHITECTURE: &str = "75";

/// Makes the images in `images` of the kit's folder.
pub(super) fn make(environment: &Environment, kit: &Path) -> Result {
    let bin = toolkit(environment)?;
    let work = environment.workspace.folder("gpu-kit-work")?;
    let source = environment.workspace.root().join("tests/gpu/kernels/matmul.cu");
    let (ptx, cubin) = (work.join("matmul.ptx"), work.join("matmul.cubin"));
    let mut nvcc = environment.command(&bin.join("nvcc"));
    nvcc.args(["--ptx", &format!("-arch=compute_{OTHER_ARCHITECTURE}"), "-o"]).arg(&ptx).arg(&source);
    step::run("compile matmul.cu to PTX", &mut nvcc, Show::Warnings)?;
    let mut ptxas = environment.command(&bin.join("ptxas"));
    ptxas.arg(format!("-arch=sm_{OTHER_ARCHITECTURE}")).arg(&ptx).arg("-o").arg(&cubin);
    step::run("assemble it for another architecture", &mut ptxas, Show::Warnings)?;
    let mut pack = environment.command(&kit.join("bin/gpu-kit"));
    pack.arg("pack").arg(kit.join("images")).arg(&ptx).arg(&cubin);
    step::run("pack the images", &mut pack, Show::Warnings)?;
    Ok(())
}

/// The folder with nvcc and ptxas.
fn toolkit(environment: &Environment) -> Result<PathBuf> {
    if let Some(home) = environment.cuda_home() {
        return Ok(home.join("bin"));
    }
    let nvcc = env::var_os("NVCC").map(PathBuf::from).or_else(|| find_on_path("nvcc"));
    let folder = nvcc.and_then(|nvcc| nvcc.canonicalize().ok()).and_then(|nvcc| nvcc.parent().map(Path::to_owned));
    match folder {
        Some(folder) if folder.join("ptxas").is_file() => Ok(folder),
        _ => Err("gpu-kit: the images need nvcc and ptxas of one CUDA toolkit: set CUDA_HOME to its folder".into()),
    }
}
