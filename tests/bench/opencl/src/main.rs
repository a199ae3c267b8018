//! Copies and launches on opencl:0, ours beside direct calls of clEnqueue* on the same buffers and
//! in the same queue.
//!
//! Prints one line for each measurement: name, nanoseconds of ours, nanoseconds of the peer,
//! separated by tabs; medians.

use kernpack::device::{self, DeviceMemory, Place};
use kernpack::module::device_image::{ArgType, DeviceFunction, DeviceImage};
use kernpack::{DataType, Device, Module, Result, Tensor};
use opencl_sys::cl_function_types::{
    clBuildProgram_t, clCreateKernel_t, clCreateProgramWithSource_t, clEnqueueNDRangeKernel_t, clEnqueueReadBuffer_t,
    clEnqueueWriteBuffer_t, clFinish_t, clSetKernelArg_t,
};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::time::Instant;

const SOURCE: &str = "__kernel void touch(__global float* out, float value, int n) { if (n < 0) out[0] = value; }";

/// Launches between two waits.
const LAUNCHES: u32 = 100;

macro_rules! peer {
    ($($name:ident: $type:ident,)*) => {
        /// The functions of OpenCL that the peer calls.
        #[allow(non_snake_case)]
        struct Peer {
            $($name: <$type as Unwrapped>::Function,)*
        }

        impl Peer {
            fn load() -> Self {
                // SAFETY: this is the OpenCL library, which is loaded already.
                let library = unsafe { libc::dlopen(c"libOpenCL.so.1".as_ptr(), libc::RTLD_NOW) };
                assert!(!library.is_null(), "there is no libOpenCL.so.1");
                Self {
                    $($name: {
                        // SAFETY: a plain lookup of a function whose type OpenCL defines.
                        let function: $type = unsafe {
                            std::mem::transmute(libc::dlsym(library, concat!(stringify!($name), "\0").as_ptr().cast()))
                        };
                        function.expect(stringify!($name))
                    },)*
                }
            }
        }
    };
}

/// The type inside an `Option`.
trait Unwrapped {
    type Function;
}

impl<F> Unwrapped for Option<F> {
    type Function = F;
}

peer! {
    clBuildProgram: clBuildProgram_t,
    clCreateKernel: clCreateKernel_t,
    clCreateProgramWithSource: clCreateProgramWithSource_t,
    clEnqueueNDRangeKernel: clEnqueueNDRangeKernel_t,
    clEnqueueReadBuffer: clEnqueueReadBuffer_t,
    clEnqueueWriteBuffer: clEnqueueWriteBuffer_t,
    clFinish: clFinish_t,
    clSetKernelArg: clSetKernelArg_t,
}

/// Medians of two implementations of the same task, measured in turns.
fn compare(name: &str, rounds: usize, mut ours: impl FnMut() -> u128, mut peer: impl FnMut() -> u128) {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..rounds + 2 {
        // The second one finds warm caches, so they take turns in running first.
        let (own, other) = if round % 2 == 0 {
            let own = ours();
            (own, peer())
        } else {
            let other = peer();
            (ours(), other)
        };
        // The first two rounds are for warming up.
        if round >= 2 {
            times[0].push(own);
            times[1].push(other);
        }
    }
    let median = |times: &mut Vec<u128>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let [mut own, mut other] = times;
    println!("{name}\t{}\t{}", median(&mut own), median(&mut other));
}

fn timed(work: impl FnOnce()) -> u128 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos()
}

fn main() -> Result<()> {
    let device: Device = "opencl:0".parse()?;
    let api = device::api(device.device_type())?;
    let queue = api.native_handle(0, "stream")?;
    let peer = Peer::load();

    for size in [4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20] {
        let mut bytes = vec![1u8; size];
        let memory = DeviceMemory::new(device, size, 64)?;
        let host = Place { device: Device::CPU, data: bytes.as_mut_ptr().cast(), byte_offset: 0 };
        let (there, data) = (memory.place(), host.data);
        let rounds = (1 << 30) / size.max(1 << 20);
        let rounds = rounds.clamp(9, 301);
        compare(
            &format!("to opencl, {} KiB", size >> 10),
            rounds,
            // SAFETY: both have `size` bytes.
            || timed(|| unsafe { device::copy(host, there, size) }.unwrap()),
            || {
                // SAFETY: as above; the queue is one of the buffer's context.
                timed(|| unsafe {
                    let status =
                        (peer.clEnqueueWriteBuffer)(queue, there.data, 1, 0, size, data, 0, null(), null_mut());
                    assert_eq!(status, 0);
                })
            },
        );
        compare(
            &format!("from opencl, {} KiB", size >> 10),
            rounds,
            // SAFETY: as above.
            || timed(|| unsafe { device::copy(there, host, size) }.unwrap()),
            || {
                // SAFETY: as above.
                timed(|| unsafe {
                    let status = (peer.clEnqueueReadBuffer)(queue, there.data, 1, 0, size, data, 0, null(), null_mut());
                    assert_eq!(status, 0);
                })
            },
        );
    }
    launches(&peer, device, queue)
}

/// Measures setting three arguments and enqueueing a kernel; the kernels themselves do nothing.
fn launches(peer: &Peer, device: Device, queue: *mut c_void) -> Result<()> {
    let kernels = vec![DeviceFunction::new("touch", vec![ArgType::POINTER, ArgType::FLOAT32, ArgType::INT32], false)];
    let module = Module::from_image("opencl", &DeviceImage::new("cl", kernels, SOURCE.as_bytes()))?;
    let touch = module.kernel("touch")?;
    let out = Tensor::empty(DataType::FLOAT32, &[1], device)?;
    let api = device::api(device.device_type())?;
    let (context, id) = (api.native_handle(0, "context")?, api.native_handle(0, "device")?);
    let mut status = 0;
    // SAFETY: context and device are those of the queue; one source of this length.
    let kernel = unsafe {
        let (mut text, length) = (SOURCE.as_ptr().cast(), SOURCE.len());
        let program = (peer.clCreateProgramWithSource)(context, 1, &mut text, &length, &mut status);
        assert_eq!((peer.clBuildProgram)(program, 1, &id, c"".as_ptr(), None, null_mut()), 0);
        (peer.clCreateKernel)(program, c"touch".as_ptr(), &mut status)
    };
    assert_eq!(status, 0);
    let memory = out.dl_tensor().data;
    let finish = || {
        // SAFETY: the queue is alive.
        assert_eq!(unsafe { (peer.clFinish)(queue) }, 0);
    };
    compare(
        "launch with 3 arguments",
        301,
        || {
            let time = timed(|| (0..LAUNCHES).for_each(|_| touch.launch(1, 1, (&out, 1.0, 1)).unwrap()));
            finish();
            time / u128::from(LAUNCHES)
        },
        || {
            // SAFETY: the arguments are those of the kernel.
            let time = timed(|| unsafe {
                for _ in 0..LAUNCHES {
                    let (value, n, one) = (1.0f32, 1i32, 1usize);
                    let set = |index, size, value: *const c_void| {
                        assert_eq!((peer.clSetKernelArg)(kernel, index, size, value), 0);
                    };
                    set(0, 8, (&raw const memory).cast());
                    set(1, 4, (&raw const value).cast());
                    set(2, 4, (&raw const n).cast());
                    let status =
                        (peer.clEnqueueNDRangeKernel)(queue, kernel, 1, null(), &one, &one, 0, null(), null_mut());
                    assert_eq!(status, 0);
                }
            });
            finish();
            time / u128::from(LAUNCHES)
        },
    );
    Ok(())
}
