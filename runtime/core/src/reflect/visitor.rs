use core::ffi::c_void;

use super::AttrVisitorMut;
use super::dispatch::visit_value;
use crate::value::{Any, AnyView, DataType, Device, IntoAny};
use crate::{ObjRef, ObjectRoot, Result, Tensor};

/// Visits the fields of an object one after the other, each through the method for its kind.
///
/// Implement the methods of the kinds that matter. The default methods pass the value on to a more
/// general method, and finally to [`AttrVisitor::visit_other`], which does nothing by default:
///
/// | method | Rust fields | from other languages | else it goes to |
/// |---|---|---|---|
/// | `visit_f64` | `f32`, `f64` | `float` | `visit_other` |
/// | `visit_i64` | `i64`, `isize`, integers in an `Option`, `Field` or `Any` | integers of 64 bits | `visit_other` |
/// | `visit_u64` | `u32`, `u64`, `usize` | integers beyond `i64` that fit | `visit_i64` if it fits, `visit_other` |
/// | `visit_i32` | `i8`, `i16`, `i32`, `u8`, `u16` | integers of at most 32 bits | `visit_i64` |
/// | `visit_bool` | `bool` | `bool` | `visit_other` |
/// | `visit_str` | `String`, `Str` | text | `visit_other` |
/// | `visit_bytes` | `Bytes` | bytes, and text that is not UTF-8 | `visit_other` |
/// | `visit_opaque` | `*mut c_void` | untyped pointers | `visit_other` |
/// | `visit_data_type` | `DataType` | `dtype` | `visit_other` |
/// | `visit_device` | `Device` | `Device` | `visit_other` |
/// | `visit_tensor` | `Tensor` | tensors | `visit_object` |
/// | `visit_object` | `ObjRef<T>`, functions, modules, containers (a `Vec` comes as an `ffi.Array`) | all other objects | `visit_other` |
/// | `visit_none` | `None` | `None` | `visit_other` |
///
/// An error stops the visit and becomes its result.
///
/// ```
/// use kernpack::reflect::{AttrVisitor, VisitAttrs};
/// use kernpack::{Object, Result};
///
/// #[derive(Object)]
/// #[object(key = "docs.visitor.Box")]
/// #[repr(C)]
/// pub struct Box3 {
///     pub width: f64,
///     pub height: f64,
///     pub depth: f32,
///     pub label: String,
/// }
///
/// /// Multiplies all numbers.
/// struct Product(f64);
///
/// impl AttrVisitor for Product {
///     fn visit_f64(&mut self, _name: &str, value: f64) -> Result<()> {
///         self.0 *= value;
///         Ok(())
///     }
/// }
///
/// let mut volume = Product(1.0);
/// Box3 { width: 2.0, height: 3.0, depth: 0.5, label: "small".into() }.visit_attrs(&mut volume)?;
/// assert_eq!(volume.0, 3.0);
/// # Ok::<(), kernpack::Error>(())
/// ```
pub trait AttrVisitor {
    /// Visits a floating point number.
    ///
    /// # Errors
    /// Any error stops the visit and becomes its result. The same holds for all methods of this
    /// trait.
    #[inline]
    fn visit_f64(&mut self, name: &str, value: f64) -> Result<()> {
        self.visit_other(name, value.into_any().as_view())
    }

