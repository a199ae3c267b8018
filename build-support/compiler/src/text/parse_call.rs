//! Parsing of calls, and of forms that look like calls.

use super::parse_expr::{Infix, Value};
use super::parser::Parser;
use super::print_expr::{binary_form, implied_type};
use crate::error::Result;
use crate::ir::{BinaryOp, CallKind, DataTypeExt, Expr, ExprNode, builtin};

impl Parser<'_> {
    pub(super) fn named_call(&mut self, kind: CallKind) -> Result<Expr> {
        self.next();
        let place = self.place();
        let name = self.string()?;
        self.call(place, kind, &name)
    }

    /// `::<type>(arguments)`
    pub(super) fn call(&mut self, place: usize, kind: CallKind, name: &str) -> Result<Expr> {
        let mut dtype = None;
        if self.take_sign("::") {
            self.sign("<")?;
            dtype = Some(self.dtype()?);
            self.sign(">")?;
        }
        self.sign("(")?;
        let values = self.list(")", |this| this.value())?;
        let wanted = values.iter().find(|value| value.bare.is_none()).map(|value| value.expr.dtype());
        let is_math = kind == CallKind::Builtin && builtin::math_arity(name).is_some();
        let args: Vec<Expr> = values
            .into_iter()
            .map(|value| match (value.bare, wanted) {
                (Some(number), Some(wanted)) if is_math => self.typed(wanted, number, value.expr),
                _ => value.expr,
            })
            .collect();
        let implied = if kind == CallKind::Builtin { implied_type(name, &args) } else { None };
        let Some(dtype) = dtype.or(implied) else {
            return Err(self
                .error_at(place, format!("the type of the value of `{name}` is not known"))
                .note(format!("write it before the arguments: `{name}::<i64>(..)`")));
        };
        Ok(Expr::call(kind, name, dtype, args))
    }

    /// A form that looks like a call of a builtin, or a call of one.
    pub(super) fn form(&mut self, name: &str) -> Result<Expr> {
        let place = self.place();
        self.next();
        if let Some(op) = BinaryOp::ALL.into_iter().find(|op| binary_form(*op) == Err(name)) {
            let [a, b] = self.arguments(name)?;
            return self.combine(place, Infix::Binary(op), a, b);
        }
        match name {
            "select" | "if_then_else" => {
                let [condition, a, b] = self.arguments(name)?;
                let (a, b) = self.fit(place, "a choice", a, b)?;
                let condition = condition.expr;
                if !condition.dtype().is_bool() {
                    return Err(self.error_at(place, format!("a condition of {}", condition.dtype().short_name())));
                }
                Ok(Expr::from_node(if name == "select" {
                    ExprNode::Select { condition, true_value: a, false_value: b }
                } else {
                    ExprNode::IfThenElse { condition, then_value: a, else_value: b }
                }))
            }
            "ramp" => {
                self.sign("(")?;
                let base = self.value()?;
                self.sign(",")?;
                let stride = self.value()?;
                let (base, stride) = self.fit(place, "a ramp", base, stride)?;
                self.sign(",")?;
                let lanes = self.lanes()?;
                self.sign(")")?;
                Ok(Expr::from_node(ExprNode::Ramp { base, stride, lanes }))
            }
            "broadcast" => {
                self.sign("(")?;
                let value = self.expr()?;
                self.sign(",")?;
                let lanes = self.lanes()?;
                self.sign(")")?;
                Ok(Expr::from_node(ExprNode::Broadcast { value, lanes }))
            }
            "shuffle" => {
                self.sign("(")?;
                self.sign("[")?;
                let vectors = self.list("]", |this| this.expr())?;
                self.sign(",")?;
                self.sign("[")?;
                let indices = self.list("]", |this| this.integer())?;
                self.sign(")")?;
                Ok(Expr::from_node(ExprNode::Shuffle { vectors: vectors.into(), indices: indices.into() }))
            }
            "reduce" => self.reduce(),
            _ => self.call(place, CallKind::Builtin, name),
        }
    }

    pub(super) fn arguments<const N: usize>(&mut self, name: &str) -> Result<[Value; N]> {
        let place = self.place();
        self.sign("(")?;
        let values = self.list(")", |this| this.value())?;
        let count = values.len();
        values.try_into().map_err(|_| self.error_at(place, format!("`{name}` takes {N} arguments, got {count}")))
    }

    pub(super) fn reduce(&mut self) -> Result<Expr> {
        let mark = self.enter();
        self.sign("(")?;
        let reducer = self.reducer()?;
        self.sign(",")?;
        self.sign("[")?;
        let axes = self.list("]", |this| this.iter_var())?;
        self.sign(",")?;
        self.sign("[")?;
        let sources = self.list("]", |this| this.expr())?;
        self.sign(",")?;
        let condition = self.expr()?;
        self.sign(",")?;
        self.sign("[")?;
        let init = self.list("]", |this| this.expr())?;
        self.sign(",")?;
        let value_index = self.integer()?;
        self.sign(")")?;
        self.leave(mark);
        Ok(Expr::from_node(ExprNode::Reduce {
            reducer,
            sources: sources.into(),
            axes: axes.into(),
            condition,
            init: init.into(),
            value_index,
        }))
    }
}
