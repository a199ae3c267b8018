//! Each operation on each type, as scalars and as vectors, compared with the oracle of the
//! analyzer's tests.

use kernpack_compiler::intrin::lower_floor_div;
use kernpack_compiler::ir::builder::{round_float, try_binary, wrap_int};
use kernpack_compiler::ir::{
    BF16, BinaryOp, Buffer, CompareOp, DataType, DataTypeExt, Expr, F16, F32, F64, ForKind, I8, I16, I32, I64,
    LoweredFunc, Stmt, U8, U16, Var,
};

use crate::compile::{WAYS, buffer, function, memory, numbers, run};
use crate::integers::{OPS, TYPES, arithmetic, wrapped};

/// Numbers of lanes: GNU C has vectors of 4, but not of 3.
const LANES: [u16; 3] = [1, 4, 3];

fn name(dtype: DataType) -> String {
    dtype.short_name()
}

fn c_type(dtype: DataType) -> &'static str {
    match (dtype.is_float(), dtype.is_uint() || dtype.bits() == 16 && dtype.is_float(), dtype.bits()) {
        (true, _, 64) => "double",
        (true, _, 32) => "float",
        (_, true, 8) => "uint8_t",
        (_, true, 16) => "uint16_t",
        (_, true, 32) => "uint32_t",
        (_, true, _) => "uint64_t",
        (_, _, 8) => "int8_t",
        (_, _, 16) => "int16_t",
        (_, _, 32) => "int32_t",
        _ => "int64_t",
    }
}

/// `out[i] = f(x[i], y[i])` for `count` elements, a multiple of `lanes`.
fn each(
    symbol: &str,
    from: DataType,
    to: DataType,
    lanes: u16,
    count: i64,
    f: impl Fn(Expr, Expr) -> Expr,
) -> LoweredFunc {
    let (x, y, out) = (buffer("x", from, count), buffer("y", from, count), buffer("out", to, count));
    let i = Var::index("i");
    let place = (i.expr() * i64::from(lanes)).ramp(1, lanes);
    let load = |buffer: &Buffer| Expr::load(buffer, &place);
    let store = Stmt::store(out.clone(), &place, f(load(&x), load(&y)));
    let body = Stmt::for_loop(i, 0, count / i64::from(lanes), ForKind::Serial, store);
    function(symbol, [memory(&x), memory(&y), memory(&out)], body)
}

fn array(dtype: DataType, name: &str, values: &[i64]) -> String {
    let literal = |value: &i64| match *value {
        i64::MIN => "INT64_MIN".to_owned(),
        value if dtype.is_uint() => format!("{}u", value as u64),
        value => value.to_string(),
    };
    let values: Vec<String> = values.iter().map(literal).collect();
    format!("static {} {name}[] = {{{}}};\n", c_type(dtype), values.join(", "))
}

/// Pairs of values at the ends of a type and around 0, as two columns whose length is a multiple of
/// all numbers of lanes.
fn pairs(dtype: DataType) -> Vec<(i64, i64)> {
    let wide = if dtype.bits() == 64 { i64::MIN } else { -1 << (dtype.bits() - 1) };
    let values = [0, 1, 2, 3, 5, 7, 8, 31, 100, -1, -2, -3, -7, -8, -100, wide, wide + 1, !wide, !wide - 1];
    let mut pairs = Vec::new();
    for a in values {
        for b in values {
            pairs.push((wrap_int(dtype, a), wrap_int(dtype, b)));
        }
    }
    while pairs.len() % 12 != 0 {
        pairs.push((1, 1));
    }
    pairs
}

/// The low bits of the result of an operation on numbers of a type.
fn result(op: BinaryOp, dtype: DataType, a: i64, b: i64) -> i64 {
    let number = |value: i64| wrapped(dtype, value.into());
    arithmetic(op, dtype, number(a), number(b)) as i64
}

