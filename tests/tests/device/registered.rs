//! Devices with their own memory and queues: tensors on them, streams and events, many threads, and
//! memory that runs out.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::fake::Fake;
use kernpack::device::{self, DeviceAttribute, DeviceMemory, Event, Place, RawStream, Stream};
use kernpack::sys::abi::{DLManagedTensorVersioned, DLPackVersion, DLTensor, device_type};
use kernpack::{DataType, Device, Element, Function, Result, Tensor, TensorViewMut, packed_func};

static MAIA: Fake = Fake::new(device_type::MAIA, "maia", 2);
static TRN: Fake = Fake::new(device_type::TRN, "trn", 1);
static MADE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: its memory consists of vectors behind handles; all work checks bounds and keeps the
// memory that it uses alive.
kernpack::device_api!(unsafe device_type::MAIA, || {
    MADE.fetch_add(1, Ordering::Relaxed);
    &MAIA
});
// SAFETY: as above.
kernpack::device_api!(unsafe device_type::TRN, || &TRN);

const MAIA_0: Device = Device::new(device_type::MAIA, 0);
const MAIA_1: Device = Device::new(device_type::MAIA, 1);
const TRN_0: Device = Device::new(device_type::TRN, 0);
const ALL: [Device; 4] = [Device::CPU, MAIA_0, MAIA_1, TRN_0];

/// The counters belong to the process, so one test runs at a time. At its end all counters are
/// zero.
struct Alone(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

fn alone() -> Alone {
    static RUNNING: Mutex<()> = Mutex::new(());
    Alone(RUNNING.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Drop for Alone {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!([MAIA.alive(), TRN.alive()], [[0; 3]; 2], "blocks, streams and events that were not given back");
        }
    }
}

fn numbers(count: i32) -> Vec<i32> {
    (0..count).map(|number| number * 7 - 3).collect()
}

#[track_caller]
fn content<T: Element>(tensor: &Tensor) -> Vec<T> {
    tensor.to(Device::CPU).unwrap().view::<T>().unwrap().to_vec()
}

#[test]
fn what_is_known_about_a_device() -> Result<()> {
    let _alone = alone();
    assert!(device::exists(MAIA_1) && !device::exists(MAIA.device(2)) && !device::exists(MAIA.device(-1)));
    assert_eq!(device::api(device_type::MAIA)?.device_count()?, 2);
    assert_eq!(device::attribute(MAIA_1, DeviceAttribute::DeviceName)?.to::<String>()?, "fake maia:1");
    assert!(device::attribute(MAIA_1, DeviceAttribute::WarpSize)?.to::<Option<i64>>()?.is_none());
    let error = device::attribute(MAIA.device(2), DeviceAttribute::WarpSize).unwrap_err();
    assert_eq!(error.to_string(), "RuntimeError: there is no maia:2; there are 2");
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| device::api(device_type::MAIA).unwrap().name() == "maia");
        }
    });
    assert_eq!(MADE.load(Ordering::Relaxed), 1, "made once");
    Ok(())
}

