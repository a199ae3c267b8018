//! The cost of a launch without a device, for callgrind.

use super::*;

/// Device code that does nothing, to count the instructions of a launch: the difference between
/// `KERNPACK_LAUNCHES=1` and 1001 of `valgrind --tool=callgrind --collect-atstart=no
/// --toggle-collect='*one_launch_typed*' PROGRAM instructions_of_a_launch --ignored`.
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
