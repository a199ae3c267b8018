//! Element types without arithmetic: floats of 8, 6 and 4 bits, integers of 4 and 2 bits.
//!
//! Tensors of them are bytes in memory, one for each element: the bits of a float ([`stored`] as
//! `uint8`), the value of an integer (`int8`, `uint8`). They can be converted, quantized and moved;
//! any other operator requires a wider type.

use kernpack::DataType;
use kernpack_compiler::ir::builtin::REINTERPRET;
use kernpack_compiler::ir::{BinaryOp, DataTypeExt, Expr, F32, F64, I32, I64, U8, U32};
use kernpack_compiler::te;

use crate::attrs::{Attr, Attrs};
use crate::constant::stored;
use crate::error::{Result, require};
use crate::onnx::dtype_of;

/// A float of up to 8 bits, with the sign in the highest one.
#[derive(Clone, Copy)]
struct Format {
    dtype: DataType,
    /// The number of fraction bits.
    fraction: i64,
    /// The bias of the exponent.
    bias: i32,
    /// The largest number, without its sign.
    largest: i64,
    /// The code of a number that is too large, without saturation.
    overflow: i64,
    /// NaN, without its sign if it has one.
    nan: Option<i64>,
    /// True if there is no negative zero: its bits are NaN.
    is_unsigned_zero: bool,
    /// The bits of the sign.
    sign: i64,
}

const fn eight(code: u8, fraction: i64, bias: i32, largest: i64, overflow: i64, nan: i64) -> Format {
    let dtype = DataType::scalar(code, 8);
    Format { dtype, fraction, bias, largest, overflow, nan: Some(nan), is_unsigned_zero: nan == 0x80, sign: 0x80 }
}

/// Describes a float without infinity and NaN.
const fn finite(dtype: DataType, fraction: i64, bias: i32) -> Format {
    let sign = 1 << (dtype.bits() - 1);
    let largest = sign - 1;
    Format { dtype, fraction, bias, largest, overflow: largest, nan: None, is_unsigned_zero: false, sign }
}

/// The formats, with their DLPack codes.
const FORMATS: [Format; 7] = [
    eight(10, 3, 7, 0x7e, 0x7f, 0x7f),
    eight(11, 3, 8, 0x7f, 0x80, 0x80),
    eight(12, 2, 15, 0x7b, 0x7c, 0x7f),
    eight(13, 2, 16, 0x7f, 0x80, 0x80),
    finite(DataType::scalar(17, 4), 1, 1),
    finite(DataType::scalar(15, 6), 3, 1),
    finite(DataType::scalar(16, 6), 2, 3),
];

/// An 8-bit float that is a power of two, without a sign. 255 is NaN.
const POWER: DataType = DataType::scalar(14, 8);
/// The code of the largest power.
const LARGEST_POWER: i64 = 254;

/// The rounding of a number to a power of two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    /// To the next larger one.
    Up,
    /// To the next smaller one.
    Down,
    /// To the nearest one; ties are rounded up.
    Nearest,
}

impl Round {
    /// Reads the rounding from attribute `round_mode`.
    ///
    /// # Errors
    /// Returns an error for another word.
    pub(super) fn of(attrs: &Attrs) -> Result<Self> {
        Ok(match attrs.text("round_mode", "up")? {
            "up" => Self::Up,
            "down" => Self::Down,
            "nearest" => Self::Nearest,
            other => crate::error::fail!("attribute `round_mode` is '{other}', not up, down or nearest"),
        })
    }
}

/// Operators that return elements of their first input unchanged.
const MOVING: [&str; 21] = [
    "Concat",
    "Copy",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Identity",
    "Pad",
    "Reshape",
    "ReverseSequence",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "CenterCropPad",
    "TensorScatter",
];

fn format_of(dtype: DataType) -> Option<Format> {
    FORMATS.into_iter().find(|format| format.dtype == dtype)
}

/// Returns true for one of these types.
pub(crate) fn is_narrow(dtype: DataType) -> bool {
    stored(dtype) != dtype
}

