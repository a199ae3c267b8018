//! Kernels from the closure to loops, scheduled by rules, for several targets: the interpreter
//! computes the values of the graph.

use kernpack::{Any, Array, Function};
use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::{DataTypeExt, Expr, F32, I64, Tensor, U8};
use kernpack_compiler::rules::{FilterForm, Filters, Outcome};
use kernpack_compiler::te::eval::{Elements, Evaluator};
use kernpack_compiler::te::{
    argmax, argmin, comm_reducer, compute, exp, max, placeholder, reduce_axis, reduce_max, rsqrt, scan, select, sum,
};
use kernpack_compiler::{Kernel, KernelParamKind, PassContext, TargetDescription};

/// On the last two, everything is distributed over threads: the interpreter finds locations that
/// two threads write.
fn targets() -> [TargetDescription; 4] {
    [
        TargetDescription::x86_64(),
        TargetDescription::x86_64_v3(),
        TargetDescription { parallel_work: 0, ..TargetDescription::x86_64_v4() },
        TargetDescription { parallel_work: 0, ..TargetDescription::aarch64() },
    ]
}

/// Lowers a kernel for each target and compares the interpreter with the evaluator. `shapes` are
/// those of the inputs. Integers are compared exactly, unless a tolerance is set.
#[track_caller]
fn check(name: &str, kernel: &Kernel, shapes: &[&[i64]], tolerance: f64) {
    check_on(&targets(), name, kernel, shapes, tolerance);
}

/// Like [`check`], for some targets.
#[track_caller]
fn check_on(targets: &[TargetDescription], name: &str, kernel: &Kernel, shapes: &[&[i64]], tolerance: f64) {
    check_with(targets, name, kernel, shapes, &|_| None, tolerance);
}

/// Like [`check_on`], with the values of some inputs by number.
#[track_caller]
fn check_with(
    targets: &[TargetDescription],
    name: &str,
    kernel: &Kernel,
    shapes: &[&[i64]],
    given: &dyn Fn(usize) -> Option<Vec<f64>>,
    tolerance: f64,
) {
    let mut evaluator = Evaluator::new();
    let mut inputs = Vec::new();
    let mut shapes_left = shapes.iter();
    for param in kernel.params() {
        match &param.kind {
            KernelParamKind::Input(tensor) => {
                let shape = shapes_left.next().expect("a shape for each input");
                let count: i64 = shape.iter().product();
                let seed = inputs.len() as i64;
                let usual = |at: i64| {
                    (at * 7 + seed * 3).rem_euclid(11) as f64 - if tensor.dtype.is_uint() { 0.0 } else { 5.0 }
                };
                let values: Vec<f64> = given(inputs.len()).unwrap_or_else(|| (0..count).map(usual).collect());
                let lanes: Vec<f32> = values.iter().map(|value| *value as f32).collect();
                let lengths: Vec<usize> = shape.iter().map(|extent| *extent as usize).collect();
                let bytes: Vec<u8> = values.iter().map(|value| *value as u8).collect();
                let elements =
                    if tensor.dtype == U8 { Elements::new(&lengths, &bytes) } else { Elements::new(&lengths, &lanes) };
                evaluator = evaluator.input(tensor, elements.unwrap());
                inputs.push(Block::from_f64(tensor.dtype, shape, &values));
            }
            KernelParamKind::Scalar(var) => evaluator = evaluator.scalar(var, 3.0),
            KernelParamKind::Output(_) => {}
        }
    }
    let outputs: Vec<_> = kernel
        .params()
        .iter()
        .filter_map(|param| match &param.kind {
            KernelParamKind::Output(tensor) => Some(tensor.clone()),
            _ => None,
        })
        .collect();
    let expected = evaluator.run(&outputs).unwrap_or_else(|error| panic!("{name}: {error}"));
    for target in targets {
        let context = PassContext::default();
        let function = kernel.lower(target, &context).unwrap_or_else(|error| panic!("{name}: {error}"));
        let blocks: Vec<Block> = outputs
            .iter()
            .zip(&expected)
            .map(|(tensor, expected)| {
                Block::uninit(tensor.dtype, &expected.shape().iter().map(|extent| *extent as i64).collect::<Vec<_>>())
            })
            .collect();
        let (mut next_input, mut next_output) = (inputs.iter(), blocks.iter());
        let args: Vec<Arg> = kernel
            .params()
            .iter()
            .map(|param| match &param.kind {
                KernelParamKind::Input(_) => Arg::from(next_input.next().unwrap()),
                KernelParamKind::Output(_) => Arg::from(next_output.next().unwrap()),
                KernelParamKind::Scalar(_) => Arg::from(3.0),
            })
            .collect();
        let machine = Machine::new(&function).unwrap();
        let run = machine.run(function.name.as_str(), &args);
        let say = |what: String| {
            panic!("{name} on {}, {shapes:?}: {what}\n{}", target.name, kernpack_compiler::text::print(&function))
        };
        if let Err(error) = run {
            say(error.to_string());
        }
        for (block, expected) in blocks.iter().zip(&expected) {
            let found = block.to_f64().unwrap_or_else(|error| say(error.to_string()));
            let wanted: Vec<f64> = if block.dtype() == I64 {
                expected.to_vec::<i64>().unwrap().iter().map(|value| *value as f64).collect()
            } else {
                expected.to_vec::<f32>().unwrap().iter().map(|value| f64::from(*value)).collect()
            };
            for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                let near = found == wanted || (found - wanted).abs() <= tolerance * wanted.abs().max(1.0);
                if !(near || found.is_nan() && wanted.is_nan()) {
                    say(format!("element {at} is {found}, not {wanted}"));
                }
            }
        }
    }
}

const SIZES: [i64; 12] = [0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 65, 130];

#[test]
fn elementwise() {
    let mut k = Kernel::new("f");
    let (m, n) = (k.size("m"), k.size("n"));
    let x = k.input("x", [&m, &n], F32);
    let bias = k.input("bias", [&n], F32);
    let by = k.scalar("by", F32);
    k.output("out", compute([&m, &n], |[i, j]| max(x.at([&i, &j]) * &by + bias.at([&j]), 0.0)));
    for (m, n) in SIZES.into_iter().zip(SIZES.into_iter().rev()) {
        check("elementwise", &k, &[&[m, n], &[n]], 0.0);
    }
}

#[test]
fn one_long_dimension() {
    let mut k = Kernel::new("f");
    let n = k.size("n");
    let x = k.input("x", [&n], F32);
    k.output("out", compute([&n], |[i]| x.at([&i]) * 2.0));
    for n in [0, 1, 5, 64, 4095, 4096, 4097, 8200] {
        check("one dimension", &k, &[&[n]], 0.0);
    }
}

#[test]
fn products() {
    for (m, n, depth) in [(0, 5, 3), (1, 1, 1), (29, 17, 5), (14, 70, 3), (61, 64, 4), (270, 32, 2)] {
        for symbolic in [false, true] {
            for transposed in [false, true] {
                for epilogue in [false, true] {
                    let mut k = Kernel::new("f");
                    // Without rows only where their number is dynamic.
                    let rows = if symbolic || m == 0 { k.size("m").expr().clone() } else { m.into() };
                    let a = k.input("a", (&rows, depth), F32);
                    let shape = if transposed { [n, depth] } else { [depth, n] };
                    let b = k.input("b", shape, F32);
                    let r = reduce_axis(0, depth, "r");
                    let c = compute((&rows, n), |[i, j]| {
                        let element = if transposed { b.at([&j, &r]) } else { b.at([&r, &j]) };
                        sum(a.at([&i, &r]) * element, &r)
                    })
                    .named("c");
                    let out = if epilogue { compute((&rows, n), |[i, j]| max(c.at([&i, &j]) + 1.0, 0.0)) } else { c };
                    k.output("out", out);
                    check("product", &k, &[&[m, depth], &shape], 0.0);
                }
            }
        }
    }
}

