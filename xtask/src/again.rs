//! Retries of failed tests of Rust's harness: each runs once more, alone in its program.
//!
//! On a machine with two busy cores, a test of processes and sockets can fail because of timing. A
//! test that passes in the second run does not count as a failure, but as a defect of the test: the
//! closing lines of every run name it. A test that fails twice is a failure. If many tests fail,
//! nothing is retried.

use crate::Result;
use crate::runner::failed_tests;
use crate::totals::Totals;
use std::collections::BTreeSet;

/// The largest number of failures that are retried.
const MOST: u64 = 3;

/// Failed tests, and the programs that they failed in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Again {
    /// The arguments that select each program, without its package: `--test server`.
    programs: Vec<Vec<String>>,
    /// The names of the tests, each of which failed in at least one of the programs.
    pub(crate) tests: BTreeSet<String>,
    /// The number of failures.
    failures: u64,
}

impl Again {
    /// Reads the output of `cargo test --no-fail-fast`. `None` if nothing failed, if too many tests
    /// failed, or if the lines do not name every failure, for instance because a program crashed or
    /// other output is mixed into a name.
    pub(crate) fn of_cargo(output: &str) -> Option<Self> {
        let failures = Totals::of_cargo(output).failed;
        let named: Vec<&str> = failed_tests(output).collect();
        let crashed = output.matches("process didn't exit successfully").count();
        let harness = output.matches("test result: FAILED").count();
        let programs: Vec<Vec<String>> = output.lines().filter_map(program).collect();
        let whole = (1..=MOST).contains(&failures)
            && named.len() as u64 == failures
            && programs.len() == harness
            && crashed == 0;
        whole.then(|| Again { programs, tests: named.into_iter().map(str::to_owned).collect(), failures })
    }

    /// Runs the failed tests again and returns whether every failure becomes a pass. `run` runs
    /// `cargo test` with the given arguments, once for each program.
    pub(crate) fn passes(&self, run: impl Fn(&[&str]) -> Result<Totals>) -> Result<bool> {
        let mut totals = Totals::default();
        for program in &self.programs {
            let flags = ["--", "--exact", "--test-threads=1"];
            let tests = self.tests.iter().map(String::as_str);
            totals += run(&program.iter().map(String::as_str).chain(flags).chain(tests).collect::<Vec<_>>())?;
        }
        Ok(totals.failed == 0 && totals.passed >= self.failures)
    }
}

/// The program that a closing line of cargo names: ``    `-p kernpack-rpc --test server` ``.
fn program(line: &str) -> Option<Vec<String>> {
    let words = line.strip_prefix("    `-p ")?.strip_suffix('`')?;
    Some(words.split_whitespace().skip(1).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn output(tests: &[&str], programs: &[&str], more: &str) -> String {
        let mut output: String = tests.iter().map(|test| format!("test {test} ... FAILED\n")).collect();
        for program in programs {
            output += "test result: FAILED. 7 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
            output += &format!("error: test failed, to rerun pass `{program}`\n");
        }
        output += &format!("error: {} targets failed:\n", programs.len());
        output.extend(programs.iter().map(|program| format!("    `{program}`\n")));
        output + more
    }

    #[test]
    fn the_failed_tests_of_each_program() {
        let again = Again::of_cargo(&output(&["a::b", "c"], &["-p x --test server", "-p y --lib"], "")).unwrap();
        for (each, why) in [((1, 0), ""), ((0, 0), "they did not run"), ((2, 1), "one failed")] {
            let commands = RefCell::new(Vec::new());
            let passes = again.passes(|arguments| {
                commands.borrow_mut().push(arguments.join(" "));
                Ok(Totals { passed: each.0, failed: each.1, skipped: 0 })
            });
            assert_eq!(passes.unwrap(), why.is_empty(), "{why}");
            let tests = "-- --exact --test-threads=1 a::b c";
            assert_eq!(commands.into_inner(), [format!("--test server {tests}"), format!("--lib {tests}")]);
        }
    }

    #[test]
    fn what_is_no_accident_does_not_run_again() {
        let two = ["-p x --test a", "-p y --test b"];
        let crash = "(process didn't exit successfully: `target/debug/deps/a` (signal: 11, SIGSEGV))\n";
        for (why, output) in [
            ("all passed", "test result: ok. 5 passed; 0 failed; 0 ignored\n".to_owned()),
            ("it does not compile", "error: could not compile `x`\n".to_owned()),
            ("four failed", output(&["a", "b", "c", "d"], &[two[0], two[0], two[0], two[0]], "")),
            ("a name is missing", output(&["a"], &two, "")),
            ("a program crashed", output(&["a"], &two[..1], crash)),
        ] {
            assert_eq!(Again::of_cargo(&output), None, "{why}");
        }
    }
}
