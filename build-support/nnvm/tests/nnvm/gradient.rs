//! Gradients, compared with finite differences.

use kernpack::{Array, ObjRef, Tensor};
use kernpack_nnvm::GraphExecutor;
use kernpack_nnvm::symbol::{self, GraphRef, NodeEntry, Value};

use crate::support::{assert_near, built, elements, floats, graph, named, op, ramp, run, var};

fn gradients(y: &Value, xs: &[&Value]) -> GraphRef {
    let entries = |values: &[&Value]| values.iter().map(|value| value.to_entry()).collect::<Array<ObjRef<NodeEntry>>>();
    let whole = graph(&[y]).with_attr("grad_ys", entries(&[y])).with_attr("grad_xs", entries(xs));
    symbol::apply_passes(&whole, &["Gradient"]).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the sum of all outputs.
fn total(y: &Value, inputs: &[(&str, &Tensor)]) -> f64 {
    elements(&run(&graph(&[y]), inputs, 0)[0]).iter().map(|value| f64::from(*value)).sum()
}

/// Changes one input slightly, element by element.
fn check(y: &Value, x: &Value, inputs: &[(&str, &Tensor)]) {
    let name = x.node.name.as_str();
    let got = elements(&run(&gradients(y, &[x]), inputs, 2)[0]);
    let (place, tensor) = inputs
        .iter()
        .enumerate()
        .find(|(_, (own, _))| *own == name)
        .map(|(place, (_, tensor))| (place, *tensor))
        .unwrap();
    let values = elements(tensor);
    assert_eq!(got.len(), values.len());
    // A few elements are sufficient.
    for index in [0, values.len() / 2, values.len() - 1] {
        let moved = |by: f32| {
            let mut other = values.clone();
            other[index] += by;
            let other = floats(tensor.shape(), &other);
            let mut all = inputs.to_vec();
            all[place].1 = &other;
            total(y, &all)
        };
        let slope = (moved(0.01) - moved(-0.01)) / 0.02;
        assert!(
            (f64::from(got[index]) - slope).abs() < 2e-2 * slope.abs().max(1.0),
            "{name}[{index}]: {}, expected {slope}",
            got[index]
        );
    }
}

#[test]
fn of_a_network() {
    let (x, w, b) = (var("x"), var("w"), var("b"));
    let hidden = op("tanh", &[&op("dense", &[&x, &w, &b], &[("units", "4")])], &[]);
    let y = op("elemwise_mul", &[&op("softmax", &[&hidden], &[]), &op("sigmoid", &[&hidden], &[])], &[]);
    let (xs, ws, bs) = (ramp(&[2, 3]), ramp(&[4, 3]), ramp(&[4]));
    let inputs = [("x", &xs), ("w", &ws), ("b", &bs)];
    for variable in [&x, &w, &b] {
        check(&y, variable, &inputs);
    }
}

#[test]
fn of_dense_layers_of_any_rank() {
    let (x, w, b) = (var("x"), var("w"), var("b"));
    let y = op("tanh", &[&op("dense", &[&x, &w, &b], &[("units", "4")])], &[]);
    let (ws, bs) = (ramp(&[4, 3]), ramp(&[4]));
    for shape in [&[3][..], &[5, 3], &[2, 5, 3], &[2, 1, 3, 3]] {
        let xs = ramp(shape);
        for variable in [&x, &w, &b] {
            check(&y, variable, &[("x", &xs), ("w", &ws), ("b", &bs)]);
        }
    }
}

/// A factor of 0 and an infinite one: the gradient is 0, not NaN.
#[test]
fn of_constant_powers() {
    let x = var("x");
    let got = |name: &str, scalar: &str, at: &[f32]| {
        let y = op(name, &[&x], &[("scalar", scalar)]);
        elements(&run(&gradients(&y, &[&x]), &[("x", &floats(&[2], at))], 2)[0])
    };
    assert_eq!(got("__pow_scalar__", "0", &[0.0, 3.0]), [0.0, 0.0]);
    assert_eq!(got("__pow_scalar__", "1", &[0.0, 3.0]), [1.0, 1.0]);
    assert_eq!(got("__rpow_scalar__", "0", &[2.0, 3.0]), [0.0, 0.0]);
}

#[test]
fn of_reductions_and_broadcasts() {
    let (x, s) = (var("x"), var("s"));
    let scaled = op("broadcast_mul", &[&op("exp", &[&x], &[]), &s], &[]);
    let mean = op("mean", &[&scaled], &[("axis", "1")]);
    let y = op(
        "broadcast_div",
        &[&op("transpose", &[&scaled], &[("axes", "(1, 0)")]), &op("__add_scalar__", &[&mean], &[("scalar", "4")])],
        &[],
    );
    let (xs, ss) = (ramp(&[2, 3]), ramp(&[3]));
    let inputs = [("x", &xs), ("s", &ss)];
    check(&y, &x, &inputs);
    check(&y, &s, &inputs);
    let largest = op("max", &[&op("__pow_scalar__", &[&x], &[("scalar", "2")])], &[("axis", "1")]);
    check(&largest, &x, &[("x", &xs)]);
}

#[test]
fn of_convolutions_and_pooling() {
    let (x, w, b) = (var("x"), var("w"), var("b"));
    let inputs = [&x, &w, &b];
    let cases: &[&[(&str, &str)]] = &[
        &[("channels", "4"), ("kernel_size", "(3, 2)")],
        // No window covers the last row and column of the data.
        &[("channels", "4"), ("kernel_size", "(3, 3)"), ("strides", "(2, 3)"), ("padding", "(1, 0)")],
        &[("channels", "4"), ("kernel_size", "(2, 2)"), ("dilation", "(2, 1)"), ("groups", "2")],
    ];
    for attrs in cases {
        let depth = if attrs.iter().any(|(name, _)| *name == "groups") { 1 } else { 2 };
        let kernel: Vec<i64> =
            attrs[1].1.trim_matches(['(', ')']).split(", ").map(|part| part.parse().unwrap()).collect();
        let (xs, ws, bs) = (ramp(&[2, 2, 6, 5]), ramp(&[4, depth, kernel[0], kernel[1]]), ramp(&[4]));
        // Each result has a separate slope.
        let y = op("tanh", &[&op("conv2d", &inputs, attrs)], &[]);
        for variable in inputs {
            check(&y, variable, &[("x", &xs), ("w", &ws), ("b", &bs)]);
        }
    }
    // Elements that are far apart, so that a small step does not change the selection.
    let values: Vec<f32> = (0..50).map(|index| ((index * 17 + 5) % 50) as f32 / 10.0 - 2.0).collect();
    let xs = floats(&[1, 2, 5, 5], &values);
    for attrs in [
        [("pool_size", "(2, 2)"), ("strides", "(2, 2)"), ("padding", "(0, 0)")],
        [("pool_size", "(3, 3)"), ("strides", "(1, 2)"), ("padding", "(1, 1)")],
    ] {
        let y = op("tanh", &[&op("max_pool2d", &[&x], &attrs)], &[]);
        check(&y, &x, &[("x", &xs)]);
    }
    // Of equal elements, the first one of a window gets the gradient.
    let y = op("max_pool2d", &[&x], &[("pool_size", "(2, 2)"), ("strides", "(1, 1)")]);
    let got = elements(&run(&gradients(&y, &[&x]), &[("x", &floats(&[1, 1, 2, 3], &[1.0; 6]))], 2)[0]);
    assert_eq!(got, [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn what_has_no_gradient() {
    let x = var("x");
    let first = named("argmax", "f", &[&x], &[]);
    let whole = graph(&[&first])
        .with_attr("grad_ys", [first.to_entry()].into_iter().collect::<Array<ObjRef<NodeEntry>>>())
        .with_attr("grad_xs", [x.to_entry()].into_iter().collect::<Array<ObjRef<NodeEntry>>>());
    let error = symbol::apply_passes(&whole, &["Gradient"]).unwrap_err().to_string();
    assert!(error.contains("node 'f' (argmax): operator `argmax` has no FGradient"), "{error}");
    // What does not lead to a variable has the gradient 0.
    let none = gradients(&op("exp", &[&var("y")], &[]), &[&x]);
    let ones = floats(&[2], &[1.0, 2.0]);
    assert_eq!(elements(&run(&none, &[("x", &ones)], 2)[0]), [0.0, 0.0]);
}

/// A graph trains a weight and its momentum: its gradient, and assignments.
#[test]
fn a_weight_is_trained() {
    let (x, y, w, v) = (var("x"), var("y"), var("w"), var("v"));
    let dense = op("dense", &[&x, &w], &[("units", "1"), ("use_bias", "False")]);
    let away = op("elemwise_sub", &[&dense, &y], &[]);
    let loss = op("sum", &[&op("elemwise_mul", &[&away, &away], &[])], &[]);
    let slope = gradients(&loss, &[&w]).values().swap_remove(0);
    let scaled = |value: &Value, by: &str| op("__mul_scalar__", &[value], &[("scalar", by)]);
    let momentum = op("_assign", &[&v, &op("elemwise_sub", &[&scaled(&v, "0.5"), &scaled(&slope, "0.125")], &[])], &[]);
    let step = op("_assign", &[&w, &op("elemwise_add", &[&w, &momentum], &[])], &[]);
    let net = graph(&[&step]);
    let (xs, ys) = ([[1f32, 0.], [0., 1.], [1., 1.]], [2f32, -1., 1.]);
    let start = [0.5f32, 0.25];
    let tensors =
        [floats(&[3, 2], xs.as_flattened()), floats(&[3, 1], &ys), floats(&[1, 2], &start), floats(&[1, 2], &[0.; 2])];
    let inputs: Vec<(&str, &Tensor)> = ["x", "y", "w", "v"].into_iter().zip(&tensors).collect();
    let done = built(&net, &inputs, 2);
    let executor = GraphExecutor::new(&done.graph, &done.module).unwrap();
    for (name, tensor) in &inputs {
        executor.set_input(executor.input_number(name).unwrap(), tensor, true).unwrap();
    }
    let (mut w, mut v) = (start, [0f32; 2]);
    for _ in 0..40 {
        executor.run().unwrap();
        let aways: Vec<f32> = xs.iter().zip(ys).map(|(x, y)| x[0] * w[0] + x[1] * w[1] - y).collect();
        for side in 0..2 {
            let slope: f32 = xs.iter().zip(&aways).map(|(x, away)| 2.0 * away * x[side]).sum();
            v[side] = 0.5 * v[side] - 0.125 * slope;
        }
        w = [w[0] + v[0], w[1] + v[1]];
    }
    let number = executor.input_number("w").unwrap();
    let found = elements(&executor.input(number).unwrap());
    assert_near(&found, &w);
    assert_near(&found, &[2.0, -1.0]);
}
