//! The handle that has the primitives as methods, and their errors.

use core::fmt;
use core::panic::Location;

use crate::error::{CompileError, ErrorKind, Result, place};
use crate::ir::{IterVar, Operation, OperationNode, Tensor};
use crate::schedule::stage::{Schedule, Stage, StageId};
use crate::te::placeholder::counted;

/// The key of a stage: a tensor, an operation, or an id.
#[derive(Clone)]
pub enum StageKey {
    /// The stage that computes an operation.
    Operation(Operation),
    /// A stage or group.
    Id(StageId),
}

impl From<&Tensor> for StageKey {
    fn from(tensor: &Tensor) -> Self {
        Self::Operation(tensor.op.clone())
    }
}

impl From<&Operation> for StageKey {
    fn from(op: &Operation) -> Self {
        Self::Operation(op.clone())
    }
}

impl From<StageId> for StageKey {
    fn from(id: StageId) -> Self {
        Self::Id(id)
    }
}

impl Schedule {
    /// Returns the stage of a tensor, for primitives: `s.stage(&c).split(&i, 8)?`.
    ///
    /// If the schedule does not compute the tensor, the primitive returns an error.
    pub fn stage(&mut self, of: impl Into<StageKey>) -> StageHandle<'_> {
        let id = self.find(&of.into());
        StageHandle { schedule: self, id }
    }

    pub(crate) fn find(&self, key: &StageKey) -> Result<StageId> {
        match key {
            StageKey::Id(id) if id.0 < self.arena.len() => Ok(*id),
            StageKey::Id(_) => Err(CompileError::new(ErrorKind::Schedule, "a stage of another schedule")),
            StageKey::Operation(op) => self.by_op.get(op).copied().ok_or_else(|| {
                let names: Vec<String> = self.order.iter().map(|&id| format!("`{}`", self[id].name())).collect();
                CompileError::new(ErrorKind::Schedule, format!("`{}` is not computed by this schedule", op.name()))
                    .at(op.span())
                    .note(format!("stages: {}", names.join(", ")))
            }),
        }
    }
}

/// A stage of a schedule for modification. Each primitive returns an error that names the stage,
/// the axis and the caller's line.
pub struct StageHandle<'a> {
    pub(crate) schedule: &'a mut Schedule,
    pub(crate) id: Result<StageId>,
}

impl fmt::Debug for StageHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Ok(id) => write!(f, "stage {}", self.schedule[*id].name()),
            Err(error) => error.fmt(f),
        }
    }
}

/// The context of an error of a primitive.
pub(crate) struct Context {
    pub(crate) primitive: &'static str,
    pub(crate) here: &'static Location<'static>,
}

impl Context {
    #[track_caller]
    pub(crate) fn new(primitive: &'static str) -> Self {
        Self { primitive, here: Location::caller() }
    }

    pub(crate) fn place(&self) -> String {
        place(self.here)
    }

    /// The place after ` at`, or an empty string if it is unknown.
    pub(crate) fn at_place(&self) -> String {
        at_place(&self.place())
    }

    /// An error of this primitive, without a list of loops.
    pub(crate) fn error(&self, what: impl fmt::Display) -> CompileError {
        CompileError::new(ErrorKind::Schedule, format!("{}: {what}", self.primitive)).at(self.place())
    }

    /// Wraps an error of another part of the compiler.
    pub(crate) fn wrap(&self, error: &CompileError) -> CompileError {
        let mut wrapped = self.error(error.what());
        for line in error.to_string().lines().skip(1) {
            if let Some(note) = line.strip_prefix("   = ") {
                wrapped = wrapped.note(note);
            } else if let Some(place) = line.strip_prefix("  --> ") {
                wrapped = wrapped.at(place);
            }
        }
        wrapped
    }

    /// An error of this primitive that lists the loops of the stage.
    pub(crate) fn stage_error(&self, stage: &Stage, what: impl fmt::Display) -> CompileError {
        self.error(what).note(loops_of(stage))
    }
}

/// The place after ` at`, or an empty string if it is unknown.
pub(crate) fn at_place(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" at {place}") }
}

fn loops_of(stage: &Stage) -> String {
    let names: Vec<&str> = stage.leaves.iter().map(|leaf| leaf.name()).collect();
    if names.is_empty() {
        return format!("`{}` has no loops", stage.name());
    }
    format!("loops of `{}` now: {}", stage.name(), names.join(", "))
}

