"""Minimax polynomials for the functions of this folder.

Each fit is a Remez exchange on a grid, with a weight that makes the error relative to the function. Coefficients are rounded one after the other, from
degree 0 up, and the rest is fitted again after each, so that rounding errors are made up for. Needs mpmath:

    python fit.py              # all
    python fit.py asin32       # one

Prints the coefficients from degree 0 up, and log2 of the largest weighted error with the rounded coefficients.
"""

import sys

import mpmath as mp
from mpmath import mpf

mp.mp.dps = 45


def round_to(bits, value):
    mantissa, exponent = mp.frexp(value)
    return mp.ldexp(mp.nint(mp.ldexp(mantissa, bits)), exponent - bits)


def solve(values, weights, powers, start):
    """The polynomial with these powers that is nearest to `values` on the grid: coefficients."""
    count = len(powers)
    size = len(values)
    picks = [round(k * (size - 1) / count) for k in range(count + 1)]
    coefficients = []
    for _ in range(40):
        matrix = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for row, pick in enumerate(picks):
            for column in range(count):
                matrix[row, column] = weights[pick] * powers[column][pick]
            matrix[row, count] = (-1) ** row
            right[row] = weights[pick] * values[pick]
        solution = mp.lu_solve(matrix, right)
        coefficients = [solution[k] for k in range(count)]
        errors = [
            weights[i] * (values[i] - mp.fsum(coefficients[k] * powers[k][i] for k in range(count))) for i in range(size)
        ]
        # The largest error of each run of one sign.
        extremes = []
        for i, error in enumerate(errors):
            if extremes and mp.sign(errors[extremes[-1]]) == mp.sign(error):
                if abs(error) > abs(errors[extremes[-1]]):
                    extremes[-1] = i
            else:
                extremes.append(i)
        while len(extremes) > count + 1:
            smallest = min(range(len(extremes)), key=lambda k: abs(errors[extremes[k]]))
            if len(extremes) == count + 2 or smallest in (0, len(extremes) - 1):
                # One too many: an end goes, so that signs still alternate.
                extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
            else:
                beside = max(smallest - 1, smallest + 1, key=lambda k: -abs(errors[extremes[k]]))
                for k in sorted((smallest, beside), reverse=True):
                    extremes.pop(k)
        if len(extremes) < count + 1:
            break
        largest = max(abs(error) for error in errors)
        if extremes == picks or largest < abs(solution[count]) * mpf("1.0001"):
            break
        picks = extremes
    return coefficients


def fit(function, weight, interval, degree, bits, points=700):
    low, high = mpf(interval[0]), mpf(interval[1])
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (k + mpf(1) / 2) / points) for k in range(points)]
    values = [function(x) for x in grid]
    weights = [weight(x) for x in grid]
    powers = [[x**k for x in grid] for k in range(degree + 1)]
    original = list(values)
    rounded = []
    for k in range(degree + 1):
        best = solve(values, weights, powers[k:], k)[0]
        best = round_to(bits, best)
        rounded.append(best)
        values = [value - best * power for value, power in zip(values, powers[k])]
    error = max(
        abs(weights[i] * (original[i] - mp.fsum(rounded[k] * powers[k][i] for k in range(degree + 1))))
        for i in range(points)
    )
    return rounded, mp.log(error, 2)


