//! `InjectDoubleBuffer`: computes the next part of a tensor while the current one is read.
//!
//! Before: an allocation with the annotation `double_buffer` in the body of a serial loop, whose
//! statements fill it and read it. After: the memory has two halves and is allocated outside of the
//! loop. The part of the first iteration is computed before the loop, and each iteration computes
//! the part of the next one before it reads its own. No annotation is left. The loop is split by
//! the option `double_buffer_split_loop`: the half is then a constant, and only the last iterations
//! check whether there is a next one; 0 disables the split.

use std::collections::HashSet;

use kernpack::{Any, Map, Result as PackedResult, Str, packed_func};

use super::PassContext;
use super::accesses::Accesses;
use super::pipeline::on_functions;
use super::relocate::{Place, Relocate, element_count};
use crate::arith::Analyzer;
use crate::error::Result;
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::refresh::fresh_copy;
use crate::ir::visit::for_each_expr;
use crate::ir::{Buffer, BufferNode, Expr, ForKind, I64, LoweredFunc, MutateStmts, Range, Stmt, StmtNode, Var};

/// The key of the annotation of an allocation.
pub(crate) const DOUBLE_BUFFER: &str = "double_buffer";
/// The key of an attribute around statements that fill the half of a buffer that is not being read;
/// its value is that half.
pub(crate) const DOUBLE_BUFFER_WRITE: &str = "double_buffer_write";

/// Doubles the memory of double-buffered allocations. If that is impossible, the allocation is
/// unchanged, and the user gets a warning.
///
/// # Errors
/// Returns no errors of its own.
pub fn inject_double_buffer(function: &LoweredFunc, context: &PassContext) -> Result<LoweredFunc> {
    let mut inject = Inject { context, analyzer: Analyzer::of_params(&function.params) };
    let body = inject.mutate_stmt(&function.body)?;
    Ok(function.with_body(Strip { context }.mutate_stmt(&body)?))
}

/// [`inject_double_buffer`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.InjectDoubleBuffer")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, inject_double_buffer)
}

fn without_mark(annotations: &Map<Str, Any>) -> Map<Str, Any> {
    annotations.iter().filter(|(key, _)| key.as_str() != DOUBLE_BUFFER).collect()
}

fn is_marked(stmt: &Stmt) -> Option<&Buffer> {
    match &**stmt {
        StmtNode::Alloc { buffer, annotations } if annotations.get(DOUBLE_BUFFER).is_some() => Some(buffer),
        _ => None,
    }
}

/// Removes remaining annotations.
struct Strip<'a> {
    context: &'a PassContext,
}

impl MutateStmts for Strip<'_> {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        if let StmtNode::Alloc { buffer, annotations } = &**stmt
            && is_marked(stmt).is_some()
        {
            self.context.warn(format!("`{}` is not double buffered: no serial loop is around it", buffer.name));
            let annotations = without_mark(annotations);
            return Ok(Stmt::from_node(StmtNode::Alloc { buffer: buffer.clone(), annotations }));
        }
        mutate_stmt_parts(self, stmt)
    }
}

struct Inject<'a> {
    context: &'a PassContext,
    /// Facts about the surrounding loops.
    analyzer: Analyzer,
}

impl MutateStmts for Inject<'_> {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let StmtNode::For { var, min, extent, kind, annotations, body } = &**stmt else {
            return mutate_stmt_parts(self, stmt);
        };
        let mark = self.analyzer.mark();
        self.analyzer.bind(var, &Range::new(min, extent));
        let new_body = crate::ir::with_stack(|| self.mutate_stmt(body));
        self.analyzer.restore(mark);
        let new_body = new_body?;
        let stmts = new_body.to_stmts();
        if !stmts.iter().any(|stmt| is_marked(stmt).is_some()) || !matches!(kind, ForKind::Serial | ForKind::Unrolled) {
            if new_body.same_as(body) {
                return Ok(stmt.clone());
            }
            return Ok(Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), new_body));
        }
        let found = Loop { var, min, extent, kind: *kind, annotations };
        match Parts::of(var, &stmts) {
            Ok(parts) => self.doubled(&found, &parts),
            Err((name, reason)) => {
                self.context.warn(format!("`{name}` is not double buffered: {reason}"));
                let body = Stmt::seq(stmts.iter().map(|stmt| match &**stmt {
                    StmtNode::Alloc { buffer, annotations } => {
                        let annotations = without_mark(annotations);
                        Stmt::from_node(StmtNode::Alloc { buffer: buffer.clone(), annotations })
                    }
                    _ => stmt.clone(),
                }));
                Ok(Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), body))
            }
        }
    }
}

struct Loop<'a> {
    var: &'a Var,
    min: &'a Expr,
    extent: &'a Expr,
    kind: ForKind,
    annotations: &'a Map<Str, Any>,
}

/// The statements of a loop's body.
struct Parts {
    /// The buffers to double.
    buffers: Vec<Buffer>,
    /// The statements that fill them, with allocations and names that only these use.
    produce: Vec<Stmt>,
    /// The other statements.
    consume: Vec<Stmt>,
}

