//! The error function: a polynomial near 0, `1 - exp(-q(x))` with a polynomial q beyond.

use super::exponential::exp_in_range;
use super::format::Format;
use super::formula::{Formula, Value};

/// `erf(x) / x - 1` in x^2, below [`BORDER`].
const SMALL32: &[f64] = &[
    0.12837916612625122,
    -0.3761262893676758,
    0.11283625662326813,
    -0.026855740696191788,
    0.0051924604922533035,
    -0.0008050804026424885,
    8.002774848137051e-05,
];
const SMALL64: &[f64] = &[
    0.1283791670955126,
    -0.3761263890318408,
    0.11283791670969558,
    -0.026866170647597113,
    0.0052239776468995325,
    -0.0008548328096935225,
    0.00012055365533882003,
    -1.4926248744587974e-05,
    1.646823522716821e-06,
    -1.638653115760429e-07,
    1.458170124112795e-08,
    -9.598105736252463e-10,
];
/// `-ln erfc(x)` from there on, up to 3.93.
const LARGE32: &[f64] = &[
    0.0001665371673880145,
    1.1277968883514404,
    0.6369766592979431,
    0.10411319136619568,
    -0.02231498807668686,
    0.003065436612814665,
    -0.00019821447494905442,
];
/// `-ln erfc(x)` in double precision, as a polynomial in x - 1.5, for x below 2.1.
const MIDDLE64: &[f64] = &[
    3.3844920895515527,
    3.508800801779528,
    0.8926403306150531,
    0.02582414063364356,
    -0.0060067463873091625,
    0.0012572166858732382,
    -0.00021596328875306953,
    2.2473712734433274e-05,
    2.646695939379751e-06,
    -2.371082324509368e-06,
    8.193511809413557e-07,
    -1.9146522654166992e-07,
    2.6687054716615784e-08,
    -1.437656897593297e-09,
    -1.6132757010775923e-09,
    3.128917017678178e-09,
];
/// The same in x - 4, up to 5.98.
const LARGE64: &[f64] = &[
    17.987778312135173,
    8.236376892185218,
    0.9734445823461415,
    0.003793121435410672,
    -0.0005821748949793571,
    9.105543252880298e-05,
    -1.3988901772245153e-05,
    2.389289567945016e-06,
    -8.645733676709898e-08,
    1.7824731872242618e-07,
    4.500024622839147e-08,
    1.173530271129246e-08,
    1.078916577638336e-09,
];

const BORDER: f64 = 0.921875;

/// The error function.
pub(super) fn erf<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let size = x.abs();
    let square = size * size;
    let small = size.mul_add(formula.polynomial(square, format.pick(SMALL32, SMALL64)), size);
    let q = if format.is_double() {
        let limited = size.at_most(5.95);
        let middle = formula.polynomial(limited - 1.5, MIDDLE64);
        let large = formula.polynomial(limited - 4.0, LARGE64);
        limited.lt(2.09).select(middle, large)
    } else {
        formula.polynomial(size.at_most(3.93), LARGE32)
    };
    let large = size.like(1.0) - exp_in_range(formula, format, -q, 0);
    size.lt(BORDER).select(small, large).copysign(x)
}
