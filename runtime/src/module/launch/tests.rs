//! Launches against device code that only notes what it is given.

use core::ffi::{CStr, c_void};
use core::ptr::without_provenance_mut;
use std::sync::{Arc, Mutex, PoisonError};

use super::*;
use crate::Result;
use crate::abi::{DLTensor, TVMFFIAny, TVMFFIAnyPayload, device_type, type_index};
use crate::device::RawStream;
use crate::function::{Args, Function};
use crate::module::device_image::{
    ArgType, COOPERATIVE_LAUNCH, DYNAMIC_SHARED_MEMORY, DeviceFunction, DeviceImage, PROGRAMMATIC_LAUNCH,
};
use crate::module::image_module::image_module;
use crate::module::{Module, ModuleImpl};
use crate::value::{Any, AnyView, Bytes, DataType, Str};

/// What device code was given, in words.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn note(&self, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn take(&self) -> Vec<String> {
        core::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Device code for `ext_dev`, of which there are 20.
struct Noted {
    log: Arc<Log>,
    tensor_maps: bool,
}

impl DeviceCode for Noted {
    fn device_type(&self) -> i32 {
        device_type::EXT_DEV
    }

    fn can_reach(&self, device: Device) -> bool {
        matches!(device.kind(), device_type::EXT_DEV | device_type::CUDA_MANAGED)
    }

    fn takes_tensor_maps(&self) -> bool {
        self.tensor_maps
    }

    fn kernel(&self, index: i32, symbol: &CStr) -> Result<RawKernel> {
        crate::ensure!((0..20).contains(&index), RuntimeError, "there are 20 devices");
        let symbol = symbol.to_str().unwrap_or_default();
        self.log.note(format!("kernel {symbol} on {index}"));
        crate::ensure!(symbol != "broken", MemoryError, "no room for the image");
        Ok(RawKernel(without_provenance_mut(0x100 + index as usize)))
    }

    unsafe fn launch(
        &self,
        index: i32,
        kernel: RawKernel,
        config: &LaunchConfig,
        args: &[KernelArg],
        stream: RawStream,
    ) -> Result<()> {
        assert_eq!((kernel.0.addr(), stream), (0x100 + index as usize, RawStream::DEFAULT));
        let arg = |arg: &KernelArg| match arg {
            KernelArg::Pointer { data, byte_offset, device } => format!("{:#x}+{byte_offset}@{device}", data.addr()),
            KernelArg::Number { bits, size } => format!("{bits:#x}:{size}"),
            KernelArg::TensorMap { address } => format!("map {:#x}", address.addr()),
        };
        let LaunchConfig { grid, block, cluster, dynamic_shared_memory, cooperative, programmatic } = config;
        let mut line = format!("{index}: {grid:?} x {block:?}");
        if let Some(cluster) = cluster {
            line += &format!(" in {cluster:?}");
        }
        for (on, what) in [(*cooperative, "cooperative"), (*programmatic, "programmatic")] {
            line += if on { format!(" {what}") } else { String::new() }.as_str();
        }
        line += &format!(" shared {dynamic_shared_memory}: {}", args.iter().map(arg).collect::<Vec<_>>().join(" "));
        self.log.note(line);
        crate::ensure!(grid[0] != 666, RuntimeError, "the launch failed: it is cursed");
        Ok(())
    }
}

fn module_of(kernels: Vec<DeviceFunction<'_>>, tensor_maps: bool) -> (Module, Arc<Log>) {
    let log = Arc::new(Log::default());
    let payload = Bytes::from(DeviceImage::new("cl", kernels, b"code").to_vec());
    let code: Arc<dyn DeviceCode> = Arc::new(Noted { log: Arc::clone(&log), tensor_maps });
    let module = image_module("opencl", payload, |image| {
        assert_eq!((image.format(), &*image.code()), ("cl", &b"code"[..]));
        Ok(code)
    });
    (module.unwrap(), log)
}

