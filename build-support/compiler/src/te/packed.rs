//! Tensor expressions for other languages: global functions `kernpack.te.*`. Numbers and axes are
//! expressions, as in Rust; a mistake is an error of the call.

use kernpack::{Any, AnyView, Array, DataType, FromAny, Function, Map, Mismatch, Schema, Str, TypeSchema, packed_func};

use super::operation::with_names;
use crate::error::{CompileError, ErrorKind, Result, collect_reported, with_place};
use crate::ir::{BinaryOp, CompareOp, Expr, IterVar, LogicOp, Operation, Reducer, ReducerNode, Stmt, Tensor, Var};

/// An argument that converts to an expression: an expression, an axis, an integer, a float, a truth
/// value.
pub(crate) struct Operand(pub(crate) Expr);

impl Schema for Operand {
    const TYPE: TypeSchema = TypeSchema {
        key: "Union",
        args: &[
            TypeSchema::new("kernpack.ir.Expr"),
            TypeSchema::new("kernpack.ir.IterVar"),
            TypeSchema::new("int"),
            TypeSchema::new("float"),
            TypeSchema::new("bool"),
        ],
    };
}

impl<'a> FromAny<'a> for Operand {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        match value.type_name().as_str() {
            "int" => return i64::from_any(value).map(|value| Self(value.into())),
            "float" => return f64::from_any(value).map(|value| Self(value.into())),
            "bool" => return bool::from_any(value).map(|value| Self(value.into())),
            _ => {}
        }
        if let Ok(axis) = IterVar::from_any(value) {
            return Ok(Self((&axis).into()));
        }
        Expr::from_any(value).map(Self)
    }
}

impl From<Operand> for Expr {
    fn from(operand: Operand) -> Self {
        operand.0
    }
}

/// One argument or an array of them: `x` as well as `[x, y]`.
pub(crate) struct OneOrMore<T>(Vec<T>);

impl<T: Schema> Schema for OneOrMore<T> {
    const TYPE: TypeSchema = TypeSchema { key: "Union", args: &[T::TYPE, <Vec<T> as Schema>::TYPE] };
}

impl<'a, T: FromAny<'a>> FromAny<'a> for OneOrMore<T>
where
    Vec<T>: FromAny<'a>,
{
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        match T::from_any(value) {
            Ok(one) => Ok(Self(vec![one])),
            Err(_) => Vec::from_any(value).map(Self),
        }
    }
}

/// Converts the results of a function: a single result is returned by itself.
fn one_or_more<T>(results: Vec<T>) -> Any
where
    T: Into<Any>,
    Array<T>: FromIterator<T> + Into<Any>,
{
    match <[T; 1]>::try_from(results) {
        Ok([one]) => one.into(),
        Err(more) => more.into_iter().collect::<Array<T>>().into(),
    }
}

/// Runs work without a place in Rust code; reported errors become the error of the call.
fn made<T>(work: impl FnOnce() -> T) -> kernpack::Result<T> {
    let (value, reported) = collect_reported(|| with_place("", work));
    reported?;
    Ok(value)
}

fn exprs(operands: impl IntoIterator<Item = Operand>) -> Vec<Expr> {
    operands.into_iter().map(|operand| operand.0).collect()
}

#[packed_func(name = "kernpack.te.var")]
fn var(name: &str, dtype: DataType) -> Var {
    super::var(name, dtype)
}

#[packed_func(name = "kernpack.te.size")]
fn size(name: &str) -> Var {
    super::size(name)
}

#[packed_func(name = "kernpack.te.constant")]
fn constant(value: Operand, dtype: DataType) -> Expr {
    value.0.cast(dtype)
}

#[packed_func(name = "kernpack.te.placeholder")]
fn placeholder(shape: OneOrMore<Operand>, dtype: DataType, name: &str) -> kernpack::Result<Tensor> {
    made(|| super::placeholder(exprs(shape.0), dtype, name))
}

