//! Verification of expressions: types, lanes, scopes.

use super::{Added, Check, Stage, Verifier, name};
use crate::ir::builtin;
use crate::ir::{
    BOOLEAN, BinaryOp, Buffer, CallKind, CompareOp, DataType, DataTypeExt, Expr, ExprNode, I32, Reducer, Var,
    with_stack,
};

impl Verifier {
    pub(super) fn same(&self, a: DataType, b: DataType, what: &str) -> Check {
        ensure!(a == b, "{what} of {} and {}", name(a), name(b));
        Ok(())
    }

    pub(super) fn condition(&mut self, condition: &Expr) -> Check {
        self.expr(condition)?;
        ensure!(condition.dtype() == BOOLEAN, "a condition of {}", name(condition.dtype()));
        Ok(())
    }

    pub(super) fn index(&mut self, index: &Expr, what: &str) -> Check {
        self.expr(index)?;
        ensure!(index.dtype().is_integer(), "{what} of {}", name(index.dtype()));
        Ok(())
    }

    /// Checks a load or store.
    pub(super) fn access(
        &mut self,
        buffer: &Buffer,
        index: &Expr,
        mask: Option<&Expr>,
        value: DataType,
        what: &str,
    ) -> Check {
        self.used(&buffer.data)?;
        self.index(index, "an index")?;
        let lanes = u32::from(buffer.dtype.lanes()) * u32::from(index.lanes());
        ensure!(
            value.element() == buffer.dtype.element() && u32::from(value.lanes()) == lanes,
            "{what} of {} at {} places of `{}`, whose elements are {}",
            name(value),
            index.lanes(),
            buffer.name,
            name(buffer.dtype)
        );
        let Some(mask) = mask else { return Ok(()) };
        self.expr(mask)?;
        let fits = mask.lanes() == index.lanes() || u32::from(mask.lanes()) == lanes;
        ensure!(mask.dtype().is_bool() && fits, "{what} of {lanes} lanes has a mask of {}", name(mask.dtype()));
        Ok(())
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> Check {
        // A shared node is checked once for each scope, so that the work is not exponential.
        if matches!(**expr, ExprNode::Var { .. }) || !self.checked.contains(&expr.address()) {
            with_stack(|| self.expr_node(expr))?;
            if self.checked.insert(expr.address()) {
                self.added.push(Added::Expr(expr.address()));
            }
        }
        Ok(())
    }

    pub(super) fn expr_node(&mut self, expr: &Expr) -> Check {
        let dtype = expr.dtype();
        ensure!(dtype.lanes() > 0 || matches!(**expr, ExprNode::Call { .. }), "a value without lanes");
        match &**expr {
            ExprNode::Int { dtype, value } => {
                ensure!(
                    dtype.is_scalar() && (dtype.is_integer() || dtype.is_bool() || dtype.is_handle()),
                    "an integer constant of {}",
                    name(*dtype)
                );
                let whole = dtype.bits() == 64;
                ensure!(
                    whole || dtype.can_hold(*value),
                    "the constant {value} is not a value of type {}",
                    name(*dtype)
                );
                Ok(())
            }
            ExprNode::Float { dtype, .. } => {
                ensure!(dtype.is_scalar() && dtype.is_float(), "a float constant of {}", name(*dtype));
                Ok(())
            }
            ExprNode::Text { .. } => Ok(()),
            ExprNode::Var { .. } => self.used(&Var::of(expr).expect("a variable")),
            ExprNode::Cast { dtype, value } => {
                self.expr(value)?;
                ensure!(dtype.lanes() == value.lanes(), "a cast of {} to {}", name(value.dtype()), name(*dtype));
                Ok(())
            }
            ExprNode::Binary { op, a, b, dtype } => {
                self.expr(a)?;
                self.expr(b)?;
                self.same(a.dtype(), b.dtype(), "arithmetic")?;
                self.same(a.dtype(), *dtype, "the operands and value of arithmetic")?;
                ensure!(is_defined(*op, *dtype), "{op:?} of {}", name(*dtype));
                Ok(())
            }
            ExprNode::Compare { op, a, b } => {
                self.expr(a)?;
                self.expr(b)?;
                self.same(a.dtype(), b.dtype(), "a comparison")?;
                let equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
                ensure!(equality || !a.dtype().is_handle(), "an order of pointers");
                Ok(())
            }
            ExprNode::Logic { a, b, .. } => {
                self.expr(a)?;
                self.expr(b)?;
                self.same(a.dtype(), b.dtype(), "a connective")?;
                ensure!(a.dtype().is_bool(), "a connective of {}", name(a.dtype()));
                Ok(())
            }
            ExprNode::Not { value } => {
                self.expr(value)?;
                ensure!(value.dtype().is_bool(), "a negation of {}", name(value.dtype()));
                Ok(())
            }
            ExprNode::Select { condition, true_value: a, false_value: b }
            | ExprNode::IfThenElse { condition, then_value: a, else_value: b } => {
                for part in [condition, a, b] {
                    self.expr(part)?;
                }
                self.same(a.dtype(), b.dtype(), "a choice")?;
                let lanes = condition.lanes();
                ensure!(
                    condition.dtype().is_bool() && (lanes == 1 || lanes == a.lanes()),
                    "a choice between values of {} by {}",
                    name(a.dtype()),
                    name(condition.dtype())
                );
                Ok(())
            }
            ExprNode::Ramp { base, stride, lanes } => {
                self.index(base, "a ramp")?;
                self.expr(stride)?;
                self.same(base.dtype(), stride.dtype(), "a ramp")?;
                ensure!(base.dtype().is_scalar() && *lanes > 1, "a ramp of {lanes} lanes from {}", name(base.dtype()));
                Ok(())
            }
            ExprNode::Broadcast { value, lanes } => {
                self.expr(value)?;
                let dtype = value.dtype();
                ensure!(dtype.is_scalar() && *lanes > 1, "a broadcast of {} to {lanes} lanes", name(dtype));
                Ok(())
            }
            ExprNode::Shuffle { vectors, indices } => {
                let mut total = 0;
                for vector in vectors.iter() {
                    self.expr(&vector)?;
                    self.same(vector.dtype().element(), dtype.element(), "a shuffle")?;
                    total += i64::from(vector.lanes());
                }
                ensure!(!indices.is_empty(), "a shuffle of no lanes");
                for index in indices.iter() {
                    ensure!((0..total).contains(&index), "a shuffle of {total} lanes takes lane {index}");
                }
                Ok(())
            }
            ExprNode::Let { var, value, body } => {
                self.expr(value)?;
                self.same(var.dtype(), value.dtype(), "a binding")?;
                let known = self.lets.insert(var.clone(), expr.address());
                ensure!(known.is_none_or(|node| node == expr.address()), "variable `{}` is defined twice", var.name());
                let mark = self.added.len();
                if known.is_none() {
                    self.define(var)?;
                } else {
                    self.enter(var.clone());
                }
                self.expr(body)?;
                self.leave(mark);
                Ok(())
            }
            ExprNode::Load { buffer, index, mask, dtype } => {
                self.access(buffer, index, mask.as_ref(), *dtype, "a load")
            }
            ExprNode::TensorRead { tensor, indices } => {
                self.no_tensors()?;
                ensure!(
                    indices.len() == tensor.shape.len(),
                    "{} indices of tensor `{}`, which has {} dimensions",
                    indices.len(),
                    tensor.name(),
                    tensor.shape.len()
                );
                indices.iter().try_for_each(|index| self.index(&index, "an index"))
            }
            ExprNode::Call { kind, name, args, dtype } => self.call(*kind, name.as_str(), &args.to_vec(), *dtype),
            ExprNode::Reduce { .. } => Err("a reduction inside a lowered program".to_owned()),
        }
    }

    pub(super) fn call(&mut self, kind: CallKind, called: &str, args: &[Expr], dtype: DataType) -> Check {
        for arg in args {
            self.expr(arg)?;
        }
        if kind != CallKind::Builtin {
            return Ok(());
        }
        ensure!(builtin::effect_of_builtin(called).is_some(), "unknown builtin `{called}`");
        if let Some(arity) = builtin::math_arity(called) {
            ensure!(args.len() == arity, "`{called}` of {} arguments, not {arity}", args.len());
            for arg in args {
                self.same(arg.dtype(), dtype, &format!("`{called}`"))?;
            }
        }
        match called {
            builtin::LIKELY => {
                ensure!(self.stage < Stage::Partitioned, "`likely` after loops are partitioned");
                ensure!(args.len() == 1 && args[0].dtype() == dtype && dtype.is_bool(), "`likely` of no condition");
            }
            builtin::ADDRESS_OF => {
                let is_load = matches!(args, [arg] if matches!(**arg, ExprNode::Load { .. }));
                ensure!(is_load, "`address_of` of something that is not a load");
            }
            builtin::REINTERPRET => {
                let bits = |dtype: DataType| u32::from(dtype.bits()) * u32::from(dtype.lanes());
                let fits = matches!(args, [arg] if bits(arg.dtype()) == bits(dtype));
                ensure!(fits, "`reinterpret` as {} of another size", name(dtype));
            }
            builtin::DOT => {
                let is_small = |arg: &Expr| arg.dtype().is_integer() && arg.dtype().bits() <= 16;
                let fits = matches!(args, [sums, a, b] if sums.dtype() == dtype
                    && dtype.element() == I32
                    && is_small(a)
                    && is_small(b)
                    && a.lanes() == b.lanes()
                    && a.lanes().is_multiple_of(sums.lanes()));
                ensure!(fits, "`dot` takes i32 sums, and two vectors of small integers with a multiple of their lanes");
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks a reducer, whose variables must not be defined elsewhere.
    pub(super) fn reducer(&mut self, reducer: &Reducer) -> Check {
        let mark = self.added.len();
        reducer.lhs.iter().chain(reducer.rhs.iter()).for_each(|var| self.enter(var));
        for value in reducer.results.iter().chain(reducer.identity.iter()) {
            self.expr(&value)?;
        }
        self.leave(mark);
        Ok(())
    }
}

/// Returns true if the operation is defined for values of this type.
fn is_defined(op: BinaryOp, dtype: DataType) -> bool {
    match op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => {
            dtype.is_integer() || dtype.is_float()
        }
        BinaryOp::Min | BinaryOp::Max => dtype.is_integer() || dtype.is_float() || dtype.is_bool(),
        BinaryOp::FloorDiv | BinaryOp::FloorMod | BinaryOp::ShiftLeft | BinaryOp::ShiftRight => dtype.is_integer(),
        BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => dtype.is_integer() || dtype.is_bool(),
    }
}
