//! Small models, written by hand as protocol buffers: read, compiled, run.

#[path = "models/arguments.rs"]
mod arguments;
#[path = "models/branches.rs"]
mod branches;
#[path = "models/chains.rs"]
mod chains;
#[path = "models/changed.rs"]
mod changed;
#[path = "models/checks.rs"]
mod checks;
#[path = "models/custom.rs"]
mod custom;
#[path = "models/differences.rs"]
mod differences;
#[path = "models/dropped.rs"]
mod dropped;
#[path = "models/empty.rs"]
mod empty;
#[path = "models/filters.rs"]
mod filters;
#[path = "models/half.rs"]
mod half;
#[path = "models/hostile.rs"]
mod hostile;
#[path = "models/learned.rs"]
mod learned;
#[path = "models/loops.rs"]
mod loops;
#[path = "models/merged.rs"]
mod merged;
#[path = "models/microsoft.rs"]
mod microsoft;
#[path = "models/names.rs"]
mod names;
#[path = "models/nan.rs"]
mod nan;
#[path = "models/parts.rs"]
mod parts;
#[path = "models/passes.rs"]
mod passes;
#[path = "models/places.rs"]
mod places;
#[path = "models/quantized.rs"]
mod quantized;
#[path = "models/ranges.rs"]
mod ranges;
#[path = "models/refused.rs"]
mod refused;
#[path = "models/regions.rs"]
mod regions;
#[path = "models/rows.rs"]
mod rows;
#[path = "models/sizes.rs"]
mod sizes;
#[path = "models/sparse.rs"]
mod sparse;
#[path = "models/structures.rs"]
mod structures;
#[path = "models/texts.rs"]
mod texts;
#[path = "models/versions.rs"]
mod versions;

use kernpack::Tensor;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::{PassContext, PassOptions, TargetDescription};
use kernpack_graph::{LowerOptions, ModelOptions, build, import, lower};

/// Protocol buffers, built field by field.
#[derive(Clone, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(mut value: u64, bytes: &mut Vec<u8>) {
        while value >= 0x80 {
            bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    }

    fn int(mut self, number: u64, value: i64) -> Self {
        Self::varint(number << 3, &mut self.0);
        Self::varint(value.cast_unsigned(), &mut self.0);
        self
    }

    fn bytes(mut self, number: u64, value: &[u8]) -> Self {
        Self::varint(number << 3 | 2, &mut self.0);
        Self::varint(value.len() as u64, &mut self.0);
        self.0.extend_from_slice(value);
        self
    }

    fn text(self, number: u64, value: &str) -> Self {
        self.bytes(number, value.as_bytes())
    }

    fn message(self, number: u64, value: Self) -> Self {
        self.bytes(number, &value.0)
    }
}

fn value(name: &str, dims: &[i64]) -> Message {
    let shape = dims.iter().fold(Message::default(), |shape, dim| shape.message(1, Message::default().int(1, *dim)));
    let tensor = Message::default().int(1, 1).message(2, shape);
    Message::default().text(1, name).message(2, Message::default().message(1, tensor))
}

fn weights(name: &str, dims: &[i64], values: &[f32]) -> Message {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    dims.iter().fold(Message::default(), |tensor, dim| tensor.int(1, *dim)).int(2, 1).text(8, name).bytes(9, &raw)
}

fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> Message {
    let node = inputs.iter().fold(Message::default(), |node, input| node.text(1, input));
    outputs.iter().fold(node, |node, output| node.text(2, output)).text(4, op)
}

fn model(graph: Message) -> Vec<u8> {
    Message::default().int(1, 8).message(7, graph).message(8, Message::default().text(1, "").int(2, 17)).0
}

