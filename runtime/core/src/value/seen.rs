//! The view of a value that visitors of fields get: its kind, and the value itself. The visitors
//! are in [`crate::reflect`].

use core::ffi::c_void;

use super::{Any, Arg, DataType, Device};

/// A value to read.
pub enum Shown<'a> {
    /// No value.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer whose type has at most 32 bits.
    I32(i32),
    /// A signed integer of 64 bits.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A floating point number.
    F64(f64),
    /// An untyped pointer.
    Opaque(*mut c_void),
    /// The type of a tensor's elements.
    DataType(DataType),
    /// A device.
    Device(Device),
    /// Text.
    Str(&'a str),
    /// Any other value, as an argument.
    Lent(Arg<'a>),
    /// Any other value, converted.
    Owned(Any),
}

/// A value to change.
pub enum Changed<'a> {
    /// A boolean.
    Bool(&'a mut bool),
    /// An integer of 32 bits.
    I32(&'a mut i32),
    /// A signed integer of 64 bits.
    I64(&'a mut i64),
    /// An unsigned integer of 64 bits.
    U64(&'a mut u64),
    /// A floating point number of 64 bits.
    F64(&'a mut f64),
    /// An integer that a visitor gets as `i32`.
    NarrowI32(&'a mut dyn Narrow<i32>),
    /// An integer that a visitor gets as `i64`.
    NarrowI64(&'a mut dyn Narrow<i64>),
    /// An integer that a visitor gets as `u64`.
    NarrowU64(&'a mut dyn Narrow<u64>),
    /// A floating point number that a visitor gets as `f64`.
    NarrowF64(&'a mut dyn Narrow<f64>),
    /// An untyped pointer.
    Opaque(&'a mut *mut c_void),
    /// The type of a tensor's elements.
    DataType(&'a mut DataType),
    /// A device.
    Device(&'a mut Device),
    /// Text.
    Str(&'a mut String),
    /// Any other value, which is read and set as a whole.
    Other,
}

/// A number whose type does not have its own kind.
pub trait Narrow<W> {
    /// The number in the wider type.
    fn widened(&self) -> W;

    /// Sets the number.
    ///
    /// # Errors
    /// Describes the problem if the value is out of range.
    fn narrow(&mut self, wide: W) -> Result<(), String>;
}
