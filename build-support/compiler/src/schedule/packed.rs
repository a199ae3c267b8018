//! The primitives for other languages: `kernpack.schedule.split(stage, axis, factor)` and so on.

use kernpack::{Any, Array, Map, packed_func};

use super::named_buffer;
use super::object::{SharedSchedule, SharedStage, current, shared_ranges};
use super::primitives::{StageHandle, StageKey};
use super::stage::{Schedule, create_schedule};
use super::{Argument, Tail, TensorIntrin, lower_function};
use crate::PassContext;
use crate::error::{CompileError, ErrorKind, Result, with_place, with_reported};
use crate::ir::{Buffer, IterVar, LoweredFunc, Operation, Range, Tensor, Var};
use crate::te::packed::Operand;

/// Applies a primitive to a stage. If it fails, the schedule is unchanged.
fn apply<R>(stage: &SharedStage, primitive: impl FnOnce(&mut StageHandle<'_>) -> Result<R>) -> kernpack::Result<R> {
    let mut schedule = stage.schedule.lock();
    Ok(with_place("", || with_reported(|| primitive(&mut schedule.stage(stage.id()))))?)
}

fn change<R>(schedule: &SharedSchedule, primitive: impl FnOnce(&mut Schedule) -> Result<R>) -> kernpack::Result<R> {
    let mut schedule = schedule.lock();
    Ok(with_place("", || with_reported(|| primitive(&mut schedule)))?)
}

/// A stage, tensor or operation as a stage key.
fn key(value: &Any, schedule: &SharedSchedule) -> kernpack::Result<StageKey> {
    if let Ok(stage) = value.to::<SharedStage>() {
        if stage.schedule != *schedule {
            let error = CompileError::new(ErrorKind::Schedule, "a stage of another schedule");
            return Err(error.into());
        }
        return Ok(StageKey::Id(stage.id()));
    }
    if let Ok(tensor) = value.to::<Tensor>() {
        return Ok(StageKey::Operation(tensor.op.clone()));
    }
    Ok(StageKey::Operation(value.to::<Operation>()?))
}

/// Creates a schedule of tensors or operations, in which each one is computed separately.
#[packed_func(name = "kernpack.schedule.create")]
fn create(outputs: Vec<Any>) -> kernpack::Result<SharedSchedule> {
    let operation = |output: &Any| match output.to::<Tensor>() {
        Ok(tensor) => Ok(tensor.op.clone()),
        Err(_) => output.to::<Operation>(),
    };
    let outputs = outputs.iter().map(operation).collect::<kernpack::Result<Vec<_>>>()?;
    Ok(SharedSchedule::new(create_schedule(&outputs)))
}

/// Returns a copy that is scheduled independently.
#[packed_func(name = "kernpack.schedule.copy")]
fn copy(schedule: SharedSchedule) -> SharedSchedule {
    let copy = schedule.lock().clone();
    SharedSchedule::new(copy)
}

/// Returns the stage of a tensor or operation.
#[packed_func(name = "kernpack.schedule.stage")]
fn stage(schedule: SharedSchedule, of: Any) -> kernpack::Result<SharedStage> {
    let key = key(&of, &schedule)?;
    let id = change(&schedule, |schedule| schedule.stage(key).id())?;
    Ok(schedule.shared(id))
}

/// Returns the tensor that the schedule computes now: primitives replace operations.
#[packed_func(name = "kernpack.schedule.current")]
fn current_tensor(schedule: SharedSchedule, tensor: Tensor) -> Tensor {
    current(&schedule, &tensor)
}

/// Returns the loops as human-readable text.
#[packed_func(name = "kernpack.schedule.loop_nest")]
fn loop_nest(schedule: SharedSchedule) -> String {
    let copy = schedule.lock().clone();
    copy.loop_nest()
}

/// Returns a copy with inlined stages substituted into their readers and every loop starting at 0:
/// the input of bound inference.
#[packed_func(name = "kernpack.schedule.normalize")]
fn normalize(schedule: SharedSchedule) -> kernpack::Result<SharedSchedule> {
    Ok(SharedSchedule::new(change(&schedule, |schedule| schedule.normalize())?))
}

/// Returns the range of every axis of a normalized schedule.
#[packed_func(name = "kernpack.schedule.infer_bound")]
fn infer_bound(schedule: SharedSchedule) -> kernpack::Result<Map<IterVar, Range>> {
    Ok(shared_ranges(change(&schedule, |schedule| super::infer_bound(schedule))?))
}

/// An argument of a function: a scalar, a tensor in compact memory with the alignment of its
/// elements, or a pair of a tensor and a buffer that describes its memory layout.
fn argument(value: &Any) -> kernpack::Result<Argument> {
    if let Ok(tensor) = value.to::<Tensor>() {
        return Ok(Argument::Buffer(tensor.clone(), named_buffer(&tensor, &tensor.name())));
    }
    if let Ok(var) = value.to::<Var>() {
        return Ok(Argument::Var(var));
    }
    let pair = value.to::<Vec<Any>>().unwrap_or_default();
    if let [tensor, buffer] = &pair[..]
        && let (Ok(tensor), Ok(buffer)) = (tensor.to::<Tensor>(), buffer.to::<Buffer>())
    {
        return Ok(Argument::Buffer(tensor, buffer));
    }
    let what = "an argument of a function is a tensor, a pair of a tensor and its buffer, or a variable";
    Err(kernpack::error!(TypeError, "{what}, got {}", value.type_name()))
}

/// Lowers a schedule to a function, before any pass. `args` in order: tensors, pairs of a tensor
/// and its buffer, and variables.
pub(crate) fn function_of(
    schedule: &SharedSchedule,
    args: &[Any],
    name: &str,
    context: &PassContext,
) -> kernpack::Result<LoweredFunc> {
    let args = args.iter().map(argument).collect::<kernpack::Result<Vec<_>>>()?;
    let schedule = schedule.lock();
    // Not in a scope of its own: errors that were reported before are in the expressions to lower.
    Ok(with_place("", || lower_function(&schedule, &args, name, context))?)
}

/// Lowers the loops of a schedule to a function, before any pass.
#[packed_func(name = "kernpack.schedule.lower")]
fn lower(schedule: SharedSchedule, args: Vec<Any>, name: &str, context: PassContext) -> kernpack::Result<LoweredFunc> {
    function_of(&schedule, &args, name, &context)
}

#[packed_func(name = "kernpack.schedule.split")]
fn split(stage: SharedStage, axis: IterVar, factor: Operand) -> kernpack::Result<Array<IterVar>> {
    let (outer, inner) = apply(&stage, |stage| stage.split(&axis, factor))?;
    Ok([outer, inner].into_iter().collect())
}

#[packed_func(name = "kernpack.schedule.split_nparts")]
fn split_nparts(stage: SharedStage, axis: IterVar, parts: Operand) -> kernpack::Result<Array<IterVar>> {
    let (outer, inner) = apply(&stage, |stage| stage.split_nparts(&axis, parts))?;
    Ok([outer, inner].into_iter().collect())
}

/// `tail`: `guard`, `predicate` or `shift_inwards`.
#[packed_func(name = "kernpack.schedule.split_tail")]
fn split_tail(stage: SharedStage, axis: IterVar, factor: Operand, tail: &str) -> kernpack::Result<Array<IterVar>> {
    let tail = match tail {
        "guard" => Tail::Guard,
        "predicate" => Tail::Predicate,
        "shift_inwards" => Tail::ShiftInwards,
        _ => {
            let error = CompileError::new(ErrorKind::Schedule, format!("split_tail: unknown tail `{tail}`"));
            return Err(error.note("there are guard, predicate and shift_inwards").into());
        }
    };
    let (outer, inner) = apply(&stage, |stage| stage.split_tail(&axis, factor, tail))?;
    Ok([outer, inner].into_iter().collect())
}

#[packed_func(name = "kernpack.schedule.tile")]
fn tile(
    stage: SharedStage,
    x: IterVar,
    y: IterVar,
    x_factor: Operand,
    y_factor: Operand,
) -> kernpack::Result<Array<IterVar>> {
    let (xo, yo, xi, yi) = apply(&stage, |stage| stage.tile(&x, &y, x_factor, y_factor))?;
    Ok([xo, yo, xi, yi].into_iter().collect())
}

/// Fuses adjacent loops into one; without loops, creates a loop with one iteration.
#[packed_func(name = "kernpack.schedule.fuse")]
fn fuse(stage: SharedStage, axes: Vec<IterVar>) -> kernpack::Result<IterVar> {
    apply(&stage, |stage| stage.fuse_all(&axes))
}

#[packed_func(name = "kernpack.schedule.reorder")]
fn reorder(stage: SharedStage, order: Vec<IterVar>) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.reorder(&order).map(drop))
}

