//! Operators on elements, and on elements of several inputs that are broadcast to one shape.

use kernpack_compiler::ir::{BinaryOp, DataTypeExt, Expr, F32, Tensor};
use kernpack_compiler::te;

use super::call::{broadcast, tensor};
use super::extremum::{clamp, max, min};
use super::formula::{acosh, asinh, atanh, gelu, like, modulo, pow, softplus};
use super::{Call, Operator, Pattern};
use crate::attrs::Attrs;
use crate::error::{Result, fail, require};

/// An operator of one input: its expression.
macro_rules! unary {
    ($($name:literal $function:expr,)*) => {
        [$(Operator {
            name: $name,
            pattern: Pattern::Elementwise,
            make: |call| {
                let function: fn(Expr, &Attrs) -> Result<Expr> = $function;
                unary(call, $name, function)
            },
        }),*]
    };
}

/// Operators with a single operation that half precision computes with the same result. All others
/// are computed in single precision, and rounded once.
const OF_HALVES: &[&str] = &[
    "Abs",
    "Neg",
    "Ceil",
    "Floor",
    "Round",
    "Sqrt",
    "Reciprocal",
    "Sign",
    "IsNaN",
    "IsInf",
    "Relu",
    "ThresholdedRelu",
    "Trunc",
];

fn unary(call: &Call, name: &str, function: fn(Expr, &Attrs) -> Result<Expr>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let is_widened = x.dtype.is_float() && x.dtype.bits() == 16 && !OF_HALVES.contains(&name);
    let mut outcome = Ok(());
    let result = tensor(&x.shape, |position| {
        let value = x.at(position);
        let made = match is_widened {
            true => function(value.cast(F32), call.attrs).map(|value| value.cast(x.dtype)),
            false => function(value, call.attrs),
        };
        made.unwrap_or_else(|error| {
            outcome = Err(error);
            Expr::constant(x.dtype, 0)
        })
    });
    outcome.map(|()| vec![result])
}

/// An operator of two inputs or more: its expression on two of them.
macro_rules! broadcasting {
    ($($name:literal $function:expr,)*) => {
        [$(Operator {
            name: $name,
            pattern: Pattern::Elementwise,
            make: |call| {
                let function: fn(Expr, Expr, &Call) -> Result<Expr> = $function;
                fold(call, function)
            },
        }),*]
    };
}

fn fold(call: &Call, function: fn(Expr, Expr, &Call) -> Result<Expr>) -> Result<Vec<Tensor>> {
    let inputs: Vec<_> = (0..call.inputs.len()).map(|index| call.input(index)).collect::<Result<_>>()?;
    require!(!inputs.is_empty(), "there is no input");
    if let Some(axis) = old_axis(call)? {
        return aligned(call, axis, function);
    }
    let shape = broadcast(&inputs.iter().map(|input| &input.shape[..]).collect::<Vec<_>>())?;
    let mut outcome = Ok(());
    let result = tensor(&shape, |position| {
        let mut values = inputs.iter().map(|input| input.broadcast_at(position));
        let first = values.next().unwrap_or_else(|| Expr::int(0));
        values.fold(first, |left, right| {
            function(left.clone(), right, call).unwrap_or_else(|error| {
                outcome = Err(error);
                left
            })
        })
    });
    outcome.map(|()| vec![result])
}

/// Before version 7 the second input was aligned with the axes of the first one from one axis on,
/// which an attribute set. The slopes of PRelu are per channel.
///
/// # Errors
/// Returns an error for an axis that does not exist, and in a newer version for one that
/// contradicts the shapes.
fn old_axis(call: &Call) -> Result<Option<usize>> {
    if call.inputs.len() != 2 {
        return Ok(None);
    }
    let (x, y) = (call.input(0)?, call.input(1)?);
    let is_old = call.version < 7;
    match call.attrs.find_int("axis")? {
        Some(axis) if is_old => x.axis(axis).map(Some),
        Some(axis) => {
            let is_same = y.shape.iter().all(|extent| *extent == 1) || x.axis(axis)? + y.rank() == x.rank();
            require!(
                is_same,
                "attribute `axis` is {axis}, and is of versions before 7: now {:?} lies along the last axes of {:?}",
                y.shape,
                x.shape
            );
            Ok(None)
        }
        None if is_old && call.name == "PRelu" && y.rank() == 1 && x.rank() > 1 && y.shape != [1] => Ok(Some(1)),
        None => Ok(None),
    }
}

