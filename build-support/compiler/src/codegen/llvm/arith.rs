//! Arithmetic, comparisons and conversions.

use inkwell::types::BasicTypeEnum;
use inkwell::values::InstructionOpcode;
use inkwell::{FloatPredicate, IntPredicate};
use kernpack::DataType;

use super::CodeGenLLVM;
use super::divide::Divisor;
use super::emit::Value;
use crate::error::{Result, fail};
use crate::ir::{BinaryOp, CompareOp, DataTypeExt, Expr, F32, F64, I32};

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Emits arithmetic; the right operand is given with its expression. `nsw`: signed overflow
    /// cannot happen.
    pub(super) fn binary(
        &self,
        op: BinaryOp,
        dtype: DataType,
        a: Value<'ctx>,
        (b, right): (Value<'ctx>, &Expr),
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
            BinaryOp::FloorDiv | BinaryOp::FloorMod if signed => {
                fail!(Internal, "a floor division reached code generation: run LowerIntrin first")
            }
            // For unsigned integers, both divisions are the same.
            BinaryOp::Div | BinaryOp::FloorDiv => self.divide(BinaryOp::Div, dtype, a, b, Divisor::of(right))?,
            BinaryOp::Mod | BinaryOp::FloorMod => self.divide(BinaryOp::Mod, dtype, a, b, Divisor::of(right))?,
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

    /// Emits a shift. A shift by the width or more is poison in LLVM; here all bits are shifted
    /// out.
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
        // Never poison: LLVM assumes that a shifted odd number used as a divisor is never 0, and
        // speculates divisions of vectors by it where the select does not choose it.
        let amount = self.op(InstructionOpcode::And, b, self.constant(dtype, bits - 1)?)?;
        let shifted = self.select(fits, a, self.constant(dtype, 0)?)?;
        self.op(opcode, shifted, amount)
    }

    fn float_binary(&self, op: BinaryOp, dtype: DataType, a: Value<'ctx>, b: Value<'ctx>) -> Result<Value<'ctx>> {
        if dtype.is_bfloat() {
            let (left, right) = (self.bfloat_value(a)?, self.bfloat_value(b)?);
            if matches!(op, BinaryOp::Min | BinaryOp::Max) {
                let predicate = if op == BinaryOp::Min { FloatPredicate::OLT } else { FloatPredicate::OGT };
                let first = self.compare_float(predicate, left, right)?;
                return self.select(first, a, b);
            }
            let wide = F32.with_lanes(dtype.lanes());
            let value = self.float_binary(op, wide, left, right)?;
            return self.to_bfloat(value);
        }
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

    /// Emits a comparison: floats are ordered, except that `!=` is true for NaN.
    pub(super) fn compare(
        &self,
        op: CompareOp,
        dtype: DataType,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Result<Value<'ctx>> {
        if dtype.is_bfloat() {
            let (a, b) = (self.bfloat_value(a)?, self.bfloat_value(b)?);
            return self.compare(op, F32.with_lanes(dtype.lanes()), a, b);
        }
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

    /// Emits a conversion between scalar types, for each lane.
    pub(super) fn cast(&mut self, from: DataType, to: DataType, value: Value<'ctx>) -> Result<Value<'ctx>> {
        if from.element() == to.element() {
            return Ok(value);
        }
        if from.is_bfloat() {
            let value = self.bfloat_value(value)?;
            return self.cast(F32.with_lanes(from.lanes()), to, value);
        }
        if to.is_bfloat() {
            // Rounded once: a type wider than single precision is rounded to odd first.
            let single = match () {
                () if from.is_float() && from.bits() == 64 => self.to_odd_single(value)?,
                () if from.is_integer() && from.bits() > 16 => {
                    let value = if from.bits() == 64 { self.odd_integer(from, value)? } else { value };
                    let value = self.cast(from, F64.with_lanes(from.lanes()), value)?;
                    self.to_odd_single(value)?
                }
                () => self.cast(from, F32.with_lanes(from.lanes()), value)?,
            };
            return self.to_bfloat(single);
        }
        if from.is_float() && from.bits() == 64 && to.is_float() && to.bits() == 16 {
            let single = self.to_odd_single(value)?;
            return self.cast(F32.with_lanes(from.lanes()), to, single);
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
        if from.is_float() && from.bits() == 16 && to.is_integer() {
            // With AVX512-FP16, LLVM's conversion of half precision to `i16` results in -32768 for
            // NaN.
            let single = F32.with_lanes(from.lanes());
            let value = self.cast(from, single, value)?;
            return self.cast(single, to, value);
        }
        if from.is_float() && to.is_integer() {
            if to.bits() < 32 && to.lanes() > 1 {
                return self.saturate_vector(from, to, value);
            }
            let name = if to.is_int() { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
            return self.intrinsic(name, &[ty, value.get_type()], ty, &[value]);
        }
        if from.is_float() && to.is_float() {
            return match to.bits().cmp(&from.bits()) {
                core::cmp::Ordering::Less => self.convert(InstructionOpcode::FPTrunc, value, ty),
                core::cmp::Ordering::Greater => self.convert(InstructionOpcode::FPExt, value, ty),
                core::cmp::Ordering::Equal => Ok(value),
            };
        }
        fail!(Target, "LLVM code has no conversion of {} to {}", from.short_name(), to.short_name())
    }

    /// Converts floats to integers of fewer than 32 bits, saturated, NaN to 0: through 32 bits,
    /// because LLVM scalarizes its own conversion.
    fn saturate_vector(&mut self, from: DataType, to: DataType, value: Value<'ctx>) -> Result<Value<'ctx>> {
        let wide = I32.with_lanes(to.lanes());
        let bits = u32::from(to.bits());
        let (low, high) =
            if to.is_int() { (-(1_i64 << (bits - 1)), (1_i64 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
        let (low, high) = (self.constant(from, low)?, self.constant(from, high)?);
        let ty = value.get_type();
        let above = self.intrinsic("llvm.maxnum", &[ty], ty, &[value, low])?;
        let clamped = self.intrinsic("llvm.minnum", &[ty], ty, &[above, high])?;
        let whole = self.value_type(wide)?;
        let mut number = self.convert(InstructionOpcode::FPToSI, clamped, whole)?;
        if to.is_int() {
            let is_nan = self.compare_float(FloatPredicate::UNO, value, value)?;
            number = self.select(is_nan, self.constant(wide, 0)?, number)?;
        }
        let ty = self.value_type(to)?;
        self.convert(InstructionOpcode::Trunc, number, ty)
    }

    /// The type of integers as wide as a value's lanes, or of another width.
    fn bits_like(&self, value: Value<'ctx>, bits: u32) -> Result<BasicTypeEnum<'ctx>> {
        let int = match bits {
            16 => self.context.i16_type(),
            _ => self.context.i32_type(),
        };
        self.vector_type(int.into(), lanes_of(value))
    }

    /// Converts a bfloat16, which is the upper half of a single, to a single.
    pub(super) fn bfloat_value(&self, value: Value<'ctx>) -> Result<Value<'ctx>> {
        let wide = self.convert(InstructionOpcode::ZExt, value, self.bits_like(value, 32)?)?;
        let shifted = self.op(InstructionOpcode::Shl, wide, self.int_like(wide, 16)?)?;
        let lanes = lanes_of(value);
        self.bit_cast(shifted, self.vector_type(self.context.f32_type().into(), lanes)?)
    }

    /// Rounds a single to the nearest bfloat16, half to even.
    pub(super) fn to_bfloat(&self, value: Value<'ctx>) -> Result<Value<'ctx>> {
        let bits = self.bit_cast(value, self.bits_like(value, 32)?)?;
        let sixteen = self.int_like(bits, 16)?;
        let high = self.op(InstructionOpcode::LShr, bits, sixteen)?;
        let odd = self.op(InstructionOpcode::And, high, self.int_like(bits, 1)?)?;
        let half = self.op(InstructionOpcode::Add, bits, self.int_like(bits, 0x7fff)?)?;
        let rounded = self.op(InstructionOpcode::Add, half, odd)?;
        let rounded = self.op(InstructionOpcode::LShr, rounded, sixteen)?;
        // A NaN stays a NaN, and quiet.
        let quiet = self.op(InstructionOpcode::Or, high, self.int_like(bits, 0x40)?)?;
        let is_nan = self.compare_float(FloatPredicate::UNO, value, value)?;
        let chosen = self.select(is_nan, quiet, rounded)?;
        self.convert(InstructionOpcode::Trunc, chosen, self.bits_like(value, 16)?)
    }

    /// Converts a double to a single such that a further rounding of the single has the result of a
    /// single rounding: toward zero, with the last bit set if the value was not exact.
    fn to_odd_single(&self, value: Value<'ctx>) -> Result<Value<'ctx>> {
        let lanes = lanes_of(value);
        let single = self.vector_type(self.context.f32_type().into(), lanes)?;
        let near = self.convert(InstructionOpcode::FPTrunc, value, single)?;
        let back = self.convert(InstructionOpcode::FPExt, near, value.get_type())?;
        let magnitude =
            |value: Value<'ctx>| self.intrinsic("llvm.fabs", &[value.get_type()], value.get_type(), &[value]);
        let is_over = self.compare_float(FloatPredicate::OGT, magnitude(back)?, magnitude(value)?)?;
        let is_cut = self.compare_float(FloatPredicate::ONE, back, value)?;
        let bits = self.bit_cast(near, self.bits_like(near, 32)?)?;
        let one = self.int_like(bits, 1)?;
        let below = self.op(InstructionOpcode::Sub, bits, one)?;
        let towards_zero = self.select(is_over, below, bits)?;
        let odd = self.op(InstructionOpcode::Or, towards_zero, one)?;
        let chosen = self.select(is_cut, odd, bits)?;
        self.bit_cast(chosen, single)
    }

    /// Converts a 64-bit integer to one that a double represents exactly: the low bits of a large
    /// one are cut off, and the last remaining bit is set if one of them was set.
    fn odd_integer(&self, dtype: DataType, value: Value<'ctx>) -> Result<Value<'ctx>> {
        let number = |value: i64| self.constant(dtype, value);
        let (exact, cut) = (1_i64 << 53, 0x7ff);
        let is_exact = if dtype.is_int() {
            let shifted = self.op(InstructionOpcode::Add, value, number(exact)?)?;
            self.compare_int(IntPredicate::ULT, shifted, number(2 * exact)?)?
        } else {
            self.compare_int(IntPredicate::ULT, value, number(exact)?)?
        };
        let low = self.op(InstructionOpcode::And, value, number(cut)?)?;
        let carried = self.op(InstructionOpcode::Add, low, number(cut)?)?;
        let odd = self.op(InstructionOpcode::Or, value, carried)?;
        let odd = self.op(InstructionOpcode::And, odd, number(!cut)?)?;
        self.select(is_exact, value, odd)
    }

    /// A 32-bit constant with the number of lanes of a value.
    fn int_like(&self, value: Value<'ctx>, number: u64) -> Result<Value<'ctx>> {
        self.splat(self.context.i32_type().const_int(number, false).into(), lanes_of(value))
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

/// The number of lanes of a value.
fn lanes_of(value: Value<'_>) -> u16 {
    match value {
        Value::VectorValue(vector) => vector.get_type().get_size() as u16,
        _ => 1,
    }
}

/// Returns true if a value is a constant integer, in each lane, below a bound.
fn is_constant_below(value: Value<'_>, bound: u64) -> bool {
    match value {
        Value::IntValue(value) => value.get_zero_extended_constant().is_some_and(|value| value < bound),
        // The zero vector has its own representation, without elements to read.
        Value::VectorValue(vector) if vector.is_null() => bound > 0,
        Value::VectorValue(vector) if vector.is_constant_data_vector() => {
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