#[test]
fn integers_wrap_and_divide() {
    // Optimization reveals nothing that the sanitizer does not.
    for way in &WAYS[..2] {
        let (mut functions, mut main, mut calls, mut expected) =
            (Vec::new(), HEAD.to_owned(), String::new(), Vec::new());
        let mut places = Vec::new();
        for dtype in TYPES {
            for op in OPS {
                let pairs = pairs(dtype);
                let count = pairs.len();
                let key = format!("{}_{op:?}", name(dtype));
                let (xs, ys): (Vec<i64>, Vec<i64>) = pairs.iter().copied().unzip();
                main.push_str(&array(dtype, &format!("x_{key}"), &xs));
                main.push_str(&array(dtype, &format!("y_{key}"), &ys));
                main.push_str(&array(dtype, &format!("o_{key}"), &vec![0; count]));
                for lanes in LANES {
                    let symbol = format!("f_{key}_{lanes}");
                    functions
                        .push(each(&symbol, dtype, dtype, lanes, count as i64, |a, b| try_binary(op, &a, &b).unwrap()));
                    let c = c_type(dtype);
                    main.push_str(&format!("void {symbol}({c}*, {c}*, {c}*);\n"));
                    calls.push_str(&format!("  {symbol}(x_{key}, y_{key}, o_{key}); SHOW(o_{key}, {count});\n"));
                    expected.extend(pairs.iter().map(|(a, b)| result(op, dtype, *a, *b)));
                    places.extend(pairs.iter().map(|(a, b)| format!("{key} of {a} and {b} in {lanes} lanes")));
                }
            }
        }
        main.push_str(&format!("int main(void) {{\n{calls}  return 0;\n}}\n"));
        let results = numbers(&run("integers", *way, &functions, &main));
        assert_eq!(results.len(), expected.len(), "{}", way.0);
        let wrong = |index: &usize| results[*index] != expected[*index];
        let shown = |index: usize| format!("{}: {}, not {}", places[index], results[index], expected[index]);
        let wrong: Vec<String> = (0..results.len()).filter(wrong).map(shown).collect();
        assert!(
            wrong.is_empty(),
            "{}: {} results are wrong:\n{}",
            way.0,
            wrong.len(),
            wrong[..wrong.len().min(20)].join("\n")
        );
    }
}

const HEAD: &str = "#include <inttypes.h>\n#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n\
    #define SHOW(a, n) for (int i = 0; i < (n); ++i) printf(\"%\" PRId64 \"\\n\", (int64_t)(a)[i])\n";

#[test]
fn floor_division_is_shifts_masks_and_truncating_division() {
    let divisors = [1, 2, 3, 7, 8, 64, -1, -2, -3, -8, 1 << 20];
    let dividends: Vec<i64> =
        (-20..20).chain([i64::from(i32::MIN), i64::from(i32::MAX), 1 << 20, -(1 << 20)]).collect();
    let count = dividends.len() as i64;
    let (mut functions, mut main, mut calls, mut expected) = (Vec::new(), HEAD.to_owned(), String::new(), Vec::new());
    for dtype in [I32, I64] {
        let c = c_type(dtype);
        main.push_str(&array(dtype, &format!("x_{c}"), &dividends));
        main.push_str(&array(dtype, &format!("o_{c}"), &vec![0; dividends.len()]));
        for op in [BinaryOp::FloorDiv, BinaryOp::FloorMod] {
            for (at, divisor) in divisors.into_iter().enumerate() {
                let symbol = format!("f_{c}_{op:?}_{at}");
                let constant = |b: &Expr| Expr::constant(b.dtype(), divisor);
                functions
                    .push(each(&symbol, dtype, dtype, 4, count, |a, b| lower_floor_div(op, &a, &constant(&b), false)));
                main.push_str(&format!("void {symbol}({c}*, {c}*, {c}*);\n"));
                calls.push_str(&format!("  {symbol}(x_{c}, x_{c}, o_{c}); SHOW(o_{c}, {count});\n"));
                expected.extend(dividends.iter().map(|a| result(op, dtype, *a, divisor)));
                // A divisor that is not a constant.
                let runtime = format!("{symbol}_runtime");
                #[expect(clippy::erasing_op, reason = "an expression of the generated code")]
                let hidden = |b: &Expr| (b.clone() & 0) + constant(b);
                functions
                    .push(each(&runtime, dtype, dtype, 1, count, |a, b| lower_floor_div(op, &a, &hidden(&b), false)));
                main.push_str(&format!("void {runtime}({c}*, {c}*, {c}*);\n"));
                calls.push_str(&format!("  {runtime}(x_{c}, x_{c}, o_{c}); SHOW(o_{c}, {count});\n"));
                expected.extend(dividends.iter().map(|a| result(op, dtype, *a, divisor)));
            }
        }
    }
    main.push_str(&format!("int main(void) {{\n{calls}  return 0;\n}}\n"));
    assert_eq!(numbers(&run("floor-division", WAYS[0], &functions, &main)), expected);
}

