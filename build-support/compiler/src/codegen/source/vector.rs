//! Operations on vectors: operators where the language has them, else a helper function that works
//! lane by lane. In C, its body for vectors of GNU C uses their operators.

use kernpack::DataType;

use super::scalar;
use super::unit::Unit;
use super::vocabulary::{Vectors, is_half, is_native, lane_bits};
use crate::error::Result;
use crate::ir::{BOOLEAN, BinaryOp, CompareOp, DataTypeExt, I32, I64, U64};

/// The signature of a helper: name, result type, types of its parameters `a`, `b`, ..
struct Shape<'a> {
    name: String,
    result: DataType,
    params: &'a [DataType],
}

/// A call of a helper that computes each lane of the result from the lanes of its parameters, and
/// from its index; parameters with one lane are the same for all lanes. `gnu`: its body for vectors
/// of GNU C, in C.
fn by_lane(
    unit: &mut Unit,
    shape: &Shape<'_>,
    gnu: Option<String>,
    args: &[&str],
    of_lane: impl Fn(&mut Unit, &str, &[String]) -> Result<String>,
) -> Result<String> {
    let Shape { name, result, params } = shape;
    if !unit.has(name) {
        let ret = unit.value_type(*result)?;
        let types = params.iter().map(|dtype| unit.value_type(*dtype)).collect::<Result<Vec<_>>>()?;
        let body = if unit.words.vectors == Vectors::Extension {
            let lanes: Vec<String> = params
                .iter()
                .zip('a'..)
                .map(|(dtype, letter)| unit.lane_at(*dtype, &letter.to_string(), "i"))
                .collect();
            let value = of_lane(unit, "i", &lanes)?;
            let value = if result.is_bool() { format!("({value}) ? -1 : 0") } else { value };
            let loops = format!(
                "{ret} r;\n  for (int i = 0; i < {}; ++i) {} = {value};\n  return r;",
                result.lanes(),
                unit.at(*result, "r", "i")
            );
            let native = is_native(*result) && params.iter().all(|dtype| dtype.lanes() == 1 || is_native(*dtype));
            match gnu.filter(|_| native) {
                Some(gnu) => format!("\n#if KP_VECTORS\n  {gnu}\n#else\n  {loops}\n#endif"),
                None => loops,
            }
        } else {
            let mut lanes = Vec::new();
            for lane in 0..usize::from(result.lanes()) {
                let letters = params.iter().zip('a'..);
                let values: Vec<String> =
                    letters.map(|(dtype, letter)| unit.lane(*dtype, &letter.to_string(), lane)).collect();
                lanes.push(of_lane(unit, &lane.to_string(), &values)?);
            }
            format!("return {};", unit.vector(*result, &lanes)?)
        };
        unit.function(name, &ret, &types.iter().map(String::as_str).collect::<Vec<_>>(), &body);
    }
    Ok(format!("{name}({})", args.join(", ")))
}

/// Returns true if helper functions have a body for vectors of GNU C.
fn has_gnu(unit: &Unit) -> bool {
    unit.words.vectors == Vectors::Extension
}

/// The vector of integers with lanes of the same width, signed or unsigned like `kind`.
fn integers(dtype: DataType, kind: DataType) -> DataType {
    DataType::scalar(kind.code(), lane_bits(dtype)).with_lanes(dtype.lanes())
}

