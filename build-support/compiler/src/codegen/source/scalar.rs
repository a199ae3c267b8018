//! Operations on scalars. Signed overflow wraps: the operation uses unsigned numbers, except for
//! indices, which do not overflow.

use kernpack::DataType;

use super::half;
use super::literal::{float, integer};
use super::unit::Unit;
use super::vocabulary::is_half;
use crate::error::{Result, fail};
use crate::ir::{BinaryOp, CompareOp, DataTypeExt, F32, F64, I64, U32, U64};

/// `a op b`. `index`: true for a part of an index, where signed numbers do not overflow.
pub(crate) fn binary(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, b: &str, index: bool) -> Result<String> {
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
    // A truth value that is an operand of C is an integer anyway.
    let truth = if unit.words.is_host { "" } else { "(bool)" };
    let wraps = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul);
    let wide = unit.words.wide(dtype);
    Ok(match (dtype.bits(), dtype.is_int(), wraps) {
        _ if dtype.is_bool() => format!("{truth}({a} {symbol} {b})"),
        (32 | 64, true, true) if !index => format!("(({ty})(({wide})({a}) {symbol} ({wide})({b})))"),
        (8 | 16, _, true) => format!("(({ty})(({wide})({a}) {symbol} ({wide})({b})))"),
        (8 | 16, ..) => format!("(({ty})({a} {symbol} {b}))"),
        _ => format!("({a} {symbol} {b})"),
    })
}

/// A call of the helper function of an operation, which evaluates its operands once.
///
/// A quotient and a remainder by 0 are 0, and the smallest number divided by -1 wraps; shifts by
/// the width or more give 0, or the sign.
fn helper(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, b: &str) -> String {
    let (ty, wide, bits) = (unit.words.scalar(dtype), unit.words.wide(dtype), dtype.bits());
    let count = unit.words.unsigned(64);
    let is_uint = dtype.is_uint();
    let (name, body) = match op {
        BinaryOp::Min => ("min", "return a < b ? a : b;".to_owned()),
        BinaryOp::Max => ("max", "return a > b ? a : b;".to_owned()),
        BinaryOp::ShiftLeft => ("shl", format!("return ({count})b < {bits} ? ({ty})(({wide})a << b) : 0;")),
        BinaryOp::ShiftRight if is_uint => ("shr", format!("return ({count})b < {bits} ? ({ty})(a >> b) : 0;")),
        // The shift of a negative number is implementation-defined in the standard of C; all
        // compilers shift arithmetically.
        BinaryOp::ShiftRight => ("shr", format!("return ({ty})(a >> (({count})b < {bits} ? b : {}));", bits - 1)),
        BinaryOp::Div | BinaryOp::FloorDiv if is_uint => {
            ("div", format!("return ({ty})(b == 0 ? 0 : a / (b + (b == 0)));"))
        }
        BinaryOp::Mod | BinaryOp::FloorMod if is_uint => ("mod", format!("return ({ty})(a % (b + (b == 0)));")),
        BinaryOp::Div => (
            "div",
            format!(
                "{ty} d = (b == 0) | (b == -1) ? 1 : b;\n  return d == b ? ({ty})(a / d) : ({ty})(({wide})a * ({wide})b);"
            ),
        ),
        BinaryOp::Mod => ("mod", format!("return ({ty})(a % ((b == 0) | (b == -1) ? 1 : b));")),
        BinaryOp::FloorDiv => (
            "floordiv",
            format!(
                "if ((b == 0) | (b == -1)) return ({ty})(({wide})a * ({wide})b);\n  {ty} q = ({ty})(a / b);\n  \
                 return ({ty})(q - ((a % b != 0) & ((a < 0) != (b < 0))));"
            ),
        ),
        _ => (
            "floormod",
            format!(
                "if ((b == 0) | (b == -1)) return 0;\n  {ty} r = ({ty})(a % b);\n  \
                 return ({ty})((r != 0) & ((r < 0) != (b < 0)) ? r + b : r);"
            ),
        ),
    };
    let name = format!("kp_{name}_{}", dtype.short_name());
    unit.function(&name, ty, &[ty, ty], &body);
    format!("{name}({a}, {b})")
}

