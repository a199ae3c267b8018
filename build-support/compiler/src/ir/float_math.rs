//! The math functions by name, as implemented for the evaluator and the interpreter.

// SAFETY: a function of the C library, which every std program links; it takes and returns a plain
// double.
unsafe extern "C" {
    safe fn erf(x: f64) -> f64;
}

/// Computes a math function of one or two arguments in double precision. Rounded to single
/// precision, the result is within slightly more than half a unit of the exact value. Functions of
/// one argument do not read `y`. Returns `None` for an unknown name.
pub(crate) fn float_math(name: &str, x: f64, y: f64) -> Option<f64> {
    Some(match name {
        "exp" => x.exp(),
        "exp2" => x.exp2(),
        "expm1" => x.exp_m1(),
        "log" => x.ln(),
        "log2" => x.log2(),
        "log10" => x.log10(),
        "log1p" => x.ln_1p(),
        "tanh" => x.tanh(),
        // e^-x overflows far below zero.
        "sigmoid" if x < 0.0 => x.exp() / (1.0 + x.exp()),
        "sigmoid" => 1.0 / (1.0 + (-x).exp()),
        "erf" => erf(x),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tan" => x.tan(),
        "sinh" => x.sinh(),
        "cosh" => x.cosh(),
        "asin" => x.asin(),
        "acos" => x.acos(),
        "atan" => x.atan(),
        "atan2" => x.atan2(y),
        "sqrt" => x.sqrt(),
        "rsqrt" => 1.0 / x.sqrt(),
        "pow" => x.powf(y),
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        "trunc" => x.trunc(),
        "round" => x.round_ties_even(),
        "nanmin" | "nanmax" if x.is_nan() || y.is_nan() => f64::NAN,
        // -0.0 is treated as less than 0.0.
        "nanmin" if x == y => [x, y][usize::from(x.is_sign_positive())],
        "nanmax" if x == y => [x, y][usize::from(x.is_sign_negative())],
        "nanmin" => x.min(y),
        "nanmax" => x.max(y),
        _ => return None,
    })
}

/// `a * b + c` of half precision or bfloat16, as a double that is still to be rounded to the type.
/// The product is exact. The sum is rounded to odd, so that the second rounding does not see a
/// false tie.
pub(crate) fn small_fma(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    let back = sum - product;
    let error = (product - (sum - back)) + (c - back);
    if error == 0.0 || !sum.is_finite() || sum.to_bits() & 1 == 1 {
        return sum;
    }
    let is_short = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if is_short { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_and_largest_pass_nan_on_and_order_zeros() {
        let of = |name, x, y| float_math(name, x, y).unwrap();
        for name in ["nanmin", "nanmax"] {
            assert!(of(name, f64::NAN, 1.0).is_nan() && of(name, 1.0, f64::NAN).is_nan());
        }
        for (x, y) in [(0.0, -0.0), (-0.0, 0.0)] {
            assert!(of("nanmin", x, y).is_sign_negative() && of("nanmax", x, y).is_sign_positive());
        }
        assert_eq!((of("nanmin", 1.0, 2.0), of("nanmax", 1.0, 2.0)), (1.0, 2.0));
        assert_eq!(float_math("cube", 1.0, 1.0), None);
    }

    #[test]
    fn far_arguments_have_values() {
        assert!(float_math("sigmoid", -720.0, 0.0).unwrap() > 0.0);
        assert_eq!(float_math("erf", f64::INFINITY, 0.0), Some(1.0));
        assert!((float_math("erf", 0.5, 0.0).unwrap() - 0.520_499_877_813_046_5).abs() < 4e-16);
    }
}
