//! `ThreadSync`: inserts barriers between threads that share memory.
//!
//! A barrier is inserted before a statement that reads memory which another thread of the block may
//! have written since the last barrier, or writes memory which another thread may have read; and at
//! the end of the body of a loop whose next iteration does so. Accesses of an element that belongs
//! to one thread, and accesses of different parts of memory, need no barrier. Where a barrier is
//! needed under a condition that differs between threads, the condition is moved around the parts
//! between the barriers. Two writes of one element by different threads are an error in the program
//! that no barrier repairs. Memory of scope `shared` is shared by the threads of a block, that of
//! scope `warp` by those of a warp.

use std::collections::{HashMap, HashSet};

use kernpack::{Any, Array, Result as PackedResult, packed_func, structural};

use super::PassContext;
use super::accesses::Accesses;
use super::inject_double_buffer::DOUBLE_BUFFER_WRITE;
use super::pipeline::on_functions;
use super::threads::{Threads, barrier, with_attributes};
use crate::arith::{Analyzer, IntSet, SetMap, detect_linear};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::builtin::Effect;
use crate::ir::mutate::mutate_stmt_parts;
use crate::ir::visit::{Visit, has_part, uses_var, walk_expr};
use crate::ir::{
    BinaryOp, Buffer, CallKind, DataTypeExt, Expr, ExprNode, FuncKind, LoweredFunc, MutateStmts, Param, Range, Stmt,
    StmtNode, Var, builtin, with_stack,
};

/// Inserts the barriers that threads need.
///
/// # Errors
/// Returns an error if a barrier is needed in a place that not all threads reach.
pub fn thread_sync(function: &LoweredFunc, context: &PassContext) -> Result<LoweredFunc> {
    let mut body = with_attributes(&function.body)?;
    let separate = context.options.restricted_func;
    for scope in ["shared", "warp"] {
        let kernels = &mut Kernels { scope, separate, params: &function.params };
        body = if function.kind == FuncKind::Device {
            let mut sync = Sync::new(scope, constants(&body, separate), &function.params);
            for axis in function.thread_axes.iter().filter(|axis| axis.thread_tag.as_str().starts_with("threadIdx")) {
                sync.varying.insert(axis.var.clone());
                sync.threads.push((axis.var.clone(), None));
            }
            sync.stmt(&body, true).map(|(body, _)| body)
        } else {
            kernels.mutate_stmt(&body)
        }
        .map_err(|error| error.note(format!("in function `{}`", function.name)))?;
    }
    Ok(function.with_body(body))
}

/// [`thread_sync`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.ThreadSync")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, thread_sync)
}

/// Finds the places where threads are launched.
struct Kernels<'a> {
    scope: &'static str,
    /// True if arguments do not overlap.
    separate: bool,
    /// The parameters of the function.
    params: &'a Array<Param>,
}

/// Outside memory that a kernel reads and never writes.
fn constants(kernel: &Stmt, separate: bool) -> HashSet<Var> {
    let accesses = Accesses::of(kernel);
    let writes = accesses.written().any(|memory| !accesses.defined.contains(memory));
    if accesses.is_opaque || writes && !separate {
        return HashSet::new();
    }
    let is_constant = |memory: &&Var| {
        ![&accesses.writes, &accesses.pointers, &accesses.defined].into_iter().any(|set| set.contains(*memory))
    };
    accesses.reads.iter().filter(is_constant).cloned().collect()
}

impl MutateStmts for Kernels<'_> {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match Threads::of(stmt) {
            Some(_) => Ok(Sync::new(self.scope, constants(stmt, self.separate), self.params).stmt(stmt, true)?.0),
            None => mutate_stmt_parts(self, stmt),
        }
    }
}

/// One access of shared memory.
#[derive(Clone)]
struct Access {
    memory: Var,
    name: String,
    is_write: bool,
    /// The elements, over all threads and iterations.
    elements: IntSet,
    /// The elements that belong to each thread alone; `None` if other threads may access them.
    own: Option<Digits>,
    /// For each dimension of threads, the only thread that executes the access, if there is only
    /// one.
    only: Vec<Option<i64>>,
    /// True if it fills the half of a double buffer that is not read in the same iteration.
    fills_half: bool,
}

