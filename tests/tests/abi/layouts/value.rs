//! Values of every kind that a container can hold, as plain Rust data.

use kernpack::sys::abi::{DLDataType, DLDevice, TVMFFIAny, TVMFFIAnyPayload, TVMFFIObject, type_index};
use kernpack::sys::embedded::release::release;
use kernpack::sys::embedded::{
    dec_ref, inc_ref, new_bytes, new_bytes_object, new_string, new_string_object, seq, shape, text_of,
};
use proptest::prelude::*;

/// A value. Two are equal if they are equal as keys of a map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    None,
    Int(i64),
    Bool(bool),
    /// By bits: a NaN is equal to itself, zeros of different sign are not equal.
    Float(u64),
    Pointer(u64),
    Type(u8, u8, u16),
    Device(i32, i32),
    Str(Text),
    Bytes(Text),
    /// One of [`Objects`], by number.
    Object(usize),
}

/// A text, which may be an object although it is small enough for a value.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) bytes: Vec<u8>,
    pub(crate) on_heap: bool,
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

/// Objects that are equal only to themselves. The test holds one reference to each.
pub(crate) struct Objects(Vec<*mut TVMFFIObject>);

impl Objects {
    pub(crate) const COUNT: usize = 6;

    pub(crate) fn new() -> Self {
        let new = |number: usize| match number % 2 {
            0 => shape::new_shape(&[number as i64]),
            _ => seq::new_array(vec![TVMFFIAny::int(number as i64)]),
        };
        Self((0..Self::COUNT).map(new).collect())
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        for object in &self.0 {
            // SAFETY: the test owns this reference. A panic here means a wrong count.
            unsafe {
                if !std::thread::panicking() {
                    assert_eq!((**object).combined_ref_count, (1 << 32) | 1, "references that were not given back");
                }
                dec_ref(*object);
            }
        }
    }
}

impl Value {
    /// An owned value.
    pub(crate) fn owned(&self, objects: &Objects) -> TVMFFIAny {
        let of = |type_index, payload| TVMFFIAny { type_index, small_len: 0, payload };
        match self {
            Self::None => TVMFFIAny::NONE,
            Self::Int(value) => TVMFFIAny::int(*value),
            Self::Bool(value) => TVMFFIAny::bool(*value),
            Self::Float(bits) => TVMFFIAny::float(f64::from_bits(*bits)),
            Self::Pointer(address) => of(type_index::OPAQUE_PTR, TVMFFIAnyPayload { v_uint64: *address }),
            Self::Type(code, bits, lanes) => {
                let mut payload = TVMFFIAnyPayload { v_uint64: 0 };
                payload.v_dtype = DLDataType { code: *code, bits: *bits, lanes: *lanes };
                of(type_index::DATA_TYPE, payload)
            }
            Self::Device(device_type, device_id) => {
                let device = DLDevice { device_type: *device_type, device_id: *device_id };
                of(type_index::DEVICE, TVMFFIAnyPayload { v_device: device })
            }
            Self::Str(Text { bytes, on_heap: true }) => {
                TVMFFIAny::pointer(type_index::STR, new_string_object(bytes).cast())
            }
            Self::Str(text) => new_string(&text.bytes),
            Self::Bytes(Text { bytes, on_heap: true }) => {
                TVMFFIAny::pointer(type_index::BYTES, new_bytes_object(bytes).cast())
            }
            Self::Bytes(text) => new_bytes(&text.bytes),
            Self::Object(number) => {
                let object = objects.0[*number];
                // SAFETY: the test holds a reference.
                unsafe {
                    inc_ref(object);
                    TVMFFIAny::pointer((*object).type_index, object.cast())
                }
            }
        }
    }

    /// Reads a value, which its owner keeps.
    pub(crate) fn read(value: &TVMFFIAny, objects: &Objects) -> Self {
        // SAFETY: the tests only read valid values.
        let text = |value| Text { bytes: unsafe { text_of(value) }.unwrap().to_vec(), on_heap: false };
        let bits = value.bits();
        match value.type_index {
            type_index::NONE => Self::None,
            type_index::INT => Self::Int(bits as i64),
            type_index::BOOL => Self::Bool(bits == 1),
            type_index::FLOAT => Self::Float(bits),
            type_index::OPAQUE_PTR => Self::Pointer(bits),
            type_index::DATA_TYPE => Self::Type(bits as u8, (bits >> 8) as u8, (bits >> 16) as u16),
            type_index::DEVICE => Self::Device(bits as i32, (bits >> 32) as i32),
            type_index::SMALL_STR | type_index::STR => Self::Str(text(value)),
            type_index::SMALL_BYTES | type_index::BYTES => Self::Bytes(text(value)),
            other => {
                let number = objects.0.iter().position(|object| object.addr() as u64 == bits);
                Self::Object(number.unwrap_or_else(|| panic!("an unknown object of type {other}")))
            }
        }
    }

    /// Reads an owned value and releases it.
    pub(crate) fn take(value: TVMFFIAny, objects: &Objects) -> Self {
        let read = Self::read(&value, objects);
        // SAFETY: the caller owns the value.
        unsafe { release(value) };
        read
    }
}

/// Owned values, released with the struct.
pub(crate) struct OwnedValues(pub(crate) Vec<TVMFFIAny>);

impl OwnedValues {
    pub(crate) fn of(values: &[Value], objects: &Objects) -> Self {
        Self(values.iter().map(|value| value.owned(objects)).collect())
    }
}

impl Drop for OwnedValues {
    fn drop(&mut self) {
        for value in &self.0 {
            // SAFETY: the struct owns each value once.
            unsafe { release(*value) };
        }
    }
}

fn text() -> impl Strategy<Value = Text> {
    let texts: &[&[u8]] = &[
        b"",
        b"a",
        b"b",
        b"\0",
        b"a\0",
        b"seven77",
        b"eight888",
        b"seven7\0",
        b"fifteen letters",
        b"sixteen letters.",
        b"sixteen letters,",
        b"a text that is longer than two words",
        b"\xff\xfe",
    ];
    (prop::sample::select(texts), any::<bool>()).prop_map(|(bytes, on_heap)| Text { bytes: bytes.to_vec(), on_heap })
}

/// Values of all kinds from a small range, so that they repeat; `numbers` is the number of
/// integers.
pub(crate) fn value(numbers: i64) -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (0..numbers).prop_map(Value::Int),
        // Their hashes differ in the high bits only.
        2 => (0..numbers).prop_map(|number| Value::Int(number << 40)),
        4 => text().prop_map(Value::Str),
        1 => text().prop_map(Value::Bytes),
        3 => (0..Objects::COUNT).prop_map(Value::Object),
        1 => prop::sample::select(&[0.0, -0.0, 1.0, f64::NAN][..]).prop_map(|number| Value::Float(number.to_bits())),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => (0..3_u64).prop_map(Value::Pointer),
        1 => (0..2_u8, 1..3_u8, 0..2_u16).prop_map(|(code, bits, lanes)| Value::Type(code, bits, lanes)),
        1 => (1..3, 0..2).prop_map(|(device_type, device_id)| Value::Device(device_type, device_id)),
        1 => Just(Value::None),
    ]
}
