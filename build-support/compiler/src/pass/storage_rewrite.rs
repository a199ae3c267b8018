//! `StorageRewrite`: reuses memory that is no longer needed.
//!
//! Among the allocations of one body, an allocation whose last use is before the first use of
//! another shares its memory with it. Both must have the same scope and element type, and sizes
//! that are known to be equal or are constants within a factor of 16. A statement that reads `a[i]`
//! and writes `b[i]`, where `a` is not used afterwards, works in place. A use of an alias is a use
//! of the memory. Local memory is not shared, because it is intended for registers, and neither is
//! memory of at most 32 bytes.
//!
//! Memory whose size is known only when the function runs is allocated by a call. If the size is
//! the same in all iterations of a serial loop, it is allocated once, in front of the loop.

use std::collections::{HashMap, HashSet};

use kernpack::{Any, Result as PackedResult, packed_func, structural};

use super::PassContext;
use super::pipeline::on_functions;
use crate::error::Result;
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::refresh::Replace;
use crate::ir::visit::{Visit, for_each_stmt, uses_var, walk_expr, walk_stmt};
use crate::ir::{
    Buffer, BufferNode, DataTypeExt, Expr, ExprNode, ForKind, LoweredFunc, MutateStmts, Stmt, StmtNode, Var,
};

/// The maximum ratio between the size of memory and the size of its user.
const WINDOW: i64 = 16;

/// Reuses memory.
///
/// # Errors
/// Returns no errors of its own.
pub fn storage_rewrite(function: &LoweredFunc, _: &PassContext) -> Result<LoweredFunc> {
    Ok(function.with_body(Bodies.body(&function.body)?))
}

/// [`storage_rewrite`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.StorageRewrite")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, storage_rewrite)
}

/// Rewrites bodies from the innermost to the outermost.
struct Bodies;

impl Bodies {
    fn body(&mut self, body: &Stmt) -> Result<Stmt> {
        let inner = mutate_stmt_parts(self, body)?;
        Ok(share(&allocated_once(inner)))
    }
}

/// A serial loop with the memory of its iterations in front of it, where calls allocate it and its
/// size does not depend on the iteration.
fn allocated_once(stmt: Stmt) -> Stmt {
    let StmtNode::For { var, min, extent, kind: ForKind::Serial, annotations, body } = &*stmt else { return stmt };
    let stmts = body.to_stmts();
    let is_own = |used: &Var| {
        used == var || stmts.iter().any(|stmt| matches!(&**stmt, StmtNode::Bind { var, .. } if var == used))
    };
    let is_once = |stmt: &Stmt| match &**stmt {
        StmtNode::Alloc { buffer, annotations } => {
            annotations.is_empty()
                && buffer.scope.as_str() == "global"
                && elements(buffer).is_none()
                && !buffer.shape.iter().any(|extent| uses_var(&extent, is_own))
        }
        _ => false,
    };
    let (mut front, rest): (Vec<Stmt>, Vec<Stmt>) = stmts.iter().cloned().partition(is_once);
    if front.is_empty() {
        return stmt;
    }
    let rest = Stmt::seq(rest);
    front.push(Stmt::for_with(var.clone(), min, extent, ForKind::Serial, annotations.clone(), rest));
    Stmt::seq(front)
}

impl MutateStmts for Bodies {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        self.body(stmt)
    }
}

/// One allocation of a body.
struct Allocation {
    buffer: Buffer,
    /// The positions of the first and the last statement that uses it.
    uses: Option<(usize, usize)>,
}