#[test]
fn batched_products() {
    let mut k = Kernel::new("f");
    let n = k.size("n");
    let a = k.input("a", (&n, 5, 4), F32);
    let b = k.input("b", (&n, 4, 40), F32);
    let r = reduce_axis(0, 4, "r");
    k.output("out", compute((&n, 5, 40), |[b_, i, j]| sum(a.at([&b_, &i, &r]) * b.at([&b_, &r, &j]), &r)));
    for n in [0, 1, 3] {
        check("batched product", &k, &[&[n, 5, 4], &[n, 4, 40]], 0.0);
    }
}

/// Products of constant weights in panels, whose rows are those of two dimensions.
#[test]
fn products_in_panels() {
    for (shape, depth, n) in [([0, 3], 5, 40), ([1, 1], 3, 17), ([1, 20], 4, 48), ([3, 5], 2, 100), ([4, 33], 3, 33)] {
        for known in [[true, true], [false, true], [true, false], [false, false]] {
            if shape[0] == 0 && known[0] {
                continue;
            }
            let mut k = Kernel::new("f");
            let [batch, words] = [("batch", 0), ("words", 1)].map(|(name, axis)| match known[axis] {
                true => Expr::from(shape[axis]),
                false => k.size(name).expr().clone(),
            });
            let a = k.input("a", (&batch, &words, depth), F32);
            let panels = [(n + 15) / 16, depth, 16];
            let b = k.input("b", panels, F32);
            let residual = k.input("residual", (&batch, &words, n), F32);
            let r = reduce_axis(0, depth, "r");
            let c = compute((&batch, &words, n), |[i, j, m]| {
                sum(a.at([&i, &j, &r]) * b.at([m.expr().floor_div(16), r.expr(), m.expr().floor_mod(16)]), &r)
            })
            .named("c");
            let out = compute((&batch, &words, n), |[i, j, m]| c.at([&i, &j, &m]) + residual.at([&i, &j, &m]));
            k.output("out", out);
            let [batch, words] = shape;
            check("product in panels", &k, &[&[batch, words, depth], &panels, &[batch, words, n]], 0.0);
            let context = PassContext::default();
            k.lower(&TargetDescription::x86_64_v4(), &context).unwrap();
            assert!(context.take_notes().iter().any(|note| note.as_str().ends_with("rule `panels`")));
        }
    }
}

/// The products of attention with one set of kernels for all extents: `q k^T + mask` and `p v`.
#[test]
fn products_of_attention() {
    let heads = 2;
    for (batch, rows, columns, depth) in
        [(0, 2, 2, 2), (1, 1, 1, 1), (1, 8, 20, 16), (2, 5, 33, 3), (3, 17, 16, 20), (1, 30, 70, 5)]
    {
        for is_transposed in [false, true] {
            for known in [None, Some("depth"), Some("columns")] {
                if columns == 0 || depth == 0 {
                    continue;
                }
                let mut k = Kernel::new("f");
                let n = k.size("n").expr().clone();
                let m = k.size("m").expr().clone();
                let is_known = |name: &str| known == Some(name);
                let j = if is_known("columns") { Expr::from(columns) } else { k.size("j").expr().clone() };
                let d = if is_known("depth") { Expr::from(depth) } else { k.size("d").expr().clone() };
                let a = k.input("a", (&n, heads, &m, &d), F32);
                let b = match is_transposed {
                    true => k.input("b", (&n, heads, &j, &d), F32),
                    false => k.input("b", (&n, heads, &d, &j), F32),
                };
                let mask = k.input("mask", (&n, 1, 1, &j), F32);
                let r = reduce_axis(0, &d, "r");
                let c = compute((&n, heads, &m, &j), |[n, h, i, j]| {
                    let element = if is_transposed { b.at([&n, &h, &j, &r]) } else { b.at([&n, &h, &r, &j]) };
                    sum(a.at([&n, &h, &i, &r]) * element, &r)
                })
                .named("c");
                let zero = Expr::int(0);
                k.output(
                    "out",
                    compute((&n, heads, &m, &j), |[n, h, i, j]| {
                        c.at([&n, &h, &i, &j]) * 0.5 + mask.at([n.expr(), zero.clone(), zero.clone(), j.expr()])
                    }),
                );
                let b_shape =
                    if is_transposed { [batch, heads, columns, depth] } else { [batch, heads, depth, columns] };
                let shapes: [&[i64]; 3] = [&[batch, heads, rows, depth], &b_shape, &[batch, 1, 1, columns]];
                check("product of attention", &k, &shapes, 0.0);
            }
        }
    }
}

#[test]
fn rows() {
    let mut k = Kernel::new("softmax");
    let (m, n) = (k.size("m"), k.size("n"));
    let x = k.input("x", [&m, &n], F32);
    let (r, s) = (reduce_axis(0, &n, "r"), reduce_axis(0, &n, "s"));
    let largest = compute([&m], |[i]| reduce_max(x.at([&i, &r]), &r)).named("largest");
    let powers = compute([&m, &n], |[i, j]| exp(x.at([&i, &j]) - largest.at([&i]))).named("powers");
    let total = compute([&m], |[i]| sum(powers.at([&i, &s]), &s)).named("total");
    k.output("out", compute([&m, &n], |[i, j]| powers.at([&i, &j]) / total.at([&i])));
    for n in [1, 3, 16, 33, 200] {
        check("softmax", &k, &[&[3, n]], 1e-6);
    }
    let mut k = Kernel::new("layer_norm");
    let m = k.size("m");
    let x = k.input("x", (&m, 96), F32);
    let scale = k.input("scale", [96], F32);
    let (r, s) = (reduce_axis(0, 96, "r"), reduce_axis(0, 96, "s"));
    let total = compute([&m], |[i]| sum(x.at([&i, &r]), &r)).named("total");
    let centred = compute((&m, 96), |[i, j]| x.at([&i, &j]) - total.at([&i]) / 96.0).named("centred");
    let squares = compute([&m], |[i]| sum(centred.at([&i, &s]) * centred.at([&i, &s]), &s)).named("squares");
    k.output(
        "out",
        compute((&m, 96), |[i, j]| centred.at([&i, &j]) * rsqrt(squares.at([&i]) / 96.0 + 1e-5) * scale.at([&j])),
    );
    for m in [0, 1, 5] {
        check("layer_norm", &k, &[&[m, 96], &[96]], 1e-5);
    }
}

/// Outputs that share the reductions of rows: stages that both read are computed before both.
#[test]
fn rows_with_two_outputs() {
    for (has_mean, has_deviation) in [(true, false), (false, true), (true, true)] {
        let mut k = Kernel::new("layer_norm");
        let (m, n) = (k.size("m"), 70);
        let x = k.input("x", (&m, n), F32);
        let (r, s) = (reduce_axis(0, n, "r"), reduce_axis(0, n, "s"));
        let total = compute([&m], |[i]| sum(x.at([&i, &r]), &r)).named("total");
        let mean = compute([&m], |[i]| total.at([&i]) / n as f64).named("mean");
        let squares = compute([&m], |[i]| {
            let centred = x.at([&i, &s]) - mean.at([&i]);
            sum(&centred * &centred, &s)
        })
        .named("squares");
        let deviation = compute([&m], |[i]| rsqrt(squares.at([&i]) / n as f64 + 1e-5)).named("deviation");
        k.output("out", compute((&m, n), |[i, j]| (x.at([&i, &j]) - mean.at([&i])) * deviation.at([&i])));
        if has_mean {
            k.output("mean", mean);
        }
        if has_deviation {
            k.output("deviation", deviation);
        }
        for m in [0, 1, 5] {
            check("layer_norm with statistics", &k, &[&[m, n]], 1e-5);
        }
    }
}

