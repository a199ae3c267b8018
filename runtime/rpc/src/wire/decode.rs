use kernpack::sys::abi::type_index;
use kernpack::{DataType, Device};

use super::encode::OBJECT_REF;
use super::{TensorHeader, Value, WireError};

/// The limits of a packed sequence.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most values in a sequence.
    pub values: usize,
    /// The most dimensions of a tensor.
    pub dimensions: usize,
    /// The most bytes of one text or byte string.
    pub text: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { values: 65_536, dimensions: 64, text: 1 << 32 }
    }
}

/// A source of the bytes of one packet.
pub trait Source {
    /// The number of unread bytes of the packet.
    fn left(&self) -> u64;

    /// Reads the next bytes.
    ///
    /// # Errors
    /// [`WireError::Content`] when the packet is too short, else any error of the connection.
    fn take(&mut self, target: &mut [u8]) -> Result<(), WireError>;
}

impl Source for &[u8] {
    fn left(&self) -> u64 {
        self.len() as u64
    }

    fn take(&mut self, target: &mut [u8]) -> Result<(), WireError> {
        let (head, rest) = self.split_at_checked(target.len()).ok_or_else(too_short)?;
        target.copy_from_slice(head);
        *self = rest;
        Ok(())
    }
}

pub(super) fn too_short() -> WireError {
    WireError::Content("the packet ends in the middle of a value".to_owned())
}

/// Reads a packed sequence.
///
/// # Errors
/// [`WireError::Content`] for an invalid or too large sequence; else any error of the connection.
pub fn decode(source: &mut impl Source, bounds: &Bounds) -> Result<Vec<Value>, WireError> {
    decode_with(source, bounds, &mut |_, _, _| Ok(None))
}

/// A callback of [`decode_with`] that reads bytes itself: it gets the preceding values, the number
/// of bytes, and their source. Returns `None` if it has not read anything.
pub type TakeBytes<'a> = dyn FnMut(&[Value], u64, &mut dyn Source) -> Result<Option<Value>, WireError> + 'a;

/// Reads a packed sequence whose bytes `take` may store elsewhere, so that they need not be
/// buffered.
///
/// # Errors
/// As for [`decode`], and any error of `take`.
pub fn decode_with(
    source: &mut impl Source,
    bounds: &Bounds,
    take: &mut TakeBytes<'_>,
) -> Result<Vec<Value>, WireError> {
    let count = number(source)?;
    // Each value has at least a type index.
    let fits = usize::try_from(count).ok().filter(|&count| count <= bounds.values && count as u64 <= source.left() / 4);
    let Some(count) = fits else {
        return Err(WireError::Content(format!(
            "a sequence of {count} values in {} bytes; the most is {}",
            source.left(),
            bounds.values
        )));
    };
    let mut values = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        let value = value(source, bounds, &values, take)?;
        values.push(value);
    }
    Ok(values)
}

fn value(
    source: &mut impl Source,
    bounds: &Bounds,
    before: &[Value],
    take: &mut TakeBytes<'_>,
) -> Result<Value, WireError> {
    Ok(match number(source)? {
        type_index::NONE => Value::None,
        type_index::INT => Value::Int(i64::from_le_bytes(array(source)?)),
        type_index::BOOL => Value::Bool(i64::from_le_bytes(array(source)?) != 0),
        type_index::FLOAT => Value::Float(f64::from_le_bytes(array(source)?)),
        type_index::OPAQUE_PTR => Value::Opaque(u64::from_le_bytes(array(source)?)),
        type_index::DATA_TYPE => {
            let dtype = data_type(source)?;
            array::<4>(source)?;
            Value::DataType(dtype)
        }
        type_index::DEVICE => Value::Device(device(source)?),
        type_index::DL_TENSOR_PTR => Value::Tensor(decode_tensor(source, bounds)?),
        type_index::RAW_STR => text(source, bounds)?,
        type_index::BYTE_ARRAY_PTR => bytes_or(source, bounds, before, take)?,
        type_index::FUNCTION => Value::Function(u64::from_le_bytes(array(source)?)),
        type_index::MODULE => Value::Module(u64::from_le_bytes(array(source)?)),
        index @ (type_index::SMALL_STR | type_index::SMALL_BYTES | type_index::STATIC_OBJECT_BEGIN..) => {
            match number(source)? {
                OBJECT_REF => Value::Object(u64::from_le_bytes(array(source)?)),
                type_index::STR => text(source, bounds)?,
                type_index::BYTES => bytes_or(source, bounds, before, take)?,
                inner => {
                    return Err(WireError::Content(format!(
                        "an object of type index {index} is sent as {inner}, which is not defined"
                    )));
                }
            }
        }
        index => return Err(WireError::Content(format!("a value of type index {index}, which is not sent"))),
    })
}

