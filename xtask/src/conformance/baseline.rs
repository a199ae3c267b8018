//! The outcomes of the stock library, as a file in the repository, and the differences of another
//! library from them.

use super::outcome::{Ended, Outcome, Outcomes, file_of};
use crate::Result;
use std::fmt;
use std::fs;
use std::path::Path;

/// The outcomes of the stock library, and the setting that they are valid for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Baseline {
    /// The properties of the machine that the outcomes depend on, such as `Python 3.11`.
    pub(crate) setting: String,
    /// The outcome of each test.
    pub(crate) outcomes: Outcomes,
}

/// Marks the line of the setting.
const SETTING: &str = "# setting: ";

impl Baseline {
    /// Reads a file that [`Baseline::write`] wrote.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        Baseline::parse(&text).map_err(|error| format!("{}: {error}", file.display()).into())
    }

    /// Writes the outcomes, file by file.
    pub(crate) fn write(&self, file: &Path, command: &str) -> Result {
        fs::write(file, self.text(command)).map_err(|error| format!("cannot write {}: {error}", file.display()).into())
    }

    fn text(&self, command: &str) -> String {
        let counts = self.outcomes.counts();
        let mut text = format!(
            "# How the reference tests end with the stock library: {counts}.\n# Written by `{command}`, never by hand.\n{SETTING}{}\n",
            self.setting
        );
        let mut file = "";
        for (id, ended) in self.outcomes.iter() {
            if file_of(id) != file {
                file = file_of(id);
                text.push_str(&format!("\n{file}\n"));
            }
            let name = id[file.len()..].strip_prefix("::").unwrap_or_default();
            text.push_str(&format!("  {} {name}\n", ended.outcome.word()));
        }
        text
    }

    fn parse(text: &str) -> Result<Self> {
        let mut setting = None;
        let mut outcomes = Outcomes::default();
        let mut file = "";
        for (number, line) in text.lines().enumerate() {
            if let Some(value) = line.strip_prefix(SETTING) {
                setting = Some(value.to_string());
            } else if let Some(test) = line.strip_prefix("  ") {
                let entry = test.split_once(' ').and_then(|(word, name)| Some((Outcome::from_word(word)?, name)));
                let (outcome, name) = entry.ok_or(format!("line {}: expected an outcome and a name", number + 1))?;
                outcomes.note(if name.is_empty() { file.to_string() } else { format!("{file}::{name}") }, outcome, "");
            } else if !line.is_empty() && !line.starts_with('#') {
                file = line;
            }
        }
        Ok(Baseline { setting: setting.ok_or("it has no line '# setting: '")?, outcomes })
    }

    /// Every test with another outcome than in the baseline. In a run of some tests, missing tests
    /// are not a difference.
    pub(crate) fn differences(&self, actual: &Outcomes, only_some: bool) -> Vec<String> {
        let mut differences = Vec::new();
        for (id, expected) in self.outcomes.iter() {
            let stock = expected.outcome.word();
            match actual.get(id) {
                Some(ended) if ended.outcome == expected.outcome => {}
                Some(ended) => differences.push(format!("{id}: {stock} with the stock library, now {}", Now(ended))),
                // A file that could not be imported is one difference, not one for each of its
                // tests.
                None if only_some || actual.get(file_of(id)).is_some() => {}
                None => differences.push(format!("{id}: {stock} with the stock library, now it did not run")),
            }
        }
        for (id, ended) in actual.iter().filter(|(id, _)| self.outcomes.get(id).is_none()) {
            differences.push(match ended.outcome {
                Outcome::Error if file_of(id) == id => format!("{id}: none of its tests ran: {}", ended.detail),
                _ => format!("{id}: not in the baseline, now {}", Now(ended)),
            });
        }
        differences
    }
}

/// An outcome with its reason, if there is one.
struct Now<'a>(&'a Ended);

impl fmt::Display for Now<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ended { outcome, detail } = self.0;
        let open = if detail.is_empty() { "" } else { " (" };
        let close = if detail.is_empty() { "" } else { ")" };
        write!(f, "{}{open}{detail}{close}", outcome.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(tests: &[(&str, Outcome, &str)]) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for (id, outcome, detail) in tests {
            outcomes.note(*id, *outcome, *detail);
        }
        outcomes
    }

    #[test]
    fn written_and_read() {
        let baseline = Baseline {
            setting: "Python 3.11".to_string(),
            outcomes: outcomes(&[
                ("tests/a.py::one", Outcome::Passed, ""),
                ("tests/a.py::Group::two[x y:: # ]", Outcome::Xfailed, ""),
                ("tests/b.py", Outcome::Error, ""),
                ("tests/b.py::three", Outcome::Skipped, ""),
            ]),
        };
        let text = baseline.text("cargo xtask");
        assert!(text.contains("\ntests/a.py\n  xfailed Group::two[x y:: # ]\n  passed one\n\ntests/b.py\n"), "{text}");
        assert_eq!(Baseline::parse(&text).unwrap(), baseline);
    }

    #[test]
    fn files_that_are_no_baseline() {
        for (text, expected) in [
            ("", "it has no line '# setting: '"),
            ("# setting: any\na.py\n  ok one\n", "line 3: expected an outcome and a name"),
            ("# setting: any\na.py\n  passed\n", "line 3: expected an outcome and a name"),
        ] {
            assert_eq!(Baseline::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn differences() {
        let stock = outcomes(&[
            ("a::1", Outcome::Passed, ""),
            ("a::2", Outcome::Passed, ""),
            ("a::3", Outcome::Skipped, ""),
            ("a::4", Outcome::Passed, ""),
            ("b::1", Outcome::Passed, ""),
        ]);
        let baseline = Baseline { setting: String::new(), outcomes: stock };
        let ours = outcomes(&[
            ("a::1", Outcome::Passed, ""),
            ("a::2", Outcome::Failed, "1 != 2"),
            ("a::3", Outcome::Passed, ""),
            ("a::5", Outcome::Passed, ""),
            ("b", Outcome::Error, "no module"),
        ]);
        let mut expected = vec![
            "a::2: passed with the stock library, now failed (1 != 2)",
            "a::3: skipped with the stock library, now passed",
            "a::4: passed with the stock library, now it did not run",
            "a::5: not in the baseline, now passed",
            "b: none of its tests ran: no module",
        ];
        assert_eq!(baseline.differences(&ours, false), expected);
        expected.remove(2);
        assert_eq!(baseline.differences(&ours, true), expected);
        assert!(baseline.differences(&baseline.outcomes, false).is_empty());
    }
}
