//! Valid models that used to be rejected, and models that are too large once their functions are
//! inlined.

use kernpack_graph::{Constant, ModelOptions, import};

use super::structures::{close, floats, ints, model, results, run, with_int, with_ints, with_text};
use super::{Message, node, value};

/// Checks the results of code, which must agree with the evaluator at build time.
#[track_caller]
fn gives(nodes: impl Fn() -> Vec<Message>, inputs: &[(&str, Constant)], output: &str, shape: &[i64], values: &[f64]) {
    let found = results(nodes, inputs, &[output]).swap_remove(0);
    assert_eq!(found.shape(), shape);
    close(&found.to_floats().unwrap(), values);
}

fn cast(from: &str, to: &str, number: i64) -> Message {
    with_int(node("Cast", &[from], &[to]), "to", number)
}

const FLOAT16: i64 = 10;
const BFLOAT16: i64 = 16;
const INT32: i64 = 6;

#[test]
fn orders_of_half_precision() {
    let x = floats(&[2, 4], &[3.0, -1.0, 7.5, 0.25, 5.0, 5.0, 2.0, -8.0]);
    for number in [FLOAT16, BFLOAT16] {
        for largest in [1, 0] {
            let nodes = || {
                let top = with_int(node("TopK", &["half", "two"], &["values", "places"]), "largest", largest);
                vec![cast("x", "half", number), top, cast("values", "wide", 1)]
            };
            let inputs = [("x", x.clone()), ("two", ints(&[1], &[2]))];
            let known = || [("two", ints(&[1], &[2]))];
            let mut options = ModelOptions::default();
            options.constants.extend(known().map(|(name, value)| (name.to_owned(), value)));
            let found = run(&model(nodes(), &inputs, &["wide", "places"]), &inputs, &options);
            let (values, places): ([f64; 4], [f64; 4]) = if largest == 1 {
                ([7.5, 3.0, 5.0, 5.0], [2.0, 0.0, 0.0, 1.0])
            } else {
                ([-1.0, 0.25, -8.0, 2.0], [1.0, 3.0, 3.0, 2.0])
            };
            close(&found[0].to_floats().unwrap(), &values);
            close(&found[1].to_floats().unwrap(), &places);
        }
        let nodes = || {
            let unique = node("Unique", &["half"], &["values", "first", "inverse", "counts"]);
            vec![cast("x", "half", number), unique, cast("values", "wide", 1)]
        };
        let inputs = [("x", floats(&[5], &[2.0, 1.0, 2.0, -3.0, 1.0]))];
        let found = results(nodes, &inputs, &["wide", "first", "inverse", "counts"]);
        for (found, expected) in
            found.iter().zip([&[-3.0, 1.0, 2.0][..], &[3.0, 1.0, 0.0], &[2.0, 1.0, 2.0, 0.0, 1.0], &[1.0, 2.0, 2.0]])
        {
            close(&found.to_floats().unwrap(), expected);
        }
        // Results of two types from one operation.
        let nodes = || {
            let pool = with_ints(node("MaxPool", &["half"], &["values", "places"]), "kernel_shape", &[2]);
            vec![cast("x", "half", number), with_ints(pool, "strides", &[2]), cast("values", "wide", 1)]
        };
        let found = results(nodes, &[("x", floats(&[1, 1, 4], &[1.0, 4.0, 9.0, 2.0]))], &["wide", "places"]);
        close(&found[0].to_floats().unwrap(), &[4.0, 9.0]);
        close(&found[1].to_floats().unwrap(), &[1.0, 2.0]);
    }
}

