//! Lowering of a schedule to a function, the input of the passes.

use std::collections::HashSet;

use kernpack::{DataType, Map};

use super::stage::Schedule;
use super::{infer_bound, lower, read_checks};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::{
    Buffer, BufferNode, DataTypeExt, Expr, FuncKind, LoweredFunc, LoweredFuncNode, Operation, OperationNode, Param,
    ParamNode, Stmt, Tensor, Var, visit,
};
use crate::pass::PassContext;
use crate::pass::inject_prefetch::inject_prefetch;
use crate::pass::storage_flatten::storage_flatten;
use crate::te::in_bounds::Checks;
use crate::te::operation::{free_variables, post_order};

/// An argument of a function.
#[derive(Clone)]
pub enum Argument {
    /// An input or output in compact memory.
    Tensor(Tensor),
    /// An input or output whose memory layout the buffer describes: with strides, or an offset.
    Buffer(Tensor, Buffer),
    /// A scalar.
    Var(Var),
}

impl From<Tensor> for Argument {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<&Tensor> for Argument {
    fn from(tensor: &Tensor) -> Self {
        Self::Tensor(tensor.clone())
    }
}

impl From<(&Tensor, &Buffer)> for Argument {
    fn from((tensor, buffer): (&Tensor, &Buffer)) -> Self {
        Self::Buffer(tensor.clone(), buffer.clone())
    }
}

impl From<Var> for Argument {
    fn from(var: Var) -> Self {
        Self::Var(var)
    }
}

impl From<&Var> for Argument {
    fn from(var: &Var) -> Self {
        Self::Var(var.clone())
    }
}

/// Lowers a schedule to a function of loops, loads and stores, of kind `Mixed`. Its parameters are
/// the arguments in order: scalars, and tensors with their buffers; outputs are marked.
///
/// # Errors
/// Returns the errors of the schedule, of bound inference and of lowering. Also returns an error
/// for an input or output that is not an argument, an argument that is neither of them, or a size
/// that no argument determines.
pub fn lower_function(
    schedule: &Schedule,
    args: &[Argument],
    name: &str,
    context: &PassContext,
) -> Result<LoweredFunc> {
    lower_checked(schedule, args, name, context, &Checks::default())
}

/// [`lower_function`] with checks of reads.
pub(crate) fn lower_checked(
    schedule: &Schedule,
    args: &[Argument],
    name: &str,
    context: &PassContext,
    checks: &Checks,
) -> Result<LoweredFunc> {
    // Errors in the expressions are those of the code that made them.
    crate::take_reported()?;
    crate::with_reported(|| lower_sound(schedule, args, name, context, checks))
}

fn lower_sound(
    schedule: &Schedule,
    args: &[Argument],
    name: &str,
    context: &PassContext,
    checks: &Checks,
) -> Result<LoweredFunc> {
    check_graph(schedule, args)?;
    check_extents(schedule)?;
    let normal = schedule.normalize()?;
    let mut params = Vec::new();
    let mut memory = Vec::new();
    for arg in args {
        let (tensor, buffer) = match arg {
            Argument::Var(var) => {
                params.push(Param::from_node(ParamNode { var: var.clone(), buffer: None, output: false }));
                continue;
            }
            Argument::Tensor(tensor) => (tensor, buffer_of(tensor, context)),
            Argument::Buffer(tensor, buffer) => (tensor, buffer.clone()),
        };
        let output = is_output(&normal, tensor)?;
        let var = buffer.data.clone();
        params.push(Param::from_node(ParamNode { var, buffer: Some(buffer.clone()), output }));
        memory.push((original(&normal, tensor), buffer));
    }
    let bounds = infer_bound(&normal)?;
    let body = lower(&normal, &bounds)?;
    let body = read_checks::insert(body, checks, name, context)?;
    let body = inject_prefetch(&body)?;
    check_arguments(&normal, &memory)?;
    let body = storage_flatten(&body, &memory, context)?;
    check_variables(&body, &params, name)?;
    Ok(LoweredFunc::from_node(LoweredFuncNode {
        name: name.into(),
        params: params.into_iter().collect(),
        ret: NOTHING,
        kind: FuncKind::Mixed,
        thread_axes: kernpack::Array::default(),
        body,
        attrs: Map::default(),
    }))
}

/// The type of no value.
const NOTHING: DataType = crate::ir::dtype::NOTHING;

/// Compact memory of a tensor, under the name of the argument. It has only the alignment of its
/// elements: arrays of other languages guarantee no more, and vector instructions of current CPUs
/// do not need more.
pub(crate) fn named_buffer(tensor: &Tensor, name: &str) -> Buffer {
    let node = Buffer::new(name, tensor.dtype, tensor.shape.iter(), "global").to_node();
    Buffer::from_node(BufferNode { data_alignment: tensor.dtype.lane_bytes() as i64, ..node })
}

fn buffer_of(tensor: &Tensor, context: &PassContext) -> Buffer {
    let mut node = Buffer::new(&tensor.name(), tensor.dtype, tensor.shape.iter(), "global").to_node();
    node.data_alignment = context.options.data_alignment;
    if context.options.offset_factor > 0 {
        node.elem_offset = Var::index(format!("{}.offset", tensor.name())).into();
        node.offset_factor = context.options.offset_factor;
    }
    Buffer::from_node(node)
}

/// The tensor that the user wrote, for one that a primitive replaced.
fn original(schedule: &Schedule, tensor: &Tensor) -> Tensor {
    let stage = schedule.stage_of(&tensor.op).and_then(|id| schedule[id].origin_op.clone());
    stage.map_or_else(|| tensor.clone(), |op| op.output(tensor.value_index as usize))
}

fn is_output(schedule: &Schedule, tensor: &Tensor) -> Result<bool> {
    let Some(id) = schedule.stage_of(&tensor.op) else {
        return Err(CompileError::new(
            ErrorKind::Lower,
            format!("argument `{}` is not a tensor of the schedule: no output depends on it", tensor.name()),
        )
        .at(tensor.op.span()));
    };
    let stage = &schedule[id];
    if !stage.is_placeholder() && !stage.is_output {
        return Err(CompileError::new(
            ErrorKind::Lower,
            format!("argument `{}` is neither an input nor an output of the schedule", tensor.name()),
        )
        .at(tensor.op.span())
        .note(
            "an intermediate result that the caller wants is an output: add its operation to those of create_schedule",
        ));
    }
    Ok(stage.is_output)
}

/// Checks that every input that is read, and every output, is an argument.
fn check_arguments(schedule: &Schedule, memory: &[(Tensor, Buffer)]) -> Result<()> {
    let known: HashSet<(usize, i64)> = memory.iter().map(|(tensor, _)| tensor.key()).collect();
    let mut missing = Vec::new();
    for id in schedule.stages() {
        let stage = &schedule[id];
        let is_state = |tensor: &Tensor| is_scan_state(schedule, tensor);
        if !(stage.is_output || stage.is_placeholder()) {
            continue;
        }
        for tensor in stage.operation().outputs() {
            let tensor = original(schedule, &tensor);
            if !known.contains(&tensor.key()) && !is_state(&tensor) {
                let what = if stage.is_output { "output" } else { "input" };
                let error =
                    CompileError::new(ErrorKind::Lower, format!("{what} `{}` is not an argument", tensor.name()));
                missing.push(error.at(tensor.op.span()).note("list it among the arguments of the function"));
            }
        }
    }
    CompileError::all(missing).map_or(Ok(()), Err)
}

fn is_scan_state(schedule: &Schedule, tensor: &Tensor) -> bool {
    schedule.stages().any(|id| match &**schedule[id].operation() {
        OperationNode::Scan { state, .. } => state.iter().any(|state| state.is(tensor)),
        _ => false,
    })
}

/// Axes that are known to be empty are an error; a size that is 0 at run time is not.
fn check_extents(schedule: &Schedule) -> Result<()> {
    let mut errors = Vec::new();
    // The user's operations, without the copies that primitives made of them.
    let outputs = schedule.stages().filter(|&id| schedule[id].is_output);
    let outputs: Vec<Operation> = outputs.filter_map(|id| schedule[id].origin_op.clone()).collect();
    for op in &post_order(&outputs) {
        let mut check = |what: String, extent: &Expr, place: &str| {
            if extent.as_int().is_some_and(|extent| extent <= 0) {
                let what = format!("`{}`: the extent of {what} is {extent}, less than 1", op.name());
                errors.push(
                    CompileError::new(ErrorKind::Type, what)
                        .at(place)
                        .at(op.span())
                        .note("an extent that may be 0 is a size of the function: `te::size`"),
                );
            }
        };
        match &**op {
            OperationNode::Placeholder { shape, .. } => {
                for (dimension, extent) in shape.iter().enumerate() {
                    check(format!("dimension {dimension}"), &extent, "");
                }
            }
            OperationNode::Compute { axes, reduce_axes, .. } => {
                for axis in axes.iter().chain(reduce_axes.iter()) {
                    if let Some(extent) = axis.extent() {
                        check(format!("axis `{}`", axis.name()), extent, &axis.span);
                    }
                }
            }
            OperationNode::Scan { scan_axis, .. } => {
                if let Some(extent) = scan_axis.extent() {
                    check("time".to_owned(), extent, &scan_axis.span);
                }
            }
            OperationNode::Extern { output_buffers, .. } => {
                for (number, buffer) in output_buffers.iter().enumerate() {
                    for (dimension, extent) in buffer.shape.iter().enumerate() {
                        check(format!("dimension {dimension} of output {number}"), &extent, "");
                    }
                }
            }
        }
    }
    CompileError::all(errors).map_or(Ok(()), Err)
}

/// Checks that expressions use only their own axes and arguments.
fn check_graph(schedule: &Schedule, args: &[Argument]) -> Result<()> {
    let is_argument = |var: &Var| {
        args.iter().any(|arg| match arg {
            Argument::Var(own) => own == var,
            // A dimension determines its extent.
            Argument::Tensor(tensor) | Argument::Buffer(tensor, _) => tensor.shape.iter().any(|extent| extent == **var),
        })
    };
    let mut errors = Vec::new();
    for id in schedule.stages() {
        let Some(op) = &schedule[id].origin_op else { continue };
        for var in free_variables(op).into_iter().filter(|var| !var.is_size() && !is_argument(var)) {
            let error =
                CompileError::new(ErrorKind::Type, format!("`{}`: `{}` has no value here", op.name(), var.name()));
            errors.push(error.at(op.span()).note(format!(
                "an axis of a reduction stands inside one, as in `sum(.., &{0})`, an axis of another tensor nowhere else; a scalar is an argument",
                var.name()
            )));
        }
    }
    CompileError::all(errors).map_or(Ok(()), Err)
}

/// Checks that every size in the body is an argument, or in the shape of one.
fn check_variables(body: &Stmt, params: &[Param], name: &str) -> Result<()> {
    let mut known: HashSet<Var> = HashSet::new();
    for param in params {
        known.insert(param.var.clone());
        if let Some(buffer) = &param.buffer {
            let parts = buffer.shape.iter().chain(buffer.strides.iter()).chain([buffer.elem_offset.clone()]);
            known.extend(parts.filter_map(|part| Var::of(&part)));
        }
    }
    let mut unknown: Vec<Var> = Vec::new();
    let mut sizes = |expr: &Expr| {
        if let Some(var) = Var::of(expr).filter(|var| var.is_size() && !known.contains(var) && !unknown.contains(var)) {
            unknown.push(var);
        }
    };
    visit::for_each_expr_in(body, &mut sizes);
    for param in params {
        for extent in param.buffer.iter().flat_map(|buffer| buffer.shape.iter()) {
            visit::for_each_expr(&extent, &mut sizes);
        }
    }
    let errors = unknown.into_iter().map(|var| {
        CompileError::new(ErrorKind::Lower, format!("`{name}`: no argument tells the size `{}`", var.name()))
            .note("it is the extent of a dimension of a tensor argument, or an argument itself")
    });
    CompileError::all(errors.collect()).map_or(Ok(()), Err)
}
