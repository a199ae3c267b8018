//! The printer as a visitor: prints each kind of value.

use core::ffi::c_void;

use super::leaf::{push_device, push_dimensions, push_tensor};
use super::number::{push_float, push_int};
use super::printer::Printer;
use super::text::{push_bytes, push_text};
use crate::abi::{TVMFFIAny, type_index};
use crate::embedded::{big_int::content, dtype, shape};
use crate::functions::big_int;
use crate::value::{AnyView, DataType, Device};
use crate::{ObjRef, ObjectRoot, Result, Tensor};
use kernpack_core::reflect::AttrVisitor;

/// Prints a value; for an object with parts to print it sets [`Printer::has_parts`].
impl AttrVisitor for Printer {
    #[inline]
    fn visit_none(&mut self, _: &str) -> Result<()> {
        self.text.extend_from_slice(b"None");
        Ok(())
    }

    #[inline]
    fn visit_bool(&mut self, _: &str, value: bool) -> Result<()> {
        self.text.extend_from_slice(if value { b"True" } else { b"False" });
        Ok(())
    }

    #[inline]
    fn visit_i64(&mut self, _: &str, value: i64) -> Result<()> {
        push_int(&mut self.text, value);
        Ok(())
    }

    #[inline]
    fn visit_u64(&mut self, _: &str, value: u64) -> Result<()> {
        self.text.extend_from_slice(value.to_string().as_bytes());
        Ok(())
    }

    #[inline]
    fn visit_f64(&mut self, _: &str, value: f64) -> Result<()> {
        push_float(&mut self.text, value);
        Ok(())
    }

    #[inline]
    fn visit_text(&mut self, _: &str, value: &[u8]) -> Result<()> {
        push_text(&mut self.text, value);
        Ok(())
    }

    #[inline]
    fn visit_bytes(&mut self, _: &str, value: &[u8]) -> Result<()> {
        push_bytes(&mut self.text, value);
        Ok(())
    }

    #[inline]
    fn visit_opaque(&mut self, _: &str, _: *mut c_void) -> Result<()> {
        self.push_key(type_index::OPAQUE_PTR)
    }

    #[inline]
    fn visit_data_type(&mut self, _: &str, value: DataType) -> Result<()> {
        self.text.extend_from_slice(dtype::format(value.as_raw())?.as_bytes());
        Ok(())
    }

    #[inline]
    fn visit_device(&mut self, _: &str, value: Device) -> Result<()> {
        push_device(&mut self.text, value.as_raw());
        Ok(())
    }

    #[inline]
    fn visit_tensor(&mut self, _: &str, value: &Tensor) -> Result<()> {
        // SAFETY: a tensor's shape has `ndim` elements.
        unsafe { push_tensor(&mut self.text, value.dl_tensor())? };
        self.push_address_of(value.as_object().as_ptr());
        Ok(())
    }

    #[inline]
    fn visit_object(&mut self, _: &str, value: &ObjRef<ObjectRoot>) -> Result<()> {
        let (object, index) = (value.as_ptr(), value.type_index());
        // SAFETY: the reference keeps the object alive; by its type index it is a shape.
        unsafe {
            if index == type_index::SHAPE {
                self.text.extend_from_slice(b"Shape(");
                push_dimensions(&mut self.text, shape::dimensions(object));
                self.text.push(b')');
            } else {
                self.has_parts = !self.print_again(&TVMFFIAny::pointer(index, object.cast()))?;
            }
        }
        Ok(())
    }

    #[inline]
    fn visit_other(&mut self, _: &str, value: &AnyView<'_>) -> Result<()> {
        if value.type_index() == type_index::BIG_INT {
            // SAFETY: by its type index the value is a big integer.
            let digits = big_int::to_decimal(unsafe { content(value.as_raw()).as_slice() });
            self.text.extend_from_slice(digits.as_bytes());
            return Ok(());
        }
        self.push_key(value.type_index())
    }
}
