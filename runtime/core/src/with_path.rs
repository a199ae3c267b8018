//! [`WithPath`]: the paths of files in errors of the system.

use std::io;
use std::path::Path;

use crate::{Error, Result};

/// Says which file an error of the system is about: `filename` and `filename2` of Python's `OSError`.
///
/// ```
/// use kernpack::{Result, WithPath};
///
/// fn load(path: &str) -> Result<String> {
///     std::fs::read_to_string(path).with_path(path)
/// }
///
/// let error = load("/no/such/table.txt").unwrap_err();
/// assert_eq!(error.kind(), "FileNotFoundError");
/// # #[cfg(unix)]
/// assert_eq!(error.message(), "No such file or directory (os error 2): '/no/such/table.txt'");
/// ```
pub trait WithPath<T> {
    /// The file that could not be opened, read, written, ...
    #[track_caller]
    fn with_path(self, path: impl AsRef<Path>) -> Result<T>;

    /// The two files of an operation such as `std::fs::rename` or `std::fs::copy`.
    #[track_caller]
    fn with_paths(self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<T>;
}

impl<T> WithPath<T> for io::Result<T> {
    #[track_caller]
    fn with_path(self, path: impl AsRef<Path>) -> Result<T> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => Err(about(&error, path.as_ref(), None)),
        }
    }

    #[track_caller]
    fn with_paths(self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<T> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => Err(about(&error, from.as_ref(), Some(to.as_ref()))),
        }
    }
}

#[cold]
#[track_caller]
fn about(error: &io::Error, path: &Path, other: Option<&Path>) -> Error {
    let mut message = format!("{error}: '{}'", path.display());
    if let Some(other) = other {
        message.push_str(&format!(" -> '{}'", other.display()));
    }
    Error::new(crate::error::kind_of_io(error.kind()), message)
}

/// What the message of an error of the system says: it travels through every language, so it is where the number and the paths are.
#[doc(hidden)]
#[derive(Debug, PartialEq, Eq)]
pub struct SystemError<'a> {
    /// `errno`; on Windows the number is not that, and is not read.
    pub number: i32,
    /// What the system says of it.
    pub text: &'a str,
    /// The file.
    pub path: Option<&'a str>,
    /// The second file.
    pub other_path: Option<&'a str>,
}

impl<'a> SystemError<'a> {
    /// Reads a message as Rust writes it, `No such file or directory (os error 2)`, with the paths that [`WithPath`] adds. The form of Python's own
    /// exceptions, `[Errno 2] No such file or directory: 'a.txt'`, is read as well: an exception that passed through a language without
    /// exceptions comes back as that.
    pub fn read(message: &'a str) -> Option<Self> {
        if cfg!(windows) {
            return None;
        }
        if let Some(rest) = message.strip_prefix("[Errno ") {
            let (number, rest) = rest.split_once("] ")?;
            let (text, paths) = rest.split_once(": '").unwrap_or((rest, ""));
            return Self::of(number, text, paths);
        }
        let (text, rest) = message.split_once(" (os error ")?;
        let (number, rest) = rest.split_once(')')?;
        match rest.strip_prefix(": '") {
            Some(paths) => Self::of(number, text, paths),
            None if rest.is_empty() => Self::of(number, text, ""),
            None => None,
        }
    }

    /// `paths` is what follows the first quote: `a'`, `a' -> 'b'`, or nothing.
    fn of(number: &str, text: &'a str, paths: &'a str) -> Option<Self> {
        let number = number.parse().ok()?;
        if paths.is_empty() {
            return Some(Self { number, text, path: None, other_path: None });
        }
        let paths = paths.strip_suffix('\'')?;
        let (path, other_path) = match paths.split_once("' -> '") {
            Some((path, other)) => (path, Some(other)),
            None => (paths, None),
        };
        Some(Self { number, text, path: Some(path), other_path })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let missing = || std::fs::read("/no/such/file");
        let text = "No such file or directory";
        let read = |error: &Error| {
            let SystemError { number, text, path, other_path } = SystemError::read(error.message()).unwrap();
            (number, text.to_owned(), path.map(str::to_owned), other_path.map(str::to_owned))
        };
        let owned = |path: &str| Some(path.to_owned());
        for path in ["a", "/no/such: 'file'.txt", "with ' and (os error 3): 'x", "", "ä\n"] {
            let error = missing().with_path(path).unwrap_err();
            assert_eq!(error.kind(), "FileNotFoundError");
            assert_eq!(error.message(), format!("{text} (os error 2): '{path}'"));
            assert_eq!(read(&error), (2, text.to_owned(), owned(path), None));
            let error = missing().with_paths(path, "to").unwrap_err();
            assert_eq!(read(&error), (2, text.to_owned(), owned(path), owned("to")));
        }
        assert_eq!(read(&Error::from(missing().unwrap_err())), (2, text.to_owned(), None, None));
        assert_eq!(missing().with_path("a").unwrap_err().backtrace().lines().count(), 0, "a place inside this crate");
    }

    #[test]
    fn messages() {
        let full = |number, text, path, other_path| Some(SystemError { number, text, path, other_path });
        let rows = [
            ("denied (os error 13)", full(13, "denied", None, None)),
            ("[Errno 2] none: 'a.txt'", full(2, "none", Some("a.txt"), None)),
            ("[Errno 2] none: 'a' -> 'b'", full(2, "none", Some("a"), Some("b"))),
            ("[Errno 2] none", full(2, "none", None, None)),
            ("reading failed: denied (os error 13)", full(13, "reading failed: denied", None, None)),
            ("", None),
            ("no model", None),
            ("no model: 'a'", None),
            ("denied (os error 13) while reading", None),
            ("denied (os error x)", None),
            ("denied (os error 99999999999)", None),
            ("denied (os error 13): 'a", None),
            ("denied (os error 13", None),
            ("[Errno 2", None),
            ("[Errno 2] none: 'a", None),
        ];
        for (message, expected) in rows {
            assert_eq!(SystemError::read(message), expected, "{message}");
        }
    }
}
