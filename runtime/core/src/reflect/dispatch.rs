//! Dispatch of values to the visitor's methods by kind.

use core::mem::ManuallyDrop;

use super::AttrVisitor;
use crate::abi::type_index;
use crate::value::{AnyView, Arg, DataType, Device, FromAny, Shown};
use crate::{ObjRef, ObjectRoot, Result, Tensor, embedded};

/// Passes a value to the visitor's method for its kind. Integers are `i64`, or `u64` if they are
/// larger.
///
/// # Errors
/// Returns the visitor's error.
#[inline]
pub fn visit_value(value: &AnyView<'_>, name: &str, visitor: &mut dyn AttrVisitor) -> Result<()> {
    dispatch(&value.lent(), name, visitor)
}

/// Like [`visit_value`], for a visitor whose type is known and values other than rvalue references.
#[inline(always)]
#[doc(hidden)]
pub fn dispatch<V: AttrVisitor + ?Sized>(value: &AnyView<'_>, name: &str, visitor: &mut V) -> Result<()> {
    let raw = value.as_raw();
    // SAFETY: the member that is read is the one of the view's type index; what it refers to lives
    // as long as the view.
    unsafe {
        match value.type_index() {
            type_index::NONE => visitor.visit_none(name),
            type_index::INT => visitor.visit_i64(name, raw.payload.v_int64),
            type_index::BOOL => visitor.visit_bool(name, raw.payload.v_int64 != 0),
            type_index::FLOAT => visitor.visit_f64(name, raw.payload.v_float64),
            type_index::OPAQUE_PTR => visitor.visit_opaque(name, raw.payload.v_ptr),
            type_index::DATA_TYPE => visitor.visit_data_type(name, DataType::from_raw(raw.payload.v_dtype)),
            type_index::DEVICE => visitor.visit_device(name, Device::from_raw(raw.payload.v_device)),
            type_index::RAW_STR | type_index::SMALL_STR | type_index::STR => {
                visitor.visit_text(name, embedded::text_of(raw).unwrap_or_default())
            }
            type_index::BYTE_ARRAY_PTR | type_index::SMALL_BYTES | type_index::BYTES => {
                visitor.visit_bytes(name, embedded::text_of(raw).unwrap_or_default())
            }
            type_index::BIG_INT => match u64::from_any(value) {
                Ok(value) => visitor.visit_u64(name, value),
                Err(_) => visitor.visit_other(name, value),
            },
            type_index::TENSOR => visit_tensor(value, name, visitor),
            index if index >= type_index::STATIC_OBJECT_BEGIN => {
                let object = ManuallyDrop::new(ObjRef::<ObjectRoot>::from_raw(raw.payload.v_obj));
                visitor.visit_object(name, &object)
            }
            _ => visitor.visit_other(name, value),
        }
    }
}

#[inline]
fn visit_tensor<V: AttrVisitor + ?Sized>(value: &AnyView<'_>, name: &str, visitor: &mut V) -> Result<()> {
    match Tensor::from_any(value) {
        Ok(tensor) => visitor.visit_tensor(name, &tensor),
        Err(_) => visitor.visit_other(name, value),
    }
}

/// Passes a value to the visitor's method for its kind.
#[inline(always)]
pub(super) fn show(value: Shown<'_>, name: &str, visitor: &mut dyn AttrVisitor) -> Result<()> {
    match value {
        Shown::None => visitor.visit_none(name),
        Shown::Bool(value) => visitor.visit_bool(name, value),
        Shown::I32(value) => visitor.visit_i32(name, value),
        Shown::I64(value) => visitor.visit_i64(name, value),
        Shown::U64(value) => visitor.visit_u64(name, value),
        Shown::F64(value) => visitor.visit_f64(name, value),
        Shown::Opaque(value) => visitor.visit_opaque(name, value),
        Shown::DataType(value) => visitor.visit_data_type(name, value),
        Shown::Device(value) => visitor.visit_device(name, value),
        Shown::Str(value) => visitor.visit_str(name, value),
        Shown::Lent(arg) => visit_arg(&arg, name, visitor),
        Shown::Owned(value) => visit_value(value.as_view(), name, visitor),
    }
}

#[inline]
fn visit_arg(arg: &Arg<'_>, name: &str, visitor: &mut dyn AttrVisitor) -> Result<()> {
    // SAFETY: `arg` lives to the end of the call, and so does what it refers to.
    visit_value(&unsafe { AnyView::from_raw(arg.as_raw()) }, name, visitor)
}

/// Passes an integer of a field of `size` bytes to the visitor.
#[inline]
pub(super) fn visit_integer(
    value: i64,
    size: i64,
    is_unsigned: bool,
    name: &str,
    visitor: &mut dyn AttrVisitor,
) -> Result<()> {
    if is_unsigned && let Ok(value) = u64::try_from(value) {
        return visitor.visit_u64(name, value);
    }
    match i32::try_from(value) {
        // An unsigned number of a C++ type may be larger than an `i32` of the same size.
        Ok(value) if size <= 4 => visitor.visit_i32(name, value),
        _ => visitor.visit_i64(name, value),
    }
}