fn kernel<'a>(name: &'a str, types: &[ArgType], launch_params: &[&'a str]) -> DeviceFunction<'a> {
    DeviceFunction {
        name,
        arg_types: types.to_vec(),
        launch_params: launch_params.to_vec(),
        extra_tags: vec![0; types.len()],
    }
}

/// A tensor of 2 x 3 elements at 0x1000 + 8.
struct Fake {
    tensor: DLTensor,
    _shape: Box<[i64; 2]>,
    _strides: Box<[i64; 2]>,
}

impl Fake {
    fn new(device: Device, shape: [i64; 2], strides: [i64; 2]) -> Self {
        let (mut shape, mut strides) = (Box::new(shape), Box::new(strides));
        let tensor = DLTensor {
            data: without_provenance_mut(0x1000),
            device: device.raw(),
            ndim: 2,
            dtype: DataType::FLOAT32.raw(),
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 8,
        };
        Self { tensor, _shape: shape, _strides: strides }
    }

    fn on(index: i32) -> Self {
        Self::new(Device::new(device_type::EXT_DEV, index), [2, 3], [3, 1])
    }

    fn view(&self) -> AnyView<'_> {
        let tensor = (&raw const self.tensor).cast_mut().cast::<c_void>();
        // SAFETY: the pointer is valid for the view's lifetime, and nobody writes through it.
        unsafe { AnyView::from_raw(TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, tensor)) }
    }
}

fn pointer<'a>(address: usize) -> AnyView<'a> {
    let payload = TVMFFIAnyPayload { v_ptr: without_provenance_mut(address) };
    // SAFETY: an opaque pointer owns nothing.
    unsafe { AnyView::from_raw(TVMFFIAny { type_index: type_index::OPAQUE_PTR, small_len: 0, payload }) }
}

fn dtype(code: u8, bits: u8, lanes: u16) -> ArgType {
    ArgType { code, bits, lanes }
}

fn message<T>(result: Result<T>) -> String {
    let error = result.map(drop).unwrap_err();
    format!("{}: {}", error.kind(), error.message())
}

#[test]
fn arguments_become_what_the_table_says() {
    let types = [
        ArgType::POINTER,
        ArgType::POINTER,
        ArgType::POINTER,
        ArgType::INT32,
        ArgType::UINT64,
        dtype(0, 8, 1),
        dtype(6, 8, 1),
        ArgType::FLOAT32,
        ArgType::FLOAT64,
        dtype(2, 16, 1),
        dtype(4, 16, 1),
        dtype(10, 8, 1),
    ];
    let tags = ["threadIdx.x", "blockIdx.x", DYNAMIC_SHARED_MEMORY];
    let (module, log) = module_of(vec![kernel("all", &types, &tags)], false);
    let tensor = Fake::on(3);
    let numbers: Vec<Any> = vec![
        (-7i64).into(),
        u64::MAX.into(),
        (-128i64).into(),
        true.into(),
        1.5.into(),
        2i64.into(),
        1.0.into(),
        1.0.into(),
        1.0.into(),
        64i64.into(),
        4i64.into(),
        256i64.into(),
    ];
    let mut args = vec![tensor.view(), pointer(0x5000), AnyView::NONE];
    args.extend(numbers.iter().map(|number| *number.as_view()));
    module.function("all").unwrap().call(args.as_slice()).unwrap();
    let expected = "3: [4, 1, 1] x [64, 1, 1] shared 256: 0x1000+8@ext_dev:3 0x5000+0@ext_dev:3 0x0+0@ext_dev:3 \
                    0xfffffffffffffff9:4 0xffffffffffffffff:8 0xffffffffffffff80:1 0x1:1 0x3fc00000:4 0x4000000000000000:8 0x3c00:2 \
                    0x3f80:2 0x38:1";
    assert_eq!(log.take(), ["kernel all on 3", expected]);
    module.function("all").unwrap().call(args.as_slice()).unwrap();
    assert_eq!(log.take(), [expected], "the handle is remembered");
}