#[test]
fn reductions() {
    for over_rows in [false, true] {
        let mut k = Kernel::new("f");
        let (m, n) = (k.size("m"), k.size("n"));
        let x = k.input("x", [&m, &n], F32);
        let (extent, length) = if over_rows { (&m, &n) } else { (&n, &m) };
        let r = reduce_axis(0, extent, "r");
        let out = compute([length], |[i]| {
            let element = if over_rows { x.at([&r, &i]) } else { x.at([&i, &r]) };
            sum(element, &r)
        });
        k.output("out", out);
        for (m, n) in SIZES.into_iter().zip(SIZES.into_iter().rev()) {
            check(if over_rows { "over rows" } else { "over columns" }, &k, &[&[m, n]], 0.0);
        }
    }
    let mut k = Kernel::new("f");
    let x = k.input("x", [3, 9, 70], F32);
    let r = reduce_axis(0, 9, "r");
    k.output("out", compute([3, 70], |[i, j]| sum(x.at([&i, &r, &j]), &r)));
    check("over a dimension in between", &k, &[&[3, 9, 70]], 0.0);
}

/// Reductions with two results, along the last axis and along the first one, with constant and
/// symbolic sizes.
#[test]
fn reductions_with_two_results() {
    let both = comm_reducer([F32, F32], |[s, q], [t, r]| [s + t, q.max(r)], [0.0.into(), f64::NEG_INFINITY.into()]);
    let all = ["argmax", "argmin", "sum and largest"];
    for (at, (m, n)) in SIZES.into_iter().zip(SIZES.into_iter().rev()).enumerate() {
        for is_known in [false, true] {
            for over_rows in [false, true] {
                if is_known && (m == 0 || n == 0) {
                    continue;
                }
                let what = all[(at + usize::from(is_known)) % all.len()];
                let mut k = Kernel::new("f");
                let (rows, columns): (Expr, Expr) = match is_known {
                    true => (m.into(), n.into()),
                    false => (k.size("m").expr().clone(), k.size("n").expr().clone()),
                };
                let x = k.input("x", (&rows, &columns), F32);
                let (extent, length) = if over_rows { (&rows, &columns) } else { (&columns, &rows) };
                let r = reduce_axis(0, extent, "r");
                let [first, second] = compute([length], |[i]| {
                    let x = if over_rows { x.at([&r, &i]) } else { x.at([&i, &r]) };
                    match what {
                        "argmax" => argmax(&r, x, &r),
                        "argmin" => argmin(&r, x, &r),
                        _ => both.over([x.clone(), x], &r),
                    }
                });
                k.output("first", first);
                k.output("second", second);
                let targets = targets();
                let targets = if is_known { &targets[1..3] } else { &targets[2..] };
                check_on(targets, what, &k, &[&[m, n]], 0.0);
            }
        }
    }
}

/// Long enough for 32-bit positions; equal values are everywhere, and the first one wins.
#[test]
fn places_in_long_rows() {
    for (m, n) in [(3, 64), (5, 200), (2, 1000), (200, 7), (90, 40)] {
        for over_rows in [false, true] {
            for largest in [false, true] {
                let mut k = Kernel::new("f");
                let x = k.input("x", [m, n], F32);
                let (extent, length) = if over_rows { (m, n) } else { (n, m) };
                let r = reduce_axis(0, extent, "r");
                let [place, value] = compute([length], |[i]| {
                    let x = if over_rows { x.at([&r, &i]) } else { x.at([&i, &r]) };
                    if largest { argmax(&r, x, &r) } else { argmin(&r, x, &r) }
                });
                assert_eq!(place.dtype, I64);
                k.output("place", place);
                k.output("value", value);
                check("places", &k, &[&[m, n]], 0.0);
            }
        }
    }
    let mut k = Kernel::new("f");
    let x = k.input("x", [2, 100], F32);
    let r = reduce_axis(0, 100, "r");
    // The only value in the row is NaN.
    let [place, value] = compute([2], |[i]| argmax(&r, x.at([&i, &r]) / 0.0 * 0.0, &r));
    k.output("place", place);
    k.output("value", value);
    check("nothing but NaN", &k, &[&[2, 100]], 0.0);
}

/// In two steps: the first NaN is found, zeros of both signs are equal, and infinity is an ordinary
/// value.
#[test]
fn places_of_special_values() {
    const COUNT: usize = 75;
    let row = |fill: f64, at: &[(usize, f64)]| {
        let mut row = vec![fill; COUNT];
        for (place, value) in at {
            row[*place] = *value;
        }
        row
    };
    let nan = f64::NAN;
    let cases = [
        (row(f64::NEG_INFINITY, &[]), 0, f64::NEG_INFINITY),
        (row(nan, &[]), 0, nan),
        (row(nan, &[(0, f64::INFINITY), (1, 2.0)]), 2, nan),
        (row(f64::INFINITY, &[(40, nan), (74, nan)]), 40, nan),
        (row(-1.0, &[(37, -0.0), (38, 0.0)]), 37, -0.0),
        (row(-1.0, &[(20, 0.0), (37, -0.0)]), 20, 0.0),
        (row(7.0, &[(74, f64::INFINITY), (64, f64::INFINITY)]), 64, f64::INFINITY),
        (row(0.25, &[(74, 0.5)]), 74, 0.5),
    ];
    for is_known in [true, false] {
        for largest in [true, false] {
            let mut k = Kernel::new("f");
            let (m, n): (Expr, Expr) = match is_known {
                true => ((cases.len() as i64).into(), (COUNT as i64).into()),
                false => (k.size("m").expr().clone(), k.size("n").expr().clone()),
            };
            let x = k.input("x", (&m, &n), F32);
            let r = reduce_axis(0, &n, "r");
            let [place, value] = compute([&m], |[i]| {
                let x = x.at([&i, &r]);
                if largest { argmax(&r, x, &r) } else { argmin(&r, x, &r) }
            });
            k.output("place", place);
            k.output("value", value);
            let sign = if largest { 1.0 } else { -1.0 };
            let values: Vec<f64> = cases.iter().flat_map(|(row, ..)| row.iter().map(|x| x * sign)).collect();
            let shape = [cases.len() as i64, COUNT as i64];
            let same = |what: &str, places: &[f64], values: &[f64]| {
                for (at, (_, place, value)) in cases.iter().enumerate() {
                    let found = (places[at], values[at].to_bits());
                    assert_eq!(found, (f64::from(*place), (value * sign).to_bits()), "{what}, row {at}");
                }
            };
            for target in targets() {
                let schedule = k.scheduled(&target, &PassContext::default()).unwrap();
                assert!(schedule.stages().any(|id| schedule[id].name().ends_with(".best")), "{}", target.name);
                let function = k.lower(&target, &PassContext::default()).unwrap();
                let x = Block::from_f64(F32, &shape, &values);
                let (places, found) = (Block::uninit(I64, &shape[..1]), Block::uninit(F32, &shape[..1]));
                let args = [Arg::from(&x), Arg::from(&places), Arg::from(&found)];
                Machine::new(&function).unwrap().run("f", &args).unwrap();
                same(&target.name, &places.to_f64().unwrap(), &found.to_f64().unwrap());
            }
            #[cfg(feature = "llvm")]
            {
                let target = kernpack_compiler::codegen::Target::host();
                let function = k.lower(&TargetDescription::of(&target), &PassContext::default()).unwrap();
                let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
                let x = kernpack::Tensor::from_slice(&values, &shape).unwrap();
                let places = kernpack::Tensor::from_slice(&[0i64; 8], &shape[..1]).unwrap();
                let found = kernpack::Tensor::from_slice(&[0f32; 8], &shape[..1]).unwrap();
                let module = kernpack_compiler::build(&function, &target).unwrap();
                module.function("f").unwrap().call((&x, &places, &found)).unwrap();
                let places: Vec<f64> = places.view::<i64>().unwrap().to_vec().iter().map(|at| *at as f64).collect();
                let found: Vec<f64> = found.view::<f32>().unwrap().to_vec().iter().map(|x| f64::from(*x)).collect();
                same("compiled", &places, &found);
            }
        }
    }
}

