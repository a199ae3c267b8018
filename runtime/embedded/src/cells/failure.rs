//! The failure of one of our own functions, before it becomes an error object.

use core::fmt;
use core::panic::Location;
use core::ptr::null_mut;

use crate::abi::{TVMFFIErrorCell, TVMFFIObject, TVMFFIObjectHandle};

use super::serving::serving;
use super::{body, dec_ref, new_error};
use crate::backtrace::{backtrace_of_failure, here};

/// A failure inside the runtime: an error of our own, or one that foreign code raised.
pub struct Failure {
    // Boxed, so that results are returned in registers and propagated in one instruction.
    cause: Box<Cause>,
}

enum Cause {
    New { kind: &'static str, message: Vec<u8>, location: &'static Location<'static> },
    Raised(RaisedError),
}

/// One strong reference to an error object.
struct RaisedError(*mut TVMFFIObject);

impl Drop for RaisedError {
    fn drop(&mut self) {
        // SAFETY: the value owns this reference, which is never NULL.
        unsafe { dec_ref(self.0) }
    }
}

impl Failure {
    /// Creates an error of a class such as `ValueError`; its backtrace names the caller.
    #[track_caller]
    #[cold]
    pub fn new(kind: &'static str, message: impl fmt::Display) -> Self {
        Self::at(kind, format!("{message}").into_bytes(), Location::caller())
    }

    /// Creates an error whose message is the concatenation of the parts: for messages that quote a
    /// caller's bytes, which may be invalid UTF-8.
    #[track_caller]
    #[cold]
    pub fn of_parts(kind: &'static str, parts: &[&[u8]]) -> Self {
        Self::at(kind, parts.concat(), Location::caller())
    }

    #[cold]
    fn at(kind: &'static str, message: Vec<u8>, location: &'static Location<'static>) -> Self {
        Self { cause: Box::new(Cause::New { kind, message, location }) }
    }

    /// An `InternalError`.
    #[track_caller]
    #[cold]
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new("InternalError", message)
    }

    /// A `RuntimeError`.
    #[track_caller]
    #[cold]
    pub fn runtime(message: impl fmt::Display) -> Self {
        Self::new("RuntimeError", message)
    }

    /// A `ValueError`.
    #[track_caller]
    #[cold]
    pub fn value(message: impl fmt::Display) -> Self {
        Self::new("ValueError", message)
    }

    /// A `TypeError`.
    #[track_caller]
    #[cold]
    pub fn type_error(message: impl fmt::Display) -> Self {
        Self::new("TypeError", message)
    }

    /// Wraps an error object that foreign code passed.
    ///
    /// # Safety
    /// `error` is NULL, or an error object of which the caller transfers a strong reference.
    #[cold]
    pub unsafe fn from_object(error: TVMFFIObjectHandle) -> Self {
        if error.is_null() {
            return Self::internal("a call failed without raising an error");
        }
        Self { cause: Box::new(Cause::Raised(RaisedError(error))) }
    }

    /// Takes the error that a failed call left on this thread, from the implementation that serves
    /// the process.
    #[cold]
    pub fn take_raised() -> Self {
        let mut error = null_mut();
        // SAFETY: the function writes NULL or a reference that it gives up.
        unsafe {
            (serving().error_move_from_raised)(&raw mut error);
            Self::from_object(error)
        }
    }

    /// The class of the error.
    pub fn kind(&self) -> String {
        match &*self.cause {
            Cause::New { kind, .. } => (*kind).to_owned(),
            // SAFETY: the reference keeps the error alive.
            Cause::Raised(error) => unsafe { lossy(body::<TVMFFIErrorCell>(error.0).kind.as_slice()) },
        }
    }

    /// The message of the error.
    pub fn message(&self) -> String {
        match &*self.cause {
            Cause::New { message, .. } => lossy(message),
            // SAFETY: the reference keeps the error alive.
            Cause::Raised(error) => unsafe { lossy(body::<TVMFFIErrorCell>(error.0).message.as_slice()) },
        }
    }

    /// Converts to an error object; the caller owns its one strong reference. `function` names the
    /// API function in the backtrace, which continues with the native frames of this call.
    #[cold]
    pub fn into_error(self, function: &str) -> *mut TVMFFIObject {
        match *self.cause {
            Cause::New { kind, message, location } => {
                let backtrace = backtrace_of_failure(location.file(), location.line(), function, here());
                // SAFETY: no cause and no extra context.
                unsafe { new_error(kind.as_bytes(), &message, &backtrace, null_mut(), null_mut()) }
            }
            Cause::Raised(error) => core::mem::ManuallyDrop::new(error).0,
        }
    }

    /// Like [`Failure::into_error`], without our own frame in the backtrace.
    pub fn into_plain_error(self) -> *mut TVMFFIObject {
        match *self.cause {
            // SAFETY: no cause and no extra context.
            Cause::New { kind, message, .. } => unsafe {
                new_error(kind.as_bytes(), &message, b"", null_mut(), null_mut())
            },
            Cause::Raised(error) => core::mem::ManuallyDrop::new(error).0,
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind(), self.message())
    }
}