/// `a op b`.
pub(crate) fn binary(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, b: &str) -> Result<String> {
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
    let name = format!("kp_{name}_{}", dtype.short_name());
    let ty = unit.value_type(dtype)?;
    // Signed numbers wrap like unsigned ones.
    let wraps = dtype.is_int() && matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul);
    let order = match op {
        BinaryOp::Min if !dtype.is_bool() => "<",
        BinaryOp::Max if !dtype.is_bool() => ">",
        _ => "",
    };
    if unit.has_operators(dtype) && wraps {
        let wide = unit.value_type(integers(dtype, U64))?;
        return Ok(format!("as_{ty}(as_{wide}({a}) {symbol} as_{wide}({b}))"));
    }
    if unit.has_operators(dtype) && !symbol.is_empty() {
        return Ok(format!("({a} {symbol} {b})"));
    }
    if unit.has_operators(dtype) && !order.is_empty() {
        unit.function(&name, &ty, &[&ty, &ty], &format!("return select(b, a, a {order} b);"));
        return Ok(format!("{name}({a}, {b})"));
    }
    let gnu = match () {
        () if !has_gnu(unit) => None,
        () if !order.is_empty() => {
            Some(format!("return {};", choose(unit, dtype, &format!("(a {order} b)"), "a", "b")?))
        }
        () if wraps => {
            let unsigned = unit.value_type(integers(dtype, U64))?;
            Some(format!("return ({ty})(({unsigned})a {symbol} ({unsigned})b);"))
        }
        () if is_half(dtype) || symbol.is_empty() => None,
        () => Some(format!("return a {symbol} b;")),
    };
    let shape = Shape { name, result: dtype, params: &[dtype, dtype] };
    by_lane(unit, &shape, gnu, &[a, b], |unit, _, x| scalar::binary(unit, op, dtype.element(), &x[0], &x[1], false))
}

/// A shift in C by the same number of bits, within the width, in every lane.
pub(crate) fn shift(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, bits: i64) -> Result<String> {
    let ty = unit.value_type(dtype)?;
    let (name, gnu) = if op == BinaryOp::ShiftLeft {
        let unsigned = unit.value_type(integers(dtype, U64))?;
        ("shl", format!("return ({ty})(({unsigned})a << b);"))
    } else {
        ("shr", "return a >> b;".to_owned())
    };
    let shape = Shape { name: format!("kp_{name}_{}_by", dtype.short_name()), result: dtype, params: &[dtype, I32] };
    by_lane(unit, &shape, Some(gnu), &[a, &bits.to_string()], |unit, _, x| {
        let element = dtype.element();
        let amount = scalar::cast(unit, I32, element, &x[1])?;
        scalar::binary(unit, op, element, &x[0], &amount, false)
    })
}

/// For GNU C: selects the lanes of `a` where the comparison mask of the same width is all ones, and
/// the lanes of `b` otherwise.
fn choose(unit: &mut Unit, dtype: DataType, mask: &str, a: &str, b: &str) -> Result<String> {
    let ty = unit.value_type(dtype)?;
    let bits = unit.value_type(integers(dtype, I64))?;
    Ok(format!("({ty})((({bits}){mask} & ({bits}){a}) | (~({bits}){mask} & ({bits}){b}))"))
}

fn compare_name(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "eq",
        CompareOp::Ne => "ne",
        CompareOp::Lt => "lt",
        CompareOp::Le => "le",
        CompareOp::Gt => "gt",
        CompareOp::Ge => "ge",
    }
}

/// A comparison.
pub(crate) fn compare(unit: &mut Unit, op: CompareOp, dtype: DataType, a: &str, b: &str) -> Result<String> {
    let symbol = scalar::compare_symbol(op);
    let result = BOOLEAN.with_lanes(dtype.lanes());
    let ty = unit.value_type(result)?;
    if unit.has_operators(dtype) {
        return Ok(format!("convert_{ty}({a} {symbol} {b})"));
    }
    let gnu = (!dtype.is_bool()).then(|| format!("return __builtin_convertvector(a {symbol} b, {ty});"));
    let name = format!("kp_{}_{}", compare_name(op), dtype.short_name());
    let shape = Shape { name, result, params: &[dtype, dtype] };
    by_lane(unit, &shape, gnu, &[a, b], |_, _, x| Ok(format!("{} {symbol} {}", x[0], x[1])))
}

/// Logical not of truth values.
pub(crate) fn not(unit: &mut Unit, dtype: DataType, a: &str) -> Result<String> {
    if unit.words.has_vectors() {
        return Ok(format!("(~{a})"));
    }
    let shape = Shape { name: format!("kp_not_{}", dtype.short_name()), result: dtype, params: &[dtype] };
    by_lane(unit, &shape, Some("return ~a;".to_owned()), &[a], |_, _, x| Ok(format!("!{}", x[0])))
}

