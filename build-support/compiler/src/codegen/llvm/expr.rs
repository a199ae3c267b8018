//! Expressions.

use inkwell::values::{BasicValue, InstructionOpcode};
use kernpack::DataType;

use super::CodeGenLLVM;
use super::emit::{Value, confused, is_shuffle};
use crate::codegen::parts::is_linear;
use crate::error::{CompileError, ErrorKind, Result, fail};
use crate::ir::{CompareOp, DataTypeExt, Expr, ExprNode, I8, I64, LogicOp, Var, with_stack};

/// The number of lanes up to which positions are compared as integers of 64 bits: with a number
/// that is known, and with others. The average of 3 x 3 pixels (32 channels, 96 x 100) takes 84
/// microseconds where 16 positions are compared with known numbers as integers, and 131 as bytes;
/// as a kernel for any extents, 205 where they are compared with extents as integers, and 184 as
/// bytes.
const FEW_POSITIONS: [u16; 2] = [16, 8];

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Emits an expression.
    pub(super) fn value(&mut self, expr: &Expr) -> Result<Value<'ctx>> {
        with_stack(|| self.value_of(expr))
    }

    /// Emits an index, an extent or a guard: its arithmetic does not overflow.
    pub(super) fn index_value(&mut self, expr: &Expr) -> Result<Value<'ctx>> {
        let outer = core::mem::replace(&mut self.state.in_index, true);
        let value = self.value(expr);
        self.state.in_index = outer;
        value
    }

    /// Emits data inside an index.
    pub(super) fn data_value(&mut self, expr: &Expr) -> Result<Value<'ctx>> {
        let outer = core::mem::replace(&mut self.state.in_index, false);
        let value = self.value(expr);
        self.state.in_index = outer;
        value
    }

    /// Emits a scalar truth value without `likely`; returns true as the second element if there was
    /// a `likely`.
    pub(super) fn condition(&mut self, expr: &Expr) -> Result<(inkwell::values::IntValue<'ctx>, bool)> {
        let (condition, is_likely) = expr.without_likely();
        match self.index_value(&condition)? {
            Value::IntValue(value) if value.get_type().get_bit_width() == 1 => Ok((value, is_likely)),
            Value::IntValue(value) => {
                let zero = value.get_type().const_zero();
                let truth = self.builder.build_int_compare(inkwell::IntPredicate::NE, value, zero, "")?;
                Ok((truth, is_likely))
            }
            _ => fail!(Lower, "a condition of type {} where a scalar truth value is needed", expr.dtype().short_name()),
        }
    }

    /// The value of a variable.
    pub(super) fn variable(&self, var: &Var) -> Result<Value<'ctx>> {
        self.state.vars.get(var).copied().ok_or_else(|| {
            CompileError::new(ErrorKind::Lower, format!("variable `{}` is used where it has no value", var.name()))
                .note(format!("in function `{}`", self.state.name))
        })
    }

    fn value_of(&mut self, expr: &Expr) -> Result<Value<'ctx>> {
        let around = self.state.parts_fit.take();
        Ok(match &**expr {
            ExprNode::Int { dtype, value } => self.int_constant(*dtype, *value)?,
            ExprNode::Float { dtype, value } => self.float_constant(*dtype, *value)?,
            ExprNode::Text { value } => self.string(value.as_str()).into(),
            ExprNode::Var { .. } => {
                let var = Var::of(expr)
                    .ok_or_else(|| CompileError::new(ErrorKind::Internal, "a variable node that is not a variable"))?;
                self.variable(&var)?
            }
            ExprNode::Cast { dtype, value } => {
                let from = value.dtype();
                let value = self.value(value)?;
                self.cast(from, *dtype, value)?
            }
            ExprNode::Binary { op, a, b, dtype } => {
                let in_index = self.state.in_index;
                let fits = around.unwrap_or_else(|| in_index && self.state.index_facts.parts_fit(expr));
                let nsw = in_index && fits && self.state.index_facts.is_index(expr);
                let inside = is_linear(expr).then_some(fits);
                self.state.parts_fit = inside;
                let left = self.value(a)?;
                self.state.parts_fit = inside;
                let right = self.value(b)?;
                self.binary(*op, *dtype, left, (right, b), nsw)?
            }
            ExprNode::Compare { op, a, b } => match self.compare_positions(*op, a, b)? {
                Some(mask) => mask,
                None => {
                    let (left, right) = (self.value(a)?, self.value(b)?);
                    self.compare(*op, a.dtype(), left, right)?
                }
            },
            ExprNode::Logic { op, a, b } => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                let opcode = if *op == LogicOp::And { InstructionOpcode::And } else { InstructionOpcode::Or };
                self.op(opcode, a, b)?
            }
            ExprNode::Not { value } => {
                let value = self.value(value)?;
                self.not(value)?
            }
            ExprNode::Select { condition, true_value, false_value } => {
                let condition = self.value(condition)?;
                let (a, b) = (self.value(true_value)?, self.value(false_value)?);
                self.select(condition, a, b)?
            }
            ExprNode::IfThenElse { condition, then_value, else_value } => {
                self.if_then_else(condition, then_value, else_value)?
            }
            ExprNode::Ramp { base, stride, lanes } => self.ramp(base, stride, *lanes)?,
            ExprNode::Broadcast { value, lanes } => {
                let value = self.value(value)?;
                self.splat(value, *lanes)?
            }
            ExprNode::Shuffle { vectors, indices } if is_pair(vectors) => {
                let pair: Vec<Value<'ctx>> = vectors.iter().map(|vector| self.value(&vector)).collect::<Result<_>>()?;
                let count = i64::from(vectors.iter().map(|vector| vector.lanes()).sum::<u16>());
                let mut chosen = Vec::new();
                for index in indices.iter() {
                    if !(0..count).contains(&index) {
                        fail!(Lower, "a shuffle takes lane {index} of {count}")
                    }
                    chosen.push(index as u32);
                }
                let (a, b) = (pair[0].into_vector_value(), pair[1].into_vector_value());
                let shuffled = self.shuffle(a, b, &chosen)?;
                if pair.iter().any(|vector| is_shuffle(*vector)) { self.fenced(shuffled)? } else { shuffled }
            }
            ExprNode::Shuffle { vectors, indices } => {
                let mut lanes = Vec::new();
                for vector in vectors.iter() {
                    let value = self.value(&vector)?;
                    for lane in 0..vector.lanes() {
                        lanes.push((value, lane));
                    }
                }
                let mut chosen = Vec::new();
                for index in indices.iter() {
                    let lane = usize::try_from(index).ok().and_then(|index| lanes.get(index));
                    let Some((value, lane)) = lane else {
                        fail!(Lower, "a shuffle takes lane {index} of {}", lanes.len())
                    };
                    chosen.push(self.lane(*value, *lane)?);
                }
                self.vector_of(&chosen)?
            }
            ExprNode::Let { var, value, body } => {
                let bound = self.value(value)?;
                self.define(var, value, bound);
                self.value(body)?
            }
            ExprNode::Load { buffer, index, mask, dtype } => self.load(buffer, index, mask.as_ref(), *dtype)?,
            ExprNode::Call { kind, name, args, dtype } => self.call(*kind, name.as_str(), &args.to_vec(), *dtype)?,
            ExprNode::TensorRead { tensor, .. } => {
                fail!(Lower, "the program still reads the tensor `{}`: storage is not flattened", tensor.name())
            }
            ExprNode::Reduce { .. } => fail!(Lower, "the program still has a reduction: it is not lowered to loops"),
        })
    }

    /// An integer constant.
    pub(super) fn int_constant(&self, dtype: DataType, value: i64) -> Result<Value<'ctx>> {
        match self.scalar_type(dtype)? {
            inkwell::types::BasicTypeEnum::IntType(ty) => {
                let bits = ty.get_bit_width();
                let value = if bits < 64 { value as u64 & ((1 << bits) - 1) } else { value as u64 };
                Ok(ty.const_int(value, false).into())
            }
            inkwell::types::BasicTypeEnum::PointerType(ty) if value == 0 => Ok(ty.const_null().into()),
            inkwell::types::BasicTypeEnum::PointerType(ty) => {
                let address = self.context.i64_type().const_int(value as u64, false);
                Ok(self.builder.build_int_to_ptr(address, ty, "")?.into())
            }
            _ => fail!(Internal, "an integer constant of type {}", dtype.short_name()),
        }
    }

    /// A floating-point constant.
    pub(super) fn float_constant(&self, dtype: DataType, value: f64) -> Result<Value<'ctx>> {
        match self.scalar_type(dtype)? {
            inkwell::types::BasicTypeEnum::IntType(ty) if dtype.is_bfloat() => {
                // The value is representable in bfloat16, so that only zeros are cut off; or it is
                // NaN, which stays NaN.
                Ok(ty.const_int(u64::from((value as f32).to_bits() >> 16), false).into())
            }
            inkwell::types::BasicTypeEnum::FloatType(ty) => Ok(ty.const_float(value).into()),
            _ => fail!(Internal, "a floating-point constant of type {}", dtype.short_name()),
        }
    }

    /// The constant, in every lane.
    pub(super) fn constant(&self, dtype: DataType, value: i64) -> Result<Value<'ctx>> {
        let scalar = if dtype.is_float() {
            self.float_constant(dtype.element(), value as f64)?
        } else {
            self.int_constant(dtype.element(), value)?
        };
        self.splat(scalar, dtype.lanes())
    }

    pub(super) fn not(&self, value: Value<'ctx>) -> Result<Value<'ctx>> {
        Ok(match value {
            Value::IntValue(value) => self.builder.build_not(value, "")?.into(),
            Value::VectorValue(value) => self.builder.build_not(value, "")?.into(),
            _ => return Err(confused("negation", value)),
        })
    }

    fn ramp(&mut self, base: &Expr, stride: &Expr, lanes: u16) -> Result<Value<'ctx>> {
        let dtype = base.dtype();
        if !dtype.is_scalar() || !dtype.is_integer() {
            fail!(Lower, "a ramp of {}", dtype.short_name());
        }
        let nsw = self.state.in_index
            && base.dtype().bits() >= 32
            && self.state.index_facts.is_index(base)
            && self.state.index_facts.is_index(stride);
        let (base, stride) = (self.value(base)?, self.value(stride)?);
        let mut steps = Vec::with_capacity(usize::from(lanes));
        for lane in 0..lanes {
            steps.push(self.int_constant(dtype, i64::from(lane))?.into_int_value());
        }
        let steps: Value<'ctx> = inkwell::types::VectorType::const_vector(&steps).into();
        let (base, stride) = (self.splat(base, lanes)?, self.splat(stride, lanes)?);
        let offsets = self.int_op(InstructionOpcode::Mul, steps, stride, nsw)?;
        self.int_op(InstructionOpcode::Add, base, offsets, nsw)
    }

    /// Emits the comparison of adjacent positions with a number: of the lanes with the distance
    /// from the first position, as bytes. A vector of positions has eight times as many. Returns
    /// `None` for other operands, and for few lanes.
    fn compare_positions(&mut self, op: CompareOp, a: &Expr, b: &Expr) -> Result<Option<Value<'ctx>>> {
        let (is_left, first, lanes, number) = match (&**a, &**b) {
            (ExprNode::Ramp { base, stride, lanes }, ExprNode::Broadcast { value, .. }) if stride.is_int(1) => {
                (true, base, *lanes, value)
            }
            (ExprNode::Broadcast { value, .. }, ExprNode::Ramp { base, stride, lanes }) if stride.is_int(1) => {
                (false, base, *lanes, value)
            }
            _ => return Ok(None),
        };
        let few = FEW_POSITIONS[usize::from(number.as_int().is_none())];
        let is_wanted = few < lanes && lanes <= 64 && first.dtype() == I64 && number.dtype() == I64;
        // The positions themselves do not wrap.
        let wraps = first.as_int().is_some_and(|first| first > i64::MAX - i64::from(lanes));
        if !is_wanted || wraps || !self.state.index_facts.is_index(first) {
            return Ok(None);
        }
        let (wide, byte) = (self.context.i64_type(), self.context.i8_type());
        let (first, number) = (self.value(first)?, self.value(number)?);
        let distance = self.intrinsic("llvm.ssub.sat", &[wide.into()], wide.into(), &[number, first])?;
        // Distances in front of the first lane, and behind the last one, are the same for all
        // lanes.
        let least = self.int_constant(I64, -1)?;
        let most = self.int_constant(I64, i64::from(lanes))?;
        let distance = self.intrinsic("llvm.smax", &[wide.into()], wide.into(), &[distance, least])?;
        let distance = self.intrinsic("llvm.smin", &[wide.into()], wide.into(), &[distance, most])?;
        let Value::IntValue(distance) = distance else { fail!(Internal, "a distance that is not an integer") };
        let distance = self.splat(self.builder.build_int_truncate(distance, byte, "")?.into(), lanes)?;
        let places: Vec<_> = (0..lanes).map(|lane| byte.const_int(u64::from(lane), false)).collect();
        let places: Value<'ctx> = inkwell::types::VectorType::const_vector(&places).into();
        let (left, right) = if is_left { (places, distance) } else { (distance, places) };
        self.compare(op, I8.with_lanes(lanes), left, right).map(Some)
    }

    fn if_then_else(&mut self, condition: &Expr, then_value: &Expr, else_value: &Expr) -> Result<Value<'ctx>> {
        if condition.lanes() > 1 {
            let condition = self.value(condition)?;
            let (a, b) = (self.value(then_value)?, self.value(else_value)?);
            return self.select(condition, a, b);
        }
        let (condition, is_likely) = self.condition(condition)?;
        let (then_block, else_block) = (self.new_block("then"), self.new_block("else"));
        let after = self.new_block("after");
        self.branch_if(condition, then_block, else_block, is_likely)?;
        self.builder.position_at_end(then_block);
        let a = self.value(then_value)?;
        let then_end = self.jump(after)?;
        self.builder.position_at_end(else_block);
        let b = self.value(else_value)?;
        let else_end = self.jump(after)?;
        self.builder.position_at_end(after);
        let phi = self.builder.build_phi(a.get_type(), "")?;
        phi.add_incoming(&[(&a as &dyn BasicValue<'ctx>, then_end), (&b, else_end)]);
        Ok(phi.as_basic_value())
    }

    /// Sets the value of a variable.
    pub(super) fn define(&mut self, var: &Var, value: &Expr, bound: Value<'ctx>) {
        if bound_name_is_free(bound) && !var.name().is_empty() {
            bound.set_name(var.name());
        }
        self.state.index_facts.note_value(var, value);
        let modular = self.state.modular.of(value);
        self.state.modular.set(var, modular);
        self.state.vars.insert(var.clone(), bound);
    }
}

/// Returns true if a value has no name yet and can have one.
fn bound_name_is_free(value: Value<'_>) -> bool {
    super::emit::is_instruction(value)
        && match value {
            Value::IntValue(value) => value.get_name().is_empty(),
            Value::FloatValue(value) => value.get_name().is_empty(),
            Value::PointerValue(value) => value.get_name().is_empty(),
            Value::VectorValue(value) => value.get_name().is_empty(),
            _ => false,
        }
}

/// Returns true if these are two vectors of equal length, which one instruction can take.
fn is_pair(vectors: &kernpack::Array<Expr>) -> bool {
    match (vectors.get(0), vectors.get(1)) {
        (Some(a), Some(b)) => vectors.len() == 2 && a.lanes() > 1 && a.lanes() == b.lanes(),
        _ => false,
    }
}
