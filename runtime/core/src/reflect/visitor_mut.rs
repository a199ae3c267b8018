use core::ffi::c_void;

use super::attr_slot::{AttrSlot, ConvertOf, SetAttr, Slot};
use crate::Result;
use crate::object::FieldValue;
use crate::value::{Changed, DataType, Device, FromAny, IntoAny, Narrow};

/// Visits the fields of an object mutably, one after the other, each through the method for its
/// kind.
///
/// Only code with exclusive access to an object can have its fields visited this way, so the
/// visitor gets plain `&mut`. The default methods call [`AttrVisitorMut::visit_other`], which gets
/// a field of any type as a value that can be read and set; it does nothing by default.
///
/// | method | fields |
/// |---|---|
/// | `visit_f64` | `f64`; `f32`, which takes a finite number only within its range |
/// | `visit_i64` | `i64`, `isize` |
/// | `visit_u64` | `u64`; `u32`, `usize`, which take a number only within their range |
/// | `visit_i32` | `i32`; `i8`, `i16`, `u8`, `u16`, which take a number only within their range |
/// | `visit_bool`, `visit_data_type`, `visit_device`, `visit_opaque` | fields of that type |
/// | `visit_string` | `String` |
/// | `visit_other` | everything else: objects, tensors, `Option`, `Vec`, maps, `Str`, `Any`, ... |
///
/// ```
/// use kernpack::reflect::{AttrSlot, AttrVisitorMut, VisitAttrs};
/// use kernpack::{IntoAny, Object, Result};
///
/// #[derive(Object)]
/// #[object(key = "docs.visitor.Vector")]
/// #[repr(C)]
/// pub struct Vector {
///     pub x: f64,
///     pub y: f64,
///     pub tags: Vec<String>,
/// }
///
/// struct Double;
///
/// impl AttrVisitorMut for Double {
///     fn visit_f64(&mut self, _name: &str, value: &mut f64) -> Result<()> {
///         *value *= 2.0;
///         Ok(())
///     }
///
///     fn visit_other(&mut self, name: &str, value: &mut dyn AttrSlot) -> Result<()> {
///         if name == "tags" {
///             let mut tags: Vec<String> = value.get().to()?;
///             tags.push("doubled".into());
///             value.set(&tags.into_any())?;
///         }
///         Ok(())
///     }
/// }
///
/// let mut vector = Vector { x: 1.0, y: 2.5, tags: vec![] };
/// vector.visit_attrs_mut(&mut Double)?;
/// assert_eq!((vector.x, vector.y), (2.0, 5.0));
/// assert_eq!(vector.tags, ["doubled"]);
/// # Ok::<(), kernpack::Error>(())
/// ```
pub trait AttrVisitorMut {
    /// Visits a floating point number.
    ///
    /// # Errors
    /// Any error stops the visit and becomes its result. The same holds for all methods of this
    /// trait.
    #[inline]
    fn visit_f64(&mut self, name: &str, value: &mut f64) -> Result<()> {
        self.visit_other(name, &mut slot(name, value))
    }

    /// Visits a signed integer of 64 bits.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_i64(&mut self, name: &str, value: &mut i64) -> Result<()> {
        self.visit_other(name, &mut slot(name, value))
    }

    /// Visits an unsigned integer.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_u64(&mut self, name: &str, value: &mut u64) -> Result<()> {
        self.visit_other(name, &mut slot(name, value))
    }

    /// Visits an integer of at most 32 bits.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_i32(&mut self, name: &str, value: &mut i32) -> Result<()> {
        self.visit_other(name, &mut slot(name, value))
    }

    /// Visits a boolean.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_bool(&mut self, name: &str, value: &mut bool) -> Result<()> {
        self.visit_other(name, &mut slot(name, value))
    }

    /// Visits a string.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_string(&mut self, name: &str, value: &mut String) -> Result<()> {
        self.visit_other(name, &mut slot(name, value))
    }

    /// Visits an untyped pointer.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_opaque(&mut self, name: &str, value: &mut *mut c_void) -> Result<()> {
        self.visit_other(name, &mut slot(name, value))
    }

    /// Visits an element type of tensors.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_data_type(&mut self, name: &str, value: &mut DataType) -> Result<()> {
        self.visit_other(name, &mut slot(name, value))
    }

    /// Visits a device.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_device(&mut self, name: &str, value: &mut Device) -> Result<()> {
        self.visit_other(name, &mut slot(name, value))
    }

    /// Visits a field of any other type, or one whose own method is not implemented.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_other(&mut self, name: &str, value: &mut dyn AttrSlot) -> Result<()> {
        let _ = (name, value);
        Ok(())
    }
}

/// A slot for a field whose type converts in both directions.
#[inline]
fn slot<'a, T>(name: &'a str, value: &'a mut T) -> Slot<'a, T>
where
    T: IntoAny + Clone + for<'b> FromAny<'b>,
{
    Slot::new(name, value, ConvertOf::<T>::SET)
}

/// Passes the value of a field mutably to the visitor's method for its kind; `set` assigns a
/// converted value.
#[inline(always)]
pub(super) fn change<T: FieldValue>(
    field: &mut T,
    name: &str,
    visitor: &mut dyn AttrVisitorMut,
    set: Option<SetAttr<T>>,
) -> Result<()> {
    match field.changed() {
        Changed::Bool(value) => visitor.visit_bool(name, value),
        Changed::I32(value) => visitor.visit_i32(name, value),
        Changed::I64(value) => visitor.visit_i64(name, value),
        Changed::U64(value) => visitor.visit_u64(name, value),
        Changed::F64(value) => visitor.visit_f64(name, value),
        Changed::NarrowI32(value) => narrow(value, name, |wide| visitor.visit_i32(name, wide)),
        Changed::NarrowI64(value) => narrow(value, name, |wide| visitor.visit_i64(name, wide)),
        Changed::NarrowU64(value) => narrow(value, name, |wide| visitor.visit_u64(name, wide)),
        Changed::NarrowF64(value) => narrow(value, name, |wide| visitor.visit_f64(name, wide)),
        Changed::Opaque(value) => visitor.visit_opaque(name, value),
        Changed::DataType(value) => visitor.visit_data_type(name, value),
        Changed::Device(value) => visitor.visit_device(name, value),
        Changed::Str(value) => visitor.visit_string(name, value),
        Changed::Other => visitor.visit_other(name, &mut Slot::new(name, field, set)),
    }
}

/// Passes a number as a wider one, and writes the visitor's value back, which may be out of range.
#[inline]
fn narrow<W>(field: &mut dyn Narrow<W>, name: &str, visit: impl FnOnce(&mut W) -> Result<()>) -> Result<()> {
    let mut wide = field.widened();
    visit(&mut wide)?;
    field.narrow(wide).map_err(|problem| crate::error!(ValueError, "field '{name}': {problem}"))
}
