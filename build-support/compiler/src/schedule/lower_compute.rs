//! Loop nests of computed operations: one nest for elementwise operations, or an initialization
//! nest and an update nest for reductions.

use std::collections::{HashMap, HashSet};

use kernpack::{Any, Array};

use super::guards::{Guarded, guards};
use super::infer_bound::{scope_of, scope_rank};
use super::lower::{Lowering, Nest};
use super::nest::{Level, nest};
use super::pass_down::{loops, made_of, pass_up_values, thread_of};
use super::stage::StageId;
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::visit::is_used_twice;
use crate::ir::{
    Buffer, Expr, ExprNode, I32, IterKind, IterVar, OperationNode, Reducer, Stmt, StmtNode, Tensor, Var, VarMap,
    builtin, substitute, visit,
};

/// The parts of a reduction.
struct Reduction {
    reducer: Reducer,
    sources: Vec<Expr>,
    condition: Expr,
    /// The initial values.
    first: Vec<Expr>,
}

impl Reduction {
    fn of(body: &Expr) -> Option<Self> {
        let ExprNode::Reduce { reducer, sources, condition, init, .. } = &**body else {
            return None;
        };
        let first = if init.is_empty() { reducer.identity.to_vec() } else { init.to_vec() };
        Some(Self { reducer: reducer.clone(), sources: sources.to_vec(), condition: condition.clone(), first })
    }
}

