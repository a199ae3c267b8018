//! CUDA devices with the stand-in for the driver: tensors, copies, streams, events, attributes, and
//! errors.

use std::path::Path;

use kernpack::device::device_type;
use kernpack::device::{self, DeviceAttribute, DeviceMemory, Event, Stream};
use kernpack::{Any, DataType, Device, Tensor};
use kernpack_tests::beside::test_again;
use kernpack_tests::cuda_stand_in::{Live, Session, StandIn, compile, open};
use kernpack_tests::skip::skip_anywhere;

fn session() -> Session<'static> {
    StandIn::load(env!("CARGO_TARGET_TMPDIR")).session()
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|number| number as f32).collect()
}

#[test]
fn attributes_are_those_of_the_driver() {
    let _driver = session();
    let second = Device::cuda(1);
    let rows: [(DeviceAttribute, Any); 17] = [
        (DeviceAttribute::Exist, 1i64.into()),
        (DeviceAttribute::MaxThreadsPerBlock, 1024i64.into()),
        (DeviceAttribute::WarpSize, 32i64.into()),
        (DeviceAttribute::MaxSharedMemoryPerBlock, 49152i64.into()),
        (DeviceAttribute::ComputeVersion, "9.0".into()),
        (DeviceAttribute::DeviceName, "Stand-in 1".into()),
        (DeviceAttribute::MaxClockRate, 1_755_000i64.into()),
        (DeviceAttribute::MultiProcessorCount, 132i64.into()),
        (DeviceAttribute::MaxThreadDimensions, "[1024, 1024, 64]".into()),
        (DeviceAttribute::MaxRegistersPerBlock, 65536i64.into()),
        (DeviceAttribute::GcnArch, Any::NONE),
        (DeviceAttribute::ApiVersion, 13000i64.into()),
        (DeviceAttribute::DriverVersion, Any::NONE),
        (DeviceAttribute::L2CacheSize, 52_428_800i64.into()),
        (DeviceAttribute::TotalGlobalMemory, (1i64 << 30).into()),
        (DeviceAttribute::AvailableGlobalMemory, (1i64 << 30).into()),
        (DeviceAttribute::ImagePitchAlignment, 32i64.into()),
    ];
    for (attribute, expected) in rows {
        let value = device::attribute(second, attribute).unwrap();
        assert_eq!(format!("{value:?}"), format!("{expected:?}"), "{attribute:?}");
    }
    let api = device::api(device_type::CUDA).unwrap();
    assert_eq!((api.name(), api.device_count().unwrap()), ("cuda", 2));
    assert!(!api.native_handle(1, "context").unwrap().is_null());
    assert_eq!(api.native_handle(1, "device").unwrap().addr(), 1);
    assert!(api.native_handle(1, "stream").unwrap().is_null());
    for (device, exists) in [(Device::cuda(0), true), (Device::cuda(2), false), (Device::cuda(-1), false)] {
        assert_eq!(device::exists(device), exists, "{device}");
    }
    for (kind, index, exists) in [
        (device_type::CUDA_HOST, 0, true),
        (device_type::CUDA_HOST, 1, false),
        (device_type::CUDA_MANAGED, 1, true),
        (device_type::CUDA_MANAGED, 2, false),
    ] {
        assert_eq!(device::exists(Device::new(kind, index)), exists, "{kind} {index}");
    }
}

#[test]
fn tensors_live_on_devices() {
    let driver = session();
    let before = driver.live(Live::Blocks);
    let (first, second) = (Device::cuda(0), Device::cuda(1));
    let here = Tensor::from_slice(&numbers(24), &[2, 3, 4]).unwrap();
    let there = here.to(first).unwrap();
    assert_eq!((there.device(), there.shape(), there.dtype()), (first, &[2, 3, 4][..], DataType::FLOAT32));
    let on_second = there.to(second).unwrap();
    let beside = on_second.to(second).unwrap();
    assert_eq!(beside.to(Device::CPU).unwrap().view::<f32>().unwrap().to_vec(), numbers(24));
    assert_eq!(
        driver.log().split(';').filter(|line| !line.starts_with("retain") && *line != "init").collect::<Vec<_>>(),
        [
            "to device 0 96",
            "stream of 1 waits for event of 0",
            "device 0 to 1 96",
            "on device 1 96",
            "from device 1 96",
            ""
        ]
    );
    // Views share the memory; the driver knows its size.
    let rows = beside.slice(1..2).unwrap();
    assert_eq!(rows.to(Device::CPU).unwrap().view::<f32>().unwrap().to_vec(), numbers(24)[12..]);
    let flat = beside.reshape(&[24]).unwrap();
    drop((beside, rows));
    assert_eq!(flat.to(Device::CPU).unwrap().view::<f32>().unwrap().to_vec(), numbers(24));
    let bits = flat.view_as(&[4], DataType::UINT32, 80).unwrap();
    assert_eq!(bits.to(Device::CPU).unwrap().view::<u32>().unwrap().to_vec()[0], 20f32.to_bits());
    // Rust code cannot read a device's memory.
    assert!(flat.view::<f32>().is_err());
    // DLPack exports the memory, and returns it.
    let managed = flat.to_dlpack().unwrap();
    drop((flat, bits));
    // SAFETY: this pointer came from `to_dlpack`.
    let back = unsafe { Tensor::from_dlpack(managed) }.unwrap();
    assert_eq!(back.device(), second);
    assert_eq!(back.to(Device::CPU).unwrap().view::<f32>().unwrap().to_vec(), numbers(24));
    let empty = Tensor::empty(DataType::FLOAT32, &[0, 5], first).unwrap();
    assert!(empty.to(second).unwrap().to(Device::CPU).unwrap().is_empty());
    drop((back, there, on_second, empty));
    assert_eq!(driver.live(Live::Blocks), before, "all memory was given back");
}

