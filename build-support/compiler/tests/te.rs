//! Tensor expressions: their results (with the reference evaluator), and the reported errors of
//! invalid ones.

#[path = "te/reported.rs"]
mod reported;

use kernpack_compiler::ir::{
    BOOLEAN, DataType, Expr, ExprNode, F16, F32, F64, I8, I32, I64, IterKind, OperationNode, Stmt, Tensor, U8,
};
use kernpack_compiler::take_reported;
use kernpack_compiler::te::eval::{Elements, Evaluator};
use kernpack_compiler::te::operation::{input_tensors, post_order, replace_inputs, root_axes};
use kernpack_compiler::te::{self, Named, compute, compute_dyn, placeholder, reduce_axis, size, sum};

fn counting(dtype: DataType, shape: &[usize]) -> Elements {
    let mut next = 0.0;
    Elements::from_fn(dtype, shape, |_| {
        next += 1.0;
        next - 1.0
    })
}

fn one(result: kernpack_compiler::Result<Vec<Elements>>) -> Elements {
    result.unwrap().swap_remove(0)
}

#[test]
fn elementwise_transposed_and_broadcast() {
    let a = placeholder([2, 3], F32, "a");
    let b = placeholder([3], F32, "b");
    let c = compute((3, 2), |[i, j]| a.at([&j, &i]) * 2.0 + b.at([&i])).named("c");
    let given = Elements::new(&[3], &[100f32, 200.0, 300.0]).unwrap();
    let result = one(Evaluator::new().input(&a, counting(F32, &[2, 3])).input(&b, given).run(&[c]));
    assert_eq!(result.shape(), [3, 2]);
    assert_eq!(result.to_vec::<f32>().unwrap(), [100.0, 106.0, 202.0, 208.0, 304.0, 310.0]);
}

#[test]
fn sizes_come_from_the_inputs() {
    let (m, n) = (size("m"), size("n"));
    let a = placeholder([&m, &n], I32, "a");
    let rows = compute([m.expr() * 2], |[i]| a.at((i.floor_div(2), &n - 1)));
    let result = one(Evaluator::new().input(&a, counting(I32, &[2, 4])).run(&[rows]));
    assert_eq!(result.to_vec::<i32>().unwrap(), [3, 3, 7, 7]);
    let empty = one(Evaluator::new().input(&a, counting(I32, &[0, 4])).run(&[compute([&m], |[i]| a.at((&i, 0)))]));
    assert!(empty.is_empty());
}

#[test]
fn reductions_of_everything() {
    let a = placeholder([2, 3], I32, "a");
    let k = || reduce_axis(0, 3, "k");
    type Make = fn(Expr, kernpack_compiler::ir::IterVar) -> Expr;
    let rows: [(&str, Make, [i64; 2]); 5] = [
        ("sum", |x, k| sum(x, k), [3, 12]),
        ("product", |x, k| te::product(x + 1, k), [6, 120]),
        ("min", |x, k| te::reduce_min(x, k), [0, 3]),
        ("max", |x, k| te::reduce_max(x, k), [2, 5]),
        ("sum of odd ones", |x, k| sum(&x, k).only_where((&x % 2).equals(1)), [1, 8]),
    ];
    for (name, make, expected) in rows {
        let k = k();
        let c = compute([2], |[i]| make(a.at([&i, &k]), k.clone()).cast(I64));
        assert!(take_reported().is_err(), "{name}: a reduction inside a cast");
        drop(c);
        let c = compute([2], |[i]| make(a.at([&i, &k]), k.clone()));
        let result = one(Evaluator::new().input(&a, counting(I32, &[2, 3])).run(&[c]));
        assert_eq!(result.to_f64(), expected.map(|value| value as f64), "{name}");
    }
    let flags = placeholder([2, 3], BOOLEAN, "flags");
    let given = Elements::new(&[2, 3], &[true, true, true, false, true, false]).unwrap();
    let (k1, k2) = (k(), k());
    let all = compute([2], |[i]| te::reduce_all(flags.at([&i, &k1]), &k1));
    let any = compute([2], |[i]| te::reduce_any(flags.at([&i, &k2]).negated(), &k2));
    let results = Evaluator::new().input(&flags, given).run(&[all, any]).unwrap();
    assert_eq!(results[0].to_vec::<bool>().unwrap(), [true, false]);
    assert_eq!(results[1].to_vec::<bool>().unwrap(), [false, true]);
}

