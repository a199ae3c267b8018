//! Lowering of schedules to loops: each stage becomes a loop nest that is placed at the beginning
//! of the loop in which it is computed, or outside of all loops.

use std::collections::{HashMap, HashSet};

use kernpack::{Any, Array, Map, Str};

use super::attach::{Attachments, is_computed};
use super::infer_bound::{bind_loop, bind_loops_around, natural, scope_of, shape_facts};
use super::lower_compute::binding;
use super::lower_scan::BUFFER_BIND;
use super::lower_tensorize::bound_region;
use super::memory::constant_extent;
use super::nest::{Header, Level};
use super::pass_down::{RangeMap, thread_of};
use super::stage::{Annotation, Schedule, Stage, StageId};
use crate::arith::{Analyzer, IntSet, SetMap};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::mutate::{Mutate, mutate_expr_parts, mutate_stmt_parts};
use crate::ir::shared::Memo;
use crate::ir::{Buffer, Expr, ExprNode, ForKind, IterVar, Operation, OperationNode, Range, Stmt, StmtNode, Tensor};
use crate::te::operation::input_tensors;

/// Returns the statements of a normalized schedule with the ranges of bound inference. The
/// statements read and write tensors; where a primitive replaced the operation of a stage, they use
/// the user's tensors.
///
/// # Errors
/// Returns an error for a loop that cannot run as annotated: a vectorized, unrolled or virtual
/// thread loop whose extent is not a constant, or a reduction over threads with a loop that no
/// thread runs.
pub fn lower(schedule: &Schedule, bounds: &RangeMap) -> Result<Stmt> {
    let attachments = Attachments::of(schedule)?;
    let scans = ScanTensors::of(schedule, &attachments);
    let mut lowering = Lowering {
        schedule,
        bounds,
        children: children(schedule, &attachments, &scans)?,
        attachments,
        scans,
        analyzer: Analyzer::new(),
        shapes: shape_facts(schedule),
        open_threads: Vec::new(),
    };
    let body = Stmt::seq(lowering.stages_at(&Place::Root)?);
    OriginalTensors { schedule, scans: &lowering.scans, memo: Memo::default() }.mutate_stmt(&body)
}

/// A place of stages.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// Outside of all loops.
    Root,
    /// At the beginning of each iteration of a loop.
    Loop(StageId, IterVar),
    /// Before the time loop of a scan.
    ScanInit(StageId),
}

pub(crate) struct Lowering<'a> {
    pub(crate) schedule: &'a Schedule,
    pub(crate) bounds: &'a RangeMap,
    pub(crate) attachments: Attachments,
    pub(crate) scans: ScanTensors,
    children: HashMap<Place, Vec<StageId>>,
    /// Facts about the loops around the current statement.
    pub(crate) analyzer: Analyzer,
    /// Facts that hold everywhere.
    shapes: Analyzer,
    /// Threads that are already launched around the current statement.
    open_threads: Vec<IterVar>,
}

