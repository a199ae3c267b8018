//! Memory, copies, streams, events, attributes, and the messages without a device.

use std::process::Command;

use kernpack::device::device_type;
use kernpack::device::{self, DeviceAttribute, DeviceMemory, Event, Place, Stream};
use kernpack::{Any, Device, Result};
use kernpack_tests::beside::test_again;
use kernpack_tests::skip::{skip, skip_anywhere};

use super::machine;

/// The place of a slice.
fn host<T>(bytes: &[T]) -> Place {
    Place { device: Device::CPU, data: bytes.as_ptr().cast_mut().cast(), byte_offset: 0 }
}

fn at(place: Place, byte_offset: u64) -> Place {
    Place { byte_offset, ..place }
}

/// Bytes on a device.
fn upload(device: Device, bytes: &[u8]) -> DeviceMemory {
    let memory = DeviceMemory::new(device, bytes.len(), 64).unwrap();
    // SAFETY: both have the same number of bytes.
    unsafe { device::copy(host(bytes), memory.place(), bytes.len()) }.unwrap();
    memory
}

fn download(memory: &DeviceMemory) -> Vec<u8> {
    let bytes = vec![0u8; memory.size()];
    // SAFETY: both have the same number of bytes, and the vector is not read meanwhile.
    unsafe { device::copy(memory.place(), host(&bytes), bytes.len()) }.unwrap();
    bytes
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = len as u32 | 1;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(len)
    .collect()
}

#[test]
fn bytes_come_back_from_every_device() {
    let Some(devices) = machine::devices() else { return };
    for &first in &devices {
        for &second in &devices {
            for len in [0, 1, 3, 128, 4096, 1_000_003] {
                let bytes = noise(len);
                let there = upload(first, &bytes);
                let other = DeviceMemory::new(second, len, 64).unwrap();
                // SAFETY: all have `len` bytes.
                unsafe { device::copy(there.place(), other.place(), len) }.unwrap();
                assert!(download(&other) == bytes, "{len} bytes through {first} and {second}");
            }
        }
    }
}

#[test]
fn parts_are_copied_by_their_offsets() {
    let Some(devices) = machine::devices() else { return };
    let bytes = noise(5000);
    for &first in &devices {
        for &second in &devices {
            let (from, to) = (upload(first, &bytes), upload(second, &vec![7; 5000]));
            // SAFETY: the parts are within the memory.
            unsafe {
                device::copy(at(from.place(), 13), at(to.place(), 4001), 901).unwrap();
                device::copy(host(&bytes), at(to.place(), 1), 2).unwrap();
            }
            let mut expected = vec![7; 5000];
            expected[4001..4902].copy_from_slice(&bytes[13..914]);
            expected[1..3].copy_from_slice(&bytes[..2]);
            assert!(download(&to) == expected, "{first} to {second}");
            let part = vec![0u8; 10];
            // SAFETY: both have 10 bytes.
            unsafe { device::copy(at(from.place(), 4990), host(&part), 10) }.unwrap();
            assert!(part == bytes[4990..]);
        }
    }
}

#[test]
fn streams_wait_for_events_of_every_device() {
    let Some(devices) = machine::devices() else { return };
    let len = 8 << 20;
    for &first in &devices {
        for &second in &devices {
            let (bytes, zeros) = (noise(len), vec![0u8; len]);
            let source = upload(first, &bytes);
            let (between, target) = (upload(first, &zeros), upload(second, &zeros));
            let (before, after) = (Stream::new(first).unwrap(), Stream::new(second).unwrap());
            let (start, done) = (Event::new(first).unwrap(), Event::new(first).unwrap());
            done.synchronize().unwrap();
            before.record(&start).unwrap();
            // SAFETY: all have `len` bytes.
            before.scope(|| unsafe { device::copy(source.place(), between.place(), len) }).unwrap();
            before.record(&done).unwrap();
            after.wait(&done).unwrap();
            // SAFETY: as above.
            after.scope(|| unsafe { device::copy(between.place(), target.place(), len) }).unwrap();
            // Freed while work may be pending: OpenCL keeps the memory.
            drop((source, between));
            after.synchronize().unwrap();
            assert!(download(&target) == bytes, "{first} to {second}");
            done.synchronize().unwrap();
            let elapsed = start.elapsed(&done).unwrap();
            assert!(!elapsed.is_zero(), "a copy takes time");
            // After another recording, it stands for the newer work.
            before.record(&start).unwrap();
            start.synchronize().unwrap();
        }
    }
}

