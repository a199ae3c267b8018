//! Tensors of a model as constants.

use kernpack::DataType;
use kernpack_compiler::ir::{BF16, BOOLEAN, DataTypeExt, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

use super::proto::{ElementType, RawTensor};
use crate::constant::{Constant, element_bytes, num_elements};
use crate::error::{GraphError, Result, fail, require};

/// The supported element types, by their numbers.
const TYPES: [(i64, DataType); 25] = [
    (1, F32),
    (2, U8),
    (3, I8),
    (4, U16),
    (5, I16),
    (6, I32),
    (7, I64),
    (9, BOOLEAN),
    (10, F16),
    (11, F64),
    (12, U32),
    (13, U64),
    (16, BF16),
    // With the same type codes as in DLPack.
    (17, DataType::scalar(10, 8)),
    (18, DataType::scalar(11, 8)),
    (19, DataType::scalar(12, 8)),
    (20, DataType::scalar(13, 8)),
    (21, DataType::scalar(1, 4)),
    (22, DataType::scalar(0, 4)),
    (23, DataType::scalar(17, 4)),
    (24, DataType::scalar(14, 8)),
    (25, DataType::scalar(1, 2)),
    (26, DataType::scalar(0, 2)),
    (27, DataType::scalar(15, 6)),
    (28, DataType::scalar(16, 6)),
];

/// ONNX's names of the unsupported types, by their numbers.
const NAMES: [(i64, &str); 4] = [(0, "undefined"), (8, "string"), (14, "complex64"), (15, "complex128")];

impl core::fmt::Display for ElementType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if let Some((_, dtype)) = TYPES.iter().find(|(number, _)| *number == self.0) {
            return write!(f, "{dtype}");
        }
        match NAMES.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Reads bytes of another file: its name, the offset, and the length.
pub type External<'a> = dyn Fn(&str, u64, u64) -> Result<Vec<u8>> + 'a;

/// Returns the data type of an element type of ONNX.
///
/// # Errors
/// Returns an error for an unsupported type.
pub fn dtype_of(number: i64) -> Result<DataType> {
    let found = TYPES.iter().find(|(known, _)| *known == number);
    found.map(|(_, dtype)| *dtype).ok_or_else(|| {
        let known = NAMES.iter().any(|(named, _)| *named == number);
        let newest = TYPES.last().map_or(0, |(number, _)| *number);
        let why = match known {
            true => String::new(),
            false => format!(": the newest type of ONNX that is known is {}, number {newest}", ElementType(newest)),
        };
        GraphError::new(format!("tensors of element type {} are not supported{why}", ElementType(number)))
    })
}

/// Returns the elements of a tensor of the model. `external` reads bytes of other files.
///
/// # Errors
/// Returns an error for an unsupported element type, and if the number of elements does not match
/// the shape.
pub fn to_constant(tensor: &RawTensor<'_>, external: &External<'_>) -> Result<Constant> {
    let read = || -> Result<Constant> {
        let dtype = dtype_of(tensor.data_type)?;
        let count = num_elements(&tensor.dims)?;
        // Elements of 2, 4 and 6 bits are packed, the first one in the lowest bits.
        let bits = usize::from(dtype.bits());
        let is_packed = bits < 8;
        let expected = if is_packed { (count * bits).div_ceil(8) } else { count * element_bytes(dtype) };
        let unpacked = |bytes: &[u8]| -> Result<Constant> {
            require!(
                bytes.len() == expected,
                "{} bytes for {dtype}{:?}, which has {expected}",
                bytes.len(),
                tensor.dims
            );
            Constant::new(
                dtype,
                &tensor.dims,
                (0..count).map(|number| unpack(bytes, number, dtype)).collect::<Vec<u8>>(),
            )
        };
        if tensor.is_external {
            let bytes = from_file(tensor, expected, external)?;
            return if is_packed { unpacked(&bytes) } else { Constant::new(dtype, &tensor.dims, bytes) };
        }
        if let Some(raw) = tensor.raw_data {
            return if is_packed { unpacked(raw) } else { Constant::new(dtype, &tensor.dims, raw) };
        }
        let bytes = match tensor.data_type {
            1 => tensor.float_data.clone(),
            11 => tensor.double_data.clone(),
            _ => {
                let width = element_bytes(dtype);
                tensor.int_data.iter().flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect()
            }
        };
        // 6-bit floats are only packed in raw data.
        if is_packed && bits != 6 { unpacked(&bytes) } else { Constant::new(dtype, &tensor.dims, bytes) }
    };
    read().map_err(|error| error.within(&format!("tensor '{}'", tensor.name)))
}

/// Returns an element of packed bytes, as a byte. A negative integer keeps its sign.
fn unpack(bytes: &[u8], number: usize, dtype: DataType) -> u8 {
    let bits = usize::from(dtype.bits());
    let first = number * bits;
    let pair = u16::from(bytes[first / 8]) | u16::from(bytes.get(first / 8 + 1).copied().unwrap_or(0)) << 8;
    let above = 8 - bits;
    let [high, _] = (pair >> (first % 8) << above).to_le_bytes();
    if dtype.is_int() { (high.cast_signed() >> above).cast_unsigned() } else { high >> above }
}

fn from_file(tensor: &RawTensor<'_>, expected: usize, external: &External<'_>) -> Result<Vec<u8>> {
    let value = |key: &str| tensor.external.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
    let number = |key: &str| match value(key) {
        None => Ok(None),
        Some(text) => match text.parse::<u64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => fail!("the {key} of its external data is not a number: '{text}'"),
        },
    };
    let Some(location) = value("location") else { fail!("its external data has no location") };
    let expected = u64::try_from(expected).unwrap_or(u64::MAX);
    let length = number("length")?.unwrap_or(expected);
    require!(length == expected, "its external data has {length} bytes, its shape {expected}");
    external(location, number("offset")?.unwrap_or(0), length)
}
