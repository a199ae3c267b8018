//! Compilation of calls.

use super::code::{Exchange, Op, Operand, Reg, Value};
use super::compile::Compiler;
use super::number::Lane;
use crate::error::{Result, fail, require};
use crate::ir::builtin;
use crate::ir::{CallKind, DataType, DataTypeExt, Expr, ExprNode};

impl Compiler<'_, '_> {
    pub(super) fn operands(&mut self, args: &[Expr]) -> Result<Vec<Operand>> {
        let mut operands = Vec::new();
        for arg in args {
            operands.push(match &**arg {
                ExprNode::Text { value } => Operand::Text(value.to_string()),
                _ => Operand::Value(self.expr(arg)?, arg.dtype()),
            });
        }
        Ok(operands)
    }

    pub(super) fn call(&mut self, kind: CallKind, name: &str, args: &[Expr], dtype: DataType) -> Result<Reg> {
        if self.active.is_some() && builtin::effect(kind, name) > builtin::Effect::Reads {
            fail!(Run, "a call of `{name}` under a condition for each lane");
        }
        match kind {
            CallKind::Builtin => self.builtin(name, args, dtype),
            CallKind::LlvmIntrinsic => {
                let Some(known) = llvm_math(name) else { fail!(Run, "unknown intrinsic `{name}`") };
                self.builtin(known, args, dtype)
            }
            CallKind::Extern | CallKind::PureExtern => {
                let args = self.operands(args)?;
                let to = self.temporary();
                self.emit(Op::Extern { to, name: name.to_owned(), dtype, args });
                Ok(to)
            }
            CallKind::Packed => {
                let args = self.operands(args)?;
                let to = self.temporary();
                self.emit(Op::Packed { to, name: name.to_owned(), dtype, args });
                Ok(to)
            }
            CallKind::Function => {
                let Some(function) = self.shared.names.get(name).copied() else {
                    fail!(Run, "the module has no function `{name}`");
                };
                let args = args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>>>()?;
                let to = self.temporary();
                self.emit(Op::Call { to, function, args });
                Ok(to)
            }
        }
    }

    /// The address from which a load would read.
    pub(super) fn address(&mut self, name: &str, load: &Expr) -> Result<Reg> {
        let ExprNode::Load { buffer, index, .. } = &**load else { fail!(Run, "`{name}` takes a load") };
        let place = self.place(buffer)?;
        let index = match &**index {
            ExprNode::Ramp { base, .. } => self.index(base)?,
            _ => self.index(index)?,
        };
        let to = self.temporary();
        self.emit(Op::Address { to, place, index });
        Ok(to)
    }

    pub(super) fn builtin(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<Reg> {
        if let Some(arity) = builtin::math_arity(name) {
            require!(args.len() == arity, Run, "`{name}` takes {arity} arguments, got {}", args.len());
            for arg in args {
                self.same_lanes(name, arg, &args[0])?;
            }
            Lane::of(args[0].dtype())?;
            let args = args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>>>()?;
            let (to, active) = (self.temporary(), self.active_for(dtype.lanes()));
            self.emit(Op::Math { to, name: name.to_owned(), dtype: dtype.element(), args, active });
            return Ok(to);
        }
        require!(builtin::effect_of_builtin(name).is_some(), Run, "unknown builtin `{name}`");
        let arity = |count: usize| -> Result<()> {
            require!(args.len() == count, Run, "`{name}` takes {count} arguments, got {}", args.len());
            Ok(())
        };
        match name {
            builtin::LIKELY => {
                arity(1)?;
                self.expr(&args[0])
            }
            builtin::ADDRESS_OF | builtin::ACCESS_PTR => {
                arity(if name == builtin::ADDRESS_OF { 1 } else { 3 })?;
                self.address(name, &args[0])
            }
            builtin::MAKE_TENSOR => {
                require!(
                    args.len() >= 2 && args.len().is_multiple_of(2),
                    Run,
                    "`{name}` takes a load, a number, extents, strides"
                );
                let ExprNode::Load { buffer, .. } = &*args[0] else { fail!(Run, "`{name}` takes a load") };
                let data = self.address(name, &args[0])?;
                let sizes = args[2..].iter().map(|size| self.index(size)).collect::<Result<Vec<_>>>()?;
                let (shape, strides) = sizes.split_at(sizes.len() / 2);
                let (shape, strides) = (shape.to_vec(), strides.to_vec());
                let to = self.temporary();
                self.emit(Op::MakeTensor { to, data, dtype: buffer.dtype, shape, strides });
                Ok(to)
            }
            builtin::ANY_LANE => {
                arity(1)?;
                let from = self.expr(&args[0])?;
                let to = self.temporary();
                self.emit(Op::Any { to, from });
                Ok(to)
            }
            builtin::ASSUME => {
                arity(1)?;
                let condition = self.index(&args[0])?;
                self.emit(Op::Assume { condition });
                Ok(condition)
            }
            builtin::WARP_SHUFFLE | "warp_shuffle_up" | "warp_shuffle_down" | "warp_shuffle_xor" => {
                arity(5)?;
                require!(self.kernel, Run, "`{name}` outside of a kernel");
                let exchange = match name {
                    builtin::WARP_SHUFFLE => Exchange::Index,
                    "warp_shuffle_up" => Exchange::Up,
                    "warp_shuffle_down" => Exchange::Down,
                    _ => Exchange::Xor,
                };
                let (mask, value) = (self.expr(&args[0])?, self.expr(&args[1])?);
                let (lane, width) = (self.expr(&args[2])?, self.expr(&args[3])?);
                let to = self.temporary();
                self.emit(Op::WarpShuffle { to, exchange, mask, value, lane, width });
                Ok(to)
            }
            builtin::PARALLEL_BARRIER => {
                require!(!self.parallel, Run, "`parallel_barrier` inside a parallel loop");
                Ok(self.constant(Value::One(0)))
            }
            builtin::STORAGE_SYNC | builtin::THREAD_ALLREDUCE | builtin::BREAK_LOOP | builtin::CONTINUE_LOOP => {
                fail!(Run, "`{name}` inside an expression: it is a statement of its own")
            }
            builtin::CALL_PACKED => {
                let Some(ExprNode::Text { value }) = args.first().map(|arg| &**arg) else {
                    fail!(Run, "`call_packed` takes the name of a function first");
                };
                self.call(CallKind::Packed, value.as_str(), &args[1..], dtype)
            }
            _ => {
                let args = self.operands(args)?;
                let to = self.temporary();
                self.emit(Op::Builtin { to, name: name.to_owned(), dtype, args });
                Ok(to)
            }
        }
    }
}

/// The math function or builtin that corresponds to an LLVM intrinsic.
fn llvm_math(name: &str) -> Option<&'static str> {
    Some(match name.strip_prefix("llvm.")? {
        "sqrt" => "sqrt",
        "fabs" => "abs",
        "abs" => "abs",
        "floor" => "floor",
        "ceil" => "ceil",
        "trunc" => "trunc",
        "roundeven" | "rint" | "nearbyint" => "round",
        "fma" | "fmuladd" => "fma",
        "copysign" => "copysign",
        "minimum" => "nanmin",
        "maximum" => "nanmax",
        "exp" => "exp",
        "exp2" => "exp2",
        "log" => "log",
        "log2" => "log2",
        "log10" => "log10",
        "sin" => "sin",
        "cos" => "cos",
        "pow" => "pow",
        "ctpop" => "popcount",
        "ctlz" => "clz",
        "cttz" => "ctz",
        _ => return None,
    })
}
