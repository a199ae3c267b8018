//! Paths and strings of the operating system. They are strings of the ABI, with the same bytes on
//! Unix, where a path need not be UTF-8.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::text::{STR, raw_text};
use super::{Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema};
use crate::embedded;

const PATH: TypeSchema = TypeSchema::new("pathlib.Path");

#[cfg(unix)]
fn from_bytes<'a>(value: &'a AnyView<'a>) -> Result<&'a OsStr, Mismatch> {
    raw_text(value).map(std::os::unix::ffi::OsStrExt::from_bytes)
}

#[cfg(not(unix))]
fn from_bytes<'a>(value: &'a AnyView<'a>) -> Result<&'a OsStr, Mismatch> {
    <&str>::from_any(value).map(OsStr::new)
}

impl<'a> FromAny<'a> for &'a OsStr {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        from_bytes(value)
    }
}

/// On Windows, a string that is not valid Unicode gets a replacement character for each part that
/// is not.
impl IntoAny for &OsStr {
    fn into_any(self) -> Any {
        #[cfg(unix)]
        let bytes = std::os::unix::ffi::OsStrExt::as_bytes(self);
        #[cfg(not(unix))]
        let text = self.to_string_lossy();
        #[cfg(not(unix))]
        let bytes = text.as_bytes();
        // SAFETY: the value is new.
        unsafe { Any::from_raw(embedded::new_string(bytes)) }
    }
}

impl<'a> FromAny<'a> for &'a Path {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        from_bytes(value).map(Path::new)
    }
}

impl IntoAny for &Path {
    fn into_any(self) -> Any {
        self.as_os_str().into_any()
    }
}

macro_rules! os_text {
    ($($borrowed:ident $owned:ident $schema:ident;)*) => {$(
        impl Schema for &$borrowed {
            const TYPE: TypeSchema = $schema;
        }

        impl ToArg for $borrowed {
            fn to_arg(&self) -> Arg<'_> {
                Arg::owned(self.into_any())
            }
        }

        impl Schema for $owned {
            const TYPE: TypeSchema = $schema;
        }

        impl<'a> FromAny<'a> for $owned {
            fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
                from_bytes(value).map(Self::from)
            }
        }

        impl IntoAny for $owned {
            fn into_any(self) -> Any {
                self.as_os_str().into_any()
            }
        }

        impl ToArg for $owned {
            fn to_arg(&self) -> Arg<'_> {
                (**self).to_arg()
            }
        }
    )*};
}
os_text! {
    OsStr OsString STR;
    Path PathBuf PATH;
}
