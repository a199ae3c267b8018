//! Arithmetic, comparisons and conversions.

use inkwell::types::BasicTypeEnum;
use inkwell::values::InstructionOpcode;
use inkwell::{FloatPredicate, IntPredicate};
use kernpack::DataType;

use super::CodeGenLLVM;
use super::emit::Value;
use crate::error::{Result, fail};
use crate::ir::{BinaryOp, CompareOp, DataTypeExt, F32};

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Arithmetic. `nsw`: signed overflow cannot happen.
    pub(super) fn binary(
        &self,
        op: BinaryOp,
        dtype: DataType,
        a: Value<'ctx>,
        b: Value<'ctx>,
        nsw: bool,
    ) -> Result<Value<'ctx>> {
        if dtype.is_float() {
            return self.float_binary(op, dtype, a, b);
        }
        let signed = dtype.is_int();
        let nsw = nsw && signed;
        Ok(match op {
            BinaryOp::Add => self.int_op(InstructionOpcode::Add, a, b, nsw)?,
            BinaryOp::Sub => self.int_op(InstructionOpcode::Sub, a, b, nsw)?,
            BinaryOp::Mul => self.int_op(InstructionOpcode::Mul, a, b, nsw)?,
            BinaryOp::Div => self.op(if signed { InstructionOpcode::SDiv } else { InstructionOpcode::UDiv }, a, b)?,
            BinaryOp::Mod => self.op(if signed { InstructionOpcode::SRem } else { InstructionOpcode::URem }, a, b)?,
            // Of unsigned integers both divisions are the same.
            BinaryOp::FloorDiv if !signed => self.op(InstructionOpcode::UDiv, a, b)?,
            BinaryOp::FloorMod if !signed => self.op(InstructionOpcode::URem, a, b)?,
            BinaryOp::FloorDiv | BinaryOp::FloorMod => {
                fail!(Internal, "a floor division reached code generation: run LowerIntrin first")
            }
            BinaryOp::Min | BinaryOp::Max => {
                let predicate = match (op, signed) {
                    (BinaryOp::Min, true) => IntPredicate::SLT,
                    (BinaryOp::Min, false) => IntPredicate::ULT,
                    (_, true) => IntPredicate::SGT,
                    (_, false) => IntPredicate::UGT,
                };
                let first = self.compare_int(predicate, a, b)?;
                self.select(first, a, b)?
            }
            BinaryOp::BitAnd => self.op(InstructionOpcode::And, a, b)?,
            BinaryOp::BitOr => self.op(InstructionOpcode::Or, a, b)?,
            BinaryOp::BitXor => self.op(InstructionOpcode::Xor, a, b)?,
            BinaryOp::ShiftLeft | BinaryOp::ShiftRight => self.shift(op, dtype, a, b)?,
        })
    }

    /// A shift by the width or more is poison for LLVM; here all bits are shifted out.
    fn shift(&self, op: BinaryOp, dtype: DataType, a: Value<'ctx>, b: Value<'ctx>) -> Result<Value<'ctx>> {
        let bits = i64::from(dtype.bits());
        let opcode = match op {
            BinaryOp::ShiftLeft => InstructionOpcode::Shl,
            _ if dtype.is_int() => InstructionOpcode::AShr,
            _ => InstructionOpcode::LShr,
        };
        if is_constant_below(b, bits as u64) {
            return self.op(opcode, a, b);
        }
        let fits = self.compare_int(IntPredicate::ULT, b, self.constant(dtype, bits)?)?;
        if opcode == InstructionOpcode::AShr {
            let amount = self.select(fits, b, self.constant(dtype, bits - 1)?)?;
            return self.op(opcode, a, amount);
        }
        let shifted = self.op(opcode, a, b)?;
        self.select(fits, shifted, self.constant(dtype, 0)?)
    }

    fn float_binary(&self, op: BinaryOp, dtype: DataType, a: Value<'ctx>, b: Value<'ctx>) -> Result<Value<'ctx>> {
        Ok(match op {
            BinaryOp::Add => self.float_op(InstructionOpcode::FAdd, a, b)?,
            BinaryOp::Sub => self.float_op(InstructionOpcode::FSub, a, b)?,
            BinaryOp::Mul => self.float_op(InstructionOpcode::FMul, a, b)?,
            BinaryOp::Div => self.float_op(InstructionOpcode::FDiv, a, b)?,
            BinaryOp::Mod => self.float_op(InstructionOpcode::FRem, a, b)?,
            BinaryOp::Min | BinaryOp::Max => {
                let predicate = if op == BinaryOp::Min { FloatPredicate::OLT } else { FloatPredicate::OGT };
                let first = self.compare_float(predicate, a, b)?;
                self.select(first, a, b)?
            }
            _ => fail!(Type, "{op:?} of {}", dtype.short_name()),
        })
    }

    /// A comparison: floats are ordered, but `!=` is true of NaN.
    pub(super) fn compare(
        &self,
        op: CompareOp,
        dtype: DataType,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Result<Value<'ctx>> {
        if dtype.is_float() {
            let predicate = match op {
                CompareOp::Eq => FloatPredicate::OEQ,
                CompareOp::Ne => FloatPredicate::UNE,
                CompareOp::Lt => FloatPredicate::OLT,
                CompareOp::Le => FloatPredicate::OLE,
                CompareOp::Gt => FloatPredicate::OGT,
                CompareOp::Ge => FloatPredicate::OGE,
            };
            return self.compare_float(predicate, a, b);
        }
        let predicate = match (op, dtype.is_int()) {
            (CompareOp::Eq, _) => IntPredicate::EQ,
            (CompareOp::Ne, _) => IntPredicate::NE,
            (CompareOp::Lt, true) => IntPredicate::SLT,
            (CompareOp::Lt, false) => IntPredicate::ULT,
            (CompareOp::Le, true) => IntPredicate::SLE,
            (CompareOp::Le, false) => IntPredicate::ULE,
            (CompareOp::Gt, true) => IntPredicate::SGT,
            (CompareOp::Gt, false) => IntPredicate::UGT,
            (CompareOp::Ge, true) => IntPredicate::SGE,
            (CompareOp::Ge, false) => IntPredicate::UGE,
        };
        self.compare_int(predicate, a, b)
    }

    /// A conversion between scalar types, for each lane.
    pub(super) fn cast(&mut self, from: DataType, to: DataType, value: Value<'ctx>) -> Result<Value<'ctx>> {
        if from.element() == to.element() {
            return Ok(value);
        }
        let ty = self.vector_type(self.scalar_type(to)?, from.lanes())?;
        let from_integer = from.is_integer() || from.is_bool();
        if from.is_handle() || to.is_handle() {
            return self.pointer_cast(from, to, value, ty);
        }
        if to.is_bool() {
            let zero = self.constant(from, 0)?;
            return if from.is_float() {
                self.compare_float(FloatPredicate::UNE, value, zero)
            } else {
                self.compare_int(IntPredicate::NE, value, zero)
            };
        }
        if from_integer && to.is_integer() {
            let (old, new) = (if from.is_bool() { 1 } else { from.bits() }, to.bits());
            return match new.cmp(&old) {
                core::cmp::Ordering::Less => self.convert(InstructionOpcode::Trunc, value, ty),
                core::cmp::Ordering::Equal => Ok(value),
                core::cmp::Ordering::Greater if from.is_int() => self.convert(InstructionOpcode::SExt, value, ty),
                core::cmp::Ordering::Greater => self.convert(InstructionOpcode::ZExt, value, ty),
            };
        }
        if from_integer && to.is_float() {
            let opcode = if from.is_int() { InstructionOpcode::SIToFP } else { InstructionOpcode::UIToFP };
            return self.convert(opcode, value, ty);
        }
        if from.is_float() && to.is_integer() {
            let name = if to.is_int() { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
            return self.intrinsic(name, &[ty, value.get_type()], ty, &[value]);
        }
        if from.is_float() && to.is_float() {
            return match to.bits().cmp(&from.bits()) {
                core::cmp::Ordering::Less => self.convert(InstructionOpcode::FPTrunc, value, ty),
                core::cmp::Ordering::Greater => self.convert(InstructionOpcode::FPExt, value, ty),
                // Half and bfloat16: each value of either is a single.
                core::cmp::Ordering::Equal => {
                    let wide = F32.with_lanes(from.lanes());
                    let value = self.cast(from, wide, value)?;
                    self.cast(wide, to, value)
                }
            };
        }
        fail!(Target, "LLVM code has no conversion of {} to {}", from.short_name(), to.short_name())
    }

    fn pointer_cast(
        &self,
        from: DataType,
        to: DataType,
        value: Value<'ctx>,
        ty: BasicTypeEnum<'ctx>,
    ) -> Result<Value<'ctx>> {
        match value {
            Value::PointerValue(_) if to.is_handle() => Ok(value),
            Value::PointerValue(pointer) if to.is_bool() => Ok(self.builder.build_is_not_null(pointer, "")?.into()),
            Value::PointerValue(_) | Value::IntValue(_) => self.bit_cast(value, ty),
            _ => fail!(Target, "LLVM code has no conversion of {} to {}", from.short_name(), to.short_name()),
        }
    }
}

/// Whether a value is a constant integer, in each lane, below a bound.
fn is_constant_below(value: Value<'_>, bound: u64) -> bool {
    match value {
        Value::IntValue(value) => value.get_zero_extended_constant().is_some_and(|value| value < bound),
        Value::VectorValue(vector) if vector.is_const() => {
            let size = vector.get_type().get_size();
            (0..size).all(|lane| {
                let element = vector.get_element_as_constant(lane);
                element.is_int_value()
                    && element.into_int_value().get_zero_extended_constant().is_some_and(|value| value < bound)
            })
        }
        _ => false,
    }
}