#[test]
fn the_device_is_that_of_the_tensors_or_the_current_one() {
    let (module, log) = module_of(vec![kernel("f", &[ArgType::POINTER; 2], &[])], false);
    let f = module.function("f").unwrap();
    let managed = Fake::new(Device::new(device_type::CUDA_MANAGED, 5), [2, 3], [3, 1]);
    let launch = |args: &[AnyView<'_>]| {
        f.call(args).unwrap();
        log.take().pop().unwrap().split(':').next().unwrap().to_owned()
    };
    assert_eq!(launch(&[pointer(1), pointer(2)]), "0");
    set_current_device(Device::new(device_type::EXT_DEV, 4));
    assert_eq!(launch(&[pointer(1), pointer(2)]), "4");
    assert_eq!(launch(&[pointer(1), Fake::on(17).view()]), "17", "more devices than have a place of their own");
    assert_eq!(launch(&[managed.view(), pointer(2)]), "5");
    assert_eq!(launch(&[managed.view(), Fake::on(2).view()]), "2");
    set_current_device(Device::new(device_type::EXT_DEV, 0));
}

#[test]
fn empty_tensors_and_views_that_are_contiguous() {
    let (module, log) = module_of(vec![kernel("f", &[ArgType::POINTER], &[])], false);
    let f = module.function("f").unwrap();
    let device = Device::new(device_type::EXT_DEV, 0);
    for (shape, strides) in [([0, 3], [99, 7]), ([1, 3], [77, 1]), ([2, 1], [1, 55])] {
        f.call((Fake::new(device, shape, strides).view(),)).unwrap();
        assert_eq!(log.take().pop().unwrap(), "0: [1, 1, 1] x [1, 1, 1] shared 0: 0x1000+8@ext_dev:0");
    }
}

#[test]
fn many_arguments_go_to_the_heap() {
    let types = vec![ArgType::INT64; 40];
    let (module, log) = module_of(vec![kernel("f", &types, &[])], false);
    let numbers: Vec<Any> = (0..40i64).map(Any::from).collect();
    module.function("f").unwrap().call(numbers.as_slice()).unwrap();
    assert!(log.take().pop().unwrap().ends_with("0x25:8 0x26:8 0x27:8"));
}

