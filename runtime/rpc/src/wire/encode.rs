use kernpack::sys::abi::type_index;
use kernpack::{DataType, Device};

use super::{TensorHeader, Value};

/// Type index of what stands for an object of the server.
pub(super) const OBJECT_REF: i32 = 115;

/// Writes a packed sequence behind what `bytes` has already.
///
/// The caller writes as many values as [`Encoder::begin`] was told.
pub struct Encoder<'a> {
    bytes: &'a mut Vec<u8>,
}

impl<'a> Encoder<'a> {
    /// Begins a sequence of `count` values.
    pub fn begin(bytes: &'a mut Vec<u8>, count: usize) -> Self {
        // No sequence has 2^31 values: each would need memory of its own.
        bytes.extend_from_slice(&(count as i32).to_le_bytes());
        Self { bytes }
    }

    fn index(&mut self, index: i32) -> &mut Self {
        self.bytes.extend_from_slice(&index.to_le_bytes());
        self
    }

    fn eight(&mut self, index: i32, value: [u8; 8]) -> &mut Self {
        self.index(index).bytes.extend_from_slice(&value);
        self
    }

    fn counted(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// No value.
    pub fn none(&mut self) -> &mut Self {
        self.index(type_index::NONE)
    }

    /// An integer.
    pub fn int(&mut self, value: i64) -> &mut Self {
        self.eight(type_index::INT, value.to_le_bytes())
    }

    /// A flag.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.eight(type_index::BOOL, i64::from(value).to_le_bytes())
    }

    /// A floating point number.
    pub fn float(&mut self, value: f64) -> &mut Self {
        self.eight(type_index::FLOAT, value.to_le_bytes())
    }

    /// A pointer, or a handle in a reply.
    pub fn opaque(&mut self, value: u64) -> &mut Self {
        self.eight(type_index::OPAQUE_PTR, value.to_le_bytes())
    }

    /// A type of elements.
    pub fn data_type(&mut self, value: DataType) -> &mut Self {
        self.index(type_index::DATA_TYPE);
        push_data_type(self.bytes, value);
        self.bytes.extend_from_slice(&[0; 4]);
        self
    }

    /// A device.
    pub fn device(&mut self, value: Device) -> &mut Self {
        self.index(type_index::DEVICE);
        push_device(self.bytes, value);
        self
    }

    /// A tensor.
    pub fn tensor(&mut self, value: &TensorHeader) -> &mut Self {
        self.index(type_index::DL_TENSOR_PTR);
        push_tensor(self.bytes, value);
        self
    }

    /// Text, as a C string.
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.index(type_index::RAW_STR).counted(value.as_bytes())
    }

    /// Bytes, as clients send them.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.bytes_of(value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    /// The beginning of `length` bytes, which the caller sends behind all that is in the buffer.
    pub fn bytes_of(&mut self, length: u64) -> &mut Self {
        self.index(type_index::BYTES).index(type_index::BYTES);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self
    }

    /// Bytes, as servers return them.
    pub fn byte_array(&mut self, value: &[u8]) -> &mut Self {
        self.index(type_index::BYTE_ARRAY_PTR).counted(value)
    }

    /// The beginning of `length` bytes as servers return them; the caller sends them behind all that is in the buffer.
    pub fn byte_array_of(&mut self, length: u64) -> &mut Self {
        self.eight(type_index::BYTE_ARRAY_PTR, length.to_le_bytes())
    }

    /// A function of the server.
    pub fn function(&mut self, handle: u64) -> &mut Self {
        self.eight(type_index::FUNCTION, handle.to_le_bytes())
    }

    /// A module of the server.
    pub fn module(&mut self, handle: u64) -> &mut Self {
        self.eight(type_index::MODULE, handle.to_le_bytes())
    }

    /// Another object of the server.
    pub fn object(&mut self, handle: u64) -> &mut Self {
        self.index(OBJECT_REF).eight(OBJECT_REF, handle.to_le_bytes())
    }

    /// Any value, as clients send it.
    pub fn value(&mut self, value: &Value) -> &mut Self {
        match value {
            Value::None => self.none(),
            Value::Int(value) => self.int(*value),
            Value::Bool(value) => self.bool(*value),
            Value::Float(value) => self.float(*value),
            Value::Opaque(value) => self.opaque(*value),
            Value::DataType(value) => self.data_type(*value),
            Value::Device(value) => self.device(*value),
            Value::Tensor(value) => self.tensor(value),
            Value::Str(value) => self.text(value),
            Value::Bytes(value) => self.bytes(value),
            Value::Function(handle) => self.function(*handle),
            Value::Module(handle) => self.module(*handle),
            Value::Object(handle) => self.object(*handle),
        }
    }

    /// A tensor without a type index, as copies begin.
    pub fn push_tensor(bytes: &mut Vec<u8>, value: &TensorHeader) {
        push_tensor(bytes, value);
    }
}

fn push_data_type(bytes: &mut Vec<u8>, value: DataType) {
    bytes.extend_from_slice(&[value.code(), value.bits()]);
    bytes.extend_from_slice(&value.lanes().to_le_bytes());
}

fn push_device(bytes: &mut Vec<u8>, value: Device) {
    bytes.extend_from_slice(&value.device_type().to_le_bytes());
    bytes.extend_from_slice(&value.index().to_le_bytes());
}

fn push_tensor(bytes: &mut Vec<u8>, value: &TensorHeader) {
    bytes.extend_from_slice(&value.data.to_le_bytes());
    push_device(bytes, value.device);
    bytes.extend_from_slice(&(value.shape.len() as i32).to_le_bytes());
    push_data_type(bytes, value.dtype);
    value.shape.iter().for_each(|dimension| bytes.extend_from_slice(&dimension.to_le_bytes()));
    bytes.extend_from_slice(&value.byte_offset.to_le_bytes());
}
