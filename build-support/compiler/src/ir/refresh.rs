//! Copies of statements with their own definitions, so that a program with two copies still defines
//! every variable once.

use std::collections::HashMap;

use super::buffer::{Buffer, BufferNode};
use super::expr::{Expr, ExprNode, Var};
use super::mutate::{Mutate, mutate_expr_parts, mutate_part, mutate_stmt_parts};
use super::shared::Memo;
use super::stmt::{Stmt, StmtNode};
use super::substitute::VarMap;
use crate::error::Result;

/// Replaces variables by expressions, and buffers by buffers, everywhere, including the shapes and
/// data pointers of buffers.
#[derive(Default)]
pub struct Replace {
    /// The values of variables.
    pub vars: VarMap,
    /// The replacements of buffers.
    pub buffers: HashMap<Buffer, Buffer>,
    /// True if definitions inside get new variables.
    pub refresh: bool,
    /// The memo of shared parts under the current variables and buffers.
    pub memo: Memo,
}

impl Replace {
    /// Creates a replacement that substitutes values for variables and gives all definitions new
    /// variables.
    pub fn fresh(vars: VarMap) -> Self {
        Self { vars, refresh: true, ..Self::default() }
    }

    fn new_var(&mut self, var: &Var) -> Var {
        if !self.refresh {
            return var.clone();
        }
        let new = var.renamed(var.name());
        self.vars.insert(var.clone(), new.expr().clone());
        self.memo.clear();
        new
    }

    /// The current replacement of a buffer.
    pub fn buffer(&mut self, buffer: &Buffer) -> Result<Buffer> {
        if let Some(new) = self.buffers.get(buffer) {
            return Ok(new.clone());
        }
        let data = match self.vars.get(&buffer.data).and_then(Var::of) {
            Some(data) => data,
            None => buffer.data.clone(),
        };
        let mut changed = data != buffer.data;
        let mut node = BufferNode { data, ..buffer.to_node() };
        for list in [&mut node.shape, &mut node.strides] {
            if let Some(new) = super::mutate::mutate_exprs(self, list)? {
                *list = new;
                changed = true;
            }
        }
        let offset = self.mutate_expr(&node.elem_offset)?;
        changed |= !offset.same_as(&node.elem_offset);
        node.elem_offset = offset;
        let new = if changed { Buffer::from_node(node) } else { buffer.clone() };
        self.buffers.insert(buffer.clone(), new.clone());
        Ok(new)
    }

    fn defined_buffer(&mut self, buffer: &Buffer) -> Result<Buffer> {
        self.new_var(&buffer.data);
        self.buffers.remove(buffer);
        self.memo.clear();
        self.buffer(buffer)
    }
}

impl Mutate for Replace {
    fn memo(&mut self) -> Option<&mut Memo> {
        Some(&mut self.memo)
    }

    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        match &**expr {
            ExprNode::Var { .. } => {
                Ok(Var::of(expr).and_then(|var| self.vars.get(&var).cloned()).unwrap_or_else(|| expr.clone()))
            }
            ExprNode::Let { var, value, body } => {
                let value = mutate_part(self, value)?;
                let var = self.new_var(var);
                let body = super::with_stack(|| mutate_part(self, body))?;
                Ok(Expr::from_node(ExprNode::Let { var, value, body }))
            }
            ExprNode::Load { buffer, index, mask, .. } => {
                let new = self.buffer(buffer)?;
                let (new_index, new_mask) =
                    (mutate_part(self, index)?, mask.as_ref().map(|mask| mutate_part(self, mask)).transpose()?);
                Ok(Expr::load_masked(&new, new_index, new_mask))
            }
            _ => mutate_expr_parts(self, expr),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        Ok(match &**stmt {
            StmtNode::For { var, min, extent, kind, annotations, body } => {
                let (min, extent) = (self.mutate_expr(min)?, self.mutate_expr(extent)?);
                let var = self.new_var(var);
                let body = super::with_stack(|| self.mutate_stmt(body))?;
                Stmt::for_with(var, min, extent, *kind, annotations.clone(), body)
            }
            StmtNode::Store { buffer, index, value, mask } => {
                let buffer = self.buffer(buffer)?;
                let (index, value) = (self.mutate_expr(index)?, self.mutate_expr(value)?);
                let mask = mask.as_ref().map(|mask| self.mutate_expr(mask)).transpose()?;
                Stmt::store_masked(buffer, index, value, mask)
            }
            StmtNode::Alloc { buffer, annotations } => {
                let buffer = self.defined_buffer(buffer)?;
                Stmt::from_node(StmtNode::Alloc { buffer, annotations: annotations.clone() })
            }
            StmtNode::Alias { buffer, data } => {
                let data = self.mutate_expr(data)?;
                let buffer = self.defined_buffer(buffer)?;
                Stmt::from_node(StmtNode::Alias { buffer, data })
            }
            StmtNode::Bind { var, value } => {
                let value = self.mutate_expr(value)?;
                Stmt::bind(self.new_var(var), value)
            }
            StmtNode::Attr { key, node, value, body } => {
                // A buffer or variable in an attribute is replaced like its uses.
                let node = match (node.to::<Buffer>(), node.to::<Var>()) {
                    (Ok(buffer), _) => self.buffer(&buffer)?.into(),
                    (_, Ok(var)) => match self.vars.get(&var) {
                        Some(new) => new.clone().into(),
                        None => node.clone(),
                    },
                    _ => node.clone(),
                };
                let value = self.mutate_expr(value)?;
                let body = super::with_stack(|| self.mutate_stmt(body))?;
                Stmt::from_node(StmtNode::Attr { key: key.clone(), node, value, body })
            }
            _ => return mutate_stmt_parts(self, stmt),
        })
    }
}

/// Returns a copy with values substituted for variables, and with new variables and buffers for all
/// definitions inside.
pub fn fresh_copy(stmt: &Stmt, values: VarMap) -> Stmt {
    Replace::fresh(values).mutate_stmt(stmt).unwrap_or_else(|_| unreachable!("a replacement has no errors"))
}