/// An index as a number whose digits are threads and loops: an element belongs to one thread,
/// whatever iteration each thread is in.
#[derive(Clone)]
struct Digits {
    /// The coefficients of the digits of threads, in order.
    threads: Vec<Expr>,
    /// The coefficients of the digits of loops above the lowest thread, and their numbers of
    /// values, from the lowest.
    loops: Vec<(Expr, Expr)>,
    /// The coefficient of the lowest digit of a thread.
    unit: Expr,
    /// The ends of the part below it.
    low: (Expr, Expr),
}

impl Digits {
    /// Returns true if an element that both indices address belongs to one thread.
    fn fit(&self, other: &Self, analyzer: &Analyzer) -> bool {
        let same = |a: &Expr, b: &Expr| structural::equal(a, b).unwrap_or(false);
        self.threads.len() == other.threads.len()
            && self.loops.len() == other.loops.len()
            && self.threads.iter().zip(&other.threads).all(|(a, b)| same(a, b))
            && self.loops.iter().zip(&other.loops).all(|(a, b)| same(&a.0, &b.0) && same(&a.1, &b.1))
            && analyzer.can_prove(&(&self.low.1 - &other.low.0).less(&self.unit))
            && analyzer.can_prove(&(&other.low.1 - &self.low.0).less(&self.unit))
    }
}

/// The accesses of shared memory by a statement.
#[derive(Clone, Default)]
struct Summary {
    /// The accesses before its first barrier.
    head: Vec<Access>,
    /// The accesses after its last barrier.
    tail: Vec<Access>,
    /// True if a barrier is always executed.
    waits: bool,
}

impl Summary {
    fn of(accesses: Vec<Access>) -> Self {
        Self { head: accesses.clone(), tail: accesses, waits: false }
    }
}

struct Sync {
    scope: &'static str,
    analyzer: Analyzer,
    /// The threads that share the memory, and the number of each; `None` if unknown.
    threads: Vec<(Var, Option<i64>)>,
    /// The sets of values of threads and loops.
    sets: SetMap,
    /// The surrounding loops, with their ranges.
    loops: Vec<(Var, Range)>,
    /// The memory of the scope, by each pointer to it.
    memory: HashMap<Var, Var>,
    /// The names whose values differ between threads.
    varying: HashSet<Var>,
    /// The double-buffered memory whose other half is filled here.
    filled: Vec<Var>,
    /// Memory that no thread writes.
    constants: HashSet<Var>,
}

impl Sync {
    fn new(scope: &'static str, constants: HashSet<Var>, params: &Array<Param>) -> Self {
        Self {
            scope,
            analyzer: Analyzer::of_params(params),
            threads: Vec::new(),
            sets: SetMap::new(),
            loops: Vec::new(),
            memory: HashMap::new(),
            varying: HashSet::new(),
            filled: Vec::new(),
            constants,
        }
    }

    /// Returns true if a value is the same for all threads: it contains no thread index and no load
    /// from memory that changes.
    fn is_uniform(&self, expr: &Expr) -> bool {
        let accesses = Accesses::of_expr(expr);
        accesses.reads.is_subset(&self.constants)
            && accesses.pointers.is_empty()
            && !accesses.is_opaque
            && !accesses.vars.iter().any(|var| self.varying.contains(var))
    }

    fn stmt(&mut self, stmt: &Stmt, uniform: bool) -> Result<(Stmt, Summary)> {
        with_stack(|| self.stmt_below(stmt, uniform))
    }