#[test]
fn reductions_of_nothing_give_the_identity() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = placeholder([&n], I8, "b");
    let k = reduce_axis(0, &n, "k");
    let outputs = [
        compute([1], |[_]| sum(a.at([&k]), &k)),
        compute([1], |[_]| te::product(a.at([&k]), &k)),
        compute([1], |[_]| te::reduce_min(a.at([&k]), &k)),
        compute([1], |[_]| te::reduce_max(b.at([&k]), &k)),
        compute([1], |[_]| te::reduce_min(b.at([&k]), &k)),
    ];
    let empty = (Elements::zeros(F32, &[0]), Elements::zeros(I8, &[0]));
    let results = Evaluator::new().input(&a, empty.0).input(&b, empty.1).run(&outputs).unwrap();
    let values: Vec<f64> = results.iter().map(|result| result.to_f64()[0]).collect();
    assert_eq!(values, [0.0, 1.0, f64::INFINITY, -128.0, 127.0]);
}

#[test]
fn positions_of_extrema_are_the_lowest() {
    let a = placeholder([5], F32, "a");
    let k = reduce_axis(0, 5, "k");
    let [at, value] = compute([1], |[_]| te::argmax(k.cast(I32), a.at([&k]), &k)).all_named("argmax");
    let [low, _] = compute([1], |[_]| te::argmin(&k, a.at([&k]), &k));
    assert_eq!((at.name(), value.name()), ("argmax.v0".to_owned(), "argmax.v1".to_owned()));
    let data = Elements::new(&[5], &[3f32, 7.0, 1.0, 7.0, 1.0]).unwrap();
    let results = Evaluator::new().input(&a, data).run(&[at, value, low]).unwrap();
    assert_eq!(results[0].to_vec::<i32>().unwrap(), [1]);
    assert_eq!(results[1].to_vec::<f32>().unwrap(), [7.0]);
    assert_eq!(results[2].to_vec::<i64>().unwrap(), [2]);
}

#[test]
fn extrema_are_the_first_nan() {
    let rows: [([f32; 4], i64, i64); 6] = [
        ([5.0, f32::NAN, 3.0, 5.0], 1, 1),
        ([f32::NAN, 1.0, 2.0, f32::NAN], 0, 0),
        ([f32::NEG_INFINITY; 4], 0, 0),
        ([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::NAN], 2, 2),
        ([1.0, 2.0, 3.0, f32::NAN], 3, 3),
        ([f32::NAN; 4], 0, 0),
    ];
    for (values, largest, smallest) in rows {
        let a = placeholder([4], F32, "a");
        let k = reduce_axis(0, 4, "k");
        let [most, _] = compute([1], |[_]| te::argmax(&k, a.at([&k]), &k));
        let [least, _] = compute([1], |[_]| te::argmin(&k, a.at([&k]), &k));
        let max = compute([1], |[_]| te::reduce_max(a.at([&k]), &k));
        let min = compute([1], |[_]| te::reduce_min(a.at([&k]), &k));
        let input = Elements::new(&[4], &values).unwrap();
        let results = Evaluator::new().input(&a, input).run(&[most, least, max, min]).unwrap();
        let found = results[..2].iter().map(|result| result.to_vec::<i64>().unwrap()[0]).collect::<Vec<_>>();
        assert_eq!(found, [largest, smallest], "{values:?}");
        for result in &results[2..] {
            let value = result.to_vec::<f32>().unwrap()[0];
            let same = values.iter().any(|value| value.is_nan());
            assert!(value.is_nan() == same, "{value} of {values:?}");
        }
    }
}

