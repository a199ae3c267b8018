//! `cargo kernpack doctor`: what this machine has and lacks for building libraries, and how to get it.
//!
//! It only asks programs for their versions, links one empty program, and asks the libraries of devices, in a process of their
//! own, what they see. It never starts `nvidia-smi`.

mod compilers;
mod devices;
mod finding;
mod install;
mod probe;
mod python;
mod report;
mod rust;
mod surroundings;

use std::ffi::OsString;

pub(crate) use probe::probe;

use crate::Result;
use finding::{Finding, State};
use surroundings::Surroundings;

pub(crate) const HELP: &str = "\
Says what this machine has for building and running libraries, and how to install what it lacks.

Usage: cargo kernpack doctor [OPTIONS]

The exit status is 0 when a library without kernels can be built. The GPU is asked through its driver's library only.

Options:
      --json                 print JSON (the README of kernpack-cli describes it)
  -h, --help                 print this
";

/// The error when not even that can be built.
pub(crate) const UNABLE: &str = "a library without kernels cannot be built here; see what is marked as needed above";

/// How to say it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    json: bool,
}

/// The words after `doctor`; `None` asks for help.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Option<Options>> {
    let mut options = Options::default();
    for argument in arguments {
        match argument.to_str() {
            Some("-h" | "--help") => return Ok(None),
            Some("--json") => options.json = true,
            _ => {
                let argument = argument.to_string_lossy();
                return Err(format!("doctor has no option {argument}; see cargo kernpack doctor --help"));
            }
        }
    }
    Ok(Some(options))
}

/// The report, and whether a library without kernels can be built.
pub(crate) fn examine(options: &Options) -> Result<(String, bool)> {
    let findings = findings(&Surroundings::of_process());
    let able = findings.iter().all(|finding| !finding.required || finding.state == State::Found);
    let text = if options.json { report::json(&findings, able) } else { report::text(&findings, able) };
    Ok((text, able))
}

fn findings(surroundings: &Surroundings) -> Vec<Finding> {
    let mut findings = vec![rust::rust(surroundings)];
    findings.extend([compilers::c(surroundings), compilers::cpp(surroundings)]);
    findings.push(rust::llvm(surroundings));
    findings.push(compilers::cuda(surroundings));
    findings.extend(devices::devices());
    findings.push(python::python(surroundings));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let parse = |line: &str| parse(line.split_whitespace().map(OsString::from));
        assert_eq!(parse(""), Ok(Some(Options { json: false })));
        assert_eq!(parse("--json"), Ok(Some(Options { json: true })));
        assert_eq!(parse("-h"), Ok(None));
        assert_eq!(parse("gpu").unwrap_err(), "doctor has no option gpu; see cargo kernpack doctor --help");
    }
}
