//! Math functions without a vector instruction in LLVM and C, as plain arithmetic: without calls or
//! tables in memory, and the same for any number of lanes.
//!
//! The largest errors are in units in the last place, compared with libm in the next wider
//! precision; special values (NaN, infinities, signs of zeros) are those of libm. Single precision
//! with FMA: every float where noted, otherwise 1 in 7 or (without a mark) 1 in 101; without FMA 1
//! in 7; double precision: 6 million numbers of all sizes. Functions of two arguments: 4 million
//! pairs in single precision, 6 million in double. The last column is the time per element in
//! vectors of 16 floats, with LLVM's code on one AMD EPYC with AVX-512, compared with a call of
//! libm for each element.
//!
//! | function | f32, FMA | f32 | f64, FMA | f64 | ns | ns, libm |
//! |---|---|---|---|---|---|---|
//! | exp | 0.986 (all) | 0.890 (all) | 0.841 | 0.836 | 0.20 | 3.0 |
//! | exp2 | 1.076 (all) | 1.102 (all) | 1.002 | 1.042 | 0.18 | 3.5 |
//! | expm1 | 1.394 (all) | 1.492 (all) | 1.475 | 1.547 | 0.28 | 5.7 |
//! | sigmoid | 2.402 (all) | 2.402 (all) | 1.901 | 1.901 | 0.34 | 3.3 |
//! | log | 0.848 (all) | 0.851 (all) | 0.787 | 0.787 | 0.41 | 3.5 |
//! | log2 | 1.064 (all) | 1.181 (all) | 0.944 | 1.092 | 0.50 | 3.3 |
//! | log10 | 0.872 (all) | 0.945 (all) | 0.806 | 0.876 | 0.54 | 6.0 |
//! | log1p | 1.473 (all) | 1.481 (all) | 1.375 | 1.375 | 0.46 | 6.0 |
//! | tanh | 2.419 (all) | 1.318 | 1.268 | 1.268 | 0.40 | 9.5 |
//! | sinh | 1.619 (all) | 1.615 | 1.577 | 1.577 | 0.38 | 9.5 |
//! | cosh | 1.435 (all) | 1.379 | 1.281 | 1.330 | 0.27 | 6.5 |
//! | erf | 1.121 (all) | 1.407 | 1.028 | 1.115 | 0.49 | 4.4 |
//! | sin | 1.578 (all) | 1.571 | 0.765 | 0.765 | 0.33 | 3.1 |
//! | cos | 1.581 (all) | 1.581 | 0.762 | - | 0.32 | 3.1 |
//! | tan | 0.521 (all) | 0.521 | 1.724 | 1.724 | 0.73 | 7.3 |
//! | asin | 2.025 (all) | 2.025 | 1.515 | 1.515 | 0.26 | 4.1 |
//! | acos | 1.139 (all) | 1.124 | 0.757 | 0.757 | 0.32 | 4.6 |
//! | atan | 1.201 (all) | 1.274 | 0.811 | 0.811 | 0.33 | 4.6 |
//! | atan2 | 1.526 | 1.432 | 1.432 | 1.432 | 0.56 | 8.6 |
//! | pow | 0.504 | 0.504 | 1.056 | 1.056 | 1.76 | 4.2 |
//! | rsqrt | 1.490 (all) | 1.490 | 1.493 | 1.493 | 0.29 | 2.3 |
//!
//! A dash means below the limit of 2.5 that the tests set; the number was not recorded. Tests:
//! `tests/math`, with commands for all floats and for the times. Coefficients are minimax fits from
//! `fit/fit.py` (those of exp, log, tanh, erf, sin and cos in single precision were fitted in the
//! same way before, and differ in the last digits of the last coefficients).

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
use crate::ir::{DataTypeExt, Expr, ExprNode, F32, Var};

/// The features of the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Features {
    /// True if `a * b + c` is one instruction, rounded once.
    pub fma: bool,
    /// True if vectors have an instruction for `x * 2^n`, which is LLVM's `llvm.ldexp`: AVX-512.
    pub scales: bool,
    /// True if sums may be reordered (`fastmath` of `reassoc` or `fast`): rounding to integers then
    /// uses instructions, not sums that lose their fraction. Accuracy is reduced.
    pub reassociates: bool,
}

/// Returns a math function as arithmetic on floats and integers of the same number of lanes.
/// Returns `None` if the function is not in the table above, has other arguments, or is an
/// instruction anyway (`sqrt`, `abs`, `floor`, ..).
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
    if dtype.bits() <= 32 && dtype.lanes() > WIDEST && dtype.lanes() % 2 == 0 && IN_DOUBLES.contains(&name) {
        return by_halves(name, args, features);
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

/// Single precision functions that are computed in double precision.
const IN_DOUBLES: &[&str] = &["pow", "tan"];

/// The number of doubles in the widest vectors of any CPU. C compilers compare wider ones lane by
/// lane.
const WIDEST: u16 = 8;

/// Applies the function to both halves of its arguments.
fn by_halves(name: &str, args: &[Expr], features: &Features) -> Option<Expr> {
    let lanes = args.first()?.lanes();
    let vars: Vec<Var> = args.iter().map(|arg| Var::new("wide", arg.dtype())).collect();
    let lanes_of = |vectors: Vec<Expr>, lanes: core::ops::Range<u16>| {
        Expr::from_node(ExprNode::Shuffle { vectors: vectors.into(), indices: lanes.map(i64::from).collect() })
    };
    let half = |first: u16| {
        let part = |var: &Var| lanes_of(vec![var.expr().clone()], first..first + lanes / 2);
        lower_math(name, &vars.iter().map(part).collect::<Vec<_>>(), features)
    };
    let whole = lanes_of(vec![half(0)?, half(lanes / 2)?], 0..lanes);
    let bound = vars.iter().zip(args).rev();
    Some(bound.fold(whole, |body, (var, value)| {
        Expr::from_node(ExprNode::Let { var: var.clone(), value: value.clone(), body })
    }))
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

/// The functions that [`lower_math`] supports, with their number of arguments.
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
