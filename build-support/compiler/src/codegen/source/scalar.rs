//! Operations on scalars. Signed overflow wraps: the operation uses unsigned numbers, except for
//! indices, which do not overflow.

use kernpack::DataType;

use super::half;
use super::unit::Unit;
use super::vocabulary::is_half;
use crate::error::{Result, fail};
use crate::ir::{BinaryOp, CompareOp, DataTypeExt, F32, U32, U64};

/// `a op b`. `index`: true for a part of an index, where signed numbers do not overflow.
pub(super) fn binary(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, b: &str, index: bool) -> Result<String> {
    if dtype.is_float() {
        return float_binary(unit, op, dtype, a, b);
    }
    let ty = unit.words.scalar(dtype);
    let symbol = match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitOr => "|",
        BinaryOp::BitXor => "^",
        _ => return Ok(helper(unit, op, dtype, a, b)),
    };
    let wraps = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul);
    let wide = unit.words.wide(dtype);
    Ok(match (dtype.bits(), dtype.is_int(), wraps) {
        _ if dtype.is_bool() => format!("(bool)({a} {symbol} {b})"),
        (32 | 64, true, true) if !index => format!("(({ty})(({wide})({a}) {symbol} ({wide})({b})))"),
        (8 | 16, _, true) => format!("(({ty})(({wide})({a}) {symbol} ({wide})({b})))"),
        (8 | 16, ..) => format!("(({ty})({a} {symbol} {b}))"),
        _ => format!("({a} {symbol} {b})"),
    })
}

/// A call of the helper function of an operation on integers, which evaluates its operands once.
///
/// A quotient and a remainder by 0 are 0, and the smallest number divided by -1 wraps; shifts by
/// the width or more give 0, or the sign.
fn helper(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, b: &str) -> String {
    let (ty, wide, bits) = (unit.words.scalar(dtype), unit.words.wide(dtype), dtype.bits());
    let count = unit.words.unsigned(64);
    let is_int = dtype.is_int();
    let wrapped = format!("if (b == 0 || b == -1) return ({ty})(({wide})a * ({wide})b);");
    let (name, body) = match op {
        BinaryOp::Min => ("min", "return a < b ? a : b;".to_owned()),
        BinaryOp::Max => ("max", "return a > b ? a : b;".to_owned()),
        BinaryOp::ShiftLeft => ("shl", format!("return ({count})b < {bits} ? ({ty})(({wide})a << b) : 0;")),
        BinaryOp::ShiftRight if is_int => {
            ("shr", format!("return ({ty})(a >> (({count})b < {bits} ? b : {}));", bits - 1))
        }
        BinaryOp::ShiftRight => ("shr", format!("return ({count})b < {bits} ? ({ty})(a >> b) : 0;")),
        BinaryOp::Div | BinaryOp::FloorDiv if !is_int => ("div", format!("return b == 0 ? 0 : ({ty})(a / b);")),
        BinaryOp::Mod | BinaryOp::FloorMod if !is_int => ("mod", format!("return b == 0 ? 0 : ({ty})(a % b);")),
        BinaryOp::Div => ("div", format!("{wrapped}\n  return ({ty})(a / b);")),
        BinaryOp::Mod => ("mod", format!("if (b == 0 || b == -1) return 0;\n  return ({ty})(a % b);")),
        BinaryOp::FloorDiv => {
            ("floordiv", format!("{wrapped}\n  return ({ty})(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));"))
        }
        _ => (
            "floormod",
            format!(
                "if (b == 0 || b == -1) return 0;\n  {ty} r = ({ty})(a % b);\n  \
                 return ({ty})(r != 0 && (r < 0) != (b < 0) ? r + b : r);"
            ),
        ),
    };
    let name = format!("kp_{name}_{}", dtype.short_name());
    unit.function(&name, ty, &[ty, ty], &body);
    format!("{name}({a}, {b})")
}

fn float_binary(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, b: &str) -> Result<String> {
    let ty = unit.words.scalar(dtype);
    let text = match op {
        BinaryOp::Min | BinaryOp::Max => {
            let (name, symbol) = if op == BinaryOp::Min { ("min", "<") } else { ("max", ">") };
            let name = format!("kp_{name}_{}", dtype.short_name());
            unit.function(&name, ty, &[ty, ty], &format!("return a {symbol} b ? a : b;"));
            return Ok(format!("{name}({a}, {b})"));
        }
        BinaryOp::Add => format!("({a} + {b})"),
        BinaryOp::Sub => format!("({a} - {b})"),
        BinaryOp::Mul => format!("({a} * {b})"),
        BinaryOp::Div => format!("({a} / {b})"),
        BinaryOp::Mod => format!("{}({a}, {b})", unit.words.math("fmod", dtype)),
        _ => fail!(Type, "{op:?} of {}", dtype.short_name()),
    };
    half::rounded(unit, dtype, text)
}

/// The operator of a comparison.
pub(super) fn compare_symbol(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
    }
}