/// Integers in rows of a tensor with three dimensions; rows that are too long for the L2 cache stay
/// one reduction.
#[test]
fn places_in_three_dimensions() {
    let mut k = Kernel::new("f");
    let x = k.input("x", [3, 4, 70], U8);
    let r = reduce_axis(0, 70, "r");
    let [place, value] = compute([3, 4], |[i, j]| argmin(&r, x.at([&i, &j, &r]), &r));
    k.output("place", compute([3, 4], |[i, j]| place.at([&i, &j]) + 1));
    k.output("value", compute([3, 4], |[i, j]| value.at([&i, &j]).cast(F32)));
    check("places of integers", &k, &[&[3, 4, 70]], 0.0);
    let schedule = k.scheduled(&TargetDescription::x86_64_v4(), &PassContext::default()).unwrap();
    assert!(schedule.stages().any(|id| schedule[id].name().ends_with(".best")));
    let mut k = Kernel::new("f");
    let n = 1 << 20;
    let x = k.input("x", [2, n], F32);
    let r = reduce_axis(0, n, "r");
    let [place, value] = compute([2], |[i]| argmax(&r, x.at([&i, &r]), &r));
    k.output("place", place);
    k.output("value", value);
    let schedule = k.scheduled(&TargetDescription::x86_64_v4(), &PassContext::default()).unwrap();
    assert!(!schedule.stages().any(|id| schedule[id].name().ends_with(".best")));
}

#[test]
fn windows() {
    let mut k = Kernel::new("heat");
    let (h, w) = (k.size("h"), k.size("w"));
    let x = k.input("x", [&h, &w], F32);
    let out = compute([&h, &w], |[i, j]| {
        let inside = i.greater(0).and(i.less(&h - 1)).and(j.greater(0)).and(j.less(&w - 1));
        let here = x.at([&i, &j]);
        let around = x.at((&i - 1, &j)) + x.at((&i + 1, &j)) + x.at((&i, &j - 1)) + x.at((&i, &j + 1));
        Expr::if_then_else(inside, around - &here * 4.0, here)
    });
    k.output("out", out);
    for (h, w) in [(0, 3), (1, 1), (2, 5), (3, 3), (7, 33), (20, 70)] {
        check("stencil", &k, &[&[h, w]], 0.0);
    }
    let mut k = Kernel::new("conv");
    let x = k.input("x", [1, 9, 9, 3], F32);
    let weights = k.input("weights", [3, 3, 3, 20], F32);
    let padded = compute([1, 11, 11, 3], |[n, y, x_, c]| {
        let inside = y.greater(0).and(y.less(10)).and(x_.greater(0)).and(x_.less(10));
        Expr::if_then_else(inside, x.at((&n, &y - 1, &x_ - 1, &c)), 0.0)
    })
    .named("padded");
    let (ry, rx, rc) = (reduce_axis(0, 3, "ry"), reduce_axis(0, 3, "rx"), reduce_axis(0, 3, "rc"));
    k.output(
        "out",
        compute([1, 9, 9, 20], |[n, y, x, o]| {
            sum(padded.at((&n, &y + &ry, &x + &rx, &rc)) * weights.at([&ry, &rx, &rc, &o]), [&ry, &rx, &rc])
        }),
    );
    check("convolution", &k, &[&[1, 9, 9, 3], &[3, 3, 3, 20]], 0.0);
}

#[test]
fn scans() {
    let mut k = Kernel::new("running_sum");
    let (m, n) = (k.size("m"), k.size("n"));
    let x = k.input("x", [&m, &n], F32);
    let state = placeholder([&m, &n], F32, "state");
    let first = compute((1, &n), |[_, j]| x.at((0, &j))).named("first");
    let next = compute([&m, &n], |[t, j]| state.at((&t - 1, &j)) + x.at([&t, &j])).named("next");
    k.output("out", scan([&first], [&next], [&state])[0].clone());
    for (m, n) in [(1, 1), (2, 7), (9, 33)] {
        check("running sum", &k, &[&[m, n]], 0.0);
    }
}

/// `y = x + 1` of a matrix.
fn one_more() -> Kernel {
    let mut k = Kernel::new("f");
    let x = k.input("x", [5, 33], F32);
    k.output("y", compute([5, 33], |[i, j]| x.at([&i, &j]) + 1.0).named("y"));
    k
}

#[test]
fn a_rule_of_the_users_in_rust() {
    let mut k = one_more();
    k.rule("before:elementwise", "never", |schedule, stage, _| {
        // The changes of a rule that declines are undone.
        let last = schedule[stage].leaves.last().cloned().expect("it has loops");
        schedule.stage(stage).unroll(&last)?;
        Ok(Outcome::Declined("it changed its mind".into()))
    });
    k.rule("after:never", "columns_first", |schedule, stage, target| {
        let [i, j] = schedule.stage(stage).loops()?;
        let mut handle = schedule.stage(stage);
        let (outer, inner) = handle.split(&j, target.lanes(32))?;
        handle.reorder(&[outer, i, inner.clone()])?.vectorize(&inner)?;
        Ok(Outcome::Applied)
    });
    check("a rule of the user's", &k, &[&[5, 33]], 0.0);
    let context = PassContext::default();
    let schedule = k.scheduled(&TargetDescription::x86_64_v3(), &context).unwrap();
    let nest = schedule.loop_nest();
    let (outer, row) = (nest.find("j.outer").expect("j is split"), nest.find("for i ").expect("there are rows"));
    assert!(outer < row && !nest.contains("unrolled"), "{nest}");
    let notes = context.take_notes();
    assert_eq!(notes.last().map(String::as_str), Some("stage `y`: rule `columns_first`"));
    assert!(notes.contains(&"stage `y`: rule `never` declined: it changed its mind".to_owned()), "{notes:?}");
    assert!(notes.iter().any(|note| note.starts_with("stage `y`: rule `gemm` declined: ")), "{notes:?}");

    // A schedule from the user overrides all rules.
    k.schedule(|_, _| Ok(()));
    assert!(!k.scheduled(&TargetDescription::x86_64_v3(), &context).unwrap().loop_nest().contains("j.outer"));
    assert!(context.take_notes().is_empty());
}