impl Lowering<'_> {
    /// The stages at a place, in order.
    pub(crate) fn stages_at(&mut self, place: &Place) -> Result<Vec<Stmt>> {
        let mut stmts = Vec::new();
        for id in self.children.get(place).cloned().unwrap_or_default() {
            let (mark, open) = (self.analyzer.mark(), self.open_threads.len());
            bind_loops_around(self.schedule, &self.attachments, id, self.bounds, &self.analyzer);
            self.stage(id, &mut stmts)?;
            self.open_threads.truncate(open);
            self.analyzer.restore(mark);
        }
        Ok(stmts)
    }

    /// The first stage at a place.
    pub(crate) fn first_stage_at(&self, place: &Place) -> Option<StageId> {
        self.children.get(place).and_then(|stages| stages.first()).copied()
    }

    fn stage(&mut self, id: StageId, stmts: &mut Vec<Stmt>) -> Result<()> {
        let stage = &self.schedule[id];
        // The memory of an output is an argument; that of a scan's steps belongs to the scan.
        if !stage.is_output && !self.scans.is_part(stage.operation()) {
            for tensor in stage.operation().outputs() {
                stmts.push(self.realize(id, &tensor)?);
            }
        }
        stmts.push(match &**stage.operation() {
            OperationNode::Placeholder { .. } => Stmt::nothing(),
            OperationNode::Compute { .. } => self.compute(id)?,
            OperationNode::Scan { .. } => self.scan(id)?,
            OperationNode::Extern { .. } => self.external(id)?,
        });
        Ok(())
    }

    /// The `Realize` statement for the part of a tensor that a stage computes.
    fn realize(&self, id: StageId, tensor: &Tensor) -> Result<Stmt> {
        let stage = &self.schedule[id];
        let mut region = Vec::new();
        match &**stage.operation() {
            OperationNode::Compute { axes, .. } => {
                for axis in axes.iter() {
                    region.push(self.range(&axis, stage)?);
                }
            }
            OperationNode::Scan { scan_axis, update, spatial_axes, .. } => {
                let steps = self.range(scan_axis, stage)?;
                region.push(Range::new(0, self.analyzer.simplify(&(&steps.min + &steps.extent))));
                let before: usize = update
                    .iter()
                    .take(tensor.value_index as usize)
                    .map(|state| state.shape.len().saturating_sub(1))
                    .sum();
                for axis in spatial_axes.iter().skip(before).take(tensor.shape.len().saturating_sub(1)) {
                    region.push(self.range(&axis, stage)?);
                }
            }
            OperationNode::Placeholder { .. } | OperationNode::Extern { .. } => {
                region.extend(tensor.shape.iter().map(Range::until));
            }
        }
        let region: Vec<Range> = region
            .into_iter()
            .map(|range| Range::new(&range.min, natural(&constant_extent(&range.extent, &self.analyzer), &self.shapes)))
            .collect();
        let mut annotations: Map<Str, Any> = Map::default();
        let mut aligned = Vec::new();
        if let OperationNode::Compute { axes, .. } = &**stage.operation() {
            for (dimension, axis) in axes.iter().enumerate() {
                if let Some((factor, offset)) = stage.attr(&axis).and_then(|attr| attr.align) {
                    aligned.extend([dimension as i64, factor, offset]);
                }
            }
        }
        if !aligned.is_empty() {
            let aligned: Array<i64> = aligned.into_iter().collect();
            annotations = with_annotation(&annotations, "storage_align", aligned.into());
        }
        if stage.double_buffer {
            annotations = with_annotation(&annotations, "double_buffer", Any::from(1i64));
        }
        Ok(Stmt::from_node(StmtNode::Realize {
            tensor: tensor.clone(),
            region: region.into_iter().collect(),
            scope: scope_of(self.schedule, &self.attachments, id).as_str().into(),
            annotations,
        }))
    }

    pub(crate) fn range(&self, axis: &IterVar, stage: &Stage) -> Result<Range> {
        self.bounds.get(axis).cloned().ok_or_else(|| {
            CompileError::new(
                ErrorKind::Lower,
                format!("no range is known for axis `{}` of stage `{}`", axis.var.name(), stage.name()),
            )
            .note("lower takes the ranges that infer_bound found for the same normalized schedule")
        })
    }

    /// The number of threads that are open now, for [`close_threads`](Self::close_threads).
    pub(crate) fn open_threads(&self) -> usize {
        self.open_threads.len()
    }

    /// Closes the threads that were opened since.
    pub(crate) fn close_threads(&mut self, open: usize) {
        self.open_threads.truncate(open);
    }

    /// Returns the levels of some leaves, with the stages that are computed in them, and adds the
    /// leaves' values to the nest. The variables are renamed if another nest has the same leaves.
    pub(crate) fn levels(&mut self, id: StageId, leaves: &[IterVar], nest: &mut Nest) -> Result<Vec<Level>> {
        let schedule = self.schedule;
        let stage = &schedule[id];
        let mut levels = Vec::new();
        for leaf in leaves {
            let range = self.range(leaf, stage)?;
            let attr = stage.attr(leaf).cloned().unwrap_or_default();
            let mut level = Level {
                header: Header::Open,
                leaf: leaf.clone(),
                pragmas: attr.pragmas,
                prefetch: attr.prefetch,
                before: Vec::new(),
            };
            if let Some(thread) = thread_of(stage, leaf) {
                bind_loop(stage, leaf, self.bounds, &self.analyzer);
                nest.values.insert(leaf.clone(), &thread.var + &range.min);
                nest.sets.insert(thread.var.clone(), IntSet::of_range(&Range::until(&range.extent)));
                if !self.open_threads.contains(thread) {
                    let is_virtual = thread.thread_tag.starts_with("vthread") || &*thread.thread_tag == "cthread";
                    if is_virtual {
                        self.require_constant(stage, leaf, &range.extent, "run as virtual threads")?;
                    }
                    self.open_threads.push(thread.clone());
                    level.header = Header::Threads { thread: thread.clone(), extent: range.extent.clone(), is_virtual };
                }
            } else if range.extent.is_int(1) {
                nest.values.insert(leaf.clone(), range.min.clone());
            } else {
                let var = match nest.suffix {
                    None => leaf.var.clone(),
                    Some(suffix) => leaf.var.renamed(format!("{}.{suffix}", leaf.var.name())),
                };
                let kind = match attr.annotation {
                    None | Some(Annotation::Tensorized) => ForKind::Serial,
                    Some(Annotation::Parallel) => ForKind::Parallel,
                    Some(Annotation::Vectorized) => {
                        self.require_constant(stage, leaf, &range.extent, "vectorized")?;
                        ForKind::Vectorized
                    }
                    Some(Annotation::Unrolled) => {
                        self.require_constant(stage, leaf, &range.extent, "unrolled")?;
                        ForKind::Unrolled
                    }
                };
                let counted = Range::until(&range.extent);
                self.analyzer.bind(&var, &counted);
                nest.sets.insert(var.clone(), IntSet::of_range(&counted));
                nest.values.insert(leaf.clone(), &var + &range.min);
                level.header = Header::For { var, extent: range.extent.clone(), kind };
            }
            if nest.has_children {
                level.before = self.stages_at(&Place::Loop(id, leaf.clone()))?;
            }
            levels.push(level);
        }
        Ok(levels)
    }

    fn require_constant(&self, stage: &Stage, leaf: &IterVar, extent: &Expr, what: &str) -> Result<()> {
        if extent.as_int().is_some() {
            return Ok(());
        }
        Err(CompileError::new(
            ErrorKind::Lower,
            format!(
                "loop `{}` of stage `{}` cannot be {what}: its extent {} is not a constant",
                leaf.var.name(),
                stage.name(),
                crate::text::print(extent)
            ),
        )
        .at(&leaf.span)
        .at(stage.operation().span())
        .note("split the axis by a constant factor and annotate the inner part"))
    }
}

