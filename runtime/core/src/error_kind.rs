//! The error kinds that [`bail!`](crate::bail!), [`error!`](crate::error!) and
//! [`ensure!`](crate::ensure!) accept by name.
//!
//! The macros find these constants without an import. A custom kind is a constant in your crate:
//!
//! ```
//! use kernpack::{ErrorKind, Result, bail};
//!
//! #[allow(non_upper_case_globals, reason = "it is the name of a Python class")]
//! const DecodeError: ErrorKind = ErrorKind::new("imagekit.DecodeError");
//!
//! fn decode(bytes: &[u8]) -> Result<u8> {
//!     match bytes {
//!         [] => bail!(ValueError, "no bytes"),
//!         [0, ..] => bail!(DecodeError, "a picture does not begin with 0"),
//!         [first, ..] => Ok(*first),
//!     }
//! }
//! assert_eq!(decode(&[]).unwrap_err().kind(), "ValueError");
//! assert_eq!(decode(&[0]).unwrap_err().kind(), DecodeError);
//! ```
//!
//! `kernpack::exception!(DecodeError: ValueError);` defines the constant, and registers the base
//! class for Python.

#![allow(non_upper_case_globals, reason = "the names of Python's exceptions")]

/// The kind of an error: the name of its class in Python, and a plain name in other languages.
///
/// Python supports RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError,
/// AssertionError and MemoryError. Classes of other kinds must be registered there
/// (`tvm_ffi.register_error("OSError", OSError)`); without a class, the error is a RuntimeError.
///
/// Constants of the common kinds are in [`error_kind`](self).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ErrorKind(&'static str);

impl ErrorKind {
    /// Creates a custom kind. In Python it is a RuntimeError, until a class is registered under
    /// this name.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The name.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl AsRef<str> for ErrorKind {
    fn as_ref(&self) -> &str {
        self.0
    }
}

impl core::fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }
}

/// For `error.kind() == ValueError`.
impl PartialEq<ErrorKind> for &str {
    fn eq(&self, other: &ErrorKind) -> bool {
        *self == other.0
    }
}

macro_rules! kinds {
    ($($name:ident: $when:literal;)*) => {$(
        #[doc = $when]
        pub const $name: ErrorKind = ErrorKind(stringify!($name));
    )*};
}

kinds! {
    ValueError: "The type is right, the value is not.";
    TypeError: "A value of another type was expected.";
    RuntimeError: "Anything that happens outside the program's control.";
    IndexError: "An index is out of range.";
    KeyError: "A name or key does not exist.";
    LookupError: "Something looked for does not exist: the kind above IndexError and KeyError.";
    AttributeError: "A field or method does not exist, or cannot be written.";
    NameError: "A name is not defined.";
    NotImplementedError: "An operation that is not there yet, or not for this type.";
    AssertionError: "A condition that always holds does not.";
    InternalError: "A defect, for example a panic.";
    ArithmeticError: "A calculation that has no result: the kind above OverflowError and ZeroDivisionError.";
    OverflowError: "A number does not fit into its type.";
    ZeroDivisionError: "A division by zero.";
    FloatingPointError: "A floating-point operation failed.";
    MemoryError: "Not enough memory.";
    BufferError: "An operation on memory that is in use.";
    RecursionError: "Nested too deeply.";
    StopIteration: "An iterator has no more values.";
    EOFError: "The input ended too early.";
    OSError: "An operation of the system failed.";
    FileNotFoundError: "A file or directory does not exist.";
    FileExistsError: "A file or directory exists already.";
    IsADirectoryError: "A directory where a file was expected.";
    NotADirectoryError: "A file where a directory was expected.";
    PermissionError: "The program may not do that.";
    ConnectionError: "A connection could not be made or broke: the kind above the other four of connections.";
    ConnectionRefusedError: "The other side refuses a connection.";
    ConnectionResetError: "The other side ended a connection at once.";
    ConnectionAbortedError: "A connection was ended before it was made.";
    BrokenPipeError: "The other side does not read any more.";
    BlockingIOError: "An operation would wait, and may not.";
    TimeoutError: "An operation took too long.";
    InterruptedError: "An operation was interrupted by a signal.";
    KeyboardInterrupt: "The user pressed Ctrl-C.";
    SystemExit: "The program is to end.";
    ImportError: "A module could not be loaded.";
    ModuleNotFoundError: "A module does not exist.";
    SyntaxError: "A text does not follow its grammar.";
    UnicodeError: "A text is not valid Unicode.";
    SystemError: "A defect of the Python interpreter.";
}
