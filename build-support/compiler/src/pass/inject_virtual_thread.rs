//! `InjectVirtualThread`: converts virtual threads, which are copies of one thread, to loops.
//!
//! Before: an attribute `virtual_thread` around a body that is run by a number of copies of a
//! thread, each of which has its own copy of the memory that is allocated inside. After: a loop
//! over the copies around each statement that depends on the copy, placed as far inside as
//! possible; statements that are the same for all copies run once. Memory that differs between
//! copies has one part for each.

use std::collections::{HashMap, HashSet};

use kernpack::{Any, Result as PackedResult, packed_func};

use super::PassContext;
use super::accesses::Accesses;
use super::pipeline::on_functions;
use super::relocate::{Place, Relocate, element_count};
use crate::arith::{Analyzer, IntSet, SetMap};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::refresh::fresh_copy;
use crate::ir::visit::{Visit, for_each_stmt, walk_stmt};
use crate::ir::{
    Buffer, BufferNode, Expr, ForKind, I64, IterVar, LoweredFunc, MutateStmts, Stmt, StmtNode, Var, with_stack,
};

/// A smaller number of copies is unrolled if there is no loop inside.
const FEW: i64 = 16;

/// Converts virtual threads to loops.
///
/// # Errors
/// Returns an error for a number of copies that is not a constant, and for a barrier, or threads of
/// a device, under a condition that differs between copies.
pub fn inject_virtual_thread(function: &LoweredFunc, _: &PassContext) -> Result<LoweredFunc> {
    let body =
        Find.mutate_stmt(&function.body).map_err(|error| error.note(format!("in function `{}`", function.name)))?;
    Ok(function.with_body(body))
}

/// [`inject_virtual_thread`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.InjectVirtualThread")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, inject_virtual_thread)
}

/// Finds virtual threads, the innermost ones first.
struct Find;

impl MutateStmts for Find {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let stmt = mutate_stmt_parts(self, stmt)?;
        let StmtNode::Attr { key, node, value, body } = &*stmt else { return Ok(stmt) };
        if key.as_str() != "virtual_thread" {
            return Ok(stmt);
        }
        let var = match (node.to::<IterVar>(), node.to::<Var>()) {
            (Ok(axis), _) => axis.var.clone(),
            (_, Ok(var)) => var,
            _ => return Ok(stmt),
        };
        let Some(count) = value.as_int() else {
            let what = format!("the number of copies of virtual thread `{}` is {value}, no constant", var.name());
            return Err(CompileError::new(ErrorKind::Lower, what).note("split by a constant number and bind that part"));
        };
        match count {
            ..=0 => return Ok(Stmt::nothing()),
            1 => return Ok(fresh_copy(body, [(var, Expr::int(0))].into_iter().collect())),
            _ => {}
        }
        let touched = Touched::of(&var, body);
        let mut copies = Copies { var, count, touched, memory: Relocate::default() };
        copies.body(body, &[])
    }
}

/// Values that differ between copies: variables, and memory that is allocated inside.
struct Touched {
    vars: HashSet<Var>,
    /// The underlying memory of each view.
    roots: HashMap<Var, Var>,
    inside: HashSet<Var>,
    changed: bool,
    /// True if a surrounding condition differs.
    under: bool,
}

impl Touched {
    fn of(var: &Var, body: &Stmt) -> Self {
        let mut inside = HashSet::new();
        let mut roots = HashMap::new();
        for_each_stmt(body, |stmt| match &**stmt {
            StmtNode::Alloc { buffer, .. } => {
                inside.insert(buffer.data.clone());
            }
            StmtNode::Alias { buffer, data } => {
                if let Some(root) = Accesses::of_expr(data).pointers.into_iter().next() {
                    roots.insert(buffer.data.clone(), root);
                }
            }
            _ => {}
        });
        let mut touched = Self { vars: HashSet::from([var.clone()]), roots, inside, changed: true, under: false };
        while touched.changed {
            touched.changed = false;
            touched.visit_stmt(body);
        }
        touched
    }

    fn root(&self, data: &Var) -> Var {
        let mut data = data.clone();
        while let Some(root) = self.roots.get(&data) {
            data = root.clone();
        }
        data
    }

    fn add(&mut self, var: &Var) {
        self.changed |= self.vars.insert(var.clone());
    }

    fn differs(&self, accesses: &Accesses) -> bool {
        self.under
            || accesses.vars.iter().any(|var| self.vars.contains(var))
            || accesses.reads.iter().chain(&accesses.pointers).any(|data| self.vars.contains(&self.root(data)))
    }

    fn is_touched(&self, expr: &Expr) -> bool {
        self.differs(&Accesses::of_expr(expr))
    }
}

impl Visit for Touched {
    fn visit_expr(&mut self, _: &Expr) {}