#[test]
fn a_reducer_of_ones_own_with_what_it_begins_with() {
    let a = placeholder([4], I64, "a");
    let bias = placeholder([1], I64, "bias");
    let k = reduce_axis(1, 3, "k");
    // (sum, sum of squares) of elements 1..4, from (bias, 0).
    let moments = te::comm_reducer([I64, I64], |[s, q], [t, r]| [s + t, q + r], [0.into(), 0.into()]);
    let [s, q] = compute([1], |[i]| {
        let x = a.at([&k]);
        moments.over_from([bias.at([&i]), 0.into()], [x.clone(), &x * &x], &k)
    });
    let only_even = compute([1], |[_]| {
        let x = a.at([&k]);
        moments.over_where((&x % 2).equals(0), [x.clone(), 1.into()], &k)
    });
    let begun = compute([1], |[i]| sum(a.at([&k]), &k).beginning_with(bias.at([&i])));
    let evaluator =
        Evaluator::new().input(&a, counting(I64, &[4])).input(&bias, Elements::new(&[1], &[100i64]).unwrap());
    let results = evaluator.run(&[s, q, only_even[0].clone(), only_even[1].clone(), begun]).unwrap();
    let values: Vec<f64> = results.iter().map(|result| result.to_f64()[0]).collect();
    assert_eq!(values, [106.0, 14.0, 2.0, 1.0, 106.0]);
}

#[test]
fn floats_are_rounded_to_their_type_after_each_operation() {
    let a = placeholder([2], F32, "a");
    let h = placeholder([2], F16, "h");
    let c = compute([2], |[i]| a.at([&i]) + 1.0 - 1.0);
    let d = compute([2], |[i]| h.at([&i]) * 3.0);
    let results = Evaluator::new()
        .input(&a, Elements::new(&[2], &[1e-9f32, 0.5]).unwrap())
        .input(&h, Elements::from_fn(F16, &[2], |at| if at[0] == 0 { 0.1 } else { 60000.0 }))
        .run(&[c, d])
        .unwrap();
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [0.0, 0.5]);
    assert_eq!(results[1].to_f64(), [0.2998046875, f64::INFINITY]);
}

#[test]
fn choices_do_not_read_what_they_do_not_take() {
    let a = placeholder([3], I32, "a");
    let inside = |i: &kernpack_compiler::ir::IterVar| i.greater_equal(1).and(i.less(4));
    let lazy = compute([5], |[i]| te::if_then_else(inside(&i), a.at((&i - 1,)), 0));
    let padded = compute([5], |[i]| te::select(inside(&i), a.at((&i - 1,)), -1));
    let given = Elements::new(&[3], &[7i32, 8, 9]).unwrap();
    let results = Evaluator::new().input(&a, given.clone()).run(&[lazy, padded]).unwrap();
    assert_eq!(results[0].to_vec::<i32>().unwrap(), [0, 7, 8, 9, 0]);
    assert_eq!(results[1].to_vec::<i32>().unwrap(), [-1, 7, 8, 9, -1]);
    let outside = compute([5], |[i]| a.at([&i])).named("outside");
    let error = Evaluator::new().input(&a, given).run(&[outside]).unwrap_err();
    assert_eq!(error.what(), "evaluate: `outside` at [3]: reads `a` at [3], outside of its shape [3]");
}

#[test]
fn math_functions_and_their_types() {
    let x = placeholder([1], F64, "x");
    let at = || x.at((0,));
    let rows: [(&str, Expr, f64); 12] = [
        ("exp", te::exp(at()), 0.75f64.exp()),
        ("log1p", te::log1p(at()), 0.75f64.ln_1p()),
        ("sigmoid", te::sigmoid(at()), 1.0 / (1.0 + (-0.75f64).exp())),
        ("erf", te::erf(at()), 0.711_155_633_653_515_1),
        ("pow", te::pow(at(), 2.0), 0.5625),
        ("atan2", te::atan2(at(), -1.0), 0.75f64.atan2(-1.0)),
        ("rsqrt", te::rsqrt(at()), 1.0 / 0.75f64.sqrt()),
        ("fma", te::fma(at(), 2.0, 1.0), 2.5),
        ("round", te::round(at() * 2.0), 2.0),
        ("clamp", te::clamp(at(), 0.0, 0.5), 0.5),
        ("isnan", te::select(te::isnan(at()), 1.0, at()), 0.75),
        ("max", te::max(at(), 1.0), 1.0),
    ];
    for (name, body, expected) in rows {
        assert_eq!(body.dtype(), F64, "{name}");
        let c = compute([1], |[_]| body);
        let result = one(Evaluator::new().input(&x, Elements::new(&[1], &[0.75]).unwrap()).run(&[c]));
        assert!((result.to_f64()[0] - expected).abs() < 1e-15, "{name}: {}", result.to_f64()[0]);
    }
}