impl StageHandle<'_> {
    /// The stage's id; the error contains the primitive's name and place.
    pub(crate) fn checked(&self, context: &Context) -> Result<StageId> {
        self.id.clone().map_err(|error| context.wrap(&error))
    }

    /// The position of a leaf; the error contains the reason why the axis is not a leaf.
    pub(crate) fn leaf(&self, context: &Context, axis: &IterVar) -> Result<(StageId, usize)> {
        let id = self.checked(context)?;
        let position = self.schedule.leaf_of(context, id, axis)?;
        Ok((id, position))
    }

    /// The id of the stage.
    ///
    /// # Errors
    /// Returns an error if the schedule does not compute the tensor.
    #[track_caller]
    pub fn id(&self) -> Result<StageId> {
        self.checked(&Context::new("stage"))
    }

    /// The current state of the stage.
    ///
    /// # Errors
    /// Returns an error if the schedule does not compute the tensor.
    #[track_caller]
    pub fn get(&self) -> Result<&Stage> {
        let id = self.checked(&Context::new("stage"))?;
        Ok(&self.schedule[id])
    }

    /// The axes of the tensor's dimensions: `let [i, j] = s.stage(&c).axes()?;`.
    ///
    /// # Errors
    /// Returns an error if the number of dimensions differs from `N`.
    #[track_caller]
    pub fn axes<const N: usize>(&self) -> Result<[IterVar; N]> {
        self.fixed(&Context::new("axes"), "dimension", data_axes)
    }

    /// The reduction axes: `let [k] = s.stage(&c).reduce_axes()?;`.
    ///
    /// # Errors
    /// Returns an error if the number of axes differs from `N`.
    #[track_caller]
    pub fn reduce_axes<const N: usize>(&self) -> Result<[IterVar; N]> {
        self.fixed(&Context::new("reduce_axes"), "axis of reduction", reduction_axes)
    }

    /// The current loops, from the outermost to the innermost.
    ///
    /// # Errors
    /// Returns an error if the number of loops differs from `N`.
    #[track_caller]
    pub fn loops<const N: usize>(&self) -> Result<[IterVar; N]> {
        let context = Context::new("loops");
        let stage = &self.schedule[self.checked(&context)?];
        let leaves = stage.leaves.clone();
        let count = leaves.len();
        leaves.try_into().map_err(|_| {
            context.stage_error(stage, format!("`{}` has {}, not {N}", stage.name(), counted(count, "loop")))
        })
    }

    fn fixed<const N: usize>(
        &self,
        context: &Context,
        what: &str,
        axes: impl Fn(&Operation) -> Vec<IterVar>,
    ) -> Result<[IterVar; N]> {
        let stage = &self.schedule[self.checked(context)?];
        let axes = stage.op.as_ref().map_or_else(Vec::new, axes);
        let count = axes.len();
        axes.try_into().map_err(|_| {
            let number = if what == "dimension" { counted(count, what) } else { format!("{count} axes of reduction") };
            context.error(format!("`{}` has {number}, not {N}", stage.name()))
        })
    }
}

/// The axes of an operation's dimensions.
pub(crate) fn data_axes(op: &Operation) -> Vec<IterVar> {
    match &**op {
        OperationNode::Compute { axes, .. } => axes.to_vec(),
        OperationNode::Scan { .. } => crate::te::operation::root_axes(op),
        OperationNode::Placeholder { .. } | OperationNode::Extern { .. } => Vec::new(),
    }
}

fn reduction_axes(op: &Operation) -> Vec<IterVar> {
    match &**op {
        OperationNode::Compute { reduce_axes, .. } => reduce_axes.to_vec(),
        _ => Vec::new(),
    }
}

impl Schedule {
    pub(crate) fn leaf_of(&self, context: &Context, id: StageId, axis: &IterVar) -> Result<usize> {
        let stage = &self[id];
        if let Some(position) = stage.leaf_position(axis) {
            return Ok(position);
        }
        let (axis_name, name) = (axis.name(), stage.name());
        if let Some(how) = stage.consumed.get(axis) {
            let what = format!("`{axis_name}` of stage `{name}` is no longer a loop");
            let error = context.error(what).note(format!("it was {how}"));
            return Err(error.note(loops_of(stage)));
        }
        let what = format!("`{axis_name}` is not an axis of stage `{name}`");
        let mut error = context.stage_error(stage, what);
        if let Some(other) = self.arena.iter().find(|other| other.all_axes.contains(axis)) {
            error = error.note(format!("it is an axis of stage `{}`", other.name()));
        }
        Err(error)
    }

    /// Checks that the leaf can be changed: it has no annotation, and no stage is computed in its
    /// loop.
    pub(crate) fn check_free(&self, context: &Context, id: StageId, axis: &IterVar) -> Result<()> {
        let stage = &self[id];
        let name = axis.name();
        if let Some(attr) = stage.attrs.get(axis) {
            let is_used = attr.annotation.is_some()
                || attr.thread.is_some()
                || !attr.prefetch.is_empty()
                || !attr.pragmas.is_empty();
            if is_used {
                let what = format!("`{name}` of stage `{}` was {}", stage.name(), attr.note);
                return Err(context.stage_error(stage, what).note(format!(
                    "apply `{}` before that, or do that with one of the resulting loops",
                    context.primitive
                )));
            }
        }
        for other in &self.arena {
            if other.attach.point() == Some((id, axis)) && other.op.is_some() {
                let what = format!("`{}` is computed at `{name}` of stage `{}`", other.name(), stage.name());
                let mut error = context.stage_error(stage, what);
                if !other.attach_place.is_empty() {
                    error = error.note(format!("that was said at {}", other.attach_place));
                }
                return Err(error.note(format!("apply `{}` before `compute_at`", context.primitive)));
            }
        }
        Ok(())
    }
}