    fn stmt_below(&mut self, stmt: &Stmt, uniform: bool) -> Result<(Stmt, Summary)> {
        match &**stmt {
            StmtNode::Seq { stmts } => self.seq(&stmts.to_vec(), uniform),
            StmtNode::For { var, min, extent, kind, annotations, body } => {
                let inside = uniform && self.is_uniform(min) && self.is_uniform(extent);
                if !inside {
                    self.varying.insert(var.clone());
                }
                let range = Range::new(min, extent);
                let set = IntSet::of_range(&range).relaxed(&self.sets, &self.analyzer);
                self.sets.insert(var.clone(), set);
                let mark = self.analyzer.mark();
                self.analyzer.bind(var, &range);
                self.loops.push((var.clone(), range));
                let done = self.stmt(body, inside);
                self.loops.pop();
                self.analyzer.restore(mark);
                let (mut new, mut summary) = done?;
                let mut own = Vec::new();
                self.expr(min, &mut own);
                self.expr(extent, &mut own);
                let again = extent.as_int() != Some(1);
                if again && let Some(pair) = self.conflict(&summary.tail, &summary.head, true) {
                    if !inside {
                        return Err(self.divergent(&pair));
                    }
                    new = Stmt::seq([new, barrier(self.scope)]);
                    summary = Summary { head: summary.head, tail: Vec::new(), waits: true };
                }
                summary.waits &= extent.as_int().is_some_and(|extent| extent > 0);
                own.append(&mut summary.head);
                summary.head = own;
                if new.same_as(body) {
                    return Ok((stmt.clone(), summary));
                }
                Ok((Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), new), summary))
            }
            StmtNode::If { condition, then_body, else_body } => {
                let inside = uniform && self.is_uniform(condition);
                let parts = (condition, then_body, else_body.as_ref());
                if !uniform || inside || !is_made_of_names(condition) {
                    return self.condition(parts, inside);
                }
                let (varying, mark, filled) = (self.varying.clone(), self.analyzer.mark(), self.filled.len());
                let done = self.condition(parts, inside);
                if done.is_ok() {
                    return done;
                }
                // All threads reach the barrier if the condition is moved around the parts between
                // the barriers.
                let Some(spread) = spread(stmt) else { return done };
                self.varying = varying;
                self.analyzer.restore(mark);
                self.filled.truncate(filled);
                self.stmt(&spread, uniform)
            }
            StmtNode::While { condition, body } => {
                let (_, mut summary) = self.stmt(body, false)?;
                let mut head = Vec::new();
                self.expr(condition, &mut head);
                summary.head.append(&mut head);
                summary.tail = summary.head.clone();
                if let Some(pair) = self.conflict(&summary.tail, &summary.head, false) {
                    return Err(self.divergent(&pair));
                }
                Ok((stmt.clone(), summary))
            }
            StmtNode::Attr { key, node, value, body } => {
                if let Some((threads, _)) = Threads::of(stmt) {
                    let range = Range::until(&threads.extent);
                    self.sets.insert(threads.var.clone(), IntSet::of_range(&range));
                    self.analyzer.bind(&threads.var, &range);
                    if threads.is_inside_block() && self.varying.insert(threads.var.clone()) {
                        self.threads.push((threads.var.clone(), threads.extent.as_int()));
                    }
                }
                // Constant halves are treated like any other parts of memory.
                let fills = key.as_str() == DOUBLE_BUFFER_WRITE && value.as_int().is_none();
                let filled = node.to::<Buffer>().ok().filter(|_| fills);
                self.filled.extend(filled.iter().map(|buffer| buffer.data.clone()));
                let (new, summary) = self.stmt(body, uniform)?;
                if filled.is_some() {
                    self.filled.pop();
                }
                let (key, value) = (key.clone(), value.clone());
                Ok((Stmt::from_node(StmtNode::Attr { key, node: node.clone(), value, body: new }), summary))
            }
            StmtNode::Alloc { buffer, .. } => {
                let scope = buffer.scope.as_str();
                if scope.split('.').next() == Some(self.scope) {
                    self.memory.insert(buffer.data.clone(), buffer.data.clone());
                }
                Ok((stmt.clone(), Summary::default()))
            }
            StmtNode::Alias { buffer, data } => {
                let root = Accesses::of_expr(data).pointers.iter().find_map(|data| self.memory.get(data).cloned());
                if let Some(root) = root {
                    self.memory.insert(buffer.data.clone(), root);
                }
                Ok((stmt.clone(), Summary::default()))
            }
            _ => {
                if let StmtNode::Bind { var, value } = &**stmt
                    && !self.is_uniform(value)
                {
                    self.varying.insert(var.clone());
                }
                Ok((stmt.clone(), Summary::of(self.accesses(stmt))))
            }
        }
    }

    fn condition(
        &mut self,
        (condition, then_body, else_body): (&Expr, &Stmt, Option<&Stmt>),
        inside: bool,
    ) -> Result<(Stmt, Summary)> {
        let mark = self.analyzer.mark();
        self.analyzer.enter(condition);
        let (new_then, then) = self.stmt(then_body, inside)?;
        self.analyzer.restore(mark);
        let (new_else, other) = match else_body {
            Some(body) => {
                let mark = self.analyzer.mark();
                self.analyzer.enter_negation(condition);
                let (new, summary) = self.stmt(body, inside)?;
                self.analyzer.restore(mark);
                (Some(new), summary)
            }
            None => (None, Summary::default()),
        };
        if !inside && let Some(pair) = self.conflict(&then.head, &other.head, false) {
            return Err(self.divergent(&pair));
        }
        let mut head = Vec::new();
        self.expr(condition, &mut head);
        head.extend(then.head.iter().chain(&other.head).cloned());
        let tail = then.tail.iter().chain(&other.tail).cloned().collect();
        let summary = Summary { head, tail, waits: then.waits && other.waits };
        Ok((Stmt::if_then(condition, new_then, new_else), summary))
    }

    fn seq(&mut self, stmts: &[Stmt], uniform: bool) -> Result<(Stmt, Summary)> {
        let mut new = Vec::with_capacity(stmts.len());
        let mut all = Summary::default();
        for stmt in stmts {
            if self.is_barrier(stmt) {
                all.tail.clear();
                all.waits = true;
                new.push(stmt.clone());
                continue;
            }
            let (stmt, summary) = self.stmt(stmt, uniform)?;
            if let Some(pair) = self.conflict(&all.tail, &summary.head, false) {
                if !uniform {
                    return Err(self.divergent(&pair));
                }
                new.push(barrier(self.scope));
                all.tail.clear();
                all.waits = true;
            }
            if !all.waits {
                all.head.extend(summary.head.iter().cloned());
            }
            if summary.waits {
                all.tail = summary.tail;
            } else {
                all.tail.extend(summary.tail);
            }
            all.waits |= summary.waits;
            new.push(stmt);
        }
        Ok((Stmt::seq(new), all))
    }

    fn is_barrier(&self, stmt: &Stmt) -> bool {
        let StmtNode::Evaluate { value } = &**stmt else { return false };
        let ExprNode::Call { kind: CallKind::Builtin, name, args, .. } = &**value else { return false };
        // A barrier of the block is also one of its warps.
        name.as_str() == builtin::STORAGE_SYNC
            && args.get(0).is_some_and(|scope| match &*scope {
                ExprNode::Text { value } => value.as_str() == self.scope || value.as_str() == "shared",
                _ => false,
            })
    }

    /// The accesses of a statement without inner statements, in order.
    fn accesses(&self, stmt: &Stmt) -> Vec<Access> {
        let mut found = Vec::new();
        match &**stmt {
            StmtNode::Store { buffer, index, value, mask } => {
                for part in [Some(index), Some(value), mask.as_ref()].into_iter().flatten() {
                    self.expr(part, &mut found);
                }
                self.add(buffer, Some(index), true, &mut found);
            }
            StmtNode::Bind { value, .. } | StmtNode::Evaluate { value } | StmtNode::Return { value } => {
                self.expr(value, &mut found);
            }
            StmtNode::Assert { condition, .. } => self.expr(condition, &mut found),
            _ => {}
        }
        found
    }

    fn expr(&self, expr: &Expr, found: &mut Vec<Access>) {
        if !self.memory.is_empty() {
            Reads { sync: self, found }.visit_expr(expr);
        }
    }

    fn add(&self, buffer: &Buffer, index: Option<&Expr>, is_write: bool, found: &mut Vec<Access>) {
        let Some(memory) = self.memory.get(&buffer.data) else { return };
        // An alias may start elsewhere.
        let index = index.filter(|_| *memory == buffer.data).map(|index| self.analyzer.simplify(index));
        let (elements, own) = match &index {
            Some(index) => (self.elements(index), self.own(index)),
            None => (IntSet::everything(), None),
        };
        found.push(Access {
            memory: memory.clone(),
            name: buffer.name.to_string(),
            is_write,
            elements,
            own,
            only: self.threads.iter().map(|(var, _)| self.analyzer.const_interval(var).as_point()).collect(),
            fills_half: self.filled.contains(memory),
        });
    }

    /// The first and the last lane of an index.
    fn ends(&self, index: &Expr) -> Option<(Expr, Expr)> {
        match &**index {
            ExprNode::Ramp { base, stride, lanes } => {
                let last = base + stride * (i64::from(*lanes) - 1);
                Some(if stride.as_int()? >= 0 { (base.clone(), last) } else { (last, base.clone()) })
            }
            ExprNode::Broadcast { value, .. } => Some((value.clone(), value.clone())),
            _ if index.lanes() == 1 => Some((index.clone(), index.clone())),
            _ => None,
        }
    }

    fn elements(&self, index: &Expr) -> IntSet {
        let Some((first, last)) = self.ends(index) else { return IntSet::everything() };
        let first = IntSet::evaluate(&first, &self.sets, &self.analyzer);
        let last = IntSet::evaluate(&last, &self.sets, &self.analyzer);
        match (first.min(), last.max()) {
            (Some(first), Some(last)) => IntSet::interval(first, last),
            _ => IntSet::everything(),
        }
    }

    /// The index as a number whose digits are threads.
    fn own(&self, index: &Expr) -> Option<Digits> {
        let (base, lanes) = match &**index {
            ExprNode::Ramp { base, stride, lanes } => (base, Some((stride.clone(), Expr::int((*lanes).into())))),
            _ if index.lanes() == 1 => (index, None),
            _ => return None,
        };
        let loops: Vec<&(Var, Range)> =
            self.loops.iter().filter(|(var, _)| uses_var(base, |used| used == var)).collect();
        let vars: Vec<Var> =
            self.threads.iter().map(|(var, _)| var.clone()).chain(loops.iter().map(|(var, _)| var.clone())).collect();
        let form = detect_linear(base, &vars, &self.analyzer)?;
        if !self.is_uniform(&form.base) {
            return None;
        }
        let (threads, of_loops) = form.coefficients.split_at(self.threads.len());
        let mut digits: Vec<(Expr, Expr)> = Vec::new();
        for ((var, extent), coefficient) in self.threads.iter().zip(threads) {
            // Only one of them executes it.
            if *extent == Some(1) || self.analyzer.const_interval(var).as_point().is_some() {
                continue;
            }
            digits.push((coefficient.clone(), Expr::int((*extent)?)));
        }
        let proven = |condition: Expr| self.analyzer.can_prove(&condition);
        let lowest = |digits: &[(Expr, Expr)]| {
            let is_lowest = |place: &usize| digits.iter().all(|(other, _)| proven(digits[*place].0.less_equal(other)));
            (0..digits.len()).find(is_lowest)
        };
        let unit = digits.get(lowest(&digits)?)?.0.clone();
        let (mut first, mut last, mut high) = (form.base.clone(), form.base.clone(), Vec::new());
        let others = loops.iter().map(|(_, range)| range.clone()).zip(of_loops.iter().cloned());
        let lanes = lanes.map(|(stride, lanes)| (Range::until(lanes), stride));
        for (range, coefficient) in others.chain(lanes) {
            if !proven(coefficient.greater_equal(0)) {
                return None;
            }
            let span = &coefficient * (&range.extent - 1);
            first = first + &coefficient * &range.min;
            last = last + &coefficient * &range.min;
            if proven(span.less(&unit)) {
                last = last + span;
            } else {
                high.push((coefficient, range.extent.clone()));
            }
        }
        // The part below a digit must not reach it.
        let mut rest: Vec<(Expr, Expr)> = digits.iter().chain(&high).cloned().collect();
        let mut reach = &unit - 1;
        while !rest.is_empty() {
            let (coefficient, extent) = rest.remove(lowest(&rest)?);
            if !proven(coefficient.greater(&reach)) {
                return None;
            }
            reach = self.analyzer.simplify(&(reach + coefficient * (extent - 1)));
        }
        let mut loops = Vec::new();
        while !high.is_empty() {
            loops.push(high.remove(lowest(&high)?));
        }
        let low = (self.analyzer.simplify(&first), self.analyzer.simplify(&last));
        Some(Digits { threads: threads.to_vec(), loops, unit, low })
    }

    /// Returns two accesses that need a barrier between them. `carried`: the second one is in the
    /// next iteration of a loop.
    fn conflict(&self, before: &[Access], after: &[Access], carried: bool) -> Option<(Access, Access)> {
        if self.threads.iter().all(|(_, extent)| *extent == Some(1)) {
            return None;
        }
        for first in before {
            for second in after {
                // Two threads that write one element without a read in between are an error in the
                // program.
                let harmless = first.memory != second.memory || first.is_write == second.is_write;
                let halves = !carried && first.fills_half != second.fills_half;
                if harmless || halves || self.apart(first, second) || self.same_thread(first, second) {
                    continue;
                }
                return Some((first.clone(), second.clone()));
            }
        }
        None
    }

    /// Returns true if only one thread accesses an element that both accesses have in common.
    fn same_thread(&self, a: &Access, b: &Access) -> bool {
        if a.only != b.only {
            return false;
        }
        let alone = a.only.iter().all(Option::is_some);
        alone || a.own.as_ref().zip(b.own.as_ref()).is_some_and(|(a, b)| a.fit(b, &self.analyzer))
    }

    /// Returns true if two accesses are in different parts of memory.
    fn apart(&self, a: &Access, b: &Access) -> bool {
        let below = |a: &IntSet, b: &IntSet| match (a.max(), b.min()) {
            (Some(last), Some(first)) => self.analyzer.can_prove(&last.less(first)),
            _ => false,
        };
        a.elements.is_nothing()
            || b.elements.is_nothing()
            || below(&a.elements, &b.elements)
            || below(&b.elements, &a.elements)
    }

    fn divergent(&self, (first, second): &(Access, Access)) -> CompileError {
        let verb = |access: &Access| if access.is_write { "written" } else { "read" };
        let what = format!(
            "`{}` is {} and {} by different threads, and the barrier between would not be reached by all of them",
            first.name,
            verb(first),
            verb(second)
        );
        CompileError::new(ErrorKind::Lower, what)
            .note("a condition or the bounds of a loop around differ between threads: compute the stage outside of it")
    }
}