#[test]
fn a_rule_that_is_a_packed_function() {
    // As in another language: only with packed functions.
    let call = |name: &str| Function::global(name).unwrap();
    let (split, vectorize) = (call("kernpack.schedule.split"), call("kernpack.schedule.vectorize"));
    let rule = Function::from_fn(move |_: Any, stage: Any, target: Any| -> kernpack::Result<Option<String>> {
        let lanes: i64 = target.field("vector_bits")?.to::<i64>()? / 32;
        let loops = stage.field("leaf_iter_vars")?.to::<Array<Any>>()?;
        let Some(last) = loops.iter().last() else { return Ok(Some("it has no loop".into())) };
        let parts: Array<Any> = split.call((&stage, last, lanes))?.to()?;
        vectorize.call((&stage, parts.get(1)))?;
        Ok(None)
    });
    Function::register_global("tests.rules.vectors_only", &rule).unwrap();
    let insert = call("kernpack.rules.insert");
    let context = PassContext::default();
    let list = insert.call((call("kernpack.rules.usual").call(()).unwrap(), "instead:elementwise", "packed", &rule));
    for list in [
        list.unwrap().to::<Array<Any>>().unwrap(),
        ["gemm", "tests.rules.vectors_only"].map(Any::from).into_iter().collect(),
    ] {
        context.rules.set(list);
        let nest = one_more().scheduled(&TargetDescription::x86_64_v4(), &context).unwrap().loop_nest();
        assert!(nest.contains("j.inner in 0..16") || nest.contains("j.inner vectorized in 0..16"), "{nest}");
        assert!(!nest.contains("parallel"), "{nest}");
        let notes = context.take_notes();
        assert!(notes.last().is_some_and(|note| note.starts_with("stage `y`: rule `")), "{notes:?}");
    }
    let mut k = one_more();
    k.packed_rule("first", "packed", &rule);
    check("a packed rule", &k, &[&[5, 33]], 0.0);

    for (list, mistake) in [
        (vec![Any::from("sparse")], "unknown rule `sparse`"),
        (vec![Any::from(3)], "a list of rules has names, functions, and pairs of both, got int"),
    ] {
        context.rules.set(list.into());
        let error = one_more().scheduled(&TargetDescription::x86_64_v4(), &context).map(drop).unwrap_err();
        assert_eq!(error.what(), mistake);
    }
    k.packed_rule("before:sparse", "second", &rule);
    let error = k.scheduled(&TargetDescription::x86_64_v4(), &PassContext::default()).map(drop).unwrap_err();
    assert!(error.to_string().contains("kernels.rs"), "{error}");
}

#[test]
fn small_kernels_wake_no_threads() {
    let product = |n: i64| {
        let mut k = Kernel::new("f");
        let (a, b) = (k.input("a", [n, n], F32), k.input("b", [n, n], F32));
        let r = reduce_axis(0, n, "r");
        k.output("c", compute([n, n], |[i, j]| sum(a.at([&i, &r]) * b.at([&r, &j]), &r)));
        k
    };
    let chain = |n: i64| {
        let mut k = Kernel::new("f");
        let x = k.input("x", [n], F32);
        k.output("y", compute([n], |[i]| max(x.at([&i]) * 2.0, 0.0)));
        k
    };
    let transpose = |n: i64| {
        let mut k = Kernel::new("f");
        let x = k.input("x", [n, n], F32);
        k.output("y", compute([n, n], |[i, j]| x.at([&j, &i])));
        k
    };
    let added = |n: i64| {
        let mut k = Kernel::new("f");
        let x = k.input("x", [n, n], F32);
        let r = reduce_axis(0, n, "r");
        k.output("y", compute([n], |[i]| sum(x.at([&i, &r]), &r)));
        k
    };
    let target = TargetDescription::x86_64_v3();
    for (name, small, large) in [
        ("product", product(32), product(256)),
        ("chain", chain(10_000), chain(1 << 20)),
        ("transpose", transpose(64), transpose(512)),
        ("sum", added(128), added(1024)),
    ] {
        let text =
            |kernel: &Kernel| kernpack_compiler::text::print(&kernel.lower(&target, &PassContext::default()).unwrap());
        assert!(!text(&small).contains("parallel "), "{name}: {}", text(&small));
        assert!(text(&large).contains("parallel "), "{name}: {}", text(&large));
    }
}

/// The parameters of a convolution in the tests.
#[derive(Clone, Copy)]
struct Window {
    channels: i64,
    depth: i64,
    image: [i64; 2],
    window: [i64; 2],
    stride: i64,
    dilation: i64,
    padding: i64,
    images: i64,
    /// True if the number of images is known at compile time.
    fixed: bool,
    /// True if the kernel is one for images of any extents. The stride is 1 then.
    any_extents: bool,
}

/// `NCHW`, as in models; optionally with an epilogue.
fn convolution(of: Window, epilogue: bool, channels_last_weights: bool) -> (Kernel, Vec<Vec<i64>>) {
    let Window { channels, depth, image: [height, width], window: [kh, kw], stride, dilation, padding, images, .. } =
        of;
    let out = |size: i64, window: i64| (size + 2 * padding - dilation * (window - 1) - 1) / stride + 1;
    let (oh, ow) = (out(height, kh), out(width, kw));
    let mut k = Kernel::new("conv");
    let n = if of.fixed { Expr::int(images) } else { k.size("n").into() };
    let [h, w] = [(height, "h"), (width, "w")].map(|(extent, name)| match of.any_extents {
        true => k.size(name).into(),
        false => Expr::int(extent),
    });
    let [out_h, out_w] = [(oh, &h, kh), (ow, &w, kw)].map(|(extent, size, window)| match of.any_extents {
        true => size + (2 * padding - dilation * (window - 1)),
        false => Expr::int(extent),
    });
    let x = k.input("x", (&n, depth, &h, &w), F32);
    let shape = if channels_last_weights { [kh, kw, depth, channels] } else { [channels, depth, kh, kw] };
    let weights = k.input("weights", shape, F32);
    let padded = compute((&n, depth, &h + 2 * padding, &w + 2 * padding), |[n, c, y, x_]| {
        let inside = y.greater_equal(padding).and(y.less(&h + padding));
        let inside = inside.and(x_.greater_equal(padding)).and(x_.less(&w + padding));
        Expr::if_then_else(inside, x.at((&n, &c, &y - padding, &x_ - padding)), 0.0)
    })
    .named("padded");
    let (rc, ry, rx) = (reduce_axis(0, depth, "rc"), reduce_axis(0, kh, "ry"), reduce_axis(0, kw, "rx"));
    let conv = compute((&n, channels, &out_h, &out_w), |[n, o, y, x]| {
        let weight =
            if channels_last_weights { weights.at([&ry, &rx, &rc, &o]) } else { weights.at([&o, &rc, &ry, &rx]) };
        sum(padded.at((&n, &rc, &y * stride + &ry * dilation, &x * stride + &rx * dilation)) * weight, [&rc, &ry, &rx])
    })
    .named("conv");
    let mut shapes = vec![vec![images, depth, height, width], shape.to_vec()];
    let out = if epilogue {
        let bias = k.input("bias", [channels], F32);
        let residual = k.input("residual", (&n, channels, &out_h, &out_w), F32);
        shapes.extend([vec![channels], vec![images, channels, oh, ow]]);
        compute((&n, channels, &out_h, &out_w), |[n, o, y, x]| {
            max(conv.at([&n, &o, &y, &x]) + bias.at([&o]) + residual.at([&n, &o, &y, &x]), 0.0)
        })
    } else {
        conv
    };
    k.output("out", out);
    (k, shapes)
}

fn checked_convolution(
    targets: &[TargetDescription],
    name: &str,
    of: Window,
    epilogue: bool,
    channels_last_weights: bool,
    rule: &str,
    tolerance: f64,
) {
    let (k, shapes) = convolution(of, epilogue, channels_last_weights);
    let shapes: Vec<&[i64]> = shapes.iter().map(Vec::as_slice).collect();
    let context = PassContext::default();
    drop(k.scheduled(&TargetDescription::x86_64_v3(), &context).unwrap());
    let notes = context.take_notes();
    assert!(notes.iter().any(|note| note.ends_with(&format!("rule `{rule}`"))), "{name}: {notes:#?}");
    check_on(targets, name, &k, &shapes, tolerance);
}

