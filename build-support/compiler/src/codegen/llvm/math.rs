//! Math functions: instructions, intrinsics, or libm calls.

use inkwell::FloatPredicate;
use inkwell::values::InstructionOpcode;
use kernpack::DataType;

use super::CodeGenLLVM;
use super::emit::Value;
use crate::error::{Result, fail};
use crate::ir::{DataTypeExt, Expr, F32, F64, I64};

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    pub(super) fn classify(&mut self, name: &str, value: &Expr) -> Result<Value<'ctx>> {
        let dtype = value.dtype();
        let value = self.value(value)?;
        if !dtype.is_float() {
            let truth = i64::from(name == "isfinite");
            return self.constant(crate::ir::BOOLEAN.with_lanes(dtype.lanes()), truth);
        }
        let (dtype, value) = match dtype.is_bfloat() {
            true => (F32.with_lanes(dtype.lanes()), self.bfloat_value(value)?),
            false => (dtype, value),
        };
        if name == "isnan" {
            return self.compare_float(FloatPredicate::UNO, value, value);
        }
        let magnitude = self.intrinsic("llvm.fabs", &[value.get_type()], value.get_type(), &[value])?;
        let infinity = self.float_constant(dtype.element(), f64::INFINITY)?;
        let infinity = self.splat(infinity, dtype.lanes())?;
        let predicate = if name == "isinf" { FloatPredicate::OEQ } else { FloatPredicate::OLT };
        self.compare_float(predicate, magnitude, infinity)
    }

    /// Emits the math functions that LowerIntrin has not lowered to arithmetic: as an instruction
    /// or a short sequence, or as a call of a C function for each lane.
    pub(super) fn math(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<Value<'ctx>> {
        let values: Result<Vec<_>> = args.iter().map(|arg| self.value(arg)).collect();
        let values = values?;
        if name == "fma" && dtype.bits() == 16 && (dtype.is_bfloat() || !self.target.has_fma()) {
            return self.small_fma(&values, dtype);
        }
        if dtype.is_bfloat() {
            let value = self.in_single(&values, dtype, |this, values, wide| this.math_of(name, values, wide))?;
            return Ok(value);
        }
        self.math_of(name, &values, dtype)
    }

    /// `a * b + c` of half precision or bfloat16, rounded once: the product is exact in double
    /// precision, and the sum is rounded to odd.
    fn small_fma(&mut self, values: &[Value<'ctx>], dtype: DataType) -> Result<Value<'ctx>> {
        let (wide, bits) = (F64.with_lanes(dtype.lanes()), I64.with_lanes(dtype.lanes()));
        let values: Result<Vec<_>> = values.iter().map(|value| self.cast(dtype, wide, *value)).collect();
        let [a, b, c] = values?[..] else { fail!(Type, "`fma` has three arguments") };
        let product = self.op(InstructionOpcode::FMul, a, b)?;
        let sum = self.op(InstructionOpcode::FAdd, product, c)?;
        let back = self.op(InstructionOpcode::FSub, sum, product)?;
        let left = self.op(InstructionOpcode::FSub, sum, back)?;
        let left = self.op(InstructionOpcode::FSub, product, left)?;
        let right = self.op(InstructionOpcode::FSub, c, back)?;
        let error = self.op(InstructionOpcode::FAdd, left, right)?;
        // Not for an infinite sum, whose error is NaN.
        let is_cut = self.compare_float(FloatPredicate::ONE, error, self.constant(wide, 0)?)?;
        let whole = self.value_type(bits)?;
        let (near, error) = (self.bit_cast(sum, whole)?, self.bit_cast(error, whole)?);
        let signs = self.op(InstructionOpcode::Xor, near, error)?;
        let is_over = self.op(InstructionOpcode::LShr, signs, self.constant(bits, 63)?)?;
        let towards_zero = self.op(InstructionOpcode::Sub, near, is_over)?;
        let odd = self.op(InstructionOpcode::Or, towards_zero, self.constant(bits, 1)?)?;
        let chosen = self.select(is_cut, odd, near)?;
        let ty = self.value_type(wide)?;
        let sum = self.bit_cast(chosen, ty)?;
        self.cast(wide, dtype, sum)
    }

    /// Computes bfloat16 operations in single precision.
    pub(super) fn in_single(
        &mut self,
        values: &[Value<'ctx>],
        dtype: DataType,
        compute: impl FnOnce(&mut Self, &[Value<'ctx>], DataType) -> Result<Value<'ctx>>,
    ) -> Result<Value<'ctx>> {
        let wide: Result<Vec<_>> = values.iter().map(|value| self.bfloat_value(*value)).collect();
        let value = compute(self, &wide?, F32.with_lanes(dtype.lanes()))?;
        self.to_bfloat(value)
    }

    pub(super) fn math_of(&mut self, name: &str, values: &[Value<'ctx>], dtype: DataType) -> Result<Value<'ctx>> {
        let ty = self.value_type(dtype)?;
        if dtype.is_integer() {
            return match (name, values) {
                ("abs", [value]) => {
                    let no = self.context.bool_type().const_zero().into();
                    self.intrinsic("llvm.abs", &[ty], ty, &[*value, no])
                }
                _ => fail!(Type, "`{name}` of {}", dtype.short_name()),
            };
        }
        let intrinsic = match name {
            "sqrt" => "llvm.sqrt",
            "abs" => "llvm.fabs",
            "floor" => "llvm.floor",
            "ceil" => "llvm.ceil",
            "trunc" => "llvm.trunc",
            "round" => "llvm.roundeven",
            "copysign" => "llvm.copysign",
            "nanmin" => "llvm.minimum",
            "nanmax" => "llvm.maximum",
            // Without the instruction, it would be a call for each lane.
            "fma" if self.target.has_fma() => "llvm.fma",
            "fma" => "llvm.fmuladd",
            "rsqrt" => {
                let root = self.intrinsic("llvm.sqrt", &[ty], ty, values)?;
                let one = self.constant(dtype, 1)?;
                return self.float_op(InstructionOpcode::FDiv, one, root);
            }
            _ => return self.libm(name, values, dtype),
        };
        self.intrinsic(intrinsic, &[ty], ty, values)
    }

    pub(super) fn libm(&mut self, name: &str, values: &[Value<'ctx>], dtype: DataType) -> Result<Value<'ctx>> {
        if dtype.bits() == 16 {
            let wide = F32.with_lanes(dtype.lanes());
            let values: Result<Vec<_>> = values.iter().map(|value| self.cast(dtype, wide, *value)).collect();
            let value = self.libm(name, &values?, wide)?;
            return self.cast(wide, dtype, value);
        }
        if name == "sigmoid" {
            let one = self.constant(dtype, 1)?;
            let negated = self.float_op(InstructionOpcode::FSub, self.constant(dtype, 0)?, values[0])?;
            let exponential = self.libm("exp", &[negated], dtype)?;
            let sum = self.float_op(InstructionOpcode::FAdd, one, exponential)?;
            return self.float_op(InstructionOpcode::FDiv, one, sum);
        }
        let symbol = if dtype.bits() == 32 { format!("{name}f") } else { name.to_owned() };
        self.for_each_lane(values, dtype.lanes(), |this, args| this.external(&symbol, args, dtype.element(), true))
    }
}