/// The body with memory shared between its own allocations.
fn share(body: &Stmt) -> Stmt {
    let StmtNode::Seq { stmts } = &**body else { return body.clone() };
    let stmts = stmts.to_vec();
    let mut allocations: Vec<Allocation> = stmts
        .iter()
        .filter_map(|stmt| match &**stmt {
            StmtNode::Alloc { buffer, annotations } if annotations.is_empty() && may_share(buffer) => {
                Some(Allocation { buffer: buffer.clone(), uses: None })
            }
            _ => None,
        })
        .collect();
    if allocations.len() < 2 {
        return body.clone();
    }
    let mut by_data: HashMap<Var, Vec<usize>> =
        allocations.iter().enumerate().map(|(index, one)| (one.buffer.data.clone(), vec![index])).collect();
    // Memory with an alias: accesses through the alias are not compared with those through the
    // original name.
    let mut named: HashSet<Var> = HashSet::new();
    for (position, stmt) in stmts.iter().enumerate() {
        let mut uses = Uses { by_data: &by_data, found: Vec::new() };
        uses.visit_stmt(stmt);
        let found = uses.found;
        for index in &found {
            let range = &mut allocations[*index].uses;
            *range = Some((range.map_or(position, |(first, _)| first), position));
        }
        let name = match &**stmt {
            StmtNode::Alias { buffer, .. } => buffer.data.clone(),
            StmtNode::Bind { var, .. } => var.clone(),
            _ => continue,
        };
        if !found.is_empty() {
            named.extend(found.iter().map(|index| allocations[*index].buffer.data.clone()));
            by_data.insert(name, found);
        }
    }
    let mut replaced: HashMap<Buffer, Buffer> = HashMap::new();
    // The memory, by the position after which it is free.
    let mut free: Vec<(usize, Buffer)> = Vec::new();
    let mut order: Vec<&Allocation> = allocations.iter().filter(|one| one.uses.is_some()).collect();
    order.sort_by_key(|one| one.uses);
    for one in order {
        let Some((first, last)) = one.uses else { continue };
        let taken = free.iter().position(|(end, memory)| {
            fits(memory, &one.buffer)
                && (*end < first
                    || *end == first
                        && !is_named(&named, memory, &replaced, &one.buffer)
                        && is_in_place(&stmts[first], memory, &replaced, &one.buffer))
        });
        match taken {
            Some(index) => {
                let (_, memory) = free.swap_remove(index);
                replaced.insert(one.buffer.clone(), memory.clone());
                free.push((last, memory));
            }
            None => free.push((last, one.buffer.clone())),
        }
    }
    if replaced.is_empty() {
        return body.clone();
    }
    // The memory is as large as the largest of its users.
    let mut sizes: HashMap<Buffer, i64> = HashMap::new();
    for (user, memory) in &replaced {
        if let Some(size) = elements(user) {
            let largest = sizes.entry(memory.clone()).or_insert_with(|| elements(memory).unwrap_or(size));
            *largest = (*largest).max(size);
        }
    }
    let mut replace = Replace::default();
    for (user, memory) in &replaced {
        replace.vars.insert(user.data.clone(), memory.data.expr().clone());
    }
    let kept = stmts.into_iter().filter_map(|stmt| match &*stmt {
        StmtNode::Alloc { buffer, .. } if replaced.contains_key(buffer) => None,
        StmtNode::Alloc { buffer, .. } => match sizes.get(buffer) {
            Some(size) if elements(buffer) != Some(*size) => {
                let larger = BufferNode { shape: [Expr::int(*size)].into(), ..buffer.to_node() };
                Some(Stmt::alloc(Buffer::from_node(larger)))
            }
            _ => Some(stmt.clone()),
        },
        _ => Some(stmt.clone()),
    });
    let shared = Stmt::seq(first_allocations(kept.collect()));
    crate::ir::Mutate::mutate_stmt(&mut replace, &shared)
        .unwrap_or_else(|_| unreachable!("a replacement has no errors"))
}

/// Moves allocations to the front: shared memory is used from its first user on.
fn first_allocations(stmts: Vec<Stmt>) -> Vec<Stmt> {
    let (mut front, back): (Vec<Stmt>, Vec<Stmt>) = stmts
        .into_iter()
        .partition(|stmt| matches!(&**stmt, StmtNode::Alloc { buffer, .. } if elements(buffer).is_some()));
    front.extend(back);
    front
}

