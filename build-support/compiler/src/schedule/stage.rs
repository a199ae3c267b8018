//! Schedules, their stages, and the attributes of axes.

use std::collections::HashMap;

use super::relations::Relation;
use super::tensorize::TensorIntrin;
use crate::ir::{Expr, IterVar, Operation, OperationNode, Tensor};
use crate::te::operation::{input_tensors, root_axes};

/// The id of a stage of a schedule; remains valid when other stages are added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StageId(pub(crate) usize);

/// The annotation of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Annotation {
    /// The loop is unrolled.
    Unrolled,
    /// The iterations become vector lanes.
    Vectorized,
    /// CPU threads run the iterations.
    Parallel,
    /// An instruction replaces the loop and all loops inside it.
    Tensorized,
}

/// The attributes of an axis.
#[derive(Clone, Default)]
pub struct AxisAttr {
    /// The annotation of its loop; `None` for a serial loop.
    pub annotation: Option<Annotation>,
    /// The thread to which it is bound.
    pub thread: Option<IterVar>,
    /// Tensors that are prefetched this many iterations ahead.
    pub prefetch: Vec<(Tensor, Expr)>,
    /// The instruction, if it is tensorized.
    pub intrin: Option<TensorIntrin>,
    /// The alignment of the axis's stride in memory: a multiple of the first number, plus the
    /// second, in elements.
    pub align: Option<(i64, i64)>,
    /// Pragmas: key and value.
    pub pragmas: Vec<(String, Expr)>,
    /// The last primitive that was applied to the axis, and its place, for messages.
    pub(crate) note: String,
}

/// The attachment of a stage.
#[derive(Clone, PartialEq, Eq)]
pub enum Attach {
    /// Computed separately, at the outermost level of its group.
    Root,
    /// To be inlined into its readers.
    Inline,
    /// Inlined: `normalize` has substituted the expression.
    Inlined,
    /// Inside a loop of another stage.
    At {
        /// The stage of the loop.
        stage: StageId,
        /// The loop.
        axis: IterVar,
    },
    /// Inside the time loop of the scan that it updates.
    ScanUpdate {
        /// The scan.
        stage: StageId,
        /// The time axis of the scan.
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
    /// The operation that is computed now: primitives and `normalize` replace it. `None` for a
    /// group.
    pub op: Option<Operation>,
    /// The operation that the user wrote.
    pub origin_op: Option<Operation>,
    /// All axes, including those that are no longer leaves.
    pub all_axes: Vec<IterVar>,
    /// The loops, from the outermost to the innermost.
    pub leaves: Vec<IterVar>,
    /// Threads that are launched around the stage.
    pub env_threads: Vec<IterVar>,
    /// The condition of the stores.
    pub store_predicate: Option<Expr>,
    /// The relations from which the leaves follow from the root axes.
    pub relations: Vec<Relation>,
    /// The attributes of axes.
    pub attrs: HashMap<IterVar, AxisAttr>,
    /// The attachment of the stage.
    pub attach: Attach,
    /// The memory scope; if empty, it is derived from the threads around the stage.
    pub scope: String,
    /// True if the stage is an output of the schedule.
    pub is_output: bool,
    /// True if the memory is doubled, so that the next part is computed while the current one is
    /// read.
    pub double_buffer: bool,
    /// The group of the stage.
    pub group: Option<StageId>,
    /// The number of stages of a group.
    pub num_children: usize,
    /// The tensors that the operation reads.
    pub(crate) inputs: Vec<Tensor>,
    /// For axes that are no longer leaves: the primitive that consumed them, and its place.
    pub(crate) consumed: HashMap<IterVar, String>,
    /// The place of the user's call that attached the stage.
    pub(crate) attach_place: String,
    /// The place of the user's call that doubled the memory.
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

    /// The operation. Panics for a group, which has no operation.
    pub fn operation(&self) -> &Operation {
        self.op.as_ref().expect("a group has no operation")
    }

    /// The name: that of the operation, or `group` for a group.
    pub fn name(&self) -> &str {
        self.op.as_ref().map_or("group", |op| op.name())
    }

    /// The attributes of an axis.
    pub fn attr(&self, axis: &IterVar) -> Option<&AxisAttr> {
        self.attrs.get(axis)
    }

    /// The thread that an axis is bound to.
    pub fn thread_of(&self, axis: &IterVar) -> Option<&IterVar> {
        self.attrs.get(axis).and_then(|attr| attr.thread.as_ref())
    }

    /// Returns true if the stage is an input: then it has no loops.
    pub fn is_placeholder(&self) -> bool {
        self.op.as_ref().is_some_and(|op| matches!(**op, OperationNode::Placeholder { .. }))
    }

    /// The position of a leaf.
    pub fn leaf_position(&self, axis: &IterVar) -> Option<usize> {
        self.leaves.iter().position(|leaf| leaf == axis)
    }
}

/// A schedule: the loops in which the tensors of a graph are computed.
///
/// `Clone` returns a copy that is scheduled independently; operations and axes are shared.
#[derive(Clone)]
pub struct Schedule {
    /// The output operations, as the stages compute them now.
    pub outputs: Vec<Operation>,
    /// All stages and groups, by id.
    pub(crate) arena: Vec<Stage>,
    /// The stages of operations, producers before consumers.
    pub(crate) order: Vec<StageId>,
    /// The groups, outer ones before inner ones.
    pub(crate) groups: Vec<StageId>,
    /// The stage by operation: the original operations, and those that stages compute now.
    pub(crate) by_op: HashMap<Operation, StageId>,
}

impl Schedule {
    /// Creates a schedule with a stage for each operation that the outputs depend on, each computed
    /// separately.
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

    /// Attaches the updates of scans to their time loops.
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

    /// The stage of an operation, which is either the user's or the one that the stage computes
    /// now.
    pub fn stage_of(&self, op: &Operation) -> Option<StageId> {
        self.by_op.get(op).copied()
    }

    /// The tensor that the schedule computes now: primitives replace operations, while the user's
    /// tensors stay the same.
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

/// Creates a schedule in which each operation is computed separately, in loops over its axes. The
/// outputs are tensors or operations: `create_schedule([&c])`.
pub fn create_schedule<T: Into<Operation>>(outputs: impl IntoIterator<Item = T>) -> Schedule {
    let outputs: Vec<Operation> = outputs.into_iter().map(Into::into).collect();
    Schedule::new(&outputs)
}