/// Reads a tensor without its type index, the form at the beginning of copies.
///
/// # Errors
/// As for [`decode`].
pub fn decode_tensor(source: &mut impl Source, bounds: &Bounds) -> Result<TensorHeader, WireError> {
    let data = u64::from_le_bytes(array(source)?);
    let device = device(source)?;
    let ndim = number(source)?;
    let dtype = data_type(source)?;
    let Some(ndim) = usize::try_from(ndim).ok().filter(|&ndim| ndim <= bounds.dimensions) else {
        return Err(WireError::Content(format!("a tensor of {ndim} dimensions; the most is {}", bounds.dimensions)));
    };
    let mut shape = Vec::with_capacity(ndim);
    for _ in 0..ndim {
        shape.push(i64::from_le_bytes(array(source)?));
    }
    Ok(TensorHeader { data, device, dtype, shape, byte_offset: u64::from_le_bytes(array(source)?) })
}

fn array<const N: usize>(source: &mut impl Source) -> Result<[u8; N], WireError> {
    let mut bytes = [0; N];
    source.take(&mut bytes)?;
    Ok(bytes)
}

fn number(source: &mut impl Source) -> Result<i32, WireError> {
    Ok(i32::from_le_bytes(array(source)?))
}

fn data_type(source: &mut impl Source) -> Result<DataType, WireError> {
    let [code, bits, low, high] = array(source)?;
    Ok(DataType::from_raw(kernpack::sys::abi::DLDataType { code, bits, lanes: u16::from_le_bytes([low, high]) }))
}

fn device(source: &mut impl Source) -> Result<Device, WireError> {
    let kind = number(source)?;
    Ok(Device::new(kind, number(source)?))
}

fn bytes_or(
    source: &mut impl Source,
    bounds: &Bounds,
    before: &[Value],
    take: &mut TakeBytes<'_>,
) -> Result<Value, WireError> {
    let length = u64::from_le_bytes(array(source)?);
    match take(before, length, source)? {
        Some(value) => Ok(value),
        None => bytes_of(source, bounds, length).map(Value::Bytes),
    }
}

fn text(source: &mut impl Source, bounds: &Bounds) -> Result<Value, WireError> {
    let text = String::from_utf8(bytes(source, bounds)?);
    text.map(Value::Str).map_err(|_| WireError::Content("a text that is not UTF-8".to_owned()))
}

fn bytes(source: &mut impl Source, bounds: &Bounds) -> Result<Vec<u8>, WireError> {
    let length = u64::from_le_bytes(array(source)?);
    bytes_of(source, bounds, length)
}

