//! The cost of launching a CUDA kernel with our launcher and with cudarc's `launch_builder`, in
//! interleaved rounds.
//!
//! `kernpack-bench-cuda-launch [--driver LIBCUDA] [--rounds N] [--only NAME:SIDE:LAUNCHES]`:
//! measures with the machine's driver, or with a library in its place (`tests/c/fake_libcuda.c`,
//! compiled with `-DQUIET -Wl,-soname,libcuda.so`: its launches do nothing). Prints lines
//! `name<TAB>ours<TAB>peer`: the median nanoseconds of one launch. `--only` runs one side of one
//! case, for a profiler; SIDE is `ours` or `peer`.

use std::error::Error;
use std::ffi::CString;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use kernpack::module::KernelLauncher;
use kernpack::module::device_image::{ArgType, DeviceFunction, DeviceImage};
use kernpack::{DataType, Device, Function, Module, Tensor};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The launches of one measurement; the device's queue has room for more.
const BATCH: usize = 256;

/// Kernels with an empty body: without arguments, with two buffers and two numbers, with eight
/// buffers and four numbers.
const CODE: &str = "
.version 6.3
.target sm_75
.address_size 64
.visible .entry none() { ret; }
.visible .entry four(.param .u64 a, .param .u64 b, .param .f32 c, .param .u32 d) { ret; }
.visible .entry twelve(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u64 e, .param .u64 f,
    .param .u64 g, .param .u64 h, .param .f32 i, .param .u32 j, .param .u64 k, .param .f64 l) { ret; }
";

/// Both sides, ready to launch.
struct Bench {
    ours: [KernelLauncher; 3],
    packed: Function,
    tensors: [Tensor; 2],
    peer: [CudaFunction; 3],
    stream: Arc<CudaStream>,
    slices: [CudaSlice<f32>; 2],
}

impl Bench {
    fn new() -> Result<Self> {
        let four = vec![ArgType::POINTER, ArgType::POINTER, ArgType::FLOAT32, ArgType::INT32];
        let mut twelve = vec![ArgType::POINTER; 8];
        twelve.extend([ArgType::FLOAT32, ArgType::INT32, ArgType::INT64, ArgType::FLOAT64]);
        let kernels = vec![
            DeviceFunction::new("none", vec![], false),
            DeviceFunction::new("four", four, false),
            DeviceFunction::new("twelve", twelve, false),
        ];
        let module = Module::from_image("cuda", &DeviceImage::new("ptx", kernels, CODE.as_bytes()))?;
        let context = CudaContext::new(0)?;
        let stream = context.default_stream();
        let loaded = context.load_module(Ptx::from_src(CODE))?;
        let tensor = || Tensor::empty(DataType::FLOAT32, &[1024], Device::cuda(0));
        // SAFETY: the memory is not read.
        let slice = || unsafe { stream.alloc::<f32>(1024) };
        Ok(Self {
            ours: [module.kernel("none")?, module.kernel("four")?, module.kernel("twelve")?],
            packed: module.function("four")?,
            tensors: [tensor()?, tensor()?],
            peer: [loaded.load_function("none")?, loaded.load_function("four")?, loaded.load_function("twelve")?],
            slices: [slice()?, slice()?],
            stream,
        })
    }

    fn ours(&self, case: usize, launches: usize) -> kernpack::Result<()> {
        let [a, b] = &self.tensors;
        for number in 0..launches {
            let number = black_box(number as i32);
            match case {
                0 => self.ours[0].launch(1, 32, ())?,
                1 => self.ours[1].launch(1, 32, (a, b, 2.5f32, number))?,
                2 => self.ours[2].launch(1, 32, (a, b, a, b, a, b, a, b, 2.5f32, number, 7i64, 0.5f64))?,
                _ => drop(self.packed.call((a, b, 2.5f32, number, 1, 1, 1, 32, 1, 1))?),
            }
        }
        Ok(())
    }

    fn peer(&self, case: usize, launches: usize) -> std::result::Result<(), cudarc::driver::DriverError> {
        let [a, b] = &self.slices;
        let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
        for number in 0..launches {
            let number = black_box(number as i32);
            // SAFETY: the kernels have these parameters, and an empty body.
            unsafe {
                match case {
                    0 => self.stream.launch_builder(&self.peer[0]).launch(config)?,
                    2 => self
                        .stream
                        .launch_builder(&self.peer[2])
                        .arg(a)
                        .arg(b)
                        .arg(a)
                        .arg(b)
                        .arg(a)
                        .arg(b)
                        .arg(a)
                        .arg(b)
                        .arg(&2.5f32)
                        .arg(&number)
                        .arg(&7i64)
                        .arg(&0.5f64)
                        .launch(config)?,
                    // Our packed call is compared with cudarc's typed one.
                    _ => self
                        .stream
                        .launch_builder(&self.peer[1])
                        .arg(a)
                        .arg(b)
                        .arg(&2.5f32)
                        .arg(&number)
                        .launch(config)?,
                };
            }
        }
        Ok(())
    }

    /// The nanoseconds of one launch. All launches have finished when this returns.
    fn time(&self, launches: impl Fn() -> Result) -> Result<f64> {
        let mut total = 0;
        for _ in 0..16 {
            let start = Instant::now();
            launches()?;
            total += start.elapsed().as_nanos();
            self.stream.synchronize()?;
        }
        Ok(total as f64 / (16 * BATCH) as f64)
    }
}

/// Opens a library in the place of the driver: both sides find the library that is loaded under the
/// driver's name.
fn stand_in(path: &str) -> Result {
    let path = CString::new(path)?;
    // SAFETY: the caller chose the library.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() { Err(format!("{path:?} cannot be opened").into()) } else { Ok(()) }
}

fn run() -> Result {
    let names = ["launch_no_arguments", "launch_4_arguments", "launch_12_arguments", "launch_4_arguments_packed"];
    let (mut rounds, mut only) = (31, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{option}: a value is missing"))?;
        match option.as_str() {
            "--driver" => stand_in(&value)?,
            "--rounds" => rounds = value.parse()?,
            "--only" => only = Some(value),
            _ => return Err(format!("unknown option '{option}'").into()),
        }
    }
    if let Err(error) = kernpack::device::api(kernpack::device::device_type::CUDA)?.device_count() {
        eprintln!("no launch was measured: {}", error.message());
        return Ok(());
    }
    let bench = Bench::new()?;
    if let Some(only) = only {
        let parts: Vec<&str> = only.split(':').collect();
        let [name, side, launches] = parts[..] else { return Err("--only NAME:SIDE:LAUNCHES".into()) };
        let case = names.iter().position(|known| *known == name).ok_or("--only: no such case")?;
        match side {
            "ours" => bench.ours(case, launches.parse()?)?,
            _ => bench.peer(case, launches.parse()?)?,
        }
        return Ok(());
    }
    for (case, name) in names.iter().enumerate() {
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(bench.time(|| Ok(bench.ours(case, BATCH)?))?);
            peer.push(bench.time(|| Ok(bench.peer(case, BATCH)?))?);
        }
        let median = |mut samples: Vec<f64>| {
            samples.sort_by(f64::total_cmp);
            samples[samples.len() / 2]
        };
        println!("{name}\t{:.1}\t{:.1}", median(ours), median(peer));
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernpack-bench-cuda-launch: {error}");
            ExitCode::FAILURE
        }
    }
}
