//! Bound inference: derives the part of each tensor that its stage computes from the reads at its
//! attach point.
//!
//! Stages are processed from consumers to producers. At the attach point of a producer, some loops
//! of its consumers are outside and have one value, and others are inside and take all of their
//! values. The sets of the loops are passed up to the consumer's axes, and through its index
//! expressions to the dimensions of the producer. The producer has to compute the union over all
//! reads.

use std::collections::{HashMap, HashSet};

use super::attach::{Attachments, is_computed};
use super::gather::{TensorRegions, gather, propagate};
use super::pass_down::{RangeMap, loops, pass_down_ranges, pass_up_sets, thread_of};
use super::relations::Relation;
use super::stage::{Schedule, Stage, StageId};
use crate::arith::{Analyzer, IntSet};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::{Expr, IterVar, OperationNode, Range, Var, visit};
use crate::te::operation::root_axes;

/// Returns the range of every axis of a normalized schedule, and of every thread. Ranges of a stage
/// can depend on the loops around its attach point.
///
/// ```
/// use kernpack_compiler::ir::F32;
/// use kernpack_compiler::schedule::{create_schedule, infer_bound};
/// use kernpack_compiler::te::{compute, placeholder};
///
/// let a = placeholder([64], F32, "a");
/// let b = compute([64], |[i]| a.at([i]) + 1.0).named("b");
/// let schedule = create_schedule([&b]).normalize().unwrap();
/// let bounds = infer_bound(&schedule).unwrap();
/// let stage = schedule.stage_of(&b.op).unwrap();
/// assert!(bounds[&schedule[stage].leaves[0]].extent.is_int(64));
/// ```
///
/// # Errors
/// Returns an error for a stage whose attach point does not enclose all of its readers, a thread
/// with two extents, or a cycle of attach points.
pub fn infer_bound(schedule: &Schedule) -> Result<RangeMap> {
    let attachments = Attachments::of(schedule)?;
    let order = attachments.consumers_first(schedule)?;
    let mut inference = Inference {
        schedule,
        attachments: &attachments,
        ranges: RangeMap::new(),
        analyzer: Analyzer::new(),
        shapes: shape_facts(schedule),
    };
    for id in order.into_iter().filter(|&id| is_computed(&schedule[id])) {
        let mark = inference.analyzer.mark();
        bind_loops_around(schedule, &attachments, id, &inference.ranges, &inference.analyzer);
        inference.roots(id)?;
        pass_down_ranges(&schedule[id], &mut inference.ranges, &inference.analyzer)?;
        inference.analyzer.restore(mark);
    }
    Ok(inference.ranges)
}

/// An analyzer that knows only that extents of tensors are not negative, which holds whether loops
/// run or not.
pub(crate) fn shape_facts(schedule: &Schedule) -> Analyzer {
    let analyzer = Analyzer::new();
    for id in schedule.stages() {
        for tensor in schedule[id].operation().outputs() {
            for extent in tensor.shape.iter().filter(|extent| extent.as_int().is_none()) {
                analyzer.enter(&extent.greater_equal(0));
            }
        }
    }
    analyzer
}

/// Binds the loops around a stage in an analyzer, from the outermost to the innermost. The facts
/// hold where these loops run.
pub(crate) fn bind_loops_around(
    schedule: &Schedule,
    attachments: &Attachments,
    id: StageId,
    ranges: &RangeMap,
    analyzer: &Analyzer,
) {
    for enclosing in attachments.path(id).iter().rev() {
        bind_loop(&schedule[enclosing.stage], &enclosing.axis, ranges, analyzer);
    }
}

/// Binds a loop in an analyzer, with the fact that the axes that it iterates over are not empty.
pub(crate) fn bind_loop(stage: &Stage, axis: &IterVar, ranges: &RangeMap, analyzer: &Analyzer) {
    let Some(range) = ranges.get(axis) else { return };
    match thread_of(stage, axis) {
        Some(thread) => analyzer.bind(&thread.var, &Range::until(&range.extent)),
        None => analyzer.bind(&axis.var, range),
    }
    let mut running = HashSet::from([axis]);
    for relation in stage.relations.iter().rev() {
        let parents: &[&IterVar] = match relation {
            Relation::Split { parent, outer, factor: Some(_), .. } if running.contains(outer) => &[parent],
            Relation::Split { parent, inner, factor: None, .. } if running.contains(inner) => &[parent],
            Relation::Fuse { outer, inner, fused } if running.contains(fused) => &[outer, inner],
            Relation::Rebase { parent, rebased } if running.contains(rebased) => &[parent],
            _ => continue,
        };
        for parent in parents {
            running.insert(parent);
            if let Some(range) = ranges.get(parent).filter(|range| range.extent.as_int().is_none()) {
                analyzer.enter(&range.extent.greater_equal(1));
            }
        }
    }
}

