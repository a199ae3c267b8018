//! Statements.

use kernpack::{Any, Str};
use kernpack_compiler::Result;
use kernpack_compiler::ir::{Expr, ForKind, Stmt, StmtNode, Var, with_stack};

use crate::graph::{Graph, problem};

impl Graph<'_> {
    /// A statement.
    pub(crate) fn stmt(&mut self, index: usize) -> Result<Stmt> {
        with_stack(|| self.convert_stmt(index))
    }

    fn body(&mut self, index: usize, name: &str) -> Result<Stmt> {
        self.stmt(self.field(index, name)?)
    }

    fn value(&mut self, index: usize, name: &str) -> Result<Expr> {
        self.expr(self.field(index, name)?)
    }

    fn convert_stmt(&mut self, index: usize) -> Result<Stmt> {
        Ok(match self.key(index)? {
            "tirx.SeqStmt" => {
                let parts: Result<Vec<_>> =
                    self.array(self.field(index, "seq")?)?.into_iter().map(|part| self.stmt(part)).collect();
                Stmt::seq(parts?)
            }
            "tirx.For" => self.convert_for(index)?,
            "tirx.While" => {
                let (condition, body) = (self.value(index, "condition")?, self.body(index, "body")?);
                Stmt::from_node(StmtNode::While { condition, body })
            }
            "tirx.IfThenElse" => {
                let (condition, then_body) = (self.value(index, "condition")?, self.body(index, "then_case")?);
                let else_body = self.optional(index, "else_case")?.map(|case| self.stmt(case)).transpose()?;
                Stmt::if_then(condition, then_body, else_body)
            }
            "tirx.AssertStmt" => {
                let condition = self.value(index, "condition")?;
                let kind = self.text(self.field(index, "error_kind")?)?;
                let parts: Result<Vec<Str>> = self
                    .array(self.field(index, "message_parts")?)?
                    .into_iter()
                    .map(|part| Ok(Str::from(self.text(part)?)))
                    .collect();
                Stmt::assert(condition, &kind, parts?)
            }
            "tirx.AttrStmt" => self.convert_attr(index)?,
            "tirx.Bind" => {
                let value = self.value(index, "value")?;
                Stmt::bind(self.var(self.field(index, "var")?)?, value)
            }
            "tirx.AllocBuffer" => Stmt::alloc(self.buffer(self.field(index, "buffer")?)?),
            "tirx.DeclBuffer" => {
                let data = self.value(index, "data")?;
                let buffer = self.buffer(self.field(index, "buffer")?)?;
                // A declaration of the buffer's own data adds nothing.
                if data.same_as(buffer.data.expr()) {
                    return Ok(Stmt::nothing());
                }
                Stmt::from_node(StmtNode::Alias { buffer, data })
            }
            "tirx.BufferStore" => {
                let buffer = self.buffer(self.field(index, "buffer")?)?;
                let place = self.place(self.field(index, "indices")?)?;
                Stmt::store(buffer, place, self.value(index, "value")?)
            }
            "tirx.Evaluate" => Stmt::evaluate(self.value(index, "value")?),
            "tirx.Return" => Stmt::return_value(self.value(index, "value")?),
            key => return Err(problem(format!("unknown node {key}"))),
        })
    }

    fn convert_for(&mut self, index: usize) -> Result<Stmt> {
        let var = self.var(self.field(index, "loop_var")?)?;
        let (min, extent) = (self.value(index, "min")?, self.value(index, "extent")?);
        let kind = match self.data(index)["kind"].as_i64() {
            Some(0) => ForKind::Serial,
            Some(1) => ForKind::Parallel,
            other => return Err(problem(format!("unknown kind of a loop: {other:?}"))),
        };
        if let Some(step) = self.optional(index, "step")? {
            return Err(problem(format!("a loop with step node {step}")));
        }
        let body = self.body(index, "body")?;
        Ok(Stmt::for_loop(var, min, extent, kind, body))
    }

    fn convert_attr(&mut self, index: usize) -> Result<Stmt> {
        let key = self.text(self.field(index, "attr_key")?)?;
        let value = self.field(index, "value")?;
        match key.as_str() {
            // An attribute of a buffer's data pointer, which is its variable.
            "storage_alignment" => {
                let node: Var = self.var(self.field(index, "node")?)?;
                let (align, body) = (self.expr(value)?, self.body(index, "body")?);
                Ok(Stmt::attr(&key, node.expr().clone(), align, body))
            }
            "compute_scope" => {
                let (name, body) = (self.text(value)?, self.body(index, "body")?);
                Ok(Stmt::attr(&key, Any::from(name.as_str()), 0, body))
            }
            _ => Err(problem(format!("unknown attribute {key}"))),
        }
    }
}
