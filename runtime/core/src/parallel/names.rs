//! Names for the operands of a loop in messages.

use crate::Error;
use crate::function::FunctionInfo;

/// The naming scheme of the operands.
#[derive(Clone, Copy)]
pub(super) enum Names<'a> {
    /// The operands of a tuple, by number.
    Numbers,
    /// Parameters of a packed function, by index.
    Parameters(&'static FunctionInfo, &'a [usize]),
}

impl Names<'_> {
    /// The name of an operand: `operand 1`, `argument 'x'`.
    #[inline]
    pub(super) fn of(self, operand: usize) -> String {
        match self {
            Self::Numbers => format!("operand {operand}"),
            Self::Parameters(info, indices) => {
                let name =
                    indices.get(operand).and_then(|index| info.params.get(*index)).map_or("", |param| param.name);
                format!("argument '{name}'")
            }
        }
    }

    /// Creates a ValueError; its message begins with the function's signature, if there is one.
    #[cold]
    #[inline]
    pub(super) fn error(self, message: &str) -> Error {
        let message = match self {
            Self::Numbers => message.to_owned(),
            Self::Parameters(info, _) => format!("{}: {message}", info.signature()),
        };
        Error::with_backtrace("ValueError", &message, "")
    }
}
