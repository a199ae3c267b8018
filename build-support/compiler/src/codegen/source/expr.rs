//! Expressions. Nodes without an expression of the language (a `Let`, a vector built from lanes)
//! become a local before the statement.

use kernpack::DataType;

use super::body::{Body, Text};
use super::{literal, scalar, vector};
use crate::codegen::parts::is_linear;
use crate::error::{Result, fail};
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, LogicOp, Var, with_stack};

impl Body<'_> {
    /// Writes an expression.
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<Text> {
        with_stack(|| {
            let text = self.node(expr)?;
            self.shallow(text, expr.dtype())
        })
    }

    /// Writes an index, extent or guard, whose arithmetic does not overflow.
    pub(super) fn index(&mut self, expr: &Expr) -> Result<String> {
        let outer = core::mem::replace(&mut self.in_index, true);
        let text = self.expr(expr).map(|text| text.text);
        self.in_index = outer;
        text
    }

    /// Writes an expression that is not a part of an index, even inside of one.
    pub(super) fn value(&mut self, expr: &Expr) -> Result<String> {
        let outer = core::mem::replace(&mut self.in_index, false);
        let text = self.expr(expr).map(|text| text.text);
        self.in_index = outer;
        text
    }

    fn node(&mut self, expr: &Expr) -> Result<Text> {
        let around = self.parts_fit.take();
        let dtype = expr.dtype();
        let lanes = dtype.lanes();
        Ok(match &**expr {
            ExprNode::Int { dtype, value } => {
                self.unit.check(*dtype)?;
                Text::flat(literal::integer(self.unit.words, *dtype, *value))
            }
            ExprNode::Float { dtype, value } => Text::flat(scalar::constant(self.unit, *dtype, *value)?),
            ExprNode::Text { .. } => fail!(Target, "{} has no text values", self.unit.words.name),
            ExprNode::Var { .. } => match Var::of(expr) {
                Some(var) => Text::flat(self.local(&var)?.name),
                None => fail!(Internal, "a variable node that is not a variable"),
            },
            ExprNode::Cast { dtype, value } => {
                let from = value.dtype();
                let value = self.expr(value)?;
                let text = if lanes > 1 {
                    vector::cast(self.unit, from, *dtype, &value.text)?
                } else {
                    scalar::cast(self.unit, from, *dtype, &value.text)?
                };
                Text { text, depth: value.depth + 1 }
            }
            ExprNode::Binary { op, a, b, dtype } => {
                let fits = around.unwrap_or_else(|| self.in_index && self.index_facts.parts_fit(expr));
                let plain = self.in_index && fits && self.index_facts.is_index(expr);
                let inside = is_linear(expr).then_some(fits);
                self.binary(*op, *dtype, [a, b], plain, inside)?
            }
            ExprNode::Compare { op, a, b } => {
                let from = a.dtype();
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                let text = if lanes > 1 {
                    vector::compare(self.unit, *op, from, &a.text, &b.text)?
                } else {
                    format!("({} {} {})", a.text, scalar::compare_symbol(*op), b.text)
                };
                Text { text, depth: a.depth.max(b.depth) + 1 }
            }
            ExprNode::Logic { op, a, b } => self.logic(*op, dtype, a, b)?,
            ExprNode::Not { value } => {
                let value = self.expr(value)?;
                let text =
                    if lanes > 1 { vector::not(self.unit, dtype, &value.text)? } else { format!("(!{})", value.text) };
                Text { text, depth: value.depth + 1 }
            }
            ExprNode::Select { condition, true_value, false_value } if condition.lanes() > 1 => {
                let (condition, a, b) = (self.expr(condition)?, self.expr(true_value)?, self.expr(false_value)?);
                let text = vector::select(self.unit, dtype, &condition.text, &a.text, &b.text)?;
                Text { text, depth: condition.depth.max(a.depth).max(b.depth) + 1 }
            }
            ExprNode::Select { condition, true_value: a, false_value: b }
            | ExprNode::IfThenElse { condition, then_value: a, else_value: b } => {
                self.choice(dtype, condition, a, b)?
            }
            ExprNode::Ramp { base, stride, .. } => {
                let (base, stride) = (self.expr(base)?, self.expr(stride)?);
                let text = vector::ramp(self.unit, dtype, &base.text, &stride.text)?;
                Text { text, depth: base.depth.max(stride.depth) + 1 }
            }
            ExprNode::Broadcast { value, .. } => {
                let value = self.expr(value)?;
                Text { text: vector::broadcast(self.unit, dtype, &value.text)?, depth: value.depth + 1 }
            }
            ExprNode::Shuffle { vectors, indices } => self.shuffle(dtype, &vectors.to_vec(), &indices.to_vec())?,
            ExprNode::Let { var, value, body } => {
                self.let_value(var, value)?;
                self.expr(body)?
            }
            ExprNode::Load { buffer, index, mask, dtype } => self.load(buffer, index, mask.as_ref(), *dtype)?,
            ExprNode::Call { kind, name, args, dtype } => {
                Text { text: self.call(*kind, name.as_str(), &args.to_vec(), *dtype)?, depth: 8 }
            }
            ExprNode::TensorRead { tensor, .. } => {
                fail!(Lower, "a read of tensor `{}` is left: run StorageFlatten first", tensor.op.name())
            }
            ExprNode::Reduce { .. } => fail!(Lower, "a reduction is left: lower the schedule first"),
        })
    }

    /// Declares a named value.
    pub(super) fn let_value(&mut self, var: &Var, value: &Expr) -> Result<()> {
        if var.dtype().is_handle() {
            return self.alias(var, None, value);
        }
        let text = self.value(value)?;
        self.index_facts.note_value(var, value);
        let ty = self.unit.value_type(var.dtype())?;
        let name = self.define(var, None);
        self.line(format!("const {ty} {name} = {text};"));
        Ok(())
    }

    /// An operation, in arithmetic that does not overflow if it is `plain`; `inside`: whether that
    /// holds for the sums that are its operands.
    fn binary(
        &mut self,
        op: BinaryOp,
        dtype: DataType,
        [a, b]: [&Expr; 2],
        plain: bool,
        inside: Option<bool>,
    ) -> Result<Text> {
        self.unit.check(dtype)?;
        self.parts_fit = inside;
        let left = self.expr(a)?;
        self.parts_fit = inside;
        let right = self.expr(b)?;
        let rounds_down = plain && b.as_int().is_some_and(|b| b > 0) && self.index_facts.is_natural(a);
        let text = match (op, b.as_int()) {
            _ if dtype.lanes() > 1 => vector::binary(self.unit, op, dtype, &left.text, &right.text)?,
            (BinaryOp::ShiftRight, Some(bits))
                if (0..i64::from(dtype.bits())).contains(&bits) && dtype.bits() >= 32 =>
            {
                format!("({} >> {bits})", left.text)
            }
            (BinaryOp::FloorDiv, _) if rounds_down => format!("({} / {})", left.text, right.text),
            (BinaryOp::FloorMod, _) if rounds_down => format!("({} % {})", left.text, right.text),
            _ => scalar::binary(self.unit, op, dtype, &left.text, &right.text, plain)?,
        };
        Ok(Text { text, depth: left.depth.max(right.depth) + 2 })
    }

    /// A connective. The second operand is evaluated only where it matters.
    fn logic(&mut self, op: LogicOp, dtype: DataType, a: &Expr, b: &Expr) -> Result<Text> {
        let left = self.expr(a)?;
        let inside = usize::from(dtype.lanes() <= 1);
        self.indent += inside;
        let right = self.apart(|body| body.expr(b));
        self.indent -= inside;
        let (right, lines) = right?;
        let depth = left.depth.max(right.depth) + 1;
        if dtype.lanes() > 1 {
            self.lines.extend(lines);
            let op = if op == LogicOp::And { BinaryOp::BitAnd } else { BinaryOp::BitOr };
            if self.unit.words.has_vectors {
                let symbol = if op == BinaryOp::BitAnd { "&" } else { "|" };
                return Ok(Text { text: format!("({} {symbol} {})", left.text, right.text), depth });
            }
            return Ok(Text { text: vector::binary(self.unit, op, dtype, &left.text, &right.text)?, depth });
        }
        let symbol = if op == LogicOp::And { "&&" } else { "||" };
        if lines.is_empty() {
            return Ok(Text { text: format!("({} {symbol} {})", left.text, right.text), depth });
        }
        let name = self.names.unique("t");
        self.line(format!("bool {name} = {};", left.text));
        self.line(format!("if ({}{name}) {{", if op == LogicOp::And { "" } else { "!" }));
        self.lines.extend(lines);
        self.line(format!("  {name} = {};", right.text));
        self.line("}");
        Ok(Text::flat(name))
    }

    /// One of two values, of which only one is evaluated.
    fn choice(&mut self, dtype: DataType, condition: &Expr, a: &Expr, b: &Expr) -> Result<Text> {
        if condition.lanes() > 1 {
            fail!(Lower, "a vector condition of if_then_else is left: run VectorizeLoop first");
        }
        let condition = self.expr(condition)?;
        self.indent += 1;
        let then_part = self.apart(|body| body.expr(a));
        let else_part = self.apart(|body| body.expr(b));
        self.indent -= 1;
        let ((a, a_lines), (b, b_lines)) = (then_part?, else_part?);
        // A scalar condition does not choose between vectors in OpenCL C.
        if a_lines.is_empty() && b_lines.is_empty() && dtype.lanes() <= 1 {
            let text = format!("({} ? {} : {})", condition.text, a.text, b.text);
            return Ok(Text { text, depth: condition.depth.max(a.depth).max(b.depth) + 1 });
        }
        let ty = self.unit.value_type(dtype)?;
        let name = self.names.unique("t");
        self.line(format!("{ty} {name};"));
        self.line(format!("if {} {{", super::body::condition(&condition.text)));
        self.lines.extend(a_lines);
        self.line(format!("  {name} = {};", a.text));
        self.line("} else {");
        self.lines.extend(b_lines);
        self.line(format!("  {name} = {};", b.text));
        self.line("}");
        Ok(Text::flat(name))
    }

    fn shuffle(&mut self, dtype: DataType, vectors: &[Expr], indices: &[i64]) -> Result<Text> {
        let mut lanes = Vec::new();
        for source in vectors {
            let from = source.dtype();
            let text = self.expr(source)?.text;
            let name = self.bind("v", from, &text)?;
            lanes.extend((0..usize::from(from.lanes())).map(|lane| self.unit.lane(from, &name, lane)));
        }
        let chosen = indices
            .iter()
            .map(|index| usize::try_from(*index).ok().and_then(|index| lanes.get(index)).cloned())
            .collect::<Option<Vec<_>>>();
        let Some(chosen) = chosen else {
            fail!(Type, "a shuffle takes a lane that is not among the {} lanes of its vectors", lanes.len())
        };
        if let [only] = &chosen[..] {
            return Ok(Text::flat(only.clone()));
        }
        let value = self.unit.vector(dtype, &chosen)?;
        Ok(Text::flat(self.bind("v", dtype, &value)?))
    }
}
