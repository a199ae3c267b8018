//! CUDA kernels, packed functions that launch them, and CPU implementations for comparison.
//!
//! Matrices are tensors `float32[rows, columns]`, contiguous, on one CUDA device. A function that
//! takes them puts its work into the current stream and does not wait for it.

use kernpack::module::LaunchConfig;
use kernpack::{DataType, Device, Result, Tensor, TensorView, ensure, packed_func};

kernpack::library!();

/// Rows and columns of a matrix.
fn matrix(name: &str, tensor: &Tensor) -> Result<(u32, u32)> {
    let (dtype, shape) = (tensor.dtype(), tensor.shape());
    ensure!(dtype == DataType::FLOAT32, TypeError, "{name}: expected float32, got {dtype}");
    let &[rows, columns] = shape else { kernpack::bail!(ValueError, "{name}: expected a matrix, got shape {shape:?}") };
    match (i32::try_from(rows), i32::try_from(columns)) {
        (Ok(rows @ 1..), Ok(columns @ 1..)) => Ok((rows as u32, columns as u32)),
        _ => kernpack::bail!(ValueError, "{name}: expected from 1 to 2147483647 rows and columns, got shape {shape:?}"),
    }
}

/// m, n and k of `c = a b`.
fn sizes(a: &Tensor, b: &Tensor, c: &Tensor) -> Result<(u32, u32, u32)> {
    let ((m, k), (inner, n), result) = (matrix("a", a)?, matrix("b", b)?, matrix("c", c)?);
    ensure!(inner == k, ValueError, "a has {k} columns, but b has {inner} rows");
    ensure!(result == (m, n), ValueError, "c: expected shape ({m}, {n}), got {result:?}");
    Ok((m, n, k))
}

/// Matrix product `c = a b`, in tiles of 16 x 16 in static shared memory.
#[packed_func]
pub fn matmul(a: Tensor, b: Tensor, c: Tensor) -> Result<()> {
    let (m, n, k) = sizes(&a, &b, &c)?;
    kernels::matmul_tiled.launch((n.div_ceil(16), m.div_ceil(16)), (16, 16), (&a, &b, &c, m, n, k))
}

/// Matrix product `c = a b`, in tiles `depth` deep in dynamic shared memory: 256 bytes for each of
/// `depth`.
#[packed_func]
pub fn matmul_dynamic(a: Tensor, b: Tensor, c: Tensor, depth: u32) -> Result<()> {
    let (m, n, k) = sizes(&a, &b, &c)?;
    ensure!((1..=1 << 20).contains(&depth), ValueError, "expected a depth from 1 to 1048576, got {depth}");
    let config = LaunchConfig {
        dynamic_shared_memory: 256 * depth,
        ..LaunchConfig::new((n.div_ceil(32), m.div_ceil(32)), (32, 32))
    };
    kernels::matmul_dynamic_tiles.launch_with(&config, (&a, &b, &c, m, n, k, depth))
}

/// Softmax of each row of `x` into `y`.
#[packed_func]
pub fn softmax(x: Tensor, y: Tensor) -> Result<()> {
    let (rows, columns) = matrix("x", &x)?;
    ensure!(matrix("y", &y)? == (rows, columns), ValueError, "y: expected shape ({rows}, {columns})");
    kernels::softmax_rows.launch(rows, 256, (&x, &y, columns))
}

/// A contiguous tensor of float32, and its number of elements.
fn floats(name: &str, tensor: &Tensor) -> Result<i64> {
    let dtype = tensor.dtype();
    ensure!(dtype == DataType::FLOAT32, TypeError, "{name}: expected float32, got {dtype}");
    ensure!(tensor.is_contiguous(), ValueError, "{name}: expected a contiguous tensor");
    Ok(tensor.len() as i64)
}

