//! What is wrong with a model.

use core::fmt;

use kernpack_compiler::CompileError;

/// `Result` with [`GraphError`].
pub type Result<T, E = GraphError> = core::result::Result<T, E>;

/// Everything that is wrong with a model, each problem with the node and what to do.
#[derive(Clone, PartialEq, Eq)]
pub struct GraphError {
    problems: Vec<String>,
}

impl GraphError {
    /// One problem: a sentence in lower case without a full stop.
    pub fn new(what: impl Into<String>) -> Self {
        Self { problems: vec![what.into()] }
    }

    /// One error of several: all are shown.
    pub fn all(errors: Vec<Self>) -> Option<Self> {
        let problems: Vec<String> = errors.into_iter().flat_map(|error| error.problems).collect();
        (!problems.is_empty()).then_some(Self { problems })
    }

    /// Every problem as a complete message.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// The same with where it was found before each problem: `node 'add_3' (Add): ..`.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        Self { problems: self.problems.into_iter().map(|problem| format!("{place}: {problem}")).collect() }
    }
}

impl GraphError {
    /// As [`Self::within`], but for problems that tell that place already.
    #[must_use]
    pub(crate) fn within_once(self, place: &str) -> Self {
        let told = |problem: String| {
            if problem.starts_with(place) { problem } else { format!("{place}: {problem}") }
        };
        Self { problems: self.problems.into_iter().map(told).collect() }
    }
}

impl From<CompileError> for GraphError {
    fn from(error: CompileError) -> Self {
        Self { problems: error.problems() }
    }
}

/// For callers of other languages.
impl From<GraphError> for kernpack::Error {
    fn from(error: GraphError) -> Self {
        Self::new(kernpack::error_kind::ValueError, error.to_string())
    }
}

/// What a function of another language, or the runtime, says.
impl From<kernpack::Error> for GraphError {
    fn from(error: kernpack::Error) -> Self {
        Self::new(error.message())
    }
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl fmt::Debug for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for GraphError {}

/// Returns from a function with a [`GraphError`].
macro_rules! fail {
    ($($text:tt)*) => {
        return Err($crate::error::GraphError::new(format!($($text)*)))
    };
}

/// Returns with a [`GraphError`] unless a condition holds.
macro_rules! require {
    ($condition:expr, $($text:tt)*) => {
        if $condition {
        } else {
            $crate::error::fail!($($text)*);
        }
    };
}

pub(crate) use {fail, require};
