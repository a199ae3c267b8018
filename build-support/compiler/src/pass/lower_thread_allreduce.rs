//! `LowerThreadAllreduce`: lowers reductions across threads to exchanges between lanes of a warp
//! and through shared memory.
//!
//! Before: `thread_allreduce` in an attribute `reduce_scope`. After: neither is left. Values are
//! combined in the order of the threads, so that a reducer need not be commutative. The pass
//! inserts its own barriers for shared memory, because it runs after `ThreadSync`.

use std::collections::HashMap;

use kernpack::{Any, Result as PackedResult, packed_func, structural};

use super::PassContext;
use super::pipeline::on_functions;
use super::threads::{Threads, barrier, with_attributes};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::{
    Buffer, BufferNode, CallKind, DataTypeExt, Expr, ExprNode, I32, I64, LoweredFunc, MutateStmts, Reducer, Stmt,
    StmtNode, Var, VarMap, builtin, substitute,
};

/// Lowers reductions across threads.
///
/// # Errors
/// Returns an error for a number of threads that is not a constant, or a reduction over something
/// that is not a surrounding thread.
pub fn lower_thread_allreduce(function: &LoweredFunc, context: &PassContext) -> Result<LoweredFunc> {
    let body = with_attributes(&function.body)?;
    let warp_size = context.options.warp_size;
    let mut lower = Lower { warp_size, threads: Vec::new(), buffers: HashMap::new(), reducer: None };
    let body = lower.mutate_stmt(&body).map_err(|error| error.note(format!("in function `{}`", function.name)))?;
    Ok(function.with_body(body))
}

/// [`lower_thread_allreduce`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.LowerThreadAllreduce")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, lower_thread_allreduce)
}

struct Lower {
    warp_size: i64,
    /// The surrounding threads, from the outermost to the innermost.
    threads: Vec<Threads>,
    /// The buffers, by data pointer.
    buffers: HashMap<Var, Buffer>,
    reducer: Option<Reducer>,
}

impl MutateStmts for Lower {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match &**stmt {
            StmtNode::Attr { key, node, body, .. } if key.as_str() == "reduce_scope" => {
                let Ok(reducer) = node.to::<Reducer>() else {
                    crate::error::fail!(Lower, "`reduce_scope` of something that is not a reducer");
                };
                let outer = self.reducer.replace(reducer);
                let body = self.mutate_stmt(body);
                self.reducer = outer;
                body
            }
            StmtNode::Attr { .. } => {
                let threads = Threads::of(stmt).map(|(threads, _)| threads);
                let count = self.threads.len();
                self.threads.extend(threads);
                let stmt = mutate_stmt_parts(self, stmt);
                self.threads.truncate(count);
                stmt
            }
            StmtNode::Alloc { buffer, .. } | StmtNode::Alias { buffer, .. } => {
                self.buffers.insert(buffer.data.clone(), buffer.clone());
                Ok(stmt.clone())
            }
            StmtNode::Evaluate { value } => match &**value {
                ExprNode::Call { kind: CallKind::Builtin, name, args, .. }
                    if name.as_str() == builtin::THREAD_ALLREDUCE =>
                {
                    self.all_reduce(&args.to_vec())
                }
                _ => Ok(stmt.clone()),
            },
            _ => mutate_stmt_parts(self, stmt),
        }
    }
}

/// The linear index of a thread among some, with x as the lowest digit, and their number.
fn linear(threads: &[&Threads]) -> Result<(Expr, i64)> {
    let (mut index, mut count) = (Expr::int(0), 1i64);
    for threads in threads {
        let Some(extent) = threads.extent.as_int() else {
            let what = format!(
                "a reduction across threads: the extent {} of {} is not a constant",
                threads.extent, threads.tag
            );
            return Err(CompileError::new(ErrorKind::Lower, what).note("split by a constant and bind that part"));
        };
        index = index + threads.var.expr().cast(I64) * count;
        count = count.saturating_mul(extent.max(0));
    }
    Ok((index, count))
}