#[test]
fn scans_go_step_by_step() {
    // A running sum that starts with the first row, through another stage.
    let (m, n) = (size("m"), size("n"));
    let x = placeholder([&m, &n], F32, "x");
    let state = placeholder([&m, &n], F32, "state");
    let init = compute((1, &n), |[_, i]| x.at((0, &i))).named("init");
    let before = compute([&m, &n], |[t, i]| state.at((&t - 1, &i))).named("before");
    let update = compute([&m, &n], |[t, i]| before.at([&t, &i]) + x.at([&t, &i])).named("update");
    let [running] = te::scan([&init], [&update], [&state]);
    let OperationNode::Scan { inputs, spatial_axes, scan_axis, .. } = &*running.op else { panic!("a scan") };
    assert!(inputs.len() == 1 && inputs.get(0).unwrap().is(&x));
    assert_eq!((spatial_axes.len(), scan_axis.kind), (1, IterKind::Ordered));
    let after = compute([&m], |[t]| running.at((&t, 0)) * 10.0);
    let results = Evaluator::new().input(&x, counting(F32, &[3, 2])).run(&[running, after]).unwrap();
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 4.0, 6.0, 9.0]);
    assert_eq!(results[1].to_vec::<f32>().unwrap(), [0.0, 20.0, 60.0]);
}

#[test]
fn scans_of_several_states_with_two_steps_to_begin_with() {
    // Fibonacci numbers, and the number of even ones so far.
    let (f, e) = (placeholder([10], I64, "f"), placeholder([10], I64, "e"));
    let init_f = compute([2], |[i]| i.expr());
    let init_e = compute([2], |[_]| te::constant(1.0, I64));
    let next = compute([10], |[t]| f.at((&t - 1,)) + f.at((&t - 2,)));
    let count = compute([10], |[t]| e.at((&t - 1,)) + te::select((next.at([&t]) % 2).equals(0), 1, 0));
    let [fibonacci, even] = te::scan([&init_f, &init_e], [&next, &count], [&f, &e]);
    let results = Evaluator::new().run(&[fibonacci, even]).unwrap();
    assert_eq!(results[0].to_vec::<i64>().unwrap(), [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]);
    assert_eq!(results[1].to_vec::<i64>().unwrap(), [1, 1, 1, 2, 2, 2, 3, 3, 3, 4]);
    // A state at its own time, which is not computed yet.
    let wrong = compute([10], |[t]| f.at([&t]));
    let [never] = te::scan([&init_f], [&wrong], [&f]);
    let error = Evaluator::new().run(&[never]).unwrap_err();
    assert!(error.what().contains("reads `f` at [2], of which 2 steps are computed"), "{error}");
}

#[test]
fn extern_operations_by_statements_and_by_functions() {
    let a = placeholder([4], F32, "a");
    let doubled = te::extern_op("doubled", [&a]).output([4], F32).body(|inputs, outputs| {
        let i = kernpack_compiler::ir::Var::index("i");
        let store = Stmt::store(outputs[0].clone(), &i, Expr::load(&inputs[0], &i) * 2.0);
        Stmt::for_loop(i, 0, 4, kernpack_compiler::ir::ForKind::Serial, store)
    });
    let sorted = te::extern_op("sorted", [&doubled[0]]).output([4], F32).call_packed("test.sort");
    let total = te::extern_op("total", [&sorted[0]]).output([] as [Expr; 0], F32).call_c("total", [4]);
    let run = || {
        Evaluator::new().input(&a, Elements::new(&[4], &[3f32, 1.0, 2.0, 0.0]).unwrap()).function(
            "test.sort",
            |inputs, outputs| {
                let mut values = inputs[0].to_vec::<f32>()?;
                values.sort_by(f32::total_cmp);
                outputs[0] = Elements::new(&[4], &values)?;
                Ok(())
            },
        )
    };
    let error = run().run(&total).unwrap_err();
    assert!(error.what().contains("`total` is unknown here"), "{error}");
    let outputs = [doubled[0].clone(), sorted[0].clone(), total[0].clone()];
    let total = |inputs: &[Elements], outputs: &mut [Elements]| {
        outputs[0] = Elements::new(&[], &[inputs[0].to_vec::<f32>()?.iter().sum::<f32>()])?;
        Ok(())
    };
    let results = run().function("total", total).run(&outputs).unwrap();
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [6.0, 2.0, 4.0, 0.0]);
    assert_eq!(results[1].to_vec::<f32>().unwrap(), [0.0, 2.0, 4.0, 6.0]);
    assert_eq!(results[2].to_vec::<f32>().unwrap(), [12.0]);
}

