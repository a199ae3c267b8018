//! Kernels of device images on CUDA devices, with a stand-in for the driver that records its calls.

use std::path::{Path, PathBuf};

use kernpack::device::{DeviceMemory, Stream};
use kernpack::module::device_image::{
    ArgType, CLUSTER, COOPERATIVE_LAUNCH, DYNAMIC_SHARED_MEMORY, DeviceFunction, DeviceImage, GRID_AND_BLOCK,
    PROGRAMMATIC_LAUNCH,
};
use kernpack::sys::abi::{DLTensor, TVMFFIAny, type_index};
use kernpack::{Any, AnyView, DataType, Device, Error, Function, Module, Result};
use kernpack_tests::cuda_stand_in::{Live, Session, StandIn};
use kernpack_tests::skip::skip;

fn session() -> Session<'static> {
    StandIn::load(env!("CARGO_TARGET_TMPDIR")).session()
}

/// Restores a module of kind `cuda`.
fn module(format: &str, kernels: Vec<DeviceFunction<'_>>, code: &[u8]) -> Result<Module> {
    kernpack::module::enable("cuda").unwrap();
    let payload = DeviceImage::new(format, kernels, code).to_vec();
    let load = Function::global("ffi.Module.load_from_bytes.cuda").unwrap();
    let module: Module = load.call_as((payload.as_slice(),))?;
    assert_eq!(module.save_to_bytes().unwrap(), payload.as_slice());
    Ok(module)
}

/// The image of one kernel without arguments.
fn plain(name: &str) -> Result<Module> {
    let code = format!("kernel {name} \n");
    module("ptx", vec![DeviceFunction::new(name, vec![], true)], code.as_bytes())
}

/// A vector of floats on a device.
struct OnDevice {
    memory: DeviceMemory,
    shape: [i64; 1],
    byte_offset: u64,
}

impl OnDevice {
    fn new(device: Device, len: i64) -> Self {
        Self { memory: DeviceMemory::new(device, len as usize * 4, 64).unwrap(), shape: [len], byte_offset: 0 }
    }

    fn tensor(&mut self) -> DLTensor {
        DLTensor {
            data: self.memory.data(),
            device: self.memory.device().as_raw(),
            ndim: 1,
            dtype: DataType::FLOAT32.as_raw(),
            shape: self.shape.as_mut_ptr(),
            strides: std::ptr::null_mut(),
            byte_offset: self.byte_offset,
        }
    }

    fn address(&self) -> String {
        format!("{:#x}", self.memory.data() as u64 + self.byte_offset)
    }
}

/// A view of a tensor pointer.
fn view(tensor: &mut DLTensor) -> AnyView<'_> {
    // SAFETY: the pointer is valid for the view's lifetime.
    unsafe { AnyView::from_raw(TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, (tensor as *mut DLTensor).cast())) }
}

/// Calls with a tensor, then numbers.
fn call(function: &Function, tensor: &mut DLTensor, numbers: &[Any]) -> Result<Any> {
    let mut args = vec![view(tensor)];
    args.extend(numbers.iter().map(|value| *value.as_view()));
    function.call(args.as_slice())
}

/// Launches a kernel without arguments: grid, block, dynamic shared memory.
fn launch(function: &Function, sizes: [i64; 7]) -> Result<Any> {
    let values: Vec<Any> = sizes.into_iter().map(Any::from).collect();
    function.call(values.iter().map(|value| *value.as_view()).collect::<Vec<_>>().as_slice())
}

fn failure(result: Result<Any>) -> String {
    result.map(drop).map_err(|error: Error| error.to_string()).unwrap_err()
}