impl Parts {
    /// Separates the statements that fill the memory from those that read it. An error contains the
    /// name of the memory and the reason why that is impossible.
    fn of(var: &Var, stmts: &[Stmt]) -> Result<Self, (String, String)> {
        let buffers: Vec<Buffer> = stmts.iter().filter_map(|stmt| is_marked(stmt).cloned()).collect();
        let name = buffers[0].name.to_string();
        let refuse = |reason: &str| Err((name.clone(), reason.to_owned()));
        let doubled: HashSet<&Var> = buffers.iter().map(|buffer| &buffer.data).collect();
        let accesses: Vec<Accesses> = stmts.iter().map(Accesses::of).collect();
        let produces: Vec<bool> = accesses
            .iter()
            .map(|accesses| accesses.writes.iter().chain(&accesses.pointers).any(|data| doubled.contains(data)))
            .collect();
        // Other definitions of the body: memory and names.
        let defined: Vec<Option<&Var>> = stmts
            .iter()
            .map(|stmt| match &**stmt {
                StmtNode::Alloc { buffer, .. } | StmtNode::Alias { buffer, .. } => Some(&buffer.data),
                StmtNode::Bind { var, .. } => Some(var),
                _ => None,
            })
            .collect();
        let is_used =
            |place: usize, by: &Accesses| defined[place].is_some_and(|var| by.vars.contains(var) || by.touches(var));
        let body: HashSet<&Var> = defined.iter().flatten().copied().chain([var]).collect();
        for buffer in &buffers {
            let mut depends = !buffer.strides.is_empty();
            for extent in buffer.shape.iter() {
                for_each_expr(&extent, |part| depends |= Var::of(part).is_some_and(|used| body.contains(&used)));
            }
            if depends {
                return Err((buffer.name.to_string(), "its size differs between iterations".to_owned()));
            }
        }
        // Definitions that the producers use, directly or through other definitions.
        let mut needed: Vec<bool> = produces.clone();
        loop {
            let before = needed.clone();
            for place in 0..stmts.len() {
                let is_definition = defined[place].is_some_and(|var| !doubled.contains(var));
                if is_definition && !needed[place] {
                    needed[place] = (0..stmts.len()).any(|user| before[user] && is_used(place, &accesses[user]));
                }
            }
            if needed == before {
                break;
            }
        }
        // The definitions that the rest uses: names are computed twice, memory is not shared.
        let mut rest: Vec<bool> = needed.iter().map(|needed| !needed).collect();
        loop {
            let before = rest.clone();
            for place in 0..stmts.len() {
                if rest[place] || is_marked(&stmts[place]).is_some() || defined[place].is_none() {
                    continue;
                }
                rest[place] = (0..stmts.len()).any(|user| before[user] && is_used(place, &accesses[user]));
                if rest[place] && !matches!(*stmts[place], StmtNode::Bind { .. }) {
                    return refuse("what fills it shares memory with what reads it");
                }
            }
            if rest == before {
                break;
            }
        }
        let mut written: HashSet<&Var> = HashSet::new();
        for (place, accesses) in accesses.iter().enumerate().filter(|(place, _)| !needed[*place]) {
            if accesses.is_opaque && !matches!(&*stmts[place], StmtNode::Alloc { .. }) {
                return refuse("a call between may change anything");
            }
            written.extend(accesses.written());
        }
        let (mut produce, mut consume) = (Vec::new(), Vec::new());
        for (place, stmt) in stmts.iter().enumerate() {
            if is_marked(stmt).is_some() {
                continue;
            }
            if rest[place] {
                consume.push(stmt.clone());
            }
            if !needed[place] {
                continue;
            }
            let own = &accesses[place];
            if own.is_opaque {
                return refuse("what fills it calls a function that may do anything");
            }
            if own.reads.iter().chain(&own.pointers).any(|data| written.contains(data)) {
                return refuse("what fills it reads what the loop writes");
            }
            let is_own = |data: &Var| {
                doubled.contains(data)
                    || own.defined.contains(data)
                    || (0..stmts.len()).any(|other| needed[other] && defined[other] == Some(data))
            };
            if !own.written().all(is_own) {
                return refuse("what fills it writes other memory as well");
            }
            produce.push(stmt.clone());
        }
        Ok(Self { buffers, produce, consume })
    }
}

