//! `LowerWarpMemory`: distributes the memory of a warp over its lanes, and replaces loads from
//! other lanes by exchanges.
//!
//! Of memory of scope `warp`, each lane holds `m` adjacent elements of every `m * lanes`: element
//! `i` is the local element `i / (m * lanes) * m + i % m` of lane `i / m % lanes`. A store is to
//! the lane's own part: its index is `m * threadIdx.x`, plus a number below `m`, plus a multiple of
//! `m * lanes`. After the pass, no memory has that scope and no barrier is for it: an exchange
//! synchronizes all lanes itself.

use std::collections::HashMap;

use kernpack::{Any, Result as PackedResult, packed_func};

use super::PassContext;
use super::accesses::Accesses;
use super::pipeline::on_functions;
use super::threads::{Threads, with_attributes};
use crate::arith::{Analyzer, detect_linear};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::mutate::{Mutate, mutate_expr_parts, mutate_stmt_parts};
use crate::ir::visit::for_each_stmt;
use crate::ir::{
    Buffer, BufferNode, CallKind, Expr, ExprNode, I32, LoweredFunc, Range, Stmt, StmtNode, Var, builtin, with_stack,
};

/// Replaces warp memory by exchanges between lanes.
///
/// # Errors
/// Returns an error for a warp whose size differs from that of `threadIdx.x`; a store that is not
/// to the lane's own part; or a load whose local element differs between lanes, or that not all
/// lanes execute.
pub fn lower_warp_memory(function: &LoweredFunc, context: &PassContext) -> Result<LoweredFunc> {
    let mut found = false;
    for_each_stmt(&function.body, |stmt| found |= warp_memory(stmt).is_some());
    if !found {
        return Ok(function.clone());
    }
    let mut lower = Lower {
        lanes: context.options.warp_size,
        analyzer: Analyzer::of_params(&function.params),
        lane: None,
        memory: HashMap::new(),
        under: None,
    };
    for axis in function.thread_axes.iter() {
        if let Some(dom) = &axis.dom {
            lower.threads(&axis.thread_tag, &axis.var, &dom.extent);
        }
    }
    let body = with_attributes(&function.body)?;
    let body = lower.mutate_stmt(&body).map_err(|error| error.note(format!("in function `{}`", function.name)))?;
    Ok(function.with_body(body))
}

/// [`lower_warp_memory`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.LowerWarpMemory")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, lower_warp_memory)
}

fn warp_memory(stmt: &Stmt) -> Option<&Buffer> {
    match &**stmt {
        StmtNode::Alloc { buffer, .. } if buffer.scope.as_str().split('.').next() == Some("warp") => Some(buffer),
        _ => None,
    }
}

/// Memory of a warp.
struct Memory {
    /// The part of one lane.
    local: Buffer,
    /// The number of adjacent elements of a lane.
    width: i64,
}

struct Lower {
    lanes: i64,
    analyzer: Analyzer,
    /// `threadIdx.x`, and its extent.
    lane: Option<(Var, i64)>,
    memory: HashMap<Var, Memory>,
    /// A surrounding condition that differs between lanes, or may differ.
    under: Option<String>,
}

impl Lower {
    fn threads(&mut self, tag: &str, var: &Var, extent: &Expr) {
        self.analyzer.bind(var, &Range::until(extent));
        if tag == "threadIdx.x" {
            self.lane = Some((var.clone(), extent.as_int().unwrap_or(0)));
        }
    }

    fn refused<T>(buffer: &Buffer, what: impl core::fmt::Display, note: &str) -> Result<T> {
        let what = format!("`{}` in memory of a warp: {what}", buffer.name);
        Err(CompileError::new(ErrorKind::Lower, what).note(note))
    }