#[test]
fn evaluation_says_what_is_missing() {
    let n = size("n");
    let a = placeholder((&n, 4), F32, "a");
    let b = compute([&n], |[i]| a.at((&i, 0))).named("b");
    let rows: [(Evaluator, &str); 4] = [
        (Evaluator::new().scalar(&n, 2), "evaluate: `a` has no elements; give it some with `.input`"),
        (Evaluator::new().input(&a, counting(I32, &[2, 4])), "evaluate: `a` is of type f32, its elements of i32"),
        (Evaluator::new().input(&a, counting(F32, &[4])), "evaluate: `a` has 2 dimensions, its elements 1"),
        (Evaluator::new().input(&a, counting(F32, &[2, 5])), "evaluate: `a` has the shape [2, 4], its elements [2, 5]"),
    ];
    for (evaluator, expected) in rows {
        assert_eq!(evaluator.run(std::slice::from_ref(&b)).unwrap_err().what(), expected);
    }
    let m = size("m");
    let c = compute([4], |[i]| i.expr() + &m);
    assert!(Evaluator::new().run(std::slice::from_ref(&c)).unwrap_err().what().contains("`m` has no value"));
    let result = one(Evaluator::new().scalar(&m, 10).run(&[c]));
    assert_eq!(result.to_vec::<i64>().unwrap(), [10, 11, 12, 13]);
    let zero = compute([1], |[i]| &i / (i.expr() * 1));
    assert_eq!(one(Evaluator::new().run(&[zero])).to_vec::<i64>().unwrap(), [0]);
}

#[test]
fn operations_know_what_they_read() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = placeholder([&n], F32, "b");
    let c = compute([&n], |[i]| a.at([&i]) + a.at([&i]) * b.at([&i]));
    let k = reduce_axis(0, &n, "k");
    let d = compute_dyn(vec![n.expr().clone()], |axes| sum(c.at([&k]) + axes[0].cast(F32), &k)).named("d");
    let names = |tensors: Vec<Tensor>| tensors.iter().map(Tensor::name).collect::<Vec<_>>();
    assert_eq!(names(input_tensors(&c.op)), ["a", "b"]);
    let order: Vec<String> = post_order(std::slice::from_ref(&d.op)).iter().map(|op| op.name().to_owned()).collect();
    assert_eq!(order, ["a", "b", "compute", "d"]);
    assert_eq!(
        root_axes(&d.op).iter().map(|axis| axis.kind).collect::<Vec<_>>(),
        [IterKind::DataPar, IterKind::CommReduce]
    );
    let other = placeholder([&n], F32, "other");
    let replaced = replace_inputs(&d.op, &|tensor| tensor.is(&c).then(|| other.clone()));
    assert_eq!(names(input_tensors(&replaced)), ["other"]);
    assert!(replace_inputs(&d.op, &|tensor| tensor.is(&a).then(|| other.clone())) == d.op);
}

#[test]
fn parts_that_are_shared_are_looked_at_once() {
    let a = placeholder([1], F64, "a");
    let mut x = a.at((0,));
    for _ in 0..200 {
        x = &x * 0.5 + &x * 0.5;
    }
    let c = compute([1], |[_]| x);
    assert_eq!(input_tensors(&c.op).len(), 1);
    let b = compute([1], |[i]| a.at([&i]) + 1.0);
    let replaced = replace_inputs(&c.op, &|tensor| tensor.is(&a).then(|| b.clone()));
    let result = one(Evaluator::new().input(&a, Elements::new(&[1], &[2.0]).unwrap()).run(&[replaced.output(0)]));
    assert_eq!(result.to_f64(), [3.0]);
}

/// Runs invalid code, and returns the reported errors; each report names this file.
fn reported(wrong: impl FnOnce()) -> String {
    take_reported().unwrap();
    wrong();
    let error = take_reported().expect_err("something is reported").to_string();
    assert!(error.contains(&format!("\n  --> {}:", file!())), "{error}");
    error
}

