//! Operators of onnxruntime: results are compared with those of onnxruntime itself.

use std::path::Path;

use kernpack::Tensor;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{DataTypeExt, F32};
use kernpack_compiler::{PassContext, PassOptions, TargetDescription};
use kernpack_graph::op::{CustomOperator, Pattern, element_tensor};
use kernpack_graph::{Constant, Graph, LowerOptions, ModelOptions, build, import, lower};

use super::structures::{with_int, with_text};
use super::{Message, node, value, weights};

/// The nodes with constant inputs, and the results of onnxruntime 1.32 as outputs `want ..`.
/// `data/make_microsoft.py` writes the file.
fn expected() -> Graph {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/microsoft.onnx");
    import(&std::fs::read(path).unwrap(), None, &ModelOptions::default()).unwrap().graph
}

/// Returns an output that was computed when the model was read.
fn known<'g>(graph: &'g Graph, name: &str) -> &'g Constant {
    let (_, id) = graph.outputs.iter().find(|(output, _)| output == name).unwrap();
    if let Some(known) = &graph.values[*id].known {
        return known;
    }
    let copy = &graph.nodes[graph.values[*id].producer.unwrap()];
    graph.values[copy.inputs[0].unwrap()].known.as_ref().unwrap_or_else(|| panic!("{name} is not known"))
}

#[test]
fn results_are_those_of_onnxruntime() {
    let graph = expected();
    let mut wrong = Vec::new();
    let names = graph.outputs.iter().map(|(name, _)| name).filter(|name| !name.starts_with("want "));
    for name in names {
        let (got, want) = (known(&graph, name), known(&graph, &format!("want {name}")));
        if (got.dtype(), got.shape()) != (want.dtype(), want.shape()) {
            wrong.push(format!("{name}: {} {:?}, not {} {:?}", got.dtype(), got.shape(), want.dtype(), want.shape()));
            continue;
        }
        let (got_all, want_all) = (got.to_floats().unwrap(), want.to_floats().unwrap());
        let is_near = |got: f64, want: f64| match want.abs() > 1e30 {
            true => got.signum() == want.signum() && got.abs() > 1e30,
            // Its state is not quantized here.
            false if name.starts_with("lstm") => (got - want).abs() <= 0.02,
            false => (got - want).abs() <= 2e-6 + 1e-5 * want.abs(),
        };
        let is_float = want.dtype().is_float();
        let first =
            got_all.iter().zip(&want_all).position(|(got, want)| got != want && !(is_float && is_near(*got, *want)));
        if let Some(place) = first {
            wrong.push(format!("{name}: {} at {place}, not {}", got_all[place], want_all[place]));
        }
    }
    assert!(graph.outputs.len() > 300, "only {} results", graph.outputs.len());
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), graph.outputs.len(), wrong.join("\n"));
}

/// A node of the domain.
fn own(op: &str, inputs: &[&str], outputs: &[&str]) -> Message {
    node(op, inputs, outputs).text(7, "com.microsoft")
}

/// A model of nodes with one input `x`: float32[2, 3, 4], and weights `w`: float32[4, 12].
fn model(nodes: Vec<Message>, version: i64) -> Vec<u8> {
    let graph = nodes.into_iter().fold(Message::default(), |graph, node| graph.message(1, node));
    let graph = graph
        .text(2, "g")
        .message(5, weights("w", &[4, 12], &[0.5; 48]))
        .message(5, weights("row", &[4], &[1.0; 4]))
        .message(11, value("x", &[2, 3, 4]))
        .message(12, value("y", &[2, 3, 4]));
    let opset = |domain: &str, version: i64| Message::default().text(1, domain).int(2, version);
    let model = Message::default().int(1, 8).message(7, graph);
    model.message(8, opset("", 17)).message(8, opset("com.microsoft", version)).0
}

fn error_of(node: Message) -> String {
    import(&model(vec![node], 1), None, &ModelOptions::default()).err().expect("it is imported").to_string()
}

#[test]
fn a_node_becomes_one_kernel() {
    let skip = own("SkipLayerNormalization", &["x", "x", "row", "row"], &["s"]);
    let nodes = vec![skip, own("QuickGelu", &["s"], &["y"])];
    let graph = import(&model(nodes, 1), None, &ModelOptions::default()).unwrap().graph;
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(names, ["Add", "LayerNormalization", "Swish"]);
    assert_eq!(graph.groups(true).len(), 1);
    // Results have the names of the model.
    assert_eq!(graph.values[graph.nodes[1].outputs[0].unwrap()].name, "s");
}