#[test]
fn floats_become_integers_with_limits() {
    let inputs =
        ["0.0", "-0.0", "1.5", "-1.5", "1e10", "-1e10", "1e30", "-1e30", "INFINITY", "-INFINITY", "NAN", "127.9"];
    let values: Vec<f64> = vec![
        0.0,
        -0.0,
        1.5,
        -1.5,
        f64::from(1e10f32),
        f64::from(-1e10f32),
        1e30,
        -1e30,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::from(127.9f32),
    ];
    let saturated = |dtype: DataType, x: f64| match (dtype.is_int(), dtype.bits()) {
        (true, 8) => i64::from(x as i8),
        (true, 16) => i64::from(x as i16),
        (true, 32) => i64::from(x as i32),
        (true, _) => x as i64,
        (_, 8) => i64::from(x as u8),
        (_, 16) => i64::from(x as u16),
        (_, 32) => i64::from(x as u32),
        _ => x as u64 as i64,
    };
    for way in WAYS {
        let (mut functions, mut main, mut calls, mut expected) =
            (Vec::new(), HEAD.to_owned(), String::new(), Vec::new());
        for from in [F32, F64] {
            let c = c_type(from);
            main.push_str(&format!("static {c} x_{c}[] = {{{}}};\n", inputs.join(", ")));
            for dtype in TYPES {
                let key = format!("{c}_{}", name(dtype));
                main.push_str(&array(dtype, &format!("o_{key}"), &[0; 12]));
                for lanes in LANES {
                    let symbol = format!("f_{key}_{lanes}");
                    functions.push(each(&symbol, from, dtype, lanes, 12, |a, _| a.cast(dtype)));
                    main.push_str(&format!("void {symbol}({c}*, {c}*, {}*);\n", c_type(dtype)));
                    calls.push_str(&format!("  {symbol}(x_{c}, x_{c}, o_{key}); SHOW(o_{key}, 12);\n"));
                    expected.extend(values.iter().map(|x| saturated(dtype, *x)));
                }
            }
        }
        main.push_str(&format!("int main(void) {{\n{calls}  return 0;\n}}\n"));
        assert_eq!(numbers(&run("saturate", *way, &functions, &main)), expected, "{}", way.0);
    }
}

