//! Operations on vectors: operators where the language has them, else a helper function that works
//! lane by lane.

use kernpack::DataType;

use super::scalar;
use super::unit::Unit;
use crate::error::Result;
use crate::ir::{BOOLEAN, BinaryOp, CompareOp, DataTypeExt, I64, U64};

/// The signature of a helper: name, result type, types of its parameters `a`, `b`, ..
struct Shape<'a> {
    name: String,
    result: DataType,
    params: &'a [DataType],
}

/// A call of a helper that computes each lane of the result from the lanes of its parameters;
/// parameters with one lane are the same for all lanes.
fn by_lane(
    unit: &mut Unit,
    shape: &Shape<'_>,
    args: &[&str],
    of_lane: impl Fn(&mut Unit, usize, &[String]) -> Result<String>,
) -> Result<String> {
    let Shape { name, result, params } = shape;
    if !unit.has(name) {
        let ret = unit.value_type(*result)?;
        let types = params.iter().map(|dtype| unit.value_type(*dtype)).collect::<Result<Vec<_>>>()?;
        let mut lanes = Vec::new();
        for lane in 0..usize::from(result.lanes()) {
            let values: Vec<String> =
                params.iter().zip('a'..).map(|(dtype, letter)| unit.lane(*dtype, &letter.to_string(), lane)).collect();
            lanes.push(of_lane(unit, lane, &values)?);
        }
        let body = format!("return {};", unit.vector(*result, &lanes)?);
        unit.function(name, &ret, &types.iter().map(String::as_str).collect::<Vec<_>>(), &body);
    }
    Ok(format!("{name}({})", args.join(", ")))
}

/// The vector of integers with lanes of the same width, signed or unsigned like `kind`.
fn integers(dtype: DataType, kind: DataType) -> DataType {
    DataType::scalar(kind.code(), dtype.bits()).with_lanes(dtype.lanes())
}

/// `a op b`.
pub(super) fn binary(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, b: &str) -> Result<String> {
    let (name, symbol) = match op {
        BinaryOp::Add => ("add", "+"),
        BinaryOp::Sub => ("sub", "-"),
        BinaryOp::Mul => ("mul", "*"),
        BinaryOp::BitAnd => ("and", "&"),
        BinaryOp::BitOr => ("or", "|"),
        BinaryOp::BitXor => ("xor", "^"),
        BinaryOp::Div if dtype.is_float() => ("div", "/"),
        BinaryOp::Div => ("div", ""),
        BinaryOp::Mod => ("mod", ""),
        BinaryOp::FloorDiv => ("floordiv", ""),
        BinaryOp::FloorMod => ("floormod", ""),
        BinaryOp::Min => ("min", ""),
        BinaryOp::Max => ("max", ""),
        BinaryOp::ShiftLeft => ("shl", ""),
        BinaryOp::ShiftRight => ("shr", ""),
    };
    if unit.has_operators(dtype) && !symbol.is_empty() {
        // Signed numbers wrap like unsigned ones.
        if dtype.is_int() && matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul) {
            let (ty, wide) = (unit.value_type(dtype)?, unit.value_type(integers(dtype, U64))?);
            return Ok(format!("as_{ty}(as_{wide}({a}) {symbol} as_{wide}({b}))"));
        }
        return Ok(format!("({a} {symbol} {b})"));
    }
    let name = format!("kp_{name}_{}", dtype.short_name());
    if unit.has_operators(dtype) && matches!(op, BinaryOp::Min | BinaryOp::Max) {
        let ty = unit.value_type(dtype)?;
        let order = if op == BinaryOp::Min { "<" } else { ">" };
        unit.function(&name, &ty, &[&ty, &ty], &format!("return select(b, a, a {order} b);"));
        return Ok(format!("{name}({a}, {b})"));
    }
    let shape = Shape { name, result: dtype, params: &[dtype, dtype] };
    by_lane(unit, &shape, &[a, b], |unit, _, x| scalar::binary(unit, op, dtype.element(), &x[0], &x[1], false))
}

/// A comparison.
pub(super) fn compare(unit: &mut Unit, op: CompareOp, dtype: DataType, a: &str, b: &str) -> Result<String> {
    let symbol = scalar::compare_symbol(op);
    let result = BOOLEAN.with_lanes(dtype.lanes());
    if unit.has_operators(dtype) {
        let ty = unit.value_type(result)?;
        return Ok(format!("convert_{ty}({a} {symbol} {b})"));
    }
    let name = match op {
        CompareOp::Eq => "eq",
        CompareOp::Ne => "ne",
        CompareOp::Lt => "lt",
        CompareOp::Le => "le",
        CompareOp::Gt => "gt",
        CompareOp::Ge => "ge",
    };
    let shape = Shape { name: format!("kp_{name}_{}", dtype.short_name()), result, params: &[dtype, dtype] };
    by_lane(unit, &shape, &[a, b], |_, _, x| Ok(format!("{} {symbol} {}", x[0], x[1])))
}

/// Logical not of truth values.
pub(super) fn not(unit: &mut Unit, dtype: DataType, a: &str) -> Result<String> {
    if unit.words.has_vectors {
        return Ok(format!("(~{a})"));
    }
    let shape = Shape { name: format!("kp_not_{}", dtype.short_name()), result: dtype, params: &[dtype] };
    by_lane(unit, &shape, &[a], |_, _, x| Ok(format!("!{}", x[0])))
}

