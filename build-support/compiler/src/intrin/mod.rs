//! Functions of the CPU that LLVM and C have no vector instruction for, as plain arithmetic.

mod erf;
mod exact;
mod exponential;
mod floor_div;
mod format;
mod formula;
mod hyperbolic;
mod inverse;
mod logarithm;
mod power;
mod reduction;
mod trigonometric;

pub use floor_div::lower_floor_div;

use self::format::{DOUBLE, Format, SINGLE};
use self::formula::{Formula, Value};
use self::trigonometric::Wave;
use crate::ir::{DataTypeExt, Expr, F32};

/// What the CPU has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Features {
    /// `a * b + c` in one instruction, rounded once.
    pub fma: bool,
    /// Vectors have `x * 2^n` in one instruction, which is LLVM's `llvm.ldexp`: AVX-512.
    pub scales: bool,
    /// Sums may be done in another order (`fastmath` of `reassoc` or `fast`): integers are found by instructions then, and not by sums that lose their
    /// fraction. Digits are lost.
    pub reassociates: bool,
}

/// A math function as arithmetic on floats and integers of the same number of lanes; none: the function is not in the table above, has other arguments, or
/// is an instruction anyway (`sqrt`, `abs`, `floor`, ..).
///
/// ```
/// use kernpack_compiler::intrin::{Features, lower_math};
/// use kernpack_compiler::ir::{Expr, F32, Var};
///
/// let x = Var::new("x", F32);
/// let lowered = lower_math("exp", &[x.expr().clone()], &Features { fma: true, ..Features::default() }).unwrap();
/// assert_eq!(lowered.dtype(), F32);
/// assert!(lower_math("sqrt", &[x.expr().clone()], &Features::default()).is_none());
/// ```
pub fn lower_math(name: &str, args: &[Expr], features: &Features) -> Option<Expr> {
    let dtype = args.first()?.dtype();
    if !dtype.is_float() || args.iter().any(|arg| arg.dtype() != dtype) {
        return None;
    }
    let formula = Formula::new(dtype.lanes(), *features);
    let values: Vec<Value<'_>> = args.iter().map(|arg| formula.value(arg.clone())).collect();
    let format = if dtype.bits() == 64 { &DOUBLE } else { &SINGLE };
    // Half precision is computed in single precision.
    let half = dtype.bits() == 16;
    let values: Vec<Value<'_>> = if half { values.iter().map(|value| value.cast(F32)).collect() } else { values };
    let result = lower(&formula, format, name, &values)?;
    Some(formula.finish(if half { result.cast(dtype) } else { result }))
}

fn lower<'a>(formula: &'a Formula, format: &Format, name: &str, args: &[Value<'a>]) -> Option<Value<'a>> {
    let f = formula;
    Some(match (name, args) {
        ("exp", &[x]) => exponential::exp(f, format, x),
        ("exp2", &[x]) => exponential::exp2(f, format, x),
        ("expm1", &[x]) => exponential::expm1(f, format, x),
        ("sigmoid", &[x]) => exponential::sigmoid(f, format, x),
        ("log", &[x]) => logarithm::log(f, format, x),
        ("log2", &[x]) => logarithm::log2(f, format, x),
        ("log10", &[x]) => logarithm::log10(f, format, x),
        ("log1p", &[x]) => logarithm::log1p(f, format, x),
        ("tanh", &[x]) => hyperbolic::tanh(f, format, x),
        ("sinh", &[x]) => hyperbolic::sinh(f, format, x),
        ("cosh", &[x]) => hyperbolic::cosh(f, format, x),
        ("erf", &[x]) => erf::erf(f, format, x),
        ("sin", &[x]) => trigonometric::wave(f, format, x, Wave::Sin),
        ("cos", &[x]) => trigonometric::wave(f, format, x, Wave::Cos),
        ("tan", &[x]) => trigonometric::tan(f, format, x),
        ("asin", &[x]) => inverse::asin(f, format, x),
        ("acos", &[x]) => inverse::acos(f, format, x),
        ("atan", &[x]) => inverse::atan(f, format, x),
        ("atan2", &[y, x]) => inverse::atan2(f, format, y, x),
        ("pow", &[x, y]) if format.is_double() => power::pow64(f, x, y),
        ("pow", &[x, y]) => power::pow32(f, x, y),
        ("rsqrt", &[x]) => power::rsqrt(x),
        _ => return None,
    })
}

/// The functions that [`lower_math`] knows, with their number of arguments.
pub const FUNCTIONS: &[(&str, usize)] = &[
    ("exp", 1),
    ("exp2", 1),
    ("expm1", 1),
    ("sigmoid", 1),
    ("log", 1),
    ("log2", 1),
    ("log10", 1),
    ("log1p", 1),
    ("tanh", 1),
    ("sinh", 1),
    ("cosh", 1),
    ("erf", 1),
    ("sin", 1),
    ("cos", 1),
    ("tan", 1),
    ("asin", 1),
    ("acos", 1),
    ("atan", 1),
    ("atan2", 2),
    ("pow", 2),
    ("rsqrt", 1),
];
