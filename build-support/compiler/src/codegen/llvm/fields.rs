//! Fields of tensors and of values of any type.

use inkwell::types::BasicTypeEnum;
use inkwell::values::PointerValue;
use kernpack::DataType;

use super::CodeGenLLVM;
use super::emit::{Value, confused};
use crate::error::{Result, fail};
use crate::ir::builtin::StructField;
use crate::ir::{DataTypeExt, Expr, F64, I64};

/// The size of a `DLTensor`, in bytes.
pub(super) const TENSOR: u64 = 48;

/// The size of an FFI value, in bytes.
pub(super) const ANY: u64 = 16;

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// The address of a field, and its type in memory.
    pub(super) fn field(
        &mut self,
        pointer: &Expr,
        index: &Expr,
        kind: &Expr,
        dtype: DataType,
    ) -> Result<(PointerValue<'ctx>, BasicTypeEnum<'ctx>)> {
        let Some(field) = kind.as_int().and_then(StructField::of) else {
            fail!(Type, "unknown kind of a field: {:?}", kind.as_int())
        };
        let context = self.context;
        let (int, wide, pointer_type) = (context.i32_type(), context.i64_type(), self.pointer_type());
        let (stride, offset, ty): (u64, u64, BasicTypeEnum<'ctx>) = match field {
            StructField::Address => (TENSOR, 0, pointer_type.into()),
            StructField::Data => (TENSOR, 0, pointer_type.into()),
            StructField::DeviceType => (TENSOR, 8, int.into()),
            StructField::DeviceId => (TENSOR, 12, int.into()),
            StructField::Ndim => (TENSOR, 16, int.into()),
            StructField::TypeCode => (TENSOR, 20, context.i8_type().into()),
            StructField::TypeBits => (TENSOR, 21, context.i8_type().into()),
            StructField::TypeLanes => (TENSOR, 22, context.i16_type().into()),
            StructField::Shape => (TENSOR, 24, pointer_type.into()),
            StructField::Strides => (TENSOR, 32, pointer_type.into()),
            StructField::ByteOffset => (TENSOR, 40, wide.into()),
            StructField::AnyTypeIndex => (ANY, 0, int.into()),
            StructField::AnyPadding => (ANY, 4, int.into()),
            StructField::AnyValue if dtype.is_float() => (ANY, 8, context.f64_type().into()),
            StructField::AnyValue if dtype.is_handle() => (ANY, 8, pointer_type.into()),
            StructField::AnyValue => (ANY, 8, wide.into()),
            StructField::Int64Element => (8, 0, wide.into()),
        };
        let base = self.pointer(pointer)?;
        let element = match index.as_int() {
            Some(index) => wide.const_int((index as u64).wrapping_mul(stride).wrapping_add(offset), false),
            None => {
                let index = self.integer(index)?;
                let scaled = self.builder.build_int_nsw_mul(index, wide.const_int(stride, false), "")?;
                self.builder.build_int_nsw_add(scaled, wide.const_int(offset, false), "")?
            }
        };
        // SAFETY: a field of an element that exists according to the program.
        let place = unsafe { self.builder.build_in_bounds_gep(context.i8_type(), base, &[element], "")? };
        Ok((place, ty))
    }

    pub(super) fn struct_get(
        &mut self,
        pointer: &Expr,
        index: &Expr,
        kind: &Expr,
        dtype: DataType,
    ) -> Result<Value<'ctx>> {
        let (place, ty) = self.field(pointer, index, kind, dtype)?;
        if kind.is_int(StructField::Address as i64) {
            return Ok(place.into());
        }
        let value = self.builder.build_load(ty, place, "")?;
        self.field_as(value, kind, dtype)
    }

    /// Converts a field's value to the type of the call.
    pub(super) fn field_as(&mut self, value: Value<'ctx>, kind: &Expr, dtype: DataType) -> Result<Value<'ctx>> {
        match value {
            Value::PointerValue(_) if dtype.is_handle() => Ok(value),
            Value::PointerValue(_) => fail!(Type, "a pointer of a struct read as {}", dtype.short_name()),
            Value::FloatValue(_) => self.cast(F64, dtype, value),
            Value::IntValue(int) => {
                let bits = int.get_type().get_bit_width() as u8;
                let is_signed = !matches!(kind.as_int(), Some(5..=8));
                let from = if is_signed { I64 } else { crate::ir::U64 };
                let from = DataType::scalar(from.code(), bits);
                if dtype.is_handle() {
                    return self.bit_cast(value, self.pointer_type().into());
                }
                self.cast(from, dtype, value)
            }
            other => Err(confused("a field", other)),
        }
    }

    pub(super) fn struct_set(
        &mut self,
        pointer: &Expr,
        index: &Expr,
        kind: &Expr,
        value: &Expr,
    ) -> Result<Value<'ctx>> {
        let dtype = value.dtype();
        let (place, ty) = self.field(pointer, index, kind, dtype)?;
        let value = self.data_value(value)?;
        let stored = match ty {
            BasicTypeEnum::PointerType(_) => value,
            BasicTypeEnum::FloatType(_) => self.cast(dtype, F64, value)?,
            BasicTypeEnum::IntType(int) => {
                let to = DataType::scalar(I64.code(), int.get_bit_width() as u8);
                self.cast(dtype, to, value)?
            }
            _ => return Err(confused("a field", value)),
        };
        self.builder.build_store(place, stored)?;
        Ok(self.nothing())
    }
}