/// A select in each lane.
pub(super) fn select(unit: &mut Unit, dtype: DataType, condition: &str, a: &str, b: &str) -> Result<String> {
    let truth = BOOLEAN.with_lanes(dtype.lanes());
    let name = format!("kp_select_{}", dtype.short_name());
    if unit.has_operators(dtype) {
        // The mask has lanes of the same width; truth values are 0 and -1.
        let (mask, ty) = (unit.value_type(integers(dtype, I64))?, unit.value_type(dtype)?);
        let truths = unit.value_type(truth)?;
        unit.function(&name, &ty, &[&truths, &ty, &ty], &format!("return select(c, b, convert_{mask}(a));"));
        return Ok(format!("{name}({condition}, {a}, {b})"));
    }
    let shape = Shape { name, result: dtype, params: &[truth, dtype, dtype] };
    by_lane(unit, &shape, &[condition, a, b], |_, _, x| Ok(format!("({} ? {} : {})", x[0], x[1], x[2])))
}

/// A conversion of each lane.
pub(super) fn cast(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> Result<String> {
    let saturates = from.is_float() && to.is_integer();
    if unit.has_operators(from) && unit.has_operators(to) && !saturates {
        return Ok(format!("convert_{}({value})", unit.value_type(to)?));
    }
    let shape =
        Shape { name: format!("kp_{}_from_{}", to.short_name(), from.short_name()), result: to, params: &[from] };
    by_lane(unit, &shape, &[value], |unit, _, x| scalar::cast(unit, from.element(), to.element(), &x[0]))
}

/// Reinterprets the bits as lanes of another type.
pub(super) fn reinterpret(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> Result<String> {
    if from.lanes() != to.lanes() {
        let plain = unit.has_operators(from) && unit.has_operators(to);
        crate::error::require!(
            plain,
            Target,
            "{} has no reinterpretation of {} as {}",
            unit.words.name,
            from.short_name(),
            to.short_name()
        );
        return Ok(format!("as_{}({value})", unit.value_type(to)?));
    }
    let shape = Shape { name: format!("kp_{}_of_{}", to.short_name(), from.short_name()), result: to, params: &[from] };
    by_lane(unit, &shape, &[value], |unit, _, x| scalar::reinterpret(unit, from.element(), to.element(), &x[0]))
}

/// A scalar in every lane.
pub(super) fn broadcast(unit: &mut Unit, dtype: DataType, value: &str) -> Result<String> {
    if unit.words.has_vectors && !dtype.is_bool() {
        return Ok(format!("(({})({value}))", unit.value_type(dtype)?));
    }
    let shape =
        Shape { name: format!("kp_broadcast_{}", dtype.short_name()), result: dtype, params: &[dtype.element()] };
    by_lane(unit, &shape, &[value], |_, _, x| Ok(x[0].clone()))
}

/// The vector `base, base + stride, ..`.
pub(super) fn ramp(unit: &mut Unit, dtype: DataType, base: &str, stride: &str) -> Result<String> {
    let element = dtype.element();
    let name = format!("kp_ramp_{}", dtype.short_name());
    if unit.has_operators(dtype) {
        let (ty, scalar) = (unit.value_type(dtype)?, unit.words.scalar(dtype));
        let (wide, narrow) = (unit.value_type(integers(dtype, U64))?, unit.words.unsigned(dtype.bits()));
        let steps: Vec<String> = (0..dtype.lanes()).map(|lane| lane.to_string()).collect();
        let body =
            format!("return as_{ty}(({wide})(({narrow})a) + ({wide})(({narrow})b) * ({wide})({}));", steps.join(", "));
        unit.function(&name, &ty, &[scalar, scalar], &body);
        return Ok(format!("{name}({base}, {stride})"));
    }
    let shape = Shape { name, result: dtype, params: &[element, element] };
    by_lane(unit, &shape, &[base, stride], |unit, lane, x| {
        let step = super::literal::integer(unit.words, element, lane as i64);
        let offset = scalar::binary(unit, BinaryOp::Mul, element, &x[1], &step, false)?;
        scalar::binary(unit, BinaryOp::Add, element, &x[0], &offset, false)
    })
}

/// A pure builtin of each lane.
pub(super) fn builtin(
    unit: &mut Unit,
    name: &str,
    result: DataType,
    params: &[DataType],
    args: &[String],
) -> Result<String> {
    let from = params.first().copied().unwrap_or(result);
    let own = ["sigmoid", "rsqrt", "nanmin", "nanmax"].contains(&name);
    if unit.has_operators(from) && from.is_float() && !own && crate::ir::builtin::math_arity(name).is_some() {
        let function = match name {
            "abs" => "fabs",
            "round" => "rint",
            other => other,
        };
        return Ok(format!("{function}({})", args.join(", ")));
    }
    let shape = Shape { name: format!("kp_{name}_{}", from.short_name()), result, params };
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    by_lane(unit, &shape, &args, |unit, _, x| scalar::builtin(unit, name, from.element(), x))
}
