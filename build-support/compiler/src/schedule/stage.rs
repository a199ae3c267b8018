//! Schedules, their stages, and what is noted for axes.

use std::collections::HashMap;

use super::relations::Relation;
use super::tensorize::TensorIntrin;
use crate::ir::{Expr, IterVar, Operation, OperationNode, Tensor};
use crate::te::operation::{input_tensors, root_axes};

/// Names a stage of a schedule; stays the same when other stages are added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StageId(pub(crate) usize);

/// How the iterations of a loop are run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Annotation {
    /// Written out.
    Unrolled,
    /// As lanes of vectors.
    Vectorized,
    /// By several threads of the cpu.
    Parallel,
    /// Replaced, with all loops inside, by an instruction.
    Tensorized,
}

/// What is noted for an axis.
#[derive(Clone, Default)]
pub struct AxisAttr {
    /// How its loop is run; nothing: serial.
    pub annotation: Option<Annotation>,
    /// The thread that runs it.
    pub thread: Option<IterVar>,
    /// Tensors that are touched this many iterations ahead.
    pub prefetch: Vec<(Tensor, Expr)>,
    /// The instruction, if it is tensorized.
    pub intrin: Option<TensorIntrin>,
    /// Stride of the axis in memory: a multiple of the first, plus the second, in elements.
    pub align: Option<(i64, i64)>,
    /// Pragmas: key and value.
    pub pragmas: Vec<(String, Expr)>,
    /// What was done with the axis last, and where, for messages.
    pub(crate) note: String,
}

/// Where a stage is computed.
#[derive(Clone, PartialEq, Eq)]
pub enum Attach {
    /// On its own, at the outermost level of its group.
    Root,
    /// Its expression stands wherever it is read.
    Inline,
    /// As before; `normalize` has put the expression in.
    Inlined,
    /// Inside a loop of another stage.
    At {
        /// That stage.
        stage: StageId,
        /// The loop.
        axis: IterVar,
    },
    /// Inside the time loop of the scan that it updates.
    ScanUpdate {
        /// The scan.
        stage: StageId,
        /// Its time.
        axis: IterVar,
    },
}

impl Attach {
    /// The stage and loop in which the stage is computed.
    pub fn point(&self) -> Option<(StageId, &IterVar)> {
        match self {
            Self::At { stage, axis } | Self::ScanUpdate { stage, axis } => Some((*stage, axis)),
            Self::Root | Self::Inline | Self::Inlined => None,
        }
    }
}

/// The loops of one operation, or a group of stages (then without an operation).
#[derive(Clone)]
pub struct Stage {
    /// What is computed now: primitives and `normalize` replace it. None: a group.
    pub op: Option<Operation>,
    /// What the user wrote.
    pub origin_op: Option<Operation>,
    /// Every axis there has been.
    pub all_axes: Vec<IterVar>,
    /// The loops, from the outermost to the innermost.
    pub leaves: Vec<IterVar>,
    /// Threads that are started around the stage.
    pub env_threads: Vec<IterVar>,
    /// A condition of the stores.
    pub store_predicate: Option<Expr>,
    /// How the leaves are made of the root axes.
    pub relations: Vec<Relation>,
    /// What is noted for axes.
    pub attrs: HashMap<IterVar, AxisAttr>,
    /// Where it is computed.
    pub attach: Attach,
    /// Scope of its memory; empty: it follows from the threads around it.
    pub scope: String,
    /// Whether its result is a result of the schedule.
    pub is_output: bool,
    /// Whether its memory is doubled, so that the next part is computed while one is read.
    pub double_buffer: bool,
    /// The group that it is in.
    pub group: Option<StageId>,
    /// How many stages a group has.
    pub num_children: usize,
    /// What the operation reads.
    pub(crate) inputs: Vec<Tensor>,
    /// What became of axes that are no leaves: primitive and place.
    pub(crate) consumed: HashMap<IterVar, String>,
    /// Where the user said in which loop it is computed.
    pub(crate) attach_place: String,
    /// Where the user said that its memory is doubled.
    pub(crate) double_buffer_place: String,
}

impl Stage {
    pub(crate) fn of(op: &Operation) -> Self {
        let axes = root_axes(op);
        Self {
            op: Some(op.clone()),
            origin_op: Some(op.clone()),
            leaves: axes.clone(),
            all_axes: axes,
            env_threads: Vec::new(),
            store_predicate: None,
            relations: Vec::new(),
            attrs: HashMap::new(),
            attach: Attach::Root,
            scope: String::new(),
            is_output: false,
            double_buffer: false,
            group: None,
            num_children: 0,
            inputs: input_tensors(op),
            consumed: HashMap::new(),
            attach_place: String::new(),
            double_buffer_place: String::new(),
        }
    }

    pub(crate) fn group() -> Self {
        Self {
            op: None,
            origin_op: None,
            all_axes: Vec::new(),
            leaves: Vec::new(),
            env_threads: Vec::new(),
            store_predicate: None,
            relations: Vec::new(),
            attrs: HashMap::new(),
            attach: Attach::Root,
            scope: String::new(),
            is_output: false,
            double_buffer: false,
            group: None,
            num_children: 0,
            inputs: Vec::new(),
            consumed: HashMap::new(),
            attach_place: String::new(),
            double_buffer_place: String::new(),
        }
    }