/// The rank of a memory scope: 0 for global memory, 1 for memory shared by the threads of a block,
/// 2 for memory shared by those of a warp, 3 for memory local to a thread.
pub(crate) fn scope_rank(scope: &str) -> i32 {
    match scope.split('.').next() {
        Some("shared") => 1,
        Some("warp") => 2,
        Some("local") => 3,
        _ => 0,
    }
}

/// The rank of a thread: 0 for `blockIdx`, 1 for threads inside a block.
fn thread_rank(tag: &str) -> i32 {
    i32::from(!tag.starts_with("blockIdx"))
}

/// The memory scope of a stage: its own, or one derived from the threads around it.
pub(crate) fn scope_of(schedule: &Schedule, attachments: &Attachments, id: StageId) -> String {
    let stage = &schedule[id];
    if !stage.scope.is_empty() {
        return stage.scope.clone();
    }
    let ranks = attachments.path(id).iter().filter_map(|enclosing| {
        thread_of(&schedule[enclosing.stage], &enclosing.axis).map(|thread| thread_rank(&thread.thread_tag))
    });
    match ranks.max() {
        None => "global",
        Some(0) => "shared",
        Some(_) => "local",
    }
    .to_owned()
}

struct Inference<'a> {
    schedule: &'a Schedule,
    attachments: &'a Attachments,
    ranges: RangeMap,
    /// Facts about the loops around the current stage.
    analyzer: Analyzer,
    /// Facts that hold everywhere.
    shapes: Analyzer,
}