/// The state of a nest that is being built.
#[derive(Default)]
pub(crate) struct Nest {
    /// The values of axes.
    pub(crate) values: HashMap<IterVar, Expr>,
    /// The sets of values of the loop variables.
    pub(crate) sets: SetMap,
    /// A suffix for the names of new variables.
    pub(crate) suffix: Option<&'static str>,
    /// True if stages that are computed in these loops are placed in this nest.
    pub(crate) has_children: bool,
}

pub(crate) fn with_annotation(annotations: &Map<Str, Any>, key: &str, value: Any) -> Map<Str, Any> {
    annotations.iter().chain([(Str::from(key), value)]).collect()
}

/// The tensors that are parts of a scan's state: the stages that compute them write the state
/// itself.
pub(crate) struct ScanTensors {
    /// The state, by operation and index of the result.
    states: HashMap<(usize, i64), Tensor>,
    /// The operations all of whose results are parts of a state: those of the first and of the
    /// later steps.
    parts: HashSet<Operation>,
    /// The scan, by the stage that computes its first steps.
    init_of: HashMap<StageId, StageId>,
}

impl ScanTensors {
    fn of(schedule: &Schedule, attachments: &Attachments) -> Self {
        let mut tensors = Self { states: HashMap::new(), parts: HashSet::new(), init_of: HashMap::new() };
        for id in schedule.stages() {
            let op = schedule[id].operation();
            let OperationNode::Scan { init, update, state, .. } = &**op else { continue };
            for (number, tensor) in state.iter().enumerate() {
                tensors.states.insert(tensor.key(), op.output(number));
            }
            for (steps, is_init) in [(init, true), (update, false)] {
                let ops: HashSet<Operation> = steps.iter().map(|tensor| tensor.op.clone()).collect();
                for part in ops {
                    let uses = init.iter().chain(update.iter()).filter(|tensor| tensor.op == part).count();
                    let Some(stage) = schedule.stage_of(&part) else { continue };
                    let placed = !is_init || attachments.is_scan_init(schedule, stage, id);
                    let alone = attachments.consumers(&part) == [id] && uses == part.num_outputs();
                    if !alone || !placed || schedule[stage].is_output || !matches!(*part, OperationNode::Compute { .. })
                    {
                        continue;
                    }
                    for (number, tensor) in steps.iter().enumerate().filter(|(_, tensor)| tensor.op == part) {
                        tensors.states.insert(tensor.key(), op.output(number));
                    }
                    if is_init {
                        tensors.init_of.insert(stage, id);
                    }
                    tensors.parts.insert(part);
                }
            }
        }
        tensors
    }