    fn visit_stmt(&mut self, stmt: &Stmt) {
        let outer = self.under;
        match &**stmt {
            // Loops whose bounds differ are run separately for each copy.
            StmtNode::For { var, min, extent, .. } if self.is_touched(min) || self.is_touched(extent) => {
                self.under = true;
                self.add(var);
            }
            StmtNode::If { condition, .. } | StmtNode::While { condition, .. } => {
                self.under |= self.is_touched(condition);
            }
            StmtNode::Attr { value, .. } => self.under |= self.is_touched(value),
            StmtNode::Bind { var, value } if self.is_touched(value) => self.add(var),
            StmtNode::Alias { buffer, data } if self.is_touched(data) => self.add(&buffer.data),
            StmtNode::Store { buffer, index, value, mask } => {
                let differs = self.is_touched(index)
                    || self.is_touched(value)
                    || mask.as_ref().is_some_and(|mask| self.is_touched(mask));
                let root = self.root(&buffer.data);
                if differs && self.inside.contains(&root) {
                    self.add(&root);
                }
            }
            StmtNode::Evaluate { value } => {
                // A call may write to the memory of its arguments.
                let accesses = Accesses::of_expr(value);
                if self.differs(&accesses) {
                    for data in &accesses.pointers {
                        let root = self.root(data);
                        if self.inside.contains(&root) {
                            self.add(&root);
                        }
                    }
                }
            }
            _ => {}
        }
        walk_stmt(self, stmt);
        self.under = outer;
    }
}

struct Copies {
    /// The index of the copy.
    var: Var,
    count: i64,
    touched: Touched,
    /// The memory of all copies, by data pointer of the memory of one; offsets are in terms of
    /// `var`.
    memory: Relocate,
}

impl Copies {
    /// Returns true if the effect of a statement differs between the copies: it depends on the
    /// copy, or it writes memory from outside.
    fn is_own(&self, accesses: &Accesses) -> bool {
        let differs = |var: &Var| self.touched.vars.contains(var);
        accesses.vars.iter().chain(&accesses.reads).chain(&accesses.writes).chain(&accesses.pointers).any(differs)
    }

    /// Rewrites statements in order; `names` are values of each copy, which are recomputed in each
    /// loop over the copies.
    fn body(&mut self, body: &Stmt, names: &[Stmt]) -> Result<Stmt> {
        with_stack(|| {
            let mut names = names.to_vec();
            let mut rewritten = Vec::new();
            for stmt in body.to_stmts() {
                match &*stmt {
                    StmtNode::Alloc { buffer, annotations } if self.touched.vars.contains(&buffer.data) => {
                        let buffer = self.allocate(buffer)?;
                        rewritten.push(Stmt::from_node(StmtNode::Alloc { buffer, annotations: annotations.clone() }));
                    }
                    StmtNode::Alias { buffer, .. } if self.touched.vars.contains(&buffer.data) => {
                        names.push(stmt.clone())
                    }
                    StmtNode::Bind { var, value } if self.touched.vars.contains(var) => {
                        let accesses = Accesses::of_expr(value);
                        if accesses.reads.is_empty() && accesses.pointers.is_empty() && !accesses.is_opaque {
                            names.push(stmt.clone());
                            continue;
                        }
                        // The memory that it reads may change before the name is used.
                        let kept = Buffer::new(var.name(), var.dtype(), [Expr::int(1)], "local");
                        let new = self.allocate(&kept)?;
                        rewritten.push(Stmt::alloc(new));
                        rewritten.push(self.copies(&Stmt::store(kept.clone(), 0, value), &names)?);
                        names.push(Stmt::bind(var.clone(), Expr::load(&kept, 0)));
                    }
                    _ => rewritten.push(self.stmt(&stmt, &names)?),
                }
            }
            Ok(Stmt::seq(rewritten))
        })
    }

    /// Allocates memory with a part for each copy; if the size differs, each part has the maximum
    /// size.
    fn allocate(&mut self, buffer: &Buffer) -> Result<Buffer> {
        let analyzer = Analyzer::new();
        let copies = SetMap::from([(self.var.clone(), IntSet::interval(0, self.count - 1))]);
        let differs = |extent: &Expr| self.is_own(&Accesses::of_expr(extent));
        let largest = |extent: Expr| match differs(&extent) {
            true => IntSet::evaluate(&extent, &copies, &analyzer).max().cloned().filter(|largest| !differs(largest)),
            false => Some(extent),
        };
        let extents: Option<Vec<Expr>> = buffer.shape.iter().map(largest).collect();
        let (Some(extents), true) = (extents, buffer.strides.is_empty()) else {
            let what =
                format!("the size of `{}` differs between copies of virtual thread `{}`", buffer.name, self.var.name());
            return Err(CompileError::new(ErrorKind::Lower, what).note("give it a constant size"));
        };
        let size = element_count(&Buffer::from_node(BufferNode { shape: extents.clone().into(), ..buffer.to_node() }));
        let shape = [Expr::int(self.count)].into_iter().chain(extents).collect();
        let data = buffer.data.renamed(buffer.data.name());
        let new = Buffer::from_node(BufferNode { data, shape, ..buffer.to_node() });
        let offset = self.var.expr().cast(I64) * size;
        self.memory.places.insert(buffer.data.clone(), Place { buffer: new.clone(), offset });
        Ok(new)
    }

