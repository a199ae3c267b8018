//! Parsing of expressions. Nodes are created without folding.

use super::parser::{Item, Parser};
use super::print_expr::{binary_form, compare_sign, level};
use super::token::Token;
use crate::error::Result;
use crate::ir::builder::round_float;
use crate::ir::{
    BOOLEAN, BinaryOp, CallKind, CompareOp, DataType, DataTypeExt, Expr, ExprNode, F32, I64, LogicOp, Var, with_stack,
};

/// An expression; for a number without a type also the number, which takes the type of the other
/// operand.
pub(super) struct Value {
    pub(super) expr: Expr,
    pub(super) bare: Option<f64>,
}

impl From<Expr> for Value {
    fn from(expr: Expr) -> Self {
        Self { expr, bare: None }
    }
}

/// The kind of an infix operator.
#[derive(Clone, Copy)]
pub(super) enum Infix {
    Binary(BinaryOp),
    Compare(CompareOp),
    Logic(LogicOp),
}

fn infix(sign: &str) -> Option<(Infix, u8)> {
    match sign {
        "&&" => return Some((Infix::Logic(LogicOp::And), level::AND)),
        "||" => return Some((Infix::Logic(LogicOp::Or), level::OR)),
        _ => {}
    }
    if let Some(op) = CompareOp::ALL.into_iter().find(|op| compare_sign(*op) == sign) {
        return Some((Infix::Compare(op), level::COMPARE));
    }
    BinaryOp::ALL.into_iter().find_map(|op| match binary_form(op) {
        Ok((found, own)) if found == sign => Some((Infix::Binary(op), own)),
        _ => None,
    })
}

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Result<Expr> {
        Ok(self.value()?.expr)
    }

    pub(super) fn value(&mut self) -> Result<Value> {
        self.infix_value(0)
    }

    /// Parses operators that bind at least as tightly as `place`.
    pub(super) fn infix_value(&mut self, place: u8) -> Result<Value> {
        with_stack(|| {
            let mut left = self.unary()?;
            loop {
                if place <= level::CAST && self.is_word("as") {
                    self.next();
                    let at = self.place();
                    let dtype = self.dtype()?;
                    if dtype.lanes() != left.expr.lanes() {
                        let (old, new) = (left.expr.dtype().short_name(), dtype.short_name());
                        return Err(self.error_at(at, format!("a cast of {old} to {new}: the lanes differ")));
                    }
                    left = Expr::from_node(ExprNode::Cast { dtype, value: left.expr }).into();
                    continue;
                }
                let Token::Sign(sign) = self.peek() else { return Ok(left) };
                let Some((op, own)) = infix(sign).filter(|(_, own)| *own >= place) else { return Ok(left) };
                let at = self.place();
                self.next();
                let right = self.infix_value(own + 1)?;
                left = self.combine(at, op, left, right)?.into();
                if own == level::COMPARE
                    && let Token::Sign(sign) = self.peek()
                    && matches!(infix(sign), Some((Infix::Compare(_), _)))
                {
                    return Err(self.error("comparisons do not follow each other: write parentheses"));
                }
            }
        })
    }

    /// Converts both operands to one type: a number without a type takes that of the other one.
    pub(super) fn fit(&self, place: usize, what: &str, a: Value, b: Value) -> Result<(Expr, Expr)> {
        let (a, b) = match (a.bare, b.bare) {
            (_, Some(number)) if a.expr.dtype() != b.expr.dtype() => {
                (a.expr.clone(), self.typed(a.expr.dtype(), number, b.expr))
            }
            (Some(number), None) if a.expr.dtype() != b.expr.dtype() => {
                (self.typed(b.expr.dtype(), number, a.expr), b.expr)
            }
            _ => (a.expr, b.expr),
        };
        self.same_type(place, what, a.dtype(), b.dtype())?;
        Ok((a, b))
    }

    /// A number without a type as a constant of this type, if the type can represent it.
    pub(super) fn typed(&self, dtype: DataType, number: f64, own: Expr) -> Expr {
        match &*own {
            ExprNode::Int { value, .. } if dtype.is_scalar() && dtype.can_hold(*value) => Expr::constant(dtype, *value),
            ExprNode::Float { .. } if dtype.is_scalar() && dtype.is_float() => {
                Expr::from_node(ExprNode::Float { dtype, value: round_float(dtype, number) })
            }
            _ => own,
        }
    }

    /// An expression of a type: a number without a type takes it.
    pub(super) fn value_of(&mut self, what: &str, dtype: DataType) -> Result<Expr> {
        let place = self.place();
        let value = self.value()?;
        let expr = match value.bare {
            Some(number) => self.typed(dtype, number, value.expr),
            None => value.expr,
        };
        if expr.dtype() != dtype {
            let (wanted, found) = (dtype.short_name(), expr.dtype().short_name());
            return Err(self.error_at(place, format!("{what} is {wanted}, got a value of {found}")));
        }
        Ok(expr)
    }

    pub(super) fn combine(&self, place: usize, op: Infix, a: Value, b: Value) -> Result<Expr> {
        let (a, b) = self.fit(place, "an operation", a, b)?;
        Ok(Expr::from_node(match op {
            Infix::Binary(op) => {
                let dtype = a.dtype();
                ExprNode::Binary { op, a, b, dtype }
            }
            Infix::Compare(op) => ExprNode::Compare { op, a, b },
            Infix::Logic(op) => {
                if !a.dtype().is_bool() {
                    return Err(self.error_at(place, format!("a connective of {}", a.dtype().short_name())));
                }
                ExprNode::Logic { op, a, b }
            }
        }))
    }

    pub(super) fn unary(&mut self) -> Result<Value> {
        let place = self.place();
        if self.take_sign("!") {
            let value = with_stack(|| self.unary())?.expr;
            if !value.dtype().is_bool() {
                return Err(self.error_at(place, format!("a negation of {}", value.dtype().short_name())));
            }
            return Ok(Expr::from_node(ExprNode::Not { value }).into());
        }
        if self.take_sign("-") {
            return match self.peek() {
                Token::Number { .. } => self.number(true),
                Token::Name { text, quoted: false } if special(text).is_some() => self.number(true),
                _ => Err(self.expected("a number: a negative value is `0 - x`")),
            };
        }
        self.primary()
    }

    /// A constant.
    pub(super) fn number(&mut self, negative: bool) -> Result<Value> {
        let place = self.place();
        let (digits, suffix, value) = match self.next() {
            Token::Number { digits, suffix } => {
                let value = digits.parse::<f64>().map_err(|_| self.error_at(place, "a number that cannot be read"))?;
                (digits, suffix, value)
            }
            Token::Name { text, .. } => match special(&text) {
                Some((value, suffix)) => (String::new(), suffix.to_owned(), value),
                None => return Err(self.error_at(place, "expected a number")),
            },
            _ => return Err(self.error_at(place, "expected a number")),
        };
        let dtype = if suffix.is_empty() { None } else { Some(self.suffix(place, &suffix)?) };
        let whole = !digits.is_empty() && !digits.contains(['.', 'e', 'E']);
        if whole && !dtype.is_some_and(|dtype| dtype.is_float()) {
            let magnitude: u64 = digits.parse().map_err(|_| self.error_at(place, "an integer of more than 64 bits"))?;
            let value = if negative { (magnitude as i64).wrapping_neg() } else { magnitude as i64 };
            let dtype = dtype.unwrap_or(I64);
            let fits = if dtype.is_uint() && dtype.bits() == 64 {
                !negative || magnitude == 0
            } else if negative {
                magnitude <= 1 << 63
            } else {
                i64::try_from(magnitude).is_ok()
            };
            if !fits {
                return Err(self.error_at(place, format!("{digits} is not a value of type {}", dtype.short_name())));
            }
            let bare = suffix.is_empty().then_some(value as f64);
            return Ok(Value { expr: Expr::from_node(ExprNode::Int { dtype, value }), bare });
        }
        let sign = if negative { -1.0 } else { 1.0 };
        Ok(match dtype {
            Some(dtype) if dtype.is_float() => Expr::from_node(ExprNode::Float { dtype, value: sign * value }).into(),
            Some(dtype) => {
                return Err(self.error_at(place, format!("{digits} is not a value of type {}", dtype.short_name())));
            }
            None => {
                // Rounded once, from the digits.
                let single = digits.parse::<f32>().map_or(value, f64::from);
                let expr = Expr::from_node(ExprNode::Float { dtype: F32, value: sign * single });
                Value { expr, bare: Some(sign * value) }
            }
        })
    }

    pub(super) fn suffix(&self, place: usize, suffix: &str) -> Result<DataType> {
        Self::dtype_of(suffix).ok_or_else(|| self.error_at(place, format!("unknown type `{suffix}` behind a number")))
    }

    pub(super) fn primary(&mut self) -> Result<Value> {
        let place = self.place();
        match self.peek().clone() {
            Token::Number { .. } => self.number(false),
            Token::Text(text) => {
                self.next();
                Ok(Expr::text(&text).into())
            }
            Token::Sign("(") => {
                self.next();
                let value = self.parenthesized()?;
                self.sign(")")?;
                Ok(value.into())
            }
            Token::Name { text, quoted: false } => {
                if special(&text).is_some() {
                    return self.number(false);
                }
                let value = match text.as_str() {
                    "true" | "false" => {
                        self.next();
                        Expr::from_node(ExprNode::Int { dtype: BOOLEAN, value: i64::from(text == "true") })
                    }
                    "builtin" => self.named_call(CallKind::Builtin)?,
                    "extern" => self.named_call(CallKind::Extern)?,
                    "pure_extern" => self.named_call(CallKind::PureExtern)?,
                    "llvm" => self.named_call(CallKind::LlvmIntrinsic)?,
                    "packed" => self.named_call(CallKind::Packed)?,
                    "function" => self.named_call(CallKind::Function)?,
                    _ => match self.peek_after(1) {
                        Token::Sign("(") => self.form(&text)?,
                        Token::Sign("::") => {
                            self.next();
                            self.call(place, CallKind::Builtin, &text)?
                        }
                        _ => self.reference()?,
                    },
                };
                Ok(value.into())
            }
            Token::Name { quoted: true, .. } => Ok(self.reference()?.into()),
            _ => Err(self.expected("an expression")),
        }
    }

    /// The content of parentheses: `let x = v in body`, a load with a mask, or an expression.
    pub(super) fn parenthesized(&mut self) -> Result<Expr> {
        with_stack(|| {
            if self.take_word("let") {
                let (name, var, value) = self.let_binding()?;
                self.word("in")?;
                let mark = self.enter();
                self.define(&name, Item::Var(var.clone()));
                let body = self.expr()?;
                self.leave(mark);
                return Ok(Expr::from_node(ExprNode::Let { var, value, body }));
            }
            let expr = self.expr()?;
            let place = self.place();
            if !self.take_word("where") {
                return Ok(expr);
            }
            let mask = self.expr()?;
            match &*expr {
                ExprNode::Load { buffer, index, mask: None, .. } => Ok(Expr::load_masked(buffer, index, Some(mask))),
                _ => Err(self.error_at(place, "a mask belongs to a load: `(a[i : 8] where m)`")),
            }
        })
    }

    /// `x = v` after `let`: the name, the variable, which is not in scope yet, and the value.
    pub(super) fn let_binding(&mut self) -> Result<(String, Var, Expr)> {
        let typed = matches!(self.peek_after(1), Token::Sign(":")) || self.is_word("same");
        if typed {
            let (name, var) = self.binder(None)?;
            self.sign("=")?;
            let value = self.value_of("the variable", var.dtype())?;
            return Ok((name, var, value));
        }
        let name = self.name()?;
        self.sign("=")?;
        let value = self.expr()?;
        let var = Var::new(&name, value.dtype());
        Ok((name, var, value))
    }

    /// A variable, or an element of a buffer or tensor.
    pub(super) fn reference(&mut self) -> Result<Expr> {
        let place = self.place();
        let name = self.name()?;
        match self.lookup(&name).cloned() {
            Some(Item::Var(var)) if !self.is_sign("[") => Ok(var.into()),
            Some(Item::Buffer(buffer)) => {
                if !self.is_sign("[") {
                    return Err(self
                        .error_at(place, format!("buffer `{name}` in place of a value"))
                        .note(format!("`{name}[i]` loads an element, `{name}.data` is the data pointer")));
                }
                let index = self.index()?;
                Ok(Expr::load(&buffer, index))
            }
            Some(Item::Tensor(tensor)) => {
                self.sign("[")?;
                let indices = self.list("]", |this| this.expr())?;
                Ok(Expr::from_node(ExprNode::TensorRead { tensor, indices: indices.into() }))
            }
            Some(Item::Var(_)) => Err(self.error_at(place, format!("variable `{name}` has no elements"))),
            None => Err(self.unknown(place, &name, "name")),
        }
    }

    /// `[i]`, `[base : lanes]`, `[base ; stride : lanes]`
    pub(super) fn index(&mut self) -> Result<Expr> {
        self.sign("[")?;
        let base = self.value()?;
        let place = self.place();
        let index = if self.take_sign(";") {
            let stride = self.value()?;
            let (base, stride) = self.fit(place, "a ramp", base, stride)?;
            self.sign(":")?;
            let lanes = self.lanes()?;
            Expr::from_node(ExprNode::Ramp { base, stride, lanes })
        } else if self.take_sign(":") {
            let lanes = self.lanes()?;
            let stride = Expr::from_node(ExprNode::Int { dtype: base.expr.dtype(), value: 1 });
            Expr::from_node(ExprNode::Ramp { base: base.expr, stride, lanes })
        } else {
            base.expr
        };
        if !index.dtype().is_integer() {
            return Err(self.error_at(place, format!("an index of {}", index.dtype().short_name())));
        }
        if !self.is_sign("]") {
            return Err(self.expected("`]`, `:` and a number of lanes, or `;` and a stride"));
        }
        self.next();
        Ok(index)
    }

    pub(super) fn lanes(&mut self) -> Result<u16> {
        let place = self.place();
        let lanes = self.integer()?;
        u16::try_from(lanes)
            .ok()
            .filter(|lanes| *lanes > 1)
            .ok_or_else(|| self.error_at(place, format!("{lanes} lanes: a vector has 2 to 65535")))
    }
}

/// `inf`, `nan`, and with a type `inf_f64`.
fn special(text: &str) -> Option<(f64, &str)> {
    let (name, suffix) = text.split_once('_').unwrap_or((text, ""));
    match name {
        "inf" => Some((f64::INFINITY, suffix)),
        "nan" => Some((f64::NAN, suffix)),
        _ => None,
    }
    .filter(|_| suffix.is_empty() || Parser::dtype_of(suffix).is_some())
}