#[packed_func(name = "kernpack.schedule.vectorize")]
fn vectorize(stage: SharedStage, axis: IterVar) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.vectorize(&axis).map(drop))
}

#[packed_func(name = "kernpack.schedule.unroll")]
fn unroll(stage: SharedStage, axis: IterVar) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.unroll(&axis).map(drop))
}

#[packed_func(name = "kernpack.schedule.parallel")]
fn parallel(stage: SharedStage, axis: IterVar) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.parallel(&axis).map(drop))
}

#[packed_func(name = "kernpack.schedule.bind")]
fn bind(stage: SharedStage, axis: IterVar, thread: IterVar) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.bind(&axis, &thread).map(drop))
}

#[packed_func(name = "kernpack.schedule.env_threads")]
fn env_threads(stage: SharedStage, threads: Vec<IterVar>) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.env_threads(&threads).map(drop))
}

#[packed_func(name = "kernpack.schedule.pragma")]
fn pragma(stage: SharedStage, axis: IterVar, key: &str, value: Operand) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.pragma(&axis, key, value).map(drop))
}

#[packed_func(name = "kernpack.schedule.prefetch")]
fn prefetch(stage: SharedStage, tensor: Tensor, axis: IterVar, ahead: Operand) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.prefetch(&tensor, &axis, ahead).map(drop))
}