#[test]
fn copies_between_all_devices() -> Result<()> {
    let _alone = alone();
    for shape in [&[][..], &[1], &[0, 4], &[2, 3], &[3, 5, 7]] {
        let values = numbers(shape.iter().product::<i64>() as i32);
        let here = Tensor::from_vec(values.clone(), shape)?;
        for first in ALL {
            let tensor = here.to(first)?;
            assert_eq!((tensor.device(), tensor.dtype(), tensor.shape()), (first, DataType::INT32, shape));
            for second in ALL {
                let copy = tensor.to(second)?;
                assert_eq!(content::<i32>(&copy), values, "{shape:?} from {first} to {second}");
                let mut target = Tensor::empty(DataType::INT32, shape, second)?;
                target.copy_from(&tensor)?;
                assert_eq!(content::<i32>(&target), values, "{shape:?} from {first} into {second}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_copy_through_host_memory_is_longer_than_one_piece() -> Result<()> {
    let _alone = alone();
    let values = numbers(2_500_001);
    let there = Tensor::from_vec(values.clone(), &[2_500_001])?.to(MAIA_0)?;
    assert!(content::<i32>(&there.to(TRN_0)?.to(MAIA_1)?) == values);
    Ok(())
}

#[test]
fn parts_of_a_tensor_share_its_memory() -> Result<()> {
    let _alone = alone();
    let whole = Tensor::from_vec(numbers(24), &[4, 6])?.to(MAIA_0)?;
    let rows = whole.slice(1..3)?;
    assert_eq!((rows.dl_tensor().data, rows.dl_tensor().byte_offset), (whole.dl_tensor().data, 24), "a handle stays");
    assert_eq!(content::<i32>(&rows), numbers(24)[6..18]);
    let part = rows.reshape(&[3, 4])?.slice(1..3)?.view_as(&[2, 2], DataType::INT32, 8)?;
    assert_eq!((part.dl_tensor().byte_offset, content::<i32>(&part)), (24 + 16 + 8, numbers(24)[12..16].to_vec()));
    // Writes to a part change the whole; the whole may be dropped.
    let mut target = whole.slice(3..4)?;
    target.copy_from(&whole.slice(0..1)?)?;
    assert_eq!(content::<i32>(&whole)[18..], numbers(6));
    target.copy_from(&Tensor::from_vec(vec![5; 6], &[1, 6])?)?;
    drop((whole, rows));
    assert_eq!(MAIA.alive(), [1, 0, 0]);
    assert_eq!(content::<i32>(&target), [5; 6]);
    Ok(())
}

#[test]
fn a_part_is_copied_over_another_that_it_overlaps() -> Result<()> {
    let _alone = alone();
    let whole = Tensor::from_vec(numbers(8), &[8])?.to(MAIA_0)?;
    let mut low = whole.slice(0..6)?;
    low.copy_from(&whole.slice(2..8)?)?;
    let mut same = low.clone();
    same.copy_from(&low)?;
    assert_eq!(content::<i32>(&whole), [&numbers(8)[2..], &numbers(8)[6..]].concat());
    Ok(())
}

/// A DLPack tensor with the targets of its pointers.
struct Managed {
    tensor: DLManagedTensorVersioned,
    #[expect(dead_code, reason = "the tensor points into it")]
    dimensions: Vec<i64>,
}

unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: created by `foreign`, and freed once.
    drop(unsafe { Box::from_raw((*tensor).manager_ctx.cast::<Managed>()) });
}

/// A tensor over `data`, which outlives it, with these strides and this offset.
fn foreign(device: Device, data: *mut c_void, shape: &[i64], strides: &[i64], byte_offset: u64) -> Result<Tensor> {
    let mut dimensions = [shape, strides].concat();
    let dl_tensor = DLTensor {
        data,
        device: device.as_raw(),
        ndim: shape.len() as i32,
        dtype: DataType::INT32.as_raw(),
        shape: dimensions.as_mut_ptr(),
        strides: dimensions[shape.len()..].as_mut_ptr(),
        byte_offset,
    };
    let tensor = DLManagedTensorVersioned {
        version: DLPackVersion { major: 1, minor: 1 },
        manager_ctx: std::ptr::null_mut(),
        deleter: Some(delete),
        flags: 0,
        dl_tensor,
    };
    let managed = Box::into_raw(Box::new(Managed { tensor, dimensions }));
    // SAFETY: we own the box; the tensor's pointers live as long as it, or as long as the test.
    unsafe {
        (*managed).tensor.manager_ctx = managed.cast();
        Tensor::from_dlpack(&raw mut (*managed).tensor)
    }
}

#[test]
fn strides() -> Result<()> {
    let _alone = alone();
    let mut values = numbers(24);
    let data = values.as_mut_ptr().cast::<c_void>();
    for (shape, strides, start) in [
        (&[4, 6][..], &[6, 1][..], 0u64),
        (&[6, 4], &[1, 6], 0),
        (&[2, 3, 4], &[4, 8, 1], 0),
        (&[4, 2], &[6, 3], 1),
        (&[4, 3], &[6, 1], 2),
        (&[24], &[-1], 23),
        (&[4, 6], &[-6, -1], 23),
        (&[3, 4], &[0, 1], 4),
        (&[3, 1, 2], &[2, 99, 5], 0),
        (&[0, 2], &[7, 7], 0),
    ] {
        let tensor = foreign(Device::CPU, data, shape, strides, 4 * start)?;
        let expected = tensor.view::<i32>()?.iter().collect::<Vec<_>>();
        for device in ALL {
            let copy = tensor.to(device)?;
            assert!(copy.is_contiguous());
            assert_eq!(content::<i32>(&copy), expected, "{shape:?} by {strides:?} on {device}");
        }
    }
    let transposed = foreign(Device::CPU, data, &[2, 2], &[i64::MAX, i64::MIN], 0)?;
    let error = transposed.to(MAIA_0).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("ValueError: the tensor's strides {:?} lead out of memory", [i64::MAX, i64::MIN])
    );
    Ok(())
}

#[packed_func(name = "test.devices.copy_while_writing")]
fn copy_while_writing(mut y: TensorViewMut<i32>) -> Result<()> {
    y.set(&[0], 9);
    HELD.lock().unwrap().as_ref().unwrap().to(MAIA_0).map(drop)
}
static HELD: Mutex<Option<Tensor>> = Mutex::new(None);

#[test]
fn what_cannot_be_copied() -> Result<()> {
    let _alone = alone();
    let mut values = numbers(6);
    let there = Tensor::from_vec(values.clone(), &[2, 3])?.to(MAIA_0)?;
    let (data, byte_offset) = (there.dl_tensor().data, there.dl_tensor().byte_offset);
    let transposed = foreign(MAIA_0, data, &[3, 2], &[1, 3], byte_offset)?;
    let no_data = foreign(MAIA_0, std::ptr::null_mut(), &[2], &[1], 0)?;
    let nowhere = Device::new(device_type::VULKAN, 0);
    let mut theirs = foreign(Device::CPU, values.as_mut_ptr().cast(), &[2, 3], &[3, 1], 0)?;
    let mut ours = Tensor::zeros::<i32>(&[2, 3])?;
    let shared = "ValueError: the tensor is shared, so it cannot be written to in place; write to a new tensor, or take a \
                  TensorViewMut as the parameter of a packed function";
    let mut part = ours.slice(0..1)?;
    let not_contiguous = "shape [3, 2], strides [1, 3] (in elements); make it contiguous there, and copy that";
    for (result, problem) in [
        (transposed.to(Device::CPU).map(drop), format!("ValueError: the tensor on maia:0 is not contiguous: {not_contiguous}")),
        (transposed.to(TRN_0).map(drop), format!("ValueError: the tensor on maia:0 is not contiguous: {not_contiguous}")),
        (no_data.to(Device::CPU).map(drop), "ValueError: the tensor on maia:0 has shape [2] but no data".to_owned()),
        (there.to(MAIA.device(7)).map(drop), "RuntimeError: there is no maia:7; there are 2".to_owned()),
        (
            there.to(nowhere).map(drop),
            "RuntimeError: no library in this process provides vulkan devices; load a library that brings them \
             (kernpack::device_api!)"
                .to_owned(),
        ),
        (
            there.view::<i32>().map(drop),
            "ValueError: the tensor is on maia:0, but the function reads it on the CPU; copy it first, with .to(Device::CPU)"
                .to_owned(),
        ),
        (theirs.copy_from(&there), shared.to_owned()),
        (part.copy_from(&there.slice(1..2)?), shared.to_owned()),
        (ours.copy_from(&there), shared.to_owned()),
        (
            ours.copy_from(&there.reshape(&[6])?),
            "ValueError: a tensor of int32 with shape [6] cannot be copied into one of int32 with shape [2, 3]".to_owned(),
        ),
        (
            transposed.clone().copy_from(&there.reshape(&[3, 2])?),
            "ValueError: the tensor to copy into is not contiguous; copy into a contiguous one".to_owned(),
        ),
    ] {
        assert_eq!(result.unwrap_err().to_string(), problem);
    }
    drop(part);
    ours.copy_from(&there)?;
    assert_eq!(content::<i32>(&ours), values);

    *HELD.lock().unwrap() = Some(ours.clone());
    let error = Function::global("test.devices.copy_while_writing")?.call((&ours.reshape(&[6])?,)).unwrap_err();
    assert_eq!(error.message(), "the tensor's memory is being written to by a view that is still alive; wait for it");
    *HELD.lock().unwrap() = None;
    Ok(())
}

#[test]
fn memory_that_runs_out() -> Result<()> {
    let _alone = alone();
    MAIA.limit(1000);
    let kept = Tensor::empty(DataType::INT8, &[900], MAIA_0)?;
    let error = Tensor::empty(DataType::INT8, &[101], MAIA_0).unwrap_err();
    assert_eq!(error.to_string(), "MemoryError: out of memory: maia:0 has 100 of 1000 bytes left, not 101");
    assert_eq!(kept.to(MAIA_0).unwrap_err().kind(), "MemoryError");
    assert_eq!(DeviceMemory::new(MAIA_0, usize::MAX, 64).unwrap_err().kind(), "MemoryError");
    // Everything else continues to work.
    assert_eq!(kept.to(MAIA_1)?.to(Device::CPU)?.len(), 900);
    drop(kept);
    Tensor::empty(DataType::INT8, &[1000], MAIA_0)?;
    MAIA.limit(64 << 20);
    Ok(())
}

#[test]
fn work_is_in_the_current_stream() -> Result<()> {
    let _alone = alone();
    let source = Tensor::from_vec(numbers(4), &[4])?.to(MAIA_0)?;
    let (busy, free) = (Stream::new(MAIA_0)?, Stream::new(MAIA_0)?);
    let mut target = Tensor::from_vec(vec![0; 4], &[4])?.to(MAIA_0)?;
    let gate = MAIA.hold(0, busy.as_raw());
    busy.scope(|| {
        assert_eq!(device::current_stream(MAIA_0), busy.as_raw());
        assert_eq!(device::current_stream(MAIA_1), RawStream::DEFAULT, "of that device only");
        target.copy_from(&source)
    })?;
    assert_eq!(device::current_stream(MAIA_0), RawStream::DEFAULT);
    assert_eq!(
        content::<i32>(&target),
        [0; 4],
        "the copy waits in its stream, and the default one does not wait for it"
    );

    // Another stream waits for an event, the caller does not wait.
    let copied = Event::new(MAIA_0)?;
    busy.record(&copied)?;
    free.wait(&copied)?;
    let mut further = Tensor::empty(DataType::INT32, &[4], MAIA_0)?;
    free.scope(|| further.copy_from(&target))?;
    // A dropped block stays alive until the work that uses it has finished.
    drop(source);
    drop(target);
    gate.set();
    free.synchronize()?;
    assert_eq!(content::<i32>(&further), numbers(4));
    Ok(())
}

#[test]
fn a_copy_to_another_device_of_the_kind_follows_the_work_of_the_first() -> Result<()> {
    let _alone = alone();
    let (first, second) = (Stream::new(MAIA_0)?, Stream::new(MAIA_1)?);
    let source = Tensor::from_vec(numbers(4), &[4])?.to(MAIA_0)?;
    let gate = MAIA.hold(0, first.as_raw());
    let there = first.scope(|| {
        let between = source.to(MAIA_0)?;
        second.scope(|| between.to(MAIA_1))
    })?;
    assert_eq!(content::<i32>(&there), [0xA5A5_A5A5_u32 as i32; 4], "nothing is copied yet");
    gate.set();
    second.synchronize()?;
    assert_eq!(content::<i32>(&there), numbers(4));
    Ok(())
}

#[test]
fn events_measure_time() -> Result<()> {
    let _alone = alone();
    let stream = Stream::new(TRN_0)?;
    let (start, end) = (Event::new(TRN_0)?, Event::new(TRN_0)?);
    assert_eq!(start.elapsed(&end).unwrap_err().to_string(), "RuntimeError: an event of trn was not recorded");
    stream.record(&start)?;
    let gate = TRN.hold(0, stream.as_raw());
    stream.record(&end)?;
    std::thread::scope(|threads| {
        let time = threads.spawn(|| start.elapsed(&end));
        gate.set();
        time.join().unwrap()
    })?;
    let elsewhere = Event::new(MAIA_1)?;
    for (result, problem) in [
        (stream.record(&elsewhere), "an event of maia:1 cannot be recorded in a stream of trn:0"),
        (stream.wait(&elsewhere), "a stream of trn:0 cannot wait for an event of maia:1; use Event::synchronize"),
        (start.elapsed(&elsewhere).map(drop), "there is no time between events of trn:0 and maia:1"),
    ] {
        assert_eq!(result.unwrap_err().to_string(), format!("ValueError: {problem}"));
    }
    let error = Event::new(MAIA.device(2)).unwrap_err();
    assert_eq!(error.to_string(), "RuntimeError: there is no maia:2; there are 2");
    Ok(())
}

#[test]
fn dlpack_keeps_the_handle_and_the_offset() -> Result<()> {
    let _alone = alone();
    let whole = Tensor::from_vec(numbers(6), &[3, 2])?.to(MAIA_1)?;
    let managed = whole.slice(1..3)?.to_dlpack()?;
    // SAFETY: the tensor is exported, alive, and passed to the import.
    let (data, byte_offset, back) = unsafe {
        let tensor = &(*managed).dl_tensor;
        (tensor.data, tensor.byte_offset, Tensor::from_dlpack(managed)?)
    };
    assert_eq!((data, byte_offset, back.device()), (whole.dl_tensor().data, 8, MAIA_1));
    drop(whole);
    assert_eq!(content::<i32>(&back), numbers(6)[2..]);
    Ok(())
}

#[test]
fn the_environment_allocates_on_every_device() -> Result<()> {
    let _alone = alone();
    for device in ALL {
        let mut tensor = Tensor::from_env_alloc(DataType::INT32, &[2, 2], device)?;
        assert_eq!((tensor.device(), tensor.shape(), tensor.is_contiguous()), (device, &[2, 2][..], true));
        if device != Device::CPU {
            tensor.copy_from(&Tensor::from_vec(numbers(4), &[2, 2])?)?;
            assert_eq!(content::<i32>(&tensor), numbers(4));
        }
    }
    MAIA.limit(3);
    let error = Tensor::from_env_alloc(DataType::INT32, &[1], MAIA_0).unwrap_err();
    assert_eq!(error.to_string(), "MemoryError: out of memory: maia:0 has 3 of 3 bytes left, not 4");
    MAIA.limit(64 << 20);
    Ok(())
}

#[test]
fn workspaces_come_from_the_device() {
    let _alone = alone();
    device::api(device_type::MAIA).unwrap();
    let symbol = |name: &str| {
        let symbols = kernpack::sys::embedded::module_env::context_symbols();
        symbols.into_iter().find(|(known, _)| known == name.as_bytes()).unwrap().1
    };
    type Allocate = unsafe extern "C" fn(i32, i32, u64, i32, i32) -> *mut c_void;
    type Free = unsafe extern "C" fn(i32, i32, *mut c_void) -> i32;
    // SAFETY: the symbols of these names have these types.
    let (allocate, free) = unsafe {
        (
            std::mem::transmute::<*mut c_void, Allocate>(symbol("__TVMBackendAllocWorkspace")),
            std::mem::transmute::<*mut c_void, Free>(symbol("__TVMBackendFreeWorkspace")),
        )
    };
    // SAFETY: the freed memory was allocated.
    unsafe {
        let blocks = [0u64, 100].map(|size| allocate(device_type::MAIA, 1, size, 2, 32));
        assert!(blocks.iter().all(|block| !block.is_null()) && MAIA.alive()[0] == 2);
        for block in blocks {
            assert_eq!(free(device_type::MAIA, 1, block), 0);
        }
        assert!(allocate(device_type::MAIA, 1, u64::MAX, 2, 32).is_null());
        assert!(allocate(device_type::METAL, 0, 8, 2, 32).is_null());
    }
}

#[test]
fn many_threads_and_many_devices() {
    let _alone = alone();
    std::thread::scope(|threads| {
        for thread in 0..8 {
            threads.spawn(move || {
                let values: Vec<i32> = (0..257).map(|number| number * (thread + 1)).collect();
                let here = Tensor::from_vec(values.clone(), &[257]).unwrap();
                let device = ALL[1 + thread as usize % 3];
                let stream = Stream::new(device).unwrap();
                for round in 0..40 {
                    let there = stream.scope(|| here.to(device)).unwrap();
                    let next = ALL[(thread as usize + round) % ALL.len()];
                    let moved = stream.scope(|| there.to(next)).unwrap();
                    // Copies within a device use this thread's stream, for which the others do not
                    // wait.
                    stream.synchronize().unwrap();
                    drop(there);
                    let back = stream.scope(|| moved.slice(1..257).unwrap().to(Device::CPU)).unwrap();
                    assert_eq!(back.view::<i32>().unwrap().as_slice().unwrap(), &values[1..]);
                }
            });
        }
    });
}

#[test]
fn the_function_for_places() -> Result<()> {
    let _alone = alone();
    let source = DeviceMemory::new(TRN_0, 16, 64)?;
    let target = DeviceMemory::new(MAIA_1, 16, 64)?;
    let mut bytes = *b"0123456789abcdef";
    let here = Place { device: Device::CPU, data: bytes.as_mut_ptr().cast(), byte_offset: 0 };
    let at = |place: Place, byte_offset| Place { byte_offset, ..place };
    // SAFETY: all places contain the copied bytes.
    unsafe {
        device::copy(here, source.place(), 16)?;
        device::copy(at(source.place(), 4), at(target.place(), 8), 6)?;
        device::copy(at(target.place(), 8), here, 6)?;
    }
    assert_eq!(&bytes, b"4567896789abcdef");
    Ok(())
}
