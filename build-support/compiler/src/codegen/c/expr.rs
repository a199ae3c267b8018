//! Expressions. Nodes without a C expression (a `Let`, a vector built from lanes) become a local
//! before the statement.

use kernpack::DataType;

use super::body::{Body, Text};
use super::types::lane_bits;
use super::vector_memory::Place;
use super::{literal, scalar, vector, vector_memory};
use crate::codegen::parts::is_linear;
use crate::error::{Result, fail};
use crate::ir::builtin::{self, Effect};
use crate::ir::visit::has_part;
use crate::ir::{BinaryOp, Buffer, DataTypeExt, Expr, ExprNode, F32, LogicOp, U32, U64, Var, with_stack};

impl Body<'_> {
    /// Writes an expression.
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<Text> {
        with_stack(|| {
            let Text { text, depth } = self.node(expr)?;
            self.shallow(text, depth, expr.dtype())
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
        let flat = |text: String| Text { text, depth: 0 };
        Ok(match &**expr {
            ExprNode::Int { dtype, value } => {
                self.unit.value_type(*dtype)?;
                flat(literal::integer(*dtype, *value))
            }
            ExprNode::Float { dtype, value } => {
                self.unit.value_type(*dtype)?;
                flat(self.float(*dtype, *value))
            }
            ExprNode::Text { value } => flat(literal::text(value.as_str())),
            ExprNode::Var { .. } => match Var::of(expr) {
                Some(var) => flat(self.local(&var)?.name),
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
            ExprNode::Select { condition, true_value, false_value } => {
                if let ExprNode::Compare { op, a, b } = &**condition
                    && condition.lanes() > 1
                    && !a.dtype().is_bool()
                    && lane_bits(a.dtype()) == lane_bits(dtype)
                {
                    let from = a.dtype();
                    let parts = [a, b, true_value, false_value];
                    let [a, b, c, d] = parts.map(|part| self.expr(part));
                    let (a, b, c, d) = (a?, b?, c?, d?);
                    let texts = [a.text.as_str(), &b.text, &c.text, &d.text];
                    let text = vector::select_compare(self.unit, (*op, from), dtype, texts)?;
                    return Ok(Text { text, depth: a.depth.max(b.depth).max(c.depth).max(d.depth) + 1 });
                }
                let many = condition.lanes() > 1;
                let (condition, a, b) = (self.expr(condition)?, self.expr(true_value)?, self.expr(false_value)?);
                let text = if many {
                    vector::select(self.unit, dtype, &condition.text, &a.text, &b.text)?
                } else {
                    format!("({} ? {} : {})", condition.text, a.text, b.text)
                };
                Text { text, depth: condition.depth.max(a.depth).max(b.depth) + 1 }
            }
            ExprNode::IfThenElse { condition, then_value, else_value } => {
                self.if_then_else(dtype, condition, then_value, else_value)?
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
            ExprNode::Shuffle { vectors, indices } => {
                let vectors = vectors.to_vec();
                let indices: Vec<i64> = indices.to_vec();
                flat(self.shuffle(dtype, &vectors, &indices)?)
            }
            ExprNode::Let { var, value, body } => {
                let text = self.expr(value)?.text;
                self.index_facts.note_value(var, value);
                let ty = self.unit.value_type(var.dtype())?;
                let name = self.define(var, None, false);
                self.line(format!("{ty} const {name} = {text};"));
                self.expr(body)?
            }
            ExprNode::Load { buffer, index, mask, dtype } => {
                let text = self.load(buffer, index, mask.as_ref(), *dtype)?;
                if self.ordered { flat(self.bind("t", *dtype, &text)?) } else { Text { text, depth: 2 } }
            }
            ExprNode::Call { kind, name, args, dtype } => {
                let args = args.to_vec();
                let text = self.call(*kind, name.as_str(), &args, *dtype)?;
                let pure = builtin::effect(*kind, name.as_str()) == Effect::Pure;
                if self.ordered && !pure && !is_void(*dtype) && text != DONE {
                    flat(self.bind("t", *dtype, &text)?)
                } else {
                    Text { text, depth: 8 }
                }
            }
            ExprNode::TensorRead { tensor, .. } => {
                fail!(Lower, "C: a read of tensor `{}` is left: run StorageFlatten first", tensor.op.name())
            }
            ExprNode::Reduce { .. } => fail!(Lower, "C: a reduction is left: lower the schedule first"),
        })
    }

    fn float(&mut self, dtype: DataType, value: f64) -> String {
        if value.is_finite() {
            return literal::float(dtype, value);
        }
        if dtype.bits() == 64 {
            let bits = literal::integer(U64, value.to_bits() as i64);
            scalar::reinterpret(self.unit, U64, dtype, &bits)
        } else {
            let bits = literal::integer(U32, i64::from((value as f32).to_bits()));
            scalar::reinterpret(self.unit, U32, F32, &bits)
        }
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
        self.unit.value_type(dtype)?;
        if let (ExprNode::Broadcast { value, .. }, BinaryOp::ShiftLeft | BinaryOp::ShiftRight) = (&**b, op)
            && let Some(bits) = value.as_int()
            && (0..i64::from(dtype.bits())).contains(&bits)
        {
            let a = self.expr(a)?;
            return Ok(Text { text: vector::shift(self.unit, op, dtype, &a.text, bits)?, depth: a.depth + 1 });
        }
        // Shifts, divisions by powers of two and masks of indices stay as readable as they are.
        self.parts_fit = inside;
        let left = self.expr(a)?;
        self.parts_fit = inside;
        let right = self.expr(b)?;
        let text = if dtype.lanes() > 1 {
            vector::binary(self.unit, op, dtype, &left.text, &right.text)?
        } else if let (BinaryOp::ShiftRight, Some(bits)) = (op, b.as_int())
            && (0..i64::from(dtype.bits())).contains(&bits)
            && dtype.bits() >= 32
        {
            format!("({} >> {bits})", left.text)
        } else {
            scalar::binary(self.unit, op, dtype, &left.text, &right.text, plain)
        };
        Ok(Text { text, depth: left.depth.max(right.depth) + 2 })
    }

    /// A connective. A right operand that reads memory is evaluated only where it matters.
    fn logic(&mut self, op: LogicOp, dtype: DataType, a: &Expr, b: &Expr) -> Result<Text> {
        let reads = has_part(b, |part| match &**part {
            ExprNode::Load { .. } => true,
            ExprNode::Call { kind, name, .. } => builtin::effect(*kind, name.as_str()) > Effect::Pure,
            _ => false,
        });
        let left = self.expr(a)?;
        let is_lazy = reads && dtype.lanes() <= 1;
        self.indent += usize::from(is_lazy);
        let right = self.apart(|body| body.expr(b));
        self.indent -= usize::from(is_lazy);
        let (right, lines) = right?;
        if is_lazy && !lines.is_empty() {
            let name = self.names.unique("t");
            self.line(format!("_Bool {name} = {};", left.text));
            self.line(format!("if ({}{name}) {{", if op == LogicOp::And { "" } else { "!" }));
            self.lines.extend(lines);
            self.line(format!("  {name} = {};", right.text));
            self.line("}");
            return Ok(Text { text: name, depth: 0 });
        }
        self.lines.extend(lines);
        let (a, b, plain) = (&left.text, &right.text, !self.in_index && !reads);
        let text = match (op, dtype.lanes() > 1) {
            (LogicOp::And, true) => vector::binary(self.unit, BinaryOp::BitAnd, dtype, a, b)?,
            (LogicOp::Or, true) => vector::binary(self.unit, BinaryOp::BitOr, dtype, a, b)?,
            // Branches on data prevent C compilers from vectorizing a loop.
            (LogicOp::And, false) if plain => format!("({a} & {b})"),
            (LogicOp::Or, false) if plain => format!("({a} | {b})"),
            (LogicOp::And, false) => format!("({a} && {b})"),
            (LogicOp::Or, false) => format!("({a} || {b})"),
        };
        Ok(Text { text, depth: left.depth.max(right.depth) + 1 })
    }

    fn if_then_else(&mut self, dtype: DataType, condition: &Expr, a: &Expr, b: &Expr) -> Result<Text> {
        if condition.lanes() > 1 {
            fail!(Lower, "C: a vector condition of if_then_else is left: run VectorizeLoop first");
        }
        let condition = self.expr(condition)?;
        self.indent += 1;
        let then_part = self.apart(|body| body.expr(a));
        let else_part = self.apart(|body| body.expr(b));
        self.indent -= 1;
        let ((a, a_lines), (b, b_lines)) = (then_part?, else_part?);
        if a_lines.is_empty() && b_lines.is_empty() {
            let text = format!("({} ? {} : {})", condition.text, a.text, b.text);
            return Ok(Text { text, depth: condition.depth.max(a.depth).max(b.depth) + 1 });
        }
        let ty = self.unit.value_type(dtype)?;
        let name = self.names.unique("t");
        self.line(format!("{ty} {name};"));
        self.line(format!("if ({}) {{", condition.text));
        self.lines.extend(a_lines);
        self.line(format!("  {name} = {};", a.text));
        self.line("} else {");
        self.lines.extend(b_lines);
        self.line(format!("  {name} = {};", b.text));
        self.line("}");
        Ok(Text { text: name, depth: 0 })
    }

    fn shuffle(&mut self, dtype: DataType, vectors: &[Expr], indices: &[i64]) -> Result<String> {
        let mut lanes = Vec::new();
        for source in vectors {
            let from = source.dtype();
            let text = self.expr(source)?.text;
            let name = self.bind("v", from, &text)?;
            for lane in 0..usize::from(from.lanes()) {
                lanes.push(if from.lanes() == 1 { name.clone() } else { vector::extract(from, &name, lane) });
            }
        }
        let chosen = indices
            .iter()
            .map(|index| usize::try_from(*index).ok().and_then(|index| lanes.get(index)).cloned())
            .collect::<Option<Vec<_>>>();
        let Some(chosen) = chosen else {
            fail!(Type, "a shuffle takes a lane that is not among the {} lanes of its vectors", lanes.len())
        };
        if let [only] = &chosen[..] {
            return Ok(only.clone());
        }
        let ty = self.unit.value_type(dtype)?;
        let name = self.names.unique("v");
        self.line(format!("{ty} {name};"));
        for (lane, value) in chosen.iter().enumerate() {
            let target = super::types::at(dtype, &name, &lane.to_string());
            self.line(format!("{target} = {};", vector::lane_value(dtype, value)));
        }
        Ok(name)
    }

    /// Writes a load.
    fn load(&mut self, buffer: &Buffer, index: &Expr, mask: Option<&Expr>, dtype: DataType) -> Result<String> {
        let pointer = self.pointer(buffer)?;
        if dtype.lanes() == 1 {
            let Some(mask) = mask else {
                let index = self.index(index)?;
                return Ok(scalar::from_memory(self.unit, dtype, format!("{pointer}[{index}]")));
            };
            let mask = self.value(mask)?;
            self.indent += 1;
            let index = self.apart(|body| body.index(index));
            self.indent -= 1;
            let (index, lines) = index?;
            let read = scalar::from_memory(self.unit, dtype, format!("{pointer}[{index}]"));
            let zero = if dtype.is_float() { "0.0f" } else { "0" };
            if lines.is_empty() {
                return Ok(format!("({mask} ? {read} : {zero})"));
            }
            let (ty, name) = (self.unit.value_type(dtype)?, self.names.unique("t"));
            self.line(format!("{ty} {name} = {zero};"));
            self.line(format!("if ({mask}) {{"));
            self.lines.extend(lines);
            self.line(format!("  {name} = {read};"));
            self.line("}");
            return Ok(name);
        }
        let place = self.place(buffer, &pointer, index)?;
        let mask = self.mask(mask, dtype)?;
        vector_memory::load(self.unit, dtype, &place, mask.as_deref())
    }

    /// The mask of a load or store for each lane, if it has one.
    pub(super) fn mask(&mut self, mask: Option<&Expr>, dtype: DataType) -> Result<Option<String>> {
        let Some(mask) = mask.filter(|mask| !mask.is_true()) else { return Ok(None) };
        if mask.lanes() != dtype.lanes() && mask.lanes() != 1 {
            fail!(Type, "a mask of {} lanes for {}", mask.lanes(), dtype.short_name());
        }
        let mask = mask.broadcast(if mask.lanes() == 1 { dtype.lanes() } else { 1 });
        self.value(&mask).map(Some)
    }

    /// The memory locations of the lanes of an access.
    pub(super) fn place(&mut self, buffer: &Buffer, pointer: &str, index: &Expr) -> Result<Place> {
        let own = buffer.dtype.lanes();
        match &**index {
            _ if index.lanes() == 1 => {
                let index = self.index(index)?;
                Ok(Place::Contiguous(if own > 1 {
                    format!("({pointer} + {index} * {own})")
                } else {
                    format!("({pointer} + {index})")
                }))
            }
            ExprNode::Ramp { base, stride, .. } if stride.is_int(1) => {
                let base = self.index(base)?;
                Ok(Place::Contiguous(if own > 1 {
                    format!("({pointer} + {base} * {own})")
                } else {
                    format!("({pointer} + {base})")
                }))
            }
            _ if own > 1 => fail!(
                Target,
                "C has no scattered access to buffer `{}`, whose elements are vectors; give it scalar elements",
                buffer.name.as_str()
            ),
            _ => {
                let text = self.index(index)?;
                Ok(Place::Scattered(pointer.to_owned(), text, index.dtype()))
            }
        }
    }
}

/// The expression that replaces a call that was written as statements.
pub(super) const DONE: &str = "(void)0";

/// Returns true for the type of a void call.
pub(super) fn is_void(dtype: DataType) -> bool {
    dtype.lanes() == 0
}
