//! LLVM types.

use core::num::NonZeroU32;

use inkwell::AddressSpace;
use inkwell::types::{BasicType, BasicTypeEnum, PointerType};
use kernpack::DataType;

use super::CodeGenLLVM;
use crate::error::{Result, fail};
use crate::ir::DataTypeExt;

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// A pointer.
    pub(super) fn pointer_type(&self) -> PointerType<'ctx> {
        self.context.ptr_type(AddressSpace::default())
    }

    /// The type of one lane in a register. Float types without native arithmetic are represented by
    /// their bits, including bfloat16: LLVM rounds to it with a function that few systems provide.
    pub(super) fn scalar_type(&self, dtype: DataType) -> Result<BasicTypeEnum<'ctx>> {
        let context = self.context;
        if dtype.is_handle() {
            return Ok(self.pointer_type().into());
        }
        if dtype.is_bool() {
            return Ok(context.bool_type().into());
        }
        if dtype.is_bfloat() {
            return Ok(context.i16_type().into());
        }
        if dtype.is_float() {
            return Ok(match dtype.bits() {
                16 => context.f16_type().into(),
                32 => context.f32_type().into(),
                64 => context.f64_type().into(),
                _ => fail!(Target, "LLVM code has no floats like {}", dtype.short_name()),
            });
        }
        match NonZeroU32::new(u32::from(dtype.bits())) {
            Some(bits) if bits.get() <= 64 => match context.custom_width_int_type(bits) {
                Ok(ty) => Ok(ty.into()),
                Err(_) => fail!(Target, "LLVM code has no {}", dtype.short_name()),
            },
            _ => fail!(Target, "LLVM code has no {}", dtype.short_name()),
        }
    }

    /// A vector of scalars; for one lane, the scalar.
    pub(super) fn vector_type(&self, scalar: BasicTypeEnum<'ctx>, lanes: u16) -> Result<BasicTypeEnum<'ctx>> {
        if lanes == 1 {
            return Ok(scalar);
        }
        let lanes = u32::from(lanes);
        Ok(match scalar {
            BasicTypeEnum::IntType(ty) => ty.vec_type(lanes).into(),
            BasicTypeEnum::FloatType(ty) => ty.vec_type(lanes).into(),
            BasicTypeEnum::PointerType(ty) => ty.vec_type(lanes).into(),
            _ => fail!(Internal, "a vector of `{}`", scalar.print_to_string().to_string()),
        })
    }

    /// The type of a value in a register.
    pub(super) fn value_type(&self, dtype: DataType) -> Result<BasicTypeEnum<'ctx>> {
        self.vector_type(self.scalar_type(dtype)?, dtype.lanes())
    }

    /// The type of one lane in memory: truth values are bytes.
    pub(super) fn memory_scalar(&self, dtype: DataType) -> Result<BasicTypeEnum<'ctx>> {
        if dtype.is_bool() {
            return Ok(self.context.i8_type().into());
        }
        self.scalar_type(dtype)
    }

    /// The type of a value in memory.
    pub(super) fn memory_type(&self, dtype: DataType) -> Result<BasicTypeEnum<'ctx>> {
        self.vector_type(self.memory_scalar(dtype)?, dtype.lanes())
    }

    /// The encoding of a type in the name of an overloaded intrinsic.
    pub(super) fn mangled(&self, ty: BasicTypeEnum<'ctx>) -> String {
        match ty {
            BasicTypeEnum::VectorType(vector) => {
                format!("v{}{}", vector.get_size(), self.mangled(vector.get_element_type()))
            }
            BasicTypeEnum::PointerType(_) => "p0".to_owned(),
            BasicTypeEnum::IntType(int) => format!("i{}", int.get_bit_width()),
            BasicTypeEnum::FloatType(float) => format!("f{}", float.get_bit_width()),
            other => other.as_basic_type_enum().print_to_string().to_string(),
        }
    }
}
