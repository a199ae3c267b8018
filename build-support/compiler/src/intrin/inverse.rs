//! asin, acos, atan, atan2.

use super::exact::fast_two_sum;
use super::format::Format;
use super::formula::{Formula, Value};

/// `(asin x - x) / x^3` in x^2 up to 1/4.
const ASIN32: &[f64] =
    &[0.16666752099990845, 0.074953094124794, 0.04546914994716644, 0.024184778332710266, 0.042158305644989014];
const ASIN64: &[f64] = &[
    0.1666666666666676,
    0.07499999999970865,
    0.044642857174563205,
    0.03038194270972723,
    0.022372214940380452,
    0.01735161276461291,
    0.013980812447925563,
    0.011398972574048817,
    0.010779942001401779,
    0.003707494922919845,
    0.021704987496150355,
    -0.02099580704680772,
    0.03262671160192704,
];
/// `(atan x - x) / x^3` in x^2: up to 1.
const ATAN32: &[f64] = &[
    -0.33333298563957214,
    0.1999852955341339,
    -0.14264015853405,
    0.10950879007577896,
    -0.08399289101362228,
    0.0578807108104229,
    -0.03109576366841793,
    0.010867655277252197,
    -0.0017824906390160322,
];
/// `(atan x - x) / x^3` in x^2, up to 7/16.
const ATAN64: &[f64] = &[
    -0.3333333333333292,
    0.1999999999987357,
    -0.14285714272240874,
    0.11111110393794184,
    -0.09090886836224818,
    0.07691871529794712,
    -0.06661026177540123,
    0.058332682776650296,
    -0.04975676362627836,
    0.036504593213701364,
    -0.016259700637334278,
];

/// pi / 2 in two parts.
fn half_pi(format: &Format) -> [f64; 2] {
    format.pick([1.5707963705062866, -4.371138828673793e-08], [core::f64::consts::FRAC_PI_2, 6.123233995736766e-17])
}

/// The reduced argument for |x|: true if it is more than 1/2, and the asin of a number up to 1/2 as
/// two parts. The number is |x|, or the root of (1 - |x|) / 2, which is the sine of half the
/// difference between pi / 2 and the angle of |x|.
struct Arc<'a> {
    beyond: Value<'a>,
    root: Value<'a>,
    tail: Value<'a>,
}

fn arc<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Arc<'a> {
    let size = x.abs();
    let beyond = size.gt(0.5);
    let z = beyond.select((size.like(1.0) - size) * 0.5, size * size);
    let root = beyond.select(z.sqrt(), size);
    let mut tail = root * z * formula.polynomial(z, format.pick(ASIN32, ASIN64));
    // The rounding error of the root: (z - root^2) / (2 root), with root^2 exact.
    if format.is_double() {
        let top = (root.bits() & -0x800_0000).float_of_bits();
        let rest = root - top;
        let lost = ((z - top * top) - (top + top) * rest) - rest * rest;
        let correction = beyond.and(z.gt(0.0)).select(lost / (root + root), z.like(0.0));
        tail = tail + correction;
    }
    Arc { beyond, root, tail }
}

/// Arc sine.
pub(super) fn asin<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let Arc { beyond, root, tail } = arc(formula, format, x);
    let [high, low] = half_pi(format);
    // pi / 2 - 2 (root + tail)
    let far = (root.like(high) - (root + root)) - ((tail + tail) - low);
    beyond.select(far, root + tail).copysign(x)
}

/// Arc cosine.
pub(super) fn acos<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let Arc { beyond, root, tail } = arc(formula, format, x);
    let [high, low] = half_pi(format);
    let negative = x.lt(0.0);
    // Near 0: pi / 2 - (x + tail), where x has its sign.
    let near = root.like(high) - (x - (tail.copysign(x).like(low) - tail.copysign(x)));
    let double = (root + tail) * 2.0;
    let opposite = root.like(2.0 * high) - ((root + root) + ((tail + tail) - 2.0 * low));
    let far = negative.select(opposite, double);
    // Beyond 1 the root is NaN.
    beyond.select(far, near)
}

/// atan of a quotient that is not negative: `base + atan(t)`, base in two parts.
struct Turned<'a> {
    t: Value<'a>,
    base: Value<'a>,
    base_low: Value<'a>,
}

