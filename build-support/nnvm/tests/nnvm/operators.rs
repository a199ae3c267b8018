//! The results of each operator, compared with values by hand.

use kernpack::Tensor;

use crate::support::{Attrs, assert_near, elements, floats, graph, op, ramp, run, var};

/// Runs one operator on inputs. Integers are returned as floats.
fn result(name: &str, attrs: &[(&str, &str)], inputs: &[&Tensor]) -> (Vec<i64>, Vec<f32>) {
    let names: Vec<String> = (0..inputs.len()).map(|number| format!("in{number}")).collect();
    let variables: Vec<_> = names.iter().map(|name| var(name)).collect();
    let made = op(name, &variables.iter().collect::<Vec<_>>(), attrs);
    let given: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(inputs.iter().copied()).collect();
    let outputs = run(&graph(&[&made]), &given, 2);
    let values = match outputs[0].find_view::<i32>() {
        Some(view) => view.to_vec().into_iter().map(|value| value as f32).collect(),
        None => elements(&outputs[0]),
    };
    (outputs[0].shape().to_vec(), values)
}

#[test]
fn of_one_input() {
    let x = || floats(&[4], &[-1.5, -0.5, 0.5, 2.5]);
    let map = |function: fn(f32) -> f32| [-1.5, -0.5, 0.5, 2.5].map(function).to_vec();
    let cases: &[(&str, Attrs<'_>, Vec<f32>)] = &[
        ("sigmoid", &[], map(|x| 1.0 / (1.0 + (-x).exp()))),
        ("tanh", &[], map(f32::tanh)),
        ("exp", &[], map(f32::exp)),
        ("relu", &[], map(|x| x.max(0.0))),
        ("leaky_relu", &[], map(|x| if x > 0.0 { x } else { 0.25 * x })),
        ("negative", &[], map(|x| -x)),
        ("copy", &[], map(|x| x)),
        ("block_grad", &[], map(|x| x)),
        ("floor", &[], map(f32::floor)),
        ("ceil", &[], map(f32::ceil)),
        ("round", &[], map(f32::round)),
        ("trunc", &[], map(f32::trunc)),
        ("abs", &[], map(f32::abs)),
        ("__add_scalar__", &[("scalar", "2")], map(|x| x + 2.0)),
        ("__sub_scalar__", &[("scalar", "2")], map(|x| x - 2.0)),
        ("__rsub_scalar__", &[("scalar", "2")], map(|x| 2.0 - x)),
        ("__mul_scalar__", &[("scalar", "2")], map(|x| x * 2.0)),
        ("__div_scalar__", &[("scalar", "2")], map(|x| x / 2.0)),
        ("__rdiv_scalar__", &[("scalar", "2")], map(|x| 2.0 / x)),
        ("__pow_scalar__", &[("scalar", "2")], map(|x| x * x)),
        ("__rpow_scalar__", &[("scalar", "2")], map(|x| 2f32.powf(x))),
        ("clip", &[("a_min", "-1"), ("a_max", "1")], map(|x| x.clamp(-1.0, 1.0))),
        ("cast", &[("dtype", "int32")], map(f32::trunc)),
        ("ones_like", &[], vec![1.0; 4]),
        ("zeros_like", &[], vec![0.0; 4]),
        ("full_like", &[("fill_value", "3")], vec![3.0; 4]),
        ("softmax", &[], {
            let total: f32 = map(f32::exp).iter().sum();
            map(f32::exp).iter().map(|x| x / total).collect()
        }),
        ("log_softmax", &[], {
            let total: f32 = map(f32::exp).iter().sum();
            map(|x| x).iter().map(|x| x - total.ln()).collect()
        }),
        ("flip", &[], vec![2.5, 0.5, -0.5, -1.5]),
        ("sum", &[], vec![1.0]),
        ("mean", &[], vec![0.25]),
        ("max", &[("keepdims", "True")], vec![2.5]),
        ("min", &[], vec![-1.5]),
        ("prod", &[], vec![-1.5 * -0.5 * 0.5 * 2.5]),
        ("argmax", &[], vec![3.0]),
        ("argmin", &[], vec![0.0]),
        ("pad", &[("pad_width", "((1, 2),)"), ("pad_value", "9")], vec![9.0, -1.5, -0.5, 0.5, 2.5, 9.0, 9.0]),
        ("l2_normalize", &[("eps", "1e-6"), ("axis", "(0,)")], map(|x| x / 3.0)),
        ("strided_slice", &[("begin", "3"), ("end", "-5"), ("stride", "-2")], vec![2.5, -0.5]),
        ("expand_dims", &[("axis", "0")], map(|x| x)),
        ("broadcast_to", &[("shape", "(2, 4)")], vec![-1.5, -0.5, 0.5, 2.5, -1.5, -0.5, 0.5, 2.5]),
        (
            "lrn",
            &[("size", "3"), ("axis", "0"), ("alpha", "3"), ("beta", "1"), ("bias", "1")],
            vec![-1.5 / 3.5, -0.5 / 3.75, 0.5 / 7.75, 2.5 / 7.5],
        ),
    ];
    for (name, attrs, expected) in cases {
        let (_, got) = result(name, attrs, &[&x()]);
        assert_eq!(got.len(), expected.len(), "{name}");
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-5, "{name}: {got}, expected {expected}");
        }
    }
    let positive = floats(&[2], &[4.0, 9.0]);
    assert_near(&result("sqrt", &[], &[&positive]).1, &[2.0, 3.0]);
    assert_near(&result("log", &[], &[&positive]).1, &[4f32.ln(), 9f32.ln()]);
}

