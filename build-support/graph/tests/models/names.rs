//! Names of attributes: those that no version of an operator has are refused.

use kernpack_graph::op::{CustomOperator, element_tensor};
use kernpack_graph::text::TextModel;
use kernpack_graph::{ModelOptions, import};

use super::structures::{with_graph, with_int, with_ints, with_text};
use super::{Message, node, value};

/// y of nodes on x: float32[2, 3].
fn model(nodes: Vec<Message>) -> Message {
    let graph = nodes.into_iter().fold(Message::default(), |graph, node| graph.message(1, node));
    let graph = graph.message(11, value("x", &[2, 3])).message(12, value("y", &[2, 3]));
    Message::default().int(1, 8).message(7, graph).message(8, Message::default().text(1, "").int(2, 17))
}

/// A function of x with the attribute `axes`.
fn function(domain: &str, name: &str, body: Message) -> Message {
    let function = Message::default().text(1, name).text(4, "x").text(5, "y").text(6, "axes").message(7, body);
    function.message(9, Message::default().text(1, "").int(2, 17)).text(10, domain)
}

fn error_of(model: &Message) -> String {
    import(&model.0, None, &ModelOptions::default()).err().map(|error| error.to_string()).unwrap_or_default()
}

fn softmax(attribute: &str) -> Message {
    with_int(node("Softmax", &["x"], &["y"]), attribute, 1)
}

const UNKNOWN: &str = "node 'y' (Softmax): attribute `axes` is unknown; known: axis; did you mean `axis`?";

#[test]
fn unknown_attributes_are_refused() {
    assert_eq!(error_of(&model(vec![softmax("axes")])), UNKNOWN);
    assert_eq!(error_of(&model(vec![softmax("axes").text(7, "ai.onnx")])), UNKNOWN);
    // All of them are told, also of operators that the importer writes out.
    let first = with_int(with_int(node("Not", &["x"], &["a"]).text(3, "not"), "axis", 0), "to", 1);
    let last = with_int(node("LSTM", &["a", "a", "a"], &["y"]), "hidden", 2);
    let expected = "node 'not' (Not): attribute `axis` is unknown; the operator does not have attributes\n\
                    node 'not' (Not): attribute `to` is unknown; the operator does not have attributes\n\
                    node 'y' (LSTM): attribute `hidden` is unknown; known: activation_alpha, activation_beta, \
                    activations, clip, direction, hidden_size, input_forget, layout";
    assert_eq!(error_of(&model(vec![first, last])), expected);
    // One that a page of another framework has; close names are suggested.
    let unpool = with_ints(node("MaxUnpool", &["x", "x"], &["y"]), "output_shape", &[2, 3]);
    let expected = "node 'y' (MaxUnpool): attribute `output_shape` is unknown; known: kernel_shape, pads, strides";
    assert_eq!(error_of(&model(vec![unpool])), expected);
    let gather = with_int(node("GatherND", &["x", "x"], &["y"]), "batchDims", 1);
    let expected =
        "node 'y' (GatherND): attribute `batchDims` is unknown; known: batch_dims; did you mean `batch_dims`?";
    assert_eq!(error_of(&model(vec![gather])), expected);
    let dropout = with_int(node("AveragePool", &["x"], &["y"]), "stride", 1);
    assert!(error_of(&model(vec![dropout])).ends_with("; did you mean `strides`?"));
    // In the graph of an attribute, and in a function.
    let body = || Message::default().message(1, softmax("axes")).message(12, value("y", &[2, 3]));
    let choice = with_graph(node("If", &["x"], &["z"]), "then_branch", body());
    assert_eq!(error_of(&model(vec![choice])), UNKNOWN);
    let called = || node("f", &["x"], &["y"]).text(7, "own");
    let in_function = |function: Message| error_of(&model(vec![called()]).message(25, function));
    assert_eq!(in_function(function("own", "f", softmax("axes"))), UNKNOWN);
    // In the graph that is the default of an attribute of a function.
    let default = Message::default().text(1, "branch").message(6, body()).int(20, 5);
    let relu = node("Relu", &["x"], &["y"]);
    assert_eq!(in_function(function("own", "f", relu).message(11, default)), UNKNOWN);
    // A model of texts.
    let split = with_text(node("StringSplit", &["x"], &["y", "counts"]), "separator", ",");
    let error = TextModel::read(&model(vec![split]).0).err().unwrap().to_string();
    assert_eq!(error, "node 'y' (StringSplit): attribute `separator` is unknown; known: delimiter, maxsplit");
}