fn float_binary(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, b: &str) -> Result<String> {
    let text = match op {
        BinaryOp::Min | BinaryOp::Max => return Ok(helper(unit, op, dtype, a, b)),
        BinaryOp::Add => format!("({a} + {b})"),
        BinaryOp::Sub => format!("({a} - {b})"),
        BinaryOp::Mul => format!("({a} * {b})"),
        BinaryOp::Div => format!("({a} / {b})"),
        BinaryOp::Mod => unit.math("fmod", dtype, &[a, b]),
        _ => fail!(Type, "{op:?} of {}", dtype.short_name()),
    };
    half::rounded(unit, dtype, text)
}

/// The operator of a comparison.
pub(crate) fn compare_symbol(op: CompareOp) -> &'static str {
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
pub(crate) fn cast(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> Result<String> {
    unit.check(to)?;
    let ty = unit.words.scalar(to);
    match () {
        () if from == to => Ok(value.to_owned()),
        () if to.is_bool() => Ok(format!("({value} != 0)")),
        () if to.is_handle() && from.is_integer() => Ok(format!("((void*)(intptr_t){value})")),
        () if from.is_handle() && to.is_integer() && unit.words.is_host => Ok(format!("(({ty})(intptr_t){value})")),
        () if from.is_handle() || to.is_handle() => {
            fail!(Target, "{} has no conversion from {} to {}", unit.words.name, from.short_name(), to.short_name())
        }
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
    let limit = float(if from.bits() == 64 { F64 } else { F32 }, 2f64.powi(bits));
    let (smallest, largest) = if to.is_int() {
        (integer(words, I64, i64::MIN >> (64 - to.bits())), integer(words, I64, i64::MAX >> (64 - to.bits())))
    } else {
        ("0".to_owned(), integer(words, U64, (u64::MAX >> (64 - to.bits())) as i64))
    };
    let below = if to.is_int() { format!("a < -{limit}") } else { "a < 0".to_owned() };
    let body = format!(
        "return a >= {limit} ? ({target}){largest} : {below} ? ({target}){smallest} : a == a ? ({target})a : 0;"
    );
    let name = format!("kp_{}_from_{}", to.short_name(), from.short_name());
    unit.function(&name, target, &[source], &body);
    Ok(format!("{name}({value})"))
}

/// Reinterprets the bits as another type of the same width.
pub(crate) fn reinterpret(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> Result<String> {
    if from == to {
        return Ok(value.to_owned());
    }
    if is_half(from) || is_half(to) {
        return half::reinterpret(unit, from, to, value);
    }
    let (source, target) = (unit.value_type(from)?, unit.value_type(to)?);
    if unit.words.has_vectors() {
        return Ok(format!("as_{target}({value})"));
    }
    if from.is_integer() && to.is_integer() {
        return Ok(format!("(({target}){value})"));
    }
    let name = format!("kp_{}_of_{}", to.short_name(), from.short_name());
    let body = format!("union {{ {source} from; {target} to; }} both;\n  both.from = a;\n  return both.to;");
    unit.function(&name, &target, &[&source], &body);
    Ok(format!("{name}({value})"))
}

/// A floating point constant.
pub(crate) fn constant(unit: &mut Unit, dtype: DataType, value: f64) -> Result<String> {
    unit.check(dtype)?;
    if value.is_finite() {
        return Ok(float(dtype, value));
    }
    let (bits, ty, to) = if dtype.bits() == 64 {
        (value.to_bits() as i64, U64, dtype)
    } else {
        (i64::from((value as f32).to_bits()), U32, F32)
    };
    let bits = integer(unit.words, ty, bits);
    reinterpret(unit, ty, to, &bits)
}

/// A pure builtin or math function of scalars.
pub(crate) fn builtin(unit: &mut Unit, name: &str, from: DataType, args: &[String]) -> Result<String> {
    let texts: Vec<&str> = args.iter().map(String::as_str).collect();
    let Some(first) = texts.first() else { fail!(Type, "builtin `{name}` has no argument") };
    let (words, bits) = (unit.words, from.bits());
    let (ty, unsigned, wide) = (words.scalar(from), words.unsigned(bits), words.unsigned(64));
    let own = |unit: &mut Unit, ret: &str, body: &str| {
        let function = format!("kp_{name}_{}", from.short_name());
        unit.function(&function, ret, &vec![ty; texts.len()], body);
        format!("{function}({})", texts.join(", "))
    };
    let one = if bits == 64 { "1.0" } else { "1.0f" };
    let text = match name {
        "abs" if from.is_int() => own(unit, ty, &format!("return a < 0 ? ({ty})(0U - ({})a) : a;", words.wide(from))),
        "abs" if from.is_uint() => return Ok((*first).to_owned()),
        "isnan" => return Ok(format!("({first} != {first})")),
        "isinf" => return Ok(own(unit, words.truth, "return a == a && a - a != 0;")),
        "isfinite" => return Ok(own(unit, words.truth, "return a - a == 0;")),
        "bitnot" if from.is_bool() => return Ok(format!("(!{first})")),
        "bitnot" => return Ok(format!("(({ty})~{first})")),
        "popcount" => {
            let mask =
                if bits == 64 { String::new() } else { format!(" & {}", integer(words, U64, (1i64 << bits) - 1)) };
            let counting =
                format!("{wide} n = ({wide})a{mask};\n  int count = 0;\n  for (; n != 0; n &= n - 1) ++count;");
            return Ok(own(unit, ty, &format!("{counting}\n  return ({ty})count;")));
        }
        "clz" => {
            let bit = bits - 1;
            let counting =
                format!("for (int bit = {bit}; bit >= 0 && (({unsigned})a >> bit & 1) == 0; --bit) ++count;");
            return Ok(own(unit, ty, &format!("int count = 0;\n  {counting}\n  return ({ty})count;")));
        }
        "ctz" => {
            let counting = format!("while (count < {bits} && (({unsigned})a >> count & 1) == 0) ++count;");
            return Ok(own(unit, ty, &format!("int count = 0;\n  {counting}\n  return ({ty})count;")));
        }
        // NaN if either operand is NaN; -0 is less than +0.
        "nanmin" => {
            let body = "return a != a || b != b ? a + b : a < b ? a : b < a ? b : (1 / a < 0 ? a : b);";
            return Ok(own(unit, ty, body));
        }
        "nanmax" => {
            let body = "return a != a || b != b ? a + b : a > b ? a : b > a ? b : (1 / a < 0 ? b : a);";
            return Ok(own(unit, ty, body));
        }
        "sigmoid" => {
            let power = unit.math("exp", from, &["-a"]);
            own(unit, ty, &format!("return {one} / ({one} + {power});"))
        }
        "rsqrt" => {
            let root = unit.math("sqrt", from, &[first]);
            format!("({one} / {root})")
        }
        "abs" => unit.math("fabs", from, &texts),
        "round" => unit.math("rint", from, &texts),
        "fma" if is_half(from) && words.is_host => {
            let sum = half::odd_fma(unit, &texts)?;
            return cast(unit, F64, from, &sum);
        }
        "fma" if is_half(from) => fail!(
            Target,
            "{} has no `fma` of {}: compute the product and the sum in f32",
            words.name,
            from.short_name()
        ),
        _ if crate::ir::builtin::math_arity(name) == Some(args.len()) && from.is_float() => {
            unit.math(name, from, &texts)
        }
        _ => fail!(Target, "{} has no builtin `{name}` of {}", words.name, from.short_name()),
    };
    half::rounded(unit, from, text)
}
