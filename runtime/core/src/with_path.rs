//! [`WithPath`]: the paths of files in system errors.

use std::io;
use std::path::Path;

use crate::{Error, Result};

/// Adds the file that a system error is about: `filename` and `filename2` of Python's `OSError`.
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
    /// Adds the path of the file that could not be opened, read, written, ...
    #[track_caller]
    fn with_path(self, path: impl AsRef<Path>) -> Result<T>;

    /// Adds the two paths of an operation such as `std::fs::rename` or `std::fs::copy`.
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
    let paths: Vec<String> = [Some(path), other].into_iter().flatten().map(|path| path.display().to_string()).collect();
    // Single quotes mark the end of each path. Paths that contain such quotes get double quotes,
    // which do not mark the end.
    let quotes_are_clear = paths.join(BETWEEN).split(BETWEEN).eq(&paths);
    let quote = if quotes_are_clear { '\'' } else { '"' };
    let quoted: Vec<String> = paths.iter().map(|path| format!("{quote}{path}{quote}")).collect();
    Error::new(crate::error::kind_of_io(error.kind()), format!("{error}: {}", quoted.join(" -> ")))
}

/// Separator of two paths.
const BETWEEN: &str = "' -> '";

/// The parsed message of a system error. The number and the paths are in the message because only
/// the message crosses languages.
#[doc(hidden)]
#[derive(Debug, PartialEq, Eq)]
pub struct SystemError<'a> {
    /// `errno`; on Windows the number is not an `errno`, and is not read.
    pub number: i32,
    /// The system's description of the error; also the paths, if their ends are ambiguous.
    pub text: &'a str,
    /// The file.
    pub path: Option<&'a str>,
    /// The second file.
    pub other_path: Option<&'a str>,
}

impl<'a> SystemError<'a> {
    /// Parses a message of Rust, `No such file or directory (os error 2)`, with the paths that
    /// [`WithPath`] adds. The form of Python's exceptions,
    /// `[Errno 2] No such file or directory: 'a.txt'`, is parsed as well: an exception that passed
    /// through a language without exceptions comes back in this form.
    pub fn read(message: &'a str) -> Option<Self> {
        if cfg!(windows) {
            return None;
        }
        if let Some(rest) = message.strip_prefix("[Errno ") {
            let (number, rest) = rest.split_once("] ")?;
            let (text, quoted) = rest.find(": '").map_or((rest, ""), |at| (&rest[..at], &rest[at + 2..]));
            // Python escapes some characters of a path with a backslash.
            return Self::of(number, text, quoted, rest, quoted.contains('\\'));
        }
        // The text before it, such as the name of a file, may look the same.
        message.match_indices(BEFORE_NUMBER).find_map(|(at, before)| {
            let (number, rest) = message[at + before.len()..].split_once(')')?;
            let quoted = match rest {
                "" => "",
                rest => rest.strip_prefix(": ").filter(|quoted| !quoted.is_empty())?,
            };
            Self::of(number, &message[..at], quoted, message, quoted.starts_with('"'))
        })
    }

    /// Builds the result. `quoted` is one path or two with their quotes, or empty; `whole` is the
    /// text including them, for paths whose ends are ambiguous.
    fn of(number: &str, text: &'a str, quoted: &'a str, whole: &'a str, is_unclear: bool) -> Option<Self> {
        let is_number = (1..=9).contains(&number.len()) && number.bytes().all(|digit| digit.is_ascii_digit());
        let number = number.parse().ok().filter(|_| is_number)?;
        if quoted.is_empty() {
            return Some(Self { number, text, path: None, other_path: None });
        }
        let within = |quote: char| quoted.strip_prefix(quote)?.strip_suffix(quote);
        let mut paths = within('\'').or_else(|| within('"'))?.split(BETWEEN);
        let (path, other_path) = (paths.next(), paths.next());
        Some(match is_unclear || paths.next().is_some() {
            true => Self { number, text: whole, path: None, other_path: None },
            false => Self { number, text, path, other_path },
        })
    }
}

/// Text before the number in Rust's messages.
const BEFORE_NUMBER: &str = " (os error ";

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
        // One path is not mistaken for two, nor two for others.
        let error = missing().with_path("x' -> '/etc/passwd").unwrap_err();
        assert_eq!(error.message(), format!("{text} (os error 2): \"x' -> '/etc/passwd\""));
        assert_eq!(read(&error), (2, error.message().to_owned(), None, None));
        for [from, to] in [["a' -> ", "b"], ["a' -> 'b", "c"]] {
            let error = missing().with_paths(from, to).unwrap_err();
            assert_eq!(error.message(), format!("{text} (os error 2): \"{from}\" -> \"{to}\""));
            assert_eq!(read(&error), (2, error.message().to_owned(), None, None));
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
            (
                "cannot read 'a (os error 5)': denied (os error 13)",
                full(13, "cannot read 'a (os error 5)': denied", None, None),
            ),
            ("[Errno 2] none: 'a\\\\b'", full(2, "none: 'a\\\\b'", None, None)),
            ("[Errno 2] none: \"a'b\"", full(2, "none: \"a'b\"", None, None)),
            ("[Errno 2] none: 'a' -> 'b' -> 'c'", full(2, "none: 'a' -> 'b' -> 'c'", None, None)),
            ("", None),
            ("denied (os error +13)", None),
            ("denied (os error 13): '", None),
            ("denied (os error 13): ", None),
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