#[test]
fn wrong_arguments_are_named() {
    let kinds = [
        ("pointer", ArgType::POINTER),
        ("i8", dtype(0, 8, 1)),
        ("i32", ArgType::INT32),
        ("i64", ArgType::INT64),
        ("u16", dtype(1, 16, 1)),
        ("u64", ArgType::UINT64),
        ("bool", dtype(6, 8, 1)),
        ("f32", ArgType::FLOAT32),
        ("f16", dtype(2, 16, 1)),
        ("f8", dtype(10, 8, 1)),
        ("vector", dtype(2, 32, 4)),
        ("complex", dtype(5, 64, 1)),
    ];
    let kernels = kinds.iter().map(|(name, ty)| kernel(name, &[*ty], &["blockIdx.x", DYNAMIC_SHARED_MEMORY]));
    let (module, log) = module_of(kernels.collect(), false);
    let device = Device::new(device_type::EXT_DEV, 1);
    let strided = Fake::new(device, [2, 3], [1, 2]);
    let negative = Fake::new(device, [2, -3], [1, 2]);
    let on_cpu = Fake::new(Device::CPU, [2, 3], [3, 1]);
    let on_99 = Fake::on(99);
    let text = Any::from("x");
    let (one, zero) = (Any::from(1i64), Any::from(0i64));
    let values: Vec<Any> = vec![
        128i64.into(),
        (1i64 << 40).into(),
        (-1i64).into(),
        1.5.into(),
        1e39.into(),
        65520.0.into(),
        f64::INFINITY.into(),
        0i64.into(),
    ];
    let value = |index: usize| *values[index].as_view();
    let text = *text.as_view();
    #[rustfmt::skip]
    let rows: &[(&str, AnyView<'_>, &str)] = &[
        ("pointer", text, "TypeError: opencl kernel 'pointer': argument 0: expected Tensor, got str"),
        ("pointer", value(0), "TypeError: opencl kernel 'pointer': argument 0: expected Tensor, got int"),
        ("pointer", strided.view(), "ValueError: opencl kernel 'pointer': argument 0: the tensor is not contiguous; pass a contiguous copy"),
        ("pointer", negative.view(), "ValueError: opencl kernel 'pointer': argument 0: the tensor has a negative dimension: [2, -3]"),
        ("pointer", on_cpu.view(), "ValueError: opencl kernel 'pointer': argument 0: expected a tensor on ext_dev, got one on cpu:0; copy it there \
             first: tensor.to(device) in Rust, kernpack.tensor.to(tensor, device) elsewhere"),
        ("pointer", on_99.view(), "RuntimeError: opencl kernel 'pointer': there are 20 devices; launched on ext_dev:99 with grid [1, 1, 1], block [1, 1, 1] and 0 bytes of dynamic shared memory"),
        ("i8", value(0), "ValueError: opencl kernel 'i8': argument 0: 128 is out of range for a 8-bit integer (-128 to 127)"),
        ("i32", value(1), "ValueError: opencl kernel 'i32': argument 0: 1099511627776 is out of range for a 32-bit integer (-2147483648 to 2147483647)"),
        ("i32", value(3), "TypeError: opencl kernel 'i32': argument 0: expected int, got float"),
        ("i64", text, "TypeError: opencl kernel 'i64': argument 0: expected int, got str"),
        ("u16", value(2), "ValueError: opencl kernel 'u16': argument 0: -1 is out of range for a 16-bit integer (0 to 65535)"),
        ("u64", value(2), "ValueError: opencl kernel 'u64': argument 0: expected an int from 0 up, got -1"),
        ("u64", text, "TypeError: opencl kernel 'u64': argument 0: expected an int from 0 up, got str"),
        ("bool", value(3), "TypeError: opencl kernel 'bool': argument 0: expected bool, got float"),
        ("f32", value(4), "ValueError: opencl kernel 'f32': argument 0: 1000000000000000000000000000000000000000 is out of range for float32"),
        ("f32", text, "TypeError: opencl kernel 'f32': argument 0: expected float, got str"),
        ("f16", value(5), "ValueError: opencl kernel 'f16': argument 0: 65520 is out of range for float16"),
        ("f8", value(6), "ValueError: opencl kernel 'f8': argument 0: inf is out of range for float8_e4m3fn"),
        ("vector", value(3), "TypeError: opencl kernel 'vector': argument 0: parameters of type code 2 with 32 bits x 4 are not supported"),
        ("complex", value(3), "TypeError: opencl kernel 'complex': argument 0: parameters of type code 5 with 64 bits x 1 are not supported"),
    ];
    for (name, argument, expected) in rows {
        let args = [*argument, *one.as_view(), *zero.as_view()];
        assert_eq!(message(module.function(name).unwrap().call(args.as_slice())), *expected);
    }
    assert_eq!(log.take(), [""; 0], "nothing wrong reaches the device");
    let call = |values: &[AnyView<'_>]| message(module.function("i64").unwrap().call(values));
    let one = *one.as_view();
    assert_eq!(
        call(&[one, value(7), one]),
        "ValueError: opencl kernel 'i64': blockIdx.x must be an int from 1 up, got 0"
    );
    assert_eq!(
        call(&[one, one, value(2)]),
        "ValueError: opencl kernel 'i64': tirx.use_dyn_shared_memory must be an int from 0 up, got -1"
    );
    assert_eq!(
        call(&[one, text, one]),
        "ValueError: opencl kernel 'i64': blockIdx.x must be an int from 1 up, got str"
    );
    assert_eq!(
        call(&[one]),
        "TypeError: opencl kernel 'i64' takes 1 argument and then blockIdx.x, tirx.use_dyn_shared_memory: 3 in all, got 1"
    );
}

#[test]
fn tensors_are_on_one_device() {
    let (module, _) = module_of(vec![kernel("f", &[ArgType::POINTER; 2], &[])], false);
    let (first, second) = (Fake::on(1), Fake::on(2));
    assert_eq!(
        message(module.function("f").unwrap().call((first.view(), second.view()))),
        "ValueError: opencl kernel 'f': argument 1: the tensor is on ext_dev:2, but one before it is on ext_dev:1; \
         a launch is on one device"
    );
}

#[test]
fn tables_that_can_not_be_launched() {
    let mapped = DeviceFunction { extra_tags: vec![1], ..kernel("mapped", &[ArgType::POINTER], &[]) };
    let kernels = vec![
        kernel("odd", &[], &["vthread.x"]),
        kernel("twice", &[], &["blockIdx.x", "blockIdx.x"]),
        kernel("old", &[], &["tir.use_dyn_shared_memory"]),
        kernel("nul\0", &[], &[]),
        mapped.clone(),
    ];
    let (module, _) = module_of(kernels, false);
    for (name, expected) in [
        ("odd", "RuntimeError: opencl kernel 'odd' wants the launch parameter 'vthread.x', which is not supported"),
        ("twice", "RuntimeError: opencl kernel 'twice' has the launch parameter 'blockIdx.x' twice"),
        (
            "old",
            "RuntimeError: opencl kernel 'old' wants the launch parameter 'tir.use_dyn_shared_memory', which is not supported",
        ),
        ("mapped", "RuntimeError: opencl kernel 'mapped' takes a tensor map, which is not supported"),
        ("nul\0", "ValueError: a kernel's name contains a NUL byte"),
        ("mappe", "KeyError: module of kind 'opencl' has no function 'mappe'; did you mean 'mapped'?"),
    ] {
        assert_eq!(message(module.function(name)), expected);
    }
    let (module, log) = module_of(vec![mapped], true);
    let mapped = module.function("mapped").unwrap();
    mapped.call((pointer(0x40),)).unwrap();
    assert_eq!(log.take().pop().unwrap(), "0: [1, 1, 1] x [1, 1, 1] shared 0: map 0x40");
    assert_eq!(
        message(mapped.call((1,))),
        "TypeError: opencl kernel 'mapped': argument 0: expected a pointer to a tensor map, got int"
    );
}

#[test]
fn what_the_device_reports_says_how_it_was_launched() {
    let tags = ["blockIdx.x", "clusterCtaIdx.x", COOPERATIVE_LAUNCH];
    let (module, log) = module_of(vec![kernel("f", &[], &tags), kernel("broken", &[], &[])], false);
    let error = module.function("f").unwrap().call((666, 2)).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (
            "RuntimeError",
            "opencl kernel 'f': the launch failed: it is cursed; launched on ext_dev:0 with grid [666, 1, 1] in clusters of \
             [2, 1, 1], block [1, 1, 1] and 0 bytes of dynamic shared memory"
        )
    );
    assert_eq!(log.take()[1], "0: [666, 1, 1] x [1, 1, 1] in [2, 1, 1] cooperative shared 0: ");
    let broken = module.function("broken").unwrap();
    for _ in 0..2 {
        assert_eq!(
            message(broken.call(())),
            "MemoryError: opencl kernel 'broken': no room for the image; launched on ext_dev:0 with grid [1, 1, 1], block [1, 1, 1] \
             and 0 bytes of dynamic shared memory"
        );
        assert_eq!(log.take(), ["kernel broken on 0"], "asked again after an error");
    }
}

#[test]
fn typed_launches() {
    let tags = ["blockIdx.x", "threadIdx.x", PROGRAMMATIC_LAUNCH];
    let (module, log) = module_of(vec![kernel("f", &[ArgType::POINTER, ArgType::INT32], &tags)], false);
    let f = module.kernel("f").unwrap();
    assert_eq!((f.name(), format!("{f:?}").as_str()), ("f", "KernelLauncher(f)"));
    let tensor = Fake::on(1);
    f.launch(4, 128, (tensor.view(), 9)).unwrap();
    assert_eq!(log.take()[1], "1: [4, 1, 1] x [128, 1, 1] programmatic shared 0: 0x1000+8@ext_dev:1 0x9:4");
    // What the table does not have goes to the device, too: there is no call in between.
    let config =
        LaunchConfig { cluster: Some([2, 1, 1]), dynamic_shared_memory: 99, ..LaunchConfig::new((4, 2), [8, 8, 2]) };
    f.launch_with(&config, (tensor.view(), 9)).unwrap();
    assert_eq!(log.take(), ["1: [4, 2, 1] x [8, 8, 2] in [2, 1, 1] programmatic shared 99: 0x1000+8@ext_dev:1 0x9:4"]);
    for (result, expected) in [
        (
            f.launch(0, 128, (tensor.view(), 9)),
            "ValueError: opencl kernel 'f': blockIdx.x must be an int from 1 up, got 0",
        ),
        (
            f.launch(1, (2, 0), (tensor.view(), 9)),
            "ValueError: opencl kernel 'f': threadIdx.y must be an int from 1 up, got 0",
        ),
        (f.launch(1, 1, (tensor.view(),)), "TypeError: opencl kernel 'f' takes 2 arguments, got 1"),
        (f.launch(1, 1, (tensor.view(), "9")), "TypeError: opencl kernel 'f': argument 1: expected int, got str"),
    ] {
        assert_eq!(message(result), expected);
    }
    assert_eq!(
        message(module.kernel("g")),
        "KeyError: module of kind 'opencl' and its imports have no kernel 'g'; did you mean 'f'?"
    );
}

/// A module of someone else's: its function takes what a packed call passes.
struct Elsewhere {
    metadata: Option<&'static str>,
    calls: Arc<Log>,
}

impl ModuleImpl for Elsewhere {
    fn kind(&self) -> &str {
        "test.elsewhere"
    }

    fn get_function(&self, name: &str) -> Result<Option<Function>> {
        let calls = Arc::clone(&self.calls);
        let call = move |args: &[AnyView<'_>]| -> Result<Any> {
            calls.note(
                args.iter()
                    .map(|arg| arg.get::<i64>().map_or("?".to_owned(), |n| n.to_string()))
                    .collect::<Vec<_>>()
                    .join(" "),
            );
            Ok(Any::NONE)
        };
        Ok((name == "f").then(|| Function::from_packed(call)))
    }

    fn function_metadata(&self, _: &str) -> Result<Option<Str>> {
        Ok(self.metadata.map(Str::new))
    }
}

#[test]
fn kernels_behind_a_packed_call() {
    let log = Arc::new(Log::default());
    let kernel = r#"{"device_kernel":{"kind":"cuda","arg_types":["handle","int32"],"launch_params":["threadIdx.x","blockIdx.x","tirx.use_dyn_shared_memory"]}}"#;
    let module = |metadata| Module::new(Elsewhere { metadata, calls: Arc::clone(&log) });
    let host = module(Some("{}"));
    assert_eq!(
        message(host.kernel("f")),
        "RuntimeError: 'f' is no kernel: neither its metadata nor the function table of its module tells launch parameters; call it as a \
         function"
    );
    host.import(&module(Some(kernel))).unwrap();
    let f = host.kernel("f").unwrap();
    let tensor = Fake::new(Device::cuda(1), [2, 3], [3, 1]);
    f.launch_with(&LaunchConfig { dynamic_shared_memory: 7, ..LaunchConfig::new(4, 32) }, (tensor.view(), 5)).unwrap();
    assert_eq!(log.take(), ["? 5 32 4 7"]);
    let on_cpu = Fake::new(Device::CPU, [2, 3], [3, 1]);
    let cooperative = LaunchConfig { cooperative: true, ..LaunchConfig::new(1, 1) };
    for (result, expected) in [
        (
            f.launch(1, 1, (on_cpu.view(), 5)),
            "ValueError: cuda kernel 'f': argument 0: expected a tensor on cuda, got one on cpu:0; copy it there \
             first: tensor.to(device) in Rust, kernpack.tensor.to(tensor, device) elsewhere",
        ),
        (
            f.launch(1, 1, (tensor.view(), 1i64 << 31)),
            "ValueError: cuda kernel 'f': argument 1: 2147483648 is out of range for a 32-bit integer (-2147483648 to 2147483647)",
        ),
        (
            f.launch(1, 0, (tensor.view(), 5)),
            "ValueError: cuda kernel 'f': threadIdx.x must be an int from 1 up, got 0",
        ),
        (
            f.launch((1, 2), 1, (tensor.view(), 5)),
            "ValueError: cuda kernel 'f': it is called through another library, and its launch parameters have no blockIdx.y; leave that out",
        ),
        (
            f.launch_with(&cooperative, (tensor.view(), 5)),
            "ValueError: cuda kernel 'f': it is called through another library, and its launch parameters have no tirx.use_cooperative_launch; leave that out",
        ),
    ] {
        assert_eq!(message(result), expected);
    }
    assert_eq!(log.take(), [""; 0]);
}

#[test]
fn threads_ask_for_a_kernel_once() {
    let (module, log) = module_of(vec![kernel("f", &[ArgType::INT32], &[])], false);
    let f = module.function("f").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..50).for_each(|number| drop(f.call((number,)).unwrap())));
        }
    });
    let asked = log.take().iter().filter(|line| line.starts_with("kernel")).count();
    assert_eq!(asked, 1);
}