/// Returns the element type of the results of an operator, if it is one of these types.
///
/// # Errors
/// Returns an error for an operator that does not support them.
pub(crate) fn result_type(name: &str, attrs: &Attrs, inputs: &[Option<DataType>]) -> Result<Option<DataType>> {
    let input = |index: usize| inputs.get(index).copied().flatten();
    let own = match name {
        "Cast" | "BitCast" => Some(dtype_of(attrs.needed_int("to")?)?),
        "CastLike" => input(1),
        "QuantizeLinear" => match (input(2), attrs.int("output_dtype", 0)?) {
            (Some(zero), _) => Some(zero),
            (None, 0) => None,
            (None, number) => Some(dtype_of(number)?),
        },
        "DequantizeLinear" | "Shape" | "Size" => None,
        "ConstantOfShape" => match attrs.get("value") {
            Some(Attr::Tensor(value)) => {
                require!(!is_narrow(value.dtype()), "a value of {} is not supported: cast it", value.dtype());
                None
            }
            _ => None,
        },
        name if MOVING.contains(&name) => input(0),
        _ => {
            let narrow = inputs.iter().flatten().find(|dtype| is_narrow(**dtype));
            if let Some(dtype) = narrow {
                crate::error::fail!(
                    "tensors of {dtype} are not supported here: cast them to float32 before, or dequantize them"
                );
            }
            None
        }
    };
    Ok(own.filter(|dtype| is_narrow(*dtype)))
}

/// Converts a number of one of these types to a type with arithmetic. Other types are unchanged.
pub(super) fn decoded(x: Expr, dtype: DataType) -> Expr {
    if dtype == POWER {
        // The exponent of a single is the code. The least power is subnormal, and has a bit of the
        // fraction.
        let code = x.cast(U32);
        let bits =
            te::select(code.equals(te::constant(0.0, U32)), te::constant(f64::from(1 << 22), U32), &code * (1 << 23));
        let is_nan = code.equals(te::constant(255.0, U32));
        return te::select(is_nan, te::constant(f64::NAN, F32), Expr::builtin(REINTERPRET, F32, [bits]));
    }
    let Some(format) = format_of(dtype) else { return x };
    let bits = x.cast(U32);
    let sign = bits.floor_div(format.sign);
    let size = bits.floor_mod(format.sign);
    // With the bits at the position of a single's bits, the exponent is off by a constant, also for
    // numbers near 0.
    let raw = Expr::builtin(REINTERPRET, F32, [&size * (1_i64 << (23 - format.fraction))]);
    let value = raw * te::constant(2f64.powi(127 - format.bias), F32);
    // Multiplied, so that zero has a sign, too.
    let factor = te::select(sign.equals(te::constant(0.0, U32)), te::constant(1.0, F32), te::constant(-1.0, F32));
    let signed = value * factor;
    let number = |value: i64| te::constant(value as f64, U32);
    let nan = te::constant(f64::NAN, F32);
    match format.nan {
        None => signed,
        Some(code) if format.is_unsigned_zero => te::select(bits.equals(number(code)), nan, signed),
        Some(_) if format.overflow < 0x7f => {
            let infinity = te::constant(f64::INFINITY, F32);
            let infinity = te::select(sign.equals(number(0)), &infinity, te::constant(f64::NEG_INFINITY, F32));
            let special = te::select(size.equals(number(format.overflow)), infinity, nan);
            te::select(size.greater_equal(number(format.overflow)), special, signed)
        }
        Some(code) => te::select(size.equals(number(code)), nan, signed),
    }
}