fn bytes_of(source: &mut impl Source, bounds: &Bounds, length: u64) -> Result<Vec<u8>, WireError> {
    if length > source.left() {
        return Err(too_short());
    }
    let Some(length) = usize::try_from(length).ok().filter(|_| length <= bounds.text) else {
        return Err(WireError::Content(format!("a text of {length} bytes; the most is {}", bounds.text)));
    };
    // Memory is allocated as bytes arrive: an announced length alone does not allocate.
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let start = bytes.len();
        let end = length.min(start + start.max(64 << 10));
        bytes.reserve_exact(end - start);
        bytes.resize(end, 0);
        source.take(&mut bytes[start..])?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::Encoder;
    use super::*;

    fn of(bytes: &[u8]) -> Result<Vec<Value>, String> {
        let mut source = bytes;
        let values = decode(&mut source, &Bounds::default()).map_err(|error| error.to_string())?;
        assert!(source.is_empty());
        Ok(values)
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn each_value_goes_both_ways() {
        let tensor = TensorHeader {
            data: 0x1_0000_0040,
            device: Device::new(4, 1),
            dtype: DataType::FLOAT32,
            shape: vec![2, 3],
            byte_offset: 8,
        };
        let values = [
            Value::None,
            Value::Int(-7),
            Value::Bool(true),
            Value::Float(0.5),
            Value::Opaque(u64::MAX),
            Value::DataType("bfloat16x4".parse().unwrap()),
            Value::Device(Device::cuda(3)),
            Value::Tensor(tensor),
            Value::Str("grün".into()),
            Value::Bytes(vec![0, 1, 255]),
            Value::Function(9),
            Value::Module(10),
            Value::Object(11),
        ];
        let mut bytes = vec![];
        let mut encoder = Encoder::begin(&mut bytes, values.len());
        for value in &values {
            encoder.value(value);
        }
        assert_eq!(of(&bytes).unwrap(), values);
        // Truncated at any position, it is an error.
        for end in 0..bytes.len() {
            let error = of(&bytes[..end]).unwrap_err();
            assert!(error.contains("the packet ends") || error.contains("a sequence of 13"), "{end}: {error}");
        }
    }

    #[test]
    fn bytes_on_the_wire() {
        for (bytes, expected) in [
            (words(&[0]), vec![]),
            (words(&[1, 1, 7, 0]), vec![Value::Int(7)]),
            (words(&[1, 2, 1, 0]), vec![Value::Bool(true)]),
            (words(&[1, 6, 2, 1]), vec![Value::Device(Device::cuda(1))]),
            (words(&[1, 5, 0x0001_2002, 0]), vec![Value::DataType(DataType::FLOAT32)]),
            (words(&[1, 11, 65, 4, 0, u32::from_le_bytes(*b"abcd")]), vec![Value::Str("abcd".into())]),
            (words(&[1, 12, 66, 4, 0, u32::from_le_bytes(*b"abcd")]), vec![Value::Bytes(b"abcd".to_vec())]),
            (words(&[1, 71, 115, 5, 0]), vec![Value::Object(5)]),
            (words(&[1, 73, 5, 0]), vec![Value::Module(5)]),
        ] {
            assert_eq!(of(&bytes).unwrap(), expected);
        }
    }

    #[test]
    fn hostile_sequences() {
        for (bytes, problem) in [
            (words(&[u32::MAX]), "a sequence of -1 values"),
            (words(&[0x7fff_ffff, 0, 0]), "a sequence of 2147483647 values"),
            (words(&[1, 8, 0, 0x8000_0000]), "the packet ends"),
            (words(&[1, 9, u32::MAX, u32::MAX, 0]), "the packet ends"),
            (words(&[1, 10]), "type index 10"),
            (words(&[1, 13]), "type index 13"),
            (words(&[1, -1i32 as u32]), "type index -1"),
            (words(&[1, 71, 71]), "sent as 71"),
            (words(&[1, 7, 0, 0, 1, 0, u32::MAX, 0]), "a tensor of -1 dimensions"),
            (words(&[1, 7, 0, 0, 1, 0, 65, 0]), "a tensor of 65 dimensions"),
            (words(&[1, 8, 4, 0, u32::MAX]), "not UTF-8"),
        ] {
            let error = of(&bytes).unwrap_err();
            assert!(error.contains(problem), "{bytes:?}: {error}");
        }
        let bounds = Bounds { text: 2, ..Bounds::default() };
        let mut long = vec![];
        Encoder::begin(&mut long, 1).bytes(b"abc");
        let error = decode(&mut &long[..], &bounds).unwrap_err();
        assert_eq!(error.to_string(), "a text of 3 bytes; the most is 2");
    }
}