    /// Returns true if the stage of the operation writes a scan's state.
    pub(crate) fn is_part(&self, op: &Operation) -> bool {
        self.parts.contains(op)
    }
}

/// The place of a stage, with the stage around it.
fn place_of(id: StageId, attachments: &Attachments, scans: &ScanTensors) -> (Place, Option<StageId>) {
    match (scans.init_of.get(&id), attachments.point(id)) {
        (Some(&scan), _) => (Place::ScanInit(scan), Some(scan)),
        (None, Some(point)) => (Place::Loop(point.stage, point.axis.clone()), Some(point.stage)),
        (None, None) => (Place::Root, None),
    }
}

/// The stages at each place. A stage comes before those that read its tensors, directly or in
/// stages inside their loops.
fn children(
    schedule: &Schedule,
    attachments: &Attachments,
    scans: &ScanTensors,
) -> Result<HashMap<Place, Vec<StageId>>> {
    let stages: Vec<StageId> = schedule.stages().filter(|&id| is_computed(&schedule[id])).collect();
    let mut children: HashMap<Place, Vec<StageId>> = HashMap::new();
    let mut chains: HashMap<StageId, Vec<(Place, StageId)>> = HashMap::new();
    for &id in &stages {
        children.entry(place_of(id, attachments, scans).0).or_default().push(id);
        let mut chain = Vec::new();
        let mut next = Some(id);
        while let Some(stage) = next {
            let (place, around) = place_of(stage, attachments, scans);
            chain.push((place, stage));
            next = around;
        }
        chains.insert(id, chain);
    }
    let mut before: HashMap<StageId, HashSet<StageId>> = HashMap::new();
    for &id in &stages {
        for input in input_tensors(schedule[id].operation()) {
            let Some(read) = schedule.stage_of(&input.op).and_then(|stage| chains.get(&stage)) else { continue };
            for (place, first) in read {
                if let Some((_, second)) = chains[&id].iter().find(|(other, stage)| other == place && stage != first) {
                    before.entry(*second).or_default().insert(*first);
                }
            }
        }
    }
    for stages in children.values_mut() {
        *stages = in_order(schedule, stages, &before)?;
    }
    Ok(children)
}

