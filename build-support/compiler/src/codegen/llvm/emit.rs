//! Instructions that are the same for scalars and vectors.

use inkwell::builder::BuilderError;
use inkwell::llvm_sys::core::{LLVMIsAInstruction, LLVMIsAShuffleVectorInst, LLVMSetFastMathFlags, LLVMSetNSW};
use inkwell::types::BasicTypeEnum;
use inkwell::values::{AnyValue, AsValueRef, BasicValue, BasicValueEnum, InstructionOpcode, VectorValue};
use inkwell::{FloatPredicate, IntPredicate};

use super::CodeGenLLVM;
use crate::error::{CompileError, ErrorKind, Result};

/// A value in a register.
pub(super) type Value<'ctx> = BasicValueEnum<'ctx>;

impl From<BuilderError> for CompileError {
    fn from(error: BuilderError) -> Self {
        Self::new(ErrorKind::Internal, format!("LLVM refuses an instruction: {error}"))
    }
}

/// A bug in the code generator: a value of another kind than its type.
pub(super) fn confused(what: &str, value: Value<'_>) -> CompileError {
    CompileError::new(ErrorKind::Internal, format!("{what} of `{}`", value.print_to_string().to_string()))
}

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// An operation on two values of one type.
    pub(super) fn op(&self, opcode: InstructionOpcode, a: Value<'ctx>, b: Value<'ctx>) -> Result<Value<'ctx>> {
        Ok(self.builder.build_binop(opcode, a, b, "")?)
    }

    /// An operation on integers; with `nsw`, signed overflow cannot happen.
    pub(super) fn int_op(
        &self,
        opcode: InstructionOpcode,
        a: Value<'ctx>,
        b: Value<'ctx>,
        nsw: bool,
    ) -> Result<Value<'ctx>> {
        let value = self.op(opcode, a, b)?;
        if nsw && is_instruction(value) {
            // SAFETY: an addition, subtraction, multiplication or shift of integers that was just
            // created.
            unsafe { LLVMSetNSW(value.as_value_ref(), 1) };
        }
        Ok(value)
    }

    /// An operation on floats with the function's fast-math flags.
    pub(super) fn float_op(&self, opcode: InstructionOpcode, a: Value<'ctx>, b: Value<'ctx>) -> Result<Value<'ctx>> {
        let value = self.op(opcode, a, b)?;
        self.set_fast_math(value);
        Ok(value)
    }

    /// Sets the function's fast-math flags on a floating-point instruction.
    pub(super) fn set_fast_math(&self, value: Value<'ctx>) {
        if self.state.fast_math != 0 && is_instruction(value) {
            // SAFETY: an instruction on floats that was just created.
            unsafe { LLVMSetFastMathFlags(value.as_value_ref(), self.state.fast_math) };
        }
    }

    /// A conversion instruction.
    pub(super) fn convert(
        &self,
        opcode: InstructionOpcode,
        value: Value<'ctx>,
        to: BasicTypeEnum<'ctx>,
    ) -> Result<Value<'ctx>> {
        Ok(self.builder.build_cast(opcode, value, to, "")?)
    }

    /// Reinterprets the bits as another type of the same size.
    pub(super) fn bit_cast(&self, value: Value<'ctx>, to: BasicTypeEnum<'ctx>) -> Result<Value<'ctx>> {
        if value.get_type() == to {
            return Ok(value);
        }
        match (value, to) {
            (Value::PointerValue(pointer), BasicTypeEnum::IntType(to)) => {
                Ok(self.builder.build_ptr_to_int(pointer, to, "")?.into())
            }
            (Value::IntValue(value), BasicTypeEnum::PointerType(to)) => {
                Ok(self.builder.build_int_to_ptr(value, to, "")?.into())
            }
            _ => self.convert(InstructionOpcode::BitCast, value, to),
        }
    }

    /// A comparison of integers or pointers.
    pub(super) fn compare_int(&self, predicate: IntPredicate, a: Value<'ctx>, b: Value<'ctx>) -> Result<Value<'ctx>> {
        Ok(match (a, b) {
            (Value::IntValue(a), Value::IntValue(b)) => self.builder.build_int_compare(predicate, a, b, "")?.into(),
            (Value::VectorValue(a), Value::VectorValue(b)) => {
                self.builder.build_int_compare(predicate, a, b, "")?.into()
            }
            (Value::PointerValue(a), Value::PointerValue(b)) => {
                self.builder.build_int_compare(predicate, a, b, "")?.into()
            }
            _ => return Err(confused("comparison", a)),
        })
    }

    /// A comparison of floats.
    pub(super) fn compare_float(
        &self,
        predicate: FloatPredicate,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Result<Value<'ctx>> {
        let value: Value<'ctx> = match (a, b) {
            (Value::FloatValue(a), Value::FloatValue(b)) => {
                self.builder.build_float_compare(predicate, a, b, "")?.into()
            }
            (Value::VectorValue(a), Value::VectorValue(b)) => {
                self.builder.build_float_compare(predicate, a, b, "")?.into()
            }
            _ => return Err(confused("comparison", a)),
        };
        Ok(value)
    }

    /// `condition ? a : b`, for each lane if the condition is a vector.
    pub(super) fn select(&self, condition: Value<'ctx>, a: Value<'ctx>, b: Value<'ctx>) -> Result<Value<'ctx>> {
        Ok(match condition {
            Value::IntValue(condition) => self.builder.build_select(condition, a, b, "")?,
            Value::VectorValue(condition) => self.builder.build_select(condition, a, b, "")?,
            _ => return Err(confused("condition", condition)),
        })
    }

    /// Broadcasts the value to a vector.
    pub(super) fn splat(&self, value: Value<'ctx>, lanes: u16) -> Result<Value<'ctx>> {
        if lanes == 1 {
            return Ok(value);
        }
        let vector = self.vector_type(value.get_type(), lanes)?;
        let poison = vector.into_vector_type().get_poison();
        let zero = self.context.i32_type().const_zero();
        let first = self.builder.build_insert_element(poison, value, zero, "")?;
        let mask = self.context.i32_type().vec_type(u32::from(lanes)).const_zero();
        Ok(self.builder.build_shuffle_vector(first, poison, mask, "")?.into())
    }

    /// A lane of a vector; a scalar is its only lane.
    pub(super) fn lane(&self, value: Value<'ctx>, lane: u16) -> Result<Value<'ctx>> {
        match value {
            Value::VectorValue(vector) => {
                let index = self.context.i32_type().const_int(u64::from(lane), false);
                Ok(self.builder.build_extract_element(vector, index, "")?)
            }
            _ => Ok(value),
        }
    }

    /// Builds a vector from these values; a single one stays a scalar.
    pub(super) fn vector_of(&self, lanes: &[Value<'ctx>]) -> Result<Value<'ctx>> {
        let first = *lanes.first().ok_or_else(|| CompileError::new(ErrorKind::Internal, "a vector without lanes"))?;
        if lanes.len() == 1 {
            return Ok(first);
        }
        let count = u16::try_from(lanes.len())
            .map_err(|_| CompileError::new(ErrorKind::Target, format!("a vector of {} lanes", lanes.len())))?;
        let mut vector = self.vector_type(first.get_type(), count)?.into_vector_type().get_poison();
        for (index, value) in lanes.iter().enumerate() {
            let index = self.context.i32_type().const_int(index as u64, false);
            vector = self.builder.build_insert_element(vector, *value, index, "")?;
        }
        Ok(vector.into())
    }

    /// Selects the lanes `indices` of the concatenation of two vectors.
    pub(super) fn shuffle(&self, a: VectorValue<'ctx>, b: VectorValue<'ctx>, indices: &[u32]) -> Result<Value<'ctx>> {
        let int = self.context.i32_type();
        let indices: Vec<_> = indices.iter().map(|index| int.const_int(u64::from(*index), false)).collect();
        let mask = inkwell::types::VectorType::const_vector(&indices);
        Ok(self.builder.build_shuffle_vector(a, b, mask, "")?.into())
    }

    /// Returns the same value behind an optimization barrier. For a shuffle, LLVM searches for one
    /// instruction that replaces all shuffles before it, in a time that grows with each step. For a
    /// block of 16 x 16 floats that is transposed in four steps, instruction selection took 7.4 ms,
    /// and 2.2 ms with a fence after two steps, for the same instructions.
    pub(super) fn fenced(&self, value: Value<'ctx>) -> Result<Value<'ctx>> {
        let Value::VectorValue(vector) = value else { return Ok(value) };
        let bits = match vector.get_type().get_element_type() {
            BasicTypeEnum::FloatType(ty) if ty == self.context.f32_type() => 32,
            BasicTypeEnum::FloatType(ty) if ty == self.context.f64_type() => 64,
            _ => return Ok(value),
        };
        // Vectors that do not fit in a register would be split at the fence.
        let bits = bits * vector.get_type().get_size();
        if self.target.arch() != "x86_64" || bits < 128 || bits > self.target.vector_bits() {
            return Ok(value);
        }
        let ty = vector.get_type().into();
        self.intrinsic("llvm.arithmetic.fence", &[ty], ty, &[value])
    }
}

/// Returns true if a value is an instruction that selects lanes of two vectors.
pub(super) fn is_shuffle(value: Value<'_>) -> bool {
    // Opcodes are not read: LLVM 23 has other numbers for some, and later versions may have new
    // ones.
    // SAFETY: a live value.
    !unsafe { LLVMIsAShuffleVectorInst(value.as_value_ref()) }.is_null()
}

/// Returns true if a value is an instruction: constants are folded when they are built.
pub(super) fn is_instruction(value: Value<'_>) -> bool {
    // SAFETY: a live value.
    !unsafe { LLVMIsAInstruction(value.as_value_ref()) }.is_null()
}

/// The instruction of a value; `None` for a constant or a parameter.
pub(super) fn instruction(value: Value<'_>) -> Option<inkwell::values::InstructionValue<'_>> {
    value.as_instruction_value()
}
