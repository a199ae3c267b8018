//! Schedules for other languages: objects `kernpack.schedule.Schedule` and
//! `kernpack.schedule.Stage`, and a global function `kernpack.schedule.*` for each primitive.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kernpack::{Array, Field, Map, ObjRef, Object, object_methods};

use super::stage::{Annotation, Attach, Schedule, Stage, StageId};
use crate::ir::handle::handle;
use crate::ir::{IterVar, Operation, Range, Tensor};

handle! {
    /// A reference to a schedule that other languages hold.
    SharedSchedule => ScheduleNode
}

handle! {
    /// A reference to a stage that other languages hold.
    SharedStage => StageNode
}

/// A schedule that other languages hold. A lock makes each primitive atomic.
#[derive(Object)]
#[object(key = "kernpack.schedule.Schedule", structural = "singleton")]
#[repr(C)]
pub struct ScheduleNode {
    /// The user's name for it, for messages.
    #[field(writable, default = Field::new("schedule".to_owned()), kw_only)]
    pub name: Field<String>,
    #[field(skip, default = Mutex::new(Schedule::new(&[])))]
    state: Mutex<Schedule>,
}

/// A stage of such a schedule; remains valid when other stages are added.
#[derive(Object)]
#[object(key = "kernpack.schedule.Stage", structural = "singleton")]
#[repr(C)]
pub struct StageNode {
    /// The schedule.
    pub schedule: SharedSchedule,
    /// The number of the stage.
    pub index: i64,
}

impl SharedSchedule {
    /// Wraps a schedule in a shared object.
    pub fn new(schedule: Schedule) -> Self {
        Self::from_node(ScheduleNode { name: Field::new("schedule".to_owned()), state: Mutex::new(schedule) })
    }

    /// Locks the schedule for this thread until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, Schedule> {
        // A failed primitive leaves the schedule unchanged.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn shared(&self, id: StageId) -> SharedStage {
        SharedStage::from_node(StageNode { schedule: self.clone(), index: id.0 as i64 })
    }
}

impl SharedStage {
    /// The stage's id.
    pub fn id(&self) -> StageId {
        StageId(usize::try_from(self.index).unwrap_or(usize::MAX))
    }
}

#[object_methods]
impl ScheduleNode {
    /// The output operations.
    #[getter]
    fn outputs(&self) -> Array<Operation> {
        self.locked().outputs.iter().cloned().collect()
    }

    /// The stages of operations, producers first.
    #[getter]
    fn stages(this: &ObjRef<Self>) -> Array<SharedStage> {
        let shared = SharedSchedule::from(this.clone());
        let ids: Vec<StageId> = shared.lock().stages().collect();
        ids.into_iter().map(|id| shared.shared(id)).collect()
    }

    /// The groups.
    #[getter]
    fn groups(this: &ObjRef<Self>) -> Array<SharedStage> {
        let shared = SharedSchedule::from(this.clone());
        let ids = shared.lock().groups().to_vec();
        ids.into_iter().map(|id| shared.shared(id)).collect()
    }

    /// The loops as human-readable text.
    #[operator(str)]
    fn text(&self) -> String {
        self.locked().loop_nest()
    }
}

impl ScheduleNode {
    fn locked(&self) -> MutexGuard<'_, Schedule> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StageNode {
    fn read<R: Default>(&self, read: impl FnOnce(&Schedule, &Stage) -> R) -> R {
        let schedule = self.schedule.lock();
        let index = usize::try_from(self.index).unwrap_or(usize::MAX);
        schedule.arena.get(index).map(|stage| read(&schedule, stage)).unwrap_or_default()
    }
}

#[object_methods]
impl StageNode {
    /// The name of the stage.
    #[getter]
    fn name(&self) -> String {
        self.read(|_, stage| stage.name().to_owned())
    }

    /// The operation that is computed now; `None` for a group.
    #[getter]
    fn op(&self) -> Option<Operation> {
        self.read(|_, stage| stage.op.clone())
    }

    /// The operation that the user wrote; `None` for a group.
    #[getter]
    fn origin_op(&self) -> Option<Operation> {
        self.read(|_, stage| stage.origin_op.clone())
    }

    /// All axes, including those that are no longer leaves.
    #[getter]
    fn all_iter_vars(&self) -> Array<IterVar> {
        self.read(|_, stage| stage.all_axes.iter().cloned().collect())
    }

    /// The loops, from the outermost to the innermost.
    #[getter]
    fn leaf_iter_vars(&self) -> Array<IterVar> {
        self.read(|_, stage| stage.leaves.iter().cloned().collect())
    }

    /// The annotation of each loop: an empty string, `unrolled`, `vectorized`, `parallel`,
    /// `tensorized`, or the tag of a thread.
    #[getter]
    fn annotations(&self) -> Array<kernpack::Str> {
        self.read(|_, stage| {
            let texts = stage.leaves.iter().map(|leaf| {
                if let Some(thread) = stage.thread_of(leaf) {
                    return thread.thread_tag.clone();
                }
                kernpack::Str::from(match stage.attr(leaf).and_then(|attr| attr.annotation) {
                    None => "",
                    Some(Annotation::Unrolled) => "unrolled",
                    Some(Annotation::Vectorized) => "vectorized",
                    Some(Annotation::Parallel) => "parallel",
                    Some(Annotation::Tensorized) => "tensorized",
                })
            });
            texts.collect()
        })
    }

    /// The kind of the attachment: `root`, `inline`, `at`, `scan_update`.
    #[getter]
    fn attach_type(&self) -> String {
        self.read(|_, stage| {
            let kind = match stage.attach {
                Attach::Root => "root",
                Attach::Inline | Attach::Inlined => "inline",
                Attach::At { .. } => "at",
                Attach::ScanUpdate { .. } => "scan_update",
            };
            kind.to_owned()
        })
    }

    /// The stage in whose loop it is computed.
    #[getter]
    fn attach_stage(&self) -> Option<SharedStage> {
        self.read(|_, stage| stage.attach.point().map(|(at, _)| at)).map(|at| self.schedule.shared(at))
    }

    /// The loop in which it is computed.
    #[getter]
    fn attach_ivar(&self) -> Option<IterVar> {
        self.read(|_, stage| stage.attach.point().map(|(_, axis)| axis.clone()))
    }

    /// The memory scope; if empty, it is derived from the threads around the stage.
    #[getter]
    fn scope(&self) -> String {
        self.read(|_, stage| stage.scope.clone())
    }

    /// True if the stage is an output of the schedule.
    #[getter]
    fn is_output(&self) -> bool {
        self.read(|_, stage| stage.is_output)
    }

    /// True if the stage has a double buffer.
    #[getter]
    fn double_buffer(&self) -> bool {
        self.read(|_, stage| stage.double_buffer)
    }

    /// The group of the stage.
    #[getter]
    fn group(&self) -> Option<SharedStage> {
        self.read(|_, stage| stage.group).map(|group| self.schedule.shared(group))
    }
}

/// Ranges by axis, in the form for other languages.
pub(crate) fn shared_ranges(ranges: super::pass_down::RangeMap) -> Map<IterVar, Range> {
    ranges.into_iter().collect()
}

/// The tensor that the schedule computes now.
pub(crate) fn current(schedule: &SharedSchedule, tensor: &Tensor) -> Tensor {
    schedule.lock().current(tensor)
}
