//! Parsing of statements, functions and modules.

use kernpack::{Any, Array, Map, Str};

use super::parser::{Item, Parser};
use super::token::Token;
use crate::error::Result;
use crate::ir::dtype::NOTHING;
use crate::ir::{
    BOOLEAN, DataTypeExt, Expr, ExprNode, ForKind, FuncKind, I64, IrModule, IrModuleNode, LoweredFunc, LoweredFuncNode,
    Operation, OperationNode, Stmt, StmtNode, with_stack,
};

impl Parser<'_> {
    /// Statements up to the end of the text or to `}`.
    pub(super) fn stmts(&mut self) -> Result<Stmt> {
        let mut stmts = Vec::new();
        loop {
            self.skip_newlines();
            if self.is_sign("}") || *self.peek() == Token::End {
                return Ok(Stmt::seq(stmts));
            }
            if let Some(stmt) = self.stmt()? {
                stmts.push(stmt);
            }
            if !(self.is_sign("}") || self.is_sign(";") || matches!(self.peek(), Token::Newline | Token::End)) {
                return Err(self.expected("the end of the statement"));
            }
        }
    }

    fn body(&mut self) -> Result<Stmt> {
        with_stack(|| {
            self.sign("{")?;
            let mark = self.enter();
            let body = self.stmts()?;
            self.leave(mark);
            self.sign("}")?;
            Ok(body)
        })
    }

    /// A statement; `None` for a view of a buffer.
    fn stmt(&mut self) -> Result<Option<Stmt>> {
        let annotations = self.annotations()?;
        let annotated = !annotations.is_empty();
        let place = self.place();
        let word = match self.peek() {
            Token::Name { text, quoted: false } => text.clone(),
            _ => String::new(),
        };
        let kind = match word.as_str() {
            "for" => Some(ForKind::Serial),
            "parallel" => Some(ForKind::Parallel),
            "vectorized" => Some(ForKind::Vectorized),
            "unrolled" => Some(ForKind::Unrolled),
            "thread_binding" => Some(ForKind::ThreadBinding),
            _ => None,
        };
        if let Some(kind) = kind {
            return self.for_loop(kind, annotations).map(Some);
        }
        if annotated && !matches!(word.as_str(), "alloc" | "realize") {
            return Err(self.error_at(place, "annotations belong to loops, `alloc` and `realize`"));
        }
        Ok(Some(match word.as_str() {
            "alloc" => {
                self.next();
                let declared = self.declaration(false)?;
                let buffer = self.declare(declared);
                Stmt::from_node(StmtNode::Alloc { buffer, annotations })
            }
            "realize" => {
                self.next();
                let tensor = self.tensor()?;
                let region = self.region()?;
                let scope = if self.take_sign("@") { self.name()? } else { String::new() };
                Stmt::from_node(StmtNode::Realize { tensor, region, scope: scope.into(), annotations })
            }
            "prefetch" => {
                self.next();
                let tensor = self.tensor()?;
                let region = self.region()?;
                Stmt::from_node(StmtNode::Prefetch { tensor, region })
            }
            "alias" => {
                self.next();
                let declared = self.declaration(false)?;
                self.sign("=")?;
                // The pointer may belong to a buffer with the same name.
                let data = self.expr()?;
                let buffer = self.declare(declared);
                Stmt::from_node(StmtNode::Alias { buffer, data })
            }
            "view" => {
                self.next();
                self.view()?;
                return Ok(None);
            }
            "let" => {
                self.next();
                let (name, var, value) = self.let_binding()?;
                self.define(&name, Item::Var(var.clone()));
                Stmt::bind(var, value)
            }
            "attr" => self.attr()?,
            "assert" => {
                self.next();
                let condition = self.value_of("a condition", BOOLEAN)?;
                self.sign(",")?;
                let kind = self.string()?;
                let mut parts: Vec<Str> = Vec::new();
                while self.take_sign(",") {
                    parts.push(self.string()?.into());
                }
                Stmt::assert(condition, &kind, parts)
            }
            "if" => self.condition()?,
            "eval" => {
                self.next();
                let value = self.expr()?;
                Stmt::evaluate(value)
            }
            "while" => {
                self.next();
                let condition = self.value_of("a condition", BOOLEAN)?;
                let body = self.body()?;
                Stmt::from_node(StmtNode::While { condition, body })
            }
            "return" => {
                self.next();
                let value = self.expr()?;
                Stmt::return_value(value)
            }
            _ => self.assignment()?,
        }))
    }

    /// `a[i] = value where mask`, `t[i, j] = value`, or a call.
    fn assignment(&mut self) -> Result<Stmt> {
        let place = self.place();
        let target = self.expr()?;
        if !self.take_sign("=") {
            if matches!(&*target, ExprNode::Call { .. }) {
                return Ok(Stmt::evaluate(target));
            }
            return Err(self.expected("`=` and a value"));
        }
        match &*target {
            ExprNode::Load { buffer, index, mask: None, dtype } => {
                let value = self.value_of("the element", *dtype)?;
                let mask = if self.take_word("where") { Some(self.expr()?) } else { None };
                Ok(Stmt::store_masked(buffer.clone(), index, value, mask))
            }
            ExprNode::TensorRead { tensor, indices } => {
                let value = self.value_of("the element", tensor.dtype)?;
                let (tensor, indices) = (tensor.clone(), indices.clone());
                Ok(Stmt::from_node(StmtNode::TensorWrite { tensor, indices, value }))
            }
            _ => Err(self.error_at(place, "only elements of buffers and tensors are written")),
        }
    }

    fn for_loop(&mut self, kind: ForKind, annotations: Map<Str, Any>) -> Result<Stmt> {
        self.next();
        let place = self.place();
        let (name, var) = self.binder(Some(I64))?;
        self.word("in")?;
        let (min, extent) = self.range()?;
        // Numbers take the variable's type.
        let fitted = |expr: Expr| match &*expr {
            ExprNode::Int { dtype: I64, value } if var.dtype() != I64 && var.dtype().can_hold(*value) => {
                Expr::constant(var.dtype(), *value)
            }
            _ => expr,
        };
        let (min, extent) = (fitted(min), fitted(extent));
        self.same_type(place, "a loop and its range", var.dtype(), min.dtype())?;
        self.same_type(place, "a loop and its range", var.dtype(), extent.dtype())?;
        let mark = self.enter();
        self.define(&name, Item::Var(var.clone()));
        let body = self.body()?;
        self.leave(mark);
        Ok(Stmt::for_with(var, min, extent, kind, annotations, body))
    }

    fn condition(&mut self) -> Result<Stmt> {
        with_stack(|| {
            self.word("if")?;
            let condition = self.value_of("a condition", BOOLEAN)?;
            let then_body = self.body()?;
            let else_body = if !self.take_word("else") {
                None
            } else if self.is_word("if") {
                Some(self.condition()?)
            } else {
                Some(self.body()?)
            };
            Ok(Stmt::if_then(condition, then_body, else_body))
        })
    }

    fn attr(&mut self) -> Result<Stmt> {
        self.next();
        let key = self.name()?;
        let mark = self.enter();
        self.sign("(")?;
        let node = self.any()?;
        self.sign(")")?;
        self.sign("=")?;
        let value = self.expr()?;
        let body = self.body()?;
        self.leave(mark);
        Ok(Stmt::from_node(StmtNode::Attr { key: key.into(), node, value, body }))
    }

    /// The free names of the following function.
    fn free(&mut self) -> Result<bool> {
        if self.take_word("var") {
            let (name, var) = self.binder(None)?;
            let given = match self.given.0.get(&name) {
                Some(Item::Var(given)) => given.clone(),
                _ => var,
            };
            self.define(&name, Item::Var(given));
        } else if self.take_word("buffer") {
            self.view()?;
        } else if self.take_word("tensor") {
            let name = self.name()?;
            self.sign(":")?;
            let dtype = self.dtype()?;
            self.sign("[")?;
            let shape: Array<Expr> = self.list("]", |this| this.extent(true))?.into();
            let tensor = match self.given.0.get(&name) {
                Some(Item::Tensor(given)) => given.clone(),
                _ => Operation::from_node(OperationNode::Placeholder {
                    name: name.as_str().into(),
                    span: "".into(),
                    shape,
                    dtype,
                })
                .output(0),
            };
            self.define(&name, Item::Tensor(tensor));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// A function, with the declarations before it.
    pub(super) fn func(&mut self) -> Result<LoweredFunc> {
        self.reset_names();
        self.skip_newlines();
        while self.free()? {
            if !matches!(self.peek(), Token::Newline | Token::End) && !self.is_sign(";") {
                return Err(self.expected("the end of the declaration"));
            }
            self.skip_newlines();
        }
        let attrs = self.annotations()?;
        let kind = if self.take_word("host") {
            FuncKind::Host
        } else if self.take_word("device") {
            FuncKind::Device
        } else if self.take_word("internal") {
            FuncKind::Internal
        } else {
            FuncKind::Mixed
        };
        if !self.is_word("func") {
            return Err(self.expected("`func`, a declaration (`var`, `buffer`, `tensor`) or `#[key = value]`"));
        }
        self.next();
        let name = self.name()?;
        self.sign("(")?;
        let params = self.list(")", |this| this.param())?;
        let ret = if self.take_sign("->") { self.dtype()? } else { NOTHING };
        let mut thread_axes = Vec::new();
        if self.take_word("threads") {
            self.sign("[")?;
            thread_axes = self.list("]", |this| this.iter_var())?;
        }
        let body = self.body()?;
        Ok(LoweredFunc::from_node(LoweredFuncNode {
            name: name.into(),
            params: params.into(),
            ret,
            kind,
            thread_axes: thread_axes.into(),
            body,
            attrs,
        }))
    }

    pub(super) fn module(&mut self) -> Result<IrModule> {
        let (mut attrs, mut functions) = (Vec::new(), Vec::new());
        self.skip_newlines();
        while self.take_sign("#![") {
            attrs.push(self.entry()?);
            self.skip_newlines();
        }
        while *self.peek() != Token::End {
            functions.push(self.func()?);
            self.skip_newlines();
        }
        Ok(IrModule::from_node(IrModuleNode { functions: functions.into(), attrs: attrs.into_iter().collect() }))
    }
}
