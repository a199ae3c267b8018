//! Tests that need a GPU: the library's kernels against the CPU, streams, memory that runs out,
//! several devices, many threads. Without a GPU each test reports so in one line.

mod library;

use kernpack::device::device_type;
use kernpack::device::{self, DeviceAttribute, Event, Stream};
use kernpack::module::device_image::{ArgType, DeviceFunction, DeviceImage};
use kernpack::{DataType, Device, Function, Module, Result, Tensor};
use kernpack_skip::{skip, skip_anywhere};

/// The first GPU; if there is none, prints the reason.
fn gpu() -> Option<Device> {
    match device::api(device_type::CUDA).and_then(|cuda| cuda.device_count()) {
        Ok(1..) => Some(Device::cuda(0)),
        outcome => {
            let why = outcome.map_or_else(|error| error.message().to_owned(), |_| "there is none".to_owned());
            skip_anywhere(format_args!("no GPU was found, so nothing was launched ({why})"));
            None
        }
    }
}

fn function(name: &str) -> Function {
    library::load().function(name).unwrap()
}

/// A matrix of numbers from -1 to 1 that depends only on the seed.
fn matrix(rows: i64, columns: i64, seed: u32) -> Tensor {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let values = (0..rows * columns).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    });
    Tensor::from_vec(values.collect(), &[rows, columns]).unwrap()
}

/// The largest difference between two tensors on any devices.
fn difference(first: &Tensor, second: &Tensor) -> f32 {
    let values = |tensor: &Tensor| tensor.to(Device::CPU).unwrap().view::<f32>().unwrap().to_vec();
    let (first, second) = (values(first), values(second));
    assert_eq!(first.len(), second.len());
    // NaN is a difference, too.
    first.iter().zip(&second).fold(0.0, |most, (a, b)| if (a - b).abs() <= most { most } else { (a - b).abs() })
}

const SIZES: [(i64, i64, i64); 6] =
    [(1, 1, 1), (16, 16, 16), (33, 17, 65), (128, 256, 64), (255, 1, 300), (301, 299, 307)];

/// The product on a device, by a function of the library.
fn product(kernel: &Function, device: Device, a: &Tensor, b: &Tensor, depth: Option<u32>) -> Result<Tensor> {
    let (a, b) = (a.to(device)?, b.to(device)?);
    let c = Tensor::empty(DataType::FLOAT32, &[a.shape()[0], b.shape()[1]], device)?;
    match depth {
        None => kernel.call((&a, &b, &c))?,
        Some(depth) => kernel.call((&a, &b, &c, depth))?,
    };
    c.to(Device::CPU)
}

#[test]
fn matrix_products_match_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let (tiled, dynamic, on_cpu) = (function("matmul"), function("matmul_dynamic"), function("matmul_on_cpu"));
    for (m, n, k) in SIZES {
        let (a, b) = (matrix(m, k, 1), matrix(k, n, 2));
        let expected: Tensor = on_cpu.call_as((&a, &b)).unwrap();
        assert!(difference(&product(&tiled, gpu, &a, &b, None).unwrap(), &expected) < 1e-4, "{m} x {k} by {k} x {n}");
        // 16 KiB, and 64 KiB: more than a kernel may use by default.
        for depth in [64, 256, 32] {
            let c = product(&dynamic, gpu, &a, &b, Some(depth)).unwrap();
            assert!(difference(&c, &expected) < 1e-4, "{m} x {k} by {k} x {n}, depth {depth}");
        }
    }
}

#[test]
fn softmax_matches_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let (softmax, on_cpu) = (function("softmax"), function("softmax_on_cpu"));
    for (rows, columns) in [(1, 1), (3, 255), (17, 256), (64, 1000), (5, 4097)] {
        let x = matrix(rows, columns, 3);
        let expected: Tensor = on_cpu.call_as((&x,)).unwrap();
        let there = x.to(gpu).unwrap();
        let y = Tensor::empty(DataType::FLOAT32, &[rows, columns], gpu).unwrap();
        softmax.call((&there, &y)).unwrap();
        assert!(difference(&y, &expected) < 1e-6, "{rows} x {columns}");
    }
}

#[test]
fn imagekits_kernel_matches_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let Some(path) = std::env::var_os("IMAGEKIT_LIBRARY") else {
        return skip("IMAGEKIT_LIBRARY does not say where libimagekit.so is (cargo xtask test --gpu does)");
    };
    let imagekit = Module::load(path).unwrap();
    for (height, width) in [(1, 1), (7, 33), (480, 641)] {
        let image = matrix(height, width, 4);
        let expected = Tensor::zeros::<f32>(&[height, width]).unwrap();
        imagekit.function("sobel").unwrap().call((&image, &expected)).unwrap();
        let (src, dst) = (image.to(gpu).unwrap(), Tensor::empty(DataType::FLOAT32, &[height, width], gpu).unwrap());
        imagekit.function("sobel_on_cuda").unwrap().call((&src, &dst)).unwrap();
        assert!(difference(&dst, &expected) < 1e-4, "{height} x {width}");
    }
}

