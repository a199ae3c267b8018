//! Python, and the packages that load libraries in it.

use super::environment::Environment;
use super::finding::{Finding, State};
use super::install;

/// Prints the version, the program, and the version of each package or nothing. It imports no
/// package, because PyTorch takes seconds.
const ASK: &str = "
import sys
from importlib import metadata
print('%d.%d.%d' % sys.version_info[:3])
print(sys.executable)
for name in ('apache-tvm-ffi', 'numpy', 'torch'):
    try:
        print(metadata.version(name))
    except metadata.PackageNotFoundError:
        print('')
";

/// Compatible versions of apache-tvm-ffi. See `wheel/metadata.rs`.
const COMPATIBLE: std::ops::Range<(u32, u32, u32)> = (0, 1, 15)..(0, 2, 0);

/// Checks the Python in `PATH`, with `tvm_ffi`.
pub(super) fn python(environment: &Environment) -> Finding {
    let purpose = "loading libraries in Python, and for the tests there";
    let finding = |install, state, summary: String| Finding::new("Python", purpose, install, state, summary);
    let asked = environment.variable("PYTHON");
    let path = match asked {
        Some(asked) => environment.find(asked),
        None => ["python3", "python"].iter().find_map(|name| environment.find(name)),
    };
    let Some(path) = path else {
        let summary = match asked {
            Some(asked) => format!("PYTHON is {}, but that program is missing", asked.display()),
            None => "python3 and python not found in PATH".to_owned(),
        };
        return finding(&install::PYTHON, State::Missing, summary);
    };
    let said = match environment.run(&path, &["-c", ASK]) {
        Ok(said) => said,
        Err(problem) => return finding(&install::PYTHON, State::Broken, problem),
    };
    // The last lines may be empty, and `run` trims them.
    let mut lines = said.lines().chain(std::iter::repeat(""));
    let mut next = || lines.next().unwrap_or_default().to_owned();
    let [version, program, tvm_ffi, numpy, torch] = [next(), next(), next(), next(), next()];
    let (install, state, summary) = if numbers(&version) < (3, 9, 0) {
        (&install::PYTHON, State::Broken, format!("Python {version} is too old: 3.9 or newer is needed"))
    } else if tvm_ffi.is_empty() {
        (&install::TVM_FFI, State::Missing, format!("Python {version} has no apache-tvm-ffi"))
    } else if !COMPATIBLE.contains(&numbers(&tvm_ffi)) {
        let summary = format!("apache-tvm-ffi {tvm_ffi} does not fit: 0.1.15 or newer, and older than 0.2, is needed");
        (&install::TVM_FFI, State::Broken, summary)
    } else {
        (&install::TVM_FFI, State::Found, format!("Python {version} with apache-tvm-ffi {tvm_ffi}"))
    };
    let mut found = finding(install, state, summary).with("path", program);
    for (name, version) in [("numpy", numpy), ("torch", torch)] {
        found = found.with(name, if version.is_empty() { "not installed".to_owned() } else { version });
    }
    found
}

/// Parses `0.1.15.post2` as its first three numbers.
fn numbers(version: &str) -> (u32, u32, u32) {
    let mut numbers = version.split('.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    });
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_fit() {
        for (version, fits) in
            [("0.1.15", true), ("0.1.15.post2", true), ("0.1.16rc1", true), ("0.1.14.post1", false), ("0.2.0", false)]
        {
            assert_eq!(COMPATIBLE.contains(&numbers(version)), fits, "{version}");
        }
    }
}
