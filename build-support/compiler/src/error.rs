//! The errors of the compiler, for invalid programs, schedules and targets.

mod reported;

use core::fmt;
use core::panic::Location;
use std::cell::RefCell;

pub(crate) use reported::report;
pub use reported::{collect_reported, take_reported, with_reported};

/// `Result` with [`CompileError`].
pub type Result<T, E = CompileError> = core::result::Result<T, E>;

/// The part of the compiler that found the mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// An expression whose types, shapes or names do not match.
    Type,
    /// A schedule primitive that cannot be applied.
    Schedule,
    /// Bound inference cannot find a region.
    Bound,
    /// A pass cannot lower the program.
    Lower,
    /// The target does not support the program.
    Target,
    /// Text that does not parse.
    Syntax,
    /// The program has undefined behavior, found by the interpreter.
    Run,
    /// A verifier found that a pass left an invalid program: a bug in the compiler.
    Internal,
}

impl ErrorKind {
    const ALL: [Self; 8] =
        [Self::Type, Self::Schedule, Self::Bound, Self::Lower, Self::Target, Self::Syntax, Self::Run, Self::Internal];

    /// The name with which messages begin.
    pub fn name(self) -> &'static str {
        match self {
            Self::Type => "TypeError",
            Self::Schedule => "ScheduleError",
            Self::Bound => "BoundError",
            Self::Lower => "LowerError",
            Self::Target => "TargetError",
            Self::Syntax => "SyntaxError",
            Self::Run => "RunError",
            Self::Internal => "InternalError",
        }
    }

    /// The kind with which a message begins, and the text after it.
    fn of_message(message: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|kind| Some((kind, message.strip_prefix(kind.name())?.strip_prefix(": ")?)))
    }
}

/// A mistake, with the places in the user's program and hints.
///
/// ```
/// use kernpack_compiler::{CompileError, ErrorKind};
///
/// let error = CompileError::new(ErrorKind::Schedule, "split: `k.outer` of stage `c` is no longer a loop")
///     .at("build.rs:31:7")
///     .note("it was fused at build.rs:30:20");
/// assert_eq!(
///     error.to_string(),
///     "ScheduleError: split: `k.outer` of stage `c` is no longer a loop\n  --> build.rs:31:7\n   = it was fused at build.rs:30:20",
/// );
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct CompileError(Box<Content>);

#[derive(Clone, PartialEq, Eq)]
struct Content {
    kind: ErrorKind,
    what: String,
    places: Vec<String>,
    notes: Vec<String>,
    others: Vec<CompileError>,
}

impl CompileError {
    /// Creates an error of a kind; `what` is one sentence in lower case without a full stop.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self(Box::new(Content { kind, what: what.into(), places: Vec::new(), notes: Vec::new(), others: Vec::new() }))
    }

    /// Adds a place in the user's program, `file:line:column`; an empty one is ignored.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        let place = place.to_string();
        if !place.is_empty() && !self.0.places.contains(&place) {
            self.0.places.push(place);
        }
        self
    }

    /// Adds a line: a cause, or a hint.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.0.notes.push(note.into());
        self
    }

    /// Combines several errors into one that shows all of them.
    pub fn all(errors: Vec<Self>) -> Option<Self> {
        let mut errors = errors.into_iter();
        let mut first = errors.next()?;
        first.0.others.extend(errors);
        Some(first)
    }

    /// The kind of the mistake.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence, without its kind and places.
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// All mistakes, each as a complete message.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = vec![self.single()];
        for other in &self.0.others {
            problems.extend(other.problems());
        }
        problems
    }

    /// Reads the message of one error.
    fn of_message(message: &str) -> Option<Self> {
        let (kind, text) = ErrorKind::of_message(message)?;
        let mut lines = text.lines();
        let mut read = Self::new(kind, lines.next().unwrap_or_default());
        for line in lines {
            read = match (line.strip_prefix("  --> "), line.strip_prefix("   = ")) {
                (Some(place), _) => read.at(place),
                (_, Some(note)) => read.note(note),
                _ => read.continued(line),
            };
        }
        Some(read)
    }

    /// Adds a line to the text that was added last: the sentence, or a note.
    fn continued(mut self, line: &str) -> Self {
        let Content { what, places, notes, .. } = &mut *self.0;
        match notes.last_mut() {
            Some(last) => *last = format!("{last}\n{line}"),
            None if places.is_empty() => *what = format!("{what}\n{line}"),
            None => notes.push(line.to_owned()),
        }
        self
    }

    fn single(&self) -> String {
        let Content { kind, what, places, notes, .. } = &*self.0;
        let mut text = format!("{}: {what}", kind.name());
        for place in places {
            text.push_str("\n  --> ");
            text.push_str(place);
        }
        for note in notes {
            text.push_str("\n   = ");
            text.push_str(note);
        }
        text
    }
}