#[test]
fn half_precisions_are_rounded_once() {
    // From double precision through the sum: every f16 and bf16 between, at and next to the
    // midpoints of neighbors.
    let inputs: Vec<f64> = (0..200)
        .flat_map(|k| {
            let base = 2f64.powi(k % 40 - 26) * (1.0 + f64::from(k) / 256.0);
            [base, -base, base * (1.0 + 2f64.powi(-11)), base * (1.0 + 2f64.powi(-11) + 2f64.powi(-40)), base * 1e5]
        })
        .chain([65504.0, 65519.999, 65520.0, 1e-8, 2f64.powi(-25), 2f64.powi(-24), 0.0, -0.0])
        .collect();
    let padded: Vec<f64> = inputs.iter().copied().cycle().take(inputs.len().next_multiple_of(12)).collect();
    let count = padded.len();
    let bits: Vec<String> = padded.iter().map(|x| format!("{}u", x.to_bits())).collect();
    for way in WAYS {
        let mut functions = Vec::new();
        let mut main = format!("{HEAD}static uint64_t bits[] = {{{}}};\n", bits.join(", "));
        main.push_str(&format!("static uint16_t half[{count}];\nstatic double back[{count}], zero[{count}];\n"));
        let (mut calls, mut expected) = (String::new(), Vec::new());
        for half in [F16, BF16] {
            for lanes in LANES {
                let (to, from) = (format!("to_{}_{lanes}", name(half)), format!("from_{}_{lanes}", name(half)));
                functions.push(each(&to, F64, half, lanes, count as i64, |a, _| a.cast(half)));
                functions.push(each(&from, half, F64, lanes, count as i64, |a, b| (a + b * 0.0).cast(F64)));
                main.push_str(&format!(
                    "void {to}(double*, double*, uint16_t*);\nvoid {from}(uint16_t*, uint16_t*, double*);\n"
                ));
                calls.push_str(&format!(
                    "  {to}((double*)bits, zero, half); {from}(half, half, back);\n  \
                     for (int i = 0; i < {count}; ++i) {{ union {{ double d; int64_t n; }} u; u.d = back[i]; printf(\"%\" PRId64 \"\\n\", u.n); }}\n"
                ));
                // Infinity times 0 is NaN.
                expected.extend(padded.iter().map(|x| {
                    let rounded = round_float(half, *x);
                    (if rounded.is_infinite() { f64::NAN } else { rounded }).to_bits() as i64
                }));
            }
        }
        main.push_str(&format!("int main(void) {{\n{calls}  return 0;\n}}\n"));
        let found = numbers(&run("half", *way, &functions, &main));
        assert_eq!(found.len(), expected.len());
        for (at, (found, expected)) in found.into_iter().zip(expected).enumerate() {
            let (found, expected) = (f64::from_bits(found as u64), f64::from_bits(expected as u64));
            let same = found == expected || found.is_nan() && expected.is_nan();
            assert!(same, "{}: {} becomes {found}, not {expected}", way.0, padded[at % count]);
        }
    }
}

#[test]
fn comparisons_selects_and_masks() {
    let (x, y, out) = (buffer("x", F32, 12), buffer("y", F32, 12), buffer("out", I32, 12 * 6 * 3));
    let ops = [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];
    let mut stmts = Vec::new();
    for (row, lanes) in LANES.into_iter().enumerate() {
        for (column, op) in ops.into_iter().enumerate() {
            let i = Var::index("i");
            let place = (i.expr() * i64::from(lanes)).ramp(1, lanes);
            let holds = Expr::compare(op, Expr::load(&x, &place), Expr::load(&y, &place));
            // A condition both of whose sides matter, and one that is not itself a comparison.
            let both = holds.and(Expr::load(&x, &place).less(100.0f32)).negated();
            let one = Expr::constant(I32.with_lanes(lanes), 1);
            let value = Expr::select(holds, &one * 10, &one * 20) + Expr::select(both, &one, &one * 2);
            let first = (row * 6 + column) as i64 * 12;
            let to = (i.expr() * i64::from(lanes) + first).ramp(1, lanes);
            stmts.push(Stmt::for_loop(
                i,
                0,
                12 / i64::from(lanes),
                ForKind::Serial,
                Stmt::store(out.clone(), to, value),
            ));
        }
    }
    let f = function("f", [memory(&x), memory(&y), memory(&out)], Stmt::seq(stmts));
    let main = format!(
        "{HEAD}static float x[12] = {{1, 2, 3, NAN, 1, -0.0f, 200, 200, INFINITY, 5, 6, 7}};\n\
         static float y[12] = {{1, 3, 2, 1, NAN, 0.0f, 200, 300, INFINITY, 6, 6, 6}};\nstatic int32_t out[216];\n\
         void f(float*, float*, int32_t*);\nint main(void) {{ f(x, y, out); SHOW(out, 216); return 0; }}\n"
    );
    let xs = [1.0, 2.0, 3.0, f32::NAN, 1.0, -0.0, 200.0, 200.0, f32::INFINITY, 5.0, 6.0, 7.0];
    let ys = [1.0, 3.0, 2.0, 1.0, f32::NAN, 0.0, 200.0, 300.0, f32::INFINITY, 6.0, 6.0, 6.0];
    let mut expected = Vec::new();
    for _ in LANES {
        for op in ops {
            for (x, y) in xs.into_iter().zip(ys) {
                let holds = match op {
                    CompareOp::Eq => x == y,
                    CompareOp::Ne => x != y,
                    CompareOp::Lt => x < y,
                    CompareOp::Le => x <= y,
                    CompareOp::Gt => x > y,
                    CompareOp::Ge => x >= y,
                };
                expected.push(if holds { 10 } else { 20 } + if holds && x < 100.0 { 2 } else { 1 });
            }
        }
    }
    for way in WAYS {
        assert_eq!(numbers(&run("compare", *way, std::slice::from_ref(&f), &main)), expected, "{}", way.0);
    }
}