fn in_order(
    schedule: &Schedule,
    stages: &[StageId],
    before: &HashMap<StageId, HashSet<StageId>>,
) -> Result<Vec<StageId>> {
    let here: HashSet<StageId> = stages.iter().copied().collect();
    let mut waits: HashMap<StageId, usize> = HashMap::new();
    let mut after: HashMap<StageId, Vec<StageId>> = HashMap::new();
    for &id in stages {
        let first: Vec<StageId> =
            before.get(&id).into_iter().flatten().copied().filter(|id| here.contains(id)).collect();
        waits.insert(id, first.len());
        first.into_iter().for_each(|first| after.entry(first).or_default().push(id));
    }
    // Of the stages that can come next, take the first one of the schedule.
    let position: HashMap<StageId, usize> = stages.iter().enumerate().map(|(position, &id)| (id, position)).collect();
    let mut ready: std::collections::BTreeSet<(usize, StageId)> =
        stages.iter().filter(|id| waits[*id] == 0).map(|&id| (position[&id], id)).collect();
    let mut order = Vec::new();
    while let Some((_, id)) = ready.pop_first() {
        order.push(id);
        for next in after.remove(&id).unwrap_or_default() {
            let wait = waits.get_mut(&next).expect("it is here");
            *wait -= 1;
            if *wait == 0 {
                ready.insert((position[&next], next));
            }
        }
    }
    if order.len() == stages.len() {
        return Ok(order);
    }
    let stuck: Vec<_> =
        stages.iter().filter(|id| !order.contains(id)).map(|&id| schedule[id].name().to_owned()).collect();
    Err(CompileError::new(
        ErrorKind::Lower,
        format!("stages that need each other's results first: {}", stuck.join(", ")),
    )
    .note("a stage that is computed in another one's loops keeps that one waiting for all that it reads"))
}

/// The buffer of an extern operation and its tensor, if an attribute binds them.
pub(crate) fn bound_buffer(stmt: &Stmt) -> Option<(Buffer, Tensor)> {
    let StmtNode::Attr { key, node, .. } = &**stmt else { return None };
    if key.as_str() != BUFFER_BIND {
        return None;
    }
    let parts: Array<Any> = node.to().ok()?;
    Some((parts.get(0)?.to().ok()?, parts.get(1)?.to().ok()?))
}

/// Replaces operations that primitives created by the user's operations, and parts of a scan by the
/// scan's state.
struct OriginalTensors<'a> {
    schedule: &'a Schedule,
    scans: &'a ScanTensors,
    memo: Memo,
}

impl OriginalTensors<'_> {
    fn tensor(&self, tensor: &Tensor) -> Tensor {
        let tensor = self.scans.states.get(&tensor.key()).unwrap_or(tensor);
        let origin = self.schedule.stage_of(&tensor.op).and_then(|id| self.schedule[id].origin_op.clone());
        match origin {
            Some(origin) if origin != tensor.op => origin.output(tensor.value_index as usize),
            _ => tensor.clone(),
        }
    }
}

impl Mutate for OriginalTensors<'_> {
    fn memo(&mut self) -> Option<&mut Memo> {
        Some(&mut self.memo)
    }

    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        let new = mutate_expr_parts(self, expr)?;
        match &*new {
            ExprNode::TensorRead { tensor, indices } => {
                let original = self.tensor(tensor);
                if original.same_as(tensor) {
                    return Ok(new);
                }
                Ok(Expr::from_node(ExprNode::TensorRead { tensor: original, indices: indices.clone() }))
            }
            _ => Ok(new),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let new = mutate_stmt_parts(self, stmt)?;
        Ok(match &*new {
            StmtNode::TensorWrite { tensor, indices, value } => Stmt::from_node(StmtNode::TensorWrite {
                tensor: self.tensor(tensor),
                indices: indices.clone(),
                value: value.clone(),
            }),
            StmtNode::Realize { tensor, region, scope, annotations } => Stmt::from_node(StmtNode::Realize {
                tensor: self.tensor(tensor),
                region: region.clone(),
                scope: scope.clone(),
                annotations: annotations.clone(),
            }),
            StmtNode::Attr { key, node, value, body } => {
                if let Ok(tensor) = node.to::<Tensor>() {
                    Stmt::attr(key.as_str(), self.tensor(&tensor), value, body.clone())
                } else if let Some((buffer, tensor)) = bound_buffer(stmt) {
                    let mut node = binding(&buffer, &self.tensor(&tensor)).to_vec();
                    node.extend(bound_region(stmt).into_iter().flatten().map(Any::from));
                    let node: Array<Any> = node.into_iter().collect();
                    Stmt::attr(key.as_str(), node, value, body.clone())
                } else {
                    new
                }
            }
            _ => new,
        })
    }
}