#[test]
fn products_and_reductions_without_elements() {
    let (a, b) = (floats(&[2, 0], &[]), floats(&[0, 3], &[]));
    gives(|| vec![node("MatMul", &["a", "b"], &["y"])], &[("a", a.clone()), ("b", b.clone())], "y", &[2, 3], &[0.0; 6]);
    let c = floats(&[3], &[1.0, 2.0, 3.0]);
    let gemm = || vec![node("Gemm", &["a", "b", "c"], &["y"])];
    gives(gemm, &[("a", a.clone()), ("b", b), ("c", c)], "y", &[2, 3], &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    let sum = || vec![with_int(node("ReduceSum", &["a"], &["y"]), "keepdims", 0)];
    gives(sum, &[("a", a.clone())], "y", &[], &[0.0]);
    for name in ["Relu", "Softmax", "Transpose", "Sqrt", "Identity", "IsNaN"] {
        gives(
            || vec![node(name, &["a"], &["t"]), cast("t", "y", 1)],
            &[("a", a.clone())],
            "y",
            &match name {
                "Transpose" => [0, 2],
                _ => [2, 0],
            },
            &[],
        );
    }
    gives(|| vec![node("NonZero", &["a"], &["y"])], &[("a", a)], "y", &[2, 0], &[]);
}

#[test]
fn parts_without_elements() {
    let nodes = || {
        let parts = with_int(node("Split", &["x"], &["left", "right"]), "num_outputs", 2);
        vec![parts, node("Concat", &["left", "right"], &["y"]).message(5, axis(0))]
    };
    gives(nodes, &[("x", floats(&[0, 3], &[]))], "y", &[0, 3], &[]);
}

fn axis(value: i64) -> Message {
    Message::default().text(1, "axis").int(3, value).int(20, 2)
}

#[test]
fn functions_of_integers() {
    let x = || floats(&[2, 3], &[3.0, 4.0, 0.0, 1.0, 2.0, 2.0]);
    let of = |name: &'static str| {
        move || {
            let reduced = with_int(node(name, &["whole", "one"], &["r"]), "keepdims", 0);
            vec![
                cast("x", "whole", INT32),
                with_ints(node("Constant", &[], &["one"]), "value_ints", &[1]),
                reduced,
                cast("r", "y", 1),
            ]
        }
    };
    gives(of("ReduceL2"), &[("x", x())], "y", &[2], &[5.0, 3.0]);
    // log 7 = 1.95, log 5 = 1.61; log(e^3 + e^4 + 1) = 4.33, log(e + 2 e^2) = 2.86.
    gives(of("ReduceLogSum"), &[("x", x())], "y", &[2], &[1.0, 1.0]);
    gives(of("ReduceLogSumExp"), &[("x", x())], "y", &[2], &[4.0, 2.0]);
    gives(of("ReduceMean"), &[("x", x())], "y", &[2], &[2.0, 1.0]);
}

#[test]
fn norms_of_whole_images() {
    let x = floats(&[1, 2, 2, 2], &[1.0, -2.0, 2.0, 0.0, 3.0, 4.0, 0.0, 0.0]);
    gives(|| vec![node("GlobalLpPool", &["x"], &["y"])], &[("x", x.clone())], "y", &[1, 2, 1, 1], &[3.0, 5.0]);
    let first = || vec![with_int(node("GlobalLpPool", &["x"], &["y"]), "p", 1)];
    gives(first, &[("x", x)], "y", &[1, 2, 1, 1], &[5.0, 7.0]);
}

#[test]
fn places_of_tensorflow() {
    let resize = |mode: &'static str| {
        move || {
            let resize = node("Resize", &["x", "", "", "sizes"], &["y"]);
            let resize = with_text(resize, "coordinate_transformation_mode", "tf_half_pixel_for_nn");
            let resize = with_text(with_text(resize, "mode", mode), "nearest_mode", "floor");
            vec![with_ints(node("Constant", &[], &["sizes"]), "value_ints", &[5]), resize]
        }
    };
    // (i + 0.5) 3 / 5 = 0.3, 0.9, 1.5, 2.1, 2.7.
    let x = || floats(&[3], &[10.0, 20.0, 40.0]);
    gives(resize("nearest"), &[("x", x())], "y", &[5], &[10.0, 10.0, 20.0, 40.0, 40.0]);
    gives(resize("linear"), &[("x", x())], "y", &[5], &[13.0, 19.0, 30.0, 40.0, 40.0]);
}