#[test]
fn an_event_that_was_never_recorded_has_no_time() {
    let Some(device) = machine::first() else { return };
    let (one, other) = (Event::new(device).unwrap(), Event::new(device).unwrap());
    let stream = Stream::new(device).unwrap();
    stream.wait(&one).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(
        one.elapsed(&other).unwrap_err().to_string(),
        "RuntimeError: opencl: time is asked of an event that was never recorded"
    );
}

#[test]
fn memory_that_runs_out_is_an_error() {
    let Some(devices) = machine::devices() else { return };
    for device in devices {
        let number = |attribute| device::attribute(device, attribute).unwrap().to::<i64>().unwrap();
        let all = number(DeviceAttribute::TotalGlobalMemory) as usize;
        let error = DeviceMemory::new(device, all * 16, 64).map(drop).unwrap_err();
        assert_eq!(error.kind(), "MemoryError");
        let (size, text) = (all * 16, error.message().to_owned());
        assert!(text.starts_with(&format!("{device}: no memory for a buffer of {size} bytes: CL_INVALID_BUFFER_SIZE (-61); a buffer of this device has at most ")), "{text}");
    }
}

#[test]
fn many_buffers_run_out_of_memory_and_the_process_goes_on() {
    let Some(devices) = machine::devices() else { return };
    let said = in_another_process("runs_out_of_memory", "KERNPACK_OPENCL_DEVICES", "");
    let expected = devices.iter().map(|device| format!("{device}: MemoryError, then it worked on"));
    assert_eq!(said, expected.collect::<Vec<_>>().join(", "));
}

/// The other process: its address space is limited to 6 GiB, so that memory also runs out on a CPU
/// that overcommits memory.
#[test]
#[ignore = "started by another test"]
fn runs_out_of_memory() {
    let limit = libc::rlimit { rlim_cur: 6 << 30, rlim_max: 6 << 30 };
    // SAFETY: a plain system call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    let run_out = |device: &Device| {
        let size = 512 << 20;
        let mut held = Vec::new();
        let error = loop {
            assert!(held.len() < 4096, "{} buffers of {size} bytes and no error", held.len());
            // OpenCL may report this only at the first use.
            let touched = DeviceMemory::new(*device, size, 64).and_then(|memory| {
                // SAFETY: both have one byte.
                unsafe { device::copy(host(&[1u8]), memory.place(), 1) }.map(|()| memory)
            });
            match touched {
                Ok(memory) => held.push(memory),
                Err(error) => break error,
            }
        };
        assert!(error.message().starts_with(&format!("{device}: ")), "{error}");
        drop(held);
        let bytes = noise(100_000);
        assert!(download(&upload(*device, &bytes)) == bytes);
        format!("{device}: {}, then it worked on", error.kind())
    };
    let devices = machine::devices().unwrap();
    println!("said: {}", devices.iter().map(run_out).collect::<Vec<_>>().join(", "));
}

#[test]
fn many_threads_use_every_device() {
    let Some(devices) = machine::devices() else { return };
    std::thread::scope(|threads| {
        for thread in 0..8 {
            let device = devices[thread % devices.len()];
            threads.spawn(move || {
                for round in 0..20 {
                    let bytes = noise(10_000 * (thread + 1) + round);
                    let (stream, event) = (Stream::new(device).unwrap(), Event::new(device).unwrap());
                    stream.scope(|| assert!(download(&upload(device, &bytes)) == bytes));
                    stream.record(&event).unwrap();
                    event.synchronize().unwrap();
                }
            });
        }
    });
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let Some(devices) = machine::devices() else { return };
    let device = Device::new(device_type::OPENCL, 99);
    assert!(!device::exists(device));
    let error = DeviceMemory::new(device, 1, 1).map(drop).unwrap_err();
    let names = devices.iter().map(|device| {
        let name = device::attribute(*device, DeviceAttribute::DeviceName).unwrap().to::<String>().unwrap();
        format!("{device} ({name})")
    });
    let names = names.collect::<Vec<_>>().join(", ");
    assert_eq!(error.to_string(), format!("RuntimeError: there is no opencl:99; this machine has {names}"));
    assert!(!device::exists(Device::new(device_type::OPENCL, -1)));
}

