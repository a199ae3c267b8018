//! Models that are newer than the supported versions, and operators of new versions that the
//! importer expands.

use kernpack_graph::text::TextModel;
use kernpack_graph::{LowerOptions, ModelOptions, import};

use super::structures::{call, floats, with_int, with_text};
use super::{Message, node, value};

/// The import of operators of a domain.
fn opset(domain: &str, version: i64) -> Message {
    Message::default().text(1, domain).int(2, version)
}

/// A model of a format, with versions of operators.
fn model(format: i64, opsets: &[(&str, i64)], graph: Message) -> Message {
    let model = Message::default().int(1, format).message(7, graph);
    opsets.iter().fold(model, |model, (domain, version)| model.message(8, opset(domain, *version)))
}

fn graph(nodes: Vec<Message>) -> Message {
    let graph = nodes.into_iter().fold(Message::default(), |graph, node| graph.message(1, node));
    graph.text(2, "g").message(11, value("x", &[1, 4, 2, 2])).message(12, value("y", &[1, 4, 2, 2]))
}

fn error_of(model: &Message) -> String {
    import(&model.0, None, &ModelOptions::default()).err().expect("it is imported").to_string()
}

#[test]
fn newer_versions_are_named() {
    let relu = || graph(vec![node("Relu", &["x"], &["y"])]);
    assert!(import(&model(14, &[("", 28)], relu()).0, None, &ModelOptions::default()).is_ok());
    let error = error_of(&model(14, &[("", 29)], relu()));
    assert!(error.starts_with("the model uses operators of version 29; supported are 6 to 28"), "{error}");
    let error = error_of(&model(15, &[("", 28)], relu()));
    assert!(
        error.starts_with(
            "the model is of version 15 of the file format of ONNX (ir_version); the newest that is supported is 14"
        ),
        "{error}"
    );
    // A model of texts is interpreted, and has the same versions.
    let texts = model(15, &[("", 28)], graph(vec![node("StringNormalizer", &["x"], &["y"])]));
    let error = TextModel::read(&texts.0).err().unwrap().to_string();
    assert!(error.contains("is of version 15 of the file format"), "{error}");
    // Other domains are checked if their operators are used.
    for (domain, operator, newest) in [("ai.onnx.ml", "Binarizer", 5), ("ai.onnx.preview.training", "Adam", 1)] {
        let opsets = [("", 28), (domain, newest + 1)];
        assert!(import(&model(14, &opsets, relu()).0, None, &ModelOptions::default()).is_ok());
        let used = graph(vec![node(operator, &["x"], &["y"]).text(7, domain)]);
        let error = error_of(&model(14, &opsets, used));
        let expected = format!(
            "operators of version {} of the domain {domain}; the newest that is supported is {newest}",
            newest + 1
        );
        assert!(error.contains(&expected), "{error}");
    }
    // The same holds for a function, whose versions are those of its nodes.
    let function = Message::default().text(1, "f").text(4, "x").text(5, "y").message(7, node("Relu", &["x"], &["y"]));
    let function = function.message(9, opset("", 29)).text(10, "own");
    let called = graph(vec![node("f", &["x"], &["y"]).text(7, "own")]);
    let error = error_of(&model(14, &[("", 28), ("own", 1)], called).message(25, function));
    assert!(error.contains("function 'f'") && error.contains("operators of version 29"), "{error}");
}

#[test]
fn attributes_of_newer_versions_are_not_skipped() {
    let blocks = || with_text(with_int(node("SpaceToDepth", &["x"], &["y"]), "blocksize", 2), "mode", "CRD");
    let import =
        |version, node| import(&model(14, &[("", version)], graph(vec![node])).0, None, &ModelOptions::default());
    assert!(import(28, blocks()).is_ok());
    let error = import(27, blocks()).err().unwrap().to_string();
    assert!(
        error.contains(
            "attribute `mode` is of versions from 28 of the operators, and the model uses version 27; known: blocksize"
        ),
        "{error}"
    );
    let cast = || with_text(with_int(node("Cast", &["x"], &["y"]), "to", 1), "round_mode", "up");
    assert!(import(24, cast()).is_ok());
    assert!(import(23, cast()).err().unwrap().to_string().contains("attribute `round_mode` is of versions from 24"));
    let rest = || node("Mod", &["x", "x"], &["y"]);
    assert!(import(28, rest()).is_ok());
    assert!(
        import(27, rest())
            .err()
            .unwrap()
            .to_string()
            .contains("attribute `fmod` has to be 1 for floats before version 28")
    );
}

