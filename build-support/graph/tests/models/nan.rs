//! Recurrent networks with functions that compare, and sequences with NaN in them.

use kernpack::Tensor;
use kernpack_compiler::codegen::Target;
use kernpack_graph::{LowerOptions, ModelOptions, build, import};

use super::structures::{close, floats, ints, results, with_int, with_text};
use super::{Message, model, node, value, weights};

/// Adds an attribute of floats: one, or a list.
fn with_floats(node: Message, name: &str, values: &[f32], is_list: bool) -> Message {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut attribute = Message::default().text(1, name).int(20, if is_list { 6 } else { 1 });
    if is_list {
        attribute = attribute.bytes(7, &bytes);
    } else {
        attribute.0.push(2 << 3 | 5);
        attribute.0.extend(&bytes);
    }
    node.message(5, attribute)
}

fn numbers(count: i64) -> Vec<f32> {
    (0..count).map(|place| (place * 7 % 11) as f32 / 20.0 - 0.2).collect()
}

/// A sequence with NaN in it has a state of NaN from there on; the other one keeps its own.
#[test]
fn nan_in_sequences_stays() {
    let (steps, batch, size, hidden) = (3, 2, 4, 5);
    let names = ["Relu", "HardSigmoid", "LeakyRelu", "ThresholdedRelu", "Elu", "Softplus"];
    let rows = names
        .map(|name| ("RNN", 1, vec![name]))
        .into_iter()
        .chain([("GRU", 3, vec!["HardSigmoid", "Relu"]), ("LSTM", 4, vec!["HardSigmoid", "Relu", "Relu"])]);
    for (name, gates, functions) in rows {
        let named =
            functions.iter().fold(Message::default().text(1, "activations").int(20, 8), |attribute, function| {
                attribute.bytes(9, function.as_bytes())
            });
        let own = with_int(node(name, &["x", "w", "r"], &["y"]), "hidden_size", hidden).message(5, named);
        let own = with_floats(own, "clip", &[2.0], false);
        let own = with_floats(own, "activation_alpha", &vec![0.2; functions.len()], true);
        let own = with_floats(own, "activation_beta", &vec![0.5; functions.len()], true);
        let of = |name: &str, dims: &[i64]| weights(name, dims, &numbers(dims.iter().product()));
        let (x_shape, y_shape) = ([steps, batch, size], [steps, 1, batch, hidden]);
        let graph = Message::default()
            .message(1, own)
            .text(2, "network")
            .message(5, of("w", &[1, gates * hidden, size]))
            .message(5, of("r", &[1, gates * hidden, hidden]))
            .message(11, value("x", &x_shape))
            .message(12, value("y", &y_shape));
        let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
        let (module, _) = build(&graph, "network", &Target::host(), LowerOptions::default()).unwrap();
        let run = |values: &[f32]| {
            let x = Tensor::from_slice(values, &x_shape).unwrap();
            let y = Tensor::zeros::<f32>(&y_shape).unwrap();
            module.function("network").unwrap().call((&x, &y)).unwrap();
            y.view::<f32>().unwrap().to_vec()
        };
        let values = numbers(steps * batch * size);
        let plain = run(&values);
        assert!(plain.iter().all(|value| value.is_finite()), "{name} {functions:?}");
        for place in 0..values.len() {
            let mut values = values.clone();
            values[place] = f32::NAN;
            let [batch, size, hidden] = [batch, size, hidden].map(|extent| extent as usize);
            let (from, sequence) = (place / (batch * size), place / size % batch);
            for (index, value) in run(&values).iter().enumerate() {
                let is_behind = index / hidden % batch == sequence && index / (batch * hidden) >= from;
                let fits = if is_behind { value.is_nan() } else { *value == plain[index] };
                assert!(fits, "{name} {functions:?}: NaN at {place}: state {index} is {value}");
            }
        }
    }
}

/// Existing NaN, and new NaN, whatever follows.
#[test]
fn nan_in_scattered_elements_stays() {
    for reduction in ["min", "max"] {
        let inputs = [
            ("x", floats(&[4], &[1.0, f32::NAN, 3.0, 4.0])),
            ("i", ints(&[5], &[1, 0, 0, 3, 3])),
            ("u", floats(&[5], &[7.0, f32::NAN, 9.0, 5.0, 2.0])),
        ];
        let last = if reduction == "min" { 2.0 } else { 5.0 };
        let nodes = || vec![with_text(node("ScatterElements", &["x", "i", "u"], &["y"]), "reduction", reduction)];
        let expected = [f64::NAN, f64::NAN, 3.0, last];
        close(&results(nodes, &inputs, &["y"])[0].to_floats().unwrap(), &expected);
        let mut inputs = inputs;
        inputs[1].1 = ints(&[5, 1], &[1, 0, 0, 3, 3]);
        let nodes = || vec![with_text(node("ScatterND", &["x", "i", "u"], &["y"]), "reduction", reduction)];
        close(&results(nodes, &inputs, &["y"])[0].to_floats().unwrap(), &expected);
    }
}
