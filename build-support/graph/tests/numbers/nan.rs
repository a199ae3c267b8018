//! NaN propagates through every operator that compares, at every position: the results that depend
//! on an element are NaN, and all others are unchanged.
//!
//! Each row names a twin that computes its results from the same elements with sums, which
//! propagate NaN by themselves. The operator is compiled, the twin is evaluated.

use kernpack::DataType;
use kernpack_compiler::ir::{F16, F32, F64};
use kernpack_graph::{Attr, Constant};

use super::program::{Program, known};
use super::{ints, run, text};

type Given = &'static [(&'static str, &'static [i64])];

/// Converts attributes of integers. A list with one element is a number, if the name is that of a
/// number.
fn attributes(given: Given) -> Vec<(&'static str, Attr)> {
    let of = |(name, values): &(&'static str, &'static [i64])| {
        let is_list = matches!(*name, "kernel_shape" | "strides" | "pads" | "dilations");
        (*name, if is_list { Attr::Ints(values.to_vec()) } else { Attr::Int(values[0]) })
    };
    given.iter().map(of).collect()
}

/// Returns numbers between 0 and 1 that are all different.
fn numbers(shape: &[i64]) -> Vec<f64> {
    let count = shape.iter().product::<i64>();
    (0..count).map(|place| (place * 37 % count) as f64 / count as f64 * 0.8 + 0.1).collect()
}

/// Returns the positions of NaN: all of a few, else the first and the last ones, and some in
/// between.
fn positions(count: usize) -> Vec<usize> {
    match count {
        0..=8 => (0..count).collect(),
        _ => [0, 1].into_iter().chain((2..count - 1).step_by(count / 5 + 1)).chain([count - 1]).collect(),
    }
}

/// Runs compiled code.
fn compiled(program: Program) -> impl Fn(&[Constant]) -> Constant {
    move |given| program.run(&given.iter().collect::<Vec<_>>()).remove(0)
}

/// Returns the first result of an operator on these inputs and some more.
fn evaluated(
    name: &'static str,
    attrs: Vec<(&'static str, Attr)>,
    more: Vec<Constant>,
) -> impl Fn(&[Constant]) -> Constant {
    move |given| run(name, &attrs, &given.iter().chain(&more).cloned().map(Some).collect::<Vec<_>>()).unwrap().remove(0)
}

/// Runs an operator and its twin with NaN at several positions of one of the inputs.
fn check(
    what: &str,
    program: &dyn Fn(&[Constant]) -> Constant,
    twin: &dyn Fn(&[Constant]) -> Constant,
    dtype: DataType,
    inputs: &[(Vec<i64>, Vec<f64>)],
) {
    let constants = |at: Option<(usize, usize)>| -> Vec<Constant> {
        let of = |(number, (shape, values)): (usize, &(Vec<i64>, Vec<f64>))| {
            let mut values = values.clone();
            if let Some((_, place)) = at.filter(|(input, _)| *input == number) {
                values[place] = f64::NAN;
            }
            known(dtype, shape, &values)
        };
        inputs.iter().enumerate().map(of).collect()
    };
    let plain = program(&constants(None)).to_floats().unwrap();
    assert!(plain.iter().all(|value| !value.is_nan()), "{what}: NaN of numbers");
    for (number, (_, values)) in inputs.iter().enumerate() {
        for place in positions(values.len()) {
            let given = constants(Some((number, place)));
            let [results, wanted] = [program, twin].map(|function| function(&given).to_floats().unwrap());
            assert!(wanted.len() == results.len(), "{what}: the twin has other results");
            for (index, result) in results.iter().enumerate() {
                let fits = if wanted[index].is_nan() { result.is_nan() } else { *result == plain[index] };
                assert!(
                    fits,
                    "{what}: NaN at {place} of input {number}: result {index} is {result}, without it {}",
                    plain[index]
                );
            }
        }
    }
}

fn of_types(is_wide: bool) -> &'static [DataType] {
    if is_wide { &[F32, F64, F16] } else { &[F32] }
}

