//! Operations on scalars. Signed overflow wraps: the operation uses unsigned numbers, except for
//! indices, which do not overflow.

use kernpack::DataType;

use super::types::{is_half, scalar};
use super::unit::Unit;
use crate::error::{Result, fail};
use crate::ir::{BinaryOp, CompareOp, DataTypeExt, F32, F64, I64, U16, U32, U64};

/// `a op b`. Operands are evaluated once. `index`: true for a part of an index, where signed
/// numbers do not overflow.
pub(super) fn binary(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, b: &str, index: bool) -> String {
    if dtype.is_float() {
        return float_binary(unit, op, dtype, a, b);
    }
    let ty = scalar(dtype);
    let name = dtype.short_name();
    let symbol = match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitOr => "|",
        BinaryOp::BitXor => "^",
        BinaryOp::Min | BinaryOp::Max => return min_max(unit, op, dtype, a, b),
        BinaryOp::Div | BinaryOp::Mod if dtype.is_uint() => {
            let (name, body) = if op == BinaryOp::Div {
                (format!("kp_div_{name}"), format!("return ({ty})(b == 0 ? 0 : a / (b + (b == 0)));"))
            } else {
                (format!("kp_mod_{name}"), format!("return ({ty})(a % (b + (b == 0)));"))
            };
            return helper(unit, &name, &ty, &[&ty, &ty], &body, a, b);
        }
        BinaryOp::FloorDiv if dtype.is_uint() => return binary(unit, BinaryOp::Div, dtype, a, b, index),
        BinaryOp::FloorMod if dtype.is_uint() => return binary(unit, BinaryOp::Mod, dtype, a, b, index),
        // A quotient and a remainder by 0 are 0; the smallest number divided by -1 wraps.
        BinaryOp::Div => {
            let body = format!(
                "{ty} d = (b == 0) | (b == -1) ? 1 : b;\n  return d == b ? ({ty})(a / d) : ({ty})(({wide})a * ({wide})b);",
                wide = wide(dtype)
            );
            return helper(unit, &format!("kp_div_{name}"), &ty, &[&ty, &ty], &body, a, b);
        }
        BinaryOp::Mod => {
            let body = format!("return ({ty})(a % ((b == 0) | (b == -1) ? 1 : b));");
            return helper(unit, &format!("kp_mod_{name}"), &ty, &[&ty, &ty], &body, a, b);
        }
        BinaryOp::FloorDiv => {
            let body = format!(
                "if ((b == 0) | (b == -1)) return ({ty})(({wide})a * ({wide})b);\n  {ty} q = ({ty})(a / b);\n  return ({ty})(q - ((a % b != 0) & ((a < 0) != (b < 0))));",
                wide = wide(dtype)
            );
            return helper(unit, &format!("kp_floordiv_{name}"), &ty, &[&ty, &ty], &body, a, b);
        }
        BinaryOp::FloorMod => {
            let body = format!(
                "if ((b == 0) | (b == -1)) return 0;\n  {ty} r = ({ty})(a % b);\n  return ({ty})((r != 0) & ((r < 0) != (b < 0)) ? r + b : r);"
            );
            return helper(unit, &format!("kp_floormod_{name}"), &ty, &[&ty, &ty], &body, a, b);
        }
        BinaryOp::ShiftLeft => {
            let body =
                format!("return (uint64_t)b < {bits} ? ({ty})(({})a << b) : 0;", wide(dtype), bits = dtype.bits());
            return helper(unit, &format!("kp_shl_{name}"), &ty, &[&ty, &ty], &body, a, b);
        }
        BinaryOp::ShiftRight => {
            let bits = dtype.bits();
            let body = if dtype.is_uint() {
                format!("return (uint64_t)b < {bits} ? ({ty})(a >> b) : 0;")
            } else {
                // The shift of a negative number is implementation-defined in the standard; all
                // compilers shift arithmetically.
                format!("return ({ty})(a >> ((uint64_t)b < {bits} ? b : {}));", bits - 1)
            };
            return helper(unit, &format!("kp_shr_{name}"), &ty, &[&ty, &ty], &body, a, b);
        }
    };
    let wraps = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul);
    match (dtype.bits(), dtype.is_int(), wraps) {
        _ if dtype.is_bool() => format!("({a} {symbol} {b})"),
        (32 | 64, true, true) if !index => {
            format!("(({ty})(({wide})({a}) {symbol} ({wide})({b})))", wide = wide(dtype))
        }
        (8 | 16, _, true) => format!("(({ty})((uint32_t)({a}) {symbol} (uint32_t)({b})))"),
        (8 | 16, ..) => format!("(({ty})({a} {symbol} {b}))"),
        _ => format!("({a} {symbol} {b})"),
    }
}

