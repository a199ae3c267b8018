//! Attachment of stages: the loops around each stage, and the order of stages.

use std::collections::{HashMap, HashSet};

use super::pass_down::{loops, made_of};
use super::stage::{Attach, Schedule, Stage, StageId};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::{IterVar, Operation, OperationNode};
use crate::te::operation::input_tensors;

/// A loop around a stage.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct EnclosingLoop {
    /// The stage that the loop belongs to.
    pub(crate) stage: StageId,
    /// The loop.
    pub(crate) axis: IterVar,
}

/// The attach points of all stages of a schedule.
pub(crate) struct Attachments {
    /// The loop in which a stage is computed; stages that are computed outside of all loops have no
    /// entry.
    points: HashMap<StageId, EnclosingLoop>,
    /// The loops around a stage, from the innermost to the outermost.
    paths: HashMap<StageId, Vec<EnclosingLoop>>,
    /// Stages that read a tensor of an operation.
    consumers: HashMap<Operation, Vec<StageId>>,
}

/// Returns true if a loop nest is generated for a stage.
pub(crate) fn is_computed(stage: &Stage) -> bool {
    stage.op.is_some() && stage.attach != Attach::Inlined && !stage.is_placeholder()
}

impl Attachments {
    /// Finds the attachments of a normalized schedule.
    ///
    /// # Errors
    /// Returns an error for a stage that is attached inside itself, or to something that is not a
    /// loop.
    pub(crate) fn of(schedule: &Schedule) -> Result<Self> {
        let mut attachments = Self { points: points(schedule), paths: HashMap::new(), consumers: HashMap::new() };
        for id in schedule.stages() {
            let stage = &schedule[id];
            if stage.attach == Attach::Inline {
                crate::error::fail!(Bound, "stage `{}` is to be inlined: normalize the schedule first", stage.name());
            }
            if !is_computed(stage) {
                continue;
            }
            let mut seen = HashSet::new();
            for input in input_tensors(stage.operation()) {
                if seen.insert(input.op.clone()) {
                    attachments.consumers.entry(input.op.clone()).or_default().push(id);
                }
            }
        }
        attachments.follow_scans(schedule);
        for id in schedule.stages().filter(|&id| is_computed(&schedule[id])) {
            let path = attachments.path_of(schedule, id)?;
            attachments.paths.insert(id, path);
        }
        Ok(attachments)
    }

    /// Attaches the first steps of a scan at the place of the scan.
    fn follow_scans(&mut self, schedule: &Schedule) {
        for id in schedule.stages() {
            let OperationNode::Scan { init, .. } = &**schedule[id].operation() else { continue };
            let Some(point) = self.points.get(&id).cloned() else { continue };
            for tensor in init.iter() {
                if let Some(stage) =
                    schedule.stage_of(&tensor.op).filter(|&stage| self.is_scan_init(schedule, stage, id))
                {
                    self.points.insert(stage, point.clone());
                }
            }
        }
    }

    /// Returns true if a stage computes the first steps of a scan and nothing else.
    pub(crate) fn is_scan_init(&self, schedule: &Schedule, stage: StageId, scan: StageId) -> bool {
        let Stage { attach, group, is_output, .. } = &schedule[stage];
        let op = schedule[stage].operation();
        *attach == Attach::Root
            && group.is_none()
            && !is_output
            && matches!(**op, OperationNode::Compute { .. })
            && self.consumers(op) == [scan]
    }

    /// The loop in which a stage is computed; `None` if it is outside of all loops.
    pub(crate) fn point(&self, id: StageId) -> Option<&EnclosingLoop> {
        self.points.get(&id)
    }