/// The ratio of training is an input; the attribute of older versions would be ignored.
#[test]
fn the_ratio_of_a_training_is_no_attribute() {
    let dropout = || with_int(node("Dropout", &["x", "", "training"], &["y"]), "seed", 7);
    let import = |dropout| {
        let nodes = vec![node("Size", &["x"], &["n"]), node("Equal", &["n", "n"], &["training"]), dropout];
        import(&model(14, &[("", 22)], graph(nodes)).0, None, &ModelOptions::default())
    };
    assert!(import(dropout()).is_ok());
    let error = import(with_int(dropout(), "ratio", 0)).err().unwrap().to_string();
    assert!(error.contains("attribute `ratio` is of versions before 12"), "{error}");
}

/// A graph with one node, one input and one output, as an attribute.
fn inside(name: &str, node: Message) -> Message {
    let tensor = |name: &str| Message::default().text(1, name).message(2, Message::default());
    let graph = Message::default().message(1, node).text(2, "g").message(11, tensor("s")).message(12, tensor("t"));
    Message::default().text(1, name).int(20, 5).message(6, graph)
}

/// One key of a group serves two heads of queries; one graph squares the scores, another halves the
/// probabilities.
#[test]
fn flexible_attention() {
    let flex = || node("FlexAttention", &["q", "k", "v"], &["y"]).text(7, "ai.onnx.preview");
    let two = |name: &str, op: &str| inside(name, node(op, &["s", "s"], &["t"]));
    let (q, k, v) = ([1.0, 2.0, -1.0, 0.5], [0.5, -1.0, 2.0], [1.0, 3.0, -2.0]);
    for (has_scores, has_probabilities) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut own = flex();
        if has_scores {
            own = own.message(5, two("score_mod", "Mul"));
        }
        if has_probabilities {
            own = own.message(5, two("prob_mod", "Add"));
        }
        let inputs =
            [("q", floats(&[1, 2, 2, 1], &q)), ("k", floats(&[1, 1, 3, 1], &k)), ("v", floats(&[1, 1, 3, 1], &v))];
        let opsets = [("", 28), ("ai.onnx.preview", 1)];
        let graph = [("q", [1, 2, 2, 1]), ("k", [1, 1, 3, 1]), ("v", [1, 1, 3, 1])]
            .iter()
            .fold(Message::default().message(1, own).text(2, "g"), |graph, (name, shape)| {
                graph.message(11, value(name, shape))
            });
        let model = model(14, &opsets, graph.message(12, value("y", &[1, 2, 2, 1])));
        let graph = import(&model.0, None, &ModelOptions::default()).unwrap().graph;
        let got = call(&graph, &inputs, LowerOptions::default()).unwrap()[0].to_floats().unwrap();
        for (place, (got, query)) in got.iter().zip(q).enumerate() {
            let weights = k.map(|key: f32| {
                let score = query * key;
                let score = if has_scores { score * score } else { score };
                score.exp()
            });
            let sum: f32 = weights.iter().zip(v).map(|(weight, value)| weight * value).sum();
            let factor = if has_probabilities { 2.0 } else { 1.0 };
            let expected = f64::from(factor * sum / weights.iter().sum::<f32>());
            assert!((got - expected).abs() < 1e-4, "{place}: {got}, expected {expected}");
        }
    }
    let opsets = [("", 28), ("ai.onnx.preview", 1)];
    let changed = flex().message(5, inside("score_mod", with_int(node("Flatten", &["s"], &["t"]), "axis", 1)));
    let graph = [("q", [1, 2, 2, 1]), ("k", [1, 1, 3, 1]), ("v", [1, 1, 3, 1])]
        .iter()
        .fold(Message::default().message(1, changed).text(2, "g"), |graph, (name, shape)| {
            graph.message(11, value(name, shape))
        });
    let error = error_of(&model(14, &opsets, graph.message(12, value("y", &[1, 2, 2, 1]))));
    assert!(
        error.contains("the graph of attribute `score_mod` makes float32[1, 12] of float32[1, 2, 2, 3]"),
        "{error}"
    );
}
