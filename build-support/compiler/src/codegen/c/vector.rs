//! Operations on vectors: a helper function for each, with a body for GNU C if it supports the
//! operation, and one that works lane by lane.

use kernpack::DataType;

use super::scalar;
use super::types::{at, is_native, lane, lane_bits};
use super::unit::Unit;
use crate::error::Result;
use crate::ir::{BinaryOp, CompareOp, DataTypeExt, I64};

/// The signature of a helper: name, result type, types of its parameters `a`, `b`, ..
struct Shape<'a> {
    name: String,
    result: DataType,
    params: &'a [DataType],
}

/// Defines a helper unless it is already defined. `gnu`: its body for vectors of GNU C. `of_lane`:
/// a lane of the result from the lanes of the parameters.
fn define(
    unit: &mut Unit,
    shape: Shape<'_>,
    gnu: Option<String>,
    of_lane: impl FnOnce(&mut Unit, &[String]) -> Result<String>,
) -> Result<String> {
    let Shape { name, result, params } = shape;
    if unit.has(&name) {
        return Ok(name);
    }
    let ret = unit.value_type(result)?;
    let types = params.iter().map(|dtype| unit.value_type(*dtype)).collect::<Result<Vec<_>>>()?;
    let lanes: Vec<String> = params
        .iter()
        .zip('a'..)
        .map(|(dtype, letter)| match () {
            () if dtype.lanes() == 1 => letter.to_string(),
            () if dtype.is_bool() => format!("({} != 0)", at(*dtype, &letter.to_string(), "i")),
            () => at(*dtype, &letter.to_string(), "i"),
        })
        .collect();
    let value = of_lane(unit, &lanes)?;
    let value = if result.is_bool() { format!("({value}) ? -1 : 0") } else { value };
    let loops = format!(
        "{ret} r;\n  for (int i = 0; i < {}; ++i) {} = {value};\n  return r;",
        result.lanes(),
        at(result, "r", "i")
    );
    let native = is_native(result) && params.iter().all(|dtype| dtype.lanes() == 1 || is_native(*dtype));
    let body = match gnu.filter(|_| native) {
        Some(gnu) => format!("\n#if KP_VECTORS\n  {gnu}\n#else\n  {loops}\n#endif"),
        None => loops,
    };
    unit.function(&name, &ret, &types.iter().map(String::as_str).collect::<Vec<_>>(), &body);
    Ok(name)
}

/// The type of vectors of integers with lanes of the same width.
fn integers(dtype: DataType, letter: char) -> DataType {
    DataType::scalar(
        if letter == 'i' { I64.code() } else { crate::ir::U64.code() },
        u8::try_from(lane_bits(dtype)).unwrap_or(64),
    )
    .with_lanes(dtype.lanes())
}

/// `a op b`.
pub(super) fn binary(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, b: &str) -> Result<String> {
    let (name, symbol) = match op {
        BinaryOp::Add => ("add", "+"),
        BinaryOp::Sub => ("sub", "-"),
        BinaryOp::Mul => ("mul", "*"),
        BinaryOp::Div => ("div", "/"),
        BinaryOp::Mod => ("mod", ""),
        BinaryOp::FloorDiv => ("floordiv", ""),
        BinaryOp::FloorMod => ("floormod", ""),
        BinaryOp::Min => ("min", "<"),
        BinaryOp::Max => ("max", ">"),
        BinaryOp::BitAnd => ("and", "&"),
        BinaryOp::BitOr => ("or", "|"),
        BinaryOp::BitXor => ("xor", "^"),
        BinaryOp::ShiftLeft => ("shl", ""),
        BinaryOp::ShiftRight => ("shr", ""),
    };
    let short = dtype.short_name();
    let ty = unit.value_type(dtype)?;
    let half = super::types::is_half(dtype);
    let gnu = match op {
        BinaryOp::Min | BinaryOp::Max if !dtype.is_bool() => {
            let chosen = choose(unit, dtype, &format!("(a {symbol} b)"), "a", "b")?;
            Some(format!("return {chosen};"))
        }
        // Signed numbers wrap like unsigned ones.
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul if dtype.is_int() => {
            let unsigned = unit.value_type(integers(dtype, 'u'))?;
            Some(format!("return ({ty})(({unsigned})a {symbol} ({unsigned})b);"))
        }
        BinaryOp::Div if !dtype.is_float() => None,
        _ if half || symbol.is_empty() || dtype.is_bool() && matches!(op, BinaryOp::Min | BinaryOp::Max) => None,
        _ => Some(format!("return a {symbol} b;")),
    };
    let shape = Shape { name: format!("kp_{name}_{short}"), result: dtype, params: &[dtype, dtype] };
    let function =
        define(unit, shape, gnu, |unit, x| Ok(scalar::binary(unit, op, dtype.element(), &x[0], &x[1], false)))?;
    Ok(format!("{function}({a}, {b})"))
}

