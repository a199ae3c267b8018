//! Values without parts as nodes: a visitor that writes one node for each value.

use core::ffi::c_void;

use super::base64;
use super::encode::{Data, Output};
use crate::abi::{TVMFFIAny, type_index};
use crate::definition::signature::type_key;
use crate::embedded::{dtype, shape};
use crate::value::{AnyView, DataType, Device};
use crate::walker::field_value::type_of;
use crate::{ObjRef, ObjectRoot, Result, Tensor, bail};
use kernpack_core::reflect::{AttrVisitor, dispatch};

/// Writes the node of a value.
///
/// # Safety
/// The value is alive, and no rvalue reference.
#[inline]
pub(super) unsafe fn write(value: &TVMFFIAny, output: &mut dyn Output) -> Result<()> {
    // SAFETY: promised by the caller.
    let view = unsafe { AnyView::from_raw(*value) };
    dispatch(&view, "", &mut Leaf { value, output })
}

struct Leaf<'a> {
    /// The visited value: outputs that keep it share it.
    value: &'a TVMFFIAny,
    output: &'a mut dyn Output,
}

impl Leaf<'_> {
    /// Writes a node of the type with this index.
    #[inline]
    fn node(&mut self, index: i32, data: Data<'_>) -> Result<()> {
        self.output.node(type_of(index)?.key_bytes(), data)
    }

    #[inline]
    fn integers(&mut self, index: i32, integers: impl Iterator<Item = i64>) -> Result<()> {
        let data: Vec<_> = integers.map(TVMFFIAny::int).collect();
        self.node(index, Data::List(&data))
    }

    #[cold]
    #[inline]
    fn no_json(&self) -> Result<()> {
        // SAFETY: the value is alive.
        bail!(RuntimeError, "Cannot serialize type `{}`", type_key(&unsafe { AnyView::from_raw(*self.value) }))
    }
}

impl AttrVisitor for Leaf<'_> {
    #[inline]
    fn visit_none(&mut self, _: &str) -> Result<()> {
        self.node(type_index::NONE, Data::Absent)
    }

    #[inline]
    fn visit_bool(&mut self, _: &str, _: bool) -> Result<()> {
        self.node(type_index::BOOL, Data::Value(self.value))
    }

    #[inline]
    fn visit_i64(&mut self, _: &str, _: i64) -> Result<()> {
        self.node(type_index::INT, Data::Value(self.value))
    }

    #[inline]
    fn visit_u64(&mut self, _: &str, _: u64) -> Result<()> {
        self.no_json()
    }

    #[inline]
    fn visit_f64(&mut self, _: &str, _: f64) -> Result<()> {
        self.node(type_index::FLOAT, Data::Value(self.value))
    }

    #[inline]
    fn visit_text(&mut self, _: &str, _: &[u8]) -> Result<()> {
        // Small texts are texts.
        self.node(type_index::STR, Data::Value(self.value))
    }

    #[inline]
    fn visit_bytes(&mut self, _: &str, value: &[u8]) -> Result<()> {
        self.node(type_index::BYTES, Data::Text(&base64::encode(value)))
    }

    #[inline]
    fn visit_opaque(&mut self, _: &str, _: *mut c_void) -> Result<()> {
        self.no_json()
    }

    #[inline]
    fn visit_data_type(&mut self, _: &str, value: DataType) -> Result<()> {
        self.node(type_index::DATA_TYPE, Data::Text(dtype::format(value.as_raw())?.as_bytes()))
    }

    #[inline]
    fn visit_device(&mut self, _: &str, value: Device) -> Result<()> {
        self.integers(type_index::DEVICE, [value.device_type().into(), value.index().into()].into_iter())
    }

    #[inline]
    fn visit_tensor(&mut self, _: &str, _: &Tensor) -> Result<()> {
        self.no_json()
    }

    #[inline]
    fn visit_object(&mut self, _: &str, value: &ObjRef<ObjectRoot>) -> Result<()> {
        if value.type_index() != type_index::SHAPE {
            return self.no_json();
        }
        // SAFETY: a shape, which the reference keeps alive.
        self.integers(type_index::SHAPE, unsafe { shape::dimensions(value.as_ptr()) }.iter().copied())
    }

    #[inline]
    fn visit_other(&mut self, _: &str, _: &AnyView<'_>) -> Result<()> {
        self.no_json()
    }
}