    /// Visits a signed integer of 64 bits.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_i64(&mut self, name: &str, value: i64) -> Result<()> {
        self.visit_other(name, value.into_any().as_view())
    }

    /// Visits an unsigned integer.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_u64(&mut self, name: &str, value: u64) -> Result<()> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(name, value),
            Err(_) => self.visit_other(name, value.into_any().as_view()),
        }
    }

    /// Visits an integer whose type has at most 32 bits.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_i32(&mut self, name: &str, value: i32) -> Result<()> {
        self.visit_i64(name, value.into())
    }

    /// Visits a boolean.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_bool(&mut self, name: &str, value: bool) -> Result<()> {
        self.visit_other(name, value.into_any().as_view())
    }

    /// Visits a string.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_str(&mut self, name: &str, value: &str) -> Result<()> {
        self.visit_other(name, value.into_any().as_view())
    }

    /// Visits the bytes of a string; strings of other languages need not be UTF-8.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[doc(hidden)]
    #[inline]
    fn visit_text(&mut self, name: &str, value: &[u8]) -> Result<()> {
        match core::str::from_utf8(value) {
            Ok(text) => self.visit_str(name, text),
            Err(_) => self.visit_bytes(name, value),
        }
    }

    /// Visits bytes, or a string of another language that is not UTF-8.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_bytes(&mut self, name: &str, value: &[u8]) -> Result<()> {
        self.visit_other(name, value.into_any().as_view())
    }

    /// Visits an untyped pointer.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_opaque(&mut self, name: &str, value: *mut c_void) -> Result<()> {
        self.visit_other(name, value.into_any().as_view())
    }

    /// Visits an element type of tensors.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_data_type(&mut self, name: &str, value: DataType) -> Result<()> {
        self.visit_other(name, value.into_any().as_view())
    }

    /// Visits a device.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_device(&mut self, name: &str, value: Device) -> Result<()> {
        self.visit_other(name, value.into_any().as_view())
    }

    /// Visits a tensor.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_tensor(&mut self, name: &str, value: &Tensor) -> Result<()> {
        self.visit_object(name, value.as_object())
    }

    /// Visits any other object: of a registered type, a container, a function, a module.
    ///
    /// The object is borrowed; clone it to keep it.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_object(&mut self, name: &str, value: &ObjRef<ObjectRoot>) -> Result<()> {
        self.visit_other(name, value.clone().into_any().as_view())
    }

    /// Visits the absence of a value.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_none(&mut self, name: &str) -> Result<()> {
        self.visit_other(name, Any::NONE.as_view())
    }

    /// Visits a value whose own method is not implemented.
    ///
    /// # Errors
    /// Any error stops the visit.
    #[inline]
    fn visit_other(&mut self, name: &str, value: &AnyView<'_>) -> Result<()> {
        let _ = (name, value);
        Ok(())
    }
}

/// An object type whose fields can be visited by their Rust types, without registered data.
/// `#[derive(Object)]` implements it: for the registered fields, those of the parent first.
///
/// For objects of any type, including those of other languages, use
/// [`visit_object`](super::visit_object).
#[diagnostic::on_unimplemented(
    message = "the fields of `{Self}` cannot be visited",
    label = "no `VisitAttrs` for this type",
    note = "`#[derive(kernpack::Object)]` implements it; a type that implements `Object` by hand needs `impl VisitAttrs`"
)]
pub trait VisitAttrs {
    /// Passes each field to the visitor.
    ///
    /// # Errors
    /// Returns the first error of the visitor.
    fn visit_attrs(&self, visitor: &mut dyn AttrVisitor) -> Result<()>;

    /// Passes each field to the visitor mutably. This requires exclusive access: a value that is
    /// not an object yet, or `ObjRef::get_mut` of an object without other references.
    ///
    /// # Errors
    /// Returns the first error of the visitor; fields that were visited before it keep their new
    /// values.
    fn visit_attrs_mut(&mut self, visitor: &mut dyn AttrVisitorMut) -> Result<()>;
}

/// The root does not have fields.
impl VisitAttrs for ObjectRoot {
    #[inline]
    fn visit_attrs(&self, _: &mut dyn AttrVisitor) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn visit_attrs_mut(&mut self, _: &mut dyn AttrVisitorMut) -> Result<()> {
        Ok(())
    }
}

impl Any {
    /// Passes the value to the visitor's method for its kind.
    ///
    /// # Errors
    /// Returns the visitor's error.
    #[inline]
    pub fn visit(&self, name: &str, visitor: &mut dyn AttrVisitor) -> Result<()> {
        visit_value(self.as_view(), name, visitor)
    }
}