/// Tests in C whether any lane of a vector of truth values is true.
pub(crate) fn any(unit: &mut Unit, dtype: DataType, value: &str) -> Result<String> {
    let name = format!("kp_any_{}", dtype.short_name());
    let ty = unit.value_type(dtype)?;
    let lane = unit.at(dtype, "a", "i");
    let body = format!("int r = 0;\n  for (int i = 0; i < {}; ++i) r |= {lane};\n  return r != 0;", dtype.lanes());
    unit.function(&name, unit.words.truth, &[&ty], &body);
    Ok(format!("{name}({value})"))
}

/// In C, adds to each sum the products of a group of adjacent lanes of two vectors. Sums wrap.
pub(crate) fn dot(unit: &mut Unit, types: [DataType; 3], args: &[String]) -> Result<String> {
    let [sums, a, b] = types;
    let name = format!("kp_dot_{}_{}_{}", sums.short_name(), a.short_name(), b.short_name());
    let group = a.lanes() / sums.lanes().max(1);
    let names = types.iter().map(|dtype| unit.value_type(*dtype)).collect::<Result<Vec<_>>>()?;
    let element = |dtype: DataType, name: &str, index: &str| {
        if dtype.lanes() == 1 { name.to_owned() } else { unit.at(dtype, name, index) }
    };
    let body = format!(
        "{ty} r;\n  for (int i = 0; i < {lanes}; ++i) {{\n    uint32_t sum = (uint32_t){first};\n    for (int j = {group} * i; j < {group} * i + {group}; ++j) \
         sum += (uint32_t)(int32_t){x} * (uint32_t)(int32_t){y};\n    {result} = (int32_t)sum;\n  }}\n  return r;",
        ty = names[0],
        lanes = sums.lanes(),
        first = element(sums, "a", "i"),
        x = element(a, "b", "j"),
        y = element(b, "c", "j"),
        result = element(sums, "r", "i"),
    );
    let params: Vec<&str> = names.iter().map(String::as_str).collect();
    unit.function(&name, &names[0], &params, &body);
    Ok(format!("{name}({})", args.join(", ")))
}

/// A select in each lane.
pub(crate) fn select(unit: &mut Unit, dtype: DataType, condition: &str, a: &str, b: &str) -> Result<String> {
    let truth = BOOLEAN.with_lanes(dtype.lanes());
    let name = format!("kp_select_{}", dtype.short_name());
    if unit.has_operators(dtype) {
        // The mask has lanes of the same width; truth values are 0 and -1.
        let (mask, ty) = (unit.value_type(integers(dtype, I64))?, unit.value_type(dtype)?);
        let truths = unit.value_type(truth)?;
        unit.function(&name, &ty, &[&truths, &ty, &ty], &format!("return select(c, b, convert_{mask}(a));"));
        return Ok(format!("{name}({condition}, {a}, {b})"));
    }
    let gnu = match has_gnu(unit) {
        true => {
            let bits = unit.value_type(integers(dtype, I64))?;
            let chosen = choose(unit, dtype, "m", "b", "c")?;
            Some(format!("{bits} m = __builtin_convertvector(a, {bits});\n  return {chosen};"))
        }
        false => None,
    };
    let shape = Shape { name, result: dtype, params: &[truth, dtype, dtype] };
    by_lane(unit, &shape, gnu, &[condition, a, b], |_, _, x| Ok(format!("{} ? {} : {}", x[0], x[1], x[2])))
}

/// A select in C by a comparison of lanes of the same width, whose result is the mask:
/// `a op b ? c : d`.
pub(crate) fn select_compare(
    unit: &mut Unit,
    (op, from): (CompareOp, DataType),
    dtype: DataType,
    args: [&str; 4],
) -> Result<String> {
    let symbol = scalar::compare_symbol(op);
    let gnu = Some(format!("return {};", choose(unit, dtype, &format!("(a {symbol} b)"), "c", "d")?));
    let shape = Shape {
        name: format!("kp_select_{}_{}_{}", compare_name(op), from.short_name(), dtype.short_name()),
        result: dtype,
        params: &[from, from, dtype, dtype],
    };
    by_lane(unit, &shape, gnu, &args, |_, _, x| Ok(format!("{} {symbol} {} ? {} : {}", x[0], x[1], x[2], x[3])))
}

