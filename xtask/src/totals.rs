//! The results of the test runners, read from their closing lines and summed.

use std::fmt;
use std::ops::AddAssign;

/// The number of tests for each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed or could not start.
    pub(crate) failed: u64,
    /// Tests that were skipped.
    pub(crate) skipped: u64,
}

impl Totals {
    /// Sums the closing lines of Rust's test harness:
    /// `test result: ok. 5 passed; 0 failed; 1 ignored; ...`.
    pub(crate) fn of_cargo(output: &str) -> Self {
        let mut totals = Totals::default();
        for line in output.lines().filter_map(|line| line.trim().strip_prefix("test result: ")) {
            totals += Totals::of_counts(line);
        }
        totals
    }

    /// Reads pytest's closing line: `== 3 failed, 5 passed, 2 skipped in 0.12s ==`.
    pub(crate) fn of_pytest(output: &str) -> Self {
        let closing = output.lines().rev().find(|line| line.contains(" in ") && line.ends_with(['=', 's', ')']));
        closing.map(Totals::of_counts).unwrap_or_default()
    }

    /// Reads the closing lines of Node's test runner in the format TAP: `# pass 10`, `# fail 0`,
    /// `# skipped 1`.
    pub(crate) fn of_tap(output: &str) -> Self {
        let count = |word: &str| -> u64 {
            let numbers = output
                .lines()
                .filter_map(|line| line.strip_prefix("# ")?.strip_prefix(word)?.trim().parse::<u64>().ok());
            numbers.sum()
        };
        Totals {
            passed: count("pass "),
            failed: count("fail ") + count("cancelled "),
            skipped: count("skipped ") + count("todo "),
        }
    }

    /// Reads the closing line of `cargo xtask book blocks`:
    /// `book: 55 pages, 401 blocks: 399 checked, 2 skipped, 0 pages failed, in 279 s`.
    ///
    /// Skipped blocks count as passed: the command prints a line for each, which [`crate::runner`]
    /// moves to the skipped ones.
    pub(crate) fn of_book(output: &str) -> Self {
        let Some((_, counts)) =
            output.lines().rev().find_map(|line| line.strip_prefix("book: ")?.split_once(" blocks: "))
        else {
            return Totals::default();
        };
        let count = |word: &str| -> u64 {
            let number = counts.split(", ").find_map(|part| part.strip_suffix(word));
            number.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
        };
        Totals { passed: count(" checked") + count(" skipped"), failed: count(" pages failed"), skipped: 0 }
    }

    /// Sums pairs of a number and a word.
    fn of_counts(line: &str) -> Self {
        let mut totals = Totals::default();
        let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || c == ',' || c == ';').collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u64>() else { continue };
            match pair[1] {
                "passed" | "xpassed" => totals.passed += count,
                "failed" | "error" | "errors" => totals.failed += count,
                "ignored" | "skipped" | "xfailed" => totals.skipped += count,
                _ => {}
            }
        }
        totals
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(passed: u64, failed: u64, skipped: u64) -> Totals {
        Totals { passed, failed, skipped }
    }

    #[test]
    fn cargo() {
        let two = "running 5 tests\ntest result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s\n\n   \
                   Doc-tests kernpack\ntest result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.5s\n";
        for (output, expected) in [
            (two, totals(12, 2, 1)),
            ("error: could not compile `kernpack`", totals(0, 0, 0)),
            ("test passed: 12 passed", totals(0, 0, 0)),
        ] {
            assert_eq!(Totals::of_cargo(output), expected, "{output}");
        }
    }

    #[test]
    fn pytest() {
        for (output, expected) in [
            ("....\n========= 4 passed in 0.12s =========\n", totals(4, 0, 0)),
            ("4 passed in 0.12s\n", totals(4, 0, 0)),
            ("=== 1 failed, 4 passed, 2 skipped, 3 xfailed, 1 warning in 61.00s (0:01:01) ===", totals(4, 1, 5)),
            ("=== 2 errors in 0.1s ===", totals(0, 2, 0)),
            ("=== no tests ran in 0.01s ===", totals(0, 0, 0)),
            ("python: No module named pytest", totals(0, 0, 0)),
        ] {
            assert_eq!(Totals::of_pytest(output), expected, "{output}");
        }
    }

    #[test]
    fn book() {
        let output = "book: written\nskipped: no Ray\nbook: 55 pages, 401 blocks: 398 checked, 2 skipped, 1 pages failed, in 9 s\n";
        assert_eq!(Totals::of_book(output), totals(400, 1, 0));
        assert_eq!(Totals::of_book("xtask: no such page\n"), totals(0, 0, 0));
    }

    #[test]
    fn tap() {
        let output = "# Subtest: a\nok 1 - a\nnot ok 2 - pass 3\n1..2\n# tests 12\n# pass 10\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 0\n";
        assert_eq!(Totals::of_tap(output), totals(10, 1, 1));
        assert_eq!(Totals::of_tap("SyntaxError: x\n"), totals(0, 0, 0));
    }
}
