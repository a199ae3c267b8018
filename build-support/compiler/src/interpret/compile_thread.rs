//! Compilation of launches, threads and collective operations.

use super::code::{AllReduce, Axis, FunctionCode, Op, Place, Reg};
use super::compile::Compiler;
use crate::error::{Result, fail, require};
use crate::ir::{Expr, ForKind, IterVar, LoweredFunc, Reducer, Stmt, StmtNode, Var, visit};

impl Compiler<'_, '_> {
    /// Compiles a kernel: its threads start where it starts.
    pub(super) fn device_body(&mut self, func: &LoweredFunc) -> Result<Vec<Axis>> {
        let mut axes: Vec<Axis> = Vec::new();
        for axis in func.thread_axes.iter() {
            let extent = self.lasting();
            axes.push(Axis { tag: axis.thread_tag.to_string(), extent });
        }
        let given = axes.iter().map(|axis| Axis { tag: axis.tag.clone(), extent: axis.extent }).collect();
        for (tag, extent) in thread_extents(&func.body)? {
            // An extent that the launch sets need not be known here.
            let launched = axes.iter().find(|axis| axis.tag == tag).map(|axis| axis.extent);
            match (launched, self.index(&extent)) {
                (Some(given), Ok(expected)) => {
                    self.emit(Op::CheckArgument { given, expected, what: format!("extent of {tag}") });
                }
                (Some(_), Err(_)) => {}
                (None, extent) => axes.push(Axis { tag, extent: extent? }),
            }
        }
        self.floor = self.next;
        let at = self.emit(Op::Launch { axes, end: 0 });
        self.kernel = true;
        for axis in func.thread_axes.iter() {
            let to = self.define(&axis.var);
            self.emit(Op::ThreadIndex { to, tag: axis.thread_tag.to_string() });
        }
        self.body(&func.body)?;
        self.emit(Op::EndThread);
        self.set_target(at);
        Ok(given)
    }

    /// Compiles a body that threads run: real ones of a launch, or copies of one thread.
    pub(super) fn threads(
        &mut self,
        stmt: &Stmt,
        key: &str,
        tag: &str,
        var: &Var,
        extent: &Expr,
        body: &Stmt,
    ) -> Result<()> {
        let (vars, visible, floor) = (self.vars.clone(), self.visible.clone(), self.floor);
        let mut launch = None;
        if !self.kernel {
            let mut axes: Vec<Axis> = Vec::new();
            for (tag, extent) in thread_extents(stmt)? {
                let extent = self.index(&extent).map_err(|error| {
                    error.note(format!("the extent of {tag} has to be known where the kernel is launched"))
                })?;
                match axes.iter().find(|axis| axis.tag == tag) {
                    Some(axis) => {
                        let what = format!("second extent of {tag}");
                        self.emit(Op::CheckArgument { given: extent, expected: axis.extent, what });
                    }
                    None => axes.push(Axis { tag, extent }),
                }
            }
            launch = Some(self.emit(Op::Launch { axes, end: 0 }));
            self.kernel = true;
        }
        let reg = self.lasting();
        let mut fork = None;
        if is_virtual(key, tag) {
            let extent = self.index(extent)?;
            fork = Some(self.emit(Op::Fork { var: reg, extent, end: 0 }));
        } else {
            self.emit(Op::ThreadIndex { to: reg, tag: tag.to_owned() });
        }
        self.define_as(var, reg);
        let loops = core::mem::take(&mut self.loops);
        self.body(body)?;
        self.loops = loops;
        if let Some(fork) = fork {
            self.emit(Op::EndThread);
            self.set_target(fork);
        }
        if let Some(launch) = launch {
            self.emit(Op::EndThread);
            self.set_target(launch);
            self.kernel = false;
        }
        (self.vars, self.visible, self.floor) = (vars, visible, floor);
        Ok(())
    }

    /// `thread_allreduce(n, sources.., condition, results.., threads..)`
    pub(super) fn all_reduce(&mut self, args: &[Expr]) -> Result<()> {
        require!(self.kernel, Run, "`thread_allreduce` outside of a kernel");
        let Some(reducer) = self.reducers.last().cloned() else {
            fail!(Run, "`thread_allreduce` without an attribute `reduce_scope` around it");
        };
        let count = args.first().and_then(|count| count.as_int()).unwrap_or(0) as usize;
        require!(count > 0 && args.len() > 2 * count + 2, Run, "`thread_allreduce` with {} arguments", args.len());
        let sources = args[1..=count].iter().map(|source| self.value(source)).collect::<Result<Vec<_>>>()?;
        let condition = self.value(&args[count + 1])?;
        let mut results = Vec::new();
        for (handle, source) in args[count + 2..2 * count + 2].iter().zip(&args[1..]) {
            let data = self.value(handle)?;
            results.push(Place::new(data, None, "result", source.dtype()));
        }
        let mut tags = Vec::new();
        for thread in &args[2 * count + 2..] {
            let Some(reg) = Var::of(thread).and_then(|var| self.vars.get(&var).copied()) else {
                fail!(Run, "`thread_allreduce` over something that is not a thread");
            };
            let tag = self.ops.iter().rev().find_map(|op| match op {
                Op::ThreadIndex { to, tag } if *to == reg => Some(tag.clone()),
                _ => None,
            });
            let Some(tag) = tag else { fail!(Run, "`thread_allreduce` over a variable that is not a thread") };
            tags.push(tag);
        }
        let reducer = self.reducer(&reducer)?;
        self.emit(Op::AllReduce(Box::new(AllReduce { reducer, sources, condition, results, tags })));
        Ok(())
    }

