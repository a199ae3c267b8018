//! Size, import time and call times of both packages.

use super::install::Installed;
use super::{FOLDER, Run, Side};
use crate::Result;
use crate::bench::caller::Caller;
use crate::bench::samples::Samples;
use crate::step::{self, Show};
use std::fs;

/// The number of interleaved rounds.
const ROUNDS: usize = 11;

/// A batch of calls takes about this many nanoseconds.
const BATCH: f64 = 4_000_000.0;

/// The program that imports a module in a fresh process and prints the milliseconds.
const IMPORT: &str = "
import sys, time
start = time.perf_counter()
__import__(sys.argv[1])
print((time.perf_counter() - start) * 1e3)
";

/// The figures of a port, ours and theirs.
pub(super) struct Measured {
    /// Bytes of the stripped libraries.
    pub(super) sizes: [u64; 2],
    /// Milliseconds of an import.
    pub(super) imports: [Samples; 2],
    /// The titles of the calls, with nanoseconds per call.
    pub(super) calls: Vec<(String, [Samples; 2])>,
}

impl Measured {
    /// Measures both packages in turns.
    pub(super) fn of(run: &Run, installed: &Installed) -> Result<Self> {
        println!("> measure {} in {ROUNDS} rounds", run.port.title());
        let mut sizes = [0; 2];
        for side in Side::ALL {
            sizes[side as usize] = stripped_size(run, installed, side)?;
        }
        Ok(Self { sizes, imports: imports(run, installed)?, calls: calls(run, installed)? })
    }
}

/// The size of a library without symbols.
fn stripped_size(run: &Run, installed: &Installed, side: Side) -> Result<u64> {
    let library = installed.library(side)?;
    let copy = run.folder("stripped")?.join(format!("{}.so", side.name()));
    let mut strip = run.workspace.command("strip");
    strip.arg("-o").args([&copy, &library]);
    step::run(&format!("strip {}", library.display()), &mut strip, Show::Warnings)?;
    Ok(fs::metadata(&copy)?.len())
}

/// The sides of a round, each first in every other one.
fn turns(round: usize) -> [Side; 2] {
    if round.is_multiple_of(2) { Side::ALL } else { [Side::Theirs, Side::Ours] }
}

fn imports(run: &Run, installed: &Installed) -> Result<[Samples; 2]> {
    let mut samples: [Samples; 2] = Default::default();
    for round in 0..ROUNDS {
        for side in turns(round) {
            let mut command = run.workspace.command(run.interpreter);
            // Without the packages of the environment.
            command.args(["-S", "-c", IMPORT, &run.port.module]).env("PYTHONPATH", installed.folder(side));
            let output = command.output().map_err(|error| format!("cannot start Python: {error}"))?;
            let text = String::from_utf8_lossy(&output.stdout);
            let time: f64 = text.trim().parse().map_err(|_| {
                let errors = String::from_utf8_lossy(&output.stderr);
                format!("import {}: {}", run.port.module, errors.lines().last().unwrap_or("no output"))
            })?;
            // The first import of each reads the file from the disk.
            if round > 0 {
                samples[side as usize].push(time);
            }
        }
    }
    Ok(samples)
}

fn calls(run: &Run, installed: &Installed) -> Result<Vec<(String, [Samples; 2])>> {
    let start = |side: Side| {
        let mut command = run.workspace.command(run.interpreter);
        command.arg(run.workspace.root().join(FOLDER).join("caller.py")).arg(run.port.folder.join("port.json"));
        Caller::start(side.name(), command.env("PYTHONPATH", installed.folder(side)))
    };
    let mut callers = [start(Side::Ours)?, start(Side::Theirs)?];
    let mut rows = Vec::new();
    for (index, call) in run.port.calls.iter().enumerate() {
        let case = index.to_string();
        let mut iterations = [0; 2];
        for side in Side::ALL {
            let caller = &mut callers[side as usize];
            let few = caller.measure(&case, "-", 3)?.max(1.0);
            let more = ((BATCH / few / 10.0) as u64).clamp(3, 10_000);
            let time = caller.measure(&case, "-", more)?.max(1.0);
            iterations[side as usize] = ((BATCH / time) as u64).clamp(3, 1_000_000);
        }
        let mut samples: [Samples; 2] = Default::default();
        for round in 0..ROUNDS {
            for side in turns(round) {
                let time = callers[side as usize].measure(&case, "-", iterations[side as usize])?;
                samples[side as usize].push(time);
            }
        }
        rows.push((call.title.clone(), samples));
    }
    Ok(rows)
}