/// relu(x w + b) u, with a weight matrix that is transposed at build time.
fn mlp() -> Vec<u8> {
    let graph = Message::default()
        .message(1, node("MatMul", &["x", "w"], &["h"]))
        .message(1, node("Add", &["h", "b"], &["hb"]))
        .message(1, node("Relu", &["hb"], &["r"]))
        .message(1, node("Transpose", &["ut"], &["u"]))
        .message(1, node("MatMul", &["r", "u"], &["y"]))
        .text(2, "mlp")
        .message(5, weights("w", &[3, 4], &[1., 0., 0., 1., 0., 1., 0., -1., 0., 0., 1., 0.]))
        .message(5, weights("b", &[4], &[0.5, 0., -1., 0.]))
        .message(5, weights("ut", &[2, 4], &[1., 2., 3., 4., -1., 0., 0., 1.]))
        .message(11, value("x", &[2, 3]))
        .message(12, value("y", &[2, 2]));
    model(graph)
}

#[test]
fn a_perceptron() {
    let imported = import(&mlp(), None, &ModelOptions::default()).unwrap();
    // The transposition is done.
    assert_eq!(imported.graph.nodes.len(), 4);
    let (module, lowered) = build(&imported.graph, "mlp", &Target::host(), LowerOptions::default()).unwrap();
    let operators: Vec<_> = lowered.kernels.iter().map(|kernel| kernel.operators.join(" ")).collect();
    assert_eq!(operators, ["MatMul Add Relu", "MatMul"]);
    let x = Tensor::from_slice(&[1f32, 2., 3., -1., 0., 1.], &[2, 3]).unwrap();
    let y = Tensor::from_slice(&[0f32; 4], &[2, 2]).unwrap();
    module.function("mlp").unwrap().call((&x, &y)).unwrap();
    // h = [1, 2, 3, -1], [-1, 0, 1, -1]; with b and relu [1.5, 2, 2, 0], [0, 0, 0, 0].
    assert_eq!(y.view::<f32>().unwrap().to_vec(), [11.5, -1.5, 0., 0.]);
    let wrong = module.function("mlp").unwrap().call((&y, &y)).unwrap_err();
    assert!(wrong.to_string().contains("Invalid x.shape[1] on argument #0"), "{wrong}");
}

#[test]
fn without_fusion_each_node_is_a_kernel() {
    let imported = import(&mlp(), None, &ModelOptions::default()).unwrap();
    let options = LowerOptions { fuse: false, ..LowerOptions::default() };
    let (module, lowered) = build(&imported.graph, "mlp", &Target::host(), options).unwrap();
    assert_eq!(lowered.kernels.len(), 4);
    let x = Tensor::from_slice(&[1f32, 2., 3., -1., 0., 1.], &[2, 3]).unwrap();
    let y = Tensor::from_slice(&[0f32; 4], &[2, 2]).unwrap();
    module.function("mlp").unwrap().call((&x, &y)).unwrap();
    assert_eq!(y.view::<f32>().unwrap().to_vec(), [11.5, -1.5, 0., 0.]);
}

#[test]
fn a_convolution_with_what_is_added_to_it() {
    // Twice the identity over 64 channels, with a window of 1 x 1 and with one of 3 x 3 that is
    // only non-zero in the middle.
    for (window, pads) in [(1, 0), (3, 1)] {
        let middle = (window * window) / 2;
        let identity: Vec<f32> = (0..64 * 64 * window * window)
            .map(|place| {
                let (pair, at) = (place / (window * window), place % (window * window));
                if pair / 64 == pair % 64 && at == middle { 2.0 } else { 0.0 }
            })
            .collect();
        let shape = [64, 64, window as i64, window as i64];
        let around = Message::default().text(1, "pads").int(20, 7);
        let around = (0..4).fold(around, |attribute, _| attribute.int(8, pads));
        let graph = Message::default()
            .message(1, node("Conv", &["x", "w"], &["c"]).message(5, around))
            .message(1, node("Add", &["c", "x"], &["y"]))
            .text(2, "residual")
            .message(5, weights("w", &shape, &identity))
            .message(11, value("x", &[1, 64, 16, 16]))
            .message(12, value("y", &[1, 64, 16, 16]));
        let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
        let (module, lowered) = build(&graph, "residual", &Target::host(), LowerOptions::default()).unwrap();
        assert_eq!(lowered.kernels.len(), 1);
        let values: Vec<f32> = (0..64 * 16 * 16).map(|place| (place % 97) as f32).collect();
        let x = Tensor::from_slice(&values, &[1, 64, 16, 16]).unwrap();
        let y = Tensor::zeros::<f32>(&[1, 64, 16, 16]).unwrap();
        module.function("residual").unwrap().call((&x, &y)).unwrap();
        for (got, value) in y.view::<f32>().unwrap().to_vec().iter().zip(&values) {
            assert!((got - 3.0 * value).abs() < 1e-3, "{got} {value}");
        }
    }
}