/// Adds `alpha` times `x` to `y`, with one rounding for each element.
#[packed_func]
pub fn saxpy(y: Tensor, x: Tensor, alpha: f32) -> Result<()> {
    let count = floats("y", &y)?;
    ensure!(floats("x", &x)? == count, ValueError, "x has {} elements, but y has {count}", x.len());
    kernels::saxpy_values.launch((count as u32).div_ceil(256).max(1), 256, (&y, &x, alpha, count))
}

/// The transpose of a matrix `x` into `y`.
#[packed_func]
pub fn transpose(x: Tensor, y: Tensor) -> Result<()> {
    let (rows, columns) = matrix("x", &x)?;
    ensure!(matrix("y", &y)? == (columns, rows), ValueError, "y: expected shape ({columns}, {rows})");
    kernels::transpose_tiles.launch((columns.div_ceil(32), rows.div_ceil(32)), (32, 8), (&y, &x, rows, columns))
}

/// Keeps the current stream busy for so many cycles of the device's clock, then sets the first
/// element of `done`.
#[packed_func]
pub fn work_for(done: Tensor, value: f32, cycles: i64) -> Result<()> {
    ensure!(floats("done", &done)? > 0, ValueError, "done: expected at least one element");
    kernels::work_cycles.launch(1, 1, (&done, value, cycles))
}

/// Waits for the work in the current stream of a device.
#[packed_func]
pub fn synchronize(device: Device) -> Result<()> {
    let api = kernpack::device::api(device.device_type())?;
    // SAFETY: the current stream of the device is alive while it is current.
    unsafe { api.synchronize(device.index(), kernpack::device::current_stream(device)) }
}

/// The address of the current stream of a tensor's device, which would be used for a kernel now.
#[packed_func]
pub fn stream_for(tensor: Tensor) -> i64 {
    kernpack::device::current_stream(tensor.device()).0.addr() as i64
}

/// A copy of a tensor on a device.
#[packed_func]
pub fn copy_to(tensor: Tensor, device: Device) -> Result<Tensor> {
    tensor.to(device)
}

/// The number of CUDA devices.
///
/// # Errors
/// RuntimeError with the reason if there is no device.
#[packed_func]
pub fn cuda_device_count() -> Result<i32> {
    kernpack::device::api(kernpack::device::device_type::CUDA)?.device_count()
}

/// Matrix product on the CPU, in double precision.
///
/// # Errors
/// MemoryError.
#[packed_func]
pub fn matmul_on_cpu(a: TensorView<f32>, b: TensorView<f32>) -> Result<Tensor> {
    let (&[m, k], &[inner, n]) = (a.shape(), b.shape()) else {
        kernpack::bail!(ValueError, "expected two matrices, got shapes {:?} and {:?}", a.shape(), b.shape())
    };
    ensure!(inner == k, ValueError, "a has {k} columns, but b has {inner} rows");
    let (a, b) = (a.to_vec(), b.to_vec());
    let (rows, columns, depth) = (m as usize, n as usize, k as usize);
    let mut c = vec![0f32; rows * columns];
    for row in 0..rows {
        let mut sums = vec![0f64; columns];
        for inner in 0..depth {
            let factor = f64::from(a[row * depth + inner]);
            for (sum, value) in sums.iter_mut().zip(&b[inner * columns..]) {
                *sum += factor * f64::from(*value);
            }
        }
        for (target, sum) in c[row * columns..].iter_mut().zip(sums) {
            *target = sum as f32;
        }
    }
    Tensor::from_vec(c, &[m, n])
}

/// Softmax of each row on the CPU, in double precision.
///
/// # Errors
/// MemoryError.
#[packed_func]
pub fn softmax_on_cpu(x: TensorView<f32>) -> Result<Tensor> {
    let &[_, columns] = x.shape() else { kernpack::bail!(ValueError, "expected a matrix, got shape {:?}", x.shape()) };
    let mut values = x.to_vec();
    for row in values.chunks_mut(columns.max(1) as usize) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|value| f64::from(value - largest).exp()).sum();
        row.iter_mut().for_each(|value| *value = (f64::from(*value - largest).exp() / sum) as f32);
    }
    Tensor::from_vec(values, x.shape())
}