fn may_share(buffer: &Buffer) -> bool {
    let scope = buffer.scope.as_str();
    (scope == "global" || scope == "shared")
        && elements(buffer).is_none_or(|count| count.saturating_mul((buffer.dtype.size()) as i64) > 32)
        && buffer.strides.is_empty()
}

/// The number of elements of a constant shape.
fn elements(buffer: &Buffer) -> Option<i64> {
    buffer.shape.iter().try_fold(1i64, |product, extent| product.checked_mul(extent.as_int()?))
}

fn fits(memory: &Buffer, user: &Buffer) -> bool {
    if memory.scope.as_str() != user.scope.as_str()
        || memory.dtype != user.dtype
        || memory.data_alignment != user.data_alignment
        || !memory.dtype.is_scalar()
    {
        return false;
    }
    match (elements(memory), elements(user)) {
        (Some(memory), Some(user)) => memory <= user.saturating_mul(WINDOW) && user <= memory.saturating_mul(WINDOW),
        (None, None) => {
            memory.shape.len() == user.shape.len() && structural::equal(&memory.shape, &user.shape).unwrap_or(false)
        }
        _ => false,
    }
}

/// Collects the allocations that a statement uses.
struct Uses<'a> {
    by_data: &'a HashMap<Var, Vec<usize>>,
    found: Vec<usize>,
}

impl Uses<'_> {
    fn data(&mut self, data: &Var) {
        self.found.extend(self.by_data.get(data).into_iter().flatten());
    }
}

impl Visit for Uses<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        match &**expr {
            ExprNode::Load { buffer, .. } => self.data(&buffer.data),
            // A pointer that escapes.
            ExprNode::Var { .. } => {
                if let Some(var) = Var::of(expr) {
                    self.data(&var);
                }
            }
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match &**stmt {
            StmtNode::Store { buffer, .. } => self.data(&buffer.data),
            StmtNode::Attr { node, .. } => {
                if let Ok(buffer) = node.to::<Buffer>() {
                    self.data(&buffer.data);
                }
            }
            _ => {}
        }
        walk_stmt(self, stmt);
    }
}

/// Returns true if the memory, one of its previous users or the next one has an alias.
fn is_named(named: &HashSet<Var>, memory: &Buffer, replaced: &HashMap<Buffer, Buffer>, user: &Buffer) -> bool {
    let has = |buffer: &Buffer| named.contains(&buffer.data);
    has(memory) || has(user) || replaced.iter().any(|(old, new)| new.data == memory.data && has(old))
}

/// Returns true if a statement reads `memory` only at the index where it writes `user` afterwards,
/// so that both can share memory.
fn is_in_place(stmt: &Stmt, memory: &Buffer, replaced: &HashMap<Buffer, Buffer>, user: &Buffer) -> bool {
    let is_memory = |data: &Var| {
        *data == memory.data || replaced.iter().any(|(old, new)| old.data == *data && new.data == memory.data)
    };
    let mut in_place = true;
    let mut writes = 0;
    for_each_stmt(stmt, |part| {
        match &**part {
            StmtNode::Store { buffer, index, value, mask } => {
                let written = buffer.data == user.data;
                writes += usize::from(written);
                in_place &= !is_memory(&buffer.data) && mask.is_none();
                crate::ir::visit::for_each_expr(value, |read| {
                    if let ExprNode::Load { buffer, index: from, mask, .. } = &**read {
                        if is_memory(&buffer.data) {
                            in_place &= written && mask.is_none() && structural::equal(from, index).unwrap_or(false);
                        }
                        in_place &= buffer.data != user.data;
                    }
                });
                crate::ir::visit::for_each_expr(index, |read| in_place &= !matches!(**read, ExprNode::Load { .. }));
            }
            StmtNode::For { .. } | StmtNode::Seq { .. } => {}
            _ => in_place = false,
        };
    });
    // One store for each iteration: with several, a later one could overwrite an element that an
    // earlier one has yet to read.
    in_place && writes == 1
}
