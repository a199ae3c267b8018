//! Where stages are computed: the loops around each, and the order of stages.

use std::collections::{HashMap, HashSet};

use super::pass_down::loops;
use super::stage::{Attach, Schedule, Stage, StageId};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::{IterVar, Operation};
use crate::te::operation::input_tensors;

/// A loop around a stage.
#[derive(Clone)]
pub(crate) struct EnclosingLoop {
    /// The stage that the loop belongs to.
    pub(crate) stage: StageId,
    /// The loop.
    pub(crate) axis: IterVar,
}

/// Where every stage of a schedule is computed.
pub(crate) struct Attachments {
    /// Loops around a stage, from the innermost to the outermost.
    paths: HashMap<StageId, Vec<EnclosingLoop>>,
    /// Stages that read a tensor of an operation.
    consumers: HashMap<Operation, Vec<StageId>>,
}

/// Where a stage is attached, or the group that it is in.
pub(crate) fn attach_of(schedule: &Schedule, id: StageId) -> &Attach {
    let mut stage = &schedule[id];
    while let (Attach::Root, Some(group)) = (&stage.attach, stage.group) {
        stage = &schedule[group];
    }
    &stage.attach
}

/// Whether loops are made for a stage.
pub(crate) fn is_computed(stage: &Stage) -> bool {
    stage.attach != Attach::Inlined && !stage.is_placeholder()
}

impl Attachments {
    /// Those of a normalized schedule.
    ///
    /// # Errors
    /// A stage that is attached inside itself, or to what is no loop.
    pub(crate) fn of(schedule: &Schedule) -> Result<Self> {
        let mut paths = HashMap::new();
        let mut consumers: HashMap<Operation, Vec<StageId>> = HashMap::new();
        for id in schedule.stages() {
            let stage = &schedule[id];
            if stage.attach == Attach::Inline {
                crate::error::fail!(Bound, "stage `{}` is to be inlined: normalize the schedule first", stage.name());
            }
            if !is_computed(stage) {
                continue;
            }
            paths.insert(id, path_of(schedule, id)?);
            let mut seen = HashSet::new();
            for input in input_tensors(stage.operation()) {
                if seen.insert(input.op.clone()) {
                    consumers.entry(input.op.clone()).or_default().push(id);
                }
            }
        }
        Ok(Self { paths, consumers })
    }

    /// Loops around a stage, from the innermost to the outermost.
    pub(crate) fn path(&self, id: StageId) -> &[EnclosingLoop] {
        self.paths.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The stages that read an operation's tensors.
    pub(crate) fn consumers(&self, op: &Operation) -> &[StageId] {
        self.consumers.get(op).map_or(&[], Vec::as_slice)
    }

    /// The stages such that what is computed inside another stage's loops, or read by it, comes after that stage.
    ///
    /// # Errors
    /// A stage is computed in the loops of one that it depends on.
    pub(crate) fn from_consumers(&self, schedule: &Schedule) -> Result<Vec<StageId>> {
        let mut walk = Walk { attachments: self, schedule, state: HashMap::new(), order: Vec::new() };
        for id in schedule.stages().rev() {
            walk.visit(id)?;
        }
        Ok(walk.order)
    }
}

struct Walk<'a> {
    attachments: &'a Attachments,
    schedule: &'a Schedule,
    /// Whether a stage is done; false: it is waiting for those that come before it.
    state: HashMap<StageId, bool>,
    order: Vec<StageId>,
}

impl Walk<'_> {
    fn visit(&mut self, start: StageId) -> Result<()> {
        // A stack of its own: graphs are as deep as models are.
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
                        format!("stage `{}` is computed in a loop of a stage that it depends on", self.schedule[id].name()),
                    )
                    .at(self.schedule[id].operation().span())
                    .note("compute_at takes a loop of a stage that reads the tensor, or around one"));
                }
                None => {}
            }
            if self.schedule[id].op.is_none() || self.schedule[id].attach == Attach::Inlined {
                self.state.insert(id, true);
                continue;
            }
            self.state.insert(id, false);
            stack.push((id, true));
            let before = self.attachments.consumers(self.schedule[id].operation()).iter().copied();
            let around = self.attachments.path(id).iter().map(|enclosing| enclosing.stage);
            let first: Vec<StageId> =
                before.chain(around).filter(|first| self.state.get(first) != Some(&true)).collect();
            for next in first.into_iter().rev() {
                stack.push((next, false));
            }
        }
        Ok(())
    }
}

fn path_of(schedule: &Schedule, id: StageId) -> Result<Vec<EnclosingLoop>> {
    let mut path = Vec::new();
    let mut visited = HashSet::from([id]);
    let mut current = id;
    while let Some((stage, axis)) = attach_of(schedule, current).point() {
        let target = &schedule[stage];
        if !visited.insert(stage) {
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
            return Err(CompileError::new(
                ErrorKind::Bound,
                format!(
                    "stage `{}` is computed at `{}`, which is no loop of stage `{}`",
                    schedule[current].name(),
                    axis.var.name(),
                    target.name()
                ),
            )
            .at(&axis.span)
            .note(format!("loops of `{}`: {}", target.name(), names.join(", "))));
        };
        path.extend(leaves[..=position].iter().rev().map(|leaf| EnclosingLoop { stage, axis: (*leaf).clone() }));
        current = stage;
    }
    Ok(path)
}
