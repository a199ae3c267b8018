use kernpack::{DataType, Device};

use super::WireError;

/// An argument or a result in the protocol. Objects are handles of the other side's table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    None,
    /// An integer.
    Int(i64),
    /// A flag.
    Bool(bool),
    /// A floating point number.
    Float(f64),
    /// A pointer, or a handle in a reply.
    Opaque(u64),
    /// The type of elements.
    DataType(DataType),
    /// A device of the server.
    Device(Device),
    /// A tensor of the server.
    Tensor(TensorHeader),
    /// Text.
    Str(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A function of the server.
    Function(u64),
    /// A module of the server.
    Module(u64),
    /// Another object of the server.
    Object(u64),
}

impl Value {
    /// The name of its kind, for messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Int(_) => "int",
            Self::Bool(_) => "bool",
            Self::Float(_) => "float",
            Self::Opaque(_) => "pointer",
            Self::DataType(_) => "DataType",
            Self::Device(_) => "Device",
            Self::Tensor(_) => "Tensor",
            Self::Str(_) => "str",
            Self::Bytes(_) => "bytes",
            Self::Function(_) => "Function",
            Self::Module(_) => "Module",
            Self::Object(_) => "Object",
        }
    }
}

/// A tensor without its elements, which are in the server's memory, in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorHeader {
    /// The server's address of the memory.
    pub data: u64,
    /// The device that holds the memory, as the server numbers it.
    pub device: Device,
    /// Type of the elements.
    pub dtype: DataType,
    /// Dimensions, in elements.
    pub shape: Vec<i64>,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

impl TensorHeader {
    /// Bytes of all elements; elements smaller than a byte are packed.
    ///
    /// # Errors
    /// [`WireError::Content`] for a negative dimension, and for more bytes than an `i64` counts.
    pub fn size(&self) -> Result<u64, WireError> {
        let wrong =
            || WireError::Content(format!("a tensor of shape {:?} and type {} has no size", self.shape, self.dtype));
        let mut dimensions = Vec::with_capacity(self.shape.len());
        for &dimension in &self.shape {
            dimensions.push(u64::try_from(dimension).map_err(|_| wrong())?);
        }
        if dimensions.contains(&0) {
            return Ok(0);
        }
        let count =
            dimensions.iter().try_fold(1u64, |count, &dimension| count.checked_mul(dimension)).ok_or_else(wrong)?;
        let lanes = i64::from(self.dtype.lanes() as i16);
        let bits = u64::try_from(lanes).map_err(|_| wrong())? * u64::from(self.dtype.bits());
        let size = count.checked_mul(bits).ok_or_else(wrong)?.div_ceil(8);
        if size > i64::MAX as u64 {
            return Err(wrong());
        }
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(shape: &[i64], dtype: DataType) -> Option<u64> {
        let header = TensorHeader { data: 0, device: Device::CPU, dtype, shape: shape.to_vec(), byte_offset: 0 };
        header.size().ok()
    }

    #[test]
    fn sizes() {
        let half = DataType::scalar(0, 4);
        let scalable = DataType::from_raw(kernpack::sys::abi::DLDataType { code: 0, bits: 8, lanes: (-4i16) as u16 });
        for (shape, dtype, expected) in [
            (&[][..], DataType::FLOAT32, Some(4)),
            (&[2, 3], DataType::FLOAT32, Some(24)),
            (&[0, i64::MAX], DataType::INT8, Some(0)),
            (&[3], half, Some(2)),
            (&[-1], DataType::INT8, None),
            (&[1 << 40, 1 << 40], DataType::INT8, None),
            (&[i64::MAX], DataType::INT16, None),
            (&[1], scalable, None),
        ] {
            assert_eq!(size(shape, dtype), expected, "{shape:?} {dtype}");
        }
    }
}
