//! Image modules that a program makes, and the checks before launch.

use kernpack::module::device_image::{ArgType, DeviceFunction, DeviceImage};
use kernpack::module::{LaunchConfig, ModuleProperties};
use kernpack::{Error, Function, Module, Result, Tensor};

fn message<T>(result: Result<T>) -> String {
    let error: Error = result.map(drop).unwrap_err();
    format!("{}: {}", error.kind(), error.message())
}

fn scale() -> DeviceFunction<'static> {
    DeviceFunction::new("scale", vec![ArgType::POINTER, ArgType::FLOAT32, ArgType::INT32], true)
}

/// Arguments are checked even without a driver.
#[test]
fn cuda_launches_are_checked_first() {
    let module = Module::from_image("cuda", &DeviceImage::new("ptx", vec![scale()], b".version 8.0\n")).unwrap();
    assert!(module.properties().contains(ModuleProperties::RUNNABLE | ModuleProperties::BINARY_SERIALIZABLE));
    let parent = Module::from_image("cuda", &DeviceImage::new("ptx", vec![], b"")).unwrap();
    parent.import(&module).unwrap();
    let kernel = parent.kernel("scale").unwrap();
    let on_cpu = Tensor::zeros::<f32>(&[4]).unwrap();
    let cluster = LaunchConfig { cluster: Some([0, 1, 1]), ..LaunchConfig::new(1, 1) };
    for (result, expected) in [
        (
            kernel.launch(1, 32, (&on_cpu, 1.0, 4)),
            "ValueError: cuda kernel 'scale': argument 0: expected a tensor on cuda, got one on cpu:0; copy it there \
             first: tensor.to(device) in Rust, kernpack.tensor.to(tensor, device) elsewhere",
        ),
        (
            kernel.launch((1, 1), [32, 1, 0], ((), 1.0, 4)),
            "ValueError: cuda kernel 'scale': threadIdx.z must be an int from 1 up, got 0",
        ),
        (
            kernel.launch_with(&cluster, ((), 1.0, 4)),
            "ValueError: cuda kernel 'scale': clusterCtaIdx.x must be an int from 1 up, got 0",
        ),
        (kernel.launch(1, 1, ((), "1", 4)), "TypeError: cuda kernel 'scale': argument 1: expected float, got str"),
        (kernel.launch(1, 1, ((), 1.0)), "TypeError: cuda kernel 'scale' takes 3 arguments, got 2"),
    ] {
        assert_eq!(message(result), expected);
    }
    assert_eq!(
        message(kernel.function().call((1, 2))),
        "TypeError: cuda kernel 'scale' takes 3 arguments and then blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, \
         tirx.use_dyn_shared_memory: 10 in all, got 2"
    );
    assert_eq!(
        message(parent.kernel("scal")),
        "KeyError: module of kind 'cuda' and its imports have no kernel 'scal'; did you mean 'scale'?"
    );
}

/// Kinds that are kept are loaded by our loader, in the place of Apache TVM's.
#[test]
fn kept_images_go_through_the_global_loader() {
    let fill = DeviceFunction::new("fill", vec![ArgType::POINTER], false);
    for (kind, image) in [
        ("metal", DeviceImage::with_codes("metallib", vec![fill.clone()], vec![("fill", b"MTLB")])),
        ("vulkan", DeviceImage::with_codes("vulkan", vec![fill.clone()], vec![("fill", b"\x03\x02\x23\x07")])),
        ("webgpu", DeviceImage::with_codes("wgsl", vec![fill.clone()], vec![("fill", b"@compute fn fill() {}")])),
        ("hip", DeviceImage::new("hsaco", vec![fill.clone()], b"\x7fELF")),
        ("rocm", DeviceImage::new("hsaco", vec![fill.clone()], b"\x7fELF")),
    ] {
        kernpack::module::enable(kind).unwrap();
        let payload = image.to_vec();
        let load = Function::global(&format!("ffi.Module.load_from_bytes.{kind}")).unwrap();
        let module: Module = load.call_as((payload.as_slice(),)).unwrap();
        assert_eq!(*module.save_to_bytes().unwrap(), *payload, "{kind}");
        assert_eq!(module.properties(), ModuleProperties::BINARY_SERIALIZABLE);
        let called = message(module.function("fill").unwrap().call((1,)));
        let start = format!("RuntimeError: {kind} kernel 'fill' cannot run here: it needs a");
        assert!(called.starts_with(&start) && called.contains("; load the library with "), "{called}");
        assert_eq!(message(module.kernel("fill")), called);
        assert!(module.metadata("fill").unwrap().unwrap().contains(&format!(r#""device_kernel":{{"kind":"{kind}""#)));
    }
}