#[test]
fn launches_pass_parameters_and_extents() {
    let driver = session();
    let types = vec![
        ArgType::POINTER,
        ArgType::FLOAT32,
        ArgType::INT32,
        ArgType::INT64,
        ArgType { code: 0, bits: 8, lanes: 1 },
        ArgType { code: 0, bits: 16, lanes: 1 },
        ArgType { code: 2, bits: 16, lanes: 1 },
        ArgType::FLOAT64,
    ];
    let image = module("ptx", vec![DeviceFunction::new("scale", types, true)], b"kernel scale pfilbhed\n").unwrap();
    assert_eq!(image.kind(), "cuda");
    assert!(image.function("scal").unwrap_err().message().contains("did you mean 'scale'?"));
    let scale = image.function("scale").unwrap();
    let mut buffer = OnDevice::new(Device::cuda(1), 64);
    buffer.byte_offset = 16;
    buffer.shape = [6];
    let address = buffer.address();
    driver.log();
    let numbers = |third: i64, shared: i64| -> Vec<Any> {
        let first: [Any; 7] =
            [2.5.into(), third.into(), (-9i64).into(), (-128i64).into(), 513i64.into(), 1.5.into(), 0.1.into()];
        let sizes = [4i64, 1, 1, 128, 2, 1, shared];
        first.into_iter().chain(sizes.into_iter().map(Any::from)).collect()
    };
    call(&scale, &mut buffer.tensor(), &numbers(7, 65536)).unwrap();
    assert_eq!(
        driver.log(),
        format!(
            "load text on 1;function scale on 1;attribute 8=65536;\
             launch scale on 1: 4,1,1 x 128,2,1 shared 65536: {address} 2.5 7 -9 -128 513 3e00 0.1;"
        )
    );
    call(&scale, &mut buffer.tensor(), &numbers(8, 0)).unwrap();
    assert_eq!(
        driver.log(),
        format!("launch scale on 1: 4,1,1 x 128,2,1 shared 0: {address} 2.5 8 -9 -128 513 3e00 0.1;"),
        "the second launch loads nothing"
    );
    let stream = Stream::new(Device::cuda(1)).unwrap();
    stream.scope(|| call(&scale, &mut buffer.tensor(), &numbers(9, 0))).unwrap();
    assert!(driver.log().starts_with("launch scale on 1: 4,1,1 x 128,2,1 shared 0 in a stream:"));

    driver.fail(c"cuLaunchKernel", 700);
    assert_eq!(
        failure(call(&scale, &mut buffer.tensor(), &numbers(7, 0))),
        "RuntimeError: cuda kernel 'scale': the launch failed: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was \
         encountered); launched on cuda:1 with grid [4, 1, 1], block [128, 2, 1] and 0 bytes of dynamic shared memory"
    );
    driver.fail(c"cuLaunchKernel", 98765);
    assert!(
        failure(call(&scale, &mut buffer.tensor(), &numbers(7, 0))).contains("the launch failed: CUDA error 98765;")
    );
    call(&scale, &mut buffer.tensor(), &numbers(7, 0)).unwrap();
}

#[test]
fn shared_memory_is_asked_for_when_it_grows() {
    let driver = session();
    let image = plain("work").unwrap();
    let work = image.function("work").unwrap();
    let mut asked = Vec::new();
    for shared in [0, 49152, 65536, 65536, 50000, 100_000, 65536, 232_448] {
        driver.log();
        launch(&work, [1, 1, 1, 32, 1, 1, shared]).unwrap();
        let log = driver.log();
        asked.extend(log.split(';').filter_map(|line| line.strip_prefix("attribute 8=")).map(str::to_owned));
    }
    assert_eq!(asked, ["65536", "100000", "232448"]);
    assert_eq!(
        failure(launch(&work, [1, 1, 1, 32, 1, 1, 232_449])),
        "ValueError: cuda kernel 'work': 232449 bytes of dynamic shared memory are too many: a block has at most 232448 bytes on \
         cuda:0, of which the kernel itself uses 0; launched on cuda:0 with grid [1, 1, 1], block [32, 1, 1] and 232449 bytes \
         of dynamic shared memory"
    );
    launch(&work, [1, 1, 1, 32, 1, 1, 232_448]).unwrap();
}

#[test]
fn what_exceeds_the_device_is_named() {
    let _driver = session();
    let (work, narrow) = (plain("work").unwrap(), plain("narrow").unwrap());
    let (work, narrow) = (work.function("work").unwrap(), narrow.function("narrow").unwrap());
    #[rustfmt::skip]
    let rows: &[(&Function, [i64; 7], &str)] = &[
        (&work, [1, 1, 1, 1024, 2, 1, 0], "2048 threads in a block are too many: a block has at most 1024 on cuda:0;"),
        (&work, [1, 1, 1, 4294967295, 4294967295, 4294967295, 0], "79228162458924105385300197375 threads in a block are too many: a block has at most 1024"),
        (&work, [1, 1, 1, 1, 1, 128, 0], "a block of 128 along z is too large: cuda:0 has at most 64;"),
        (&narrow, [1, 1, 1, 512, 1, 1, 0], "512 threads in a block are too many: this kernel has at most 256 on cuda:0;"),
    ];
    for (kernel, sizes, expected) in rows {
        let message = failure(launch(kernel, *sizes));
        assert!(message.starts_with("ValueError: cuda kernel '") && message.contains(expected), "{message}");
    }
    launch(&work, [1, 1, 1, 1024, 1, 1, 0]).unwrap();
}