#[test]
fn of_two_inputs() {
    let (a, b) = (floats(&[2, 2], &[1., 2., 3., 4.]), floats(&[2], &[2., 3.]));
    let pairs = [(1f32, 2f32), (2., 3.), (3., 2.), (4., 3.)];
    let number = |truth: bool| if truth { 1.0 } else { 0.0 };
    type Function<'a> = &'a dyn Fn(f32, f32) -> f32;
    let cases: [(&str, Function<'_>); 14] = [
        ("broadcast_add", &|a, b| a + b),
        ("broadcast_sub", &|a, b| a - b),
        ("broadcast_mul", &|a, b| a * b),
        ("broadcast_div", &|a, b| a / b),
        ("broadcast_mod", &|a, b| a % b),
        ("broadcast_pow", &|a, b| a.powf(b)),
        ("broadcast_max", &|a, b| a.max(b)),
        ("broadcast_min", &|a, b| a.min(b)),
        ("broadcast_equal", &|a, b| number(a == b)),
        ("broadcast_not_equal", &|a, b| number(a != b)),
        ("broadcast_greater", &|a, b| number(a > b)),
        ("broadcast_greater_equal", &|a, b| number(a >= b)),
        ("broadcast_less", &|a, b| number(a < b)),
        ("broadcast_less_equal", &|a, b| number(a <= b)),
    ];
    for (name, function) in cases {
        let expected: Vec<f32> = pairs.iter().map(|(a, b)| function(*a, *b)).collect();
        assert_near(&result(name, &[], &[&a, &b]).1, &expected);
    }
    let c = floats(&[2, 2], &[2., 2., 2., 5.]);
    assert_near(&result("elemwise_mod", &[], &[&a, &c]).1, &[1., 0., 1., 4.]);
    assert_near(&result("elemwise_sub", &[], &[&a, &c]).1, &[-1., 0., 1., -1.]);
    assert_near(&result("elemwise_pow", &[], &[&a, &c]).1, &[1., 4., 9., 1024.]);
    assert_near(&result("elemwise_div", &[], &[&a, &c]).1, &[0.5, 1., 1.5, 0.8]);
    assert_near(&result("greater", &[], &[&a, &c]).1, &[0., 0., 1., 0.]);
    assert_near(&result("less", &[], &[&a, &c]).1, &[1., 0., 0., 1.]);
    assert_near(&result("elemwise_sum", &[("num_args", "3")], &[&a, &a, &c]).1, &[4., 6., 8., 13.]);
    let ints = |values: &[i32]| Tensor::from_slice(values, &[2]).unwrap();
    let shifted = |name: &str, a: &[i32]| result(name, &[], &[&ints(a), &ints(&[1, 3])]).1;
    assert_eq!(shifted("broadcast_left_shift", &[3, 1]), [6.0, 8.0]);
    assert_eq!(shifted("broadcast_right_shift", &[-4, 16]), [-2.0, 2.0]);
    assert_eq!(result("__lshift_scalar__", &[("scalar", "2")], &[&ints(&[3, 1])]).1, [12.0, 4.0]);
    assert_eq!(result("__rshift_scalar__", &[("scalar", "2")], &[&ints(&[-5, 12])]).1, [-2.0, 3.0]);
    assert_eq!(result("broadcast_mod", &[], &[&ints(&[-7, 7]), &ints(&[3, 3])]).1, [-1.0, 1.0]);
}

#[test]
fn of_other_shapes() {
    let x = floats(&[2, 3], &[1., 2., 3., 4., 5., 6.]);
    let cases: &[(&str, Attrs<'_>, &[i64], &[f32])] = &[
        ("flatten", &[], &[2, 3], &[1., 2., 3., 4., 5., 6.]),
        ("reshape", &[("shape", "(3, -1)")], &[3, 2], &[1., 2., 3., 4., 5., 6.]),
        ("transpose", &[], &[3, 2], &[1., 4., 2., 5., 3., 6.]),
        ("flip", &[("axis", "-1")], &[2, 3], &[3., 2., 1., 6., 5., 4.]),
        ("sum", &[("axis", "0")], &[3], &[5., 7., 9.]),
        ("sum", &[("axis", "0"), ("exclude", "True"), ("keepdims", "1")], &[2, 1], &[6., 15.]),
        ("argmax", &[("axis", "1"), ("keepdims", "True")], &[2, 1], &[2., 2.]),
        ("argmax", &[], &[1], &[5.]),
        ("split", &[("indices_or_sections", "3"), ("axis", "1")], &[2, 1], &[1., 4.]),
        ("__layout_transform__", &[("src_layout", "NC"), ("dst_layout", "CN")], &[3, 2], &[1., 4., 2., 5., 3., 6.]),
    ];
    for (name, attrs, shape, expected) in cases {
        let (got_shape, got) = result(name, attrs, &[&x]);
        assert_eq!((got_shape.as_slice(), got.as_slice()), (*shape, *expected), "{name} {attrs:?}");
    }
    let index = Tensor::from_slice(&[2i32, 0], &[2]).unwrap();
    assert_eq!(result("take", &[("axis", "1")], &[&x, &index]).1, [3., 1., 6., 4.]);
    assert_eq!(result("take", &[], &[&x, &Tensor::from_slice(&[5i32, 9, -1], &[3]).unwrap()]).1, [6., 6., 1.]);
    assert_eq!(result("gather_nd", &[], &[&x, &Tensor::from_slice(&[1i32, 0, 2, 1], &[2, 2]).unwrap()]).1, [6., 2.]);
    assert_eq!(
        result("gather_nd", &[], &[&x, &Tensor::from_slice(&[1i32, 0], &[1, 2]).unwrap()]).1,
        [4., 5., 6., 1., 2., 3.]
    );
    let y = floats(&[2, 3], &[-1.; 6]);
    assert_eq!(result("where", &[], &[&floats(&[2], &[1., 0.]), &x, &y]).1, [1., 2., 3., -1., -1., -1.]);
    assert_eq!(
        result("where", &[], &[&floats(&[2, 3], &[1., 0., 1., 0., 1., 0.]), &x, &y]).1,
        [1., -1., 3., -1., 5., -1.]
    );
    assert_eq!(
        result("concatenate", &[("axis", "0")], &[&x, &floats(&[1, 3], &[7., 8., 9.])]).1,
        [1., 2., 3., 4., 5., 6., 7., 8., 9.]
    );
    assert_eq!(result("slice_like", &[], &[&x, &floats(&[1, 2], &[0., 0.])]).1, [1., 2.]);
    assert_eq!(
        result("expand_like", &[("axis", "0")], &[&floats(&[3], &[1., 2., 3.]), &x]).1,
        [1., 2., 3., 1., 2., 3.]
    );
    assert_eq!(result("collapse_sum", &[], &[&x, &floats(&[3], &[0.; 3])]).1, [5., 7., 9.]);
    assert_eq!(result("collapse_sum", &[], &[&x, &floats(&[2, 1], &[0.; 2])]).1, [6., 15.]);
    assert_eq!(result("_max_mask", &[("axis", "1")], &[&x, &floats(&[2], &[3., 6.])]).1, [0., 0., 1., 0., 0., 1.]);
    assert_eq!(result("_min_mask", &[("axis", "1")], &[&x, &floats(&[2], &[2., 4.])]).1, [0., 1., 0., 1., 0., 0.]);
    assert_eq!(
        result("prelu", &[], &[&floats(&[1, 2, 2], &[-1., 1., -2., 2.]), &floats(&[2], &[0.5, 0.25])]).1,
        [-0.5, 1., -0.5, 2.]
    );
}

#[test]
fn products_and_windows() {
    let a = floats(&[2, 3], &[1., 2., 3., 4., 5., 6.]);
    let b = floats(&[3, 2], &[1., 0., 0., 1., 1., 1.]);
    assert_eq!(result("matmul", &[], &[&a, &b]).1, [4., 5., 10., 11.]);
    assert_eq!(result("matmul", &[("transpose_a", "True"), ("transpose_b", "True")], &[&a, &b]).0, [3, 3]);
    let wide = floats(&[1, 2, 3], &[1., 2., 3., 4., 5., 6.]);
    assert_eq!(result("matmul", &[], &[&wide, &b]), (vec![1, 2, 2], vec![4., 5., 10., 11.]));
    let w = floats(&[2, 3], &[1., 0., 1., 0., 1., 1.]);
    assert_eq!(result("dense", &[("units", "2"), ("use_bias", "False")], &[&a, &w]).1, [4., 5., 10., 11.]);
    let x = floats(&[1, 1, 3, 3], &[1., 2., 3., 4., 5., 6., 7., 8., 9.]);
    let cases: &[(&str, Attrs<'_>, &[f32])] = &[
        ("max_pool2d", &[("pool_size", "(2, 2)")], &[5., 6., 8., 9.]),
        ("max_pool2d", &[("pool_size", "2"), ("strides", "2"), ("ceil_mode", "True")], &[5., 6., 8., 9.]),
        ("avg_pool2d", &[("pool_size", "2"), ("strides", "2"), ("padding", "(1, 1)")], &[1., 2.5, 5.5, 7.]),
        (
            "avg_pool2d",
            &[("pool_size", "2"), ("strides", "2"), ("padding", "(1, 1)"), ("count_include_pad", "True")],
            &[0.25, 1.25, 2.75, 7.],
        ),
        ("global_avg_pool2d", &[], &[5.]),
        ("global_max_pool2d", &[], &[9.]),
        (
            "upsampling",
            &[("scale", "2")],
            &[
                1., 1., 2., 2., 3., 3., 1., 1., 2., 2., 3., 3., 4., 4., 5., 5., 6., 6., 4., 4., 5., 5., 6., 6., 7., 7.,
                8., 8., 9., 9., 7., 7., 8., 8., 9., 9.,
            ],
        ),
        (
            "resize",
            &[("size", "(5, 3)"), ("align_corners", "True")],
            &[1., 2., 3., 2.5, 3.5, 4.5, 4., 5., 6., 5.5, 6.5, 7.5, 7., 8., 9.],
        ),
    ];
    for (name, attrs, expected) in cases {
        assert_near(&result(name, attrs, &[&x]).1, expected);
    }
    // The same in other layouts.
    let (x, w) = (ramp(&[1, 4, 5, 6]), ramp(&[8, 4, 3, 3]));
    let attrs = [("channels", "8"), ("kernel_size", "(3, 3)"), ("use_bias", "False")];
    let plain = result("conv2d", &attrs, &[&x, &w]).1;
    let turned = result("__layout_transform__", &[("src_layout", "NCHW"), ("dst_layout", "NHWC")], &[&x]);
    let (weights_shape, weights) =
        result("__layout_transform__", &[("src_layout", "OIHW"), ("dst_layout", "HWIO")], &[&w]);
    let mut other = attrs.to_vec();
    other.extend([("layout", "NHWC"), ("kernel_layout", "HWIO")]);
    let (shape, values) = result("conv2d", &other, &[&floats(&turned.0, &turned.1), &floats(&weights_shape, &weights)]);
    assert_eq!(shape, [1, 3, 4, 8]);
    let back =
        result("__layout_transform__", &[("src_layout", "NHWC"), ("dst_layout", "NCHW")], &[&floats(&shape, &values)])
            .1;
    assert_near(&back, &plain);
    // A transposed convolution spreads each element.
    let one = floats(&[1, 1, 1, 2], &[1., 2.]);
    let spread = result(
        "conv2d_transpose",
        &[("channels", "1"), ("kernel_size", "(1, 2)"), ("strides", "(1, 2)"), ("use_bias", "False")],
        &[&one, &floats(&[1, 1, 1, 2], &[1., 10.])],
    );
    assert_eq!(spread, (vec![1, 1, 1, 4], vec![1., 10., 2., 20.]));
}

#[test]
fn from_nothing() {
    for (name, attrs, expected) in [
        ("full", &[("shape", "(2,)"), ("fill_value", "3.5")][..], [3.5, 3.5]),
        ("ones", &[("shape", "(2,)")][..], [1., 1.]),
        ("zeros", &[("shape", "2")][..], [0., 0.]),
    ] {
        assert_eq!(result(name, attrs, &[]).1, expected, "{name}");
    }
}