#[test]
fn axes_of_places_that_stay() {
    // Two channels, and twice as many rows: (i + 0.5) / 2 = 0.25, 0.75, 1.25, 1.75.
    let nodes = || {
        let resize = node("Resize", &["x", "", "", "sizes"], &["y"]);
        let resize = with_text(resize, "coordinate_transformation_mode", "tf_half_pixel_for_nn");
        let resize = with_text(with_text(resize, "mode", "nearest"), "nearest_mode", "ceil");
        vec![with_ints(node("Constant", &[], &["sizes"]), "value_ints", &[1, 2, 4, 1]), resize]
    };
    let x = floats(&[1, 2, 2, 1], &[1.0, 2.0, 3.0, 4.0]);
    gives(nodes, &[("x", x)], "y", &[1, 2, 4, 1], &[2.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0]);
    // A fifth of five in single precision is slightly more than one.
    let nodes = || {
        let resize = node("Resize", &["x", "", "scales"], &["y"]);
        let resize = with_text(resize, "coordinate_transformation_mode", "pytorch_half_pixel");
        let scales = Message::default().text(1, "value_floats").bytes(7, &0.2f32.to_le_bytes()).int(20, 6);
        vec![node("Constant", &[], &["scales"]).message(5, scales), with_text(resize, "mode", "linear")]
    };
    gives(nodes, &[("x", floats(&[5], &[7.0, 1.0, 2.0, 3.0, 4.0]))], "y", &[1], &[7.0]);
}

#[test]
fn suppression_that_chooses_nothing() {
    let inputs = [("boxes", floats(&[1, 1, 4], &[0.0, 0.0, 1.0, 1.0])), ("scores", floats(&[1, 1, 1], &[0.9]))];
    gives(|| vec![node("NonMaxSuppression", &["boxes", "scores"], &["y"])], &inputs, "y", &[0, 3], &[]);
}

#[test]
fn sums_of_what_is_before() {
    let rows = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let x = floats(&[2, 3], &rows.concat());
    for axis in [0_usize, 1] {
        for (exclusive, reverse) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let nodes = || {
                let sums = with_int(node("CumSum", &["x", "axis"], &["y"]), "exclusive", exclusive);
                let along = with_ints(node("Constant", &[], &["axis"]), "value_ints", &[axis as i64]);
                vec![along, with_int(sums, "reverse", reverse)]
            };
            let mut expected = Vec::new();
            for row in 0..2_usize {
                for column in 0..3_usize {
                    let (at, extent) = if axis == 0 { (row, 2) } else { (column, 3) };
                    let counts = |other: usize| match (exclusive, reverse) {
                        (0, 0) => other <= at,
                        (1, 0) => other < at,
                        (0, _) => other >= at,
                        _ => other > at,
                    };
                    let element =
                        |other: usize| f64::from(if axis == 0 { rows[other][column] } else { rows[row][other] });
                    expected.push((0..extent).filter(|other| counts(*other)).map(element).sum::<f64>());
                }
            }
            gives(nodes, &[("x", x.clone())], "y", &[2, 3], &expected);
        }
    }
}

/// A function `d.NAME`: its inputs, nodes and output.
fn function(name: &str, inputs: &[&str], nodes: Vec<Message>, output: &str) -> Message {
    let function = inputs.iter().fold(Message::default().text(1, name), |function, input| function.text(4, input));
    let function = nodes.into_iter().fold(function.text(5, output), |function, node| function.message(7, node));
    let opset = |domain: &str, version: i64| Message::default().text(1, domain).int(2, version);
    function.message(9, opset("", 20)).message(9, opset("d", 1)).text(10, "d")
}

