//! `gpu-kit STEP [ARGUMENT..]`: one step of the kit that `cargo xtask gpu-kit` builds, as a process
//! of its own.
//!
//! A step ends with status 0, or prints its problem on standard error. Its output is for people;
//! `run.py` records the numbers of lines `measured NAME NUMBER UNIT`. Steps need a CUDA device; on
//! a machine without one, each ends with the driver's message.

mod arithmetic;
mod copies;
mod device;
mod images;
mod launches;
mod memory;
mod mistakes;
mod numbers;
mod sanitize;
mod source;
mod streams;
mod threads;

use std::path::PathBuf;
use std::process::ExitCode;

use kernpack::{Device, Module};

/// The result of a step. An error ends it.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The device that all steps use.
const GPU: Device = Device::cuda(0);

const USAGE: &str = "usage: gpu-kit STEP
  device                    what the driver says of the device
  copies                    bandwidth of copies
  arithmetic SEED           kernels at random sizes, compared with the CPU
  launches                  every way to launch a kernel
  streams                   order, asynchrony, events
  memory                    device, pinned and managed tensors, views, memory that is given back
  source                    CUDA C++ compiled by NVRTC at run time
  threads                   many threads, each with a stream
  sanitize                  a short run of every kernel, for compute-sanitizer
  mistake NAME              bad-ptx | wrong-architecture FOLDER | cut-off | out-of-memory | illegal-address | too-many-threads |
                            too-large-grid | too-much-shared-memory | tensor-elsewhere
  image FILE                load an image of the kit, and the time of its first launch
  pack FOLDER PTX CUBIN     write the images of the kit (on the machine that builds it)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["device"] => device::run(),
        ["copies"] => copies::run(),
        ["arithmetic", seed] => seed.parse().map_err(Into::into).and_then(arithmetic::run),
        ["launches"] => launches::run(),
        ["streams"] => streams::run(),
        ["memory"] => memory::run(),
        ["source"] => source::run(),
        ["threads"] => threads::run(),
        ["sanitize"] => sanitize::run(),
        ["mistake", ref mistake @ ..] => mistakes::run(mistake),
        ["image", file] => images::run(file),
        ["pack", folder, ptx, cubin] => images::pack(folder, ptx, cubin),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpu-kit: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A library of the kit, from the folder `lib` beside the folder of this program.
fn library(name: &str) -> Result<Module> {
    let program = std::env::current_exe()?;
    let kit = program.ancestors().nth(2).ok_or("this program has no folder")?;
    let path: PathBuf = kit.join("lib").join(name);
    Ok(Module::load(&path)?)
}

/// Prints a number that `run.py` records.
fn measured(name: &str, value: f64, unit: &str) {
    println!("measured {name} {value:.4} {unit}");
}