/// Device code that does nothing, to count the instructions of a launch: the difference between `KERNPACK_LAUNCHES=1` and 1001 of
/// `valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*one_launch_typed*' PROGRAM instructions_of_a_launch --ignored`.
struct Nothing;

impl DeviceCode for Nothing {
    fn device_type(&self) -> i32 {
        device_type::EXT_DEV
    }

    fn kernel(&self, _: i32, _: &CStr) -> Result<RawKernel> {
        Ok(RawKernel(without_provenance_mut(8)))
    }

    unsafe fn launch(&self, _: i32, _: RawKernel, _: &LaunchConfig, _: &[KernelArg], _: RawStream) -> Result<()> {
        Ok(())
    }
}

#[inline(never)]
fn one_launch_typed(kernel: &KernelLauncher, args: impl Args) -> Result<()> {
    kernel.launch(4, 128, args)
}

#[inline(never)]
fn one_launch_packed(kernel: &Function, args: impl Args) -> Result<Any> {
    kernel.call(args)
}

#[test]
#[ignore = "for callgrind"]
fn instructions_of_a_launch() {
    let types = [ArgType::POINTER, ArgType::POINTER, ArgType::FLOAT32, ArgType::INT32];
    let payload =
        Bytes::from(DeviceImage::new("cl", vec![DeviceFunction::new("f", types.to_vec(), false)], b"").to_vec());
    let module = image_module("opencl", payload, |_| Ok(Arc::new(Nothing))).unwrap();
    let kernel = module.kernel("f").unwrap();
    let (a, b) = (Fake::on(0), Fake::on(0));
    let launches = std::env::var("KERNPACK_LAUNCHES").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for _ in 0..launches {
        one_launch_typed(&kernel, (a.view(), b.view(), 2.0, 7)).unwrap();
        one_launch_packed(kernel.function(), (a.view(), b.view(), 2.0, 7, 4, 1, 1, 128, 1, 1)).unwrap();
    }
}

/// An error for a kind that is kept comes from the call, and from asking for a launcher.
#[test]
fn kept_kinds_say_what_would_run_them() {
    let fill = kernel("fill", &[ArgType::POINTER], &["blockIdx.x"]);
    let image = DeviceImage::with_codes("metal", vec![fill], vec![("fill", b"kernel void fill() {}")]);
    let module = Module::from_image("metal", &image).unwrap();
    let expected = "RuntimeError: metal kernel 'fill' can not run here: it needs a GPU of Apple's, and Kernpack has no code for these; \
                    load the library with an Apache TVM that was built with USE_METAL=ON on macOS";
    assert_eq!(message(module.function("fill").unwrap().call((1, 2, 3))), expected);
    assert_eq!(message(module.kernel("fill")), expected);
}
