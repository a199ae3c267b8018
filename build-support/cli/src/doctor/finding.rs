//! One line of the report.

use super::install::Install;

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is there, and it serves.
    Found,
    /// It is there, but it does not serve.
    Broken,
    /// It is not there.
    Missing,
}

impl State {
    /// For people and for JSON.
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
    /// Name and value of what else is known.
    pub(super) details: Vec<(&'static str, String)>,
    /// The purpose: the end of "needed for ...".
    pub(super) purpose: &'static str,
    /// True if no library can be built without it.
    pub(super) required: bool,
    /// Instructions for installing it.
    pub(super) install: &'static Install,
}

impl Finding {
    /// Something that no library needs, in a state.
    pub(super) fn new(
        topic: &'static str,
        purpose: &'static str,
        install: &'static Install,
        state: State,
        summary: impl Into<String>,
    ) -> Self {
        Self { topic, state, summary: summary.into(), details: Vec::new(), purpose, required: false, install }
    }

    /// The same, and no library can be built without it.
    pub(super) fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// The same, with one more thing that is known.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.details.push((name, value.into()));
        self
    }
}