impl Inject<'_> {
    fn doubled(&self, of: &Loop<'_>, parts: &Parts) -> Result<Stmt> {
        let zero = Expr::constant(of.var.dtype(), 0);
        let extent = of.extent;
        let split = match self.context.options.double_buffer_split_loop {
            // The whole loop is unrolled.
            _ if of.kind == ForKind::Unrolled => extent.as_int().unwrap_or(1).max(1),
            split => split.max(0),
        };
        let halves: Vec<Buffer> = parts
            .buffers
            .iter()
            .map(|buffer| {
                let shape = [Expr::int(2)].into_iter().chain(buffer.shape.iter()).collect();
                Buffer::from_node(BufferNode {
                    data: buffer.data.renamed(buffer.data.name()),
                    shape,
                    ..buffer.to_node()
                })
            })
            .collect();
        let copy = |stmts: &[Stmt], step: &Expr| -> Result<(Stmt, Expr)> {
            let half = self.analyzer.simplify(&step.floor_mod(Expr::constant(of.var.dtype(), 2)));
            let places = parts.buffers.iter().zip(&halves).map(|(old, new)| {
                let offset = half.cast(I64) * element_count(old);
                (old.data.clone(), Place { buffer: new.clone(), offset: self.analyzer.simplify(&offset) })
            });
            let body = crate::ir::Mutate::mutate_stmt(
                &mut Relocate { places: places.collect() },
                &Stmt::seq(stmts.iter().cloned()),
            )?;
            let value = self.analyzer.simplify(&(of.min + step));
            Ok((fresh_copy(&body, [(of.var.clone(), value)].into_iter().collect()), half))
        };
        let produce = |step: &Expr| -> Result<Stmt> {
            let (body, half) = copy(&parts.produce, step)?;
            let shared = halves.iter().filter(|buffer| !matches!(buffer.scope.as_str(), "global" | "local"));
            let marked = |body, buffer: &Buffer| Stmt::attr(DOUBLE_BUFFER_WRITE, buffer.clone(), half.clone(), body);
            Ok(scoped(shared.fold(body, marked)))
        };
        let consume = |step: &Expr| -> Result<Stmt> { Ok(copy(&parts.consume, step)?.0) };
        // One iteration, with the part of the next one if there is one.
        let iteration = |step: &Expr| -> Result<Stmt> {
            let next = self.analyzer.simplify(&(step + 1));
            let more = self.analyzer.simplify(&next.less(extent));
            let ahead = match () {
                () if more.is_false() => Stmt::nothing(),
                () if more.is_true() => produce(&next)?,
                () => Stmt::if_then(more, produce(&next)?, None),
            };
            Ok(Stmt::seq([ahead, consume(step)?]))
        };
        let counted = |name: &str, min: &Expr, count: &Expr, body: &dyn Fn(&Expr) -> Result<Stmt>| -> Result<Stmt> {
            let count = self.analyzer.simplify(count);
            if count.as_int().is_some_and(|count| count <= 0) {
                return Ok(Stmt::nothing());
            }
            let var = of.var.renamed(name);
            let mark = self.analyzer.mark();
            self.analyzer.bind(&var, &Range::new(&zero, &count));
            let body = body(&self.analyzer.simplify(&(min + &var)));
            self.analyzer.restore(mark);
            Ok(Stmt::for_with(var, &zero, count, ForKind::Serial, of.annotations.clone(), body?))
        };

        let mut stmts: Vec<Stmt> = halves.iter().map(|buffer| Stmt::alloc(buffer.clone())).collect();
        let first = produce(&zero)?;
        let is_run = self.analyzer.simplify(&extent.greater(&zero));
        match () {
            () if is_run.is_true() => stmts.push(first),
            () if is_run.is_false() => return Ok(Stmt::nothing()),
            () => stmts.push(Stmt::if_then(is_run, first, None)),
        }
        let name = of.var.name();
        if split == 0 {
            stmts.push(counted(name, &zero, extent, &iteration)?);
            return Ok(Stmt::seq(stmts));
        }
        // The number of groups of `split` iterations that all have a next one.
        let groups = self.analyzer.simplify(&(extent - 1).floor_div(split).max(&zero));
        let step = Expr::constant(of.var.dtype(), split);
        stmts.push(counted(name, &zero, &groups, &|group| {
            let stages = (0..split).map(|inside| {
                let step = self.analyzer.simplify(&(group * &step + inside));
                Ok([produce(&self.analyzer.simplify(&(&step + 1)))?, consume(&step)?])
            });
            Ok(Stmt::seq(stages.collect::<Result<Vec<_>>>()?.into_iter().flatten().map(scoped)))
        })?);
        let done = self.analyzer.simplify(&(&groups * &step));
        let rest = self.analyzer.simplify(&(extent - &done));
        match rest.as_int() {
            Some(rest) => {
                for inside in 0..rest {
                    stmts.push(scoped(iteration(&self.analyzer.simplify(&(&done + inside)))?));
                }
            }
            None => stmts.push(counted(name, &done, &rest, &iteration)?),
        }
        Ok(Stmt::seq(stmts))
    }
}

/// Wraps a statement in a scope if it contains memory that would otherwise live too long.
fn scoped(stmt: Stmt) -> Stmt {
    let frees = stmt.to_stmts().iter().any(|stmt| matches!(**stmt, StmtNode::Alloc { .. }));
    // Names are new in each copy; memory is freed at the end of the scope.
    if frees { Stmt::attr("scope", Str::from("iteration"), 0, stmt) } else { stmt }
}