fn aligned(call: &Call, axis: usize, function: fn(Expr, Expr, &Call) -> Result<Expr>) -> Result<Vec<Tensor>> {
    let (x, y) = (call.input(0)?, call.input(1)?);
    let fits = axis + y.rank() <= x.rank()
        && y.shape.iter().zip(&x.shape[axis..]).all(|(extent, wanted)| extent == wanted || *extent == 1);
    require!(fits, "{:?} cannot be put along the axes of {:?} from axis {axis} on", y.shape, x.shape);
    let mut outcome = Ok(());
    let result = tensor(&x.shape, |position| {
        let left = x.at(position);
        function(left.clone(), y.broadcast_at(&position[axis..axis + y.rank()]), call).unwrap_or_else(|error| {
            outcome = Err(error);
            left
        })
    });
    outcome.map(|()| vec![result])
}

/// Returns true if an expression is NaN. Integers never are.
fn is_nan(x: &Expr) -> Expr {
    if x.dtype().is_float() { te::isnan(x) } else { Expr::bool(false) }
}

fn alpha(attrs: &Attrs, x: &Expr, default: f32) -> Result<Expr> {
    Ok(like(x, attrs.float("alpha", default)?))
}

/// Arithmetic on integers and floats.
fn binary(op: BinaryOp) -> impl Fn(Expr, Expr) -> Result<Expr> {
    move |a, b| {
        require!(a.dtype() == b.dtype(), "the inputs have different types: {} and {}", a.dtype(), b.dtype());
        Ok(Expr::binary(op, a, b))
    }
}

fn same(a: &Expr, b: &Expr) -> Result<()> {
    require!(a.dtype() == b.dtype(), "the inputs have different types: {} and {}", a.dtype(), b.dtype());
    Ok(())
}

fn truth(a: &Expr, b: &Expr) -> Result<()> {
    require!(a.dtype().is_bool() && b.dtype().is_bool(), "expected truth values, got {} and {}", a.dtype(), b.dtype());
    Ok(())
}

fn shift(a: Expr, b: Expr, call: &Call) -> Result<Expr> {
    same(&a, &b)?;
    let dtype = a.dtype();
    require!(dtype.is_integer() && !dtype.is_bool(), "expected integers, got {dtype}");
    require!(
        dtype.is_uint() || call.version >= 28,
        "a shift of {dtype} is supported from version 28 of the operators on; this model has {}",
        call.version
    );
    // A shift by at least the width, or by a negative number, leaves the sign or zero.
    let op = match call.attrs.text("direction", "")? {
        "LEFT" => BinaryOp::ShiftLeft,
        "RIGHT" => BinaryOp::ShiftRight,
        other => fail!("attribute `direction` is `LEFT` or `RIGHT`, not `{other}`"),
    };
    Ok(Expr::binary(op, a, b))
}