/// The unsigned type for wrapping arithmetic.
fn wide(dtype: DataType) -> &'static str {
    if dtype.bits() == 64 { "uint64_t" } else { "uint32_t" }
}

fn min_max(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, b: &str) -> String {
    let ty = scalar(dtype);
    let (name, symbol) = if op == BinaryOp::Min { ("min", "<") } else { ("max", ">") };
    let body = format!("return a {symbol} b ? a : b;");
    helper(unit, &format!("kp_{name}_{}", dtype.short_name()), &ty, &[&ty, &ty], &body, a, b)
}

fn float_binary(unit: &mut Unit, op: BinaryOp, dtype: DataType, a: &str, b: &str) -> String {
    let text = match op {
        BinaryOp::Min | BinaryOp::Max => return min_max(unit, op, dtype, a, b),
        BinaryOp::Add => format!("({a} + {b})"),
        BinaryOp::Sub => format!("({a} - {b})"),
        BinaryOp::Mul => format!("({a} * {b})"),
        BinaryOp::Div => format!("({a} / {b})"),
        _ => libm(unit, "fmod", dtype, &[a, b]),
    };
    rounded(unit, dtype, text)
}

/// Rounds single precision to half precision; values of other types are unchanged.
pub(super) fn rounded(unit: &mut Unit, dtype: DataType, text: String) -> String {
    if !is_half(dtype) {
        return text;
    }
    let name = dtype.short_name();
    let (to, from) = (to_bits(unit, dtype, "a"), from_bits(unit, dtype, &format!("{}_bits", "a")));
    let body = format!("uint16_t a_bits = {to};\n  return {from};");
    unit.function(&format!("kp_round_{name}"), "float", &["float"], &body);
    format!("kp_round_{name}({text})")
}

/// A call of a libm function in the precision of the type. The function is declared here, because
/// only `kernel.h` is included.
pub(super) fn libm(unit: &mut Unit, name: &str, dtype: DataType, args: &[&str]) -> String {
    let (ty, suffix) = if dtype.bits() == 64 { ("double", "") } else { ("float", "f") };
    let symbol = format!("{name}{suffix}");
    unit.prototype(&symbol, ty, &vec![ty.to_owned(); args.len()]);
    format!("{symbol}({})", args.join(", "))
}

fn helper(unit: &mut Unit, name: &str, ret: &str, params: &[&str], body: &str, a: &str, b: &str) -> String {
    unit.function(name, ret, params, body);
    format!("{name}({a}, {b})")
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
    let ty = scalar(to);
    Ok(match () {
        () if from == to => value.to_owned(),
        () if to.is_bool() => format!("({value} != 0)"),
        () if to.is_handle() && from.is_integer() => format!("((void*)(intptr_t){value})"),
        () if from.is_handle() && to.is_integer() => format!("(({ty})(intptr_t){value})"),
        () if from.is_handle() || to.is_handle() => {
            fail!(Target, "C has no conversion from {} to {}", from.short_name(), to.short_name())
        }
        () if from.is_float() && to.is_integer() => saturate(unit, from, to, value),
        () if is_half(to) => {
            // Rounded to odd first, so that a value between two single precision numbers is not
            // rounded twice.
            let exact = from == F32 || is_half(from) || from.bits() <= 16;
            let single = match () {
                () if exact => format!("(float){value}"),
                () if from.is_integer() && from.bits() == 64 => {
                    let double = odd_double(unit, from, value);
                    to_odd(unit, &double)
                }
                () => to_odd(unit, value),
            };
            rounded(unit, to, single)
        }
        () => format!("(({ty}){value})"),
    })
}

/// Converts a double to single precision, rounded to odd: the last digit is odd if the value is not
/// exact.
fn to_odd(unit: &mut Unit, value: &str) -> String {
    let bits = reinterpret(unit, F32, U32, "f");
    let back = reinterpret(unit, U32, F32, "n");
    let body = format!(
        "float f = (float)a;\n  if ((double)f == a || f != f || f - f != 0) return f;\n  uint32_t n = {bits};\n  \
         if (n & 1) return f;\n  n = ((double)f < a) == (a > 0) ? n + 1 : n - 1;\n  return {back};"
    );
    unit.function("kp_odd_f32", "float", &["double"], &body);
    format!("kp_odd_f32((double){value})")
}

/// Converts a 64-bit integer to a double, rounded to odd: the last digit is odd if the value is not
/// exact.
fn odd_double(unit: &mut Unit, from: DataType, value: &str) -> String {
    let (ty, name) = (scalar(from), format!("kp_odd_{}", from.short_name()));
    let exact = if from.is_int() { "n + 0x20000000000000ULL < 0x40000000000000ULL" } else { "n < 0x20000000000000ULL" };
    let body = format!(
        "uint64_t n = (uint64_t)a;\n  if ({exact}) return (double)a;\n  \
         return (double)({ty})((n | ((n & 0x7ff) + 0x7ff)) & ~0x7ffULL);"
    );
    unit.function(&name, "double", &[&ty], &body);
    format!("{name}({value})")
}

