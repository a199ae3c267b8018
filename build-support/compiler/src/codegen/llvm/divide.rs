//! Quotients and remainders of integers. By 0, both are 0; the smallest number divided by -1 wraps,
//! and its remainder is 0. The instructions trap in both cases, so such divisors are replaced by 1,
//! without branches.

use inkwell::IntPredicate;
use inkwell::values::{InstructionOpcode, IntValue};
use kernpack::DataType;

use super::CodeGenLLVM;
use super::emit::Value;
use crate::error::Result;
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, with_stack};

/// The range of values of a divisor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Divisor {
    /// Any value.
    Any,
    /// 0 or more.
    Natural,
    /// 1 or more.
    Positive,
}

impl Divisor {
    /// The range of an expression, as far as its parts show it.
    pub(super) fn of(expr: &Expr) -> Self {
        let unsigned = |known: Self| if expr.dtype().is_uint() { known.max(Self::Natural) } else { known };
        unsigned(match &**expr {
            ExprNode::Int { value, .. } => match value {
                1.. => Self::Positive,
                0 => Self::Natural,
                _ => Self::Any,
            },
            ExprNode::Var { size: true, .. } => Self::Natural,
            ExprNode::Broadcast { value, .. } => Self::of(value),
            // A widening conversion keeps the value.
            ExprNode::Cast { value, .. } if widens(value.dtype(), expr.dtype()) => with_stack(|| Self::of(value)),
            ExprNode::Binary { op: BinaryOp::Max, a, b, .. } => with_stack(|| Self::of(a).max(Self::of(b))),
            ExprNode::Binary { op: BinaryOp::Min, a, b, .. } => with_stack(|| Self::of(a).min(Self::of(b))),
            _ => Self::Any,
        })
    }
}

fn widens(from: DataType, to: DataType) -> bool {
    let unsigned = from.is_uint() && (to.is_uint() || to.is_int() && from.bits() < to.bits());
    from.bits() <= to.bits() && to.is_integer() && (unsigned || from.is_int() && to.is_int())
}

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// A quotient or a remainder, rounded toward zero.
    pub(super) fn divide(
        &self,
        op: BinaryOp,
        dtype: DataType,
        a: Value<'ctx>,
        b: Value<'ctx>,
        divisor: Divisor,
    ) -> Result<Value<'ctx>> {
        let signed = dtype.is_int();
        let opcode = match (op, signed) {
            (BinaryOp::Div, true) => InstructionOpcode::SDiv,
            (BinaryOp::Div, false) => InstructionOpcode::UDiv,
            (_, true) => InstructionOpcode::SRem,
            (_, false) => InstructionOpcode::URem,
        };
        let (zero, one) = (self.constant(dtype, 0)?, self.constant(dtype, 1)?);
        if divisor == Divisor::Positive || is_safe(b, dtype) {
            return self.op(opcode, a, b);
        }
        if !signed || divisor == Divisor::Natural {
            let by_zero = self.compare_int(IntPredicate::EQ, b, zero)?;
            let safe = self.select(by_zero, one, b)?;
            let result = self.op(opcode, a, safe)?;
            // A remainder by 1 is already 0.
            return if op == BinaryOp::Div { self.select(by_zero, zero, result) } else { Ok(result) };
        }
        let next = self.op(InstructionOpcode::Add, b, one)?;
        let traps = self.compare_int(IntPredicate::ULT, next, self.constant(dtype, 2)?)?;
        let safe = self.select(traps, one, b)?;
        let result = self.op(opcode, a, safe)?;
        if op != BinaryOp::Div {
            return Ok(result);
        }
        // By 0 it is 0, and by -1 it is the negated number: the product in both cases.
        let product = self.op(InstructionOpcode::Mul, a, b)?;
        self.select(traps, product, result)
    }
}

/// Returns true if a value is a constant divisor that does not trap, in each lane.
fn is_safe(value: Value<'_>, dtype: DataType) -> bool {
    let mask = u64::MAX >> (64 - u32::from(dtype.bits()));
    let safe = |value: IntValue<'_>| {
        value.get_zero_extended_constant().is_some_and(|value| value != 0 && !(dtype.is_int() && value & mask == mask))
    };
    match value {
        Value::IntValue(value) => safe(value),
        Value::VectorValue(vector) if !vector.is_null() && vector.is_constant_data_vector() => {
            (0..vector.get_type().get_size()).all(|lane| {
                let element = vector.get_element_as_constant(lane);
                element.is_int_value() && safe(element.into_int_value())
            })
        }
        _ => false,
    }
}
