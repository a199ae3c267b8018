//! Images of kind `opencl`: saved, restored, compiled ahead.

use kernpack::module::device_image::{ArgType, DeviceFunction, DeviceImage};
use kernpack::module::opencl;
use kernpack::{DataType, Device, Function, Module, Tensor};

use super::{kernels, machine};

fn fill(module: &Module, device: Device, value: f64) -> Vec<f32> {
    let out = Tensor::empty(DataType::FLOAT32, &[5], device).unwrap();
    module.kernel("fill").unwrap().launch(1, 8, (&out, value, 5)).unwrap();
    out.to(Device::CPU).unwrap().view::<f32>().unwrap().to_vec()
}

#[test]
fn modules_come_back_from_their_bytes() {
    kernpack::module::enable("opencl").unwrap();
    let load = Function::global("ffi.Module.load_from_bytes.opencl").unwrap();
    let module = kernels::module();
    let bytes = module.save_to_bytes().unwrap();
    let restored: Module = load.call_as((bytes.clone(),)).unwrap();
    assert_eq!((restored.kind(), &*restored.save_to_bytes().unwrap()), ("opencl".to_owned(), &*bytes));
    assert_eq!(restored.function_names(), module.function_names());
    assert!(restored.inspect_source("").unwrap().contains("__kernel void fill("));
    let Some(devices) = machine::devices() else { return };
    for device in devices {
        assert_eq!(fill(&restored, device, 1.5), [1.5; 5]);
    }
}

#[test]
fn source_becomes_a_binary_of_its_device() {
    let Some(devices) = machine::devices() else { return };
    for device in devices {
        let compiled = opencl::compile(&kernels::module(), device).unwrap();
        assert_eq!(compiled.write_formats().unwrap(), ["clbin"]);
        let bytes = compiled.save_to_bytes().unwrap();
        let image = DeviceImage::parse(&bytes).unwrap();
        assert_eq!((image.format(), image.kernels().len()), ("clbin", 7));
        let restored = Module::from_image("opencl", &image).unwrap();
        for module in [&compiled, &restored] {
            assert_eq!(fill(module, device, 2.5), [2.5; 5]);
        }
        // The same bytes with the name of a vendor's format can be loaded, too.
        let vendor = DeviceImage::new("xclbin", image.kernels().to_vec(), image.code());
        assert_eq!(fill(&Module::from_image("opencl", &vendor).unwrap(), device, 3.5), [3.5; 5]);
        assert_eq!(
            opencl::compile(&compiled, device).map(drop).unwrap_err().to_string(),
            "ValueError: the module is in format 'clbin'; only source, 'cl', can be compiled"
        );
    }
    assert_eq!(
        opencl::compile(&kernels::module(), Device::CPU).map(drop).unwrap_err().to_string(),
        "ValueError: an opencl module cannot be compiled for cpu:0"
    );
}

#[test]
fn other_code_is_refused() {
    let Some(device) = machine::first() else { return };
    let run = |format: &str| {
        let kernels = vec![DeviceFunction::new("fill", vec![ArgType::POINTER], false)];
        let module = Module::from_image("opencl", &DeviceImage::new(format, kernels, b"no such code")).unwrap();
        let out = Tensor::empty(DataType::FLOAT32, &[5], device).unwrap();
        module.kernel("fill").unwrap().launch(1, 1, (&out,)).unwrap_err().message().to_owned()
    };
    assert_eq!(
        run("spv"),
        "opencl kernel 'fill': the image is in format 'spv', which OpenCL does not load; it loads cl and clbin, xclbin, awsxclbin, \
         aocx; launched on opencl:0 with grid [1, 1, 1], block [1, 1, 1] and 0 bytes of dynamic shared memory"
    );
    let binary = run("clbin");
    let start = "opencl kernel 'fill': the code, in format 'clbin', is not for opencl:0 (";
    assert!(binary.starts_with(start), "{binary}");
    assert!(
        binary.contains("), or not for the version of its driver: CL_INVALID_BINARY (-42); launched on opencl:0"),
        "{binary}"
    );
}
