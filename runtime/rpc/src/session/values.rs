//! Conversion of wire values to values of the runtime, and back.

use kernpack::sys::abi::{TVMFFIAny, type_index};
use kernpack::sys::embedded;
use kernpack::{Any, DataType, Device, Error, IntoAny, Result, Tensor, bail};

use super::Session;
use super::handles::Entry;
use super::tensors::tensor;
use crate::wire::{Encoder, TensorHeader, Transport, Value};

/// Byte strings of at least this length are not copied.
const LARGE: usize = 1 << 10;

/// The result of a function, with its handles allocated.
pub(super) enum Returned {
    /// A plain value, text or bytes.
    Plain(Any),
    /// A function, a module or another object: type index and handle.
    Object(i32, u64),
    /// A tensor and its handle.
    Tensor(TensorHeader, u64),
}

impl<T: Transport> Session<'_, T> {
    /// Converts a value to an argument.
    pub(super) fn argument(&self, value: Value) -> Result<Any> {
        Ok(match value {
            Value::None => Any::NONE,
            Value::Int(value) => Any::from(value),
            Value::Bool(value) => Any::from(value),
            Value::Float(value) => Any::from(value),
            Value::Opaque(address) => self.pointer(address)?,
            Value::DataType(value) => Any::from(value),
            Value::Device(value) => Any::from(value),
            Value::Tensor(header) => Any::from(tensor(&self.memory, &header)?),
            Value::Str(text) => Any::from(text.as_str()),
            Value::Bytes(bytes) => from_bytes(bytes),
            Value::Function(handle) => self.object(handle, type_index::FUNCTION, "Function")?,
            Value::Module(handle) => self.object(handle, type_index::MODULE, "Module")?,
            Value::Object(handle) => self.handles.get(handle)?.value.clone(),
        })
    }

    /// Returns the object of a handle, which must be of this type: the conversion of the value
    /// relies on it.
    fn object(&self, handle: u64, index: i32, name: &str) -> Result<Any> {
        let value = &self.handles.get(handle)?.value;
        if value.type_index() != index {
            bail!(TypeError, "handle {handle:#x} is a {}, not a {name}", value.type_name());
        }
        Ok(value.clone())
    }

    /// A pointer: NULL, or one into memory that the client allocated. The pointer alone does not
    /// determine the kind of device.
    fn pointer(&self, address: u64) -> Result<Any> {
        if address == 0 {
            return Ok(std::ptr::null_mut::<std::ffi::c_void>().into_any());
        }
        let place = self.memory.find(address)?;
        Ok(place.address().into_any())
    }

    /// Allocates the handles for a function's result.
    pub(super) fn give_out(&mut self, value: Any, name: &str) -> Result<Returned> {
        let index = value.type_index();
        Ok(match index {
            type_index::OPAQUE_PTR => bail!(
                TypeError,
                "the function returned a pointer, which has no meaning on another machine; return an object"
            ),
            type_index::STR | type_index::BYTES => Returned::Plain(value),
            type_index::TENSOR => {
                let tensor: Tensor = value.get()?;
                self.check_room()?;
                let address = self.memory.adopt(&tensor)?;
                let header = TensorHeader {
                    data: address,
                    device: tensor.device(),
                    dtype: tensor.dtype(),
                    shape: tensor.shape().to_vec(),
                    byte_offset: 0,
                };
                let entry = Entry { value, name: String::new(), memory: Some(address) };
                match self.handles.insert(entry) {
                    Ok(handle) => Returned::Tensor(header, handle),
                    Err(error) => {
                        self.memory.forget(address);
                        return Err(error);
                    }
                }
            }
            type_index::STATIC_OBJECT_BEGIN.. => {
                let entry = Entry { value, name: name.to_owned(), memory: None };
                Returned::Object(index, self.handles.insert(entry)?)
            }
            _ => Returned::Plain(value),
        })
    }
}

/// Encodes the reply to a call at the end of `body`; long bytes are returned, and the caller sends
/// them after it.
pub(super) fn encode<'a>(body: &mut Vec<u8>, returned: &'a Returned) -> Result<&'a [u8]> {
    let (value, index) = match returned {
        Returned::Object(index, handle) => {
            Encoder::begin(body, 2).int(i64::from(*index)).opaque(*handle);
            return Ok(&[]);
        }
        Returned::Tensor(header, handle) => {
            Encoder::begin(body, 3).int(i64::from(type_index::TENSOR)).tensor(header).opaque(*handle);
            return Ok(&[]);
        }
        Returned::Plain(value) => (value, value.type_index()),
    };
    let mut encoder = Encoder::begin(body, 2);
    encoder.int(i64::from(index));
    match index {
        type_index::NONE => encoder.none(),
        type_index::INT => encoder.int(value.get()?),
        type_index::BOOL => encoder.bool(value.get()?),
        type_index::FLOAT => encoder.float(value.get()?),
        type_index::DATA_TYPE => encoder.data_type(value.get::<DataType>()?),
        type_index::DEVICE => encoder.device(value.get::<Device>()?),
        type_index::SMALL_STR | type_index::STR => encoder.text(value.get()?),
        type_index::SMALL_BYTES | type_index::BYTES => {
            let bytes: &[u8] = value.get()?;
            if bytes.len() >= LARGE {
                encoder.byte_array_of(bytes.len() as u64);
                return Ok(bytes);
            }
            encoder.byte_array(bytes)
        }
        _ => bail!(TypeError, "the function returned a {}, which cannot be sent", value.type_name()),
    };
    Ok(&[])
}

/// Converts bytes to a value, without a copy if they are long.
fn from_bytes(bytes: Vec<u8>) -> Any {
    if bytes.len() < LARGE {
        return Any::from(kernpack::Bytes::new(&bytes));
    }
    let view: *const [u8] = &raw const bytes[..];
    // SAFETY: the vector is moved into the object and not changed there; its heap memory stays
    // where it is. The new object's one reference goes to the value.
    unsafe { Any::from_raw(TVMFFIAny::pointer(type_index::BYTES, embedded::new_bytes_object_of(view, bytes).cast())) }
}

/// Checks that a request has this number of values.
pub(super) fn exactly<const N: usize>(name: &str, values: Vec<Value>) -> Result<[Value; N]> {
    values
        .try_into()
        .map_err(|values: Vec<Value>| kernpack::error!(TypeError, "{name}: expected {N} values, got {}", values.len()))
}

/// The error for a value of the wrong kind.
#[cold]
pub(super) fn wrong(name: &str, expected: &str, got: &Value) -> Error {
    kernpack::error!(TypeError, "{name}: expected {expected}, got {}", got.kind())
}
