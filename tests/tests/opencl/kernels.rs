//! Launches of OpenCL kernels, and what is said when one does not fit.

use kernpack::abi::device_type;
use kernpack::device::{self, DeviceAttribute, Stream};
use kernpack::module::LaunchConfig;
use kernpack::module::device_image::{ArgType, DYNAMIC_SHARED_MEMORY, DeviceFunction, DeviceImage};
use kernpack::{DataType, Device, Module, Tensor};

use crate::machine;

const SOURCE: &str = r#"
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

__kernel void fill(__global float* out, float value, int n) {
    size_t i = get_global_id(0);
    if (i < n) out[i] = value;
}

__kernel void scale(__global float* out, __global const float* in, float factor, int n) {
    size_t i = get_global_id(0);
    if (i < n) out[i] = factor * in[i];
}

__kernel void numbers(__global double* out, char a, uchar b, short c, ushort d, int e, uint f, long g, ulong h, float i, double j) {
    double all[10] = {a, b, c, d, e, f, g, h, i, j};
    for (int k = 0; k < 10; ++k) out[k] = all[k];
}

__kernel void where(__global int* out) {
    size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    size_t at = (z * get_global_size(1) + y) * get_global_size(0) + x;
    out[at] = (int)(get_group_id(0) + 10 * get_group_id(1) + 100 * get_group_id(2) + 1000 * get_local_size(0));
}

__kernel void matmul(__global float* c, __global const float* a, __global const float* b, int m, int n, int k) {
    size_t row = get_global_id(1), column = get_global_id(0);
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

// One work group for each row; its size is a power of two.
__kernel void softmax(__global float* out, __global const float* in, int columns, __local float* shared) {
    size_t row = get_group_id(0), me = get_local_id(0), size = get_local_size(0);
    __global const float* from = in + row * columns;
    __global float* to = out + row * columns;
    float most = -INFINITY;
    for (int i = me; i < columns; i += size) most = fmax(most, from[i]);
    shared[me] = most;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t half = size / 2; half > 0; half /= 2) {
        if (me < half) shared[me] = fmax(shared[me], shared[me + half]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    most = shared[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0;
    for (int i = me; i < columns; i += size) sum += exp(from[i] - most);
    shared[me] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t half = size / 2; half > 0; half /= 2) {
        if (me < half) shared[me] += shared[me + half];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = me; i < columns; i += size) to[i] = exp(from[i] - most) / shared[0];
}

__kernel __attribute__((reqd_work_group_size(8, 1, 1))) void eights(__global int* out) {
    out[get_global_id(0)] = 8;
}
"#;

/// The module of the kernels above.
pub(crate) fn module() -> Module {
    use ArgType as T;
    let p = T::POINTER;
    let int = |code, bits| T { code, bits, lanes: 1 };
    let numbers = vec![
        p,
        int(0, 8),
        int(1, 8),
        int(0, 16),
        int(1, 16),
        T::INT32,
        T::UINT32,
        T::INT64,
        T::UINT64,
        T::FLOAT32,
        T::FLOAT64,
    ];
    let kernels = vec![
        DeviceFunction::new("fill", vec![p, T::FLOAT32, T::INT32], false),
        DeviceFunction::new("scale", vec![p, p, T::FLOAT32, T::INT32], false),
        DeviceFunction::new("numbers", numbers, false),
        DeviceFunction::new("where", vec![p], false),
        DeviceFunction::new("matmul", vec![p, p, p, T::INT32, T::INT32, T::INT32], false),
        DeviceFunction::new("softmax", vec![p, p, T::INT32], true),
        DeviceFunction::new("eights", vec![p], false),
    ];
    Module::from_image("opencl", &DeviceImage::new("cl", kernels, SOURCE.as_bytes())).unwrap()
}

fn random(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    })
    .take(len)
    .collect()
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.to(Device::CPU).unwrap().view::<f32>().unwrap().to_vec()
}

fn assert_near(ours: &[f32], expected: impl Iterator<Item = f64>, tolerance: f64) {
    for (position, (ours, expected)) in ours.iter().zip(expected).enumerate() {
        assert!((f64::from(*ours) - expected).abs() <= tolerance, "{position}: {ours} instead of {expected}");
    }
}

#[test]
fn a_matrix_product_is_that_of_the_cpu() {
    let Some(devices) = machine::devices() else { return };
    let (m, n, k) = (37usize, 53, 41);
    let (a, b) = (random(m * k, 1), random(k * n, 2));
    let matmul = module().kernel("matmul").unwrap();
    for device in devices {
        let there = |values: &[f32], shape: &[i64]| Tensor::from_slice(values, shape).unwrap().to(device).unwrap();
        let (x, y) = (there(&a, &[m as i64, k as i64]), there(&b, &[k as i64, n as i64]));
        let c = Tensor::empty(DataType::FLOAT32, &[m as i64, n as i64], device).unwrap();
        let grid = (n.div_ceil(16) as u32, m.div_ceil(4) as u32);
        matmul.launch(grid, (16, 4), (&c, &x, &y, m as i64, n as i64, k as i64)).unwrap();
        let expected = (0..m * n).map(|at| {
            let (row, column) = (at / n, at % n);
            (0..k).map(|i| f64::from(a[row * k + i]) * f64::from(b[i * n + column])).sum()
        });
        assert_near(&floats(&c), expected, 1e-5);
    }
}

#[test]
fn a_softmax_in_local_memory_is_that_of_the_cpu() {
    let Some(devices) = machine::devices() else { return };
    let (rows, columns) = (19usize, 1000);
    let values: Vec<f32> = random(rows * columns, 3).iter().map(|value| value * 20.0).collect();
    let softmax = module().kernel("softmax").unwrap();
    for device in devices {
        let shape = [rows as i64, columns as i64];
        let input = Tensor::from_slice(&values, &shape).unwrap().to(device).unwrap();
        let out = Tensor::empty(DataType::FLOAT32, &shape, device).unwrap();
        let config = LaunchConfig { dynamic_shared_memory: 64 * 4, ..LaunchConfig::new(rows as u32, 64) };
        softmax.launch_with(&config, (&out, &input, columns as i64)).unwrap();
        let expected = values.chunks(columns).flat_map(|row| {
            let most = row.iter().copied().fold(f32::MIN, f32::max);
            let powers: Vec<f64> = row.iter().map(|value| f64::from(value - most).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.into_iter().map(move |power| power / sum)
        });
        assert_near(&floats(&out), expected, 1e-6);
    }
}

#[test]
fn numbers_of_every_type_arrive() {
    let Some(device) = machine::first() else { return };
    let numbers = module().function("numbers").unwrap();
    let out = Tensor::empty(DataType::FLOAT64, &[10], device).unwrap();
    let args = (&out, -128i64, 255i64, -32768i64, 65535i64, i64::from(i32::MIN), i64::from(u32::MAX), -(1i64 << 50));
    let launch = kernpack::Function::from_fn({
        let numbers = numbers.clone();
        move |h: i64, i: f64, j: f64, out: Tensor| numbers.call_as::<()>((&out, args.1, args.2, args.3, args.4, args.5, args.6, args.7, h, i, j, (1i64, 1i64, 1i64, 1i64, 1i64, 1i64)))
    });
    let _ = launch;
    let views: Vec<kernpack::Any> = vec![out.clone().into(), args.1.into(), args.2.into(), args.3.into(), args.4.into(), args.5.into(), args.6.into(), args.7.into(), (1i64 << 51).into(), 0.25f64.into(), (-1e300f64).into()];
    let views = views.iter().map(kernpack::Any::as_view).copied().collect::<Vec<_>>();
    let _ = views;
}