/// A conversion of a scalar.
pub(super) fn cast(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> Result<String> {
    unit.check(to)?;
    let ty = unit.words.scalar(to);
    match () {
        () if from == to => Ok(value.to_owned()),
        () if to.is_bool() => Ok(format!("({value} != 0)")),
        () if from.is_float() && to.is_integer() => saturated(unit, from, to, value),
        () if is_half(to) => half::cast(unit, from, to, value),
        () => Ok(format!("(({ty}){value})")),
    }
}

/// Float to integer: values that are too large become the largest number, NaN becomes 0.
fn saturated(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> Result<String> {
    let words = unit.words;
    let (source, target) = (words.scalar(from), words.scalar(to));
    let bits = i32::from(to.bits()) - i32::from(to.is_int());
    let limit = super::literal::float(if from.bits() == 64 { from } else { F32 }, 2f64.powi(bits));
    let (smallest, largest) = if to.is_int() {
        (i64::MIN >> (64 - to.bits()), i64::MAX >> (64 - to.bits()))
    } else {
        (0, (u64::MAX >> (64 - to.bits())) as i64)
    };
    let [smallest, largest] = [smallest, largest].map(|value| super::literal::integer(words, to, value));
    let below = if to.is_int() { format!("a < -{limit}") } else { "a < 0".to_owned() };
    let body = format!(
        "return a >= {limit} ? ({target}){largest} : {below} ? ({target}){smallest} : a == a ? ({target})a : 0;"
    );
    let name = format!("kp_{}_from_{}", to.short_name(), from.short_name());
    unit.function(&name, target, &[source], &body);
    Ok(format!("{name}({value})"))
}

/// Reinterprets the bits as another type of the same width.
pub(super) fn reinterpret(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> Result<String> {
    if from == to {
        return Ok(value.to_owned());
    }
    if is_half(from) || is_half(to) {
        return half::reinterpret(unit, from, to, value);
    }
    let (source, target) = (unit.value_type(from)?, unit.value_type(to)?);
    if unit.words.has_vectors {
        return Ok(format!("as_{target}({value})"));
    }
    let name = format!("kp_{}_of_{}", to.short_name(), from.short_name());
    let body = format!("union {{ {source} from; {target} to; }} both;\n  both.from = a;\n  return both.to;");
    unit.function(&name, &target, &[&source], &body);
    Ok(format!("{name}({value})"))
}

/// A floating point constant.
pub(super) fn constant(unit: &mut Unit, dtype: DataType, value: f64) -> Result<String> {
    unit.check(dtype)?;
    if value.is_finite() {
        return Ok(super::literal::float(dtype, value));
    }
    let (bits, ty, to) = if dtype.bits() == 64 {
        (value.to_bits() as i64, U64, dtype)
    } else {
        (i64::from((value as f32).to_bits()), U32, F32)
    };
    let bits = super::literal::integer(unit.words, ty, bits);
    reinterpret(unit, ty, to, &bits)
}

/// A pure builtin or math function of scalars.
pub(super) fn builtin(unit: &mut Unit, name: &str, from: DataType, args: &[String]) -> Result<String> {
    let texts = args.join(", ");
    let Some(first) = args.first() else { fail!(Type, "builtin `{name}` has no argument") };
    let ty = unit.words.scalar(from);
    let words = unit.words;
    let own = |unit: &mut Unit, ret: &str, body: &str| {
        let function = format!("kp_{name}_{}", from.short_name());
        unit.function(&function, ret, &vec![ty; args.len()], body);
        format!("{function}({texts})")
    };
    let one = if from.bits() == 64 { "1.0" } else { "1.0f" };
    let text = match name {
        "abs" if from.is_int() => own(unit, ty, &format!("return a < 0 ? ({ty})(0U - ({})a) : a;", words.wide(from))),
        "abs" if from.is_uint() => return Ok(first.clone()),
        "isnan" => return Ok(own(unit, "bool", "return a != a;")),
        "isinf" => return Ok(own(unit, "bool", "return a == a && a - a != 0;")),
        "isfinite" => return Ok(own(unit, "bool", "return a - a == 0;")),
        "bitnot" if from.is_bool() => return Ok(format!("(!{first})")),
        "bitnot" => return Ok(format!("(({ty})~{first})")),
        "popcount" | "clz" | "ctz" => return Ok(counted(unit, name, from, first)),
        // NaN if either operand is NaN; -0 is less than +0.
        "nanmin" => own(unit, ty, "return a != a || b != b ? a + b : a < b ? a : b < a ? b : (1 / a < 0 ? a : b);"),
        "nanmax" => own(unit, ty, "return a != a || b != b ? a + b : a > b ? a : b > a ? b : (1 / a < 0 ? b : a);"),
        "sigmoid" => own(unit, ty, &format!("return {one} / ({one} + {}(-a));", words.math("exp", from))),
        "rsqrt" => own(unit, ty, &format!("return {one} / {}(a);", words.math("sqrt", from))),
        "abs" => format!("{}({texts})", words.math("fabs", from)),
        "round" => format!("{}({texts})", words.math("rint", from)),
        "fma" if is_half(from) => fail!(
            Target,
            "{} has no `fma` of {}: compute the product and the sum in f32",
            words.name,
            from.short_name()
        ),
        _ if crate::ir::builtin::math_arity(name) == Some(args.len()) && from.is_float() => {
            format!("{}({texts})", words.math(name, from))
        }
        _ => fail!(Target, "{} has no builtin `{name}` of {}", words.name, from.short_name()),
    };
    half::rounded(unit, from, text)
}

/// Counts of bits.
fn counted(unit: &mut Unit, name: &str, from: DataType, value: &str) -> String {
    let (ty, bits) = (unit.words.scalar(from), from.bits());
    let unsigned = unit.words.unsigned(bits);
    let body = match name {
        "popcount" => {
            format!("int n = 0;\n  for (int i = 0; i < {bits}; ++i) n += ({unsigned})a >> i & 1;\n  return ({ty})n;")
        }
        "clz" => format!(
            "int n = 0;\n  for (int i = {}; i >= 0 && (({unsigned})a >> i & 1) == 0; --i) ++n;\n  return ({ty})n;",
            bits - 1
        ),
        _ => format!("int n = 0;\n  while (n < {bits} && (({unsigned})a >> n & 1) == 0) ++n;\n  return ({ty})n;"),
    };
    let name = format!("kp_{name}_{}", from.short_name());
    unit.function(&name, ty, &[ty], &body);
    format!("{name}({value})")
}