/// Converts a number to one of these types: the nearest one, half to even. A number that is too
/// large becomes the largest one, or infinity or NaN without saturation.
pub(super) fn encoded(x: &Expr, dtype: DataType, saturate: bool) -> Expr {
    let Some(format) = format_of(dtype) else { return x.clone() };
    let wide = x.cast(F64);
    let is_nan = te::isnan(&wide);
    let all = Expr::builtin(REINTERPRET, I64, [wide.clone()]);
    let is_negative = all.less(0);
    // As a double with the exponent of the format all numbers keep more bits than they are rounded
    // to. Those that do not are far below half of the smallest one.
    let scaled = te::abs(&wide) * te::constant(2f64.powi(-(1023 - format.bias)), F64);
    let bits = Expr::builtin(REINTERPRET, I64, [scaled]);
    let unit = 1_i64 << (52 - format.fraction);
    let whole = bits.floor_div(unit);
    let rounded = (bits + (unit / 2 - 1) + whole.floor_mod(2)).floor_div(unit);
    let too_large = Expr::int(if saturate { format.largest } else { format.overflow });
    let size = Expr::select(rounded.greater(format.largest), &too_large, &rounded);
    let sign = if format.is_unsigned_zero {
        // Zero and NaN have no sign.
        let has_sign = is_negative.and(size.greater(0)).and(size.less(format.sign));
        Expr::select(has_sign, Expr::int(format.sign), Expr::int(0))
    } else {
        Expr::select(&is_negative, Expr::int(format.sign), Expr::int(0))
    };
    let code = &size + &sign;
    let code = match format.nan {
        // Without a code for it, NaN is negative zero.
        None => Expr::select(is_nan, Expr::int(format.sign), code),
        Some(nan) if format.is_unsigned_zero => Expr::select(is_nan, Expr::int(nan), code),
        Some(nan) => Expr::select(is_nan, sign + nan, code),
    };
    code.cast(U8)
}

/// Converts a number to a power of two. A number that is too large or too small becomes the largest
/// or the least one, or NaN without saturation.
fn power(x: &Expr, saturate: bool, round: Round) -> Expr {
    let wide = te::abs(x.cast(F64));
    let is_nan = te::isnan(&wide);
    let bits = Expr::builtin(REINTERPRET, I64, [wide]);
    let unit = 1_i64 << 52;
    let above = match round {
        Round::Up => unit - 1,
        Round::Down => 0,
        Round::Nearest => unit / 2,
    };
    let code = (bits + above).floor_div(unit) - (1023 - 127);
    let code = if saturate {
        code.max(0).min(LARGEST_POWER)
    } else {
        let fits = code.greater_equal(0).and(code.less_equal(LARGEST_POWER));
        Expr::select(fits, code, Expr::int(255))
    };
    Expr::select(is_nan, Expr::int(255), code).cast(U8)
}

/// Converts a number to an integer of few bits: truncated, and without the excess bits.
pub(super) fn few_bits(x: &Expr, dtype: DataType) -> Expr {
    let bits = i64::from(dtype.bits());
    let whole = if x.dtype().is_float() { x.cast(I32) } else { x.clone() };
    let target = stored(dtype);
    let low = whole.cast(U8);
    let kept = Expr::binary(BinaryOp::BitAnd, &low, Expr::constant(U8, (1 << bits) - 1));
    if dtype.is_uint() {
        return kept;
    }
    let half = Expr::constant(U8, 1 << (bits - 1));
    // The sign bit is inverted and subtracted, which fills all bits above it.
    (Expr::binary(BinaryOp::BitXor, kept, &half).cast(target)) - half.cast(target)
}

/// Converts a number from one type to another if one of them is one of these.
pub(super) fn converted(x: &Expr, from: DataType, to: DataType, saturate: bool, round: Round) -> Option<Expr> {
    if from == to || !is_narrow(from) && !is_narrow(to) {
        return None;
    }
    let x = decoded(x.clone(), from);
    let x = if x.dtype().is_bool() { super::cast::convert(&x, F32) } else { x };
    Some(if to == POWER {
        power(&x, saturate, round)
    } else if format_of(to).is_some() {
        encoded(&x, to, saturate)
    } else if is_narrow(to) {
        few_bits(&x, to)
    } else {
        super::cast::convert(&x, to)
    })
}