/// A shift by the same number of bits, within the width, in every lane.
pub(super) fn shift(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, bits: i64) -> Result<String> {
    let left = op == BinaryOp::ShiftLeft;
    let ty = unit.value_type(dtype)?;
    let gnu = if left {
        let unsigned = unit.value_type(integers(dtype, 'u'))?;
        format!("return ({ty})(({unsigned})a << b);")
    } else {
        "return a >> b;".to_owned()
    };
    let name = format!("kp_{}_{}_by", if left { "shl" } else { "shr" }, dtype.short_name());
    let shape = Shape { name, result: dtype, params: &[dtype, crate::ir::I32] };
    let function = define(unit, shape, Some(gnu), |unit, x| {
        let element = dtype.element();
        let amount = scalar::cast(unit, crate::ir::I32, element, &x[1])?;
        Ok(scalar::binary(unit, op, element, &x[0], &amount, false))
    })?;
    Ok(format!("{function}({a}, {bits})"))
}

/// For GNU C: selects the lanes of `a` where the comparison mask of the same width is all ones, and
/// the lanes of `b` otherwise.
fn choose(unit: &mut Unit, dtype: DataType, mask: &str, a: &str, b: &str) -> Result<String> {
    let ty = unit.value_type(dtype)?;
    let bits = unit.value_type(integers(dtype, 'i'))?;
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
pub(super) fn compare(unit: &mut Unit, op: CompareOp, dtype: DataType, a: &str, b: &str) -> Result<String> {
    let symbol = scalar::compare_symbol(op);
    let name = compare_name(op);
    let result = crate::ir::BOOLEAN.with_lanes(dtype.lanes());
    let ty = unit.value_type(result)?;
    let gnu = (!dtype.is_bool()).then(|| format!("return __builtin_convertvector(a {symbol} b, {ty});"));
    let shape = Shape { name: format!("kp_{name}_{}", dtype.short_name()), result, params: &[dtype, dtype] };
    let function = define(unit, shape, gnu, |_, x| Ok(format!("{} {symbol} {}", x[0], x[1])))?;
    Ok(format!("{function}({a}, {b})"))
}

/// Logical not of truth values.
pub(super) fn not(unit: &mut Unit, dtype: DataType, a: &str) -> Result<String> {
    let shape = Shape { name: format!("kp_not_{}", dtype.short_name()), result: dtype, params: &[dtype] };
    let function = define(unit, shape, Some("return ~a;".to_owned()), |_, x| Ok(format!("!{}", x[0])))?;
    Ok(format!("{function}({a})"))
}

/// Tests whether any lane of a vector of truth values is true.
pub(super) fn any(unit: &mut Unit, dtype: DataType, value: &str) -> Result<String> {
    let name = format!("kp_any_{}", dtype.short_name());
    let ty = unit.value_type(dtype)?;
    let lane = at(dtype, "a", "i");
    let body = format!("int r = 0;\n  for (int i = 0; i < {}; ++i) r |= {lane};\n  return r != 0;", dtype.lanes());
    unit.function(&name, "_Bool", &[&ty], &body);
    Ok(format!("{name}({value})"))
}

/// Adds to each sum the products of a group of adjacent lanes of two vectors. Sums wrap.
pub(super) fn dot(unit: &mut Unit, types: [DataType; 3], args: &[String]) -> Result<String> {
    let [sums, a, b] = types;
    let name = format!("kp_dot_{}_{}_{}", sums.short_name(), a.short_name(), b.short_name());
    let group = a.lanes() / sums.lanes().max(1);
    let element = |dtype: DataType, name: &str, index: &str| {
        if dtype.lanes() == 1 { name.to_owned() } else { at(dtype, name, index) }
    };
    let names = types.iter().map(|dtype| unit.value_type(*dtype)).collect::<Result<Vec<_>>>()?;
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
pub(super) fn select(unit: &mut Unit, dtype: DataType, condition: &str, a: &str, b: &str) -> Result<String> {
    let truth = crate::ir::BOOLEAN.with_lanes(dtype.lanes());
    let bits = unit.value_type(integers(dtype, 'i'))?;
    let chosen = choose(unit, dtype, "m", "b", "c")?;
    let gnu = format!("{bits} m = __builtin_convertvector(a, {bits});\n  return {chosen};");
    let shape =
        Shape { name: format!("kp_select_{}", dtype.short_name()), result: dtype, params: &[truth, dtype, dtype] };
    let function = define(unit, shape, Some(gnu), |_, x| Ok(format!("{} ? {} : {}", x[0], x[1], x[2])))?;
    Ok(format!("{function}({condition}, {a}, {b})"))
}

/// A select by a comparison of lanes of the same width, whose result is the mask: `a op b ? c : d`.
pub(super) fn select_compare(
    unit: &mut Unit,
    (op, from): (CompareOp, DataType),
    dtype: DataType,
    args: [&str; 4],
) -> Result<String> {
    let symbol = scalar::compare_symbol(op);
    let chosen = choose(unit, dtype, &format!("(a {symbol} b)"), "c", "d")?;
    let shape = Shape {
        name: format!("kp_select_{}_{}_{}", compare_name(op), from.short_name(), dtype.short_name()),
        result: dtype,
        params: &[from, from, dtype, dtype],
    };
    let gnu = Some(format!("return {chosen};"));
    let function = define(unit, shape, gnu, |_, x| Ok(format!("{} {symbol} {} ? {} : {}", x[0], x[1], x[2], x[3])))?;
    Ok(format!("{function}({})", args.join(", ")))
}

/// A conversion of each lane.
pub(super) fn cast(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> Result<String> {
    let ty = unit.value_type(to)?;
    let simple = |dtype: DataType| !dtype.is_bool() && !super::types::is_half(dtype);
    let saturates = from.is_float() && to.is_integer();
    let gnu = (simple(from) && simple(to) && !saturates).then(|| format!("return __builtin_convertvector(a, {ty});"));
    let name = format!("kp_{}_from_{}", to.short_name(), from.short_name());
    let shape = Shape { name, result: to, params: &[from] };
    let function = define(unit, shape, gnu, |unit, x| scalar::cast(unit, from.element(), to.element(), &x[0]))?;
    Ok(format!("{function}({value})"))
}

/// Reinterprets the bits as lanes of another type.
pub(super) fn reinterpret(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> Result<String> {
    let name = format!("kp_{}_of_{}", to.short_name(), from.short_name());
    let plain = |dtype: DataType| !super::types::is_half(dtype) && !dtype.is_bool();
    if from.lanes() != to.lanes() {
        crate::error::require!(
            plain(from) && plain(to),
            Target,
            "C has no reinterpretation of {} as {}",
            from.short_name(),
            to.short_name()
        );
        let (source, target) = (unit.value_type(from)?, unit.value_type(to)?);
        let body = format!("union {{ {source} from; {target} to; }} both;\n  both.from = a;\n  return both.to;");
        unit.function(&name, &target, &[&source], &body);
        return Ok(format!("{name}({value})"));
    }
    let ty = unit.value_type(to)?;
    let gnu = (plain(from) && plain(to)).then(|| format!("return ({ty})a;"));
    let shape = Shape { name, result: to, params: &[from] };
    let function =
        define(unit, shape, gnu, |unit, x| Ok(scalar::reinterpret(unit, from.element(), to.element(), &x[0])))?;
    Ok(format!("{function}({value})"))
}

/// A scalar in every lane.
pub(super) fn broadcast(unit: &mut Unit, dtype: DataType, value: &str) -> Result<String> {
    let ty = unit.value_type(dtype)?;
    let element = if dtype.is_bool() { "a ? -1 : 0" } else { "a" };
    let all = vec![element; usize::from(dtype.lanes())].join(", ");
    let shape =
        Shape { name: format!("kp_broadcast_{}", dtype.short_name()), result: dtype, params: &[dtype.element()] };
    let function = define(unit, shape, Some(format!("return ({ty}){{{all}}};")), |_, x| Ok(x[0].clone()))?;
    Ok(format!("{function}({value})"))
}

/// The vector `base, base + stride, ..`.
pub(super) fn ramp(unit: &mut Unit, dtype: DataType, base: &str, stride: &str) -> Result<String> {
    let element = dtype.element();
    let shape = Shape { name: format!("kp_ramp_{}", dtype.short_name()), result: dtype, params: &[element, element] };
    let function = define(unit, shape, None, |unit, x| {
        let step = scalar::cast(unit, crate::ir::I32, element, "i")?;
        let offset = scalar::binary(unit, BinaryOp::Mul, element, &x[1], &step, false);
        Ok(scalar::binary(unit, BinaryOp::Add, element, &x[0], &offset, false))
    })?;
    Ok(format!("{function}({base}, {stride})"))
}

/// A pure builtin of each lane.
pub(super) fn builtin(
    unit: &mut Unit,
    name: &str,
    result: DataType,
    params: &[DataType],
    args: &[String],
) -> Result<String> {
    let shape = Shape { name: format!("kp_{name}_{}", params[0].short_name()), result, params };
    let function =
        define(unit, shape, None, |unit, x| scalar::builtin(unit, name, result.element(), params[0].element(), x))?;
    Ok(format!("{function}({})", args.join(", ")))
}

/// A lane of a vector as a scalar.
pub(super) fn extract(dtype: DataType, vector: &str, index: usize) -> String {
    let lane = at(dtype, vector, &index.to_string());
    if dtype.is_bool() { format!("({lane} != 0)") } else { lane }
}

/// The representation of a scalar in a lane.
pub(super) fn lane_value(dtype: DataType, value: &str) -> String {
    debug_assert!(!lane(dtype).is_empty());
    if dtype.is_bool() { format!("(({value}) ? -1 : 0)") } else { value.to_owned() }
}