/// A conversion of each lane.
pub(crate) fn cast(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> Result<String> {
    let ty = unit.value_type(to)?;
    let saturates = from.is_float() && to.is_integer();
    if unit.has_operators(from) && unit.has_operators(to) && !saturates {
        return Ok(format!("convert_{ty}({value})"));
    }
    let gnu =
        (is_plain(from) && is_plain(to) && !saturates).then(|| format!("return __builtin_convertvector(a, {ty});"));
    let shape =
        Shape { name: format!("kp_{}_from_{}", to.short_name(), from.short_name()), result: to, params: &[from] };
    by_lane(unit, &shape, gnu, &[value], |unit, _, x| scalar::cast(unit, from.element(), to.element(), &x[0]))
}

/// Reinterprets the bits as lanes of another type.
pub(crate) fn reinterpret(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> Result<String> {
    let name = format!("kp_{}_of_{}", to.short_name(), from.short_name());
    if from.lanes() != to.lanes() {
        let plain = is_plain(from) && is_plain(to);
        crate::error::require!(
            plain && unit.words.vectors != Vectors::Structures,
            Target,
            "{} has no reinterpretation of {} as {}",
            unit.words.name,
            from.short_name(),
            to.short_name()
        );
        if unit.words.has_vectors() {
            return Ok(format!("as_{}({value})", unit.value_type(to)?));
        }
        let (source, target) = (unit.value_type(from)?, unit.value_type(to)?);
        let body = format!("union {{ {source} from; {target} to; }} both;\n  both.from = a;\n  return both.to;");
        unit.function(&name, &target, &[&source], &body);
        return Ok(format!("{name}({value})"));
    }
    let ty = unit.value_type(to)?;
    let gnu = (is_plain(from) && is_plain(to)).then(|| format!("return ({ty})a;"));
    let shape = Shape { name, result: to, params: &[from] };
    by_lane(unit, &shape, gnu, &[value], |unit, _, x| scalar::reinterpret(unit, from.element(), to.element(), &x[0]))
}

/// A scalar in every lane.
pub(crate) fn broadcast(unit: &mut Unit, dtype: DataType, value: &str) -> Result<String> {
    let ty = unit.value_type(dtype)?;
    if unit.words.has_vectors() && !dtype.is_bool() {
        return Ok(format!("(({ty})({value}))"));
    }
    let element = if dtype.is_bool() { "a ? -1 : 0" } else { "a" };
    let gnu = format!("return ({ty}){{{}}};", vec![element; usize::from(dtype.lanes())].join(", "));
    let shape =
        Shape { name: format!("kp_broadcast_{}", dtype.short_name()), result: dtype, params: &[dtype.element()] };
    by_lane(unit, &shape, Some(gnu), &[value], |_, _, x| Ok(x[0].clone()))
}

/// The vector `base, base + stride, ..`.
pub(crate) fn ramp(unit: &mut Unit, dtype: DataType, base: &str, stride: &str) -> Result<String> {
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
    by_lane(unit, &shape, None, &[base, stride], |unit, lane, x| {
        let step = scalar::cast(unit, I32, element, lane)?;
        let offset = scalar::binary(unit, BinaryOp::Mul, element, &x[1], &step, false)?;
        scalar::binary(unit, BinaryOp::Add, element, &x[0], &offset, false)
    })
}

/// A pure builtin of each lane.
pub(crate) fn builtin(
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
    by_lane(unit, &shape, None, &args, |unit, _, x| scalar::builtin(unit, name, from.element(), x))
}

/// Returns true if vectors of GNU C represent the lanes of a type as scalars.
fn is_plain(dtype: DataType) -> bool {
    !dtype.is_bool() && !is_half(dtype)
}