impl Lowering<'_> {
    /// Returns the loop nest that computes an operation.
    pub(crate) fn compute(&mut self, id: StageId) -> Result<Stmt> {
        let stage = &self.schedule[id];
        let op = stage.operation().clone();
        let OperationNode::Compute { bodies, .. } = &*op else {
            crate::error::fail!(Internal, "`{}` is not computed by expressions", op.name());
        };
        let leaves: Vec<IterVar> = loops(stage).cloned().collect();
        if let Some((position, intrin)) = self.tensorized_at(id, &leaves) {
            return self.tensorized(id, &leaves, position, &intrin);
        }
        if let Some(reduction) = bodies.get(0).and_then(|body| Reduction::of(&body)) {
            let is_reduced = self.reduced_axes(id);
            if leaves.iter().any(|leaf| is_reduced.contains(leaf) && thread_of(stage, leaf).is_some()) {
                return self.across_threads(id, &leaves, &is_reduced, &reduction);
            }
            return self.reduction(id, &leaves, &is_reduced, &reduction);
        }
        let mut main = Nest { has_children: true, ..Nest::default() };
        let levels = self.levels(id, &leaves, &mut main)?;
        let conditions = self.conditions(id, &mut main, &HashSet::new(), true)?;
        let values = root_values(&main);
        let bodies: Vec<Expr> = bodies.iter().map(|body| substitute(&body, &values)).collect();
        Ok(nest(&levels, conditions, self.writes(id, &main, &bodies)))
    }

    /// The reduction axes and the axes derived from them.
    pub(crate) fn reduced_axes(&self, id: StageId) -> HashSet<IterVar> {
        let stage = &self.schedule[id];
        let OperationNode::Compute { reduce_axes, .. } = &**stage.operation() else {
            return HashSet::new();
        };
        made_of(stage, reduce_axes.iter())
    }

    fn reduction(
        &mut self,
        id: StageId,
        leaves: &[IterVar],
        is_reduced: &HashSet<IterVar>,
        reduction: &Reduction,
    ) -> Result<Stmt> {
        let stage = &self.schedule[id];
        let first = leaves.iter().position(|leaf| is_reduced.contains(leaf)).unwrap_or(leaves.len());
        let mut main = Nest { has_children: true, ..Nest::default() };
        let common = self.levels(id, &leaves[..first], &mut main)?;

        let open = self.open_threads();
        let mut init =
            Nest { suffix: Some("init"), values: main.values.clone(), sets: main.sets.clone(), has_children: false };
        let OperationNode::Compute { axes, .. } = &**stage.operation() else {
            crate::error::fail!(Internal, "a reduction of `{}`", stage.name());
        };
        let data = made_of(stage, axes.iter());
        let init_leaves: Vec<IterVar> = leaves[first..]
            .iter()
            .filter(|leaf| data.contains(*leaf) && !is_reduced.contains(*leaf))
            .cloned()
            .collect();
        let init_levels = self.levels(id, &init_leaves, &mut init)?;
        // A stage with its own memory has room for elements outside of the tensor.
        let is_shared = stage.is_output || self.scans.is_part(stage.operation());
        let mut init_conditions = self.conditions(id, &mut init, is_reduced, is_shared)?;
        let values = root_values(&init);
        let identity: Vec<Expr> = reduction.first.iter().map(|value| substitute(value, &values)).collect();
        let identity = self.writes(id, &init, &identity);
        self.close_threads(open);

        let levels = self.levels(id, &leaves[first..], &mut main)?;
        let mut conditions = self.conditions(id, &mut main, &HashSet::new(), true)?;
        let values = root_values(&main);
        if !reduction.condition.is_true() {
            conditions.push(substitute(&reduction.condition, &values));
        }
        let update = self.updates(id, &main, reduction);
        // Conditions that both nests share are placed around both, unless other stages are computed
        // between them: threads may synchronize there.
        let mut shared = Vec::new();
        if levels.iter().all(|level| level.before.is_empty()) {
            let same = |a: &Expr, b: &Expr| kernpack::structural::equal(a, b).unwrap_or(false);
            shared = init_conditions.iter().filter(|a| conditions.iter().any(|b| same(a, b))).cloned().collect();
            // Threads that are launched inside are not in scope around.
            let begun: HashSet<Var> = init_levels.iter().chain(&levels).filter_map(Level::begun).collect();
            shared.retain(|condition: &Expr| !visit::uses_var(condition, |var| begun.contains(var)));
            for both in &shared {
                init_conditions.retain(|condition| !same(condition, both));
                conditions.retain(|condition| !same(condition, both));
            }
        }
        let body = [nest(&init_levels, init_conditions, identity), nest(&levels, conditions, update)];
        Ok(nest(&common, shared, Stmt::seq(body)))
    }

    /// The conditions of a nest, after the values of all axes are known.
    pub(crate) fn conditions(
        &self,
        id: StageId,
        nest: &mut Nest,
        skip: &HashSet<IterVar>,
        check_tensor: bool,
    ) -> Result<Vec<Expr>> {
        let stage = &self.schedule[id];
        pass_up_values(stage, self.bounds, &mut nest.values, &self.analyzer)?;
        for (axis, value) in &mut nest.values {
            if axis.kind != IterKind::ThreadIndex {
                *value = self.analyzer.simplify(value);
            }
        }
        let guarded =
            Guarded { stage, ranges: self.bounds, values: &nest.values, loops: &nest.sets, skip, check_tensor };
        let mut conditions = guards(&guarded, &self.analyzer)?;
        if let Some(predicate) = &stage.store_predicate {
            conditions.push(substitute(predicate, &root_values(nest)));
        }
        Ok(conditions)
    }

    /// The indices of the element that a nest computes.
    pub(crate) fn element(&self, id: StageId, nest: &Nest) -> Array<Expr> {
        let OperationNode::Compute { axes, .. } = &**self.schedule[id].operation() else {
            return Array::default();
        };
        axes.iter().map(|axis| nest.values.get(&axis).cloned().unwrap_or_else(|| Expr::int(0))).collect()
    }

    fn writes(&self, id: StageId, nest: &Nest, values: &[Expr]) -> Stmt {
        let indices = self.element(id, nest);
        let outputs = self.schedule[id].operation().outputs();
        Stmt::seq(outputs.into_iter().zip(values).map(|(tensor, value)| write(tensor, &indices, value.clone())))
    }

    /// Combines the current results with the sources.
    pub(crate) fn updates_of(&self, id: StageId, nest: &Nest, reducer: &Reducer, sources: &[Expr]) -> Stmt {
        let indices = self.element(id, nest);
        let outputs = self.schedule[id].operation().outputs();
        let mut stmts = Vec::new();
        let mut sides = VarMap::new();
        // A value with several uses is computed once.
        let several = |var: &Var| outputs.len() > 1 || reducer.results.iter().any(|result| is_used_twice(&result, var));
        let mut side = |var: &Var, value: Expr, name: &str| {
            let is_leaf = matches!(*value, ExprNode::Int { .. } | ExprNode::Float { .. } | ExprNode::Var { .. });
            let value = if several(var) && !is_leaf {
                let name = Var::new(name, value.dtype());
                stmts.push(Stmt::bind(name.clone(), value));
                name.into()
            } else {
                value
            };
            sides.insert(var.clone(), value);
        };
        for (var, tensor) in reducer.lhs.iter().zip(&outputs) {
            let read = Expr::from_node(ExprNode::TensorRead { tensor: tensor.clone(), indices: indices.clone() });
            side(&var, read, &format!("{}.so_far", tensor.name()));
        }
        let values = root_values(nest);
        for (var, source) in reducer.rhs.iter().zip(sources) {
            side(&var, substitute(source, &values), var.name());
        }
        let results: Vec<Expr> = reducer.results.iter().map(|result| substitute(&result, &sides)).collect();
        if let [result] = &results[..] {
            stmts.push(write(outputs[0].clone(), &indices, result.clone()));
            return Stmt::seq(stmts);
        }
        // All results depend on the previous ones: none is written before all are computed.
        let mut names = Vec::new();
        for (tensor, result) in outputs.iter().zip(results) {
            let name = Var::new(format!("{}.next", tensor.name()), result.dtype());
            stmts.push(Stmt::bind(name.clone(), result));
            names.push(name);
        }
        stmts.extend(outputs.into_iter().zip(names).map(|(tensor, name)| write(tensor, &indices, name.into())));
        Stmt::seq(stmts)
    }

    fn updates(&self, id: StageId, nest: &Nest, reduction: &Reduction) -> Stmt {
        self.updates_of(id, nest, &reduction.reducer, &reduction.sources)
    }

    /// Lowers a reduction whose loops are run by threads: each thread contributes one value, and
    /// all get the result.
    fn across_threads(
        &mut self,
        id: StageId,
        leaves: &[IterVar],
        is_reduced: &HashSet<IterVar>,
        reduction: &Reduction,
    ) -> Result<Stmt> {
        let stage = &self.schedule[id];
        let mut threads: Vec<Expr> = Vec::new();
        let mut was_reduced = false;
        for leaf in leaves {
            let thread = thread_of(stage, leaf);
            was_reduced |= is_reduced.contains(leaf);
            match thread {
                Some(thread) if is_reduced.contains(leaf) => threads.push(thread.var.expr().clone()),
                Some(_) => {}
                None if was_reduced && !self.range(leaf, stage)?.extent.is_int(1) => {
                    let what = if is_reduced.contains(leaf) {
                        "no thread runs this axis of the reduction"
                    } else {
                        "it is inside the loops of the reduction"
                    };
                    return Err(CompileError::new(
                        ErrorKind::Lower,
                        format!(
                            "loop `{}` of stage `{}`, a reduction across threads: {what}",
                            leaf.var.name(),
                            stage.name()
                        ),
                    )
                    .at(&leaf.span)
                    .at(stage.operation().span())
                    .note(
                        "use rfactor to reduce in each thread first, and bind all of what is left of the reduction",
                    ));
                }
                None => {}
            }
        }
        let mut main = Nest { has_children: true, ..Nest::default() };
        let levels = self.levels(id, leaves, &mut main)?;
        let conditions = self.conditions(id, &mut main, &HashSet::new(), true)?;
        let stores = self.conditions(id, &mut main, is_reduced, true)?;
        let values = root_values(&main);
        let mut condition = substitute(&reduction.condition, &values);
        for guard in &conditions {
            condition = guard.without_likely().0.and(&condition);
        }

        let outputs = stage.operation().outputs();
        let mut stmts = Vec::new();
        let mut args = vec![Expr::int(outputs.len() as i64)];
        for (source, identity) in reduction.sources.iter().zip(&reduction.reducer.identity.to_vec()) {
            // A thread without a value must not read one.
            let source = substitute(source, &values);
            args.push(Expr::if_then_else(&condition, source, identity));
        }
        args.push(condition);
        let mut results = Vec::new();
        for tensor in &outputs {
            let buffer = Buffer::new(&format!("{}.all", tensor.name()), tensor.dtype, [Expr::int(1)], "local");
            stmts.push(Stmt::alloc(buffer.clone()));
            args.push(buffer.data.expr().clone());
            results.push(buffer);
        }
        args.extend(threads.iter().cloned());
        let call = Stmt::evaluate(Expr::builtin(builtin::THREAD_ALLREDUCE, I32, args));
        stmts.push(Stmt::attr("reduce_scope", reduction.reducer.clone(), 0, call));

        let mut conditions = stores;
        let scope = scope_of(self.schedule, &self.attachments, id);
        if stage.store_predicate.is_none() && scope_rank(&scope) < 3 {
            // All threads have the result; one writes it to the memory that they share.
            conditions.extend(threads.iter().map(|thread| thread.equals(0)));
        }
        let loaded: Vec<Expr> = if reduction.first.len() == reduction.reducer.identity.len()
            && reduction.first.iter().zip(reduction.reducer.identity.iter()).all(|(a, b)| *a == b)
        {
            results.iter().map(|buffer| Expr::load(buffer, 0)).collect()
        } else {
            self.with_first(reduction, &results, &values)
        };
        let store = nest(&[], conditions, self.writes(id, &main, &loaded));
        stmts.push(store);
        Ok(nest(&levels, Vec::new(), Stmt::seq(stmts)))
    }

    /// The results of all threads combined with the initial values of the reduction.
    fn with_first(&self, reduction: &Reduction, results: &[Buffer], values: &VarMap) -> Vec<Expr> {
        let mut sides: VarMap = HashMap::new();
        for (var, first) in reduction.reducer.lhs.iter().zip(&reduction.first) {
            sides.insert(var, substitute(first, values));
        }
        for (var, buffer) in reduction.reducer.rhs.iter().zip(results) {
            sides.insert(var, Expr::load(buffer, 0));
        }
        reduction.reducer.results.iter().map(|result| substitute(&result, &sides)).collect()
    }
}

/// The values of the axes, by variable.
pub(crate) fn root_values(nest: &Nest) -> VarMap {
    nest.values.iter().map(|(axis, value)| (axis.var.clone(), value.clone())).collect()
}

pub(crate) fn write(tensor: Tensor, indices: &Array<Expr>, value: Expr) -> Stmt {
    Stmt::from_node(StmtNode::TensorWrite { tensor, indices: indices.clone(), value })
}

/// A buffer and the tensor that it is bound to, as the node of an attribute.
pub(crate) fn binding(buffer: &Buffer, tensor: &Tensor) -> Array<Any> {
    [Any::from(buffer.clone()), Any::from(tensor.clone())].into_iter().collect()
}