/// Adds errors after those that this one already contains.
impl Extend<CompileError> for CompileError {
    fn extend<I: IntoIterator<Item = Self>>(&mut self, errors: I) {
        self.0.others.extend(errors);
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems().join("\n\n"))
    }
}

impl fmt::Debug for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CompileError {}

impl From<CompileError> for kernpack::Error {
    fn from(error: CompileError) -> Self {
        let kind = match error.kind() {
            ErrorKind::Type => kernpack::error_kind::TypeError,
            ErrorKind::Internal => kernpack::error_kind::InternalError,
            ErrorKind::Run => kernpack::error_kind::RuntimeError,
            _ => kernpack::error_kind::ValueError,
        };
        Self::new(kind, error.to_string())
    }
}

/// Converts an error of the compiler that passed through a packed function back to the original,
/// with its kind, places, notes and further errors.
impl From<kernpack::Error> for CompileError {
    fn from(error: kernpack::Error) -> Self {
        let message = error.message();
        // An empty line separates errors; it may also be part of one.
        let mut problems: Vec<String> = Vec::new();
        for part in message.split("\n\n") {
            match problems.last_mut() {
                Some(last) if ErrorKind::of_message(part).is_none() => {
                    last.push_str("\n\n");
                    last.push_str(part);
                }
                _ => problems.push(part.to_owned()),
            }
        }
        let ours: Option<Vec<Self>> = problems.iter().map(|problem| Self::of_message(problem)).collect();
        ours.and_then(Self::all).unwrap_or_else(|| Self::new(ErrorKind::Lower, format!("{}: {message}", error.kind())))
    }
}

thread_local! {
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs work whose caller is not Rust code: errors and spans contain this place instead of a line
/// of the compiler. An empty place means none.
pub(crate) fn with_place<R>(place: &str, work: impl FnOnce() -> R) -> R {
    struct Restore(Option<String>);
    impl Drop for Restore {
        fn drop(&mut self) {
            PLACE.set(self.0.take());
        }
    }
    let _restore = Restore(PLACE.replace(Some(place.to_owned())));
    work()
}

/// `file:line:column` of a caller; empty if unknown.
pub(crate) fn place(location: &Location<'_>) -> String {
    if let Some(place) = PLACE.with_borrow(Clone::clone) {
        return place;
    }
    format!("{}:{}:{}", location.file(), location.line(), location.column())
}

/// Returns an error of the given kind unless a condition holds.
macro_rules! require {
    ($condition:expr, $kind:ident, $($text:tt)*) => {
        if !$condition {
            return Err($crate::CompileError::new($crate::ErrorKind::$kind, format!($($text)*)));
        }
    };
}

/// Returns an error of the given kind.
#[allow(unused_macros, reason = "used as rooms are added")]
macro_rules! fail {
    ($kind:ident, $($text:tt)*) => {
        return Err($crate::CompileError::new($crate::ErrorKind::$kind, format!($($text)*)))
    };
}

#[allow(unused_imports, unused_macros, reason = "used as rooms are added")]
pub(crate) use {fail, require};