/// Readers take the attribute for one of the version of the model, and would ignore it, or not.
#[test]
fn attributes_of_other_versions_are_refused() {
    let error_in = |version: i64, node: Message| {
        let graph =
            Message::default().message(1, node).message(11, value("x", &[2, 3])).message(12, value("y", &[2, 3]));
        let opsets =
            [("", version), ("ai.onnx.ml", version)].map(|(name, it)| Message::default().text(1, name).int(2, it));
        let [own, trees] = opsets;
        error_of(&Message::default().int(1, 8).message(7, graph).message(8, own).message(8, trees))
    };
    let shape = || with_int(node("Shape", &["x"], &["y"]), "start", 1);
    assert_eq!(error_in(15, shape()), "");
    let expected = "node 'y' (Shape): attribute `start` is of versions from 15 of the operators, and the model uses \
                    version 13; the operator does not have attributes";
    assert_eq!(error_in(13, shape()), expected);
    let sum = || with_ints(node("ReduceMax", &["x"], &["y"]), "axes", &[0]);
    assert_eq!(error_in(13, sum()), "");
    let expected = "node 'y' (ReduceMax): attribute `axes` is of versions before 18 of the operators, and the model uses \
                    version 18; known: keepdims, noop_with_empty_axes";
    assert_eq!(error_in(18, sum()), expected);
    let clip = with_int(node("Clip", &["x"], &["y"]), "min", 0);
    let expected = "node 'y' (Clip): attribute `min` is of versions before 11 of the operators, and the model uses \
                    version 13; the operator does not have attributes";
    assert_eq!(error_in(13, clip), expected);
    // The version of a function is its own.
    let inside = |version| {
        let function = Message::default().text(1, "f").text(4, "x").text(5, "y").message(7, sum());
        let function = function.message(9, Message::default().text(1, "").int(2, version)).text(10, "own");
        let called = node("f", &["x"], &["y"]).text(7, "own");
        error_of(&model(vec![called]).message(25, function))
    };
    assert_eq!(inside(13), "");
    assert!(inside(18).contains("`axes` is of versions before 18"));
}

/// Operators of other domains of ONNX.
#[test]
fn attributes_of_other_domains_are_checked() {
    let binarizer = |name| with_int(node("Binarizer", &["x"], &["y"]).text(7, "ai.onnx.ml"), name, 1);
    let expected = "node 'y' (ai.onnx.ml.Binarizer): attribute `limit` is unknown; known: threshold";
    assert_eq!(error_of(&model(vec![binarizer("limit")])), expected);
}

#[test]
fn attributes_that_models_may_have() {
    let relu = || node("Relu", &["x"], &["y"]);
    for nodes in [
        vec![softmax("axis")],
        // Of an old version, as old exporters write it in newer models.
        vec![with_ints(relu(), "consumed_inputs", &[0])],
        // onnx.checker does not check names that begin with two underscores.
        vec![with_int(softmax("axis"), "__layer", 7)],
    ] {
        assert_eq!(error_of(&model(nodes)), "");
    }
    // A function with the name of an operator, in its domain and in another one.
    for domain in ["", "own"] {
        let called = model(vec![softmax("axes").text(7, domain)]);
        assert_eq!(error_of(&called.message(25, function(domain, "Softmax", relu()))), "");
    }
    // An operator of the user's own.
    let copy = CustomOperator::new("com.example", "Softmax", |call| {
        let x = call.input(0)?;
        Ok(vec![element_tensor(&x.shape, |position| x.at(position))])
    });
    let options = ModelOptions { operators: vec![copy], ..ModelOptions::default() };
    let custom = model(vec![softmax("axes").text(7, "com.example")]);
    assert!(import(&custom.0, None, &options).is_ok());
}