/// Elementwise operators, with the number that is added to elements between 0 and 1.
pub(crate) const ELEMENTS: &[(&str, f64)] = &[
    ("Abs", 0.0),
    ("Neg", 0.0),
    ("Ceil", 0.0),
    ("Floor", 0.0),
    ("Round", 0.0),
    ("Sqrt", 0.0),
    ("Exp", 0.0),
    ("Log", 0.0),
    ("Sin", 0.0),
    ("Cos", 0.0),
    ("Tan", 0.0),
    ("Asin", 0.0),
    ("Acos", 0.0),
    ("Atan", 0.0),
    ("Sinh", 0.0),
    ("Cosh", 0.0),
    ("Tanh", 0.0),
    ("Asinh", 0.0),
    ("Acosh", 1.0),
    ("Atanh", 0.0),
    ("Erf", 0.0),
    ("Sigmoid", 0.0),
    ("Reciprocal", 0.0),
    ("Softsign", 0.0),
    ("Swish", 0.0),
    ("Gelu", 0.0),
    ("Log1p", 0.0),
    ("Expm1", 0.0),
    ("Exp2", 0.0),
    ("Log2", 0.0),
    ("Trunc", 0.0),
    ("Rsqrt", 0.0),
];

/// Elementwise operators that compare.
pub(crate) const COMPARING: &[(&str, f64)] = &[
    ("Relu", -0.5),
    ("LeakyRelu", -0.5),
    ("Elu", -0.5),
    ("Selu", -0.5),
    ("Celu", -0.5),
    ("ThresholdedRelu", 0.5),
    ("HardSigmoid", -0.5),
    ("HardSwish", -0.5),
    ("Softplus", -0.5),
    ("Mish", -0.5),
    ("Shrink", -0.5),
    ("Sign", -0.5),
    ("Clip", -0.5),
    ("Softmax", 0.0),
    ("LogSoftmax", 0.0),
];

#[test]
fn of_each_element() {
    for (rows, is_wide) in [(ELEMENTS, false), (COMPARING, true)] {
        for (name, shift) in rows {
            for dtype in of_types(is_wide) {
                // One vector and a remainder, and less than one.
                let shape = vec![2, 19];
                let values: Vec<f64> = numbers(&shape).into_iter().map(|value| value + shift).collect();
                let x = known(*dtype, &shape, &values);
                let limits = [known(*dtype, &[], &[-0.25]), known(*dtype, &[], &[0.25])];
                let mut inputs = vec![Some((&x, true))];
                if *name == "Clip" {
                    inputs.extend(limits.iter().map(|limit| Some((limit, false))));
                }
                let twin = evaluated(if name.ends_with("Softmax") { "LpNormalization" } else { "Neg" }, vec![], vec![]);
                let what = format!("{name} {dtype}");
                if is_wide {
                    let program = compiled(Program::new(name, &[], &inputs, 1).unwrap());
                    check(&what, &program, &twin, *dtype, &[(shape.clone(), values.clone())]);
                }
                let more = inputs[1..].iter().flatten().map(|(limit, _)| (*limit).clone()).collect();
                check(&what, &evaluated(name, vec![], more), &twin, *dtype, &[(shape, values)]);
            }
        }
    }
}

/// Elementwise operators on several inputs.
pub(crate) const SEVERAL: &[&str] = &["Max", "Min", "Add", "Sub", "Mul", "Div", "Sum", "Mean", "Pow", "Mod"];

#[test]
fn of_several_inputs() {
    for name in SEVERAL {
        for dtype in of_types(matches!(*name, "Max" | "Min")) {
            // The second one is broadcast along rows.
            let shapes = [vec![3, 19], vec![19]];
            let inputs = shapes.map(|shape| (shape.clone(), numbers(&shape)));
            let [x, y] = inputs.each_ref().map(|(shape, values)| known(*dtype, shape, values));
            let attrs = if *name == "Mod" { vec![("fmod", Attr::Int(1))] } else { vec![] };
            let program = Program::new(name, &attrs, &[Some((&x, true)), Some((&y, true))], 1).unwrap();
            let twin = evaluated("Add", vec![], vec![]);
            check(&format!("{name} {dtype}"), &compiled(program), &twin, *dtype, &inputs);
        }
    }
}