/// Operators on one input.
pub(super) const UNARY: &[Operator] = &unary! {
    "Abs" |x, _| Ok(te::abs(x)),
    "Neg" |x, _| Ok(-x),
    "Ceil" |x, _| Ok(te::ceil(x)),
    "Floor" |x, _| Ok(te::floor(x)),
    "Round" |x, _| Ok(te::round(x)),
    "Sqrt" |x, _| Ok(te::sqrt(x)),
    "Exp" |x, _| Ok(te::exp(x)),
    "Log" |x, _| Ok(te::log(x)),
    "Sin" |x, _| Ok(te::sin(x)),
    "Cos" |x, _| Ok(te::cos(x)),
    "Tan" |x, _| Ok(te::tan(x)),
    "Asin" |x, _| Ok(te::asin(x)),
    "Acos" |x, _| Ok(te::acos(x)),
    "Atan" |x, _| Ok(te::atan(x)),
    "Sinh" |x, _| Ok(te::sinh(x)),
    "Cosh" |x, _| Ok(te::cosh(x)),
    "Tanh" |x, _| Ok(te::tanh(x)),
    "Asinh" |x, _| Ok(asinh(&x)),
    "Acosh" |x, _| Ok(acosh(&x)),
    "Atanh" |x, _| Ok(atanh(&x)),
    "Erf" |x, _| Ok(te::erf(x)),
    "Sigmoid" |x, _| Ok(te::sigmoid(x)),
    "Reciprocal" |x, _| Ok(like(&x, 1.0) / x),
    "Sign" |x, _| {
        let (zero, one) = (like(&x, 0.0), like(&x, 1.0));
        let negative = if x.dtype().is_uint() { zero.clone() } else { &zero - &one };
        Ok(te::select(x.greater(&zero), one, te::select(x.less(&zero), negative, x)))
    },
    "Not" |x, _| {
        require!(x.dtype().is_bool(), "expected truth values, got {}", x.dtype());
        Ok(x.negated())
    },
    "BitwiseNot" |x, _| Ok(Expr::binary(BinaryOp::BitXor, &x, Expr::constant(x.dtype(), -1))),
    "IsNaN" |x, _| Ok(is_nan(&x)),
    "IsInf" |x, attrs| {
        let infinite = te::isinf(&x);
        let (above, below) = (attrs.flag("detect_positive", true)?, attrs.flag("detect_negative", true)?);
        Ok(match (above, below) {
            (true, true) => infinite,
            (true, false) => infinite.and(x.greater(like(&x, 0.0))),
            (false, true) => infinite.and(x.less(like(&x, 0.0))),
            (false, false) => Expr::bool(false),
        })
    },
    "Relu" |x, _| Ok(te::select(x.less(like(&x, 0.0)), like(&x, 0.0), x)),
    "LeakyRelu" |x, attrs| Ok(te::select(x.less(like(&x, 0.0)), &x * alpha(attrs, &x, 0.01)?, x)),
    "Elu" |x, attrs| Ok(te::select(x.less(like(&x, 0.0)), te::expm1(&x) * alpha(attrs, &x, 1.0)?, x)),
    "Selu" |x, attrs| {
        let gamma = like(&x, attrs.float("gamma", 1.050_701)?);
        let negative = te::expm1(&x) * alpha(attrs, &x, 1.673_263_2)?;
        Ok(te::select(x.greater(like(&x, 0.0)), x, negative) * gamma)
    },
    "Celu" |x, attrs| {
        let factor = alpha(attrs, &x, 1.0)?;
        let ratio = &x / &factor;
        let mut curve = te::expm1(&ratio) * factor;
        // Near 0 the curve is linear. A large factor would make the ratio too small for full
        // precision.
        if attrs.float("alpha", 1.0)?.abs() > 1.0 {
            let near = like(&x, if x.dtype().bits() == 64 { -1e-17 } else { -1e-8 });
            curve = te::select(ratio.greater(near), &x, curve);
        }
        Ok(te::select(x.less(like(&x, 0.0)), curve, x))
    },
    "ThresholdedRelu" |x, attrs| Ok(te::select(x.less_equal(alpha(attrs, &x, 1.0)?), like(&x, 0.0), x)),
    "HardSigmoid" |x, attrs| {
        let beta = like(&x, attrs.float("beta", 0.5)?);
        let line = &x * alpha(attrs, &x, 0.2)? + beta;
        Ok(clamp(line, 0.0, 1.0))
    },
    "HardSwish" |x, _| {
        let line = &x * like(&x, 1.0 / 6.0) + like(&x, 0.5);
        Ok(x * clamp(line, 0.0, 1.0))
    },
    "Softplus" |x, _| Ok(softplus(&x)),
    "Softsign" |x, _| Ok(&x / (te::abs(&x) + like(&x, 1.0))),
    "Mish" |x, _| Ok(&x * te::tanh(softplus(&x))),
    "Swish" |x, attrs| Ok(&x * te::sigmoid(&x * alpha(attrs, &x, 1.0)?)),
    "Shrink" |x, attrs| {
        let (bias, lambd) = (like(&x, attrs.float("bias", 0.0)?), like(&x, attrs.float("lambd", 0.5)?));
        // Between the limits the result is 0. NaN is in neither range, and passes through.
        let (zero, least) = (like(&x, 0.0), like(&x, 0.0) - &lambd);
        let middle = te::select(x.greater_equal(&least).and(x.less_equal(&lambd)), zero, &x);
        let below = te::select(x.less(least), &x + &bias, middle);
        Ok(te::select(x.greater(lambd), &x - bias, below))
    },
    "Gelu" gelu,
    "Log1p" |x, _| Ok(te::log1p(x)),
    "Expm1" |x, _| Ok(te::expm1(x)),
    "Exp2" |x, _| Ok(te::exp2(x)),
    "Log2" |x, _| Ok(te::log2(x)),
    "Trunc" |x, _| Ok(te::trunc(x)),
    "Rsqrt" |x, _| Ok(te::rsqrt(x)),
};

/// Operators on two inputs, or folded over several.
pub(super) const BROADCASTING: &[Operator] = &broadcasting! {
    "Add" |a, b, _| binary(BinaryOp::Add)(a, b),
    "Sub" |a, b, _| binary(BinaryOp::Sub)(a, b),
    "Mul" |a, b, _| binary(BinaryOp::Mul)(a, b),
    "Div" |a, b, _| binary(BinaryOp::Div)(a, b),
    "Sum" |a, b, _| binary(BinaryOp::Add)(a, b),
    "Pow" |a, b, _| Ok(pow(a, b)),
    "Mod" modulo,
    "BitShift" shift,
    "BitwiseAnd" |a, b, _| binary(BinaryOp::BitAnd)(a, b),
    "BitwiseOr" |a, b, _| binary(BinaryOp::BitOr)(a, b),
    "BitwiseXor" |a, b, _| binary(BinaryOp::BitXor)(a, b),
    "And" |a, b, _| truth(&a, &b).map(|()| a.and(b)),
    "Or" |a, b, _| truth(&a, &b).map(|()| a.or(b)),
    "Xor" |a, b, _| truth(&a, &b).map(|()| a.differs(b)),
    "Equal" |a, b, _| same(&a, &b).map(|()| a.equals(b)),
    "Greater" |a, b, _| same(&a, &b).map(|()| a.greater(b)),
    "Less" |a, b, _| same(&a, &b).map(|()| a.less(b)),
    "GreaterOrEqual" |a, b, _| same(&a, &b).map(|()| a.greater_equal(b)),
    "LessOrEqual" |a, b, _| same(&a, &b).map(|()| a.less_equal(b)),
    "PRelu" |a, b, _| same(&a, &b).map(|()| te::select(a.less(like(&a, 0.0)), &a * b, a)),
};

