//! The largest errors of elementwise operators, compared with the C library in double precision:
//! over all numbers of half precision, and over 64 numbers of each exponent and sign of single
//! precision. Signs of zeros, infinities and NaN are those of the function.
//!
//! The table in the book: `cargo test -p kernpack-graph --test operators accuracy:: -- --nocapture
//! --test-threads 1`.

use kernpack_compiler::ir::{F16, F32};
use kernpack_graph::{Attr, Constant, op};

use super::program::{Program, known};

// SAFETY: functions of the C library that every std program is linked with; they take and give
// plain doubles.
unsafe extern "C" {
    safe fn erf(x: f64) -> f64;
    safe fn erfc(x: f64) -> f64;
    safe fn asinh(x: f64) -> f64;
    safe fn acosh(x: f64) -> f64;
    safe fn atanh(x: f64) -> f64;
    safe fn log1p(x: f64) -> f64;
}

/// Converts a number to the type of attributes.
fn attr(value: f32) -> f64 {
    f64::from(value)
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn softplus(x: f64) -> f64 {
    if x.is_nan() { x } else { x.max(0.0) + log1p((-x.abs()).exp()) }
}

/// The unit of errors: units in the last place of the result, or, if a result is the difference of
/// larger terms, of this part of them.
type Size = fn(f64) -> f64;

fn own(_: f64) -> f64 {
    0.0
}

/// Sigmoid has fewer digits in the subnormal range, and so has a product with it.
fn tiny(_: f64) -> f64 {
    2f64.powi(-119)
}

/// An operator, the largest errors in single and in half precision, the function, and the unit of
/// errors.
type Row = (&'static str, f64, f64, fn(f64) -> f64, Size);

const ROWS: &[Row] = &[
    ("Abs", 0.0, 0.0, |x| x.abs(), own),
    ("Neg", 0.0, 0.0, |x| -x, own),
    ("Ceil", 0.0, 0.0, |x| x.ceil(), own),
    ("Floor", 0.0, 0.0, |x| x.floor(), own),
    ("Round", 0.0, 0.0, |x| x.round_ties_even(), own),
    ("Trunc", 0.0, 0.0, |x| x.trunc(), own),
    (
        "Sign",
        0.0,
        0.0,
        |x| {
            if x > 0.0 {
                1.0
            } else if x < 0.0 {
                -1.0
            } else {
                x
            }
        },
        own,
    ),
    ("Sqrt", 0.5, 0.5, |x| x.sqrt(), own),
    ("Rsqrt", 1.5, 0.6, |x| 1.0 / x.sqrt(), own),
    ("Reciprocal", 0.5, 0.5, |x| 1.0 / x, own),
    ("Exp", 2.5, 0.6, |x| x.exp(), own),
    ("Exp2", 2.5, 0.6, |x| x.exp2(), own),
    ("Expm1", 2.5, 0.6, |x| x.exp_m1(), own),
    ("Log", 2.5, 0.6, |x| x.ln(), own),
    ("Log2", 2.5, 0.6, |x| x.log2(), own),
    ("Log1p", 2.5, 0.6, |x| log1p(x), own),
    ("Sin", 2.5, 0.6, |x| x.sin(), own),
    ("Cos", 2.5, 0.6, |x| x.cos(), own),
    ("Tan", 2.5, 0.6, |x| x.tan(), own),
    ("Asin", 2.5, 0.6, |x| x.asin(), own),
    ("Acos", 2.5, 0.6, |x| x.acos(), own),
    ("Atan", 2.5, 0.6, |x| x.atan(), own),
    ("Sinh", 2.5, 0.6, |x| x.sinh(), own),
    ("Cosh", 2.5, 0.6, |x| x.cosh(), own),
    ("Tanh", 2.5, 0.6, |x| x.tanh(), own),
    ("Asinh", 2.5, 0.6, |x| asinh(x), own),
    ("Acosh", 2.5, 0.6, |x| acosh(x), own),
    ("Atanh", 2.5, 0.6, |x| atanh(x), own),
    ("Erf", 2.5, 0.6, |x| erf(x), own),
    ("Sigmoid", 2.5, 0.6, sigmoid, own),
    ("Softplus", 3.0, 0.6, softplus, own),
    ("Softsign", 1.5, 0.6, |x| x / (1.0 + x.abs()), own),
    ("Mish", 4.0, 0.6, |x| x * softplus(x).tanh(), tiny),
    ("Swish", 3.5, 0.6, |x| x * sigmoid(x), tiny),
    // Below 0 the sum of 1 and erf loses their common digits.
    ("Gelu", 3.0, 0.6, |x| x / 2.0 * erfc(-x * core::f64::consts::FRAC_1_SQRT_2), |x| x.abs() / 2.0),
    ("Relu", 0.0, 0.0, |x| if x < 0.0 { 0.0 } else { x }, own),
    ("LeakyRelu", 0.5, 1.0, |x| if x < 0.0 { x * attr(0.01) } else { x }, own),
    ("ThresholdedRelu", 0.0, 0.0, |x| if x <= 1.0 { 0.0 } else { x }, own),
    ("Elu", 2.5, 0.6, |x| if x < 0.0 { x.exp_m1() } else { x }, own),
    ("Celu", 2.5, 0.6, |x| if x < 0.0 { x.exp_m1() } else { x }, own),
    ("Selu", 3.5, 0.6, |x| (if x > 0.0 { x } else { x.exp_m1() * attr(1.673_263_2) }) * attr(1.050_701), own),
    ("HardSigmoid", 1.5, 1.0, |x| (x * attr(0.2) + 0.5).clamp(0.0, 1.0), |x| (x * 0.2).abs().min(0.5)),
    ("HardSwish", 2.0, 1.0, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0), |x| x.abs() / 2.0),
    ("Shrink", 0.0, 0.0, |x| if (-0.5..=0.5).contains(&x) { 0.0 } else { x }, own),
];

/// An activation with attributes, the largest errors in single and half precision, and the
/// function.
type Shaped = (&'static str, &'static [(&'static str, f32)], [f64; 2], fn(f64) -> f64, Size);

/// Activations whose attributes are not the default ones.
const SHAPED: &[Shaped] = &[
    ("Elu", &[("alpha", 0.3)], [3.0, 0.6], |x| if x < 0.0 { attr(0.3) * x.exp_m1() } else { x }, own),
    ("Elu", &[("alpha", 1e-30)], [3.0, 0.6], |x| if x < 0.0 { attr(1e-30) * x.exp_m1() } else { x }, own),
    ("Celu", &[("alpha", 0.3)], [4.0, 0.6], |x| if x < 0.0 { attr(0.3) * (x / attr(0.3)).exp_m1() } else { x }, own),
    ("Celu", &[("alpha", 1e20)], [4.0, 0.6], |x| if x < 0.0 { attr(1e20) * (x / attr(1e20)).exp_m1() } else { x }, own),
    (
        "Celu",
        &[("alpha", 1e-20)],
        [4.0, 0.6],
        |x| if x < 0.0 { attr(1e-20) * (x / attr(1e-20)).exp_m1() } else { x },
        own,
    ),
    (
        "Selu",
        &[("alpha", 0.5), ("gamma", 3.0)],
        [3.5, 0.6],
        |x| (if x > 0.0 { x } else { x.exp_m1() * 0.5 }) * 3.0,
        own,
    ),
    ("LeakyRelu", &[("alpha", -3.0)], [0.5, 1.0], |x| if x < 0.0 { x * -3.0 } else { x }, own),
    ("ThresholdedRelu", &[("alpha", -2.0)], [0.0, 0.0], |x| if x <= -2.0 { 0.0 } else { x }, own),
    // The rounding error of 3 x is exponentiated.
    (
        "Swish",
        &[("alpha", 3.0)],
        [3.5, 0.6],
        |x| x * sigmoid(3.0 * x),
        |x| tiny(x).max((x * sigmoid(3.0 * x)).abs() * (3.0 * x).abs().clamp(1.0, 300.0)),
    ),
    ("HardSigmoid", &[("alpha", 2.0), ("beta", 0.0)], [0.0, 0.0], |x| (x * 2.0 + 0.0).clamp(0.0, 1.0), own),
    (
        "Shrink",
        &[("lambd", 2.0), ("bias", 1.0)],
        [0.5, 0.5],
        |x| {
            if x < -2.0 {
                x + 1.0
            } else if x > 2.0 {
                x - 1.0
            } else if x.is_nan() {
                x
            } else {
                0.0
            }
        },
        |_| 1.0,
    ),
];

/// The number of mantissa bits, and the smallest exponent of a normal number.
struct Kind {
    digits: i32,
    least: i32,
    largest: f64,
}

const SINGLE: Kind = Kind { digits: 23, least: -126, largest: f32::MAX as f64 };
const HALF: Kind = Kind { digits: 10, least: -14, largest: 65504.0 };

impl Kind {
    fn unit(&self, value: f64) -> f64 {
        let exponent = if value == 0.0 { self.least } else { (value.abs().to_bits() >> 52) as i32 - 1023 };
        2f64.powi(exponent.max(self.least) - self.digits)
    }

    /// Returns the error of a result in units, or infinity if it is another kind of number.
    fn error(&self, result: f64, exact: f64, size: f64) -> f64 {
        if exact.is_nan() || result.is_nan() {
            return if exact.is_nan() && result.is_nan() { 0.0 } else { f64::INFINITY };
        }
        if exact == 0.0 && result == 0.0 {
            return if exact.is_sign_negative() == result.is_sign_negative() { 0.0 } else { f64::INFINITY };
        }
        if result == exact {
            return 0.0;
        }
        // A result that is rounded to infinity is measured from the next power of two.
        let end = self.largest + self.unit(self.largest);
        let near = |value: f64| if value.abs() >= end { end.copysign(value) } else { value };
        (near(result) - near(exact)).abs() / self.unit(exact.abs().min(self.largest).max(size))
    }
}

/// All numbers of half precision.
fn halves() -> Constant {
    Constant::new(F16, &[1 << 16], (0..=u16::MAX).flat_map(u16::to_le_bytes).collect::<Vec<u8>>()).unwrap()
}

/// For each exponent and sign 64 numbers, including powers of two and their neighbours.
fn singles() -> Constant {
    let mut state = 1_u32;
    let mut bits = Vec::new();
    for high in 0..512_u32 {
        for number in 0..64_u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let mantissa = match number {
                0..=2 => number,
                3 => (1 << 23) - 1,
                _ => state >> 9,
            };
            bits.push(high << 23 | mantissa);
        }
    }
    let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    Constant::new(F32, &[bits.len() as i64], bytes).unwrap()
}

/// Returns the largest error of an operator, and its place.
fn largest(kind: &Kind, program: &Program, x: &Constant, exact: fn(f64) -> f64, size: Size) -> (f64, f64) {
    let results = program.run(&[x])[0].to_floats().unwrap();
    let values = x.to_floats().unwrap();
    let errors = values.iter().zip(&results).map(|(x, result)| (kind.error(*result, exact(*x), size(*x)), *x));
    errors.fold((0.0, 0.0), |worst, own| if own.0 > worst.0 { own } else { worst })
}

#[test]
fn errors_are_within_the_table() {
    let inputs = [(singles(), SINGLE), (halves(), HALF)];
    let mut wrong = Vec::new();
    for (name, single, half, exact, size) in ROWS {
        let mut line = format!("| {name} |");
        for ((x, kind), limit) in inputs.iter().zip([single, half]) {
            let program = Program::new(name, &[], &[Some((x, true))], 1).unwrap();
            let (error, place) = largest(kind, &program, x, *exact, *size);
            line.push_str(&format!(" {error:.2} |"));
            if error > *limit {
                wrong.push(format!("{name} of {}: {error} units at {place:e}, {limit} are allowed", x.dtype()));
            }
        }
        println!("{line}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Like the table of functions, with attributes.
#[test]
fn activations_with_attributes() {
    let inputs = [(singles(), SINGLE), (halves(), HALF)];
    let mut wrong = Vec::new();
    for (name, numbers, limits, exact, size) in SHAPED {
        let attrs: Vec<(&str, Attr)> = numbers.iter().map(|(name, value)| (*name, Attr::Float(*value))).collect();
        for ((x, kind), limit) in inputs.iter().zip(limits) {
            let program = Program::new(name, &attrs, &[Some((x, true))], 1).unwrap();
            let (error, place) = largest(kind, &program, x, *exact, *size);
            println!("{name} {numbers:?} of {}: {error:.2} at {place:e}", x.dtype());
            if error > *limit {
                wrong.push(format!("{name} {numbers:?} of {}: {error} units at {place:e}", x.dtype()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rows of one number next to another one that is smaller by that amount, and rows of numbers far
/// from 0: the subtraction loses no digits, and nothing overflows.
#[test]
fn logarithms_of_shares() {
    let gaps: Vec<f64> = (-40..=40).map(|gap| f64::from(gap) * 2.7).chain([0.0, 1e-3, 1e4, -1e4, 3e38]).collect();
    for (dtype, kind) in [(F32, &SINGLE), (F16, &HALF)] {
        for base in [0.0, 1.0, -700.0, 60000.0, -1e30] {
            let fits = |value: f64| value.abs() <= kind.largest;
            let rows: Vec<f64> =
                gaps.iter().filter(|gap| fits(base + **gap)).flat_map(|gap| [base, base + gap]).collect();
            if rows.is_empty() || !fits(base) {
                continue;
            }
            let x = known(dtype, &[rows.len() as i64 / 2, 2], &rows);
            let rows = x.to_floats().unwrap();
            for (name, is_log) in [("LogSoftmax", true), ("Softmax", false)] {
                let program = Program::new(name, &[], &[Some((&x, true))], 1).unwrap();
                let found = program.run(&[&x])[0].to_floats().unwrap();
                for (row, found) in rows.chunks(2).zip(found.chunks(2)) {
                    for (own, other, found) in [(row[0], row[1], found[0]), (row[1], row[0], found[1])] {
                        let log = 0.0 - softplus(other - own);
                        // For a sum of shares near 1 the last place of 1 is lost, and the rounding
                        // error of a difference is exponentiated.
                        let share = log.exp();
                        let rounded = share * log.abs().clamp(1.0, 300.0);
                        let (exact, size) = if is_log { (log, 1.0) } else { (share, rounded.max(tiny(0.0))) };
                        let error = kind.error(found, exact, size);
                        assert!(error <= 4.0, "{name} of {own:e} beside {other:e}: {found:e}, not {exact:e}: {error}");
                    }
                }
            }
        }
    }
}

/// Powers with exponents that have separate formulas, and remainders as in C.
#[test]
fn operators_of_two_inputs() {
    let x = singles();
    let values = x.to_floats().unwrap();
    for exponent in [0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -0.5, 1.5, 7.0] {
        let by = known(F32, &[], &[exponent]);
        let program = Program::new("Pow", &[], &[Some((&x, true)), Some((&by, false))], 1).unwrap();
        for (x, result) in values.iter().zip(program.run(&[&x])[0].to_floats().unwrap()) {
            let error = SINGLE.error(result, x.powf(exponent), 0.0);
            assert!(error <= 1.5, "{x:e} ^ {exponent}: {result:e}, {error} units");
        }
    }
    let fmod = [("fmod", Attr::Int(1))];
    for (x, kind) in [(singles(), &SINGLE), (halves(), &HALF)] {
        let values = x.to_floats().unwrap();
        for step in [1, 97, 4099] {
            let turned: Vec<f64> = (0..values.len()).map(|place| values[(place * 31 + step) % values.len()]).collect();
            let y = known(x.dtype(), x.shape(), &turned);
            let program = Program::new("Mod", &fmod, &[Some((&x, true)), Some((&y, true))], 1).unwrap();
            let results = program.run(&[&x, &y])[0].to_floats().unwrap();
            for ((x, y), result) in values.iter().zip(&turned).zip(results) {
                let error = kind.error(result, x % y, 0.0);
                assert!(error == 0.0, "fmod({x:e}, {y:e}): {result:e}, not {:e}", x % y);
            }
        }
    }
    // Powers of integers are integers.
    let (bases, exponents): (Vec<i64>, Vec<i64>) =
        (-12..=12).flat_map(|base| (0..=14).map(move |exponent| (base, exponent))).unzip();
    let count = bases.len() as i64;
    let [x, y] = [&bases, &exponents].map(|values| Constant::of_ints(values).reshaped(&[count]).unwrap());
    let program = Program::new("Pow", &[], &[Some((&x, true)), Some((&y, true))], 1).unwrap();
    let results = program.run(&[&x, &y])[0].to_ints().unwrap();
    for ((base, exponent), result) in bases.iter().zip(&exponents).zip(results) {
        let exact = base.pow(u32::try_from(*exponent).unwrap());
        assert_eq!(result, exact, "{base} ^ {exponent}");
    }
}

/// A new elementwise operator must have a row, or be one of these: moved elements, booleans,
/// integers, single operations on two inputs, and those of the test above.
#[test]
fn every_formula_has_a_row() {
    const OTHERS: &[&str] = &[
        "Add",
        "And",
        "BatchNormalization",
        "Binarizer",
        "BitCast",
        "BitShift",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "Cast",
        "CastLike",
        "Clip",
        "DequantizeLinear",
        "Div",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "IsInf",
        "IsNaN",
        "Less",
        "LessOrEqual",
        "Max",
        "Mean",
        "Min",
        "Mod",
        "Mul",
        "Not",
        "Or",
        "PRelu",
        "Pow",
        "QuantizeLinear",
        "Sub",
        "Sum",
        "SwiGLU",
        "Trilu",
        "Where",
        "Xor",
    ];
    let is_listed = |name: &&str| ROWS.iter().any(|(row, ..)| row == name) || OTHERS.contains(name);
    let is_formula = |name: &&str| op::find(name).unwrap().pattern == op::Pattern::Elementwise;
    let missing: Vec<_> = op::names().into_iter().filter(is_formula).filter(|name| !is_listed(name)).collect();
    assert!(missing.is_empty(), "say how large the errors of {missing:?} may be");
}