    /// The operation; only groups have none.
    pub fn operation(&self) -> &Operation {
        self.op.as_ref().expect("a group has no operation")
    }

    /// What it is called: the operation's name, `group` for a group.
    pub fn name(&self) -> &str {
        self.op.as_ref().map_or("group", |op| op.name())
    }

    /// What is noted for an axis.
    pub fn attr(&self, axis: &IterVar) -> Option<&AxisAttr> {
        self.attrs.get(axis)
    }

    /// The thread that an axis is bound to.
    pub fn thread_of(&self, axis: &IterVar) -> Option<&IterVar> {
        self.attrs.get(axis).and_then(|attr| attr.thread.as_ref())
    }

    /// Whether it is an input: then it has no loops.
    pub fn is_placeholder(&self) -> bool {
        self.op.as_ref().is_some_and(|op| matches!(**op, OperationNode::Placeholder { .. }))
    }

    /// Where a leaf is among the leaves.
    pub fn leaf_position(&self, axis: &IterVar) -> Option<usize> {
        self.leaves.iter().position(|leaf| leaf == axis)
    }
}

/// In which loops the tensors of a graph are computed.
///
/// `Clone` copies it: the copy is scheduled on its own; operations and axes are shared.
#[derive(Clone)]
pub struct Schedule {
    /// What is computed, as the stages compute it now.
    pub outputs: Vec<Operation>,
    /// All stages and groups, by id.
    pub(crate) arena: Vec<Stage>,
    /// The stages of operations: producers come before consumers.
    pub(crate) order: Vec<StageId>,
    /// The groups, inner ones after outer ones.
    pub(crate) groups: Vec<StageId>,
    /// Stage by address of an operation: original ones, and those that stages compute now.
    pub(crate) by_op: HashMap<Operation, StageId>,
}

impl Schedule {
    /// A stage for each operation that the outputs depend on, each computed on its own.
    pub fn new(outputs: &[Operation]) -> Self {
        let mut schedule = Self {
            outputs: Vec::new(),
            arena: Vec::new(),
            order: Vec::new(),
            groups: Vec::new(),
            by_op: HashMap::new(),
        };
        for output in outputs {
            if !schedule.outputs.contains(output) {
                schedule.outputs.push(output.clone());
            }
        }
        for op in crate::te::operation::post_order(outputs) {
            let mut stage = Stage::of(&op);
            stage.is_output = outputs.contains(&op);
            let id = schedule.add(stage);
            schedule.order.push(id);
            schedule.by_op.insert(op, id);
        }
        schedule.attach_scan_updates();
        schedule
    }

    pub(crate) fn add(&mut self, stage: Stage) -> StageId {
        self.arena.push(stage);
        StageId(self.arena.len() - 1)
    }

    /// What a scan updates itself with is computed in its time loop.
    fn attach_scan_updates(&mut self) {
        for id in self.order.clone() {
            let op = self[id].operation().clone();
            if let OperationNode::Scan { scan_axis, update, .. } = &*op {
                for tensor in update.iter() {
                    if let Some(&updated) = self.by_op.get(&tensor.op) {
                        self[updated].attach = Attach::ScanUpdate { stage: id, axis: scan_axis.clone() };
                    }
                }
            }
        }
    }

    /// The stages of operations, producers before consumers.
    pub fn stages(&self) -> impl DoubleEndedIterator<Item = StageId> + ExactSizeIterator + use<'_> {
        self.order.iter().copied()
    }

    /// The groups.
    pub fn groups(&self) -> &[StageId] {
        &self.groups
    }

    /// The stage of an operation: one of the user's, or one that a stage computes now.
    pub fn stage_of(&self, op: &Operation) -> Option<StageId> {
        self.by_op.get(op).copied()
    }

    /// The tensor as the schedule computes it now: primitives replace operations, the user's tensors stay.
    pub fn current(&self, tensor: &Tensor) -> Tensor {
        let op = self.stage_of(&tensor.op).and_then(|id| self[id].op.clone());
        op.filter(|op| *op != tensor.op).map_or_else(|| tensor.clone(), |op| op.output(tensor.value_index as usize))
    }

    /// The stages that read a tensor of this stage, in order.
    pub fn consumers(&self, id: StageId) -> Vec<StageId> {
        let op = self[id].operation();
        let reads = |other: &StageId| self[*other].inputs.iter().any(|input| input.op == *op);
        self.order.iter().copied().filter(reads).collect()
    }
}

impl core::ops::Index<StageId> for Schedule {
    type Output = Stage;

    fn index(&self, id: StageId) -> &Stage {
        &self.arena[id.0]
    }
}

impl core::ops::IndexMut<StageId> for Schedule {
    fn index_mut(&mut self, id: StageId) -> &mut Stage {
        &mut self.arena[id.0]
    }
}

/// A schedule in which each operation is computed on its own, in loops over its axes. Outputs are tensors or operations: `create_schedule([&c])`.
pub fn create_schedule<T: Into<Operation>>(outputs: impl IntoIterator<Item = T>) -> Schedule {
    let outputs: Vec<Operation> = outputs.into_iter().map(Into::into).collect();
    Schedule::new(&outputs)
}