#[packed_func(name = "kernpack.te.reduce_axis")]
fn reduce_axis(min: Operand, extent: Operand, name: &str) -> kernpack::Result<IterVar> {
    made(|| super::reduce_axis(min.0, extent.0, name))
}

#[packed_func(name = "kernpack.te.thread_axis")]
fn thread_axis(extent: Option<i64>, tag: &str) -> kernpack::Result<IterVar> {
    made(|| super::thread_axis(extent, tag))
}

/// An element of a tensor.
#[packed_func(name = "kernpack.te.at")]
fn at(tensor: Tensor, indices: OneOrMore<Operand>) -> kernpack::Result<Expr> {
    made(|| tensor.at(exprs(indices.0)))
}

/// Computes tensors: `body` gets an axis for each dimension, and returns an expression, or an array
/// of them for several tensors. The result is a tensor, or an array of them.
#[packed_func(name = "kernpack.te.compute")]
fn compute(shape: OneOrMore<Operand>, body: Function, name: &str) -> kernpack::Result<Any> {
    let mut failed = None;
    let mut is_one = true;
    let tensors = made(|| {
        super::compute_dyn(exprs(shape.0), |axes| {
            let axes: Vec<Any> = axes.iter().map(|axis| axis.clone().into()).collect();
            let bodies = body.call(&axes[..]).and_then(|result| {
                is_one = result.to::<Operand>().is_ok();
                bodies_of(&result)
            });
            bodies.unwrap_or_else(|error| {
                failed = Some(error);
                vec![Expr::int(0)]
            })
        })
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let Some(first) = tensors.first() else { return Ok(Array::<Tensor>::default().into()) };
    let outputs = with_names(&first.op, |old_name, _, _| *old_name = name.into()).outputs();
    Ok(if is_one { one_or_more(outputs) } else { outputs.into_iter().collect::<Array<Tensor>>().into() })
}

fn bodies_of(result: &Any) -> kernpack::Result<Vec<Expr>> {
    if let Ok(one) = result.to::<Operand>() {
        return Ok(vec![one.0]);
    }
    Ok(exprs(result.to::<Vec<Operand>>()?))
}

/// Creates a reduction over axes: `sum`, `product`, `min`, `max`, `all`, `any` of one value, which
/// returns an expression; `argmin`, `argmax` of index and value, which returns an array of two.
#[packed_func(name = "kernpack.te.reduce")]
fn reduce(kind: &str, values: OneOrMore<Operand>, axes: OneOrMore<IterVar>) -> kernpack::Result<Any> {
    let (values, axes) = (exprs(values.0), axes.0);
    let results = made(|| match (kind, &values[..]) {
        ("sum", [x]) => Some(vec![super::sum(x, axes)]),
        ("product", [x]) => Some(vec![super::product(x, axes)]),
        ("min", [x]) => Some(vec![super::reduce_min(x, axes)]),
        ("max", [x]) => Some(vec![super::reduce_max(x, axes)]),
        ("all", [x]) => Some(vec![super::reduce_all(x, axes)]),
        ("any", [x]) => Some(vec![super::reduce_any(x, axes)]),
        ("argmin", [at, x]) => Some(super::argmin(at, x, axes).into()),
        ("argmax", [at, x]) => Some(super::argmax(at, x, axes).into()),
        _ => None,
    })?;
    let unknown = || {
        CompileError::new(ErrorKind::Type, format!("no reduction `{kind}` of {} values", values.len()))
            .note("there are sum, product, min, max, all and any of one value, argmin and argmax of two")
    };
    Ok(one_or_more(results.ok_or_else(unknown)?))
}

/// Creates a reducer: `combine` gets two arrays of partial results, and returns one.
#[packed_func(name = "kernpack.te.comm_reducer")]
fn comm_reducer(dtypes: Vec<DataType>, combine: Function, identity: Vec<Operand>) -> kernpack::Result<Reducer> {
    let side = |prefix: &str| -> Array<Var> {
        let vars = dtypes.iter().enumerate();
        vars.map(|(index, dtype)| Var::new(format!("{prefix}{index}"), *dtype)).collect()
    };
    let (lhs, rhs) = (side("x"), side("y"));
    let results = bodies_of(&combine.call((lhs.clone(), rhs.clone()))?)?;
    let identity = exprs(identity);
    let fitted = |values: Vec<Expr>| -> Array<Expr> {
        let pairs = values.into_iter().zip(&dtypes);
        pairs
            .map(|(value, dtype)| {
                let is_constant = value.as_int().is_some() || value.as_float().is_some();
                if is_constant { value.cast(*dtype) } else { value }
            })
            .collect()
    };
    let (count, given) = (dtypes.len(), (results.len(), identity.len()));
    let (results, identity) = (fitted(results), fitted(identity));
    let fits = |values: &Array<Expr>| values.iter().zip(&dtypes).all(|(value, dtype)| value.dtype() == *dtype);
    if given != (count, count) || !fits(&results) || !fits(&identity) {
        let what = format!("comm_reducer: results and identity are {count} values of the types given");
        return Err(CompileError::new(ErrorKind::Type, what).into());
    }
    Ok(Reducer::from_node(ReducerNode { lhs, rhs, results, identity }))
}

/// Creates a reduction with a reducer, of the elements for which `condition` holds, with the
/// initial value `init` instead of the identity.
#[packed_func(name = "kernpack.te.reduce_with")]
fn reduce_with(
    reducer: Reducer,
    values: OneOrMore<Operand>,
    axes: OneOrMore<IterVar>,
    condition: Option<Operand>,
    init: Option<Vec<Operand>>,
) -> kernpack::Result<Any> {
    let condition = condition.map_or_else(|| Expr::bool(true), Expr::from);
    let init = init.map(exprs).unwrap_or_default();
    let here = core::panic::Location::caller();
    let results =
        made(|| super::reduce::reduction("reduction", &reducer, exprs(values.0), axes.0, condition, init, here))?;
    Ok(one_or_more(results))
}

/// Creates a recurrence along the first dimension; the result is a tensor, or an array of them for
/// several states.
#[packed_func(name = "kernpack.te.scan")]
fn scan(
    init: OneOrMore<Tensor>,
    update: OneOrMore<Tensor>,
    state: OneOrMore<Tensor>,
    name: &str,
) -> kernpack::Result<Any> {
    let outputs = made(|| super::scan_dyn(&init.0, &update.0, &state.0))?;
    let Some(first) = outputs.first() else { return Ok(Array::<Tensor>::default().into()) };
    Ok(one_or_more(with_names(&first.op, |old, _, _| *old = name.into()).outputs()))
}

/// Creates an extern operation: `body` gets an array of buffers for the inputs and one for the
/// results, and returns statements, or a call.
#[packed_func(name = "kernpack.te.extern_op")]
fn extern_op(
    name: &str,
    inputs: Vec<Tensor>,
    shapes: Vec<Vec<Operand>>,
    dtypes: Vec<DataType>,
    body: Function,
) -> kernpack::Result<Array<Tensor>> {
    let mut failed = None;
    let outputs = made(|| {
        let mut op = super::extern_op(name, &inputs);
        for (shape, dtype) in shapes.into_iter().zip(dtypes) {
            op = op.output(exprs(shape), dtype);
        }
        op.body(|sources, results| {
            let args: [Array<crate::ir::Buffer>; 2] =
                [sources.iter().cloned().collect(), results.iter().cloned().collect()];
            let [sources, results] = args;
            let made = body.call((sources, results)).and_then(|result| match result.to::<Stmt>() {
                Ok(stmt) => Ok(stmt),
                Err(_) => Ok(Stmt::evaluate(result.to::<Expr>()?)),
            });
            made.unwrap_or_else(|error| {
                failed = Some(error);
                Stmt::nothing()
            })
        })
    })?;
    failed.map_or_else(|| Ok(outputs.into()), Err)
}

/// Arithmetic on two values by the name of the operation: `Add`, `Sub`, `Mul`, `Div`, `Mod`,
/// `FloorDiv`, `FloorMod`, `Min`, `Max`, `BitAnd`, `BitOr`, `BitXor`, `ShiftLeft`, `ShiftRight`;
/// comparisons `Eq`, `Ne`, `Lt`, `Le`, `Gt`, `Ge`; `And`, `Or`.
#[packed_func(name = "kernpack.te.binary")]
fn binary(op: &str, a: Operand, b: Operand) -> kernpack::Result<Expr> {
    use crate::ir::builder::{try_binary, try_compare, try_logic};
    if let Some(known) = BinaryOp::ALL.into_iter().find(|known| format!("{known:?}") == op) {
        return Ok(try_binary(known, &a.0, &b.0)?);
    }
    if let Some(known) = CompareOp::ALL.into_iter().find(|known| format!("{known:?}") == op) {
        return Ok(try_compare(known, &a.0, &b.0)?);
    }
    match op {
        "And" => Ok(try_logic(LogicOp::And, &a.0, &b.0)?),
        "Or" => Ok(try_logic(LogicOp::Or, &a.0, &b.0)?),
        _ => Err(CompileError::new(ErrorKind::Type, format!("unknown operation `{op}` of two values")).into()),
    }
}

#[packed_func(name = "kernpack.te.not")]
fn not(value: Operand) -> kernpack::Result<Expr> {
    Ok(crate::ir::builder::try_not(&value.0)?)
}

/// Selects one of two values; if `lazy`, only that one is evaluated.
#[packed_func(name = "kernpack.te.select")]
fn select(condition: Operand, a: Operand, b: Operand, lazy: bool) -> kernpack::Result<Expr> {
    Ok(crate::ir::builder::try_select(&condition.0, &a.0, &b.0, lazy)?)
}

#[packed_func(name = "kernpack.te.cast")]
fn cast(value: Operand, dtype: DataType) -> Expr {
    value.0.cast(dtype)
}

/// A math function by its name.
#[packed_func(name = "kernpack.te.math")]
fn math(name: &str, args: OneOrMore<Operand>) -> kernpack::Result<Expr> {
    Ok(crate::ir::builder::try_math(name, &exprs(args.0))?)
}

/// An argument of a packed function in the body of an extern operation; `rw` is 1 if the function
/// reads it, 2 if it writes it, 3 for both.
#[packed_func(name = "kernpack.te.tensor_argument")]
fn tensor_argument(buffer: crate::ir::Buffer, rw: i64) -> Expr {
    super::tensor_argument(&buffer, rw)
}

/// An argument of a C function in the body of an extern operation; `rw` is 1 if the function reads
/// it, 2 if it writes it, 3 for both.
#[packed_func(name = "kernpack.te.pointer_argument")]
fn pointer_argument(buffer: crate::ir::Buffer, rw: i64) -> Expr {
    super::pointer_argument(&buffer, rw)
}

/// One of the tensors that an operation computes.
#[packed_func(name = "kernpack.te.output")]
fn output(op: Operation, index: i64) -> kernpack::Result<Tensor> {
    match usize::try_from(index) {
        Ok(index) if index < op.num_outputs() => Ok(op.output(index)),
        _ => {
            let what = format!("`{}` has {} results, not a number {index}", op.name(), op.num_outputs());
            Err(CompileError::new(ErrorKind::Type, what).into())
        }
    }
}

/// Returns the operation with a name, a tag and attributes, which rules read.
#[packed_func(name = "kernpack.te.with_attrs")]
fn with_attrs(op: Operation, name: &str, tag: &str, attrs: Map<Str, Any>) -> Operation {
    with_names(&op, |old_name, old_tag, old_attrs| {
        (*old_name, *old_tag, *old_attrs) = (name.into(), tag.into(), attrs);
    })
}
