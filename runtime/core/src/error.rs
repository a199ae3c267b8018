//! [`Error`]: the ABI's error object as a Rust error.

use core::fmt;
use core::panic::Location;
use core::ptr;

use crate::abi::{TVMFFIErrorCell, TVMFFIObject, TVMFFIObjectHandle, backtrace_update};
use crate::embedded::failure::Failure;
use crate::{ErrorKind, abi, embedded, provider};

/// Function name in the frame where Rust code created an error, until the packed function that the
/// error leaves sets its own.
const UNNAMED: &str = "<rust>";
/// The end of a backtrace whose last frame is of this kind.
const UNNAMED_END: &str = ", in <rust>\n";

/// The extra context of an error about a number that is outside the range of its type.
const OUT_OF_RANGE: &[u8] = b"OverflowError";

/// The extra context of an error about an operand that an operator does not apply to.
const NOT_IMPLEMENTED: &[u8] = b"NotImplemented";

/// The folder of this crate's own sources, in the form of compiled-in paths.
const OWN_SOURCES: &str = file!().split_at(file!().len() - "error.rs".len()).0;

/// A result whose error crosses languages.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// An error that any language can raise and catch: a kind (Python's exception class name), a
/// message, a backtrace.
///
/// One pointer; clones share the object. In Python, it is an exception of the class that is
/// registered for its kind.
///
/// ```
/// use kernpack::Error;
/// let error = Error::value_error("radius must be positive, got -1");
/// assert_eq!(error.kind(), "ValueError");
/// assert_eq!(error.to_string(), "ValueError: radius must be positive, got -1");
/// ```
pub struct Error {
    // An `ffi.Error`; one strong reference.
    object: ptr::NonNull<TVMFFIObject>,
}

// SAFETY: an error's content never changes, except for its backtrace, whose replaced strings stay
// alive.
unsafe impl Send for Error {}
// SAFETY: as above.
unsafe impl Sync for Error {}

macro_rules! kinds {
    ($($name:ident $kind:literal $when:literal;)*) => {$(
        #[doc = concat!("`", $kind, "`: ", $when)]
        #[cold]
        #[track_caller]
        pub fn $name(message: impl AsRef<str>) -> Self {
            Self::new($kind, message)
        }
    )*};
}

impl Error {
    /// Creates an error of any kind: an [`ErrorKind`] or a name that is known at run time. Its
    /// backtrace begins with the caller's file and line.
    #[cold]
    #[track_caller]
    pub fn new(kind: impl AsRef<str>, message: impl AsRef<str>) -> Self {
        Self::at(kind.as_ref(), message.as_ref(), Location::caller())
    }

    /// Creates the error of [`error!`](crate::error!). The message is formatted here, not where the
    /// macro is called.
    #[doc(hidden)]
    #[cold]
    #[track_caller]
    pub fn from_arguments(kind: ErrorKind, message: fmt::Arguments<'_>) -> Self {
        Self::at(kind.as_str(), &message.to_string(), Location::caller())
    }

    #[cold]
    #[inline(never)]
    fn at(kind: &str, message: &str, location: &Location<'_>) -> Self {
        if location.file().starts_with(OWN_SOURCES) {
            // A place inside this crate is meaningless to users; the packed function that the error
            // leaves adds its own.
            return Self::with_backtrace(kind, message, "");
        }
        let (file, line) = (location.file(), location.line());
        // SAFETY: this error owns the new object's reference.
        unsafe { Self::from_raw(embedded::new_error_at(kind.as_bytes(), message.as_bytes(), file, line, UNNAMED)) }
    }

    /// Creates an error with a given backtrace: one line per frame, most recent call first.
    #[cold]
    pub fn with_backtrace(kind: &str, message: &str, backtrace: &str) -> Self {
        // SAFETY: no cause and no extra context; this error owns the new object's reference.
        unsafe {
            let object = embedded::new_error(
                kind.as_bytes(),
                message.as_bytes(),
                backtrace.as_bytes(),
                ptr::null_mut(),
                ptr::null_mut(),
            );
            Self::from_raw(object)
        }
    }

    kinds! {
        value_error "ValueError" "the type is right, the value is not.";
        type_error "TypeError" "a value of another type was expected.";
        runtime_error "RuntimeError" "anything that happens outside the program's control.";
        index_error "IndexError" "an index is out of range.";
        key_error "KeyError" "a name or key does not exist.";
        internal_error "InternalError" "a defect, for example a panic.";
    }

