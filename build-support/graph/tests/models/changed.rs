//! Operators that mean something else in another version, beside ONNX's reference evaluator.

use kernpack_graph::{Constant, ModelOptions, import};

use super::structures::{close, floats, run, undeclared, with_int};
use super::{Message, node, value};

/// A model of one node in a version of the operators.
fn model(version: i64, node: Message, inputs: &[(&str, Constant)]) -> Vec<u8> {
    let graph = inputs.iter().fold(Message::default().message(1, node), |graph, (name, constant)| {
        graph.message(11, value(name, constant.shape()))
    });
    let graph = graph.message(12, undeclared("y"));
    Message::default().int(1, 8).message(7, graph).message(8, Message::default().text(1, "").int(2, version)).0
}

fn result(version: i64, node: Message, inputs: &[(&str, Constant)]) -> Vec<f64> {
    run(&model(version, node, inputs), inputs, &ModelOptions::default())[0].to_floats().unwrap()
}

fn error_of(version: i64, node: Message, inputs: &[(&str, Constant)]) -> String {
    let outcome = import(&model(version, node, inputs), None, &ModelOptions::default());
    outcome.err().map(|error| error.to_string()).unwrap_or_default()
}

/// Scale and shift are by group in version 18, and by channel since version 21.
#[test]
fn group_normalization() {
    let x = [1., 2., -1., 0.5, 0., 3., 2., -2., 4., 1., 1., 0., -3., 2., 0.5, 1.];
    let by = |scale: &[f32], shift: &[f32]| {
        let count = |values: &[f32]| i64::try_from(values.len()).unwrap();
        [("x", floats(&[1, 4, 2, 2], &x)), ("s", floats(&[count(scale)], scale)), ("b", floats(&[count(shift)], shift))]
    };
    let norm = || with_int(node("GroupNormalization", &["x", "s", "b"], &["y"]), "num_groups", 2);
    let by_group = by(&[2., -0.5], &[0.25, 1.]);
    let by_channel = by(&[2., -0.5, 1., 3.], &[0.25, 1., 0., -1.]);
    let expected = [
        0.650641, 1.932691, -1.913460, 0.009616, -0.631410, 3.214741, 1.932691, -3.195510, 0.131971, 0.948940,
        0.948940, 1.221262, 2.038230, 0.676617, 1.085101, 0.948940,
    ];
    close(&result(18, norm(), &by_group), &expected);
    let expected = [
        0.650641, 1.932691, -1.913460, 0.009616, 1.220352, 0.258815, 0.579327, 1.861378, 1.736058, 0.102121, 0.102121,
        -0.442524, -7.229384, 0.940300, -1.510605, -0.693637,
    ];
    close(&result(21, norm(), &by_channel), &expected);
    let error = error_of(18, norm(), &by_channel);
    assert!(
        error.ends_with("numbers by group (operators before version 21) of the shape [4], expected [2]"),
        "{error}"
    );
    let error = error_of(21, norm(), &by_group);
    assert!(error.ends_with("numbers by channel of the shape [2], expected [4]"), "{error}");
}

/// The quotient is rounded before it is rounded to an integer.
#[test]
fn precision_of_quantization() {
    // x, and x / 0.3 as an integer in single precision, in half precision and in bfloat16.
    let rows: &[(f32, [f64; 3])] = &[
        (-19.360_33, [-65., -64., -64.]),
        (3.150_34, [11., 10., 10.]),
        (11.247_62, [37., 38., 38.]),
        (14.551_45, [49., 48., 48.]),
        (5.242_469, [17., 17., 18.]),
        (12.218_566, [41., 41., 40.]),
        (1.5, [5., 5., 5.]),
    ];
    let x: Vec<f32> = rows.iter().map(|(x, _)| *x).collect();
    let inputs = [("x", floats(&[7], &x)), ("s", floats(&[], &[0.3]))];
    for (place, precision) in [1, 10, 16].into_iter().enumerate() {
        let quantize = with_int(node("QuantizeLinear", &["x", "s"], &["y"]), "output_dtype", 3);
        let expected: Vec<f64> = rows.iter().map(|(_, expected)| expected[place]).collect();
        assert_eq!(result(23, with_int(quantize, "precision", precision), &inputs), expected, "{precision}");
    }
}

/// Before version 7, an operator that is not told that it is in a test trains.
#[test]
fn training_is_refused() {
    let [channels, x] = [floats(&[2], &[1., 2.]), floats(&[1, 2, 1, 1], &[1., 2.])];
    let inputs = [("x", x.clone()), ("s", channels.clone()), ("b", channels.clone()), ("m", channels.clone())];
    let inputs = [&inputs[..], &[("v", channels)]].concat();
    let norm = || node("BatchNormalization", &["x", "s", "b", "m", "v"], &["y"]);
    let dropout = || node("Dropout", &["x"], &["y"]);
    for node in [norm, dropout] as [fn() -> Message; 2] {
        for (version, node) in [(6, node()), (6, with_int(node(), "is_test", 0))] {
            let error = error_of(version, node, &inputs);
            assert!(error.contains("attribute `is_test` is 0, which is training before version 7"), "{error}");
        }
        for (version, node) in [(6, with_int(node(), "is_test", 1)), (7, node())] {
            assert_eq!(error_of(version, node, &inputs), "");
        }
    }
    close(&result(6, with_int(norm(), "is_test", 1), &inputs), &[1., 2.]);
}