#[test]
fn what_is_not_supported_is_named() {
    let attention = || own("Attention", &["x", "w"], &["y"]);
    let heads = || with_int(attention(), "num_heads", 2);
    let group = |node: Message| with_int(with_int(node, "num_heads", 2), "kv_num_heads", 2);
    for (node, expected) in [
        (
            own("SparseAttention", &["x"], &["y"]),
            "operator com.microsoft.SparseAttention is not supported, 1 node uses it ('y')",
        ),
        (attention(), "node 'y' (com.microsoft.Attention): attribute `num_heads` is missing"),
        (with_int(heads(), "do_rotary", 1), "node 'y' (com.microsoft.Attention): attribute `do_rotary` other than 0"),
        (
            with_int(heads(), "heads", 2),
            "node 'y' (com.microsoft.Attention): attribute `heads` is unknown; known: do_rotary,",
        ),
        (
            with_int(own("Attention", &["x", "w", "", "w"], &["y"]), "num_heads", 2),
            "input 3, the mask, is [4, 12], which is not supported: expected [2, 3], [2, 3, 3], [2], [4]",
        ),
        (
            with_int(own("MultiHeadAttention", &["x", "x", "x", "", "w"], &["y"]), "num_heads", 2),
            "input 4, the mask, is [4, 12], which is not supported: expected [2, 3], [2, 3, 3], [2]",
        ),
        (
            with_int(own("MultiHeadAttention", &["x", "x", "x", "", "", "", "", "", "x"], &["y"]), "num_heads", 2),
            "input 8, the length of the past, is not supported",
        ),
        (
            group(with_text(own("GroupQueryAttention", &["x", "x", "x"], &["y"]), "k_quant_type", "PER_TENSOR")),
            "attribute `k_quant_type` is `PER_TENSOR`: quantized caches are not supported",
        ),
        (
            own("SkipLayerNormalization", &["x", "w", "row"], &["y"]),
            "input 1, [4, 12], does not fit input 0, [2, 3, 4]",
        ),
        (
            own("SkipSimplifiedLayerNormalization", &["x", "x", "row"], &["y", "mean"]),
            "node 'y' (com.microsoft.SkipSimplifiedLayerNormalization): output 1 is not supported",
        ),
        (own("Gelu", &["x"], &["y", "z"]), "node 'y' (com.microsoft.Gelu): output 1 is not supported"),
        (own("BiasGelu", &["x", "w"], &["y"]), "input 1, the bias, is [4, 12]: expected [4] for [2, 3, 4]"),
        (with_text(own("FusedGemm", &["x", "x"], &["y"]), "activation", "Mish"), "node 'y' (Gemm): expected matrices"),
        (
            with_text(own("FusedConv", &["x", "x"], &["y"]), "activation", "Mish"),
            "attribute `activation` is `Mish`, which is not supported: expected one of Clip, HardSigmoid,",
        ),
    ] {
        let error = error_of(node);
        assert!(error.contains(expected), "{error}");
    }
    let newer = import(&model(vec![own("Gelu", &["x"], &["y"])], 2), None, &ModelOptions::default());
    let newer = newer.err().unwrap().to_string();
    assert!(
        newer.contains("operators of version 2 of the domain com.microsoft; the newest that is supported is 1"),
        "{newer}"
    );
}

#[test]
fn what_onnxruntime_refuses_is_refused() {
    let group = |node: Message| with_int(with_int(node, "num_heads", 2), "kv_num_heads", 2);
    for (node, expected) in [
        (own("Gelu", &["x", "row"], &["y"]), "input 1 is not supported: the operator does not have it"),
        (
            own("SkipLayerNormalization", &["x", "x", "row", "", "", "row"], &["y"]),
            "input 5 is not supported: the operator does not have it",
        ),
        (
            with_int(own("FusedMatMul", &["x", "w"], &["y"]), "transBatchA", 1),
            "are for inputs of the same rank, from three on, got [2, 3, 4] and [4, 12]",
        ),
        (
            own("QLinearSigmoid", &["x", "row", "row", "row", "row"], &["y"]),
            "input 0 is float32: expected int8 or uint8",
        ),
        (
            with_int(with_int(own("QLinearAveragePool", &["x"], &["y"]), "ceil_mode", 1), "count_include_pad", 1),
            "attributes `ceil_mode` and `count_include_pad` are both 1, which is not supported",
        ),
        (
            own("EmbedLayerNormalization", &["x", "", "w", "row", "", "row", "row"], &["y", "count"]),
            "input 3, the table of positions, is [4]: expected two dimensions",
        ),
        (
            own("RotaryEmbedding", &["x", "row", "w", "w"], &["y"]),
            "input 1, the places, is [4]: expected [1] or [2, 3]",
        ),
        (
            group(with_int(own("GroupQueryAttention", &["x", "x", "x"], &["y"]), "qk_output", 1)),
            "attribute `qk_output` other than 0 is not supported",
        ),
    ] {
        let error = error_of(node);
        assert!(error.contains(expected), "{error}");
    }
}

