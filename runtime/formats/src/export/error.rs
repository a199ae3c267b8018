use std::fmt;

/// The result of packing.
pub type Result<T, E = ExportError> = std::result::Result<T, E>;

/// The reason that something cannot be packed: an error kind that all languages share, and a
/// message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportError {
    kind: &'static str,
    message: String,
}

impl ExportError {
    /// An error of a kind such as `RuntimeError` or `OSError`.
    #[inline]
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The kind of the error.
    #[inline]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The message, without the kind.
    #[inline]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ExportError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl std::error::Error for ExportError {}