impl Lower {
    /// `thread_allreduce(n, sources.., condition, results.., threads..)`
    fn all_reduce(&self, args: &[Expr]) -> Result<Stmt> {
        let Some(reducer) = &self.reducer else {
            crate::error::fail!(Lower, "`thread_allreduce` without an attribute `reduce_scope` around it");
        };
        let count = args.first().and_then(|count| count.as_int()).unwrap_or(0).max(0) as usize;
        if count == 0 || args.len() < 2 * count + 3 || reducer.identity.len() != count {
            crate::error::fail!(Lower, "`thread_allreduce` of {} arguments for {} results", args.len(), count);
        }
        let (condition, results) = (&args[count + 1], &args[count + 2..2 * count + 2]);
        let mut wanted: Vec<Var> = Vec::new();
        for thread in &args[2 * count + 2..] {
            match Var::of(thread) {
                Some(var) if self.threads.iter().any(|threads| threads.var == var && threads.is_inside_block()) => {
                    wanted.push(var);
                }
                // There is only one thread.
                _ if thread.is_int(0) => {}
                _ => crate::error::fail!(Lower, "`thread_allreduce` over {thread}, which is not a thread of the block"),
            }
        }
        let mut inside: Vec<&Threads> = self.threads.iter().filter(|threads| threads.is_inside_block()).collect();
        inside.sort_by(|a, b| a.tag.cmp(&b.tag));
        let (reduced, kept): (Vec<&Threads>, Vec<&Threads>) =
            inside.into_iter().partition(|threads| wanted.contains(&threads.var));
        let ((position, extent), (group, groups)) = (linear(&reduced)?, linear(&kept)?);

        let mut stmts = Vec::new();
        let sources: Vec<Expr> = args[1..=count]
            .iter()
            .zip(reducer.identity.iter())
            .map(|(source, identity)| match &**source {
                // Schedules generate this condition already.
                ExprNode::IfThenElse { condition: asked, .. }
                    if structural::equal(asked, condition).unwrap_or(false) =>
                {
                    source.clone()
                }
                _ => Expr::if_then_else(condition, source, identity),
            })
            .collect();
        let values = named("value", sources, &mut stmts);
        let is_lane = reduced.len() == 1 && reduced[0].tag == "threadIdx.x" && self.warp_size > 1;
        let across = Across { reducer, warp_size: self.warp_size, position, extent, group, groups };
        let totals = if extent <= 1 {
            values
        } else if is_lane && extent <= self.warp_size && extent.count_ones() == 1 {
            across.in_warp(values, extent, extent, &mut stmts)
        } else if is_lane && extent % self.warp_size == 0 && extent / self.warp_size <= self.warp_size {
            across.by_warps(values, &mut stmts)
        } else {
            across.in_memory(&values, &mut stmts)
        };
        for (pointer, total) in results.iter().zip(totals) {
            let buffer = match Var::of(pointer).and_then(|data| self.buffers.get(&data).cloned()) {
                Some(buffer) if buffer.dtype == total.dtype() => buffer,
                _ => {
                    let view = Buffer::new("result", total.dtype(), [Expr::int(1)], "local").to_node();
                    let alignment = total.dtype().lane_bytes() as i64;
                    let buffer = Buffer::from_node(BufferNode { data_alignment: alignment, ..view });
                    stmts.push(Stmt::from_node(StmtNode::Alias { buffer: buffer.clone(), data: pointer.clone() }));
                    buffer
                }
            };
            stmts.push(Stmt::store(buffer, 0, total));
        }
        Ok(Stmt::seq(stmts))
    }
}

/// Binds values to names.
fn named(name: &str, values: Vec<Expr>, stmts: &mut Vec<Stmt>) -> Vec<Expr> {
    let names = values.into_iter().map(|value| {
        let var = Var::new(name, value.dtype());
        stmts.push(Stmt::bind(var.clone(), value));
        var.into()
    });
    names.collect()
}

struct Across<'a> {
    reducer: &'a Reducer,
    warp_size: i64,
    /// The index of the thread among those that are reduced.
    position: Expr,
    extent: i64,
    /// The index of its group, and the number of groups.
    group: Expr,
    groups: i64,
}

