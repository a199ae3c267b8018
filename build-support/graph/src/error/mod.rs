//! Errors of models.

use core::fmt;

use kernpack_compiler::CompileError;

mod fix;

use fix::Caller;
pub(crate) use fix::{Fix, full_name};

/// `Result` with [`GraphError`].
pub type Result<T, E = GraphError> = core::result::Result<T, E>;

/// All problems of a model, each with the node and the fix.
#[derive(Clone, PartialEq, Eq)]
pub struct GraphError {
    problems: Vec<Problem>,
}

/// A problem, and the way in which the caller can fix it.
#[derive(Clone, PartialEq, Eq)]
struct Problem {
    what: String,
    fix: Option<Fix>,
}

impl Problem {
    fn told_to(&self, caller: Caller) -> String {
        match &self.fix {
            None => self.what.clone(),
            Some(fix) => format!("{}: {}", self.what, fix.told_to(caller)),
        }
    }
}

impl GraphError {
    /// Creates an error with one problem: a sentence in lower case without a full stop.
    pub fn new(what: impl Into<String>) -> Self {
        Self { problems: vec![Problem { what: what.into(), fix: None }] }
    }

    /// Adds the way in which the caller can fix it, in terms of the build script or of Python.
    #[must_use]
    pub(crate) fn fix(mut self, fix: &Fix) -> Self {
        for problem in &mut self.problems {
            problem.fix.get_or_insert_with(|| fix.clone());
        }
        self
    }

    /// Joins several errors. All are shown.
    pub fn all(errors: Vec<Self>) -> Option<Self> {
        let problems: Vec<Problem> = errors.into_iter().flat_map(|error| error.problems).collect();
        (!problems.is_empty()).then_some(Self { problems })
    }

    /// Returns every problem as a complete message, for authors of build scripts.
    pub fn problems(&self) -> Vec<String> {
        self.told_to(Caller::BuildScript)
    }

    fn told_to(&self, caller: Caller) -> Vec<String> {
        self.problems.iter().map(|problem| problem.told_to(caller)).collect()
    }

    /// Adds the place before each problem: `node 'add_3' (Add): ..`.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        let told = |problem: Problem| Problem { what: format!("{place}: {}", problem.what), ..problem };
        Self { problems: self.problems.into_iter().map(told).collect() }
    }

    /// Like [`Self::within`], except for problems that already contain the place.
    #[must_use]
    pub(crate) fn within_once(self, place: &str) -> Self {
        // Operators are named with and without their domain.
        let node = place.rfind(" (").map_or(place, |end| &place[..=end]);
        let told = |problem: Problem| {
            if problem.what.starts_with(node) {
                problem
            } else {
                Problem { what: format!("{place}: {}", problem.what), ..problem }
            }
        };
        Self { problems: self.problems.into_iter().map(told).collect() }
    }
}

impl From<CompileError> for GraphError {
    fn from(error: CompileError) -> Self {
        Self { problems: error.problems().into_iter().map(|what| Problem { what, fix: None }).collect() }
    }
}

/// Adds the problems of errors of the compiler after its own, for
/// [`with_reported`](kernpack_compiler::with_reported).
impl Extend<CompileError> for GraphError {
    fn extend<I: IntoIterator<Item = CompileError>>(&mut self, errors: I) {
        self.problems.extend(errors.into_iter().flat_map(|error| Self::from(error).problems));
    }
}

/// For callers in other languages: the fixes are given as Python keywords.
impl From<GraphError> for kernpack::Error {
    fn from(error: GraphError) -> Self {
        Self::new(kernpack::error_kind::ValueError, error.told_to(Caller::Python).join("\n"))
    }
}

/// An error of a function in another language, or of the runtime.
impl From<kernpack::Error> for GraphError {
    fn from(error: kernpack::Error) -> Self {
        Self::new(error.message())
    }
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems().join("\n"))
    }
}

impl fmt::Debug for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for GraphError {}

/// Returns a [`GraphError`] from a function.
#[doc(hidden)]
#[macro_export]
macro_rules! fail {
    ($($text:tt)*) => {
        return Err($crate::GraphError::new(format!($($text)*)))
    };
}

/// Returns a [`GraphError`] unless a condition holds.
#[doc(hidden)]
#[macro_export]
macro_rules! require {
    ($condition:expr, $($text:tt)*) => {
        if $condition {
        } else {
            $crate::fail!($($text)*);
        }
    };
}

pub(crate) use crate::{fail, require};
