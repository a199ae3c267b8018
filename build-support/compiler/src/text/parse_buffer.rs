//! Parsing of buffers and parameters: names, types, shapes.

use super::parser::{Item, Parser};
use super::token::Token;
use crate::error::Result;
use crate::ir::{Buffer, BufferNode, DEFAULT_ALIGNMENT, Expr, I64, POINTER, Param, ParamNode, Var};

/// A buffer that is declared, before its name is in scope.
pub(super) struct Declared {
    pub(super) buffer: Buffer,
    pub(super) names: Vec<(String, Item)>,
    /// True if `mut` precedes its type.
    pub(super) output: bool,
}

impl Parser<'_> {
    /// `name: f32[12, 32] @local align 64`: a new buffer. In a parameter, unknown names in the
    /// shape are symbols.
    pub(super) fn declaration(&mut self, param: bool) -> Result<Declared> {
        if self.take_word("same") {
            let place = self.place();
            let name = self.name()?;
            let Some(Item::Buffer(buffer)) = self.known.get(&name).cloned() else {
                return Err(self.unknown(place, &name, "buffer"));
            };
            self.sign(":")?;
            let output = param && self.take_word("mut");
            self.buffer_type(&name, buffer.data.clone(), param)?;
            let names = vec![(name, Item::Buffer(buffer.clone()))];
            return Ok(Declared { buffer, names, output });
        }
        let name = self.name()?;
        let (mut pointer, mut data) = (Some(format!("{name}.data")), Var::new(&name, POINTER));
        if self.take_word("same") {
            data = self.same_var()?;
            pointer = None;
        } else if self.take_word("data") {
            pointer = Some(self.name()?);
        }
        self.sign(":")?;
        let output = param && self.take_word("mut");
        let buffer = self.buffer_type(&name, data, param)?;
        let mut names = vec![(name, Item::Buffer(buffer.clone()))];
        names.extend(pointer.map(|pointer| (pointer, Item::Var(buffer.data.clone()))));
        Ok(Declared { buffer, names, output })
    }

    /// The buffer of a declaration; its name is in scope from here on.
    pub(super) fn declare(&mut self, declared: Declared) -> Buffer {
        for (name, item) in declared.names {
            self.define(&name, item);
        }
        declared.buffer
    }

    /// Another node for known memory, until the end of the function.
    pub(super) fn view(&mut self) -> Result<()> {
        let name = self.name()?;
        self.sign(":")?;
        let buffer = self.buffer_type(&name, Var::new(&name, POINTER), false)?;
        self.sign("=")?;
        let place = self.place();
        let pointer = self.expr()?;
        let Some(data) = Var::of(&pointer) else {
            return Err(self.error_at(place, "a view is of a data pointer: `a.data`"));
        };
        let buffer = Buffer::from_node(BufferNode { data, ..buffer.to_node() });
        self.define_lasting(&name, Item::Buffer(buffer));
        Ok(())
    }

    pub(super) fn buffer_type(&mut self, name: &str, data: Var, param: bool) -> Result<Buffer> {
        let dtype = self.dtype()?;
        self.sign("[")?;
        let shape = self.list("]", |this| this.extent(param))?;
        let scope = if self.take_sign("@") { self.name()? } else { "global".to_owned() };
        let mut strides = Vec::new();
        if self.take_word("strides") {
            self.sign("[")?;
            strides = self.list("]", |this| this.extent(param))?;
        }
        let mut elem_offset = Expr::int(0);
        if self.take_word("offset") {
            self.sign("(")?;
            elem_offset = self.extent(param)?;
            self.sign(")")?;
        }
        let data_alignment = if self.take_word("align") { self.integer()? } else { DEFAULT_ALIGNMENT };
        let offset_factor = if self.take_word("factor") { self.integer()? } else { 0 };
        Ok(Buffer::from_node(BufferNode {
            data,
            name: name.into(),
            dtype,
            shape: shape.into(),
            strides: strides.into(),
            elem_offset,
            scope: scope.into(),
            data_alignment,
            offset_factor,
        }))
    }

    /// An extent, stride or offset; in a parameter, a new name is a symbol, which is a size unless
    /// it has another type.
    pub(super) fn extent(&mut self, param: bool) -> Result<Expr> {
        if let Token::Name { text, .. } = self.peek().clone()
            && param
            && self.lookup(&text).is_none()
            && matches!(self.peek_after(1), Token::Sign("," | "]" | ":" | ")"))
        {
            let var = if matches!(self.peek_after(1), Token::Sign(":")) {
                self.binder(None)?.1
            } else {
                self.next();
                Var::size(&text, I64)
            };
            self.define(&text, Item::Var(var.clone()));
            return Ok(var.into());
        }
        self.expr()
    }

    pub(super) fn param(&mut self) -> Result<Param> {
        let mut ahead = 0;
        while !matches!(self.peek_after(ahead), Token::Sign("[" | "," | ")") | Token::End) {
            ahead += 1;
        }
        if *self.peek_after(ahead) != Token::Sign("[") {
            let output = self.take_word("mut");
            let (name, var) = self.binder(None)?;
            self.define(&name, Item::Var(var.clone()));
            return Ok(Param::from_node(ParamNode { var, buffer: None, output }));
        }
        let declared = self.declaration(true)?;
        let output = declared.output;
        let buffer = self.declare(declared);
        let mut var = buffer.data.clone();
        if self.take_word("handle") {
            let (name, handle) = self.binder(Some(POINTER))?;
            self.define(&name, Item::Var(handle.clone()));
            var = handle;
        }
        Ok(Param::from_node(ParamNode { var, buffer: Some(buffer), output }))
    }
}
