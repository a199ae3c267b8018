//! The origin of weights: a file, or bytes.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::memory::Memory;
use crate::{Any, Bytes, Error, Result};

/// The origin of the weights of a model: the path of a file, or the bytes of one.
///
/// A file is mapped read-only, so that processes share its memory. Bytes of the program
/// (`include_bytes!`) are used in place if they are aligned to 64 bytes, and copied otherwise.
#[derive(Clone, Debug)]
pub enum WeightsSource {
    /// The path of a file.
    Path(PathBuf),
    /// The content of a file.
    Bytes(Cow<'static, [u8]>),
}

impl WeightsSource {
    /// Reads the argument of a packed function: a text is a path.
    ///
    /// # Errors
    /// Returns a TypeError for other arguments.
    #[inline]
    pub fn of_argument(name: &str, argument: &Any) -> Result<Self> {
        if let Ok(path) = argument.to::<String>() {
            return Ok(Self::Path(path.into()));
        }
        let bytes = argument.to::<Bytes>().map_err(|_| {
            let found = argument.type_name();
            Error::type_error(format!("{name}_weights: expected the path of a file (str) or its bytes, got {found}"))
        })?;
        Ok(Self::Bytes(Cow::Owned(bytes.as_ref().to_vec())))
    }

    #[inline]
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Path(path) => path.display().to_string(),
            Self::Bytes(bytes) => format!("{} bytes", bytes.len()),
        }
    }

    #[inline]
    pub(super) fn open(self) -> Result<Memory> {
        match self {
            Self::Path(path) => Memory::of_file(&path),
            Self::Bytes(Cow::Borrowed(bytes)) => Memory::of_program(bytes),
            Self::Bytes(Cow::Owned(bytes)) => Memory::copy_of(&bytes),
        }
    }
}

impl From<&Path> for WeightsSource {
    #[inline]
    fn from(path: &Path) -> Self {
        Self::Path(path.to_owned())
    }
}

impl From<PathBuf> for WeightsSource {
    #[inline]
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

impl From<&PathBuf> for WeightsSource {
    #[inline]
    fn from(path: &PathBuf) -> Self {
        Self::Path(path.clone())
    }
}

impl From<&str> for WeightsSource {
    #[inline]
    fn from(path: &str) -> Self {
        Self::Path(path.into())
    }
}

impl From<String> for WeightsSource {
    #[inline]
    fn from(path: String) -> Self {
        Self::Path(path.into())
    }
}

impl From<&'static [u8]> for WeightsSource {
    #[inline]
    fn from(bytes: &'static [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl<const N: usize> From<&'static [u8; N]> for WeightsSource {
    #[inline]
    fn from(bytes: &'static [u8; N]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for WeightsSource {
    #[inline]
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Cow::Owned(bytes))
    }
}