#[test]
fn any_two_kinds_of_memory_can_be_copied() {
    let driver = session();
    let before = driver.live(Live::Blocks);
    let devices = [
        Device::CPU,
        Device::cuda(0),
        Device::cuda(1),
        Device::new(device_type::CUDA_HOST, 0),
        Device::new(device_type::CUDA_MANAGED, 0),
        Device::new(device_type::CUDA_MANAGED, 1),
    ];
    let here = Tensor::from_slice(&numbers(100), &[100]).unwrap();
    for from in devices {
        for to in devices {
            let copied = here.to(from).unwrap().to(to).unwrap();
            assert_eq!(copied.device(), to);
            assert_eq!(copied.to(Device::CPU).unwrap().view::<f32>().unwrap().to_vec(), numbers(100), "{from} to {to}");
        }
    }
    assert_eq!(driver.live(Live::Blocks), before);
}

#[test]
fn streams_and_events() {
    let driver = session();
    let (streams, events) = (driver.live(Live::Streams), driver.live(Live::Events));
    let device = Device::cuda(1);
    let (first, second) = (Stream::new(device).unwrap(), Stream::new(device).unwrap());
    let (start, end) = (Event::new(device).unwrap(), Event::new(device).unwrap());
    first.record(&start).unwrap();
    second.wait(&start).unwrap();
    second.record(&end).unwrap();
    end.synchronize().unwrap();
    second.synchronize().unwrap();
    assert_eq!(start.elapsed(&end).unwrap(), std::time::Duration::from_millis(1));
    driver.fail(c"cuStreamSynchronize", 700);
    assert_eq!(
        first.synchronize().unwrap_err().to_string(),
        "RuntimeError: cuda:1: the work in a stream failed: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"
    );
    // Copies use the current stream.
    let here = Tensor::from_slice(&numbers(4), &[4]).unwrap();
    let there = first.scope(|| here.to(device)?.to(Device::CPU)).unwrap();
    assert_eq!(there.view::<f32>().unwrap().to_vec(), numbers(4));
    drop((first, second, start, end));
    assert_eq!((driver.live(Live::Streams), driver.live(Live::Events)), (streams, events));
}

#[test]
fn out_of_memory_is_an_error_and_the_process_goes_on() {
    let driver = session();
    let before = driver.live(Live::Blocks);
    let device = Device::cuda(0);
    let half = Tensor::empty(DataType::UINT8, &[700 << 20], device).unwrap();
    let error = Tensor::empty(DataType::UINT8, &[700 << 20], device).err().unwrap();
    assert_eq!(
        error.to_string(),
        "MemoryError: cuda:0: 734003200 bytes cannot be allocated: CUDA_ERROR_OUT_OF_MEMORY (out of memory); 339738624 of \
         1073741824 bytes are free"
    );
    // The other device has its own memory, and this one has free memory again.
    let other = Tensor::empty(DataType::UINT8, &[700 << 20], Device::cuda(1)).unwrap();
    drop(half);
    let again = Tensor::empty(DataType::UINT8, &[700 << 20], device).unwrap();
    for (kind, function) in
        [(device_type::CUDA_HOST, c"cuMemHostAlloc"), (device_type::CUDA_MANAGED, c"cuMemAllocManaged")]
    {
        driver.fail(function, 2);
        let device = Device::new(kind, 0);
        assert_eq!(
            DeviceMemory::new(device, 10, 64).err().unwrap().to_string(),
            format!("MemoryError: {device}: 10 bytes cannot be allocated: CUDA_ERROR_OUT_OF_MEMORY (out of memory)")
        );
        DeviceMemory::new(device, 10, 64).unwrap();
    }
    drop((other, again));
    assert_eq!(driver.live(Live::Blocks), before);
}