#[test]
fn clusters_and_flags_become_attributes() {
    let driver = session();
    #[rustfmt::skip]
    let rows: &[(&[&str], &[i64], &str)] = &[
        (&CLUSTER[..1], &[2], " cluster 2,1,1"),
        (&CLUSTER, &[2, 3, 4], " cluster 2,3,4"),
        (&[COOPERATIVE_LAUNCH], &[], " cooperative"),
        (&[PROGRAMMATIC_LAUNCH], &[], " programmatic"),
        (&[CLUSTER[0], DYNAMIC_SHARED_MEMORY, PROGRAMMATIC_LAUNCH, COOPERATIVE_LAUNCH], &[2, 70000], " cluster 2,1,1 cooperative programmatic"),
    ];
    for (tags, values, expected) in rows {
        let mut kernel = DeviceFunction::new("work", vec![ArgType::INT32], false);
        kernel.launch_params.extend(*tags);
        assert_eq!(kernel.launch_params[..6], GRID_AND_BLOCK);
        let image = module("ptx", vec![kernel], b"kernel work i\n").unwrap();
        let args: Vec<Any> = [5, 8, 1, 1, 32, 1, 1].iter().chain(*values).map(|value| Any::from(*value)).collect();
        image
            .function("work")
            .unwrap()
            .call(args.iter().map(|value| *value.as_view()).collect::<Vec<_>>().as_slice())
            .unwrap();
        let shared = if values.contains(&70000) { 70000 } else { 0 };
        let log = driver.log();
        assert!(log.contains(&format!("launch work on 0: 8,1,1 x 32,1,1 shared {shared}{expected}: 5;")), "{log}");
    }
}

#[test]
fn images_load_once_per_device_however_many_threads_ask() {
    let driver = session();
    let image =
        module("ptx", vec![DeviceFunction::new("fill", vec![ArgType::POINTER], false)], b"kernel fill p\n").unwrap();
    let other = plain("other").unwrap();
    let fill = image.function("fill").unwrap();
    let before = driver.live(Live::Modules);
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let fill = &fill;
            scope.spawn(move || {
                let mut buffer = OnDevice::new(Device::cuda(thread % 2), 4);
                let sizes: Vec<Any> = [1i64, 1, 1, 32, 1, 1].into_iter().map(Any::from).collect();
                for _ in 0..50 {
                    call(fill, &mut buffer.tensor(), &sizes).unwrap();
                }
            });
        }
    });
    let log = driver.log();
    for device in 0..2 {
        for once in [format!("load text on {device};"), format!("function fill on {device};")] {
            assert_eq!(log.matches(&once).count(), 1, "{once}");
        }
        assert_eq!(log.matches(&format!("launch fill on {device}:")).count(), 400);
    }
    assert_eq!(driver.live(Live::Modules), before + 2, "an image without launches is not loaded");
    drop((image, fill, other));
    assert_eq!(driver.live(Live::Modules), before, "what is not used any more is unloaded");
    assert!(driver.log().contains("synchronize 1;unload on 1;"));
}

#[test]
fn what_fails_while_loading_is_tried_again() {
    let driver = session();
    let image = plain("work").unwrap();
    let work = image.function("work").unwrap();
    let frame = "; launched on cuda:0 with grid [1, 1, 1], block [32, 1, 1] and 0 bytes of dynamic shared memory";
    #[rustfmt::skip]
    let rows = [
        (c"cuModuleLoadDataEx", 209, "RuntimeError", "the image cannot be loaded: CUDA_ERROR_NO_BINARY_FOR_GPU (no kernel image is available for execution on the device); cuda:0 needs code for sm_90"),
        (c"cuModuleLoadDataEx", 2, "MemoryError", "the image cannot be loaded: CUDA_ERROR_OUT_OF_MEMORY (out of memory); cuda:0 needs code for sm_90"),
        (c"cuModuleGetFunction", 500, "RuntimeError", "the image has no such kernel for cuda:0: CUDA_ERROR_NOT_FOUND (named symbol not found)"),
        (c"cuCtxGetCurrent", 3, "RuntimeError", "cuda:0: the thread's context cannot be read: CUDA_ERROR_NOT_INITIALIZED (initialization error)"),
    ];
    for (function, status, kind, expected) in rows {
        driver.fail(function, status);
        assert_eq!(
            failure(launch(&work, [1, 1, 1, 32, 1, 1, 0])),
            format!("{kind}: cuda kernel 'work': {expected}{frame}")
        );
    }
    launch(&work, [1, 1, 1, 32, 1, 1, 0]).unwrap();
    let broken = module("ptx", vec![DeviceFunction::new("work", vec![], true)], b"kernel work \nbroken").unwrap();
    assert_eq!(
        failure(launch(&broken.function("work").unwrap(), [1, 1, 1, 32, 1, 1, 0])),
        format!(
            "RuntimeError: cuda kernel 'work': the image cannot be loaded: CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed); \
             cuda:0 needs code for sm_90: ptxas error : line 2; a token is wrong{frame}"
        )
    );
}

