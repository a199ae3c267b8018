//! Launching a kernel of a device image, against a stand-in for the CUDA driver that records what it is given.

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::process::Command;

use kernpack::abi::{DLTensor, TVMFFIAny, type_index};
use kernpack::module::device_image::{ArgType, DeviceFunction, DeviceImage};
use kernpack::{Any, AnyView, Device, Error, Function, Module, Result};

/// Compiles and loads the stand-in. Its SONAME is the real driver's, so that is what the runtime then finds.
fn load_stand_in() -> *mut c_void {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/fake_libcuda.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcuda_stand_in.so");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wl,-soname,libcuda.so.1", "-o"])
        .arg(&library)
        .arg(&source)
        .status()
        .expect("a C compiler named cc is needed");
    assert!(status.success());
    let path = std::ffi::CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: our own library, without constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null());
    handle
}

/// A view of a tensor pointer.
fn tensor(tensor: &mut DLTensor) -> AnyView<'_> {
    // SAFETY: the pointer is valid for the view's lifetime.
    unsafe { AnyView::from_raw(TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, (tensor as *mut DLTensor).cast())) }
}

fn number(value: impl Into<Any>) -> Any {
    value.into()
}

#[test]
fn launches_pass_parameters_extents_and_errors() {
    let driver = load_stand_in();
    // SAFETY: the stand-in defines both with these types.
    let (log, fail_launch) = unsafe {
        let log: extern "C" fn() -> *const c_char = std::mem::transmute(libc::dlsym(driver, c"fake_cuda_log".as_ptr()));
        let fail: extern "C" fn(i32) = std::mem::transmute(libc::dlsym(driver, c"fake_cuda_fail_launch".as_ptr()));
        (log, fail)
    };
    // SAFETY: the log is a NUL-terminated string.
    let log = || unsafe { CStr::from_ptr(log()) }.to_str().unwrap().to_owned();

    let types = vec![ArgType::POINTER, ArgType::FLOAT32, ArgType::INT32, ArgType::INT64];
    let payload = DeviceImage::new("ptx", vec![DeviceFunction::new("scale", types, true)], b"// ptx").to_vec();
    kernpack::module::enable("cuda").unwrap();
    let load = Function::global("ffi.Module.load_from_bytes.cuda").unwrap();
    let module: Module = load.call_as((payload.as_slice(),)).unwrap();
    assert_eq!(module.kind(), "cuda");
    assert!(module.function("scal").unwrap_err().message().contains("did you mean 'scale'?"));
    let scale = module.function("scale").unwrap();

    let mut shape = [6i64];
    let mut on_device = DLTensor {
        data: 0x7000 as *mut c_void,
        device: Device::cuda(1).raw(),
        ndim: 1,
        dtype: kernpack::DataType::FLOAT32.raw(),
        shape: shape.as_mut_ptr(),
        strides: std::ptr::null_mut(),
        byte_offset: 16,
    };
    // One call: four parameters, grid, block, shared memory.
    let call = |first: AnyView<'_>, third: Any, grid_x: Any, shared: i64| -> Result<Any> {
        let rest = [
            number(2.5),
            third,
            number(-9i64),
            grid_x,
            number(1),
            number(1),
            number(128),
            number(2),
            number(1),
            number(shared),
        ];
        let mut args = vec![first];
        args.extend(rest.iter().map(|value| *value.as_view()));
        scale.call(args.as_slice())
    };
    let message =
        |result: Result<Any>| -> String { result.map(drop).map_err(|e: Error| e.message().to_owned()).unwrap_err() };

    call(tensor(&mut on_device), number(7), number(4), 65536).unwrap();
    assert_eq!(
        log(),
        "init;retain;load // ptx;function scale;attribute 8=65536;\
         launch 4,1,1 x 128,2,1 shared 65536 stream (nil): 0x7010 2.5 7 -9;"
    );
    call(tensor(&mut on_device), number(8), number(4), 0).unwrap();
    assert!(
        log().ends_with("7 -9;launch 4,1,1 x 128,2,1 shared 0 stream (nil): 0x7010 2.5 8 -9;"),
        "the second launch loads nothing: {}",
        log()
    );

    let overflow = message(call(tensor(&mut on_device), number(1i64 << 40), number(4), 0));
    assert!(overflow.contains("argument 2: 1099511627776 is out of range for a 32-bit integer"), "{overflow}");
    let no_blocks = message(call(tensor(&mut on_device), number(7), number(0), 0));
    assert!(no_blocks.contains("blockIdx.x must be an int from 1 up, got 0"), "{no_blocks}");
    let on_cpu = kernpack::Tensor::zeros::<f32>(&[6]).unwrap();
    let mut on_cpu = *on_cpu.dl_tensor();
    let cpu = message(call(tensor(&mut on_cpu), number(7), number(4), 0));
    assert!(cpu.contains("argument 0: expected a tensor on cuda, got one on cpu:0"), "{cpu}");
    let count = message(scale.call((1, 2)));
    assert!(count.contains("11 in all, got 2"), "{count}");

    fail_launch(1);
    let failed = message(call(tensor(&mut on_device), number(7), number(4), 0));
    assert_eq!(
        failed,
        "cuda kernel 'scale': the launch failed: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered); launched \
         on cuda:1 with grid [4, 1, 1], block [128, 2, 1] and 0 bytes of dynamic shared memory"
    );
}
