//! pytest: the command line of its runs, and the skipped tests that CI does not accept.

use crate::Result;
use crate::environment::on_ci;
use crate::step::{self, Show};
use std::process::Command;

/// The beginnings of the reasons for which a test may be skipped on CI: there is no GPU, or the
/// test needs something that `cargo xtask test` does not install yet.
const ACCEPTED: [&str; 6] = [
    "no GPU was found",
    // Debian's; PyPI's package contains all of CUDA.
    "this PyTorch is older than",
    // `cargo xtask pythons` installs these versions; the others have to be on the machine.
    "no Python 3.14 on",
    "no Python 3.13t on",
    "no Python 3.14t on",
    // The test is about another machine: test_wheel.py is the one of this machine.
    "this machine is one of 64-bit ARM",
];

/// Makes a command that starts Python run pytest. A line with its reason is printed for each test
/// that is skipped, and no file is written beside the tests.
pub(crate) fn arguments(python: &mut Command) -> &mut Command {
    python.args(["-m", "pytest", "--color=no", "-p", "no:cacheprovider", "-ra"]).env("PYTHONDONTWRITEBYTECODE", "1")
}

/// Runs pytest as a step. A test that may not be skipped on CI is an error there.
pub(crate) fn run(name: &str, pytest: &mut Command) -> Result {
    let output = step::run(name, pytest, Show::Lines)?;
    match wrongly_skipped(&output).next() {
        Some(line) if on_ci() => Err(format!("{name}: cannot be skipped on CI: {line}").into()),
        _ => Ok(()),
    }
}

/// The lines about skipped tests, from the output of pytest, that have no accepted reason.
pub(crate) fn wrongly_skipped(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter(|line| {
        // `SKIPPED [2] path:line: reason`
        let skipped = line.strip_prefix("SKIPPED [").and_then(|line| line.split_once("] "));
        skipped.is_some_and(|(_, skipped)| {
            let reason = skipped.split_once(": ").map_or("", |(_, reason)| reason);
            !ACCEPTED.iter().any(|accepted| reason.starts_with(accepted))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_reasons_are_accepted() {
        let rows = [
            ("SKIPPED [4] tests/gpu/python/test_gpu.py:77: no GPU was found, so nothing was launched (x: y)", true),
            ("SKIPPED [1] a.py:2: could not import 'torch': No module named 'torch'", false),
            ("SKIPPED [1] a.py:2: this PyTorch is older than 2.0", true),
            ("SKIPPED [1] a.py:2: could not import 'torch': libtorch.so: cannot open shared object file", false),
            ("SKIPPED [15] a.py:2: could not import 'tvm_ffi': No module named 'tvm_ffi'", false),
            ("SKIPPED [1] a.py:2: mypy is not installed", false),
            ("SKIPPED [1] a.py:23: no Python 3.14t on this machine", true),
            ("SKIPPED [1] a.py:23: no Python 3.9 on this machine", false),
            ("SKIPPED [1] a.py:23: this NumPy does not export what is read-only", false),
            ("SKIPPED [1] a.py", false),
            ("=== 3 passed, 1 skipped in 0.1s ===", true),
        ];
        for (line, is_accepted) in rows {
            assert_eq!(wrongly_skipped(line).next(), (!is_accepted).then_some(line));
        }
    }
}