#[test]
fn what_goes_wrong_is_named() {
    let driver = session();
    let here = Tensor::from_slice(&numbers(4), &[4]).unwrap();
    let there = here.to(Device::cuda(0)).unwrap();
    assert_eq!(
        here.to(Device::cuda(2)).err().unwrap().to_string(),
        "RuntimeError: cuda:2 does not exist; there are 2 CUDA devices, cuda:0 to cuda:1"
    );
    assert_eq!(
        here.to(Device::new(device_type::CUDA_HOST, 1)).err().unwrap().to_string(),
        "RuntimeError: cuda_host:1 does not exist; the only one is cuda_host:0"
    );
    assert_eq!(
        DeviceMemory::new(Device::cuda(0), 10, 4096).err().unwrap().to_string(),
        "ValueError: cuda:0: the alignment must be at most 256 bytes, got 4096"
    );
    #[rustfmt::skip]
    let rows = [
        (c"cuMemcpyDtoHAsync_v2", 700, "16 bytes cannot be copied from cuda:0 to cpu:0: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"),
        (c"cuStreamSynchronize", 719, "16 bytes cannot be copied from cuda:0 to cpu:0: CUDA error 719"),
        (c"cuCtxGetCurrent", 4, "cuda:0: the thread's context cannot be read: CUDA error 4"),
    ];
    for (function, status, expected) in rows {
        driver.fail(function, status);
        assert_eq!(there.to(Device::CPU).err().unwrap().message(), expected);
    }
    assert_eq!(there.to(Device::CPU).unwrap().view::<f32>().unwrap().to_vec(), numbers(4));
}

#[test]
fn many_threads_on_two_devices() {
    let driver = session();
    let before = driver.live(Live::Blocks);
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            scope.spawn(move || {
                let device = Device::cuda((thread % 2) as i32);
                let stream = Stream::new(device).unwrap();
                for round in 0..50 {
                    let values = vec![(thread * 1000 + round) as i32; 64];
                    let here = Tensor::from_slice(&values, &[64]).unwrap();
                    let other = Device::cuda(1 - device.index());
                    let back = stream.scope(|| here.to(device)?.to(other)?.to(Device::CPU)).unwrap();
                    assert_eq!(back.view::<i32>().unwrap().to_vec(), values);
                }
            });
        }
    });
    assert_eq!(driver.live(Live::Blocks), before);
    let log = driver.log();
    assert!(
        log.matches("retain 0;").count() <= 1 && log.matches("retain 1;").count() <= 1,
        "contexts are retained once"
    );
}

/// Not a test by itself: prints another process's error about its driver.
#[test]
#[ignore = "run by the tests below, with a driver of their choice"]
fn say_what_the_driver_says() {
    if let Some(library) = std::env::var_os("FAKE_CUDA_LIBRARY") {
        open(Path::new(&library));
    }
    let error = Tensor::empty(DataType::FLOAT32, &[4], Device::cuda(0)).err().unwrap();
    println!("SAYS {error}");
    // It returns the error every time, and everything else works.
    assert_eq!(Tensor::empty(DataType::FLOAT32, &[4], Device::cuda(0)).err().unwrap().message(), error.message());
    assert!(!device::exists(Device::cuda(0)));
    assert!(!device::exists(Device::new(device_type::CUDA_HOST, 0)));
    Tensor::empty(DataType::FLOAT32, &[4], Device::CPU).unwrap();
}

#[test]
fn drivers_that_cannot_serve_are_told_apart() {
    let says = |library: Option<&Path>, variables: &[(&str, &str)]| {
        let mut command = test_again(module_path!(), "say_what_the_driver_says");
        command.args(["--ignored", "--nocapture"]);
        command.envs(library.map(|library| ("FAKE_CUDA_LIBRARY", library))).envs(variables.iter().copied());
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        // libtest may have printed the test's name before it.
        text.lines().find_map(|line| line.split_once("SAYS ").map(|(_, text)| text.to_owned())).unwrap()
    };
    let whole = compile(env!("CARGO_TARGET_TMPDIR"), "libcuda_whole", &[]);
    let part = compile(env!("CARGO_TARGET_TMPDIR"), "libcuda_part", &["-DWITHOUT_LAUNCH_EX"]);
    type Row<'a> = (&'a Path, &'a [(&'a str, &'a str)], &'a str);
    #[rustfmt::skip]
    let rows: &[Row<'_>] = &[
        (&whole, &[("FAKE_CUDA_DEVICES", "0")], "RuntimeError: the CUDA driver finds no GPU on this machine; check `nvidia-smi` and CUDA_VISIBLE_DEVICES"),
        (&whole, &[("FAKE_CUDA_VERSION", "11080")], "RuntimeError: the NVIDIA driver of this machine is too old: it supports CUDA 11.8, but CUDA 12.0 is needed; install a newer driver"),
        (&whole, &[("FAKE_CUDA_INIT", "803")], "RuntimeError: the CUDA driver cannot be initialized: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (system has unsupported display driver / cuda driver combination)"),
        (&part, &[], "RuntimeError: the NVIDIA driver of this machine lacks the function cuLaunchKernelEx; install a newer driver"),
    ];
    for (library, variables, expected) in rows {
        assert_eq!(says(Some(library), variables), *expected);
    }
    for library in [whole, part] {
        let _ = std::fs::remove_file(library);
    }
    if Path::new("/dev/nvidiactl").exists() {
        return skip_anywhere("this machine has a CUDA driver, so nothing can say that there is none");
    }
    assert_eq!(
        says(None, &[]),
        "RuntimeError: there is no CUDA driver on this machine (libcuda.so.1 was not found); run it where an NVIDIA GPU and its driver \
         are installed"
    );
}
