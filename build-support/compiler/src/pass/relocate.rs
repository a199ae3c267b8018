//! Relocation of memory into other memory: accesses and pointers get an offset.

use std::collections::HashMap;

use crate::error::Result;
use crate::ir::mutate::{Mutate, mutate_expr_parts, mutate_stmt_parts};
use crate::ir::{Buffer, BufferNode, DataTypeExt, Expr, ExprNode, POINTER, Stmt, StmtNode, Var, builtin, with_stack};

/// The new location of memory.
#[derive(Clone)]
pub(crate) struct Place {
    /// The memory that contains it.
    pub(crate) buffer: Buffer,
    /// The offset of its first element.
    pub(crate) offset: Expr,
}

/// Moves accesses.
#[derive(Default)]
pub(crate) struct Relocate {
    pub(crate) places: HashMap<Var, Place>,
}

impl Relocate {
    fn buffer(&self, old: &Buffer) -> Option<(Buffer, &Expr)> {
        let place = self.places.get(&old.data)?;
        if old.dtype == place.buffer.dtype {
            return Some((place.buffer.clone(), &place.offset));
        }
        Some((Buffer::from_node(BufferNode { data: place.buffer.data.clone(), ..old.to_node() }), &place.offset))
    }
}

/// The index plus an offset; ramps stay ramps.
pub(crate) fn shifted(index: &Expr, offset: &Expr) -> Expr {
    match &**index {
        ExprNode::Ramp { base, stride, lanes } => (base + offset).ramp(stride.clone(), *lanes),
        _ => index + offset,
    }
}

/// The number of elements of a buffer without strides.
pub(crate) fn element_count(buffer: &Buffer) -> Expr {
    buffer.shape.iter().fold(Expr::int(1), |count, extent| count * extent)
}

impl Mutate for Relocate {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        match &**expr {
            ExprNode::Var { .. } => Ok(match Var::of(expr).and_then(|var| self.places.get(&var)) {
                Some(Place { buffer, offset }) => {
                    let bytes = offset * (buffer.dtype.lane_bytes() as i64 * i64::from(buffer.dtype.lanes()));
                    Expr::builtin(builtin::HANDLE_ADD_BYTE_OFFSET, POINTER, [buffer.data.expr().clone(), bytes])
                }
                None => expr.clone(),
            }),
            ExprNode::Load { buffer, index, mask, .. } => {
                let Some((new, offset)) = self.buffer(buffer) else { return mutate_expr_parts(self, expr) };
                let offset = offset.clone();
                let index = shifted(&self.mutate_expr(index)?, &offset);
                let mask = mask.as_ref().map(|mask| self.mutate_expr(mask)).transpose()?;
                Ok(Expr::load_masked(&new, index, mask))
            }
            _ => mutate_expr_parts(self, expr),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match &**stmt {
            StmtNode::Store { buffer, index, value, mask } => {
                let Some((new, offset)) = self.buffer(buffer) else { return mutate_stmt_parts(self, stmt) };
                let offset = offset.clone();
                let index = shifted(&self.mutate_expr(index)?, &offset);
                let value = self.mutate_expr(value)?;
                let mask = mask.as_ref().map(|mask| self.mutate_expr(mask)).transpose()?;
                Ok(Stmt::store_masked(new, index, value, mask))
            }
            StmtNode::Attr { key, node, value, body } => {
                let moved = node.to::<Buffer>().ok().and_then(|buffer| self.buffer(&buffer).map(|(new, _)| new));
                let Some(new) = moved else { return mutate_stmt_parts(self, stmt) };
                let value = self.mutate_expr(value)?;
                let body = with_stack(|| self.mutate_stmt(body))?;
                Ok(Stmt::from_node(StmtNode::Attr { key: key.clone(), node: new.into(), value, body }))
            }
            _ => mutate_stmt_parts(self, stmt),
        }
    }
}
