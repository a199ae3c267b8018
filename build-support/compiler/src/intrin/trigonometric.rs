//! sin, cos, tan.

use super::format::Format;
use super::formula::{Formula, Value};
use super::reduction::{self, Angle, LIMIT32, LIMIT64};
use crate::ir::F32;

const SIN32: &[f64] = &[-0.16666655242443085, 0.008332188241183758, -0.00019518093904480338];
const SIN64: &[f64] = &[
    -0.16666666666666666,
    0.00833333333333304,
    -0.00019841269840959285,
    2.7557319071879993e-06,
    -2.505207028334306e-08,
    1.6054220464040514e-10,
    -7.384540102171316e-13,
];
/// `(cos r - 1 + r^2 / 2) / r^4` in r^2.
const COS32: &[f64] = &[0.04166664555668831, -0.0013887309469282627, 2.4432327336398885e-05];
const COS64: &[f64] = &[
    0.041666666666666664,
    -0.0013888888888888389,
    2.4801587301180814e-05,
    -2.755731906067912e-07,
    2.0876722008284135e-09,
    -1.1466861802740123e-11,
    4.59269055968666e-14,
];
/// For single precision, as doubles.
const TAN32: &[f64] = &[
    0.3333334975736876,
    0.13332663264219824,
    0.054059923924614776,
    0.02128215320547474,
    0.010835891003874271,
    8.945021189083342e-05,
    0.00437631122209174,
];
const TAN64: &[f64] = &[
    0.3333333333333278,
    0.1333333333341413,
    0.05396825392688529,
    0.021869489604073686,
    0.008863219230803906,
    0.0035922884985598222,
    0.0014547613906519775,
    0.0005950506945801771,
    0.0002224204124719258,
    0.0001364431430725532,
    -2.6271294340806485e-05,
    8.934763469269956e-05,
    -4.482039517055421e-05,
    2.084981823582411e-05,
];

/// The function of an angle; the numbers are quarter turns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wave {
    Sin = 0,
    Cos = 1,
}

/// Sine or cosine.
pub(super) fn wave<'a>(formula: &'a Formula, format: &Format, x: Value<'a>, wave: Wave) -> Value<'a> {
    let of = |angle: Angle<'a>| of_angle(formula, format, angle, wave);
    let result = by_size(formula, format, x, &of, |x| match (format.is_double(), formula.has_fma()) {
        (true, _) => (reduction::double(x), LIMIT64),
        (false, true) => (reduction::single(x), LIMIT32),
        (false, false) => (reduction::to_single(reduction::single_by_double(x)), LIMIT64),
    });
    match wave {
        // Keeps the sign of a zero.
        Wave::Sin => x.eq(0.0).select(x, result),
        Wave::Cos => result,
    }
}

/// Computes a function of an angle: with the usual reduction, or with the other one for lanes that
/// are too large.
fn by_size<'a>(
    formula: &'a Formula,
    format: &Format,
    x: Value<'a>,
    of: &dyn Fn(Angle<'a>) -> Value<'a>,
    usual: impl FnOnce(Value<'a>) -> (Angle<'a>, f64),
) -> Value<'a> {
    let (angle, limit) = usual(x);
    // NaN counts as large.
    let large = x.abs().le(limit).not();
    formula.rarely(
        large,
        || {
            let angle = reduction::large(formula, format, x);
            of(if format.is_double() || angle.low.is_some() { angle } else { reduction::to_single(angle) })
        },
        || of(angle),
    )
}

fn of_angle<'a>(formula: &'a Formula, format: &Format, angle: Angle<'a>, wave: Wave) -> Value<'a> {
    let Angle { quadrant, r, low } = angle;
    let z = r * r;
    let half = z * 0.5;
    let (sin_tail, cos_tail) =
        (formula.polynomial(z, format.pick(SIN32, SIN64)), z * z * formula.polynomial(z, format.pick(COS32, COS64)));
    let (sin, cos) = match low {
        None => {
            let one = z.like(1.0);
            ((r * z).mul_add(sin_tail, r), (one - half) + cos_tail)
        }
        Some(low) => {
            let top = half.like(1.0) - half;
            let lost = (half.like(1.0) - top) - half;
            let sin = r + (r * z).mul_add(sin_tail, top * low);
            (sin, top + (lost + (cos_tail - r * low)))
        }
    };
    let quadrant = if wave == Wave::Cos { quadrant + 1 } else { quadrant };
    let chosen = (quadrant & 1).ne(0).select(cos, sin);
    // Bit 1 is the sign.
    let sign = (quadrant >> 1) << (i64::from(format.dtype.bits()) - 1);
    (chosen.bits() ^ sign).float_of_bits()
}

/// Tangent; single precision is computed in double precision.
pub(super) fn tan<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let of = |angle: Angle<'a>| {
        let Angle { quadrant, r, low } = angle;
        let z = r * r;
        let tail = r * z * formula.polynomial(z, format.pick(TAN32, TAN64));
        let tail = match low {
            None => tail,
            // The derivative is 1 + tan^2.
            Some(low) => {
                let tan = r + tail;
                tail + (tan * tan).mul_add(low, low)
            }
        };
        let tan = r + tail;
        let odd = (quadrant & 1).ne(0);
        odd.select(-1.0, tan) / odd.select(tan, tan.like(1.0))
    };
    let result = if format.is_double() {
        by_size(formula, format, x, &of, |x| (reduction::double(x), LIMIT64))
    } else {
        let large = x.abs().le(LIMIT64).not();
        let result =
            formula.rarely(large, || of(reduction::large(formula, format, x)), || of(reduction::single_by_double(x)));
        result.cast(F32)
    };
    x.eq(0.0).select(x, result)
}