/// A value of 32-bit integers.
/// Adjacent windows are a product for each pixel; others a convolution over an input with inserted
/// zeros.
#[test]
fn transposed_convolutions_are_convolutions() {
    let (depth, channels) = (3_usize, 5_usize);
    for (window, stride, pad, size) in
        [(2, 2, 0, 6), (3, 3, 0, 17), (3, 2, 1, 6), (4, 2, 1, 5), (2, 3, 0, 4), (3, 1, 0, 4)]
    {
        let out = stride * (size - 1) + window - 2 * pad;
        let (xs, ws): (Vec<f32>, Vec<f32>) = (
            (0..2 * depth * size * size).map(|place| (place * 7 % 11) as f32 - 5.0).collect(),
            (0..depth * channels * window * window).map(|place| (place * 5 % 13) as f32 - 6.0).collect(),
        );
        let bias: Vec<f32> = (0..channels).map(|channel| channel as f32).collect();
        let ints = |name: &str, values: &[usize]| {
            let attribute = Message::default().text(1, name).int(20, 7);
            values.iter().fold(attribute, |attribute, value| attribute.int(8, *value as i64))
        };
        let convolution = node("ConvTranspose", &["x", "w", "b"], &["y"])
            .message(5, ints("strides", &[stride; 2]))
            .message(5, ints("pads", &[pad; 4]));
        let [deep, many, wide] = [depth, channels, window].map(|extent| extent as i64);
        let (x_shape, y_shape) = ([2, deep, size as i64, size as i64], [2, many, out as i64, out as i64]);
        let graph = Message::default()
            .message(1, convolution)
            .text(2, "grown")
            .message(5, weights("w", &[deep, many, wide, wide], &ws))
            .message(5, weights("b", &[many], &bias))
            .message(11, value("x", &x_shape))
            .message(12, value("y", &y_shape));
        let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
        let target = Target::host();
        let context = PassContext::new(PassOptions::default());
        drop(lower(&graph, "grown", &TargetDescription::of(&target), &context, LowerOptions::default()).unwrap());
        let notes = context.take_notes();
        assert!(notes.iter().any(|note| note.ends_with("rule `convolution`")), "{window} {stride}: {notes:#?}");
        let (module, _) = build(&graph, "grown", &target, LowerOptions::default()).unwrap();
        let x = Tensor::from_slice(&xs, &x_shape).unwrap();
        let y = Tensor::zeros::<f32>(&y_shape).unwrap();
        module.function("grown").unwrap().call((&x, &y)).unwrap();
        // Each pixel adds its window to the result.
        let mut wanted: Vec<f32> =
            (0..2 * channels * out * out).map(|place| bias[place / (out * out) % channels]).collect();
        for (n, c, row, column) in (0..2 * depth * size * size).map(|place| {
            (place / (depth * size * size), place / (size * size) % depth, place / size % size, place % size)
        }) {
            for (o, i, j) in (0..channels * window * window)
                .map(|place| (place / (window * window), place / window % window, place % window))
            {
                let (Some(at_y), Some(at_x)) =
                    ((row * stride + i).checked_sub(pad), (column * stride + j).checked_sub(pad))
                else {
                    continue;
                };
                if at_y < out && at_x < out {
                    wanted[((n * channels + o) * out + at_y) * out + at_x] += xs
                        [((n * depth + c) * size + row) * size + column]
                        * ws[((c * channels + o) * window + i) * window + j];
                }
            }
        }
        assert_eq!(y.view::<f32>().unwrap().to_vec(), wanted, "window {window}, stride {stride}, padding {pad}");
    }
}