    /// The loops around a stage, from the innermost to the outermost.
    pub(crate) fn path(&self, id: StageId) -> &[EnclosingLoop] {
        self.paths.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The stages that read an operation's tensors.
    pub(crate) fn consumers(&self, op: &Operation) -> &[StageId] {
        self.consumers.get(op).map_or(&[], Vec::as_slice)
    }

    /// The stages, ordered such that a stage comes after its consumers and after the stages in
    /// whose loops it is computed.
    ///
    /// # Errors
    /// Returns an error if a stage is computed in the loops of a stage that it depends on.
    pub(crate) fn consumers_first(&self, schedule: &Schedule) -> Result<Vec<StageId>> {
        let mut walk = Walk { attachments: self, schedule, state: HashMap::new(), order: Vec::new() };
        for id in schedule.stages().rev() {
            walk.visit(id)?;
        }
        Ok(walk.order)
    }

    fn path_of(&self, schedule: &Schedule, id: StageId) -> Result<Vec<EnclosingLoop>> {
        let mut path = Vec::new();
        let mut visited = HashSet::from([id]);
        let mut current = id;
        while let Some(EnclosingLoop { stage, axis }) = self.point(current) {
            let target = &schedule[*stage];
            if !visited.insert(*stage) {
                return Err(CompileError::new(
                    ErrorKind::Bound,
                    format!("stage `{}` is computed inside a loop of its own", schedule[id].name()),
                )
                .at(schedule[id].operation().span())
                .note("attach points go around in a circle: call compute_root on one of the stages"));
            }
            let leaves: Vec<&IterVar> = loops(target).collect();
            let Some(position) = leaves.iter().position(|leaf| *leaf == axis) else {
                let names: Vec<_> = leaves.iter().map(|leaf| leaf.var.name()).collect();
                let mut error = CompileError::new(
                    ErrorKind::Bound,
                    format!(
                        "stage `{}` is computed at `{}`, which is not a loop of stage `{}`",
                        schedule[current].name(),
                        axis.var.name(),
                        target.name()
                    ),
                )
                .at(&axis.span)
                .note(format!("loops of `{}`: {}", target.name(), names.join(", ")));
                if target.attach == Attach::Inlined {
                    error = error.note(format!("`{}` is inlined into its readers", target.name()));
                }
                return Err(error);
            };
            path.extend(
                leaves[..=position].iter().rev().map(|leaf| EnclosingLoop { stage: *stage, axis: (*leaf).clone() }),
            );
            current = *stage;
        }
        Ok(path)
    }
}

/// The attach points of the stages: from the schedule, or from the group of the stage; the
/// operations of a scan's step are attached to its time loop.
fn points(schedule: &Schedule) -> HashMap<StageId, EnclosingLoop> {
    let mut points = HashMap::new();
    for id in schedule.stages() {
        let mut stage = &schedule[id];
        while let (Attach::Root, Some(group)) = (&stage.attach, stage.group) {
            stage = &schedule[group];
        }
        if let Some((stage, axis)) = stage.attach.point() {
            points.insert(id, EnclosingLoop { stage, axis: axis.clone() });
        }
    }
    for id in schedule.stages() {
        let OperationNode::Scan { scan_axis, update, state, .. } = &**schedule[id].operation() else {
            continue;
        };
        let time = made_of(&schedule[id], [scan_axis.clone()]);
        let Some(axis) = loops(&schedule[id]).rfind(|leaf| time.contains(*leaf)) else {
            continue;
        };
        let step = EnclosingLoop { stage: id, axis: axis.clone() };
        let states: Vec<Operation> = state.iter().map(|tensor| tensor.op.clone()).collect();
        let updates: Vec<Operation> = update.iter().map(|tensor| tensor.op.clone()).collect();
        for op in step_operations(&updates, &states) {
            let Some(stage) = schedule.stage_of(&op) else { continue };
            if updates.contains(&op) {
                points.insert(stage, step.clone());
            } else {
                points.entry(stage).or_insert_with(|| step.clone());
            }
        }
    }
    points
}

/// The operations between the states of a scan and its updates, which depend on the states.
fn step_operations(updates: &[Operation], states: &[Operation]) -> Vec<Operation> {
    let mut depends: HashMap<Operation, bool> = HashMap::new();
    for op in crate::te::operation::post_order(updates) {
        let reads =
            states.contains(&op) || input_tensors(&op).iter().any(|input| depends.get(&input.op) == Some(&true));
        depends.insert(op, reads);
    }
    let mut steps: Vec<Operation> = updates.to_vec();
    steps.extend(depends.into_iter().filter(|(op, reads)| *reads && !states.contains(op)).map(|(op, _)| op));
    steps
}

struct Walk<'a> {
    attachments: &'a Attachments,
    schedule: &'a Schedule,
    /// True if a stage is done; false if it waits for those that come before it.
    state: HashMap<StageId, bool>,
    order: Vec<StageId>,
}

impl Walk<'_> {
    fn visit(&mut self, start: StageId) -> Result<()> {
        // An explicit stack, because graphs are as deep as models.
        let mut stack = vec![(start, false)];
        while let Some((id, is_left)) = stack.pop() {
            if is_left {
                self.state.insert(id, true);
                self.order.push(id);
                continue;
            }
            match self.state.get(&id) {
                Some(true) => continue,
                Some(false) => {
                    return Err(CompileError::new(
                        ErrorKind::Bound,
                        format!(
                            "stage `{}` is computed in a loop of a stage that it depends on",
                            self.schedule[id].name()
                        ),
                    )
                    .at(self.schedule[id].operation().span())
                    .note("compute_at takes a loop of a stage that reads the tensor, or one around such a stage"));
                }
                None => {}
            }
            if !is_computed(&self.schedule[id]) {
                self.state.insert(id, true);
                continue;
            }
            self.state.insert(id, false);
            stack.push((id, true));
            let before = self.attachments.consumers(self.schedule[id].operation()).iter().copied();
            let around = self.attachments.path(id).iter().map(|enclosing| enclosing.stage);
            let first: Vec<StageId> =
                before.chain(around).filter(|first| self.state.get(first) != Some(&true)).collect();
            stack.extend(first.into_iter().rev().map(|next| (next, false)));
        }
        Ok(())
    }
}