/// In double precision: the angle of (x, y), both not negative, minus one of the angles whose
/// tangents are 0, 1/2, 1, 3/2, infinity.
fn turn<'a>(y: Value<'a>, x: Value<'a>) -> Turned<'a> {
    let [high, low] = [core::f64::consts::FRAC_PI_2, 6.123233995736766e-17];
    let steps = [
        (0.4375, y - x * 0.5, x + y * 0.5, 0.4636476090008061, 2.2698777452961687e-17),
        (0.6875, y - x, x + y, core::f64::consts::FRAC_PI_4, 3.061616997868383e-17),
        (1.1875, y - x * 1.5, x + y * 1.5, 0.982793723247329, 1.3903311031230998e-17),
        (2.4375, -x, y, high, low),
    ];
    let (mut above, mut below) = (y, x);
    let (mut base, mut base_low) = (y.like(0.0), y.like(0.0));
    for (limit, numerator, denominator, angle, angle_low) in steps {
        let reached = y.ge(x * limit);
        above = reached.select(numerator, above);
        below = reached.select(denominator, below);
        base = reached.select(angle, base);
        base_low = reached.select(angle_low, base_low);
    }
    Turned { t: above / below, base, base_low }
}

/// Arc tangent.
pub(super) fn atan<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let size = x.abs();
    if format.is_double() {
        // Beyond 2^60 the result is pi / 2; products with infinity are NaN.
        let Turned { t, base, base_low } = turn(size.at_most(2f64.powi(60)), size.like(1.0));
        return atan_of(formula, t, base, base_low).copysign(x);
    }
    let beyond = size.gt(1.0);
    let t = beyond.select(-1.0, size) / beyond.select(size, size.like(1.0));
    let [high, low] = half_pi(format);
    let z = t * t;
    let tail = t * z * formula.polynomial(z, ATAN32);
    let far = t.like(high) + (t + (tail + low));
    beyond.select(far, t + tail).copysign(x)
}

fn atan_of<'a>(formula: &'a Formula, t: Value<'a>, base: Value<'a>, base_low: Value<'a>) -> Value<'a> {
    let z = t * t;
    let tail = t * z * formula.polynomial(z, ATAN64);
    base + (t + (tail + base_low))
}

/// The angle of the point (x, y).
pub(super) fn atan2<'a>(formula: &'a Formula, format: &Format, y: Value<'a>, x: Value<'a>) -> Value<'a> {
    let (ay, ax) = (y.abs(), x.abs());
    let steep = ay.gt(ax);
    let (large, small) = (steep.select(ay, ax), steep.select(ax, ay));
    // 0 for two zeros, 1 for two infinities.
    let both_zero = large.eq(0.0);
    let both_infinite = small.eq(f64::INFINITY).and(large.eq(f64::INFINITY));
    let quotient = |small: Value<'a>, large: Value<'a>| {
        let below = both_zero.select(1.0, large);
        let t = small / below;
        both_infinite.select(1.0, t)
    };
    let [high, low] = half_pi(format);
    let negative = (x.bits() >> (i64::from(format.dtype.bits()) - 1)).ne(0);
    // atan(t) as t + tail, to which a multiple of pi / 2 is added: the sum loses less than one
    // digit.
    let (t, tail) = if format.is_double() {
        let t = quotient(small, large);
        let Turned { t: turned, base, base_low } = turn(t, t.like(1.0));
        let z = turned * turned;
        let tail = turned * z * formula.polynomial(z, ATAN64);
        let (sum, lost) = fast_two_sum(base, turned);
        // Where base is 0 the sum is exact.
        (sum, lost + (tail + base_low))
    } else {
        let t = quotient(small, large);
        let z = t * t;
        (t, t * z * formula.polynomial(z, ATAN32))
    };
    let turns = |count: f64| (t.like(count * high), count * low);
    // |y| > |x|: pi / 2 - a; then, for x < 0, pi - that.
    let (quarter, quarter_low) = turns(1.0);
    let (half, half_low) = turns(2.0);
    let flat = t + tail;
    let upright = quarter - (t - (t.like(quarter_low) - tail));
    let back = half - (t - (t.like(half_low) - tail));
    let upright_back = quarter + (t + (tail + quarter_low));
    let forward = steep.select(upright, flat);
    let backward = steep.select(upright_back, back);
    let result = negative.select(backward, forward).copysign(y);
    // NaN if either argument is NaN.
    (x + y).is_nan().and(both_infinite.not()).select(x + y, result)
}