#[test]
fn convolutions_with_channels_first() {
    let plain = Window {
        channels: 5,
        depth: 3,
        image: [6, 9],
        window: [3, 3],
        stride: 1,
        dilation: 1,
        padding: 1,
        images: 2,
        fixed: false,
        any_extents: false,
    };
    for (name, of) in [
        ("3x3", plain),
        ("many channels", Window { channels: 31, image: [4, 4], ..plain }),
        ("stride 2", Window { stride: 2, image: [9, 11], ..plain }),
        ("7x7 stem", Window { stride: 2, padding: 3, window: [7, 7], image: [10, 13], depth: 2, ..plain }),
        ("1x1", Window { window: [1, 1], padding: 0, ..plain }),
        ("1x1, one image", Window { window: [1, 1], padding: 0, images: 1, fixed: true, ..plain }),
        ("1x1, many pixels", Window { window: [1, 1], padding: 0, image: [21, 17], fixed: true, ..plain }),
        (
            "1x1, whole vectors",
            Window { window: [1, 1], padding: 0, image: [8, 24], channels: 17, fixed: true, ..plain },
        ),
        ("1x1 with stride", Window { window: [1, 1], padding: 0, stride: 2, ..plain }),
        ("dilation", Window { dilation: 2, padding: 2, ..plain }),
        ("wide", Window { image: [2, 37], depth: 1, ..plain }),
        ("rows of whole vectors", Window { stride: 2, image: [5, 32], depth: 2, channels: 15, ..plain }),
        ("rows of seven vectors", Window { image: [2, 112], depth: 1, channels: 3, ..plain }),
        ("pixels as one row", Window { stride: 2, image: [7, 41], depth: 2, channels: 40, images: 1, ..plain }),
        ("long rows with stride 2", Window { stride: 2, image: [2, 140], depth: 1, channels: 2, ..plain }),
        ("stride 3", Window { stride: 3, image: [8, 8], window: [2, 3], padding: 0, ..plain }),
    ] {
        checked_convolution(&targets(), name, of, false, true, "convolution", 0.0);
        checked_convolution(&targets()[1..3], name, of, true, false, "convolution", 0.0);
    }
    let any = Window { any_extents: true, ..plain };
    for (name, of) in [
        ("3x3", any),
        ("few pixels", Window { channels: 31, image: [1, 1], images: 1, ..any }),
        ("no images", Window { images: 0, ..any }),
        ("several tasks", Window { image: [35, 17], depth: 1, images: 1, fixed: true, ..any }),
        ("a vector and one pixel", Window { image: [3, 33], depth: 2, channels: 14, ..any }),
        ("1x1", Window { window: [1, 1], padding: 0, ..any }),
        ("without padding", Window { window: [2, 3], padding: 0, ..any }),
        ("dilation", Window { dilation: 2, padding: 2, ..any }),
    ] {
        checked_convolution(&targets(), name, of, true, false, "convolution", 0.0);
    }
}

/// Images of any extents and a window of one pixel: all pixels are one row. Less than a vector,
/// some whole vectors, one pixel more, and several tasks.
#[test]
fn convolutions_of_single_pixels_of_any_extents() {
    let small = targets().map(|target| TargetDescription { l2_bytes: 0, ..target });
    for (images, height, width, depth, channels) in
        [(2, 1, 1, 3, 5), (0, 3, 3, 2, 4), (1, 3, 5, 4, 17), (1, 4, 8, 3, 31), (2, 3, 11, 2, 14), (1, 7, 19, 2, 6)]
    {
        let mut k = Kernel::new("conv");
        let [n, h, w] = ["n", "h", "w"].map(|name| k.size(name).expr().clone());
        let x = k.input("x", (&n, depth, &h, &w), F32);
        let weights = k.input("weights", [channels, depth, 1, 1], F32);
        let residual = k.input("residual", (&n, channels, &h, &w), F32);
        let axes = [depth, 1, 1].map(|extent| reduce_axis(0, extent, "r"));
        let conv = compute((&n, channels, &h, &w), |[n, o, y, x_]| {
            let [c, ky, kx] = axes.each_ref().map(|axis| axis.expr());
            let pixel = x.at((&n, &c, &y + &ky, &x_ + &kx));
            let weight = weights.at([o.expr().clone(), c, ky, kx]);
            sum(pixel * weight, &axes[..])
        });
        let out = compute((&n, channels, &h, &w), |[n, o, y, x]| {
            max(conv.at([&n, &o, &y, &x]) + residual.at([&n, &o, &y, &x]), 0.0)
        });
        k.output("out", out);
        let schedule = k.scheduled(&TargetDescription::x86_64_v4(), &PassContext::default()).unwrap();
        let names: Vec<String> = schedule.stages().map(|id| schedule[id].name().to_owned()).collect();
        assert!(names.iter().any(|own| own.ends_with(".flat")), "{names:?}");
        let shapes: [&[i64]; 3] =
            [&[images, depth, height, width], &[channels, depth, 1, 1], &[images, channels, height, width]];
        check_on(&small, "a single pixel", &k, &shapes, 0.0);
    }
}

/// The epilogue of a convolution may consist of separate stages, and read it several times.
#[test]
fn convolutions_with_stages_behind() {
    type Behind = fn(&Tensor, &Tensor, &[i64; 4]) -> Tensor;
    let bent: Behind = |conv, factor, shape| {
        compute(*shape, |[n, o, y, x]| {
            let value = conv.at([&n, &o, &y, &x]);
            select(value.less(0.0), exp(&value) - 1.0, &value * factor.at((&o, 0, 0)))
        })
    };
    let scaled: Behind = |conv, factor, shape| {
        // The image is read at index 0, like operators that broadcast.
        let by = compute(*shape, |[n, o, y, x]| {
            conv.at((if shape[0] == 1 { Expr::int(0) } else { n.expr() }, &o, &y, &x)) * factor.at((&o, 0, 0))
        });
        let sum = compute(*shape, |[n, o, y, x]| by.at([&n, &o, &y, &x]) + factor.at((&o, 0, 0)));
        compute(*shape, |[n, o, y, x]| {
            let value = sum.at([&n, &o, &y, &x]);
            select(value.less(0.0), 0.0, value)
        })
    };
    for (name, images, window, behind, tolerance) in [
        ("elu, one image", 1, 3, bent, 1e-5),
        ("elu, two images", 2, 3, bent, 1e-5),
        ("elu behind 1x1", 2, 1, bent, 1e-5),
        ("scaled, one image", 1, 3, scaled, 0.0),
        ("scaled, two images", 2, 3, scaled, 0.0),
        ("scaled behind 1x1", 1, 1, scaled, 0.0),
    ] {
        let (channels, depth, side) = (5, 3, 6);
        let own = side - window + 1;
        let mut k = Kernel::new("conv");
        let x = k.input("x", [images, depth, side, side], F32);
        let w = k.input("w", [channels, depth, window, window], F32);
        let factor = k.input("factor", [channels, 1, 1], F32);
        let (rc, ry, rx) = (reduce_axis(0, depth, "rc"), reduce_axis(0, window, "ry"), reduce_axis(0, window, "rx"));
        let shape = [images, channels, own, own];
        let conv = compute(shape, |[n, o, y, x_]| {
            sum(x.at((&n, &rc, &y + &ry, &x_ + &rx)) * w.at([&o, &rc, &ry, &rx]), [&rc, &ry, &rx])
        });
        k.output("out", behind(&conv, &factor, &shape));
        let context = PassContext::default();
        drop(k.scheduled(&TargetDescription::x86_64_v3(), &context).unwrap());
        let notes = context.take_notes();
        assert!(notes.iter().any(|note| note.ends_with("rule `convolution`")), "{name}: {notes:#?}");
        let shapes: [&[i64]; 3] = [&[images, depth, side, side], &[channels, depth, window, window], &[channels, 1, 1]];
        check(name, &k, &shapes, tolerance);
    }
}