/// Returns true if an expression has the same value wherever its variables are in scope, and may be
/// evaluated there: it reads no memory, does not divide by a variable and has no side effects.
fn is_made_of_names(expr: &Expr) -> bool {
    !has_part(expr, |part| match &**part {
        ExprNode::Load { .. } => true,
        ExprNode::Binary { op: BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod, b, .. } => {
            b.as_int().is_none_or(|divisor| divisor == 0)
        }
        ExprNode::Call { kind, name, .. } => builtin::effect(*kind, name.as_str()) > Effect::Pure,
        _ => false,
    })
}

/// Distributes a condition over the statements or loops inside; `None` if that has no benefit, or
/// if they use values that cannot be evaluated elsewhere.
fn spread(stmt: &Stmt) -> Option<Stmt> {
    let StmtNode::If { condition, then_body, else_body } = &**stmt else { return None };
    let is_leaf = |body: &Stmt| {
        !matches!(**body, StmtNode::Seq { .. } | StmtNode::For { .. } | StmtNode::If { .. } | StmtNode::Attr { .. })
    };
    if is_leaf(then_body) && else_body.is_none() {
        return None;
    }
    let then = under(condition, then_body)?;
    let other = match else_body {
        Some(body) => under(&condition.without_likely().0.negated(), body)?,
        None => Stmt::nothing(),
    };
    Some(Stmt::seq([then, other]))
}

