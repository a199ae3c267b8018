//! The devices of this machine, through the libraries of their drivers.

use std::process::Command;

use serde_json::Value;

use super::environment;
use super::finding::{Finding, State};
use super::install::{self, Install};
use crate::Result;

/// The command of the process that queries one library.
pub(crate) const PROBE: &str = "probe-in-this-process";

/// Checks the CUDA driver, NVRTC and OpenCL.
pub(super) fn devices() -> Vec<Finding> {
    [("cuda", cuda as fn(&Value) -> Finding), ("nvrtc", nvrtc), ("opencl", opencl)]
        .into_iter()
        .map(|(word, describe)| {
            describe(&ask(word).unwrap_or_else(|problem| serde_json::json!({ "problem": problem })))
        })
        .collect()
}

/// Queries the library in a separate process.
fn ask(word: &str) -> Result<Value> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(program);
    command.args([PROBE, word]);
    let answer = environment::run(command).map_err(|problem| format!("asking it ended the process: {problem}"))?;
    // A driver may print text, too.
    let last = answer.lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(|_| "it gave no answer".to_owned())
}

fn text(answer: &Value, key: &str) -> String {
    answer.get(key).and_then(Value::as_str).unwrap_or("unknown").to_owned()
}

fn list(answer: &Value, key: &str) -> Vec<String> {
    let list = answer.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Creates a finding: missing or broken if the answer reports that, and the result of `found`
/// otherwise.
fn finding(
    topic: &'static str,
    purpose: &'static str,
    install: &'static Install,
    answer: &Value,
    found: impl FnOnce(Finding) -> Finding,
) -> Finding {
    let new = |state, summary: String| Finding::new(topic, purpose, install, state, summary);
    if answer.get("missing").is_some() {
        return new(State::Missing, format!("the dynamic linker finds no {}", text(answer, "missing")));
    }
    if answer.get("problem").is_some() {
        return new(State::Broken, text(answer, "problem"));
    }
    found(new(State::Found, String::new()).with("library", text(answer, "file")))
}

fn cuda(answer: &Value) -> Finding {
    let purpose = "running CUDA kernels";
    finding("CUDA driver", purpose, &install::CUDA_DRIVER, answer, |finding| {
        let devices = list(answer, "devices");
        let summary = format!("driver for CUDA {}, {}", text(answer, "version"), count(devices.len()));
        let state = if devices.is_empty() { State::Broken } else { State::Found };
        Finding { state, summary, ..finding }.with("devices", devices.join("; "))
    })
}

fn nvrtc(answer: &Value) -> Finding {
    let purpose = "compiling CUDA C++ without nvcc";
    finding("NVRTC", purpose, &install::NVRTC, answer, |finding| {
        let summary = format!("NVRTC {}", text(answer, "version"));
        Finding { summary, ..finding }.with("architectures", list(answer, "architectures").join(", "))
    })
}

fn opencl(answer: &Value) -> Finding {
    let purpose = "running OpenCL kernels, and checking them at build time";
    finding("OpenCL", purpose, &install::OPENCL, answer, |finding| {
        let (platforms, devices) = (list(answer, "platforms"), list(answer, "devices"));
        if devices.is_empty() {
            let summary = "the loader is there, but no driver brings a device".to_owned();
            return Finding { state: State::Broken, summary, ..finding };
        }
        let summary = format!("{} ({})", count(devices.len()), platforms.join("; "));
        Finding { summary, ..finding }.with("devices", devices.join("; "))
    })
}

fn count(devices: usize) -> String {
    match devices {
        0 => "but it sees no device".to_owned(),
        1 => "1 device".to_owned(),
        many => format!("{many} devices"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers() {
        for (describe, answer, state, summary) in [
            (
                cuda as fn(&Value) -> Finding,
                json!({ "missing": "libcuda.so.1" }),
                State::Missing,
                "the dynamic linker finds no libcuda.so.1",
            ),
            (
                cuda,
                json!({ "problem": "cuInit failed with CUDA error 3" }),
                State::Broken,
                "cuInit failed with CUDA error 3",
            ),
            (
                cuda,
                json!({ "file": "libcuda.so.1", "version": "13.0", "devices": ["H200 (sm_90)"] }),
                State::Found,
                "driver for CUDA 13.0, 1 device",
            ),
            (
                cuda,
                json!({ "file": "libcuda.so.1", "version": "13.0", "devices": [] }),
                State::Broken,
                "driver for CUDA 13.0, but it sees no device",
            ),
            (
                nvrtc,
                json!({ "file": "libnvrtc.so.13", "version": "13.0", "architectures": [] }),
                State::Found,
                "NVRTC 13.0",
            ),
            (
                opencl,
                json!({ "file": "libOpenCL.so.1", "platforms": [], "devices": [] }),
                State::Broken,
                "the loader is there, but no driver brings a device",
            ),
            (
                opencl,
                json!({ "file": "libOpenCL.so.1", "platforms": ["PoCL, OpenCL 3.0"], "devices": ["cpu (3.0)", "cpu (3.0)"] }),
                State::Found,
                "2 devices (PoCL, OpenCL 3.0)",
            ),
        ] {
            let finding = describe(&answer);
            assert_eq!((finding.state, finding.summary.as_str(), finding.required), (state, summary, false));
        }
    }
}
