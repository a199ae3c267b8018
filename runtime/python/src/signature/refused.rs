//! Reasons that there is no value for a Python object.

use kernpack_core::Error;
use kernpack_core::embedded::failure::Failure;

use crate::cpython::object::Raised;

/// A reason that there is no value for a Python object.
pub(crate) enum Refused {
    /// A Python exception is set.
    Raised(Raised),
    /// The argument is wrong, as the clause describes.
    Because {
        /// Kind of the error.
        kind: &'static str,
        /// The text after the argument's name.
        clause: String,
    },
}

impl From<Raised> for Refused {
    fn from(raised: Raised) -> Self {
        Self::Raised(raised)
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::from(Error::from(failure))
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let kind = if error.kind() == "TypeError" { "TypeError" } else { "ValueError" };
        Self::Because { kind, clause: error.message().to_owned() }
    }
}

/// The error of a function that writes to a read-only array.
pub(crate) fn read_only() -> Refused {
    let clause = "the array is read-only, but the function writes to it; pass a copy".to_owned();
    Refused::Because { kind: "ValueError", clause }
}