impl Inference<'_> {
    /// Finds the ranges of a stage's root axes.
    fn roots(&mut self, id: StageId) -> Result<()> {
        let stage = &self.schedule[id];
        let op = stage.operation();
        // The caller reads the whole output.
        let regions = if stage.is_output { None } else { Some(self.regions(id)?) };
        let ranges = match regions {
            Some(regions) if !matches!(**op, OperationNode::Extern { .. }) => gather(op, &regions, &self.analyzer)?,
            _ => root_axes(op).into_iter().map(|axis| (axis.clone(), own_range(&axis))).collect(),
        };
        self.check_threads(id, &ranges)?;
        for (axis, range) in ranges {
            // A region between the ends of other regions can have a negative extent where it is
            // empty.
            let is_own = axis.dom.as_ref().is_some_and(|dom| dom.same_as(&range));
            let range = if is_own { range } else { Range::new(&range.min, natural(&range.extent, &self.shapes)) };
            self.ranges.insert(axis, range);
        }
        Ok(())
    }

    /// Checks that a thread computes all elements that it reads from its private memory.
    fn check_threads(&self, id: StageId, ranges: &RangeMap) -> Result<()> {
        let around: HashSet<Var> = self
            .attachments
            .path(id)
            .iter()
            .filter_map(|enclosing| thread_of(&self.schedule[enclosing.stage], &enclosing.axis))
            .map(|thread| thread.var.clone())
            .collect();
        for consumer in self.attachments.consumers(self.schedule[id].operation()) {
            let stage = &self.schedule[*consumer];
            let own = loops(stage).filter_map(|leaf| thread_of(stage, leaf));
            let outer = self.attachments.path(*consumer).iter();
            let outer = outer.filter_map(|enclosing| thread_of(&self.schedule[enclosing.stage], &enclosing.axis));
            for thread in own.chain(outer).filter(|thread| !around.contains(&thread.var)) {
                let uses = |expr: &Expr| visit::uses_var(expr, |var| *var == thread.var);
                if ranges.values().any(|range| uses(&range.min) || uses(&range.extent)) {
                    let name = self.schedule[id].name();
                    let scope = scope_of(self.schedule, self.attachments, id);
                    return Err(CompileError::new(
                        ErrorKind::Bound,
                        format!(
                            "stage `{name}` is in {scope} memory, and `{}` reads it in `{}`, outside of which it is computed",
                            stage.name(),
                            thread.thread_tag
                        ),
                    )
                    .at(self.schedule[id].operation().span())
                    .note(format!("compute `{name}` inside the loop that is bound to the thread, or in memory that threads share")));
                }
            }
        }
        Ok(())
    }

    /// The regions of a stage's tensors that are read at one attach point.
    fn regions(&mut self, id: StageId) -> Result<TensorRegions> {
        let op = self.schedule[id].operation();
        let mut regions = TensorRegions::new(op);
        for &consumer in self.attachments.consumers(op) {
            let mark = self.analyzer.mark();
            let sets = self.consumer_sets(id, consumer)?;
            let reads = propagate(self.schedule[consumer].operation(), op, &sets, &self.analyzer);
            self.analyzer.restore(mark);
            regions.add_all(reads, &self.analyzer);
        }
        Ok(regions)
    }

    /// The sets of the consumer's root axes while one instance of the producer is in use.
    fn consumer_sets(&mut self, producer: StageId, consumer: StageId) -> Result<HashMap<Var, IntSet>> {
        let (schedule, attachments) = (self.schedule, self.attachments);
        let point = attachments.point(producer).map(|point| point.axis.clone());
        let rank = scope_rank(&scope_of(schedule, attachments, producer));
        let stage = &schedule[consumer];
        let mut found = false;
        let mut sets: HashMap<IterVar, IntSet> = HashMap::new();
        // The reads are inside of these loops.
        bind_loops_around(schedule, attachments, consumer, &self.ranges, &self.analyzer);
        loops(stage).for_each(|leaf| bind_loop(stage, leaf, &self.ranges, &self.analyzer));
        for leaf in loops(stage).rev() {
            found |= point.as_ref() == Some(leaf);
            let range = self.range(leaf, consumer)?;
            let thread = thread_of(stage, leaf);
            let set = if range.extent.is_int(1) {
                IntSet::point(&range.min)
            } else if is_relaxed(thread, found, rank) {
                IntSet::of_range(&range)
            } else {
                IntSet::point(thread.map_or(&leaf.var, |thread| &thread.var))
            };
            sets.insert(leaf.clone(), set);
        }
        let mut relaxed = Vec::new();
        for enclosing in attachments.path(consumer) {
            found |= point.as_ref() == Some(&enclosing.axis);
            let thread = thread_of(&schedule[enclosing.stage], &enclosing.axis);
            if is_relaxed(thread, found, rank) {
                let range = self.range(&enclosing.axis, enclosing.stage)?;
                let var = thread.map_or(&enclosing.axis.var, |thread| &thread.var);
                relaxed.push((var.clone(), IntSet::of_range(&range)));
            }
        }
        if point.is_some() && !found {
            return Err(self.not_on_path(producer, consumer));
        }
        pass_up_sets(stage, &self.ranges, &mut sets, &self.analyzer)?;
        let mut roots = HashMap::new();
        for axis in root_axes(stage.operation()) {
            let mut set = match sets.remove(&axis) {
                Some(set) => set,
                None => IntSet::of_range(&self.range(&axis, consumer)?),
            };
            // From the inside out: a range can depend on the loops around it.
            for (var, values) in &relaxed {
                set = set.relaxed(&HashMap::from([(var.clone(), values.clone())]), &self.analyzer);
            }
            roots.insert(axis.var.clone(), set);
        }
        Ok(roots)
    }

    fn range(&self, axis: &IterVar, stage: StageId) -> Result<Range> {
        self.ranges.get(axis).cloned().ok_or_else(|| {
            let stage = self.schedule[stage].name();
            CompileError::new(
                ErrorKind::Bound,
                format!("no range is known for axis `{}` of stage `{stage}`", axis.var.name()),
            )
        })
    }

    fn not_on_path(&self, producer: StageId, consumer: StageId) -> CompileError {
        let name = |id: StageId| self.schedule[id].name().to_owned();
        let place = self.attachments.point(producer).map_or_else(String::new, |point| {
            format!("`{}` is computed at `{}` of `{}`", name(producer), point.axis.var.name(), name(point.stage))
        });
        let around: Vec<String> = loops(&self.schedule[consumer])
            .rev()
            .map(|leaf| (name(consumer), leaf))
            .chain(self.attachments.path(consumer).iter().map(|enclosing| (name(enclosing.stage), &enclosing.axis)))
            .map(|(stage, axis)| format!("{stage}.{}", axis.var.name()))
            .collect();
        CompileError::new(
            ErrorKind::Bound,
            format!(
                "cannot find the producer `{}` along the loop nest specified by compute_at of consumer `{}`",
                name(producer),
                name(consumer)
            ),
        )
        .at(self.schedule[producer].operation().span())
        .at(self.schedule[consumer].operation().span())
        .note(place)
        .note(format!("`{}` is computed in the loops {}", name(consumer), around.join(", ")))
        .note("compute the producer at a loop around all its readers, or compute the reader inside that loop, too")
    }
}

/// The extent, or the maximum of it and 0 if it may be negative.
pub(crate) fn natural(extent: &Expr, analyzer: &Analyzer) -> Expr {
    if analyzer.can_prove(&extent.greater_equal(0)) { extent.clone() } else { analyzer.simplify(&extent.max(0)) }
}

/// The axis's own range.
pub(crate) fn own_range(axis: &IterVar) -> Range {
    axis.dom.clone().unwrap_or_else(|| Range::until(1))
}

/// Returns true if a loop around a reader takes all its values while one instance of the producer
/// is in use. These are loops inside of the producer's attach point, and threads that share its
/// memory.
fn is_relaxed(thread: Option<&IterVar>, found: bool, rank: i32) -> bool {
    match thread {
        None => !found,
        Some(thread) if rank == 2 && &*thread.thread_tag == "threadIdx.x" => true,
        Some(thread) => rank <= thread_rank(&thread.thread_tag),
    }
}
