//! Random schedules with device threads, run on an OpenCL device.

use std::cell::Cell;
use std::io::Write as _;

use kernpack::Device;
use kernpack::device::{self, device_type};

use crate::choices::{self, Choices};
use crate::{fuzz as graphs, problem_of};

/// The first device; if there is none, prints a line and returns `None`.
pub(crate) fn device() -> Option<Device> {
    match device::api(device_type::OPENCL).and_then(|api| api.device_count()) {
        Ok(_) => Some(Device::new(device_type::OPENCL, 0)),
        Err(error) => {
            let is_required = std::env::var("KERNPACK_OPENCL").as_deref() == Ok("require");
            assert!(!is_required && std::env::var_os("CI").is_none(), "{error}");
            // Bypasses the test harness, which hides the output of a passing test.
            let line = format!("skipped: random schedules on OpenCL: {}\n", error.message());
            let _ = std::io::stderr().write_all(line.as_bytes());
            None
        }
    }
}

/// Runs the schedules of seeds until this many programs have run on the device; returns their
/// number.
pub(crate) fn fuzz(seeds: std::ops::Range<u64>, device: Device, enough: usize) -> usize {
    let launched = Cell::new(0);
    let problem = |choices: &mut Choices| {
        let mut random = graphs::Random::graph(choices);
        random.graph = random.graph.on_device(device);
        // The first decision is the one for threads.
        let problem = problem_of(&random, &choices.clone().with_threads());
        launched.set(launched.get() + random.graph.launched.get());
        problem
    };
    for seed in seeds {
        if launched.get() >= enough {
            break;
        }
        let mut choices = Choices::of_seed(seed);
        if let Some(found) = problem(&mut choices) {
            let again = |numbers: &[u32]| problem(&mut Choices::of(numbers));
            let (numbers, found) = choices::shrunk(Choices::of_seed(seed), found, again);
            panic!("seed {seed}, shrunk to {numbers:?}:\n{found}");
        }
    }
    launched.get()
}