    fn stmt(&mut self, stmt: &Stmt, names: &[Stmt]) -> Result<Stmt> {
        let own = |this: &Self, expr: &Expr| this.is_own(&Accesses::of_expr(expr));
        match &**stmt {
            StmtNode::Seq { .. } => self.body(stmt, names),
            StmtNode::For { var, min, extent, kind, annotations, body } => {
                if own(self, min) || own(self, extent) {
                    return self.copies(stmt, names);
                }
                let body = self.body(body, names)?;
                Ok(Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), body))
            }
            StmtNode::If { condition, then_body, else_body } => {
                if own(self, condition) {
                    return self.copies(stmt, names);
                }
                let then_body = self.body(then_body, names)?;
                let else_body = else_body.as_ref().map(|body| self.body(body, names)).transpose()?;
                Ok(Stmt::if_then(condition, then_body, else_body))
            }
            StmtNode::Attr { key, node, value, body } => {
                let named = node.to::<Buffer>().is_ok_and(|buffer| self.touched.vars.contains(&buffer.data));
                if own(self, value) || named {
                    return self.copies(stmt, names);
                }
                let body = self.body(body, names)?;
                Ok(Stmt::from_node(StmtNode::Attr { key: key.clone(), node: node.clone(), value: value.clone(), body }))
            }
            // The same for all copies, unless it writes outside memory: then each copy does.
            StmtNode::Store { buffer, .. } if self.is_outside(&buffer.data) => self.copies(stmt, names),
            StmtNode::Alloc { .. } | StmtNode::Alias { .. } | StmtNode::Bind { .. } => Ok(stmt.clone()),
            _ => {
                let accesses = Accesses::of(stmt);
                let is_call = accesses.is_opaque && !accesses.waits;
                if is_call || self.is_own(&accesses) { self.copies(stmt, names) } else { Ok(stmt.clone()) }
            }
        }
    }

    fn is_outside(&self, data: &Var) -> bool {
        !self.touched.inside.contains(&self.touched.root(data))
    }

    /// A loop over the copies around a statement.
    fn copies(&self, stmt: &Stmt, names: &[Stmt]) -> Result<Stmt> {
        let mut waits = false;
        let mut has_loop = false;
        for_each_stmt(stmt, |part| {
            has_loop |= matches!(**part, StmtNode::For { .. } | StmtNode::While { .. });
            let threads = matches!(&**part, StmtNode::Attr { key, .. } if key.as_str() == "thread_extent");
            waits |= threads || matches!(&**part, StmtNode::For { kind: ForKind::ThreadBinding, .. });
        });
        let accesses = Accesses::of(stmt);
        if !matches!(**stmt, StmtNode::Evaluate { .. }) {
            waits |= accesses.waits;
        }
        if waits {
            let what =
                format!("threads wait for each other where copies of virtual thread `{}` differ", self.var.name());
            return Err(CompileError::new(ErrorKind::Lower, what)
                .note("a barrier is reached by all copies: bind the virtual thread inside the other threads, to a loop without a rest"));
        }
        // The names that are used, directly or through other names.
        let mut used: Vec<&Stmt> = Vec::new();
        let mut wanted = accesses;
        for name in names.iter().rev() {
            let (defined, value) = match &**name {
                StmtNode::Bind { var, value } => (var, value),
                StmtNode::Alias { buffer, data } => (&buffer.data, data),
                _ => continue,
            };
            if wanted.vars.contains(defined) || wanted.touches(defined) {
                let more = Accesses::of_expr(value);
                wanted.vars.extend(more.vars);
                wanted.reads.extend(more.reads);
                wanted.pointers.extend(more.pointers);
                used.push(name);
            }
        }
        let body = Stmt::seq(used.into_iter().rev().cloned().chain([stmt.clone()]));
        let mut memory = Relocate { places: self.memory.places.clone() };
        let body = crate::ir::Mutate::mutate_stmt(&mut memory, &body)?;
        let copy = self.var.renamed(self.var.name());
        let body = fresh_copy(&body, [(self.var.clone(), copy.expr().clone())].into_iter().collect());
        let kind = if has_loop || self.count >= FEW { ForKind::Serial } else { ForKind::Unrolled };
        let zero = Expr::constant(copy.dtype(), 0);
        let count = Expr::constant(copy.dtype(), self.count);
        Ok(Stmt::for_loop(copy, zero, count, kind, body))
    }
}