    /// Takes ownership of one counted reference, as returned by [`Self::into_raw`].
    ///
    /// # Safety
    /// `object` is a live `ffi.Error`, and the caller owned one counted reference to it.
    pub unsafe fn from_raw(object: TVMFFIObjectHandle) -> Self {
        // SAFETY: live objects are not at address 0.
        Self { object: unsafe { ptr::NonNull::new_unchecked(object) } }
    }

    /// The object's header, borrowed: alive as long as this error.
    pub fn as_ptr(&self) -> TVMFFIObjectHandle {
        self.object.as_ptr()
    }

    /// Returns the counted reference without releasing it: it now belongs to the pointer.
    #[must_use = "the reference is never released unless the receiver does it"]
    pub fn into_raw(self) -> TVMFFIObjectHandle {
        let object = self.object.as_ptr();
        core::mem::forget(self);
        object
    }

    fn cell(&self) -> &TVMFFIErrorCell {
        // SAFETY: the object is an error and lives as long as `self`.
        unsafe { embedded::body(self.object.as_ptr()) }
    }

    /// The class of the error: `ValueError`, `TypeError`, or a custom name.
    pub fn kind(&self) -> &str {
        // SAFETY: the cell's strings live as long as the object. Strings of other languages may
        // contain any bytes, so they are checked.
        unsafe { core::str::from_utf8(self.cell().kind.as_slice()).unwrap_or("RuntimeError") }
    }

    /// The kind as stored in the object, which need not be UTF-8.
    #[doc(hidden)]
    pub fn kind_bytes(&self) -> &[u8] {
        // SAFETY: the cell's strings live as long as the object.
        unsafe { self.cell().kind.as_slice() }
    }

    /// The message as stored in the object, which need not be UTF-8.
    #[doc(hidden)]
    pub fn message_bytes(&self) -> &[u8] {
        // SAFETY: as in `kind_bytes`.
        unsafe { self.cell().message.as_slice() }
    }

