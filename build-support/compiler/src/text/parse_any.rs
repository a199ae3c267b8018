//! Parsing of values of any type, in attributes and annotations.

use kernpack::{Any, Array, IntoAny, Map, Str};

use super::parser::{Item, Parser};
use super::token::Token;
use crate::error::Result;
use crate::ir::{F32, I64, IterKind, IterVar, IterVarNode, Range, Reducer, ReducerNode, with_stack};

impl Parser<'_> {
    pub(super) fn region(&mut self) -> Result<Array<Range>> {
        self.sign("[")?;
        let ranges = self.list("]", |this| {
            let (min, extent) = this.range()?;
            Ok(Range::new(min, extent))
        })?;
        Ok(ranges.into())
    }

    /// `axis name kind "tag" in range`
    pub(super) fn iter_var(&mut self) -> Result<IterVar> {
        self.word("axis")?;
        let (name, var) = self.binder(Some(I64))?;
        let place = self.place();
        let kind = match self.name()?.as_str() {
            "data" => IterKind::DataPar,
            "thread" => IterKind::ThreadIndex,
            "reduce" => IterKind::CommReduce,
            "ordered" => IterKind::Ordered,
            "opaque" => IterKind::Opaque,
            _ => return Err(self.error_at(place, "expected data, thread, reduce, ordered or opaque")),
        };
        let thread_tag = if matches!(self.peek(), Token::Text(_)) { self.string()? } else { String::new() };
        let dom = if self.take_word("in") {
            let (min, extent) = self.range()?;
            Some(Range::new(min, extent))
        } else {
            None
        };
        self.define(&name, Item::Var(var.clone()));
        Ok(IterVar::from_node(IterVarNode { dom, var, kind, thread_tag: thread_tag.into(), span: "".into() }))
    }

    pub(super) fn reducer(&mut self) -> Result<Reducer> {
        self.word("reducer")?;
        let mark = self.enter();
        let mut sides = Vec::new();
        for _ in 0..2 {
            self.sign("(")?;
            let vars = self.list(")", |this| {
                let (name, var) = this.binder(Some(F32))?;
                this.define(&name, Item::Var(var.clone()));
                Ok(var)
            })?;
            sides.push(vars);
        }
        self.sign("=>")?;
        self.sign("(")?;
        let results = self.list(")", |this| this.expr())?;
        self.word("identity")?;
        self.sign("(")?;
        let identity = self.list(")", |this| this.expr())?;
        self.leave(mark);
        let rhs = sides.pop().unwrap_or_default();
        let lhs = sides.pop().unwrap_or_default();
        Ok(Reducer::from_node(ReducerNode {
            lhs: lhs.into(),
            rhs: rhs.into(),
            results: results.into(),
            identity: identity.into(),
        }))
    }

    /// A value of any type, in the format of attributes.
    pub(super) fn any(&mut self) -> Result<Any> {
        let place = self.place();
        if matches!(self.peek(), Token::Text(_)) {
            return Ok(Str::from(self.string()?.as_str()).into_any());
        }
        if self.take_sign("[") {
            let items: Array<Any> = self.list("]", |this| with_stack(|| this.any()))?.into();
            return Ok(items.into_any());
        }
        if self.take_sign("{") {
            let entries = self.list("}", |this| {
                let key = this.string()?;
                this.sign(":")?;
                Ok((Str::from(key.as_str()), with_stack(|| this.any())?))
            })?;
            let map: Map<Str, Any> = entries.into_iter().collect();
            return Ok(map.into_any());
        }
        let number = usize::from(self.is_sign("-"));
        match self.peek_after(number).clone() {
            Token::Number { digits, suffix } if suffix.is_empty() => {
                if !digits.contains(['.', 'e', 'E']) {
                    return Ok(self.integer()?.into_any());
                }
                let value: f64 = digits.parse().map_err(|_| self.expected("a number"))?;
                self.next();
                if number == 1 {
                    self.next();
                }
                return Ok(if number == 1 { -value } else { value }.into_any());
            }
            Token::Name { text, quoted: false } if text == "inf" || text == "nan" => {
                for _ in 0..=number {
                    self.next();
                }
                let value = if text == "inf" { f64::INFINITY } else { f64::NAN };
                return Ok(if number == 1 { -value } else { value }.into_any());
            }
            _ => {}
        }
        if self.is_word("axis") {
            return Ok(self.iter_var()?.into_any());
        }
        if self.is_word("reducer") {
            return Ok(self.reducer()?.into_any());
        }
        let what = "a value: a number, text, true, false, none, [..], {..}, dtype, expr, axis, buffer, tensor, reducer";
        let Token::Name { text, quoted: false } = self.peek().clone() else { return Err(self.expected(what)) };
        self.next();
        Ok(match text.as_str() {
            "none" => Any::default(),
            "true" => true.into_any(),
            "false" => false.into_any(),
            "dtype" => self.dtype()?.into_any(),
            "expr" => self.expr()?.into_any(),
            "buffer" => self.buffer()?.into_any(),
            "tensor" => self.tensor()?.into_any(),
            "json" => {
                let json = self.string()?;
                kernpack::reflect::from_json(&json).map_err(|error| {
                    self.error_at(place, format!("a graph that cannot be read: {}", error.message()))
                })?
            }
            _ => return Err(self.error_at(place, format!("expected {what}, got `{text}`"))),
        })
    }

    /// `#[key = value]` lines.
    pub(super) fn annotations(&mut self) -> Result<Map<Str, Any>> {
        let mut entries = Vec::new();
        while self.take_sign("#[") {
            entries.push(self.entry()?);
            self.skip_newlines();
        }
        Ok(entries.into_iter().collect())
    }

    /// `key = value]`
    pub(super) fn entry(&mut self) -> Result<(Str, Any)> {
        let key = self.name()?;
        self.sign("=")?;
        let value = self.any()?;
        self.sign("]")?;
        Ok((Str::from(key.as_str()), value))
    }
}