/// Vectors span output channels in this case.
#[test]
fn convolutions_with_few_pixels() {
    let plain = Window {
        channels: 32,
        depth: 16,
        image: [7, 7],
        window: [3, 3],
        stride: 1,
        dilation: 1,
        padding: 1,
        images: 2,
        fixed: true,
        any_extents: false,
    };
    let wide = &targets()[2..3];
    for (name, of) in [
        ("3x3", plain),
        ("stride 2", Window { stride: 2, image: [10, 13], images: 1, ..plain }),
        ("one row in a tile", Window { image: [2, 11], window: [1, 3], padding: 0, depth: 32, ..plain }),
        ("symbolic", Window { fixed: false, channels: 16, ..plain }),
    ] {
        for (epilogue, channels_last_weights) in [(true, false), (false, true)] {
            let (k, _) = convolution(of, epilogue, channels_last_weights);
            let schedule = k.scheduled(&wide[0], &PassContext::default()).unwrap();
            let names: Vec<String> = schedule.stages().map(|id| schedule[id].name().to_owned()).collect();
            assert!(names.iter().any(|own| own.ends_with(".few_pixels")), "{name}: {names:?}");
            checked_convolution(wide, name, of, epilogue, channels_last_weights, "convolution", 0.0);
        }
    }
}

#[test]
fn convolutions_by_winograd() {
    let plain = Window {
        channels: 32,
        depth: 32,
        image: [16, 16],
        window: [3, 3],
        stride: 1,
        dilation: 1,
        padding: 1,
        images: 1,
        fixed: false,
        any_extents: false,
    };
    let all = targets();
    for (name, of, epilogue, channels_last_weights, targets) in [
        ("odd", Window { image: [14, 13], ..plain }, true, false, &all[2..3]),
        (
            "other weights, nothing around",
            Window { padding: 0, image: [15, 18], images: 2, ..plain },
            false,
            true,
            &all[1..2],
        ),
    ] {
        checked_convolution(targets, name, of, epilogue, channels_last_weights, "winograd", 1e-3);
    }
}

/// Images of fewer pixels than a tile, of one tile and of one pixel more; several columns and rows
/// of blocks, which have at least 30 tiles, 15 of them in a row.
#[test]
fn convolutions_by_winograd_of_any_extents() {
    // As little cache as possible: blocks are small.
    let small = |target: TargetDescription| TargetDescription { l2_bytes: 0, ..target };
    let all = targets().map(small);
    for (name, [images, height, width], [depth, channels], padding, targets) in [
        ("one pixel", [1, 1, 1], [16, 16], 1, &all[..]),
        ("less than a tile", [2, 3, 2], [16, 16], 1, &all[2..3]),
        ("one tile", [1, 4, 4], [16, 16], 1, &all[2..3]),
        ("one pixel more", [1, 5, 5], [16, 16], 1, &all[1..3]),
        ("no images", [0, 5, 5], [16, 16], 1, &all[2..3]),
        ("no padding, two images", [2, 11, 20], [16, 32], 0, &all[..]),
        ("two groups, three panels", [1, 9, 6], [32, 48], 1, &all[1..3]),
        ("several columns of blocks", [1, 2, 125], [16, 16], 1, &all[2..3]),
        ("several rows of blocks", [1, 10, 60], [16, 16], 1, &all[1..3]),
        ("a tall image", [1, 125, 1], [16, 16], 1, &all[2..3]),
    ] {
        let filters = Filters { channels, depth, pixels: [1, 1], window: [3, 3], strides: [1, 1], dilations: [1, 1] };
        let form = filters.form_of_any_extents().unwrap();
        assert_eq!(form, FilterForm::Tiles { result: 4 });
        let mut k = Kernel::new("conv");
        let [n, h, w] = ["n", "h", "w"].map(|name| k.size(name).expr().clone());
        let x = k.input("x", (&n, depth, &h, &w), F32);
        let weights = k.input("weights", filters.shape(form).into_iter().map(Expr::int).collect::<Vec<_>>(), F32);
        let bias = k.input("bias", [channels], F32);
        let out = [&h, &w].map(|extent| extent + (2 * padding - 2));
        let residual = k.input("residual", (&n, channels, &out[0], &out[1]), F32);
        let padded = compute((&n, depth, &h + 2 * padding, &w + 2 * padding), |[n, c, y, x_]| {
            let inside = y.greater_equal(padding).and(y.less(&h + padding));
            let inside = inside.and(x_.greater_equal(padding)).and(x_.less(&w + padding));
            Expr::if_then_else(inside, x.at((&n, &c, &y - padding, &x_ - padding)), 0.0)
        });
        let weight = filters.reads(form, &weights);
        let axes = [depth, 3, 3].map(|extent| reduce_axis(0, extent, "r"));
        let conv = compute((&n, channels, &out[0], &out[1]), |[n, o, y, x]| {
            let [c, ky, kx] = axes.each_ref().map(|axis| axis.expr());
            sum(padded.at((&n, &c, &y + &ky, &x + &kx)) * weight(&[o.expr().clone(), c, ky, kx]), &axes[..])
        });
        k.output(
            "out",
            compute((&n, channels, &out[0], &out[1]), |[n, o, y, x]| {
                max(conv.at([&n, &o, &y, &x]) + bias.at([&o]) + residual.at([&n, &o, &y, &x]), 0.0)
            }),
        );
        let context = PassContext::default();
        drop(k.scheduled(&TargetDescription::x86_64_v4(), &context).unwrap());
        let notes = context.take_notes();
        assert!(notes.iter().any(|note| note.ends_with("rule `winograd`")), "{name}: {notes:#?}");
        let plain: Vec<f32> = (0..channels * depth * 9).map(|at| ((at * 5) % 7 - 3) as f32).collect();
        let transformed = filters.laid_out(form, &plain).unwrap();
        let given = |number: usize| (number == 1).then(|| transformed.iter().map(|value| f64::from(*value)).collect());
        let own = [height, width].map(|extent| extent + 2 * padding - 2);
        let shapes: [&[i64]; 4] =
            [&[images, depth, height, width], &filters.shape(form), &[channels], &[images, channels, own[0], own[1]]];
        check_with(targets, name, &k, &shapes, &given, 2e-3);
    }
}

#[test]
fn transposes() {
    let mut k = Kernel::new("f");
    let (m, n) = (k.size("m"), k.size("n"));
    let x = k.input("x", [&n, &m], F32);
    let bias = k.input("bias", [&m], F32);
    k.output("out", compute([&m, &n], |[i, j]| max(x.at([&j, &i]) + bias.at([&i]), 0.0)));
    let context = PassContext::default();
    drop(k.scheduled(&TargetDescription::x86_64_v4(), &context).unwrap());
    assert!(context.take_notes().iter().any(|note| note.ends_with("rule `transpose`")));
    for (m, n) in SIZES.into_iter().zip(SIZES.into_iter().rev()).chain([(130, 70), (16, 64)]) {
        check("transpose", &k, &[&[n, m], &[m]], 0.0);
    }
    let mut k = Kernel::new("f");
    let x = k.input("x", [3, 20, 5, 18], F32);
    k.output("out", compute([3, 5, 18, 20], |[n, h, w, c]| x.at([&n, &c, &h, &w])));
    check("channels last", &k, &[&[3, 20, 5, 18]], 0.0);
}

#[test]
fn long_rows_that_are_added() {
    for (m, n) in [(1, 1024), (7, 1030), (17, 2500), (8, 4100)] {
        let mut k = Kernel::new("f");
        let x = k.input("x", [m, n], F32);
        let r = reduce_axis(0, m, "r");
        k.output("out", compute([n], |[j]| sum(x.at([&r, &j]), &r)));
        check("sum of columns", &k, &[&[m, n]], 0.0);
    }
    let mut k = Kernel::new("f");
    let (a, b) = (k.input("a", [1, 37], F32), k.input("b", [37, 1100], F32));
    let r = reduce_axis(0, 37, "r");
    let c = compute([1, 1100], |[i, j]| sum(a.at([&i, &r]) * b.at([&r, &j]), &r)).named("c");
    k.output("out", compute([1, 1100], |[i, j]| max(c.at([&i, &j]), 0.0)));
    check("a vector times a matrix", &k, &[&[1, 37], &[37, 1100]], 0.0);
}