    /// The message.
    pub fn message(&self) -> &str {
        // SAFETY: as in `kind`.
        let bytes = unsafe { self.cell().message.as_slice() };
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        }
    }

    /// The backtrace, one line per frame, most recent call first:
    /// `  File "src/lib.rs", line 7, in add`.
    pub fn backtrace(&self) -> &str {
        // SAFETY: as in `kind`; replaced backtraces stay alive.
        unsafe { core::str::from_utf8(self.cell().backtrace.as_slice()).unwrap_or_default() }
    }

    /// Sets the function of the last frame, if that is the place where Rust code created the error;
    /// returns false otherwise.
    pub(crate) fn name_last_frame(&mut self, function: &str) -> bool {
        // SAFETY: the object is alive; if this is its only reference it may be changed.
        if unsafe { embedded::is_unique(self.object.as_ptr()) && embedded::name_frame(self.object.as_ptr(), function) }
        {
            return true;
        }
        let Some(place) = self.backtrace().strip_suffix(UNNAMED_END) else { return false };
        *self = self.copy_with_backtrace(&format!("{place}, in {function}\n"));
        true
    }

    /// Appends frames to the backtrace, as an error does while it propagates through callers.
    /// Clones are not affected.
    pub fn append_backtrace(&mut self, frames: &str) {
        // SAFETY: the object is alive.
        if !unsafe { embedded::is_unique(self.object.as_ptr()) } {
            *self = self.copy_with_backtrace(&format!("{}{frames}", self.backtrace()));
            return;
        }
        if let Some(update) = self.cell().update_backtrace {
            let frames = abi::TVMFFIByteArray::new(frames.as_bytes());
            // SAFETY: the function belongs to this error object, which has no other reference;
            // `frames` lives for the call.
            unsafe { update(self.object.as_ptr(), &frames, backtrace_update::APPEND) };
        }
    }

    /// Creates an error object with the same content but another backtrace. A shared object is
    /// never changed in place, because another thread may be reading it.
    fn copy_with_backtrace(&self, backtrace: &str) -> Self {
        let cell = self.cell();
        // SAFETY: the cell's strings live as long as the object; cause and context are NULL or live
        // objects.
        unsafe {
            Self::from_raw(embedded::new_error(
                cell.kind.as_slice(),
                cell.message.as_slice(),
                backtrace.as_bytes(),
                cell.cause_chain,
                cell.extra_context,
            ))
        }
    }

    /// Makes this the thread's raised error. The code that catches it may extend its backtrace in
    /// place, so a shared object is copied.
    #[cold]
    #[doc(hidden)]
    pub fn raise(self) {
        // SAFETY: the object is alive.
        let unique = unsafe { embedded::is_unique(self.object.as_ptr()) };
        let own = if unique { self } else { self.copy_with_backtrace(self.backtrace()) };
        // SAFETY: the slot takes its own reference; ours is released with `own`.
        unsafe { (provider::api().error_set_raised)(own.object.as_ptr()) };
    }

    /// Takes the thread's raised error.
    #[cold]
    #[doc(hidden)]
    pub fn take_raised() -> Self {
        Self::take_if_raised().unwrap_or_else(|| Self::internal_error("a function reported an error but raised none"))
    }

    /// Takes the thread's raised error, if there is one.
    #[cold]
    #[doc(hidden)]
    pub fn take_if_raised() -> Option<Self> {
        let mut object = ptr::null_mut();
        // SAFETY: `object` is writable; this function owns a non-NULL result.
        unsafe {
            (provider::api().error_move_from_raised)(&mut object);
            (!object.is_null()).then(|| Self::from_raw(object))
        }
    }

    /// Returns the same error with a cause: `__cause__` of the exception if Python imports the
    /// library.
    ///
    /// ```
    /// use kernpack::Error;
    /// let disk = Error::new("OSError", "the disk is full");
    /// let error = Error::value_error("the table cannot be written").caused_by(disk);
    /// assert_eq!(error.cause().unwrap().message(), "the disk is full");
    /// ```
    #[must_use]
    pub fn caused_by(self, cause: Self) -> Self {
        let cell = self.cell();
        // SAFETY: the cell's strings live as long as the object; the new object takes its own
        // references to the cause and the context, which is NULL or a live object.
        unsafe {
            Self::from_raw(embedded::new_error(
                cell.kind.as_slice(),
                cell.message.as_slice(),
                cell.backtrace.as_slice(),
                cause.as_ptr(),
                cell.extra_context,
            ))
        }
    }

    /// True in a library that Python may import: only such libraries mark errors about numbers that
    /// are out of range.
    pub(crate) const MARKS_RANGES: bool = cfg!(feature = "lent_results");

    /// Returns the same error with a mark that a number is out of range. Python raises an
    /// OverflowError then if it imports the library; the package `tvm_ffi` has no class of this
    /// name, and other languages see the kind.
    #[inline]
    pub(crate) fn out_of_range(self) -> Self {
        self.with_mark(OUT_OF_RANGE)
    }

    /// Returns the same error with a mark that an operator does not apply to its operand. The
    /// Python code of wheels for `tvm_ffi` reads it.
    #[inline]
    pub(crate) fn not_implemented(self) -> Self {
        self.with_mark(NOT_IMPLEMENTED)
    }

    /// Returns the same error with a text as its extra context.
    #[inline]
    fn with_mark(self, mark: &[u8]) -> Self {
        // SAFETY: a new object, of which the error takes a reference; the first one is released
        // here.
        unsafe {
            let mark = embedded::new_string_object(mark);
            let marked = self.with_extra_context(mark);
            embedded::dec_ref(mark);
            marked
        }
    }

    /// Returns true for a ValueError about a number that is outside the range of its type.
    #[doc(hidden)]
    pub fn is_out_of_range(&self) -> bool {
        let context = self.cell().extra_context;
        // SAFETY: NULL or an object that this error keeps alive, which is read as the type of its
        // type index.
        unsafe {
            !context.is_null()
                && (*context).type_index == abi::type_index::STR
                && embedded::body::<abi::TVMFFIByteArray>(context).as_slice() == OUT_OF_RANGE
                && self.kind_bytes() == b"ValueError"
        }
    }

    /// The object that the error carries beside its texts and its cause, borrowed; NULL if there is
    /// none.
    #[inline]
    pub(crate) fn extra_context(&self) -> *mut TVMFFIObject {
        self.cell().extra_context
    }

    /// Returns the same error with another object in that place.
    ///
    /// # Safety
    /// `context` is NULL or a live object.
    #[inline]
    pub(crate) unsafe fn with_extra_context(&self, context: *mut TVMFFIObject) -> Self {
        let cell = self.cell();
        // SAFETY: the cell's strings live as long as the object; the new object takes its own
        // references to the cause and the context.
        unsafe {
            Self::from_raw(embedded::new_error(
                cell.kind.as_slice(),
                cell.message.as_slice(),
                cell.backtrace.as_slice(),
                cell.cause_chain,
                context,
            ))
        }
    }

    /// The error that caused this one, if there is one.
    pub fn cause(&self) -> Option<Self> {
        let cause = self.cell().cause_chain;
        // SAFETY: NULL or an object that this error keeps alive; if it is an error, it gets another
        // reference, which the result owns.
        unsafe {
            if cause.is_null() || (*cause).type_index != abi::type_index::ERROR {
                return None;
            }
            embedded::inc_ref(cause);
            Some(Self::from_raw(cause))
        }
    }

    /// Converts a status of the C API to a result.
    #[inline]
    #[doc(hidden)]
    pub fn check(status: i32) -> Result<()> {
        if status == 0 { Ok(()) } else { Err(Self::take_raised()) }
    }
}