#[test]
fn attributes_are_what_clinfo_says() {
    let Some(devices) = machine::devices() else { return };
    let Ok(output) = Command::new("clinfo").arg("--raw").output() else {
        return skip("clinfo is not installed");
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let said = |name: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| {
            let mut words = line.strip_prefix('[')?.split_whitespace();
            words.next()?;
            (words.next()? == name).then(|| words.collect::<Vec<_>>().join(" "))
        });
        lines.collect()
    };
    use DeviceAttribute as A;
    let shown = |device: Device, attribute: A| -> String {
        let value: Any = device::attribute(device, attribute).unwrap();
        value.to::<String>().unwrap_or_else(|_| value.to::<i64>().map_or("none".into(), |number| number.to_string()))
    };
    // The order of the devices differs from that of clinfo, so all values of an attribute are
    // compared.
    let rows: &[(A, &str)] = &[
        (A::MaxThreadsPerBlock, "CL_DEVICE_MAX_WORK_GROUP_SIZE"),
        (A::MaxSharedMemoryPerBlock, "CL_DEVICE_LOCAL_MEM_SIZE"),
        (A::DeviceName, "CL_DEVICE_NAME"),
        (A::MultiProcessorCount, "CL_DEVICE_MAX_COMPUTE_UNITS"),
        (A::DriverVersion, "CL_DRIVER_VERSION"),
        (A::L2CacheSize, "CL_DEVICE_GLOBAL_MEM_CACHE_SIZE"),
        (A::TotalGlobalMemory, "CL_DEVICE_GLOBAL_MEM_SIZE"),
    ];
    for (attribute, name) in rows {
        let mut ours: Vec<String> = devices.iter().map(|device| shown(*device, *attribute)).collect();
        let mut theirs = said(name);
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{attribute:?}");
    }
    for device in devices {
        assert_eq!(shown(device, A::Exist), "1");
        assert!(shown(device, A::MaxThreadDimensions).starts_with('['));
        let version = shown(device, A::ComputeVersion);
        assert_eq!(shown(device, A::ApiVersion), format!("{}0", version.replace('.', "")));
        assert!(shown(device, A::MaxClockRate).parse::<i64>().unwrap() >= 0);
        assert_eq!(shown(device, A::GcnArch), "none");
    }
}

/// The line that the test `test` prints in a process of its own with this variable.
fn in_another_process(test: &str, name: &str, value: &str) -> String {
    let output = test_again(module_path!(), test).args(["--ignored", "--nocapture"]).env(name, value).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split_once("said: ").map(|(_, line)| line.to_owned()));
    line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// The other process.
#[test]
#[ignore = "started by other tests"]
fn prints_its_devices() {
    let names = || -> Result<Vec<String>> {
        let api = device::api(device_type::OPENCL)?;
        let name = |index| api.attribute(index, DeviceAttribute::DeviceName)?.to::<String>();
        (0..api.device_count()?).map(name).collect()
    };
    assert_eq!(device::exists(Device::new(device_type::OPENCL, 0)), names().is_ok());
    match names() {
        Ok(names) => println!("said: {}", names.join(", ")),
        Err(error) => println!("said: {error}"),
    }
}

const DEVICES: &str = "prints_its_devices";

#[test]
fn what_is_missing_is_said() {
    let missing = "/nowhere/libOpenCL.so.1";
    assert_eq!(
        in_another_process(DEVICES, "KERNPACK_OPENCL_LIBRARY", missing),
        format!(
            "RuntimeError: opencl: the OpenCL library '{missing}' that KERNPACK_OPENCL_LIBRARY names cannot be loaded"
        )
    );
    let Some(devices) = machine::devices() else { return };
    assert_eq!(
        in_another_process(DEVICES, "OCL_ICD_VENDORS", "/nowhere"),
        "RuntimeError: opencl: the OpenCL loader finds no platform; install the driver of the device (Debian and Ubuntu, for the \
         CPU: pocl-opencl-icd; for a GPU: its vendor's), which puts a file into /etc/OpenCL/vendors"
    );
    let name =
        |device: &Device| device::attribute(*device, DeviceAttribute::DeviceName).unwrap().to::<String>().unwrap();
    if !name(&devices[0]).starts_with("pthread") {
        return skip_anywhere("the first OpenCL device is not the CPU of PoCL, whose variables are set");
    }
    assert_eq!(
        in_another_process(DEVICES, "POCL_DEVICES", ""),
        "RuntimeError: opencl: no OpenCL platform has a device that can be used (platforms: Portable Computing Language); install \
         the driver of the device, and see that this user may open it"
    );
    let one = in_another_process(DEVICES, "KERNPACK_OPENCL_DEVICES", "portable:1");
    assert!(one.starts_with("pthread-") && !one.contains(','), "{one}");
    let wrong = in_another_process(DEVICES, "KERNPACK_OPENCL_DEVICES", "nvidia");
    assert!(
        wrong.starts_with(
            "RuntimeError: opencl: KERNPACK_OPENCL_DEVICES: 'nvidia' fits no device; there are 0:0 (Portable"
        ),
        "{wrong}"
    );
}
