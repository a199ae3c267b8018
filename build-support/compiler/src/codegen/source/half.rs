//! Half precision and bfloat16: 16 bits in memory, values in single precision that are rounded
//! after each operation. This needs no extension of a language.

use kernpack::DataType;

use super::scalar;
use super::unit::Unit;
use super::vocabulary::is_half;
use crate::error::Result;
use crate::ir::{DataTypeExt, F32, F64, U16, U32, U64};

/// Rounds single precision to half precision; values of other types are unchanged.
pub(crate) fn rounded(unit: &mut Unit, dtype: DataType, text: String) -> Result<String> {
    if !is_half(dtype) {
        return Ok(text);
    }
    let (to, from) = (to_bits(unit, dtype, "a")?, from_bits(unit, dtype, "a_bits")?);
    let body = format!("{} a_bits = {to};\n  return {from};", unit.words.scalar(U16));
    let name = format!("kp_round_{}", dtype.short_name());
    unit.function(&name, "float", &["float"], &body);
    Ok(format!("{name}({text})"))
}

/// Converts a scalar of another type to half precision. A value with more digits than single
/// precision has is rounded to odd first, so that it is not rounded twice.
pub(crate) fn cast(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> Result<String> {
    unit.check(from)?;
    let single = match () {
        () if from == F32 || is_half(from) || from.bits() <= 16 => format!("(float){value}"),
        () if from.is_integer() && !unit.words.is_host => odd_integer(unit, from, value),
        () if from.is_integer() && from.bits() == 64 => {
            let double = wide_integer(unit, from, value);
            odd_double(unit, &double)?
        }
        () => odd_double(unit, value)?,
    };
    rounded(unit, to, single)
}

/// Double to single precision: the last digit is odd if the value is not exact.
fn odd_double(unit: &mut Unit, value: &str) -> Result<String> {
    let wide = unit.words.scalar(U32);
    let (bits, back) = (scalar::reinterpret(unit, F32, U32, "f")?, scalar::reinterpret(unit, U32, F32, "n")?);
    let body = format!(
        "float f = (float)a;\n  if ((double)f == a || f != f || f - f != 0) return f;\n  {wide} n = {bits};\n  \
         if (n & 1) return f;\n  n = ((double)f < a) == (a > 0) ? n + 1 : n - 1;\n  return {back};"
    );
    unit.function("kp_odd_f32", "float", &["double"], &body);
    Ok(format!("kp_odd_f32((double){value})"))
}

/// An integer of 64 bits to double precision: the last digit is odd if the value is not exact.
fn wide_integer(unit: &mut Unit, from: DataType, value: &str) -> String {
    let (ty, name) = (unit.words.scalar(from), format!("kp_odd_{}", from.short_name()));
    let exact = if from.is_int() { "n + 0x20000000000000ULL < 0x40000000000000ULL" } else { "n < 0x20000000000000ULL" };
    let body = format!(
        "uint64_t n = (uint64_t)a;\n  if ({exact}) return (double)a;\n  \
         return (double)({ty})((n | ((n & 0x7ff) + 0x7ff)) & ~0x7ffULL);"
    );
    unit.function(&name, "double", &[ty], &body);
    format!("{name}({value})")
}

/// `a * b + c` of half precision in C, as a double: the product is exact, the sum is rounded to
/// odd.
pub(crate) fn odd_fma(unit: &mut Unit, values: &[&str]) -> Result<String> {
    let (bits, back) = (scalar::reinterpret(unit, F64, U64, "sum")?, scalar::reinterpret(unit, U64, F64, "n")?);
    let body = format!(
        "double product = a * b, sum = product + c, back = sum - product;\n  \
         double error = (product - (sum - back)) + (c - back);\n  if (!(error < 0 || error > 0)) return sum;\n  \
         uint64_t n = {bits};\n  n = (n - ((error > 0) != (sum > 0))) | 1;\n  return {back};"
    );
    unit.function("kp_odd_fma", "double", &["double"; 3], &body);
    Ok(format!("kp_odd_fma({})", values.join(", ")))
}

/// An integer to single precision, without double precision, which a device may not have: the last
/// digit is odd if the value is not exact.
fn odd_integer(unit: &mut Unit, from: DataType, value: &str) -> String {
    let (ty, wide) = (unit.words.scalar(from), unit.words.unsigned(64));
    let scale = unit.words.math("ldexp", F32);
    let (sign, negative) = if from.is_int() {
        (format!("a < 0 ? 0 - ({wide})a : ({wide})a"), "a < 0")
    } else {
        (format!("({wide})a"), "false")
    };
    let body = format!(
        "{wide} n = {sign};\n  int shift = 0;\n  for (; n >= 0x1000000; ++shift) n = n >> 1 | (n & 1);\n  \
         float f = {scale}((float)n, shift);\n  return {negative} ? -f : f;"
    );
    let name = format!("kp_odd_{}", from.short_name());
    unit.function(&name, "float", &[ty], &body);
    format!("{name}({value})")
}

/// Reinterprets the bits of half precision, or bits as half precision.
pub(crate) fn reinterpret(unit: &mut Unit, from: DataType, to: DataType, value: &str) -> Result<String> {
    if is_half(from) {
        let bits = to_bits(unit, from, value)?;
        return scalar::reinterpret(unit, U16, to, &bits);
    }
    let bits = scalar::reinterpret(unit, from, U16, value)?;
    from_bits(unit, to, &bits)
}

/// Rounds single precision to half precision and returns the bits.
pub(crate) fn to_bits(unit: &mut Unit, dtype: DataType, value: &str) -> Result<String> {
    let name = format!("kp_bits_{}", dtype.short_name());
    if !unit.has(&name) {
        let (narrow, wide) = (unit.words.scalar(U16), unit.words.scalar(U32));
        let bits = scalar::reinterpret(unit, F32, U32, "a")?;
        let body = if dtype.is_bfloat() {
            format!(
                "{wide} n = {bits};\n  if (a != a) return ({narrow})(n >> 16 | 0x40);\n  \
                 return ({narrow})((n + 0x7fff + (n >> 16 & 1)) >> 16);"
            )
        } else {
            // Denormals are rounded by an addition that moves their last digit to the end of a
            // float.
            let scale = scalar::reinterpret(unit, U32, F32, "0x3f000000U")?;
            let magnitude = scalar::reinterpret(unit, U32, F32, "n")?;
            let denormal = scalar::reinterpret(unit, F32, U32, "tiny")?;
            format!(
                "{wide} n = {bits}, sign = n >> 16 & 0x8000;\n  n &= 0x7fffffff;\n  \
                 if (n > 0x7f800000) return ({narrow})(sign | 0x7e00 | (n >> 13 & 0x3ff));\n  \
                 if (n >= 0x477ff000) return ({narrow})(sign | 0x7c00);\n  \
                 if (n < 0x38800000) {{\n    float tiny = {magnitude} + {scale};\n    \
                 return ({narrow})(sign | ({denormal} - 0x3f000000U));\n  }}\n  \
                 return ({narrow})(sign | ((n - 0x38000000 + 0xfff + (n >> 13 & 1)) >> 13));"
            )
        };
        unit.function(&name, narrow, &["float"], &body);
    }
    Ok(format!("{name}({value})"))
}

/// Converts the bits of half precision to a value.
pub(crate) fn from_bits(unit: &mut Unit, dtype: DataType, bits: &str) -> Result<String> {
    let name = format!("kp_{}_of_bits", dtype.short_name());
    if !unit.has(&name) {
        let (narrow, wide) = (unit.words.scalar(U16), unit.words.scalar(U32));
        let value = scalar::reinterpret(unit, U32, F32, "n")?;
        let body = if dtype.is_bfloat() {
            format!("{wide} n = ({wide})a << 16;\n  return {value};")
        } else {
            format!(
                "{wide} sign = ({wide})(a & 0x8000) << 16, n = ({wide})(a & 0x7fff) << 13;\n  \
                 if (n < 0x800000) {{\n    float tiny = (float)(a & 0x3ff) * 0x1p-24f;\n    return sign != 0 ? -tiny : tiny;\n  }}\n  \
                 n = sign | (n + (n >= 0xf800000 ? 0x70000000 : 0x38000000));\n  return {value};"
            )
        };
        unit.function(&name, "float", &[narrow], &body);
    }
    Ok(format!("{name}({bits})"))
}

/// Converts an element read from memory to a value.
pub(crate) fn from_memory(unit: &mut Unit, dtype: DataType, element: String) -> Result<String> {
    match () {
        () if is_half(dtype) => from_bits(unit, dtype, &element),
        () if dtype.is_bool() => Ok(format!("({element} != 0)")),
        () => Ok(element),
    }
}

/// Converts a value to the representation in memory.
pub(crate) fn to_memory(unit: &mut Unit, dtype: DataType, value: String) -> Result<String> {
    if is_half(dtype) { to_bits(unit, dtype, &value) } else { Ok(value) }
}