#[test]
fn streams_order_work_and_events_measure_it() {
    let Some(gpu) = gpu() else { return };
    let matmul = function("matmul");
    let (a, b) = (matrix(512, 512, 5).to(gpu).unwrap(), matrix(512, 512, 6).to(gpu).unwrap());
    let buffers: Vec<Tensor> = (0..3).map(|_| Tensor::empty(DataType::FLOAT32, &[512, 512], gpu).unwrap()).collect();
    // Copies have finished before other streams read the memory.
    Stream::new(gpu).unwrap().synchronize().unwrap();
    let (first, second) = (Stream::new(gpu).unwrap(), Stream::new(gpu).unwrap());
    let (start, end) = (Event::new(gpu).unwrap(), Event::new(gpu).unwrap());
    first.record(&start).unwrap();
    first.scope(|| matmul.call((&a, &b, &buffers[0]))).unwrap();
    first.record(&end).unwrap();
    second.wait(&end).unwrap();
    second.scope(|| matmul.call((&buffers[0], &b, &buffers[1]))).unwrap();
    second.synchronize().unwrap();
    end.synchronize().unwrap();
    assert!(start.elapsed(&end).unwrap().as_nanos() > 0);
    matmul.call((&a, &b, &buffers[0])).unwrap();
    matmul.call((&buffers[0], &b, &buffers[2])).unwrap();
    assert_eq!(difference(&buffers[1], &buffers[2]), 0.0);
}

#[test]
fn memory_runs_out_and_comes_back() {
    let Some(gpu) = gpu() else { return };
    let total: i64 = device::attribute(gpu, DeviceAttribute::TotalGlobalMemory).unwrap().to().unwrap();
    let error = Tensor::empty(DataType::UINT8, &[total * 2], gpu).err().unwrap();
    assert_eq!(error.kind(), "MemoryError");
    assert!(error.message().contains("CUDA_ERROR_OUT_OF_MEMORY"), "{error}");
    let x = matrix(4, 5, 7);
    assert_eq!(difference(&x.to(gpu).unwrap(), &x), 0.0);
}

#[test]
fn limits_are_named() {
    let Some(gpu) = gpu() else { return };
    let (a, b) = (matrix(4, 4, 8), matrix(4, 4, 9));
    let error = product(&function("matmul_dynamic"), gpu, &a, &b, Some(1 << 20)).err().unwrap();
    assert_eq!(error.kind(), "ValueError");
    assert!(
        error.message().contains("268435456 bytes of dynamic shared memory are too many: a block has at most"),
        "{error}"
    );
    product(&function("matmul"), gpu, &a, &b, None).unwrap();
}

#[test]
fn source_is_compiled_at_load() {
    let Some(gpu) = gpu() else { return };
    let source = b"extern \"C\" __global__ void twice(float* data) { data[threadIdx.x] *= 2; }";
    let kernels = vec![DeviceFunction::new("twice", vec![ArgType::POINTER], false)];
    let twice =
        Module::from_image("cuda", &DeviceImage::new("cuda", kernels, source)).unwrap().kernel("twice").unwrap();
    let data = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[4]).unwrap().to(gpu).unwrap();
    match twice.launch(1, 4, (&data,)) {
        Ok(()) => assert_eq!(data.to(Device::CPU).unwrap().view::<f32>().unwrap().to_vec(), [2.0, 4.0, 6.0, 8.0]),
        Err(error) if error.message().contains("NVRTC, which compiles it, was not found") => skip(error),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn host_memory_is_reached_by_kernels() {
    let Some(gpu) = gpu() else { return };
    let x = matrix(3, 300, 10);
    let expected: Tensor = function("softmax_on_cpu").call_as((&x,)).unwrap();
    for kind in [device_type::CUDA_HOST, device_type::CUDA_MANAGED] {
        let place = Device::new(kind, 0);
        let (there, y) = (x.to(place).unwrap(), Tensor::empty(DataType::FLOAT32, &[3, 300], place).unwrap());
        function("softmax").call((&there, &y)).unwrap();
        let stream = device::current_stream(gpu);
        // SAFETY: the device's own stream.
        unsafe { device::api(device_type::CUDA).unwrap().synchronize(0, stream).unwrap() };
        assert!(difference(&y, &expected) < 1e-6, "{place}");
    }
}

#[test]
fn many_threads_and_all_devices() {
    if gpu().is_none() {
        return;
    }
    let count = device::api(device_type::CUDA).unwrap().device_count().unwrap();
    if count == 1 {
        skip_anywhere("no second GPU was found, so nothing is copied between two");
    }
    let (a, b) = (matrix(100, 90, 11), matrix(90, 80, 12));
    let expected: Tensor = function("matmul_on_cpu").call_as((&a, &b)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (a, b, expected) = (&a, &b, &expected);
            scope.spawn(move || {
                let gpu = Device::cuda(thread % count);
                let next = Device::cuda((thread + 1) % count);
                let stream = Stream::new(gpu).unwrap();
                for _ in 0..20 {
                    let c = stream.scope(|| product(&function("matmul"), gpu, a, b, None)).unwrap();
                    assert!(difference(&c.to(gpu).unwrap().to(next).unwrap(), expected) < 1e-4);
                }
            });
        }
    });
}