fn with_functions(nodes: Vec<Message>, functions: Vec<Message>) -> Vec<u8> {
    let graph = nodes.into_iter().fold(Message::default().text(2, "g"), |graph, node| graph.message(1, node));
    let graph = graph.message(11, value("x", &[2])).message(12, value("y", &[2]));
    let opset = |domain: &str, version: i64| Message::default().text(1, domain).int(2, version);
    let model = Message::default().int(1, 8).message(7, graph).message(8, opset("", 20)).message(8, opset("d", 1));
    functions.into_iter().fold(model, |model, function| model.message(25, function)).0
}

fn in_domain(node: Message) -> Message {
    node.text(7, "d")
}

#[test]
fn functions_without_an_input() {
    // Clip omits the inputs that the function is called without.
    let clip = || function("Limit", &["a", "low", "high"], vec![node("Clip", &["a", "low", "high"], &["b"])], "b");
    let x = floats(&[2], &[-3.0, 3.0]);
    for (inputs, expected) in
        [(&["x"][..], [-3.0, 3.0]), (&["x", "zero"], [0.0, 3.0]), (&["x", "", "zero"], [-3.0, 0.0])]
    {
        let zero = node("Constant", &[], &["zero"]);
        let mut number = Message::default().text(1, "value_float");
        number.0.push(2 << 3 | 5);
        number.0.extend_from_slice(&0f32.to_le_bytes());
        let nodes = vec![zero.message(5, number.int(20, 1)), in_domain(node("Limit", inputs, &["y"]))];
        let found = run(&with_functions(nodes, vec![clip()]), &[("x", x.clone())], &ModelOptions::default());
        close(&found[0].to_floats().unwrap(), &expected);
    }
    // A missing required input of an operator is reported by name.
    let add = function("Sum", &["a", "b"], vec![node("Add", &["a", "b"], &["c"])], "c");
    let bytes = with_functions(vec![in_domain(node("Sum", &["x"], &["y"]))], vec![add]);
    let error = import(&bytes, None, &ModelOptions::default()).err().unwrap().to_string();
    assert!(error.contains("Add") && error.contains("input 1 is missing"), "{error}");
}

#[test]
fn functions_that_are_written_out_too_often() {
    let depth = 20;
    let functions = (0..depth).map(|number| {
        let inner = |from: &str, to: &str| match number {
            0 => node("Neg", &[from], &[to]),
            _ => in_domain(node(&format!("F{}", number - 1), &[from], &[to])),
        };
        function(&format!("F{number}"), &["a"], vec![inner("a", "b"), inner("b", "c")], "c")
    });
    let last = in_domain(node(&format!("F{}", depth - 1), &["x"], &["y"]));
    let bytes = with_functions(vec![last], functions.collect());
    let error = import(&bytes, None, &ModelOptions::default()).err().unwrap().to_string();
    assert!(error.contains("more than 100000 nodes"), "{error}");
}

#[test]
fn dimensions_that_calls_tell() {
    let input = |dims: &[i64]| {
        let graph = Message::default().message(1, node("Relu", &["x"], &["y"])).text(2, "g");
        super::model(graph.message(11, value("x", dims)).message(12, value("y", dims)))
    };
    let error = import(&input(&[-1, 3]), None, &ModelOptions::default()).err().unwrap().to_string();
    let named = "input 'x': dimension 0 ('x.0') is not known: say `.dim(\"x.0\", extent)`, or `.input(\"x\", [..])`";
    assert!(error.contains(named), "{error}");
    let mut options = ModelOptions::default();
    options.inputs.insert("x".to_owned(), vec![2, 3]);
    assert!(import(&input(&[-1, 3]), None, &options).is_ok());
    let error = import(&input(&[-1, 4]), None, &options).err().unwrap().to_string();
    assert!(error.contains("input 'x' is [?, 4] in the model, and was said to be [2, 3]"), "{error}");
}
