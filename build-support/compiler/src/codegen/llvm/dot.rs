//! Sums of products of small integers.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::types::BasicType as _;
use kernpack::DataType;

use super::CodeGenLLVM;
use super::emit::{Value, confused};
use crate::error::Result;
use crate::ir::{DataTypeExt, Expr, I8, I16, I32, U8};

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Adds the products of adjacent lanes of `a` and `b` to each lane of `sums`.
    pub(super) fn dot(&mut self, sums: &Expr, a: &Expr, b: &Expr) -> Result<Value<'ctx>> {
        let (dtype, from) = (sums.dtype(), [a.dtype(), b.dtype()]);
        let values = [self.data_value(sums)?, self.data_value(a)?, self.data_value(b)?];
        let ty = self.value_type(dtype)?;
        if let Some(name) = self.dot_instruction(dtype, from) {
            return self.intrinsic(name, &[], ty, &values);
        }
        if let Some(name) = self.pair_instruction(dtype, from) {
            let factor = self.opaque(values[1])?;
            let products = self.intrinsic(name, &[], ty, &[factor, values[2]])?;
            return self.plus(values[0], products);
        }
        // Widened and multiplied; the lanes of each group are added one after the other.
        let wide = I32.with_lanes(from[0].lanes());
        let x = self.cast(from[0], wide, values[1])?;
        let y = self.cast(from[1], wide, values[2])?;
        let products = self.times(x, y)?;
        let group = u32::from(from[0].lanes() / dtype.lanes().max(1)).max(1);
        let mut sum = values[0];
        for first in 0..group {
            let part = match products {
                Value::VectorValue(all) if dtype.lanes() > 1 => {
                    let lanes: Vec<u32> = (0..u32::from(dtype.lanes())).map(|lane| lane * group + first).collect();
                    self.shuffle(all, all, &lanes)?
                }
                other => self.lane(other, u16::try_from(first).unwrap_or(0))?,
            };
            sum = self.plus(sum, part)?;
        }
        Ok(sum)
    }

    /// The intrinsic for groups of four bytes, where those of `a` are unsigned.
    fn dot_instruction(&self, sums: DataType, [a, b]: [DataType; 2]) -> Option<&'static str> {
        let fits = a.element() == U8 && b.element() == I8 && a.lanes() == 4 * sums.lanes() && self.target.has_vnni();
        match sums.lanes() {
            4 if fits => Some("llvm.x86.avx512.vpdpbusd.128"),
            8 if fits => Some("llvm.x86.avx512.vpdpbusd.256"),
            16 if fits && self.target.has_avx512() => Some("llvm.x86.avx512.vpdpbusd.512"),
            _ => None,
        }
    }

    /// The intrinsic for pairs of 16-bit integers, which returns their sums.
    fn pair_instruction(&self, sums: DataType, [a, b]: [DataType; 2]) -> Option<&'static str> {
        let is_x86 = matches!(self.target.arch(), "x86_64");
        let fits = is_x86 && a.element() == I16 && b.element() == I16 && a.lanes() == 2 * sums.lanes();
        match (sums.lanes(), self.target.vector_bits()) {
            (4, _) if fits => Some("llvm.x86.sse2.pmadd.wd"),
            (8, 256..) if fits => Some("llvm.x86.avx2.pmadd.wd"),
            (16, 512..) if fits => Some("llvm.x86.avx512.pmaddw.d.512"),
            _ => None,
        }
    }

    /// Makes the value opaque to the optimizer. Where only the first sums are read, LLVM 22 narrows
    /// the instruction for pairs, and takes the wrong lanes of a broadcast of widened bytes.
    fn opaque(&self, value: Value<'ctx>) -> Result<Value<'ctx>> {
        let ty = value.get_type();
        let signature = ty.fn_type(&[ty.into()], false);
        let nothing =
            self.context.create_inline_asm(signature, String::new(), "=v,0".to_owned(), false, false, None, false);
        let call = self.builder.build_indirect_call(signature, nothing, &[value.into()], "")?;
        // It accesses no memory, and always terminates.
        for name in ["memory", "nounwind", "willreturn"] {
            let kind = Attribute::get_named_enum_kind_id(name);
            call.add_attribute(AttributeLoc::Function, self.context.create_enum_attribute(kind, 0));
        }
        call.try_as_basic_value().basic().ok_or_else(|| confused("a value", value))
    }

    fn plus(&self, a: Value<'ctx>, b: Value<'ctx>) -> Result<Value<'ctx>> {
        Ok(match (a, b) {
            (Value::VectorValue(a), Value::VectorValue(b)) => self.builder.build_int_add(a, b, "")?.into(),
            (Value::IntValue(a), Value::IntValue(b)) => self.builder.build_int_add(a, b, "")?.into(),
            _ => return Err(confused("sum of integers", a)),
        })
    }

    fn times(&self, a: Value<'ctx>, b: Value<'ctx>) -> Result<Value<'ctx>> {
        Ok(match (a, b) {
            (Value::VectorValue(a), Value::VectorValue(b)) => self.builder.build_int_mul(a, b, "")?.into(),
            (Value::IntValue(a), Value::IntValue(b)) => self.builder.build_int_mul(a, b, "")?.into(),
            _ => return Err(confused("product of integers", a)),
        })
    }
}
