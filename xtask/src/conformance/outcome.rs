//! The outcomes of tests, by their names.

use std::collections::BTreeMap;
use std::fmt;

/// The outcome of one test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Passed.
    Passed,
    /// An assertion failed, or the test raised an exception.
    Failed,
    /// The test did not start, or its teardown failed.
    Error,
    /// The process died during the test, or was killed because it hung.
    Crashed,
    /// The test skipped itself.
    Skipped,
    /// The test failed, and is marked as expected to fail.
    Xfailed,
    /// The test passed, although it is marked as expected to fail.
    Xpassed,
}

impl Outcome {
    /// Every outcome, in the order in which counts are printed.
    const ALL: [Outcome; 7] = [
        Outcome::Passed,
        Outcome::Failed,
        Outcome::Error,
        Outcome::Crashed,
        Outcome::Skipped,
        Outcome::Xfailed,
        Outcome::Xpassed,
    ];

    /// The word for the outcome, in files and in print.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::Error => "error",
            Outcome::Crashed => "crashed",
            Outcome::Skipped => "skipped",
            Outcome::Xfailed => "xfailed",
            Outcome::Xpassed => "xpassed",
        }
    }

    /// The outcome that a word stands for.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Outcome::ALL.into_iter().find(|outcome| outcome.word() == word)
    }
}

/// The outcome of one test, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The outcome.
    pub(crate) outcome: Outcome,
    /// The reason of a failure: a line, or empty.
    pub(crate) detail: String,
}

/// The tests of a suite that ran, by `file::name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcomes {
    tests: BTreeMap<String, Ended>,
}

impl Outcomes {
    /// Notes the outcome of a test and replaces an earlier note. Of a long reason only the start
    /// and the end are kept.
    pub(crate) fn note(&mut self, id: impl Into<String>, outcome: Outcome, detail: impl AsRef<str>) {
        self.tests.insert(id.into(), Ended { outcome, detail: shortened(detail.as_ref()) });
    }

    /// The outcome of this test, if it ran.
    pub(crate) fn get(&self, id: &str) -> Option<&Ended> {
        self.tests.get(id)
    }

    /// Every test, in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Ended)> {
        self.tests.iter().map(|(id, ended)| (id.as_str(), ended))
    }

    /// Returns whether no test ran.
    pub(crate) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// The counts of the whole suite.
    pub(crate) fn counts(&self) -> Counts {
        Counts::of(self.tests.values())
    }

    /// The counts of each file, in the order of their names.
    pub(crate) fn by_file(&self) -> BTreeMap<&str, Counts> {
        let mut files: BTreeMap<&str, Counts> = BTreeMap::new();
        for (id, ended) in self.iter() {
            files.entry(file_of(id)).or_default().add(ended.outcome);
        }
        files
    }
}

/// The number of characters of each end of a long reason that are kept: the assertion, and the
/// values found.
const KEPT: usize = 250;

fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= 2 * KEPT {
        return text.to_string();
    }
    let start: String = text.chars().take(KEPT).collect();
    let end: String = text.chars().skip(count - KEPT).collect();
    format!("{start} [...] {end}")
}

/// The file that a test is in: its name up to the first `::`.
pub(crate) fn file_of(id: &str) -> &str {
    id.split_once("::").map_or(id, |(file, _)| file)
}

/// The number of tests for each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    numbers: [usize; Outcome::ALL.len()],
}

impl Counts {
    fn of<'a>(tests: impl Iterator<Item = &'a Ended>) -> Self {
        let mut counts = Counts::default();
        tests.for_each(|ended| counts.add(ended.outcome));
        counts
    }

    fn add(&mut self, outcome: Outcome) {
        self.numbers[outcome as usize] += 1;
    }
}

impl fmt::Display for Counts {
    /// Passed and failed always, the others if they are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for outcome in Outcome::ALL {
            let number = self.numbers[outcome as usize];
            if number > 0 || matches!(outcome, Outcome::Passed | Outcome::Failed) {
                write!(f, "{separator}{number} {}", outcome.word())?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::from_word(outcome.word()), Some(outcome));
        }
        assert_eq!(Outcome::from_word("ok"), None);
        assert!(Outcome::ALL.into_iter().enumerate().all(|(index, outcome)| outcome as usize == index));
    }

    #[test]
    fn long_reasons() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&format!("first{}last", "ä".repeat(10000)));
        assert!(long.starts_with("first") && long.contains("ä [...] ä") && long.ends_with("last"), "{long}");
        assert_eq!(long.chars().count(), 2 * KEPT + " [...] ".len());
    }

    #[test]
    fn counted_by_file() {
        let mut outcomes = Outcomes::default();
        outcomes.note("a.py::one", Outcome::Passed, "");
        outcomes.note("a.py::C::two[x::y]", Outcome::Error, "why");
        outcomes.note("b.py::one", Outcome::Passed, "");
        outcomes.note("b.py::one", Outcome::Skipped, "");
        outcomes.note("c.py", Outcome::Error, "no import");
        let files: Vec<String> = outcomes.by_file().iter().map(|(file, counts)| format!("{file}: {counts}")).collect();
        assert_eq!(
            files,
            [
                "a.py: 1 passed, 0 failed, 1 error",
                "b.py: 0 passed, 0 failed, 1 skipped",
                "c.py: 0 passed, 0 failed, 1 error"
            ]
        );
        assert_eq!(outcomes.counts().to_string(), "1 passed, 0 failed, 2 error, 1 skipped");
    }
}
