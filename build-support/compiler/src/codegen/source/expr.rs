//! Expressions. Nodes without an expression of the language (a `Let`, a vector built from lanes)
//! become a local before the statement.

use kernpack::DataType;

use super::body::{Body, Text};
use super::stmt::changes_memory;
use super::vocabulary::{Vectors, lane_bits};
use super::{literal, scalar, vector};
use crate::codegen::parts::is_linear;
use crate::error::{Result, fail};
use crate::ir::builtin::{self, Effect};
use crate::ir::visit::has_part;
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, LogicOp, Var, with_stack};

impl Body<'_> {
    /// Writes an expression.
    pub(crate) fn expr(&mut self, expr: &Expr) -> Result<Text> {
        with_stack(|| {
            let text = self.node(expr)?;
            self.shallow(text, expr.dtype())
        })
    }

    /// Writes an index, extent or guard, whose arithmetic does not overflow.
    pub(crate) fn index(&mut self, expr: &Expr) -> Result<String> {
        let outer = core::mem::replace(&mut self.in_index, true);
        let text = self.expr(expr).map(|text| text.text);
        self.in_index = outer;
        text
    }

    /// Writes an expression that is not a part of an index, even inside of one.
    pub(crate) fn value(&mut self, expr: &Expr) -> Result<String> {
        let outer = core::mem::replace(&mut self.in_index, false);
        let text = self.expr(expr).map(|text| text.text);
        self.in_index = outer;
        text
    }

    fn node(&mut self, expr: &Expr) -> Result<Text> {
        let around = self.parts_fit.take();
        let dtype = expr.dtype();
        let (words, lanes) = (self.unit.words, dtype.lanes());
        Ok(match &**expr {
            ExprNode::Int { dtype, value } => {
                self.unit.check(*dtype)?;
                Text::flat(literal::integer(words, *dtype, *value))
            }
            ExprNode::Float { dtype, value } => Text::flat(scalar::constant(self.unit, *dtype, *value)?),
            ExprNode::Text { value } if words.is_host => Text::flat(literal::text(value.as_str())),
            ExprNode::Text { .. } => fail!(Target, "{} has no text values", words.name),
            ExprNode::Var { .. } => match Var::of(expr) {
                Some(var) => Text::flat(self.local(&var)?.name),
                None => fail!(Internal, "a variable node that is not a variable"),
            },
            ExprNode::Cast { dtype, value } => {
                let from = value.dtype();
                self.unit.value_type(*dtype)?;
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
            ExprNode::Select { condition, true_value, false_value } if condition.lanes() > 1 || words.is_host => {
                self.select(dtype, condition, true_value, false_value)?
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
                if value.lanes() > 1 {
                    fail!(Target, "a broadcast of a vector: only scalars are broadcast");
                }
                let value = self.expr(value)?;
                Text { text: vector::broadcast(self.unit, dtype, &value.text)?, depth: value.depth + 1 }
            }
            ExprNode::Shuffle { vectors, indices } => self.shuffle(dtype, &vectors.to_vec(), &indices.to_vec())?,
            ExprNode::Let { var, value, body } => {
                if var.dtype().is_handle() && !words.is_host {
                    self.alias(var, None, value)?;
                } else {
                    let text = self.expr(value)?.text;
                    self.let_value(var, value, &text)?;
                }
                self.expr(body)?
            }
            ExprNode::Load { buffer, index, mask, dtype } => {
                let load = self.load(buffer, index, mask.as_ref(), *dtype)?;
                if self.ordered { Text::flat(self.bind("t", *dtype, &load.text)?) } else { load }
            }
            ExprNode::Call { kind, name, args, dtype } => {
                let text = self.call(*kind, name.as_str(), &args.to_vec(), *dtype)?;
                let pure = builtin::effect(*kind, name.as_str()) == Effect::Pure;
                if self.ordered && !pure && !is_void(*dtype) && text != DONE {
                    Text::flat(self.bind("t", *dtype, &text)?)
                } else {
                    Text { text, depth: 8 }
                }
            }
            ExprNode::TensorRead { tensor, .. } => fail!(
                Lower,
                "{}: a read of tensor `{}` is left: run StorageFlatten first",
                words.name,
                tensor.op.name()
            ),
            ExprNode::Reduce { .. } => fail!(Lower, "{}: a reduction is left: lower the schedule first", words.name),
        })
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
        let words = self.unit.words;
        self.unit.value_type(dtype)?;
        if let (ExprNode::Broadcast { value, .. }, BinaryOp::ShiftLeft | BinaryOp::ShiftRight) = (&**b, op)
            && let Some(bits) = value.as_int()
            && (0..i64::from(dtype.bits())).contains(&bits)
            && words.vectors == Vectors::Extension
        {
            let a = self.expr(a)?;
            return Ok(Text { text: vector::shift(self.unit, op, dtype, &a.text, bits)?, depth: a.depth + 1 });
        }
        // Shifts, divisions by powers of two and masks of indices stay as readable as they are.
        self.parts_fit = inside;
        let left = self.expr(a)?;
        self.parts_fit = inside;
        let right = self.expr(b)?;
        let rounds_down =
            plain && !words.is_host && b.as_int().is_some_and(|b| b > 0) && self.index_facts.is_natural(a);
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

    /// A connective. A right operand that reads memory is evaluated only where it matters; one that
    /// changes memory is always evaluated.
    fn logic(&mut self, op: LogicOp, dtype: DataType, a: &Expr, b: &Expr) -> Result<Text> {
        let words = self.unit.words;
        let reads = has_part(b, |part| match &**part {
            ExprNode::Load { .. } => true,
            ExprNode::Call { kind, name, .. } => builtin::effect(*kind, name.as_str()) > Effect::Pure,
            _ => false,
        });
        let (is_and, left) = (op == LogicOp::And, self.expr(a)?);
        if dtype.lanes() > 1 {
            let right = self.expr(b)?;
            let depth = left.depth.max(right.depth) + 1;
            if words.has_vectors() {
                let symbol = if is_and { "&" } else { "|" };
                return Ok(Text { text: format!("({} {symbol} {})", left.text, right.text), depth });
            }
            let op = if is_and { BinaryOp::BitAnd } else { BinaryOp::BitOr };
            return Ok(Text { text: vector::binary(self.unit, op, dtype, &left.text, &right.text)?, depth });
        }
        let (right, lines) = if reads && !has_part(b, changes_memory) {
            self.apart_inside(|body| body.expr(b))?
        } else {
            (self.expr(b)?, Vec::new())
        };
        if !lines.is_empty() {
            let name = self.names.unique("t");
            self.line(format!("{} {name} = {};", words.truth, left.text));
            let open = format!("if ({}{name}) {{", if is_and { "" } else { "!" });
            self.block_of(&open, lines, &format!("{name} = {};", right.text));
            self.line("}");
            return Ok(Text::flat(name));
        }
        let symbol = match is_and {
            // Branches on data prevent C compilers from vectorizing a loop.
            _ if words.is_host && !reads && !self.in_index => ["|", "&"][usize::from(is_and)],
            true => "&&",
            false => "||",
        };
        Ok(Text { text: format!("({} {symbol} {})", left.text, right.text), depth: left.depth.max(right.depth) + 1 })
    }

    /// One of two values, both of which are evaluated: branches prevent C compilers from
    /// vectorizing a loop.
    fn select(&mut self, dtype: DataType, condition: &Expr, a: &Expr, b: &Expr) -> Result<Text> {
        if let ExprNode::Compare { op, a: left, b: right } = &**condition
            && self.unit.words.vectors == Vectors::Extension
            && condition.lanes() > 1
            && !left.dtype().is_bool()
            && lane_bits(left.dtype()) == lane_bits(dtype)
        {
            let (c, d, a, b) = (self.expr(left)?, self.expr(right)?, self.expr(a)?, self.expr(b)?);
            let texts = [c.text.as_str(), &d.text, &a.text, &b.text];
            let text = vector::select_compare(self.unit, (*op, left.dtype()), dtype, texts)?;
            return Ok(Text { text, depth: a.depth.max(b.depth).max(c.depth).max(d.depth) + 1 });
        }
        let is_vector = condition.lanes() > 1;
        let (condition, a, b) = (self.expr(condition)?, self.expr(a)?, self.expr(b)?);
        let text = match is_vector {
            true => vector::select(self.unit, dtype, &condition.text, &a.text, &b.text)?,
            false => format!("({} ? {} : {})", condition.text, a.text, b.text),
        };
        Ok(Text { text, depth: condition.depth.max(a.depth).max(b.depth) + 1 })
    }

    /// One of two values, of which only one is evaluated.
    fn choice(&mut self, dtype: DataType, condition: &Expr, a: &Expr, b: &Expr) -> Result<Text> {
        if condition.lanes() > 1 {
            fail!(
                Lower,
                "{}: a vector condition of if_then_else is left: run VectorizeLoop first",
                self.unit.words.name
            );
        }
        let condition = self.expr(condition)?;
        let (a, a_lines) = self.apart_inside(|body| body.expr(a))?;
        let (b, b_lines) = self.apart_inside(|body| body.expr(b))?;
        // A scalar condition does not choose between vectors in OpenCL C.
        if a_lines.is_empty() && b_lines.is_empty() && (dtype.lanes() <= 1 || self.unit.words.is_host) {
            let text = format!("({} ? {} : {})", condition.text, a.text, b.text);
            return Ok(Text { text, depth: condition.depth.max(a.depth).max(b.depth) + 1 });
        }
        let ty = self.unit.value_type(dtype)?;
        let name = self.names.unique("t");
        self.line(format!("{ty} {name};"));
        let open = format!("if {} {{", self.condition(&condition.text));
        self.block_of(&open, a_lines, &format!("{name} = {};", a.text));
        self.block_of("} else {", b_lines, &format!("{name} = {};", b.text));
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
        if self.unit.words.vectors != Vectors::Extension {
            let value = self.unit.vector(dtype, &chosen)?;
            return Ok(Text::flat(self.bind("v", dtype, &value)?));
        }
        let ty = self.unit.value_type(dtype)?;
        let name = self.names.unique("v");
        self.line(format!("{ty} {name};"));
        for (lane, value) in chosen.iter().enumerate() {
            let target = self.unit.at(dtype, &name, &lane.to_string());
            let value = if dtype.is_bool() { format!("(({value}) ? -1 : 0)") } else { value.clone() };
            self.line(format!("{target} = {value};"));
        }
        Ok(Text::flat(name))
    }
}

/// The expression that replaces a call that was written as statements.
pub(crate) const DONE: &str = "(void)0";

/// Returns true for the type of a void call.
pub(crate) fn is_void(dtype: DataType) -> bool {
    dtype.lanes() == 0
}