    /// Compiles the combiner to a function of left values, right values, and after them the results
    /// and the identity.
    pub(super) fn reducer(&mut self, reducer: &Reducer) -> Result<usize> {
        let mut inner = Compiler::new(&self.function, self.shared);
        for var in reducer.lhs.iter().chain(reducer.rhs.iter()) {
            inner.define(&var);
        }
        let outputs: Vec<Reg> =
            reducer.results.iter().chain(reducer.identity.iter()).map(|_| inner.lasting()).collect();
        for (value, to) in reducer.results.iter().chain(reducer.identity.iter()).zip(outputs) {
            let from = inner.value(&value)?;
            inner.emit(Op::Copy { to, from });
        }
        inner.emit(Op::Return { value: None });
        let code = FunctionCode {
            name: inner.function.clone(),
            params: Vec::new(),
            ret: None,
            ops: inner.ops,
            origins: inner.origins,
            registers: inner.registers,
            body: 0,
            launch: Vec::new(),
        };
        self.shared.reducers.push(code);
        Ok(self.shared.names.len() + self.shared.reducers.len() - 1)
    }
}

pub(super) fn thread_axis(node: &kernpack::Any) -> Option<IterVar> {
    node.to::<IterVar>().ok()
}

/// The tag and the variable of a `thread_extent` or `virtual_thread` attribute.
pub(super) fn thread_of(node: &kernpack::Any) -> Result<(String, Var)> {
    if let Some(axis) = thread_axis(node) {
        return Ok((axis.thread_tag.to_string(), axis.var.clone()));
    }
    match node.to::<Var>() {
        Ok(var) => Ok((var.name().to_owned(), var)),
        Err(_) => fail!(Run, "a thread attribute of something that is not an iteration variable"),
    }
}

pub(super) fn is_virtual(key: &str, tag: &str) -> bool {
    key == "virtual_thread" || tag.starts_with("vthread") || tag.starts_with("cthread")
}

/// The tag of a loop that is bound to a thread.
pub(super) fn loop_tag(annotations: &kernpack::Map<kernpack::Str, kernpack::Any>) -> Result<String> {
    match annotations.get("thread").and_then(|tag| tag.to::<String>().ok()) {
        Some(tag) => Ok(tag),
        None => fail!(Run, "a loop bound to a thread has no annotation `thread` with a tag"),
    }
}

/// The tags and extents of the threads of a kernel, in order of first occurrence.
pub(super) fn thread_extents(stmt: &Stmt) -> Result<Vec<(String, Expr)>> {
    let (mut found, mut failed) = (Vec::new(), None);
    visit_outer_first(stmt, &mut |stmt| match &**stmt {
        StmtNode::Attr { key, node, value, .. } if key.as_str() == "thread_extent" => match thread_of(node) {
            Ok((tag, _)) if !is_virtual(key.as_str(), &tag) => found.push((tag, value.clone())),
            Ok(_) => {}
            Err(error) => failed = Some(error),
        },
        StmtNode::For { kind: ForKind::ThreadBinding, annotations, extent, .. } => match loop_tag(annotations) {
            Ok(tag) if !is_virtual("", &tag) => found.push((tag, extent.clone())),
            Ok(_) => {}
            Err(error) => failed = Some(error),
        },
        _ => {}
    });
    failed.map_or(Ok(found), Err)
}

struct OuterFirst<'a>(&'a mut dyn FnMut(&Stmt));

impl visit::Visit for OuterFirst<'_> {
    fn visit_expr(&mut self, _: &Expr) {}

    fn visit_stmt(&mut self, stmt: &Stmt) {
        (self.0)(stmt);
        visit::walk_stmt(self, stmt);
    }
}

pub(super) fn visit_outer_first(stmt: &Stmt, found: &mut dyn FnMut(&Stmt)) {
    visit::Visit::visit_stmt(&mut OuterFirst(found), stmt);
}