fn ints(name: &str, dims: &[i64]) -> Message {
    let shape = dims.iter().fold(Message::default(), |shape, dim| shape.message(1, Message::default().int(1, *dim)));
    let tensor = Message::default().int(1, 6).message(2, shape);
    Message::default().text(1, name).message(2, Message::default().message(1, tensor))
}

#[test]
fn products_with_one_hot_vectors_are_rows_of_a_table() {
    // A text network begins like this: tanh(one_hot(x) w + b).
    let numbers: Vec<u8> = (0..3_i32).flat_map(i32::to_le_bytes).collect();
    let range = [1, 1, 3].iter().fold(Message::default(), |tensor, dim| tensor.int(1, *dim));
    let range = range.int(2, 6).text(8, "range").bytes(9, &numbers);
    let cast = node("Cast", &["same"], &["hot"]).message(5, Message::default().text(1, "to").int(3, 1).int(20, 2));
    let graph = Message::default()
        .message(1, node("Equal", &["x", "range"], &["same"]))
        .message(1, cast)
        .message(1, node("MatMul", &["hot", "w"], &["row"]))
        .message(1, node("Add", &["row", "b"], &["sum"]))
        .message(1, node("Tanh", &["sum"], &["y"]))
        .text(2, "text")
        .message(5, range)
        .message(5, weights("w", &[3, 2], &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
        .message(5, weights("b", &[2], &[1.0, -1.0]))
        .message(11, ints("x", &[1, 6, 1]))
        .message(12, value("y", &[1, 6, 2]));
    let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
    let (module, lowered) = build(&graph, "text", &Target::host(), LowerOptions::default()).unwrap();
    assert_eq!(lowered.kernels.iter().map(|kernel| kernel.operators.clone()).collect::<Vec<_>>(), [["Rows"]]);
    let x = Tensor::from_slice(&[0_i32, 2, 1, 3, -1, i32::MIN], &[1, 6, 1]).unwrap();
    let y = Tensor::zeros::<f32>(&[1, 6, 2]).unwrap();
    module.function("text").unwrap().call((&x, &y)).unwrap();
    let rows: [[f32; 2]; 6] = [[1.1, -0.8], [1.5, -0.4], [1.3, -0.6], [1.0, -1.0], [1.0, -1.0], [1.0, -1.0]];
    for (got, expected) in y.view::<f32>().unwrap().to_vec().iter().zip(rows.iter().flatten()) {
        assert!((got - expected.tanh()).abs() < 1e-6, "{got} {}", expected.tanh());
    }
}

#[test]
fn the_matrix_of_a_dense_layer_is_turned() {
    let turned = Message::default().text(1, "transB").int(3, 1).int(20, 2);
    let graph = Message::default()
        .message(1, node("Gemm", &["x", "w", "b"], &["y"]).message(5, turned))
        .text(2, "dense")
        .message(5, weights("w", &[2, 3], &[1., 2., 3., 4., 5., 6.]))
        .message(5, weights("b", &[2], &[0.5, -0.5]))
        .message(11, value("x", &[1, 3]))
        .message(12, value("y", &[1, 2]));
    let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
    let matrix = graph.nodes[0].inputs[1].unwrap();
    assert_eq!(graph.values[matrix].shape, [3, 2]);
    let (module, _) = build(&graph, "dense", &Target::host(), LowerOptions::default()).unwrap();
    let x = Tensor::from_slice(&[1f32, 10., 100.], &[1, 3]).unwrap();
    let y = Tensor::zeros::<f32>(&[1, 2]).unwrap();
    module.function("dense").unwrap().call((&x, &y)).unwrap();
    assert_eq!(y.view::<f32>().unwrap().to_vec(), [321.5, 653.5]);
}

#[test]
fn products_of_several_matrices_with_one_are_products_for_the_rules() {
    for batch in [1, 3] {
        let graph = Message::default()
            .message(1, node("MatMul", &["x", "w"], &["y"]))
            .text(2, "g")
            .message(5, weights("w", &[32, 64], &[0.5; 32 * 64]))
            .message(11, value("x", &[batch, 64, 32]))
            .message(12, value("y", &[batch, 64, 64]));
        let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
        let target = TargetDescription::of(&Target::parse("llvm -mcpu=x86-64-v3").unwrap());
        let context = PassContext::new(PassOptions::default());
        lower(&graph, "model", &target, &context, LowerOptions::default()).unwrap();
        let notes: Vec<String> = context.take_notes().iter().map(|note| note.to_string()).collect();
        assert!(notes.iter().any(|note| note.ends_with("rule `panels`")), "{notes:#?}");
    }
}

#[test]
fn what_is_wrong_with_a_model() {
    let options = ModelOptions::default;
    let message =
        |bytes: &[u8]| import(bytes, None, &options()).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(message(b""), "the file cannot be read: there is no graph in it: this is not an ONNX model");
    let truncated = mlp();
    assert!(message(&truncated[..truncated.len() / 2]).starts_with("the file cannot be read: a field of "));
    let unknown = model(
        Message::default()
            .message(1, node("Frobnicate", &["x"], &["a"]))
            .message(1, node("Frobnicate", &["a"], &["b"]))
            .message(1, node("Quux", &["b"], &["y"]))
            .message(11, value("x", &[2]))
            .message(12, value("y", &[2])),
    );
    assert_eq!(
        message(&unknown),
        "operator Frobnicate is not supported, 2 nodes use it ('a', 'b'): say what it computes, `.operator(CustomOperator::new(\"\", \"Frobnicate\", |call| ..))`\n\
         operator Quux is not supported, 1 node uses it ('y'): say what it computes, `.operator(CustomOperator::new(\"\", \"Quux\", |call| ..))`"
    );
    let shapes = model(
        Message::default()
            .message(1, node("Add", &["x", "z"], &["y"]).text(3, "sum"))
            .message(11, value("x", &[2]))
            .message(11, value("z", &[3]))
            .message(12, value("y", &[2])),
    );
    assert_eq!(message(&shapes), "node 'sum' (Add): shapes [2] and [3] do not fit");
    let cycle = model(
        Message::default()
            .message(1, node("Add", &["x", "b"], &["a"]))
            .message(1, node("Relu", &["a"], &["b"]))
            .message(11, value("x", &[2]))
            .message(12, value("b", &[2])),
    );
    assert_eq!(
        message(&cycle),
        "node 'a' (Add): no node computes its inputs b before it: the graph has a cycle, or is cut"
    );
}

/// Bytes that are changed, removed or added: an error or a graph, never a panic or unbounded
/// memory.
#[test]
fn damaged_models() {
    let good = mlp();
    let mut state = 9_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let (mut graphs, mut errors) = (0, 0);
    for _ in 0..3000 {
        let mut bytes = good.clone();
        for _ in 0..=next(3) {
            let place = next(bytes.len());
            match next(4) {
                0 => bytes.truncate(place + 1),
                1 => bytes.insert(place, u8::try_from(next(256)).unwrap()),
                2 => _ = bytes.remove(place),
                _ => bytes[place] = u8::try_from(next(256)).unwrap(),
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        match import(&bytes, None, &ModelOptions::default()) {
            Ok(_) => graphs += 1,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                errors += 1;
            }
        }
    }
    assert!(graphs > 50 && errors > 1000, "{graphs} graphs, {errors} errors");
}