    /// Allocates the memory of a lane, based on the stores in the statements after the allocation.
    fn allocate(&mut self, buffer: &Buffer, behind: &[Stmt]) -> Result<Buffer> {
        let lanes = self.lanes;
        let lane = match &self.lane {
            Some((lane, count)) if *count == lanes && lanes > 1 => lane.clone(),
            found => {
                let count = found.as_ref().map_or(0, |(_, count)| *count);
                let what = format!("threadIdx.x goes over {count}, a warp has {lanes} lanes");
                return Self::refused(
                    buffer,
                    what,
                    "bind the axis that goes over the warp to threadIdx.x, split by its size",
                );
            }
        };
        let Some(size) = buffer.shape.iter().try_fold(1i64, |size, extent| size.checked_mul(extent.as_int()?)) else {
            return Self::refused(buffer, "its size is not a constant", "split by constants");
        };
        let mut width = None;
        for stmt in behind {
            let mut failed = None;
            for_each_stmt(stmt, |stmt| {
                let StmtNode::Store { buffer: stored, index, .. } = &**stmt else { return };
                if stored.data != buffer.data {
                    return;
                }
                let form = detect_linear(index, core::slice::from_ref(&lane), &self.analyzer);
                match form.and_then(|form| form.coefficients[0].as_int()).filter(|found| *found > 0) {
                    Some(found) if width.is_none_or(|width| width == found) => width = Some(found),
                    _ => failed = Some(index.clone()),
                }
            });
            if let Some(index) = failed {
                let what = format!("a store to element {index}");
                return Self::refused(
                    buffer,
                    what,
                    "each lane stores neighbouring elements: a constant times threadIdx.x plus what is below it",
                );
            }
        }
        let width = width.unwrap_or(1);
        let group = width * lanes;
        let local = (size + group - 1) / group * width;
        let node = BufferNode {
            data: buffer.data.renamed(buffer.data.name()),
            shape: [Expr::int(local)].into(),
            scope: "local".into(),
            ..buffer.to_node()
        };
        let local = Buffer::from_node(node);
        self.memory.insert(buffer.data.clone(), Memory { local: local.clone(), width });
        Ok(local)
    }

    /// The lane and the local element of an index.
    fn place(&self, memory: &Memory, index: &Expr) -> (Expr, Expr) {
        let (width, group) = (memory.width, memory.width * self.lanes);
        let lane = self.analyzer.simplify(&index.floor_div(width).floor_mod(self.lanes));
        let local = self.analyzer.simplify(&(index.floor_div(group) * width + index.floor_mod(width)));
        (lane, local)
    }

    /// Returns true if a value may differ between lanes.
    fn differs(&self, expr: &Expr) -> bool {
        let accesses = Accesses::of_expr(expr);
        let is_lane = |var: &Var| self.lane.as_ref().is_some_and(|(lane, _)| lane == var);
        !accesses.reads.is_empty() || accesses.is_opaque || accesses.vars.iter().any(is_lane)
    }

    fn load(&self, buffer: &Buffer, memory: &Memory, index: &Expr) -> Result<Expr> {
        let Some((own, _)) = &self.lane else { return Ok(Expr::load(buffer, index)) };
        if index.lanes() > 1 || buffer.dtype.lanes() > 1 {
            return Self::refused(buffer, "a load of a vector", "vectorize an axis outside of the warp");
        }
        let (lane, local) = self.place(memory, index);
        if self.analyzer.can_prove_equal(&lane, own.expr()) {
            return Ok(Expr::load(&memory.local, local));
        }
        if self.differs(&local) {
            let what = format!("element {index} is the local element {local}, which differs between lanes");
            return Self::refused(buffer, what, "lanes exchange the same element of each");
        }
        if let Some(condition) = &self.under {
            let what = format!("an exchange under the condition {condition}, which differs between lanes");
            return Self::refused(buffer, what, "all lanes of a warp take part");
        }
        let number = |value: i64| Expr::constant(I32, value);
        let value = Expr::load(&memory.local, local);
        let args = [number(-1), value, lane.cast(I32), number(self.lanes), number(self.lanes)];
        Ok(Expr::builtin(builtin::WARP_SHUFFLE, buffer.dtype, args))
    }

    fn conditional<R>(&mut self, condition: &Expr, work: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let outer = self.under.clone();
        if self.differs(condition) {
            self.under.get_or_insert_with(|| condition.to_string());
        }
        let result = work(self);
        self.under = outer;
        result
    }
}