def odd(function):
    """(f(x) - x) / x^3 in z = x^2."""
    return lambda z: (function(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3


def odd_weight(function):
    return lambda z: mp.sqrt(z) ** 3 / function(mp.sqrt(z))


def log_ratio(z):
    """(ln((1+s)/(1-s)) - 2 s) / s^3 in z = s^2."""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / s**3


def log_erfc(x):
    return -mp.log(mp.erfc(x))


HALF_LN2 = mp.log(2) / 2 + mpf("1e-6")
QUARTER = (mp.pi / 4 + mpf("1e-6")) ** 2
SQRT2 = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) + mpf("1e-8")

exp_tail = (lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: r**2 / mp.exp(r), (-HALF_LN2, HALF_LN2))
expm1_tail = (lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: abs(r**2 / mp.expm1(r)), (-HALF_LN2, HALF_LN2))
exp2_tail = (lambda r: (mp.mpf(2) ** r - 1) / r, lambda r: r / mp.mpf(2) ** r, ("-0.50001", "0.50001"))
log_tail = (log_ratio, lambda z: z, (0, SQRT2**2))

FITS = {
    # name: (function, weight, interval, degree, bits)
    "exp32": (*exp_tail, 4, 24),
    "log32": (
        lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
        lambda f: abs(f**3 / mp.log1p(f)),
        (mp.sqrt(2) / 2 - 1, mp.sqrt(2) - 1),
        8,
        24,
    ),
    "tanh32": (odd(mp.tanh), odd_weight(mp.tanh), (0, "0.391"), 5, 24),
    "erf_small32": (
        lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
        lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)),
        ("1e-12", "0.85"),
        6,
        24,
    ),
    "erf_large32": (log_erfc, mp.erfc, ("0.92", "3.93"), 6, 24),
    "sin32": (odd(mp.sin), odd_weight(mp.sin), (0, QUARTER), 2, 24),
    "cos32": (
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
        lambda z: z**2 / mp.cos(mp.sqrt(z)),
        ("1e-8", QUARTER),
        2,
        24,
    ),
    "exp2_32": (*exp2_tail, 5, 24),
    "expm1_32": (*expm1_tail, 5, 24),
    "sinh32": (odd(mp.sinh), odd_weight(mp.sinh), (0, 1), 3, 24),
    "asin32": (odd(mp.asin), odd_weight(mp.asin), (0, "0.25"), 4, 24),
    "atan32": (odd(mp.atan), odd_weight(mp.atan), (0, 1), 8, 24),
    "pow_exp2_32": (*exp2_tail, 6, 53),
    "pow_log_32": (log_tail[0], log_tail[1], log_tail[2], 4, 53),
    "tan_32": (odd(mp.tan), odd_weight(mp.tan), (0, QUARTER), 6, 53),
    "exp64": (*exp_tail, 10, 53),
    "expm1_64": (*expm1_tail, 10, 53),
    "exp2_64": (*exp2_tail, 11, 53),
    "log64": (log_tail[0], log_tail[1], log_tail[2], 6, 53),
    "tanh64": (odd(mp.tanh), odd_weight(mp.tanh), (0, "0.391"), 11, 53),
    "erf_small64": (
        lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
        lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)),
        ("1e-12", "0.85"),
        11,
        53,
    ),
    "erf_middle64": (lambda t: log_erfc(t + mpf("1.5")), lambda t: mp.erfc(t + mpf("1.5")), ("-0.6", "0.6"), 15, 53),
    "erf_large64": (lambda t: log_erfc(t + mpf("4")), lambda t: mp.erfc(t + mpf("4")), ("-1.92", "1.98"), 12, 53),
    "sin64": (odd(mp.sin), odd_weight(mp.sin), (0, QUARTER), 6, 53),
    "cos64": (
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
        lambda z: z**2 / mp.cos(mp.sqrt(z)),
        ("1e-8", QUARTER),
        6,
        53,
    ),
    "tan64": (odd(mp.tan), odd_weight(mp.tan), (0, QUARTER), 13, 53),
    "sinh64": (odd(mp.sinh), odd_weight(mp.sinh), (0, 1), 7, 53),
    "asin64": (odd(mp.asin), odd_weight(mp.asin), (0, "0.25"), 12, 53),
    "atan64": (odd(mp.atan), odd_weight(mp.atan), (0, "0.1915"), 10, 53),
    "pow_log64": (
        # ln((1+s)/(1-s)) = 2 s + 2/3 s^3 + s^5 P(s^2)
        lambda z: (2 * mp.atanh(mp.sqrt(z)) - 2 * mp.sqrt(z) - mpf(2) / 3 * mp.sqrt(z) ** 3) / mp.sqrt(z) ** 5,
        lambda z: z**2,
        (0, SQRT2**2),
        8,
        53,
    ),
}


def main():
    for name in sys.argv[1:] or FITS:
        function, weight, interval, degree, bits = FITS[name]
        coefficients, error = fit(function, weight, interval, degree, bits)
        print(f"{name}: error 2^{float(error):.2f}")
        print("   ", ", ".join(repr(float(c)) for c in coefficients), flush=True)


if __name__ == "__main__":
    main()
