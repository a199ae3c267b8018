//! Launches of OpenCL kernels, and the messages for wrong arguments.

use kernpack::device::{self, DeviceAttribute, Stream};
use kernpack::module::LaunchConfig;
use kernpack::module::device_image::{ArgType, DYNAMIC_SHARED_MEMORY, DeviceFunction, DeviceImage};
use kernpack::{Any, DataType, Device, Module, Tensor};

use super::machine;

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
    for (size_t step = size / 2; step > 0; step /= 2) {
        if (me < step) shared[me] = fmax(shared[me], shared[me + step]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    most = shared[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0;
    for (int i = me; i < columns; i += size) sum += exp(from[i] - most);
    shared[me] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t step = size / 2; step > 0; step /= 2) {
        if (me < step) shared[me] += shared[me + step];
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
    let args: [Any; 17] = [
        out.clone().into(),
        (-128i64).into(),
        255i64.into(),
        (-32768i64).into(),
        65535i64.into(),
        i64::from(i32::MIN).into(),
        i64::from(u32::MAX).into(),
        (-1i64 << 50).into(),
        (1i64 << 51).into(),
        0.25f64.into(),
        (-1e300f64).into(),
        1i64.into(),
        1i64.into(),
        1i64.into(),
        1i64.into(),
        1i64.into(),
        1i64.into(),
    ];
    numbers.call(&args[..]).unwrap();
    let expected = [
        -128.0,
        255.0,
        -32768.0,
        65535.0,
        i32::MIN.into(),
        u32::MAX.into(),
        -(2f64.powi(50)),
        2f64.powi(51),
        0.25,
        -1e300,
    ];
    assert_eq!(out.to(Device::CPU).unwrap().view::<f64>().unwrap().to_vec(), expected);
}

#[test]
fn grids_and_blocks_are_those_of_the_launch() {
    let Some(device) = machine::first() else { return };
    let out = Tensor::empty(DataType::INT32, &[2, 3, 8], device).unwrap();
    module().kernel("where").unwrap().launch((2, 3, 2), (4, 1, 1), (&out,)).unwrap();
    let found = out.to(Device::CPU).unwrap().view::<i32>().unwrap().to_vec();
    let expected = (0..48).map(|at| 4000 + (at % 8) / 4 + 10 * ((at / 8) % 3) + 100 * (at / 24));
    assert_eq!(found, expected.collect::<Vec<i32>>());
}

#[test]
fn views_begin_where_the_device_allows() {
    let Some(device) = machine::first() else { return };
    let values: Vec<f32> = (0..256).map(|value| value as f32).collect();
    let whole = Tensor::from_slice(&values, &[8, 32]).unwrap().to(device).unwrap();
    let scale = module().kernel("scale").unwrap();
    let out = Tensor::empty(DataType::FLOAT32, &[32], device).unwrap();
    // PoCL: 128 bytes, a row of 32 floats. Other devices may require more.
    let last = whole.slice(7..8).unwrap();
    let outcome = scale.launch(1, 32, (&out, &last, 2.0, 32));
    if outcome.is_ok() {
        assert_eq!(floats(&out), values[224..].iter().map(|value| value * 2.0).collect::<Vec<f32>>());
    }
    // A view as the target: the elements before it do not change.
    let part = whole.slice(4..8).unwrap();
    let parts = scale.launch(1, 32, (&part, &last, 10.0, 32));
    if parts.is_ok() {
        let found = floats(&whole);
        assert_eq!(found[..128], values[..128]);
        assert_eq!(found[128..160], values[224..].iter().map(|value| value * 10.0).collect::<Vec<f32>>());
    }
    let odd = whole.view_as(&[32], DataType::FLOAT32, 4).unwrap();
    let error = scale.launch(1, 32, (&out, &odd, 2.0, 32)).unwrap_err();
    let start = "opencl kernel 'scale': argument 1 begins 4 bytes into its buffer, but this device's kernels can only be given what \
                 begins at a multiple of ";
    let end = " bytes; copy the view into a tensor of its own; launched on opencl:0 with grid [1, 1, 1], block [32, 1, 1] and 0 \
               bytes of dynamic shared memory";
    assert_eq!(error.kind(), "ValueError");
    assert!(error.message().starts_with(start) && error.message().ends_with(end), "{error}");
    scale.launch(1, 32, (&out, &odd.to(device).unwrap(), 2.0, 32)).unwrap();
    assert_eq!(floats(&out)[..2], [2.0, 4.0]);
}

#[test]
fn what_does_not_fit_is_said() {
    let Some(device) = machine::first() else { return };
    let number = |attribute| device::attribute(device, attribute).unwrap().to::<i64>().unwrap();
    let (items, local) =
        (number(DeviceAttribute::MaxThreadsPerBlock), number(DeviceAttribute::MaxSharedMemoryPerBlock));
    let module = module();
    let out = Tensor::empty(DataType::FLOAT32, &[16], device).unwrap();
    let [fill, softmax, eights] = ["fill", "softmax", "eights"].map(|name| module.kernel(name).unwrap());
    let config =
        |bytes: i64, block: u32| LaunchConfig { dynamic_shared_memory: bytes as u32, ..LaunchConfig::new(2, block) };
    let launched = |grid: &str, block: i64, bytes: i64| {
        format!(
            "; launched on opencl:0 with grid [{grid}], block [{block}, 1, 1] and {bytes} bytes of dynamic shared memory"
        )
    };
    let too_many = fill.launch_with(&config(0, items as u32 + 1), (&out, 1.0, 16)).unwrap_err();
    assert_eq!(
        too_many.to_string(),
        format!(
            "ValueError: opencl kernel 'fill': a work group of {} work items is too large; the kernel runs with at most {items} on \
             this device{}",
            items + 1,
            launched("2, 1, 1", items + 1, 0)
        )
    );
    let no_local = softmax.launch_with(&config(0, 8), (&out, &out, 8)).unwrap_err();
    assert_eq!(
        no_local.to_string(),
        format!(
            "ValueError: opencl kernel 'softmax': the kernel has a parameter after those of the function table, which is for local \
             memory; launch it with dynamic shared memory{}",
            launched("2, 1, 1", 8, 0)
        )
    );
    let much_local = softmax.launch_with(&config(local + 8, 8), (&out, &out, 8)).unwrap_err();
    let start = format!("ValueError: opencl kernel 'softmax': the kernel needs {}", local + 8);
    assert!(much_local.to_string().starts_with(&start), "{much_local}");
    assert!(
        much_local.message().contains(&format!("bytes of local memory; this device has {local}; launched on")),
        "{much_local}"
    );
    let sixteen = eights.launch(1, 16, (&out,)).unwrap_err();
    assert_eq!(
        sixteen.to_string(),
        format!(
            "ValueError: opencl kernel 'eights': the kernel only runs with the block [8, 1, 1], as its reqd_work_group_size \
             says{}",
            launched("1, 1, 1", 16, 0)
        )
    );
    eights.launch(2, 8, (&out,)).unwrap();
    let on_cpu = Tensor::zeros::<f32>(&[16]).unwrap();
    let wrong = fill.launch(1, 16, (&on_cpu, 1.0, 16)).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "ValueError: opencl kernel 'fill': argument 0: expected a tensor on opencl, got one on cpu:0; copy it there \
             first: tensor.to(device) in Rust, kernpack.tensor.to(tensor, device) elsewhere"
    );
}

#[test]
fn code_that_does_not_build_shows_what_the_compiler_says() {
    let Some(device) = machine::first() else { return };
    let name = device::attribute(device, DeviceAttribute::DeviceName).unwrap().to::<String>().unwrap();
    let kernels = vec![DeviceFunction::new("broken", vec![ArgType::POINTER], false)];
    let source = b"__kernel void broken(__global int* out) { out[0] = nothing_of_this_name; }";
    let broken = Module::from_image("opencl", &DeviceImage::new("cl", kernels.clone(), source)).unwrap();
    let out = Tensor::empty(DataType::INT32, &[1], device).unwrap();
    let error = broken.kernel("broken").unwrap().launch(1, 1, (&out,)).unwrap_err();
    let start = format!(
        "RuntimeError: opencl kernel 'broken': the code cannot be built for opencl:0 ({name}): CL_BUILD_PROGRAM_FAILURE (-11); its \
         compiler says:\n"
    );
    assert!(error.to_string().starts_with(&start), "{error}");
    assert!(error.message().contains("nothing_of_this_name"), "{error}");

    let source = b"__kernel void other(__global int* out) {}";
    let other = Module::from_image("opencl", &DeviceImage::new("cl", kernels.clone(), source)).unwrap();
    let error = other.kernel("broken").unwrap().launch(1, 1, (&out,)).unwrap_err();
    assert!(
        error
            .message()
            .starts_with("opencl kernel 'broken': the code has no such kernel: CL_INVALID_KERNEL_NAME (-46); launched"),
        "{error}"
    );

    let source = b"__kernel void broken(__global int* out, int a, int b) {}";
    let longer = Module::from_image("opencl", &DeviceImage::new("cl", kernels, source)).unwrap();
    let error = longer.kernel("broken").unwrap().launch(1, 1, (&out,)).unwrap_err();
    assert!(
        error.message().starts_with(
            "opencl kernel 'broken': the kernel in the code takes 3 arguments, the function table names 1; launched"
        ),
        "{error}"
    );
}

#[test]
fn kernels_of_two_devices_are_not_mixed() {
    let Some([first, second]) = machine::two() else { return };
    let tensor = |device| Tensor::empty(DataType::FLOAT32, &[4], device).unwrap();
    let error = module().kernel("scale").unwrap().launch(1, 4, (&tensor(first), &tensor(second), 1.0, 4)).unwrap_err();
    assert_eq!(
        error.message(),
        "opencl kernel 'scale': argument 1: the tensor is on opencl:1, but one before it is on opencl:0; \
         a launch is on one device"
    );
}

#[test]
fn many_threads_launch_one_kernel_on_every_device() {
    let Some(devices) = machine::devices() else { return };
    // One module, not used before: all threads request its program at once.
    let module = module();
    let (fill, scale) = (module.kernel("fill").unwrap(), module.kernel("scale").unwrap());
    std::thread::scope(|threads| {
        for thread in 0..8usize {
            let (fill, scale, device) = (&fill, &scale, devices[thread % devices.len()]);
            threads.spawn(move || {
                let stream = Stream::new(device).unwrap();
                stream.scope(|| {
                    for round in 0..40 {
                        let tensor = || Tensor::empty(DataType::FLOAT32, &[64], device).unwrap();
                        let (one, other) = (tensor(), tensor());
                        let value = (thread * 1000 + round) as f32;
                        fill.launch(2, 32, (&one, f64::from(value), 64)).unwrap();
                        scale.launch(2, 32, (&other, &one, 2.0, 64)).unwrap();
                        // The kernels may still be pending.
                        drop(one);
                        assert_eq!(floats(&other), [2.0 * value; 64]);
                    }
                });
            });
        }
    });
}

#[test]
fn shared_memory_needs_a_parameter() {
    let Some(device) = machine::first() else { return };
    let mut fill = DeviceFunction::new("fill", vec![ArgType::POINTER, ArgType::FLOAT32, ArgType::INT32], true);
    assert_eq!(fill.launch_params.pop(), Some(DYNAMIC_SHARED_MEMORY));
    fill.launch_params = vec!["blockIdx.x", "threadIdx.x", DYNAMIC_SHARED_MEMORY];
    let module = Module::from_image("opencl", &DeviceImage::new("cl", vec![fill], SOURCE.as_bytes())).unwrap();
    let out = Tensor::empty(DataType::FLOAT32, &[16], device).unwrap();
    let fill = module.function("fill").unwrap();
    fill.call((&out, 3.0, 16, 1, 16, 0)).unwrap();
    assert_eq!(floats(&out), [3.0; 16]);
    let error = fill.call((&out, 3.0, 16, 1, 16, 64)).unwrap_err();
    assert_eq!(
        error.message(),
        "opencl kernel 'fill': the kernel has no __local parameter after the others, which is what OpenCL gives 64 bytes of dynamic \
         shared memory to; launched on opencl:0 with grid [1, 1, 1], block [16, 1, 1] and 64 bytes of dynamic shared memory"
    );
}