/// All other operators.
pub(super) const OTHERS: &[Operator] = &[
    Operator {
        name: "Max",
        pattern: Pattern::Elementwise,
        make: |call| fold(call, |a, b, _| same(&a, &b).map(|()| max(a, b))),
    },
    Operator {
        name: "Min",
        pattern: Pattern::Elementwise,
        make: |call| fold(call, |a, b, _| same(&a, &b).map(|()| min(a, b))),
    },
    Operator { name: "SwiGLU", pattern: Pattern::Elementwise, make: swiglu },
    Operator { name: "Mean", pattern: Pattern::Elementwise, make: mean },
    Operator { name: "Where", pattern: Pattern::Elementwise, make: where_ },
    Operator { name: "Clip", pattern: Pattern::Elementwise, make: clip },
];

/// `a * sigmoid(alpha * a) * b`. Half precision is rounded once, as `Swish` is.
fn swiglu(call: &Call) -> Result<Vec<Tensor>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    require!(a.dtype == b.dtype, "the inputs have different types: {} and {}", a.dtype, b.dtype);
    require!(a.shape == b.shape, "the inputs have different shapes: {:?} and {:?}", a.shape, b.shape);
    require!(a.dtype.is_float(), "expected floats, got {}", a.dtype);
    let factor = call.attrs.float("alpha", 1.0)?;
    let wide = if a.dtype.bits() < 32 { F32 } else { a.dtype };
    Ok(vec![tensor(&a.shape, |position| {
        let (gate, value) = (a.at(position).cast(wide), b.at(position).cast(wide));
        let open = te::sigmoid(&gate * like(&gate, factor));
        (gate * open * value).cast(a.dtype)
    })])
}

fn mean(call: &Call) -> Result<Vec<Tensor>> {
    let inputs: Vec<_> = (0..call.inputs.len()).map(|index| call.input(index)).collect::<Result<_>>()?;
    let shape = broadcast(&inputs.iter().map(|input| &input.shape[..]).collect::<Vec<_>>())?;
    let count = inputs.len() as f64;
    Ok(vec![tensor(&shape, |position| {
        let sum = inputs.iter().map(|input| input.broadcast_at(position)).reduce(|a, b| a + b);
        let sum = sum.unwrap_or_else(|| Expr::float(F32, 0.0));
        let by = like(&sum, count);
        sum / by
    })])
}

fn where_(call: &Call) -> Result<Vec<Tensor>> {
    let (condition, a, b) = (call.input(0)?, call.input(1)?, call.input(2)?);
    require!(condition.dtype.is_bool(), "the condition has to be of truth values, not {}", condition.dtype);
    require!(a.dtype == b.dtype, "the inputs have different types: {} and {}", a.dtype, b.dtype);
    let shape = broadcast(&[&condition.shape, &a.shape, &b.shape])?;
    Ok(vec![tensor(&shape, |position| {
        te::select(condition.broadcast_at(position), a.broadcast_at(position), b.broadcast_at(position))
    })])
}

fn clip(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let bound = |index: usize, name: &str| -> Result<Option<Expr>> {
        if let Some(operand) = call.optional(index) {
            require!(
                operand.rank() == 0 || operand.shape == [1],
                "input {index} has to be a scalar, not {:?}",
                operand.shape
            );
            return Ok(Some(operand.at(&vec![Expr::int(0); operand.rank()])));
        }
        // Before version 11 the bounds were attributes.
        match call.attrs.get(name) {
            Some(_) => Ok(Some(te::constant(call.attrs.float(name, 0.0)?, x.dtype))),
            None => Ok(None),
        }
    };
    let (low, high) = (bound(1, "min")?, bound(2, "max")?);
    Ok(vec![tensor(&x.shape, |position| {
        let mut value = x.at(position);
        if let Some(low) = low {
            value = max(value, low);
        }
        if let Some(high) = high {
            value = min(value, high);
        }
        value
    })])
}
