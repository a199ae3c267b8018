//! The kernels that build.rs compiled, called from Rust.

use kernpack::device::device_type;
use kernpack::{DataType, Device, Result, Tensor, TensorView, ensure, packed_func};

use crate::gray::to_gray;
use crate::{image, kernels};

/// Edge strength of an RGB image: gray (Rust), blurred (C) and differentiated (LLVM IR).
///
/// `radius` of the blur is in pixels; the result is float32 of shape (height, width).
#[packed_func]
pub fn edges(rgb: TensorView<u8>, radius: i64) -> Result<Tensor> {
    let gray = to_gray(rgb)?;
    let smooth = Tensor::zeros::<f32>(gray.shape())?;
    kernels::typed::blur(&gray, &smooth, radius)?;
    let strength = gray; // Its pixels are no longer needed: the last step writes over them.
    kernels::typed::sobel(&smooth, &strength)?;
    Ok(strength)
}

/// Edge strength on a CUDA device: the kernel of `kernels/sobel.cu`, one thread per pixel.
///
/// `src` and `dst` are float32 of shape (height, width), contiguous, in the memory of one device.
#[packed_func]
pub fn sobel_on_cuda(src: Tensor, dst: Tensor) -> Result<()> {
    /// Threads of a block: columns, rows.
    const BLOCK: (u32, u32) = (32, 8);

    // Fails first if the image was not built: then all other errors are irrelevant.
    kernels::sobel_cuda.function()?;
    let (height, width) = image::size(src.shape())?;
    // The launch does not check these. It checks that both tensors are on one device.
    for (name, tensor) in [("src", &src), ("dst", &dst)] {
        let (dtype, shape) = (tensor.dtype(), tensor.shape());
        ensure!(dtype == DataType::FLOAT32, TypeError, "{name}: expected float32, got {dtype}");
        ensure!(shape == src.shape(), ValueError, "{name}: expected shape {:?}, got {shape:?}", src.shape());
        ensure!(tensor.is_contiguous(), ValueError, "{name}: expected a contiguous tensor");
    }
    if height == 0 || width == 0 {
        return Ok(());
    }
    let blocks = |pixels: i64, threads: u32| u32::try_from((pixels - 1) / i64::from(threads) + 1).unwrap_or(u32::MAX);
    let grid = (blocks(width, BLOCK.0), blocks(height, BLOCK.1));
    kernels::typed::sobel_cuda((grid, BLOCK), &src, &dst, extent(height)?, extent(width)?)
}

/// Edge strength on the first OpenCL device: the kernel of `kernels/sobel.cl`, one work item per
/// pixel.
///
/// `src` is float32 of shape (height, width), on any device. The result is on the same device as
/// `src`.
#[packed_func]
pub fn sobel_on_opencl(src: Tensor) -> Result<Tensor> {
    /// Work items of a group: columns, rows.
    const GROUP: (u32, u32) = (32, 8);

    let (height, width) = image::size(src.shape())?;
    ensure!(src.dtype() == DataType::FLOAT32, TypeError, "src: expected float32, got {}", src.dtype());
    let home = src.device();
    let device = if home.device_type() == device_type::OPENCL { home } else { Device::new(device_type::OPENCL, 0) };
    let src = src.to(device)?;
    let dst = Tensor::empty(DataType::FLOAT32, src.shape(), device)?;
    if height > 0 && width > 0 {
        let groups = |pixels: i64, items: u32| u32::try_from((pixels - 1) / i64::from(items) + 1).unwrap_or(u32::MAX);
        let grid = (groups(width, GROUP.0), groups(height, GROUP.1));
        kernels::typed::sobel_opencl((grid, GROUP), &src, &dst, extent(height)?, extent(width)?)?;
    }
    dst.to(home)
}

/// Converts an extent to the type that kernels take.
fn extent(pixels: i64) -> Result<i32> {
    i32::try_from(pixels).map_err(|_| kernpack::error!(ValueError, "{pixels} pixels in one direction are too many"))
}