/// Moves a condition around the parts of a statement; `None` if the statement uses values that
/// cannot be evaluated elsewhere.
fn under(condition: &Expr, stmt: &Stmt) -> Option<Stmt> {
    with_stack(|| match &**stmt {
        StmtNode::Seq { stmts } => {
            stmts.iter().map(|stmt| under(condition, &stmt)).collect::<Option<Vec<_>>>().map(Stmt::seq)
        }
        StmtNode::For { var, min, extent, kind, annotations, body } => {
            if !is_made_of_names(min) || !is_made_of_names(extent) {
                return Some(Stmt::if_then(condition, stmt.clone(), None));
            }
            let body = under(condition, body)?;
            Some(Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), body))
        }
        StmtNode::If { condition: own, then_body, else_body } if is_made_of_names(own) => {
            let own = own.without_likely().0;
            let then = under(&condition.and(&own), then_body)?;
            let other = match else_body {
                Some(body) => under(&condition.and(own.negated()), body)?,
                None => Stmt::nothing(),
            };
            Some(Stmt::seq([then, other]))
        }
        StmtNode::Attr { key, node, value, body } => {
            let (key, value, body) = (key.clone(), value.clone(), under(condition, body)?);
            Some(Stmt::from_node(StmtNode::Attr { key, node: node.clone(), value, body }))
        }
        // Names are needed by the following statements, which have their own conditions.
        StmtNode::Alloc { .. } => Some(stmt.clone()),
        StmtNode::Bind { value, .. } | StmtNode::Alias { data: value, .. } => {
            is_made_of_names(value).then(|| stmt.clone())
        }
        // Threads already synchronize here, or leave.
        StmtNode::Evaluate { value } if !waits_for_none(value) => None,
        StmtNode::Return { .. } | StmtNode::While { .. } | StmtNode::Assert { .. } => None,
        _ => Some(Stmt::if_then(condition, stmt.clone(), None)),
    })
}