#[test]
fn mistakes_are_reported_with_the_line_and_the_fix() {
    let (m, n) = (size("m"), size("n"));
    let a = placeholder([&m, &n], F32, "a");
    let b = placeholder([4], I32, "b");
    let k = reduce_axis(0, &n, "k");
    let long = placeholder([&m, &n], F64, "long");
    let state = placeholder((10, &n), F32, "state");
    let moments = te::comm_reducer([F32, F32], |[a, b], [c, d]| [a + c, b + d], [0.0.into(), 0.0.into()]);
    type Row<'a> = (&'a str, Box<dyn FnOnce() + 'a>);
    let rows: Vec<Row<'_>> = vec![
        ("`a` has 2 dimensions, got 1 index", Box::new(|| drop(a.at([&k])))),
        ("write `.at` with 2 indices", Box::new(|| drop(a.at((&k, 0, 0))))),
        ("`a`: index 1 is of type f32, not an integer", Box::new(|| drop(a.at((&k, 0.5))))),
        ("`b`: index 0 is 4, not in 0..4", Box::new(|| drop(b.at((4,))))),
        ("`b`: index 0 is -1, not in 0..4", Box::new(|| drop(b.at((-1,))))),
        ("placeholder `x`: dimension 0 is -3, less than 0", Box::new(|| drop(placeholder([-3], F32, "x")))),
        (
            "placeholder `x`: dimension 1 is 1.5 of type f32, not an integer",
            Box::new(|| drop(placeholder((1, 1.5), F32, "x"))),
        ),
        (
            "placeholder `x`: elements of type ptr",
            Box::new(|| drop(placeholder([1], kernpack_compiler::ir::POINTER, "x"))),
        ),
        ("reduce_axis `r`: the extent is -1, less than 0", Box::new(|| drop(reduce_axis(0, -1, "r")))),
        ("thread_axis: unknown thread `threadIdx.w`", Box::new(|| drop(te::thread_axis(None, "threadIdx.w")))),
        ("`+` of f32 and i32", Box::new(|| drop(compute([4], |[i]| a.at([&i, &i]) + b.at([&i]))))),
        ("a reduction inside an expression", Box::new(|| drop(compute([&m], |[i]| sum(a.at([&i, &k]), &k) + 1.0)))),
        (
            "create another tensor for further composition",
            Box::new(|| drop(compute([&m], |[i]| sum(sum(a.at([&i, &k]), &k), &k)))),
        ),
        ("sum: `i` is not an axis of a reduction", Box::new(|| drop(compute([&m], |[i]| sum(a.at([&i, &k]), &i))))),
        ("sum: no axis to reduce over", Box::new(|| drop(sum(1.0, Vec::new())))),
        ("sum: axis `k` is given twice", Box::new(|| drop(sum(1.0, [&k, &k])))),
        ("sum takes numbers, got bool", Box::new(|| drop(sum(k.less(3), &k)))),
        ("reduce_all takes truth values, got f32", Box::new(|| drop(te::reduce_all(1.0, &k)))),
        ("only_where of an expression that is not a reduction", Box::new(|| drop(Expr::int(1).only_where(true)))),
        (
            "initial value 0 is of type f64",
            Box::new(|| drop(sum(a.at([&k, &k]), &k).beginning_with(long.at([&k, &k])))),
        ),
        (
            "some of several expressions are reductions and some are not",
            Box::new(|| drop(compute([&m], |[i]| [sum(a.at([&i, &k]), &k), 1.0.into()]))),
        ),
        (
            "are not the results of one reduction in order",
            Box::new(|| drop(compute([&m], |[i]| [sum(a.at([&i, &k]), &k), sum(a.at([&i, &k]), &k)]))),
        ),
        (
            "are not the results of one reduction in order",
            Box::new(|| {
                drop(compute([&m], |[i]| {
                    let [s, q] = moments.over([a.at([&i, &k]), 1.0.into()], &k);
                    [q, s]
                }))
            }),
        ),
        (
            "are not the results of one reduction in order",
            Box::new(|| drop(compute([&m], |[i]| moments.over([a.at([&i, &k]), 1.0.into()], &k)[0].clone()))),
        ),
        ("compute: no expression", Box::new(|| drop(compute([&m], |[_]| Vec::<Expr>::new())))),
        (
            "compute: an element of type f32x4",
            Box::new(|| drop(compute([&m], |[_]| Expr::float(F32, 1.0).broadcast(4)))),
        ),
        (
            "comm_reducer: result 0 is of type f64, expected f32",
            Box::new(|| drop(te::comm_reducer([F32], |[x], [_]| [x.cast(F64)], [0.0.into()]))),
        ),
        (
            "comm_reducer: identity 0 is of type f32, expected i32",
            Box::new(|| drop(te::comm_reducer([I32], |[x], [y]| [x + y], [0.5.into()]))),
        ),
        ("value 0 is of type f64, expected f32", Box::new(|| drop(moments.over([long.at([&k, &k]), 1.0.into()], &k)))),
        ("`exp` takes floats, got i32; write `.cast(F32)`", Box::new(|| drop(te::exp(b.at((0,)))))),
        ("`isnan` takes floats, got i32", Box::new(|| drop(te::isnan(b.at((0,)))))),
        ("`min` of f32 and f64", Box::new(|| drop(te::min(a.at([&k, &k]), long.at([&k, &k]))))),
        ("a condition is a truth value, not f32", Box::new(|| drop(te::select(1.0, 1.0, 2.0)))),
        (
            "scan: init `long` is of type f64, its state `state` of f32",
            Box::new(|| drop(te::scan([&long], [&a], [&state]))),
        ),
        (
            "scan: dimension 0 of update `compute` differs",
            Box::new(|| {
                let init = compute((1, &n), |[_, i]| i.cast(F32));
                let update = compute((9, &n), |[t, i]| state.at((&t - 1, &i)));
                drop(te::scan([&init], [&update], [&state]));
            }),
        ),
        (
            "scan: the state `compute` is not a placeholder",
            Box::new(|| {
                let made = compute((10, &n), |[_, i]| i.cast(F32));
                drop(te::scan([&made], [&made], [&made]));
            }),
        ),
        ("compute `compute`: dimension 0 is -1, less than 0", Box::new(|| drop(compute([-1], |[i]| i.expr())))),
        (
            "placeholder `x`: dimension 0 depends on the elements of a tensor",
            Box::new(|| drop(placeholder([b.at((0,))], F32, "x"))),
        ),
        (
            "compute: the range of `r` depends on the element `i`",
            Box::new(|| {
                drop(compute([4], |[i]| {
                    let r = reduce_axis(0, &i + 1, "r");
                    sum(b.at([&r]), &r)
                }));
            }),
        ),
        (
            "beginning_with: the initial value depends on the axis `k`",
            Box::new(|| drop(sum(a.at([&k, &k]), &k).beginning_with(a.at([&k, &k])))),
        ),
        ("extern_op `f` has no result", Box::new(|| drop(te::extern_op("f", [&a]).call_c("f", ())))),
    ];
    for (expected, wrong) in rows {
        let error = reported(wrong);
        assert!(error.contains(expected), "expected {expected}, got\n{error}");
    }
}

#[test]
fn all_mistakes_are_collected_and_the_line_is_the_users() {
    take_reported().unwrap();
    let line = line!() + 1;
    let a = placeholder([-1], F32, "a");
    let _ = compute([4], |[i]| a.at((&i, 1)));
    let error = take_reported().unwrap_err();
    assert_eq!(error.problems().len(), 2, "{error}");
    for (offset, problem) in error.problems().iter().enumerate() {
        assert!(problem.contains(&format!("{}:{}:", file!(), line as usize + offset)), "{problem}");
    }
}

#[test]
fn constants_are_rounded_and_bodies_have_types() {
    let c = compute([1], |[_]| 0.1f64);
    assert_eq!(c.dtype, F32);
    let OperationNode::Compute { bodies, .. } = &*c.op else { panic!("computed") };
    assert!(matches!(*bodies.get(0).unwrap(), ExprNode::Float { value, .. } if value == f64::from(0.1f32)));
    let u = compute([1], |[_]| te::constant(300.0, U8));
    assert_eq!(one(Evaluator::new().run(&[u])).to_vec::<u8>().unwrap(), [255]);
}