impl Mutate for Lower {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        match &**expr {
            ExprNode::Load { buffer, index, mask, .. } if self.memory.contains_key(&buffer.data) => {
                let index = self.mutate_expr(index)?;
                if mask.is_some() {
                    return Self::refused(buffer, "a load of some lanes", "all lanes of a warp take part");
                }
                self.load(buffer, &self.memory[&buffer.data], &index)
            }
            ExprNode::Var { .. } if Var::of(expr).is_some_and(|var| self.memory.contains_key(&var)) => {
                crate::error::fail!(
                    Lower,
                    "the address of memory of a warp, `{expr}`: it is in registers of its lanes"
                );
            }
            ExprNode::IfThenElse { condition, then_value, else_value } => {
                let new = self.mutate_expr(condition)?;
                let (a, b) = self.conditional(condition, |this| {
                    Ok((this.mutate_expr(then_value)?, this.mutate_expr(else_value)?))
                })?;
                Ok(Expr::from_node(ExprNode::IfThenElse { condition: new, then_value: a, else_value: b }))
            }
            _ => mutate_expr_parts(self, expr),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match &**stmt {
            StmtNode::Seq { stmts } => {
                let stmts = stmts.to_vec();
                let mut new = Vec::with_capacity(stmts.len());
                for (position, stmt) in stmts.iter().enumerate() {
                    new.push(match (&**stmt, warp_memory(stmt)) {
                        (StmtNode::Alloc { annotations, .. }, Some(buffer)) => {
                            let buffer = self.allocate(buffer, &stmts[position + 1..])?;
                            Stmt::from_node(StmtNode::Alloc { buffer, annotations: annotations.clone() })
                        }
                        _ => self.mutate_stmt(stmt)?,
                    });
                }
                Ok(Stmt::seq(new))
            }
            StmtNode::Store { buffer, index, value, mask } => {
                let (index, value) = (self.mutate_expr(index)?, self.mutate_expr(value)?);
                let mask = mask.as_ref().map(|mask| self.mutate_expr(mask)).transpose()?;
                let Some(memory) = self.memory.get(&buffer.data) else {
                    return Ok(Stmt::store_masked(buffer.clone(), index, value, mask));
                };
                let (lane, local) = self.place(memory, &index);
                let own = self.lane.as_ref().map(|(own, _)| own.expr().clone());
                if index.lanes() > 1 || !own.is_some_and(|own| self.analyzer.can_prove_equal(&lane, &own)) {
                    let what = format!("a store to element {index}");
                    return Self::refused(buffer, what, "each lane stores to its own part");
                }
                Ok(Stmt::store_masked(memory.local.clone(), local, value, mask))
            }
            StmtNode::For { var, min, extent, body, kind, annotations } => {
                let (new_min, new_extent) = (self.mutate_expr(min)?, self.mutate_expr(extent)?);
                let mark = self.analyzer.mark();
                self.analyzer.bind(var, &Range::new(min, extent));
                let body = self.conditional(&(min + extent), |this| with_stack(|| this.mutate_stmt(body)));
                self.analyzer.restore(mark);
                Ok(Stmt::for_with(var.clone(), new_min, new_extent, *kind, annotations.clone(), body?))
            }
            StmtNode::If { condition, then_body, else_body } => {
                let new = self.mutate_expr(condition)?;
                let (then_body, else_body) = self.conditional(condition, |this| {
                    let mark = this.analyzer.mark();
                    this.analyzer.enter(condition);
                    let then_body = with_stack(|| this.mutate_stmt(then_body));
                    this.analyzer.restore(mark);
                    let else_body = else_body.as_ref().map(|body| with_stack(|| this.mutate_stmt(body))).transpose()?;
                    Ok((then_body?, else_body))
                })?;
                Ok(Stmt::if_then(new, then_body, else_body))
            }
            StmtNode::While { condition, .. } => self.conditional(condition, |this| mutate_stmt_parts(this, stmt)),
            StmtNode::Evaluate { value } => match &**value {
                ExprNode::Call { kind: CallKind::Builtin, name, args, .. }
                    if name.as_str() == builtin::STORAGE_SYNC
                        && args.get(0).is_some_and(
                            |scope| matches!(&*scope, ExprNode::Text { value } if value.as_str() == "warp"),
                        ) =>
                {
                    Ok(Stmt::nothing())
                }
                _ => mutate_stmt_parts(self, stmt),
            },
            StmtNode::Attr { .. } => {
                if let Some((threads, _)) = Threads::of(stmt) {
                    self.threads(&threads.tag, &threads.var, &threads.extent);
                }
                mutate_stmt_parts(self, stmt)
            }
            _ => mutate_stmt_parts(self, stmt),
        }
    }
}
