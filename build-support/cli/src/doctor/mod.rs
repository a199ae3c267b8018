//! `cargo kernpack doctor`: reports the tools for building libraries that this machine has or
//! lacks, and how to install them.
//!
//! It only asks programs for their versions, links one empty program, and queries the device
//! libraries in a separate process. It never starts `nvidia-smi`.

mod compilers;
mod devices;
mod environment;
mod finding;
mod install;
mod options;
mod probe;
mod python;
mod report;
mod rust;

pub(crate) use devices::PROBE;
pub(crate) use options::{HELP, Options, parse};
pub(crate) use probe::probe;

use environment::Environment;
use finding::{Finding, State};

/// The error if even a library without kernels cannot be built.
pub(crate) const UNABLE: &str = "a library without kernels cannot be built here; see what is marked as needed above";

/// Returns the report, and whether a library without kernels can be built.
pub(crate) fn examine(options: &Options) -> (String, bool) {
    let findings = findings(&Environment::of_process());
    let able = findings.iter().all(|finding| !finding.required || finding.state == State::Found);
    let text = if options.json { report::json(&findings, able) } else { report::text(&findings, able) };
    (text, able)
}

fn findings(environment: &Environment) -> Vec<Finding> {
    let mut findings = vec![rust::rust(environment)];
    findings.extend([compilers::c(environment), compilers::cpp(environment)]);
    findings.push(rust::llvm(environment));
    findings.push(compilers::cuda(environment));
    findings.extend(devices::devices());
    findings.push(python::python(environment));
    findings
}