/// Returns true if an expression contains no synchronization of threads.
fn waits_for_none(expr: &Expr) -> bool {
    !Accesses::of_expr(expr).waits
}

/// Finds loads.
struct Reads<'a> {
    sync: &'a Sync,
    found: &'a mut Vec<Access>,
}

impl Visit for Reads<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        match &**expr {
            ExprNode::Load { buffer, index, .. } => self.sync.add(buffer, Some(index), false, self.found),
            // A pointer that escapes may be used for any access.
            ExprNode::Var { .. } if expr.dtype().is_handle() => {
                if let Some(data) = Var::of(expr)
                    && self.sync.memory.contains_key(&data)
                {
                    let buffer = Buffer::from_node(crate::ir::BufferNode {
                        data: data.clone(),
                        ..Buffer::new(data.name(), crate::ir::U8, [], self.sync.scope).to_node()
                    });
                    self.sync.add(&buffer, None, true, self.found);
                }
            }
            ExprNode::Call { kind: CallKind::Builtin, name, args, .. }
                if matches!(name.as_str(), builtin::ACCESS_PTR | builtin::MAKE_TENSOR) =>
            {
                if let Some(load) = args.get(0)
                    && let ExprNode::Load { buffer, .. } = &*load
                {
                    self.sync.add(buffer, None, true, self.found);
                }
            }
            _ => {}
        }
        walk_expr(self, expr);
    }
}