#[test]
fn sums_of_products_of_small_integers_wrap() {
    let (mut functions, mut main, mut calls, mut expected) = (Vec::new(), HEAD.to_owned(), String::new(), Vec::new());
    // The types of the factors, the lanes of the sums, the number of products for each.
    let cases = [(U8, I8, 4, 4), (I8, U8, 3, 2), (I16, I16, 4, 2), (U16, U16, 2, 4), (I8, I8, 1, 8)];
    for (at, (a_type, b_type, lanes, group)) in cases.into_iter().enumerate() {
        let count = usize::from(lanes * group);
        let values = |dtype: DataType, seed: i64| -> Vec<i64> {
            let ends = [-1, 0, 1 << (dtype.bits() - 1), (1 << (dtype.bits() - 1)) - 1, 77, -3];
            (0..count as i64).map(|place| wrap_int(dtype, ends[(place * seed % 6) as usize])).collect()
        };
        let (xs, ys) = (values(a_type, 1), values(b_type, 5));
        let sums: Vec<i64> = (0..i64::from(lanes)).map(|lane| wrap_int(I32, (1 << 31) - 5 + lane)).collect();
        let (x, y) = (buffer("x", a_type, count as i64), buffer("y", b_type, count as i64));
        let out = buffer("out", I32, i64::from(lanes));
        let load = |buffer: &Buffer, lanes: u16| Expr::load(buffer, Expr::int(0).ramp(1, lanes));
        let args = [load(&out, lanes), load(&x, lanes * group), load(&y, lanes * group)];
        let sum = Expr::builtin("dot", I32.with_lanes(lanes), args);
        let symbol = format!("dot_{at}");
        let body = Stmt::store(out.clone(), Expr::int(0).ramp(1, lanes), sum);
        functions.push(function(&symbol, [memory(&x), memory(&y), memory(&out)], body));
        main.push_str(&array(a_type, &format!("x_{at}"), &xs));
        main.push_str(&array(b_type, &format!("y_{at}"), &ys));
        main.push_str(&array(I32, &format!("o_{at}"), &sums));
        main.push_str(&format!("void {symbol}({}*, {}*, int32_t*);\n", c_type(a_type), c_type(b_type)));
        calls.push_str(&format!("  {symbol}(x_{at}, y_{at}, o_{at}); SHOW(o_{at}, {lanes});\n"));
        for (lane, sum) in sums.iter().enumerate() {
            let range = lane * usize::from(group)..(lane + 1) * usize::from(group);
            let products: i64 = xs[range.clone()].iter().zip(&ys[range]).map(|(x, y)| x * y).sum();
            expected.push(wrap_int(I32, sum + products));
        }
    }
    main.push_str(&format!("int main(void) {{\n{calls}  return 0;\n}}\n"));
    for way in WAYS {
        assert_eq!(numbers(&run("dot", *way, &functions, &main)), expected, "{}", way.0);
    }
}