/// `a * b + c` of half precision or bfloat16 as a double: the product is exact, the sum is rounded
/// to odd.
fn odd_fma(unit: &mut Unit, values: &[&str]) -> String {
    let bits = reinterpret(unit, F64, U64, "sum");
    let back = reinterpret(unit, U64, F64, "n");
    let body = format!(
        "double product = a * b, sum = product + c, back = sum - product;\n  \
         double error = (product - (sum - back)) + (c - back);\n  if (!(error < 0 || error > 0)) return sum;\n  \
         uint64_t n = {bits};\n  n = (n - ((error > 0) != (sum > 0))) | 1;\n  return {back};"
    );
    unit.function("kp_odd_fma", "double", &["double"; 3], &body);
    format!("kp_odd_fma({})", values.join(", "))
}

/// Float to integer: values that are too large become the largest number, NaN becomes 0.
fn saturate(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> String {
    let (source, target) = (scalar(from), scalar(to));
    let single = from.bits() != 64;
    let bits = i32::from(to.bits()) - i32::from(to.is_int());
    let limit = super::literal::float(if single { F32 } else { F64 }, 2f64.powi(bits));
    let (smallest, largest) = if to.is_int() {
        (
            super::literal::integer(I64, i64::MIN >> (64 - to.bits())),
            super::literal::integer(I64, i64::MAX >> (64 - to.bits())),
        )
    } else {
        ("0".to_owned(), super::literal::integer(U64, (u64::MAX >> (64 - to.bits())) as i64))
    };
    let below = if to.is_int() { format!("a < -{limit}") } else { "a < 0".to_owned() };
    let body = format!(
        "return a >= {limit} ? ({target}){largest} : {below} ? ({target}){smallest} : a == a ? ({target})a : 0;"
    );
    let name = format!("kp_{}_from_{}", to.short_name(), from.short_name());
    unit.function(&name, &target, &[&source], &body);
    format!("{name}({value})")
}

/// Reinterprets the bits as another type of the same width.
pub(super) fn reinterpret(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> String {
    if from == to {
        return value.to_owned();
    }
    if is_half(from) {
        let bits = to_bits(unit, from, value);
        return reinterpret(unit, U16, to, &bits);
    }
    if is_half(to) {
        let bits = reinterpret(unit, from, U16, value);
        return from_bits(unit, to, &bits);
    }
    if from.is_integer() && to.is_integer() {
        return format!("(({}){value})", scalar(to));
    }
    let name = format!("kp_{}_of_{}", to.short_name(), from.short_name());
    let (source, target) = (scalar(from), scalar(to));
    let body = format!("union {{ {source} from; {target} to; }} both;\n  both.from = a;\n  return both.to;");
    unit.function(&name, &target, &[&source], &body);
    format!("{name}({value})")
}

/// Rounds single precision to half precision and returns the bits.
pub(super) fn to_bits(unit: &mut Unit, dtype: DataType, value: &str) -> String {
    let bits = reinterpret(unit, F32, U32, "a");
    let name = format!("kp_bits_{}", dtype.short_name());
    let body = if dtype.is_bfloat() {
        format!(
            "uint32_t n = {bits};\n  if (a != a) return (uint16_t)(n >> 16 | 0x40);\n  return (uint16_t)((n + 0x7fff + (n >> 16 & 1)) >> 16);"
        )
    } else {
        // Denormals are rounded by an addition that moves their last digit to the end of a float.
        let (scale, denormal) = (reinterpret(unit, U32, F32, "0x3f000000U"), reinterpret(unit, F32, U32, "tiny"));
        let magnitude = reinterpret(unit, U32, F32, "n");
        format!(
            "uint32_t n = {bits}, sign = n >> 16 & 0x8000;\n  n &= 0x7fffffff;\n  if (n > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (n >> 13 & 0x3ff));\n  \
             if (n >= 0x477ff000) return (uint16_t)(sign | 0x7c00);\n  \
             if (n < 0x38800000) {{\n    float tiny = {magnitude} + {scale};\n    return (uint16_t)(sign | ({denormal} - 0x3f000000U));\n  }}\n  \
             return (uint16_t)(sign | ((n - 0x38000000 + 0xfff + (n >> 13 & 1)) >> 13));"
        )
    };
    unit.function(&name, "uint16_t", &["float"], &body);
    format!("{name}({value})")
}

/// Converts the bits of half precision to a value.
pub(super) fn from_bits(unit: &mut Unit, dtype: DataType, bits: &str) -> String {
    let value = reinterpret(unit, U32, F32, "n");
    let name = format!("kp_{}_of_bits", dtype.short_name());
    let body = if dtype.is_bfloat() {
        format!("uint32_t n = (uint32_t)a << 16;\n  return {value};")
    } else {
        format!(
            "uint32_t sign = (uint32_t)(a & 0x8000) << 16, n = (uint32_t)(a & 0x7fff) << 13;\n  \
             if (n < 0x800000) {{\n    float tiny = (float)(a & 0x3ff) * 0x1p-24f;\n    return sign != 0 ? -tiny : tiny;\n  }}\n  \
             n = sign | (n + (n >= 0xf800000 ? 0x70000000 : 0x38000000));\n  return {value};"
        )
    };
    unit.function(&name, "float", &["uint16_t"], &body);
    format!("{name}({bits})")
}

/// Converts an element read from memory to a value.
pub(super) fn from_memory(unit: &mut Unit, dtype: DataType, element: String) -> String {
    match () {
        () if is_half(dtype) => from_bits(unit, dtype, &element),
        () if dtype.is_bool() => format!("({element} != 0)"),
        () => element,
    }
}

/// Converts a value to the representation in memory.
pub(super) fn to_memory(unit: &mut Unit, dtype: DataType, value: String) -> String {
    if is_half(dtype) { to_bits(unit, dtype, &value) } else { value }
}

/// A pure builtin or math function of scalars.
pub(super) fn builtin(unit: &mut Unit, name: &str, dtype: DataType, from: DataType, args: &[String]) -> Result<String> {
    let (ty, bits) = (scalar(from), u32::from(from.bits()));
    let texts: Vec<&str> = args.iter().map(String::as_str).collect();
    let own = |unit: &mut Unit, ret: &str, body: &str| {
        let function = format!("kp_{name}_{}", from.short_name());
        unit.function(&function, ret, &vec![ty.as_str(); texts.len()], body);
        format!("{function}({})", texts.join(", "))
    };
    let call = |unit: &mut Unit, symbol: &str| {
        let text = libm(unit, symbol, from, &texts);
        rounded(unit, from, text)
    };
    let one = if from.bits() == 64 { "1.0" } else { "1.0f" };
    Ok(match name {
        "abs" if from.is_int() => own(unit, &ty, &format!("return a < 0 ? ({ty})(0U - ({})a) : a;", wide(from))),
        "abs" if from.is_uint() => texts[0].to_owned(),
        "abs" => call(unit, "fabs"),
        "sigmoid" => {
            let power = libm(unit, "exp", from, &["-a"]);
            let text = own(unit, &ty, &format!("return {one} / ({one} + {power});"));
            rounded(unit, from, text)
        }
        "rsqrt" => {
            let root = libm(unit, "sqrt", from, &[texts[0]]);
            rounded(unit, from, format!("({one} / {root})"))
        }
        "round" => call(unit, "rint"),
        // NaN if either operand is NaN; -0 is less than +0.
        "nanmin" => own(unit, &ty, "return a != a || b != b ? a + b : a < b ? a : b < a ? b : (1 / a < 0 ? a : b);"),
        "nanmax" => own(unit, &ty, "return a != a || b != b ? a + b : a > b ? a : b > a ? b : (1 / a < 0 ? b : a);"),
        "isnan" => format!("({0} != {0})", texts[0]),
        "isinf" => own(unit, "_Bool", "return a == a && a - a != 0;"),
        "isfinite" => own(unit, "_Bool", "return a - a == 0;"),
        "bitnot" if from.is_bool() => format!("(!{})", texts[0]),
        "bitnot" => format!("(({ty})~{})", texts[0]),
        "popcount" => {
            let body = format!(
                "uint64_t n = (uint64_t)a{};\n  int count = 0;\n  for (; n != 0; n &= n - 1) ++count;\n  return ({ty})count;",
                if bits == 64 { String::new() } else { format!(" & {}ULL", (1u64 << bits) - 1) }
            );
            own(unit, &ty, &body)
        }
        "clz" => {
            let unsigned = scalar(DataType::scalar(U64.code(), from.bits()));
            let body = format!(
                "int count = 0;\n  for (int bit = {}; bit >= 0 && (({unsigned})a >> bit & 1) == 0; --bit) ++count;\n  return ({ty})count;",
                bits - 1
            );
            own(unit, &ty, &body)
        }
        "ctz" => {
            let unsigned = scalar(DataType::scalar(U64.code(), from.bits()));
            let body = format!(
                "int count = 0;\n  while (count < {bits} && (({unsigned})a >> count & 1) == 0) ++count;\n  return ({ty})count;"
            );
            own(unit, &ty, &body)
        }
        "fma" if is_half(from) => {
            let sum = odd_fma(unit, &texts);
            cast(unit, F64, from, &sum)?
        }
        _ if super::names::LIBM.contains(&name) => call(unit, name),
        _ => fail!(Target, "C has no builtin `{name}` of {}", dtype.short_name()),
    })
}