/// A model may bring its own meaning of an operator of the domain.
#[test]
fn an_operator_of_the_users_comes_first() {
    let double = CustomOperator::new("com.microsoft", "Gelu", |call| {
        let x = call.input(0)?;
        Ok(vec![element_tensor(&x.shape, |position| x.at(position) + x.at(position))])
    });
    let options = ModelOptions { operators: vec![double.pattern(Pattern::Elementwise)], ..ModelOptions::default() };
    let graph = import(&model(vec![own("Gelu", &["x"], &["y"])], 1), None, &options).unwrap().graph;
    assert_eq!(graph.nodes[0].op.name(), "com.microsoft.Gelu");
    assert_eq!(graph.values[graph.nodes[0].outputs[0].unwrap()].dtype, F32);
}

/// Rows by a matrix of 4 bits, in blocks of 32. The weight of a row and a column is
/// `(7 * row + 3 * column) % 16`, and the scale of a block is 1 / 64 for even blocks.
fn of_four_bits(rows: usize, depth: usize, columns: usize) -> Vec<u8> {
    let blocks = depth.div_ceil(32);
    let weight = |row: usize, column: usize| u8::try_from((7 * row + 3 * column) % 16).unwrap();
    let bytes: Vec<u8> = (0..columns)
        .flat_map(|column| {
            (0..blocks * 16).map(move |byte| weight(2 * byte, column) | weight(2 * byte + 1, column) << 4)
        })
        .collect();
    let scales: Vec<f32> = (0..columns * blocks).map(|place| scale(place % blocks)).collect();
    let dims = [columns, blocks, 16].map(|extent| extent as i64);
    let tensor = dims.iter().fold(Message::default(), |tensor, dim| tensor.int(1, *dim));
    let product = [("N", columns), ("K", depth), ("block_size", 32)]
        .into_iter()
        .fold(own("MatMulNBits", &["x", "b", "s", "", "", "bias"], &["p"]), |node, (name, value)| {
            with_int(node, name, value as i64)
        });
    let graph = Message::default()
        .message(1, product)
        .message(1, node("Relu", &["p"], &["y"]))
        .text(2, "bits")
        .message(5, tensor.int(2, 2).text(8, "b").bytes(9, &bytes))
        .message(5, weights("s", &dims[..2], &scales))
        .message(5, weights("bias", &dims[..1], &vec![0.25; columns]))
        .message(11, value("x", &[rows as i64, depth as i64]))
        .message(12, value("y", &[rows as i64, dims[0]]));
    let opset = |domain: &str, version: i64| Message::default().text(1, domain).int(2, version);
    let model = Message::default().int(1, 8).message(7, graph);
    model.message(8, opset("", 17)).message(8, opset("com.microsoft", 1)).0
}

fn scale(block: usize) -> f32 {
    if block.is_multiple_of(2) { 1.0 / 64.0 } else { -1.0 / 32.0 }
}

#[test]
fn weights_of_four_bits_stay_in_four_bits() {
    for (rows, depth, columns) in [(1, 256, 96), (1, 64, 33), (5, 96, 64), (9, 70, 40), (1, 40, 5)] {
        let graph = import(&of_four_bits(rows, depth, columns), None, &ModelOptions::default()).unwrap().graph;
        let target = Target::host();
        let context = PassContext::new(PassOptions::default());
        drop(lower(&graph, "bits", &TargetDescription::of(&target), &context, LowerOptions::default()).unwrap());
        let notes = context.take_notes();
        let is_wide = columns > 16 && notes.iter().any(|note| note.ends_with("rule `panels`"));
        assert!(columns <= 16 || is_wide, "{rows} {depth} {columns}: {notes:#?}");
        let (module, lowered) = build(&graph, "bits", &target, LowerOptions::default()).unwrap();
        // Half a byte for a weight, four bytes for a scale, with the columns of the last panel.
        let (width, blocks) = (columns.next_multiple_of(32), depth.div_ceil(32));
        let most = width * blocks * (16 + 4) + 4 * columns + 256;
        assert!(lowered.weights <= most, "{} bytes of weights for {most}", lowered.weights);
        let numbers: Vec<f32> = (0..rows * depth).map(|place| (place * 5 % 17) as f32 - 8.0).collect();
        let x = Tensor::from_slice(&numbers, &[rows as i64, depth as i64]).unwrap();
        let y = Tensor::zeros::<f32>(&[rows as i64, columns as i64]).unwrap();
        module.function("bits").unwrap().call((&x, &y)).unwrap();
        for (place, got) in y.view::<f32>().unwrap().to_vec().into_iter().enumerate() {
            let (row, column) = (place / columns, place % columns);
            let terms = (0..depth).map(|k| {
                let weight = ((7 * k + 3 * column) % 16) as f32 - 8.0;
                f64::from(numbers[row * depth + k] * weight * scale(k / 32))
            });
            let want = (terms.sum::<f64>() + 0.25).max(0.0);
            assert!((f64::from(got) - want).abs() < 1e-3, "{rows} {depth} {columns}: {got} for {want} at {place}");
        }
    }
}