#[packed_func(name = "kernpack.schedule.compute_at")]
fn compute_at(stage: SharedStage, parent: Any, axis: IterVar) -> kernpack::Result<()> {
    let parent = key(&parent, &stage.schedule)?;
    apply(&stage, |stage| stage.compute_at(parent, &axis).map(drop))
}

#[packed_func(name = "kernpack.schedule.compute_inline")]
fn compute_inline(stage: SharedStage) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.compute_inline().map(drop))
}

#[packed_func(name = "kernpack.schedule.compute_root")]
fn compute_root(stage: SharedStage) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.compute_root().map(drop))
}

#[packed_func(name = "kernpack.schedule.set_scope")]
fn set_scope(stage: SharedStage, scope: &str) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.set_scope(scope).map(drop))
}

#[packed_func(name = "kernpack.schedule.set_store_predicate")]
fn set_store_predicate(stage: SharedStage, condition: Operand) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.set_store_predicate(condition).map(drop))
}

#[packed_func(name = "kernpack.schedule.storage_align")]
fn storage_align(stage: SharedStage, axis: IterVar, factor: i64, offset: i64) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.storage_align(&axis, factor, offset).map(drop))
}

#[packed_func(name = "kernpack.schedule.double_buffer")]
fn double_buffer(stage: SharedStage) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.double_buffer().map(drop))
}

#[packed_func(name = "kernpack.schedule.tensorize")]
fn tensorize(stage: SharedStage, axis: IterVar, intrin: TensorIntrin) -> kernpack::Result<()> {
    apply(&stage, |stage| stage.tensorize(&axis, &intrin).map(drop))
}

/// Adds a copy of a tensor in memory of a scope, for these readers: stages, tensors or operations.
#[packed_func(name = "kernpack.schedule.cache_read")]
fn cache_read(schedule: SharedSchedule, tensor: Tensor, scope: &str, readers: Vec<Any>) -> kernpack::Result<Tensor> {
    let readers = readers.iter().map(|reader| key(reader, &schedule)).collect::<kernpack::Result<Vec<_>>>()?;
    change(&schedule, |schedule| schedule.cache_read(&tensor, scope, readers))
}

#[packed_func(name = "kernpack.schedule.cache_write")]
fn cache_write(schedule: SharedSchedule, tensor: Tensor, scope: &str) -> kernpack::Result<Tensor> {
    change(&schedule, |schedule| schedule.cache_write(&tensor, scope))
}

#[packed_func(name = "kernpack.schedule.rfactor")]
fn rfactor(schedule: SharedSchedule, tensor: Tensor, axis: IterVar, dimension: i64) -> kernpack::Result<Tensor> {
    change(&schedule, |schedule| schedule.rfactor_at(&tensor, &axis, dimension))
}

#[packed_func(name = "kernpack.schedule.create_group")]
fn create_group(
    schedule: SharedSchedule,
    outputs: Vec<Tensor>,
    inputs: Vec<Tensor>,
    include_inputs: bool,
) -> kernpack::Result<SharedStage> {
    let (outputs, inputs): (Vec<&Tensor>, Vec<&Tensor>) = (outputs.iter().collect(), inputs.iter().collect());
    let id = change(&schedule, |schedule| schedule.create_group(&outputs, &inputs, include_inputs))?;
    Ok(schedule.shared(id))
}
