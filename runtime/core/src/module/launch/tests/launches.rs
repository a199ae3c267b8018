//! Launchers, foreign modules, errors of devices, kinds that do not run here.

use super::*;

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
    // Settings that the table does not have are passed to the device, too: there is no packed call
    // in between.
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

/// A foreign module: its function accepts the arguments of a packed call.
struct Elsewhere {
    metadata: Option<&'static str>,
    calls: Arc<Log>,
}

impl ModuleImpl for Elsewhere {
    fn kind(&self) -> &str {
        "test.elsewhere"
    }

    fn find_function(&self, name: &str) -> Result<Option<Function>> {
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
        "RuntimeError: 'f' is not a kernel: neither its metadata nor the function table of its module tells launch parameters; call it as a \
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
            "ValueError: cuda kernel 'f': argument 0: expected a tensor on cuda, got one on cpu:0; copy it there first: tensor.to(device) in Rust, kernpack.tensor.to(tensor, device) elsewhere",
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

/// The error for a stored kind is returned by the call, and by the creation of a launcher.
#[test]
fn kept_kinds_say_what_would_run_them() {
    let fill = kernel("fill", &[ArgType::POINTER], &["blockIdx.x"]);
    let image = DeviceImage::with_codes("metal", vec![fill], vec![("fill", b"kernel void fill() {}")]);
    let module = Module::from_image("metal", &image).unwrap();
    let expected = "RuntimeError: metal kernel 'fill' cannot run here: it needs a GPU of Apple's, and Kernpack has no code for these; \
                    load the library with an Apache TVM that was built with USE_METAL=ON on macOS";
    assert_eq!(message(module.function("fill").unwrap().call((1, 2, 3))), expected);
    assert_eq!(message(module.kernel("fill")), expected);
}