#[test]
fn small_windows() {
    for (stride, padding, window, image) in
        [(1, 1, 3, [5, 37]), (2, 1, 3, [9, 40]), (2, 0, 2, [8, 8]), (3, 0, 3, [9, 9])]
    {
        for is_product in [false, true] {
            let [h, w] = image;
            let out = |size: i64| (size + 2 * padding - window) / stride + 1;
            let mut k = Kernel::new("f");
            let n = k.size("n");
            let x = k.input("x", (&n, 3, h, w), F32);
            let weights = k.input("weights", [3, window, window], F32);
            let padded = compute((&n, 3, h + 2 * padding, w + 2 * padding), |[n, c, y, x_]| {
                let inside = y.greater_equal(padding).and(y.less(h + padding));
                let inside = inside.and(x_.greater_equal(padding)).and(x_.less(w + padding));
                Expr::if_then_else(inside, x.at((&n, &c, &y - padding, &x_ - padding)), 0.0)
            })
            .named("padded");
            let (ry, rx) = (reduce_axis(0, window, "ry"), reduce_axis(0, window, "rx"));
            let pool = compute((&n, 3, out(h), out(w)), |[n, c, y, x]| {
                let pixel = padded.at((&n, &c, &y * stride + &ry, &x * stride + &rx));
                if is_product {
                    sum(pixel * weights.at([&c, &ry, &rx]), [&ry, &rx])
                } else {
                    reduce_max(pixel, [&ry, &rx])
                }
            })
            .named("pool");
            k.output(
                "out",
                compute((&n, 3, out(h), out(w)), |[n, c, y, x]| pool.at([&n, &c, &y, &x]) + weights.at((&c, 0, 0))),
            );
            let context = PassContext::default();
            drop(k.scheduled(&TargetDescription::x86_64_v3(), &context).unwrap());
            let notes = context.take_notes();
            let rule = if is_product { "rule `depthwise`" } else { "rule `window`" };
            let taken = notes.iter().any(|note| note.ends_with(rule));
            assert_eq!(taken, stride < 3, "{notes:#?}");
            check("window", &k, &[&[2, 3, h, w], &[3, window, window]], 0.0);
        }
    }
}

/// Depthwise convolutions: groups of rows and vectors of columns in the middle, at the ends, and
/// with few of them.
#[test]
fn convolutions_of_each_channel() {
    let own = |image: [i64; 2], window: [i64; 2], stride: i64, dilation: i64, padding: i64| {
        let image = Window {
            channels: 2,
            depth: 1,
            image,
            window,
            stride,
            dilation,
            padding,
            images: 1,
            fixed: true,
            any_extents: false,
        };
        (image, 1)
    };
    let images = |(of, times): (Window, i64), images: i64| (Window { images, ..of }, times);
    for (name, (of, times)) in [
        ("one group", own([7, 7], [3, 3], 1, 1, 1)),
        ("groups, a few vectors", own([21, 40], [3, 3], 1, 1, 1)),
        ("whole vectors", own([15, 48], [3, 3], 1, 1, 1)),
        ("nothing around", own([9, 37], [3, 3], 1, 1, 0)),
        ("stride 2", own([7, 96], [3, 3], 2, 1, 1)),
        ("stride 2, nothing around", own([13, 35], [3, 3], 2, 1, 0)),
        ("5 x 5", own([11, 23], [5, 5], 1, 1, 2)),
        ("5 x 5, stride 2", images(own([5, 67], [5, 5], 2, 1, 2), 2)),
        ("dilation", own([12, 20], [3, 3], 1, 2, 2)),
        ("a row of the window", own([5, 33], [1, 7], 1, 1, 3)),
        ("two outputs for each channel", (own([7, 18], [3, 3], 1, 1, 1).0, 2)),
    ] {
        let Window { channels, image: [h, w], window: [kh, kw], stride, dilation, padding, images, .. } = of;
        let out = |size: i64, window: i64| (size + 2 * padding - dilation * (window - 1) - 1) / stride + 1;
        let shape = [images, channels * times, out(h, kh), out(w, kw)];
        let mut k = Kernel::new("f");
        let x = k.input("x", [images, channels, h, w], F32);
        let weights = k.input("weights", [channels * times, 1, kh, kw], F32);
        let bias = k.input("bias", [channels * times], F32);
        let padded = compute([images, channels, h + 2 * padding, w + 2 * padding], |[n, c, y, x_]| {
            let inside = y.greater_equal(padding).and(y.less(h + padding));
            let inside = inside.and(x_.greater_equal(padding)).and(x_.less(w + padding));
            Expr::if_then_else(inside, x.at((&n, &c, &y - padding, &x_ - padding)), 0.0)
        });
        let (rc, ry, rx) = (reduce_axis(0, 1, "rc"), reduce_axis(0, kh, "ry"), reduce_axis(0, kw, "rx"));
        let conv = compute(shape, |[n, c, y, x]| {
            let at = (&n, c.floor_div(times) + &rc, &y * stride + &ry * dilation, &x * stride + &rx * dilation);
            sum(padded.at(at) * weights.at([&c, &rc, &ry, &rx]), [&rc, &ry, &rx])
        });
        k.output("out", compute(shape, |[n, c, y, x]| max(conv.at([&n, &c, &y, &x]) + bias.at([&c]), 0.0)));
        let context = PassContext::default();
        drop(k.scheduled(&TargetDescription::x86_64_v3(), &context).unwrap());
        let notes = context.take_notes();
        assert!(notes.iter().any(|note| note.ends_with("rule `depthwise`")), "{name}: {notes:#?}");
        let shapes: [&[i64]; 3] = [&[images, channels, h, w], &[channels * times, 1, kh, kw], &[channels * times]];
        check_on(&targets()[1..3], name, &k, &shapes, 0.0);
    }
}

/// Windows at every second column: columns are loaded once, and deinterleaved in registers.
#[test]
fn pools_with_stride_2() {
    for (images, [h, w], [window_h, window_w], padding) in [
        (1, [7, 37], [3, 3], 1),
        (2, [4, 35], [2, 2], 0),
        (1, [3, 151], [3, 3], 1),
        (1, [2, 76], [1, 5], 2),
        (1, [6, 33], [4, 3], 1),
    ] {
        for is_sum in [false, true] {
            let [out_h, out_w] =
                [(h, window_h), (w, window_w)].map(|(size, window)| (size + 2 * padding - window) / 2 + 1);
            let mut k = Kernel::new("f");
            let x = k.input("x", (images, 2, h, w), F32);
            let padded = compute((images, 2, h + 2 * padding, w + 2 * padding), |[n, c, y, x_]| {
                let inside = y.greater_equal(padding).and(y.less(h + padding));
                let inside = inside.and(x_.greater_equal(padding)).and(x_.less(w + padding));
                let around = if is_sum { 0.0 } else { f64::from(f32::MIN) };
                Expr::if_then_else(inside, x.at((&n, &c, &y - padding, &x_ - padding)), around)
            });
            let (ry, rx) = (reduce_axis(0, window_h, "ry"), reduce_axis(0, window_w, "rx"));
            let pool = compute((images, 2, out_h, out_w), |[n, c, y, x]| {
                let pixel = padded.at((&n, &c, &y * 2 + &ry, &x * 2 + &rx));
                if is_sum { sum(pixel, [&ry, &rx]) } else { reduce_max(pixel, [&ry, &rx]) }
            });
            k.output("out", pool.named("pool"));
            let schedule = k.scheduled(&TargetDescription::x86_64_v3(), &PassContext::default()).unwrap();
            assert!(schedule.stages().any(|stage| schedule[stage].name() == "pool.strided"));
            check("pool", &k, &[&[images, 2, h, w]], 0.0);
        }
    }
}