/// Shapes and the reduced axis, for each kind of schedule.
const REDUCED: &[(&[i64], &[i64], bool)] = &[
    (&[3, 5], &[1], false),
    (&[3, 200], &[1], true),
    (&[2, 37], &[1], false),
    (&[200, 3], &[0], false),
    (&[37, 70], &[0], true),
    (&[5, 40], &[0], false),
    (&[2, 5, 40], &[0, 1, 2], false),
    (&[3, 4, 9], &[0, 2], false),
    (&[130], &[0], false),
];

#[test]
fn of_reductions() {
    for name in ["ReduceMax", "ReduceMin", "ReduceLogSumExp"] {
        let rows = if name == "ReduceMax" { REDUCED } else { &REDUCED[1..5] };
        for (shape, axes, is_wide) in rows {
            for dtype in of_types(*is_wide && name == "ReduceMax") {
                let inputs = [(shape.to_vec(), numbers(shape))];
                let (x, axes) = (known(*dtype, shape, &inputs[0].1), ints(&[axes.len() as i64], axes));
                let program = Program::new(name, &[], &[Some((&x, true)), Some((&axes, false))], 1).unwrap();
                let twin = evaluated("ReduceSum", vec![], vec![axes]);
                check(&format!("{name} {dtype} {shape:?}"), &compiled(program), &twin, *dtype, &inputs);
            }
        }
    }
}