impl Drop for Error {
    fn drop(&mut self) {
        // SAFETY: this error owns one reference.
        unsafe { embedded::dec_ref(self.object.as_ptr()) }
    }
}

impl Clone for Error {
    fn clone(&self) -> Self {
        // SAFETY: the object is alive.
        unsafe { embedded::inc_ref(self.object.as_ptr()) };
        Self { object: self.object }
    }
}

/// Converts a failure inside the runtime to an error; an error that foreign code raised is passed
/// on unchanged.
impl From<Failure> for Error {
    #[cold]
    fn from(failure: Failure) -> Self {
        // SAFETY: an error object whose one reference is transferred.
        unsafe { Self::from_raw(failure.into_plain_error()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind(), self.message())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let backtrace = self.backtrace();
        if !backtrace.is_empty() {
            write!(f, "\n{}", backtrace.trim_end())?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

macro_rules! from_std_errors {
    ($($type:ty => $kind:literal),* $(,)?) => {$(
        impl From<$type> for Error {
            #[track_caller]
            fn from(error: $type) -> Self {
                Self::new($kind, format!("{error}"))
            }
        }
    )*};
}
from_std_errors!(
    fmt::Error => "RuntimeError",
    core::num::ParseIntError => "ValueError",
    core::num::ParseFloatError => "ValueError",
    core::num::TryFromIntError => "OverflowError",
    core::str::Utf8Error => "ValueError",
    std::string::FromUtf8Error => "ValueError",
    core::array::TryFromSliceError => "ValueError",
    core::str::ParseBoolError => "ValueError",
    core::char::ParseCharError => "ValueError",
    std::ffi::NulError => "ValueError",
    String => "RuntimeError",
    &str => "RuntimeError",
);

/// The kind is Python's for the same system error: `FileNotFoundError`, `PermissionError`,
/// `TimeoutError`, and `OSError` for those without their own class.
impl From<std::io::Error> for Error {
    #[cold]
    #[track_caller]
    fn from(error: std::io::Error) -> Self {
        Self::new(kind_of_io(error.kind()), format!("{error}"))
    }
}

/// Python's class for a system error.
pub(crate) fn kind_of_io(kind: std::io::ErrorKind) -> ErrorKind {
    use std::io::ErrorKind as Io;

    use crate::error_kind as python;
    match kind {
        Io::NotFound => python::FileNotFoundError,
        Io::PermissionDenied => python::PermissionError,
        Io::TimedOut => python::TimeoutError,
        Io::AlreadyExists => python::FileExistsError,
        Io::IsADirectory => python::IsADirectoryError,
        Io::NotADirectory => python::NotADirectoryError,
        Io::ConnectionRefused => python::ConnectionRefusedError,
        Io::ConnectionReset => python::ConnectionResetError,
        Io::ConnectionAborted => python::ConnectionAbortedError,
        Io::BrokenPipe => python::BrokenPipeError,
        Io::WouldBlock => python::BlockingIOError,
        Io::Interrupted => python::InterruptedError,
        Io::UnexpectedEof => python::EOFError,
        Io::OutOfMemory => python::MemoryError,
        _ => python::OSError,
    }
}

macro_rules! from_boxed_errors {
    ($($type:ty),*) => {$(
        /// An [`Error`] in the box is unpacked unchanged; others become a RuntimeError.
        impl From<Box<$type>> for Error {
            #[track_caller]
            fn from(error: Box<$type>) -> Self {
                match error.downcast::<Self>() {
                    Ok(error) => *error,
                    Err(error) => Self::runtime_error(format!("{error}")),
                }
            }
        }
    )*};
}
from_boxed_errors!(dyn std::error::Error, dyn std::error::Error + Send + Sync);

/// Creates an [`Error`] from a kind, followed by a message as in `format!`. The kind is one of
/// [`error_kind`](mod@crate::error_kind), which do not need an import, or a custom [`ErrorKind`].
///
/// ```
/// let radius = -1;
/// let error = kernpack::error!(ValueError, "radius must be positive, got {radius}");
/// assert_eq!(error.message(), "radius must be positive, got -1");
/// ```
#[macro_export]
macro_rules! error {
    ($kind:expr, $($message:tt)+) => {
        $crate::Error::from_arguments(
            {
                #[allow(unused_imports)]
                use $crate::error_kind::*;
                $kind
            },
            ::core::format_args!($($message)+),
        )
    };
}

/// Returns early with an [`Error`] created from a kind, followed by a message as in `format!`; see
/// [`error!`](crate::error!).
#[macro_export]
macro_rules! bail {
    ($kind:expr, $($message:tt)+) => {
        return ::core::result::Result::Err(::core::convert::From::from($crate::error!($kind, $($message)+)))
    };
}

/// Returns early with an [`Error`] unless a condition holds.
///
/// ```
/// fn half(n: i64) -> kernpack::Result<i64> {
///     kernpack::ensure!(n % 2 == 0, ValueError, "{n} is odd");
///     Ok(n / 2)
/// }
/// assert_eq!(half(3).unwrap_err().message(), "3 is odd");
/// ```
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $kind:expr, $($message:tt)+) => {
        if !$condition {
            $crate::bail!($kind, $($message)+);
        }
    };
}

/// Converts an error of packing a blob, with the same kind and message.
impl From<kernpack_formats::export::ExportError> for Error {
    fn from(error: kernpack_formats::export::ExportError) -> Self {
        Self::new(error.kind(), error.message())
    }
}

/// For packers that call functions of this crate. An error of any other kind becomes a RuntimeError
/// whose message contains the kind.
impl From<Error> for kernpack_formats::export::ExportError {
    fn from(error: Error) -> Self {
        match error.kind() {
            "RuntimeError" => Self::new("RuntimeError", error.message()),
            "OSError" => Self::new("OSError", error.message()),
            "FileNotFoundError" => Self::new("FileNotFoundError", error.message()),
            "PermissionError" => Self::new("PermissionError", error.message()),
            "ValueError" => Self::new("ValueError", error.message()),
            _ => Self::new("RuntimeError", format!("{error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Function;

    #[test]
    fn errors_of_the_system_have_the_kinds_of_python() {
        use std::io;
        for (kind, expected) in [
            (io::ErrorKind::NotFound, "FileNotFoundError"),
            (io::ErrorKind::PermissionDenied, "PermissionError"),
            (io::ErrorKind::TimedOut, "TimeoutError"),
            (io::ErrorKind::AlreadyExists, "FileExistsError"),
            (io::ErrorKind::BrokenPipe, "BrokenPipeError"),
            (io::ErrorKind::UnexpectedEof, "EOFError"),
            (io::ErrorKind::AddrInUse, "OSError"),
            (io::ErrorKind::Other, "OSError"),
        ] {
            assert_eq!(Error::from(io::Error::new(kind, "x")).kind(), expected);
        }
        let error = Error::from(std::fs::read("/no/such/file").unwrap_err());
        assert_eq!(error.to_string(), "FileNotFoundError: No such file or directory (os error 2)");
    }

    #[test]
    fn who_catches_an_error_does_not_change_that_of_others() {
        let kept = Error::with_backtrace("ValueError", "kept", "a\n");
        let raised = kept.clone();
        let function = Function::from_fn(move || -> Result<i64> { Err(raised.clone()) });
        let caught = function.call(()).unwrap_err();
        // A foreign caller does this while the error propagates.
        let update = caught.cell().update_backtrace.unwrap();
        // SAFETY: the function belongs to this error; the string lives for the call.
        unsafe { update(caught.object.as_ptr(), &abi::TVMFFIByteArray::new(b"b\n"), backtrace_update::APPEND) };
        assert!(caught.backtrace().ends_with("b\n"));
        assert_eq!(kept.backtrace(), "a\n");
    }
}
