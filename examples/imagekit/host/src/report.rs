//! Prints one line per function: its language, whether its result is correct, and its time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kernpack::Error;

use crate::{Failure, npy};

/// The number of timed calls per function. The shortest time is reported.
const REPEATS: usize = 5;

/// Prints the lines and counts the failed checks.
pub(crate) struct Report {
    references: PathBuf,
    failed: usize,
}

impl Report {
    /// `references` is the folder that prepare.py filled.
    pub(crate) fn new(references: PathBuf) -> Self {
        line("function", "kernel", "check", "ms");
        Self { references, failed: 0 }
    }

    /// The number of failed checks.
    pub(crate) fn failed(&self) -> usize {
        self.failed
    }

    /// Prints the result of an external check.
    pub(crate) fn verdict(&mut self, function: &str, kernel: &str, good: bool, text: &str, time: Option<Duration>) {
        self.failed += usize::from(!good);
        let time = time.map_or_else(String::new, |time| format!("{:.3}", time.as_secs_f64() * 1e3));
        line(function, kernel, &format!("{}{text}", if good { "ok    " } else { "WRONG " }), &time);
    }

    /// Prints the error of a function that did not run.
    pub(crate) fn not_run(&self, function: &str, kernel: &str, error: &Error) {
        line(function, kernel, &format!("not run: {}", error.message()), "");
    }

    /// Measures `call` and compares the numbers that `values` extracts from its result with a
    /// reference of prepare.py.
    pub(crate) fn compare<T>(
        &mut self,
        function: &str,
        kernel: &str,
        reference: &str,
        tolerance: f64,
        mut call: impl FnMut() -> kernpack::Result<T>,
        values: impl Fn(&T) -> kernpack::Result<Vec<f64>>,
    ) -> Result<T, Failure> {
        let mut start = Instant::now();
        let mut result = call()?;
        let mut best = start.elapsed();
        for _ in 1..REPEATS {
            start = Instant::now();
            result = call()?;
            best = best.min(start.elapsed());
        }
        let (got, expected) = (values(&result)?, npy::read(&self.references.join(format!("{reference}.npy")))?);
        if got.len() == expected.len() {
            // A NaN anywhere makes the comparison below false, so it fails the check.
            let difference = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, nan_or_max);
            let text = match difference {
                0.0 => "no difference".to_owned(),
                _ => format!("max difference {difference:.1e} (allowed {tolerance:e})"),
            };
            self.verdict(function, kernel, difference <= tolerance, &text, Some(best));
        } else {
            let text = format!("{} numbers, expected {}", got.len(), expected.len());
            self.verdict(function, kernel, false, &text, Some(best));
        }
        Ok(result)
    }

    /// Checks that `call` fails with an error of `kind` whose message contains `part`.
    pub(crate) fn expect_error<T>(
        &mut self,
        function: &str,
        kernel: &str,
        kind: &str,
        part: &str,
        call: impl FnOnce() -> kernpack::Result<T>,
    ) {
        match call() {
            Err(error) => {
                let good = error.kind() == kind && error.message().contains(part);
                self.verdict(function, kernel, good, &format!("{}: {}", error.kind(), error.message()), None);
            }
            Ok(_) => self.verdict(function, kernel, false, &format!("no error, expected a {kind}"), None),
        }
    }
}

/// Prints one line. A long check continues below.
fn line(function: &str, kernel: &str, check: &str, time: &str) {
    let mut parts = wrap(check, 80).into_iter();
    let first = parts.next().unwrap_or_default();
    println!("  {}", format!("{function:<16} {kernel:<10} {first:<80} {time:>8}").trim_end());
    for part in parts {
        println!("{:36}{part}", "");
    }
}

/// Breaks text at spaces into lines of at most `width` characters, or one word.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the greater number, or NaN if one of them is NaN: `f64::max` would drop it.
fn nan_or_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}
