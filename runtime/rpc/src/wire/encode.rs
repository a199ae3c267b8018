use kernpack::sys::abi::type_index;
use kernpack::{DataType, Device};

use super::{TensorHeader, Value};

/// The type index that represents an object of the server.
pub(super) const OBJECT_REF: i32 = 115;

/// Appends a packed sequence to `bytes`.
///
/// The caller writes as many values as it passed to [`Encoder::begin`].
pub struct Encoder<'a> {
    bytes: &'a mut Vec<u8>,
}

impl<'a> Encoder<'a> {
    /// Begins a sequence of `count` values.
    pub fn begin(bytes: &'a mut Vec<u8>, count: usize) -> Self {
        // A sequence never has 2^31 values: each would need memory of its own.
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

    /// Writes `None`.
    pub fn none(&mut self) -> &mut Self {
        self.index(type_index::NONE)
    }

    /// Writes an integer.
    pub fn int(&mut self, value: i64) -> &mut Self {
        self.eight(type_index::INT, value.to_le_bytes())
    }

    /// Writes a flag.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.eight(type_index::BOOL, i64::from(value).to_le_bytes())
    }

    /// Writes a floating point number.
    pub fn float(&mut self, value: f64) -> &mut Self {
        self.eight(type_index::FLOAT, value.to_le_bytes())
    }

    /// Writes a pointer, or a handle in a reply.
    pub fn opaque(&mut self, value: u64) -> &mut Self {
        self.eight(type_index::OPAQUE_PTR, value.to_le_bytes())
    }

    /// Writes a type of elements.
    pub fn data_type(&mut self, value: DataType) -> &mut Self {
        self.index(type_index::DATA_TYPE);
        push_data_type(self.bytes, value);
        self.bytes.extend_from_slice(&[0; 4]);
        self
    }

    /// Writes a device.
    pub fn device(&mut self, value: Device) -> &mut Self {
        self.index(type_index::DEVICE);
        push_device(self.bytes, value);
        self
    }

    /// Writes a tensor.
    pub fn tensor(&mut self, value: &TensorHeader) -> &mut Self {
        self.index(type_index::DL_TENSOR_PTR);
        push_tensor(self.bytes, value);
        self
    }

    /// Writes text, as a C string.
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.index(type_index::RAW_STR).counted(value.as_bytes())
    }

    /// Writes bytes in the form that clients send.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.bytes_of(value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    /// Writes the head of `length` bytes, which the caller sends after the content of the buffer.
    pub fn bytes_of(&mut self, length: u64) -> &mut Self {
        self.index(type_index::BYTES).index(type_index::BYTES);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self
    }

    /// Writes bytes in the form that servers return.
    pub fn byte_array(&mut self, value: &[u8]) -> &mut Self {
        self.index(type_index::BYTE_ARRAY_PTR).counted(value)
    }

    /// Writes the head of `length` bytes in the form that servers return; the caller sends them
    /// after the content of the buffer.
    pub fn byte_array_of(&mut self, length: u64) -> &mut Self {
        self.eight(type_index::BYTE_ARRAY_PTR, length.to_le_bytes())
    }

    /// Writes a function of the server.
    pub fn function(&mut self, handle: u64) -> &mut Self {
        self.eight(type_index::FUNCTION, handle.to_le_bytes())
    }

    /// Writes a module of the server.
    pub fn module(&mut self, handle: u64) -> &mut Self {
        self.eight(type_index::MODULE, handle.to_le_bytes())
    }

    /// Writes another object of the server.
    pub fn object(&mut self, handle: u64) -> &mut Self {
        self.index(OBJECT_REF).eight(OBJECT_REF, handle.to_le_bytes())
    }

    /// Writes any value in the form that clients send.
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

    /// Appends a tensor without a type index, the form at the beginning of copies.
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
