use core::fmt;
use core::str::FromStr;

use super::{Any, AnyView, Arg, Changed, FromAny, IntoAny, Mismatch, Schema, Shown, ToArg, TypeSchema};
use crate::abi::{DLDataType, TVMFFIAny, TVMFFIAnyPayload, TVMFFIByteArray, dtype_code, type_index};
use crate::{Error, Result, provider};

/// The type of a tensor's elements: code, bits, vector lanes.
///
/// ```
/// use kernpack::DataType;
/// let dtype: DataType = "float32x4".parse().unwrap();
/// assert_eq!((dtype.bits(), dtype.lanes()), (32, 4));
/// assert_eq!(DataType::FLOAT32.to_string(), "float32");
/// assert!("flaot32".parse::<DataType>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct DataType(DLDataType);

impl DataType {
    #![allow(missing_docs, reason = "the names say it all")]
    pub const INT8: Self = Self::scalar(dtype_code::INT, 8);
    pub const INT16: Self = Self::scalar(dtype_code::INT, 16);
    pub const INT32: Self = Self::scalar(dtype_code::INT, 32);
    pub const INT64: Self = Self::scalar(dtype_code::INT, 64);
    pub const UINT8: Self = Self::scalar(dtype_code::UINT, 8);
    pub const UINT16: Self = Self::scalar(dtype_code::UINT, 16);
    pub const UINT32: Self = Self::scalar(dtype_code::UINT, 32);
    pub const UINT64: Self = Self::scalar(dtype_code::UINT, 64);
    pub const FLOAT16: Self = Self::scalar(dtype_code::FLOAT, 16);
    pub const FLOAT32: Self = Self::scalar(dtype_code::FLOAT, 32);
    pub const FLOAT64: Self = Self::scalar(dtype_code::FLOAT, 64);
    pub const BFLOAT16: Self = Self::scalar(dtype_code::BFLOAT, 16);
    pub const BOOL: Self = Self::scalar(dtype_code::BOOL, 8);
}

impl DataType {
    /// A type with one lane; `code` is one of [`dtype_code`].
    pub const fn scalar(code: u8, bits: u8) -> Self {
        Self(DLDataType { code, bits, lanes: 1 })
    }

    /// Wraps the ABI's struct.
    pub const fn from_raw(raw: DLDataType) -> Self {
        Self(raw)
    }

    /// The ABI's struct.
    pub const fn as_raw(self) -> DLDataType {
        self.0
    }

    /// One of [`dtype_code`].
    pub const fn code(self) -> u8 {
        self.0.code
    }

    /// Bits of one lane.
    pub const fn bits(self) -> u8 {
        self.0.bits
    }

    /// Vector lanes.
    pub const fn lanes(self) -> u16 {
        self.0.lanes
    }

    /// Size in bytes of one element with all its lanes, rounded up.
    pub const fn size(self) -> usize {
        (self.0.bits as usize * self.0.lanes as usize).div_ceil(8)
    }
}

impl FromStr for DataType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut raw = DLDataType { code: 0, bits: 0, lanes: 0 };
        let text = TVMFFIByteArray::new(text.as_bytes());
        // SAFETY: both pointers are valid for the call.
        let status = unsafe { (provider::api().data_type_from_string)(&text, &mut raw) };
        Error::check(status)?;
        Ok(Self(raw))
    }
}

/// Writes the name, or the numbers of a type without a name.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = TVMFFIAny::NONE;
        // SAFETY: both pointers are valid; on success `text` is an owned string.
        let text = unsafe {
            let status = (provider::api().data_type_to_string)(&self.0, &mut text);
            Error::check(status).map(|()| Any::from_raw(text))
        };
        // An error here would cause a panic in code that formats a message.
        match text.as_ref().map(Any::get::<&str>) {
            Ok(Ok(text)) => f.write_str(text),
            // The C function does not have a name for complex numbers.
            _ if self.0.code == dtype_code::COMPLEX && self.0.lanes == 1 => write!(f, "complex{}", self.0.bits),
            _ => write!(f, "DataType(code={}, bits={}, lanes={})", self.0.code, self.0.bits, self.0.lanes),
        }
    }
}

impl fmt::Debug for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Schema for DataType {
    const TYPE: TypeSchema = TypeSchema::new("DataType");
    const STORAGE: crate::value::Storage = crate::value::Storage::Plain;
}

impl<'a> FromAny<'a> for DataType {
    /// Accepts a data type, or a string that names one.
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        if value.type_index() == type_index::DATA_TYPE {
            // SAFETY: the type index names the member.
            return Ok(Self(unsafe { value.as_raw().payload.v_dtype }));
        }
        let text = <&str>::from_any(value)?;
        text.parse().map_err(|error: Error| Mismatch::value(error.message().to_owned()))
    }
}

impl IntoAny for DataType {
    fn into_any(self) -> Any {
        // All 8 payload bytes are written: the upper four of a data type are 0.
        let mut payload = TVMFFIAnyPayload { v_int64: 0 };
        payload.v_dtype = self.0;
        // SAFETY: a data type does not own anything.
        unsafe { Any::from_raw(TVMFFIAny { type_index: type_index::DATA_TYPE, small_len: 0, payload }) }
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::DataType(*self)
    }

    #[inline]
    fn changed(&mut self) -> Changed<'_> {
        Changed::DataType(self)
    }
}

impl ToArg for DataType {
    fn to_arg(&self) -> Arg<'_> {
        Arg::owned(self.into_any())
    }
}
