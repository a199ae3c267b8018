//! One line of the report.

use super::install::Install;

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is installed and works.
    Found,
    /// It is installed but does not work.
    Broken,
    /// It is not installed.
    Missing,
}

impl State {
    /// The name of the state, for people and for JSON.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Broken => "broken",
            Self::Missing => "missing",
        }
    }
}

/// The result of checking for one tool or device.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) topic: &'static str,
    pub(super) state: State,
    /// One line that describes what was found, or the problem.
    pub(super) summary: String,
    /// Names and values of further details.
    pub(super) details: Vec<(&'static str, String)>,
    /// The purpose: the end of "needed for ...".
    pub(super) purpose: &'static str,
    /// True if no library can be built without it.
    pub(super) required: bool,
    /// Instructions for installing it.
    pub(super) install: &'static Install,
}

impl Finding {
    /// Creates a finding for something that no library needs.
    pub(super) fn new(
        topic: &'static str,
        purpose: &'static str,
        install: &'static Install,
        state: State,
        summary: impl Into<String>,
    ) -> Self {
        Self { topic, state, summary: summary.into(), details: Vec::new(), purpose, required: false, install }
    }

    /// Marks the finding as required for building any library.
    pub(super) fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// Adds a detail.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.details.push((name, value.into()));
        self
    }
}
