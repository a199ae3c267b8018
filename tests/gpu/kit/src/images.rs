//! The images of the kit: one for several architectures, one with only PTX, a compressed one, and
//! one for another architecture only. Each file is the payload of a module, as in a library.

use std::path::Path;
use std::time::Instant;

use kernpack::module::device_image::DeviceImage;
use kernpack::module::zstd;
use kernpack::{Bytes, DataType, Function, Module, Tensor, module};

use crate::numbers::{Numbers, close, here};
use crate::{GPU, Result, library, measured};

/// The image that does not run on any GPU from Ampere on.
pub(crate) const WRONG_ARCHITECTURE: &str = "wrong-architecture.image";
const COMPRESSED: &str = "compressed.image";

/// Sizes of the matrix product that tests an image.
const SIZES: (i64, i64, i64) = (65, 33, 130);

/// Writes the images: the library's own image of matrix products, and ones with the same kernels
/// and other code.
pub(crate) fn pack(folder: &str, ptx: &str, cubin: &str) -> Result {
    let is_product =
        |module: &Module| module.kind() == "cuda" && module.function_names().iter().any(|name| *name == "matmul_tiled");
    let library = library("gpu_kernels.so")?;
    let image = library.imports().into_iter().find(is_product);
    let image = image.ok_or("gpu_kernels.so has no CUDA image: it was built without nvcc")?;
    let payload: Bytes = image.save_to_bytes()?;
    let parsed = DeviceImage::parse(&payload)?;
    let (ptx, cubin) = (std::fs::read(ptx)?, std::fs::read(cubin)?);
    let folder = Path::new(folder);
    let compressed = zstd::compress("cuda", &payload);
    for (name, bytes) in [
        ("several-architectures.image", payload.to_vec()),
        ("ptx.image", DeviceImage::new("ptx", parsed.kernels().to_vec(), &ptx).to_vec()),
        (COMPRESSED, compressed),
        (WRONG_ARCHITECTURE, DeviceImage::new("cubin", parsed.kernels().to_vec(), &cubin).to_vec()),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, &bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// The module of an image's file.
pub(crate) fn module(file: &str) -> Result<Module> {
    let bytes = std::fs::read(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    let kind = if file.ends_with(COMPRESSED) { zstd::KIND } else { "cuda" };
    module::enable("cuda")?;
    module::enable(zstd::KIND)?;
    Ok(Function::global(&format!("ffi.Module.load_from_bytes.{kind}"))?.call_as((Bytes::from(bytes),))?)
}

/// A product of matrices by the image's kernel: the inputs and the result.
pub(crate) fn product(module: &Module) -> kernpack::Result<[Tensor; 3]> {
    let (m, n, k) = SIZES;
    let mut numbers = Numbers::new(5);
    let a = Tensor::from_vec(numbers.reals(m * k), &[m, k])?;
    let b = Tensor::from_vec(numbers.reals(k * n), &[k, n])?;
    let c = Tensor::empty(DataType::FLOAT32, &[m, n], GPU)?;
    let (a_there, b_there) = (a.to(GPU)?, b.to(GPU)?);
    let grid = ((n as u32).div_ceil(16), (m as u32).div_ceil(16));
    module.kernel("matmul_tiled")?.launch(grid, (16, 16), (&a_there, &b_there, &c, m, n, k))?;
    gpu_kernels::synchronize(GPU)?;
    Ok([a, b, c])
}

/// Loads an image and launches its kernel twice: the first time includes loading, or the driver's
/// compiler.
pub(crate) fn run(file: &str) -> Result {
    // Creates the context first, so that its time is not counted.
    let start = Instant::now();
    Tensor::zeros::<f32>(&[1])?.to(GPU)?;
    measured("context", start.elapsed().as_secs_f64() * 1e3, "ms");
    let start = Instant::now();
    let module = module(file)?;
    measured("read", start.elapsed().as_secs_f64() * 1e3, "ms");
    let start = Instant::now();
    let [a, b, c] = product(&module)?;
    measured("first_launch", start.elapsed().as_secs_f64() * 1e3, "ms");
    let start = Instant::now();
    product(&module)?;
    measured("second_launch", start.elapsed().as_secs_f64() * 1e3, "ms");
    let expected = gpu_kernels::matmul_on_cpu(a.view()?, b.view()?)?;
    close("matmul_tiled", &here::<f32>(&c)?, &here::<f32>(&expected)?, 1e-4)?;
    Ok(())
}