impl Across<'_> {
    fn combined(&self, left: &[Expr], right: &[Expr]) -> Vec<Expr> {
        let mut sides = VarMap::new();
        sides.extend(self.reducer.lhs.iter().zip(left.iter().cloned()));
        sides.extend(self.reducer.rhs.iter().zip(right.iter().cloned()));
        self.reducer.results.iter().map(|result| substitute(&result, &sides)).collect()
    }

    fn shuffle(&self, name: &str, value: &Expr, lane: i64, width: i64) -> Expr {
        let number = |value: i64| Expr::constant(I32, value);
        let args = [number(-1), value.clone(), number(lane), number(width), number(self.warp_size)];
        Expr::builtin(name, value.dtype(), args)
    }

    /// Combines the values of the first `count` lanes of each group of `width` adjacent lanes in a
    /// warp; both are powers of two. All of them get the result.
    fn in_warp(&self, mut values: Vec<Expr>, count: i64, width: i64, stmts: &mut Vec<Stmt>) -> Vec<Expr> {
        let mut distance = 1;
        while distance < count {
            let others = values.iter().map(|value| self.shuffle("warp_shuffle_down", value, distance, width)).collect();
            let others = named("other", others, stmts);
            values = named("value", self.combined(&values, &others), stmts);
            distance *= 2;
        }
        let first = values.iter().map(|value| self.shuffle(builtin::WARP_SHUFFLE, value, 0, width)).collect();
        named("total", first, stmts)
    }

    fn memory(&self, values: &[Expr], count: i64, stmts: &mut Vec<Stmt>) -> Vec<Buffer> {
        let memory: Vec<Buffer> = values
            .iter()
            .map(|value| Buffer::new("partial", value.dtype(), [Expr::int(self.groups * count)], "shared"))
            .collect();
        stmts.extend(memory.iter().cloned().map(Stmt::alloc));
        memory
    }

    /// Combines the values of each warp first, then the results of the warps.
    fn by_warps(&self, values: Vec<Expr>, stmts: &mut Vec<Stmt>) -> Vec<Expr> {
        let warps = self.extent / self.warp_size;
        let totals = self.in_warp(values, self.warp_size, self.warp_size, stmts);
        if warps == 1 {
            return totals;
        }
        let memory = self.memory(&totals, warps, stmts);
        let (lane, warp) = (self.position.floor_mod(self.warp_size), self.position.floor_div(self.warp_size));
        let place = &self.group * warps + warp;
        let stores = memory.iter().zip(&totals).map(|(memory, total)| Stmt::store(memory.clone(), &place, total));
        stmts.push(Stmt::if_then(lane.equals(0), Stmt::seq(stores), None));
        stmts.push(barrier("shared"));
        let place = &self.group * warps + &lane;
        let parts = memory.iter().zip(self.reducer.identity.iter()).map(|(memory, identity)| {
            // Lanes without a warp contribute the identity.
            Expr::if_then_else(lane.less(warps), Expr::load(memory, &place), identity)
        });
        let parts = named("part", parts.collect(), stmts);
        let count = (warps as u64).next_power_of_two() as i64;
        let totals = self.in_warp(parts, count, self.warp_size, stmts);
        // The next reduction reuses the memory.
        stmts.push(barrier("shared"));
        totals
    }

    /// A tree reduction in shared memory, for any number of threads.
    fn in_memory(&self, values: &[Expr], stmts: &mut Vec<Stmt>) -> Vec<Expr> {
        let memory = self.memory(values, self.extent, stmts);
        let first = &self.group * self.extent;
        let own = &first + &self.position;
        stmts.extend(memory.iter().zip(values).map(|(memory, value)| Stmt::store(memory.clone(), &own, value)));
        stmts.push(barrier("shared"));
        let mut distance = 1;
        while distance < self.extent {
            let at = |place: &Expr| memory.iter().map(|memory| Expr::load(memory, place)).collect::<Vec<_>>();
            let other = &own + distance;
            let mut step = Vec::new();
            let sums = named("sum", self.combined(&at(&own), &at(&other)), &mut step);
            step.extend(memory.iter().zip(sums).map(|(memory, sum)| Stmt::store(memory.clone(), &own, sum)));
            let is_left = self.position.floor_mod(2 * distance).equals(0);
            let has_right = (&self.position + distance).less(self.extent);
            stmts.push(Stmt::if_then(is_left.and(has_right), Stmt::seq(step), None));
            stmts.push(barrier("shared"));
            distance *= 2;
        }
        let totals = named("total", memory.iter().map(|memory| Expr::load(memory, &first)).collect(), stmts);
        stmts.push(barrier("shared"));
        totals
    }
}