#[test]
fn formats_are_checked_before_the_driver_sees_them() {
    let driver = session();
    let kernel = || vec![DeviceFunction::new("work", vec![], true)];
    let mut fatbin = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 8, 0, 0, 0, 0, 0, 0, 0];
    fatbin.extend([0; 8]);
    let image = module("fatbin", kernel(), &fatbin).unwrap();
    launch(&image.function("work").unwrap(), [1, 1, 1, 32, 1, 1, 0]).unwrap();
    assert!(driver.log().contains("load fatbin on 0;"));
    let image = module("fatbin", kernel(), &fatbin[..20]).unwrap();
    let message = failure(launch(&image.function("work").unwrap(), [1, 1, 1, 32, 1, 1, 0]));
    assert!(
        message
            .contains("the image cannot be loaded: the fat binary is cut off: it has 24 bytes, but only 20 are there;"),
        "{message}"
    );
    assert_eq!(
        module("spirv", kernel(), b"").err().unwrap().message(),
        "a cuda module cannot have the format 'spirv'; it is one of fatbin, cubin, ptx, cuda"
    );
}

#[test]
fn a_context_that_someone_else_has_made_current_stays_so() {
    let driver = session();
    let (first, second) = (Device::cuda(0), Device::cuda(1));
    std::thread::spawn(move || {
        // A new thread has no current context; the first one that is used stays.
        let _on_first = OnDevice::new(first, 1);
        let image = plain("work").unwrap();
        let work = image.function("work").unwrap();
        kernpack::module::set_current_device(second);
        launch(&work, [1, 1, 1, 32, 1, 1, 0]).unwrap();
        // SAFETY: the stand-in's function writes the thread's context.
        unsafe {
            let current: unsafe extern "C" fn(*mut *mut i32) -> u32 = std::mem::transmute(libc::dlsym(
                libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_LAZY),
                c"cuCtxGetCurrent".as_ptr(),
            ));
            let mut context = std::ptr::null_mut();
            assert_eq!(current(&mut context), 0);
            assert_eq!(*context, 0, "the context of cuda:0 is current again");
        }
    })
    .join()
    .unwrap();
    assert!(driver.log().contains("launch work on 1:"));
}

/// The folder of the CUDA wheels, or of a toolkit.
fn nvrtc() -> Option<PathBuf> {
    let wheels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/cuda/nvidia/cu13");
    let homes = std::env::var_os("CUDA_HOME").map(PathBuf::from).into_iter().chain([wheels]);
    let name =
        |home: &PathBuf| ["lib", "lib64"].iter().any(|folder| home.join(folder).join("libnvrtc.so.13").is_file());
    homes.into_iter().find(name)
}

#[test]
fn source_is_compiled_where_it_runs() {
    let driver = session();
    let Some(home) = nvrtc() else {
        return skip("no NVRTC in CUDA_HOME or target/cuda, where cargo xtask installs it");
    };
    // SAFETY: no other thread of this test program reads the environment: the session is held.
    unsafe { std::env::set_var("CUDA_HOME", &home) };
    let source = b"#include <cuda_fp16.h>\nextern \"C\" __global__ void scale(__half* data, float by) { data[threadIdx.x] *= __float2half(by); }\n";
    let kernel = |name| vec![DeviceFunction::new(name, vec![ArgType::POINTER, ArgType::FLOAT32], false)];
    let image = module("cuda", kernel("scale"), source).unwrap();
    assert_eq!(image.inspect_source("").unwrap().as_bytes(), source);
    let scale = image.function("scale").unwrap();
    let numbers: Vec<Any> = [Any::from(2.0)].into_iter().chain([1i64, 1, 1, 4, 1, 1].map(Any::from)).collect();
    for device in [0, 1] {
        let mut buffer = OnDevice::new(Device::cuda(device), 4);
        call(&scale, &mut buffer.tensor(), &numbers).unwrap();
        assert!(
            driver
                .log()
                .contains(&format!("load elf on {device};function scale on {device};launch scale on {device}:"))
        );
    }
    let image = module(
        "cuda",
        kernel("bad"),
        b"extern \"C\" __global__ void bad(float* data, float by) {\n  data[0] = wrong;\n}",
    )
    .unwrap();
    let mut buffer = OnDevice::new(Device::cuda(0), 4);
    assert_eq!(
        failure(call(&image.function("bad").unwrap(), &mut buffer.tensor(), &numbers)),
        "RuntimeError: cuda kernel 'bad': the CUDA source cannot be compiled for sm_90a: NVRTC_ERROR_COMPILATION:\n\
         image.cu(2): error: identifier \"wrong\" is undefined\n    data[0] = wrong;\n              ^\n\n\
         1 error detected in the compilation of \"image.cu\".; launched on cuda:0 with grid [1, 1, 1], block [4, 1, 1] and 0 bytes of \
         dynamic shared memory"
    );
}