/// Shapes and windows: strides of 1 and 2, with padding and without, larger and smaller than a
/// vector, far apart.
const POOLS: &[(&[i64], Given, bool)] = &[
    (&[1, 2, 9, 37], &[("kernel_shape", &[3, 3]), ("pads", &[1, 1, 1, 1])], true),
    (&[1, 2, 6, 40], &[("kernel_shape", &[3, 3])], false),
    (&[1, 1, 9, 20], &[("kernel_shape", &[5, 5]), ("pads", &[2, 2, 2, 2])], false),
    (&[1, 1, 9, 20], &[("kernel_shape", &[7, 7]), ("pads", &[3, 3, 3, 3])], false),
    (&[1, 2, 9, 37], &[("kernel_shape", &[3, 3]), ("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])], true),
    (&[1, 2, 8, 40], &[("kernel_shape", &[2, 2]), ("strides", &[2, 2])], false),
    (&[1, 2, 8, 40], &[("kernel_shape", &[2, 3]), ("strides", &[3, 3])], false),
    (&[1, 1, 9, 24], &[("kernel_shape", &[3, 3]), ("dilations", &[2, 2])], false),
    (&[1, 2, 5, 5], &[("kernel_shape", &[3, 3]), ("strides", &[2, 2]), ("ceil_mode", &[1])], false),
    (&[2, 3, 50], &[("kernel_shape", &[4])], false),
    (&[1, 1, 4, 5, 18], &[("kernel_shape", &[2, 2, 2])], false),
];

#[test]
fn of_pools() {
    for (shape, given, is_wide) in POOLS {
        for dtype in of_types(*is_wide) {
            let inputs = [(shape.to_vec(), numbers(shape))];
            let x = known(*dtype, shape, &inputs[0].1);
            let twin = evaluated("AveragePool", attributes(given), vec![]);
            for outputs in 1..=if dtype.bits() == 32 { 2 } else { 1 } {
                let program = Program::new("MaxPool", &attributes(given), &[Some((&x, true))], outputs).unwrap();
                let what = format!("MaxPool {dtype} {shape:?} {given:?}, {outputs} results");
                assert!(
                    program.run(&[&x])[0] == evaluated("MaxPool", attributes(given), vec![])(core::slice::from_ref(&x)),
                    "{what}"
                );
                check(&what, &compiled(program), &twin, *dtype, &inputs);
            }
        }
    }
    for shape in [[2, 2, 7, 9], [1, 3, 20, 20]] {
        for dtype in of_types(shape[0] == 1) {
            let inputs = [(shape.to_vec(), numbers(&shape))];
            let x = known(*dtype, &shape, &inputs[0].1);
            let program = compiled(Program::new("GlobalMaxPool", &[], &[Some((&x, true))], 1).unwrap());
            let twin = evaluated("GlobalAveragePool", vec![], vec![]);
            check(&format!("GlobalMaxPool {dtype} {shape:?}"), &program, &twin, *dtype, &inputs);
        }
    }
}

#[test]
fn of_regions() {
    let shape = [1, 2, 6, 6];
    let inputs = [(shape.to_vec(), numbers(&shape))];
    let x = known(F32, &shape, &inputs[0].1);
    let (regions, batches) = (known(F32, &[2, 4], &[0.5, 0.5, 4.5, 4.5, 1.0, 2.0, 3.0, 5.0]), ints(&[2], &[0, 0]));
    let attrs =
        |mode: &str| vec![("mode", text(mode)), ("output_height", Attr::Int(2)), ("output_width", Attr::Int(3))];
    let given = [Some((&x, true)), Some((&regions, false)), Some((&batches, false))];
    let program = compiled(Program::new("RoiAlign", &attrs("max"), &given, 1).unwrap());
    check("RoiAlign", &program, &evaluated("RoiAlign", attrs("avg"), vec![regions, batches]), F32, &inputs);
}

/// The first NaN along the axis is the largest and the smallest element, as in NumPy.
#[test]
fn of_places() {
    for (shape, axis) in [(&[3, 7][..], 1), (&[3, 80], 1), (&[37, 5], 0), (&[40, 33], 0), (&[3, 4, 9], 1)] {
        for dtype in of_types(axis == 1 && shape == [3, 80]) {
            let (values, count) = (numbers(shape), shape[axis] as usize);
            let inner = shape[axis + 1..].iter().product::<i64>() as usize;
            let x = known(*dtype, shape, &values);
            let axis_of = [("axis", Attr::Int(axis as i64))];
            let last_too = [axis_of[0].clone(), ("select_last_index", Attr::Int(1))];
            let of = |name: &str, attrs: &[(&str, Attr)]| Program::new(name, attrs, &[Some((&x, true))], 1).unwrap();
            let programs = [of("ArgMax", &axis_of), of("ArgMin", &axis_of), of("ArgMax", &last_too)];
            let hardmax = of("Hardmax", &axis_of);
            for places in [&[0][..], &[1], &[count - 1], &[2, count - 2], &[0, count - 1]] {
                let mut values = values.clone();
                for place in places {
                    values[place * inner + inner / 2] = f64::NAN;
                }
                let x = known(*dtype, shape, &values);
                let what = format!("{dtype} {shape:?} {places:?}");
                for (number, program) in programs.iter().enumerate() {
                    let found = program.run(&[&x])[0].to_ints().unwrap()[inner / 2];
                    let wanted = if number == 2 { places[places.len() - 1] } else { places[0] };
                    assert_eq!(found, wanted as i64, "operator {number} {what}");
                }
                let hot = hardmax.run(&[&x])[0].to_floats().unwrap();
                assert_eq!(hot[places[0] * inner + inner / 2], 1.0, "Hardmax {what}");
            }
        }
    }
    // When sorted, NaN is after all numbers.
    let x = known(F32, &[2, 5], &[1., f64::NAN, 3., 2., f64::NAN, 5., 4., 3., 2., f64::NAN]);
    let k = ints(&[1], &[2]);
    let top = |largest: i64| {
        let program =
            Program::new("TopK", &[("largest", Attr::Int(largest))], &[Some((&x, true)), Some((&k, false))], 2)
                .unwrap();
        program.run(&[&x])[1].to_ints().unwrap()
    };
    assert_eq!((top(1), top(0)), (vec![1, 4, 4, 0], vec![0, 3, 3, 2]));
}
