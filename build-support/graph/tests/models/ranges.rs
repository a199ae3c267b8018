//! Models whose dimensions have ranges of extents: one build gives the same results for all extents
//! as a build for each of them.

use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{I8, U8};
use kernpack_graph::{Graph, LowerOptions, ModelOptions, RangeDim, build, import};

use super::parts::{call, filled, graph, inputs, ints, model, scalar};
use super::quantized::{bytes, targets};
use super::structures::{with_int, with_ints};
use super::{Message, node, weights};

type Range<'a> = (&'a str, i64, i64);

fn ranged(ranges: &[Range<'_>]) -> ModelOptions {
    stepped(ranges, 1)
}

/// Ranges whose extents are multiples of a number.
fn stepped(ranges: &[Range<'_>], step: i64) -> ModelOptions {
    let dim = |(name, least, most): &Range<'_>| {
        let (least, most) = (least * step, most * step);
        RangeDim { name: (*name).to_owned(), least, most, step }
    };
    ModelOptions { ranges: ranges.iter().map(dim).collect(), ..ModelOptions::default() }
}

fn fixed(ranges: &[Range<'_>], extents: &[i64]) -> ModelOptions {
    let dims = ranges.iter().zip(extents).map(|((name, ..), extent)| ((*name).to_owned(), *extent));
    ModelOptions { dims: dims.collect(), ..ModelOptions::default() }
}

/// The shapes of inputs and outputs.
fn shapes(graph: &Graph) -> (Vec<Vec<i64>>, Vec<Vec<i64>>) {
    let of = |id: usize| graph.values[id].shape.clone();
    (graph.inputs.iter().map(|id| of(*id)).collect(), graph.outputs.iter().map(|(_, id)| of(*id)).collect())
}

/// Checks that one build gives the results of a build for each of the extents, bit for bit.
fn check(what: &str, bytes: &[u8], ranges: &[Range<'_>], extents: &[&[i64]]) {
    check_within(0.0, what, bytes, ranges, extents);
}

/// Like [`check`], for results that may differ by this much, in parts of 1 and of the result.
fn check_within(tolerance: f32, what: &str, bytes: &[u8], ranges: &[Range<'_>], extents: &[&[i64]]) {
    check_on((&Target::host(), 1), tolerance, what, bytes, ranges, extents);
}

/// Ranges and extents are multiples of the step.
fn check_on(
    (target, step): (&Target, i64),
    tolerance: f32,
    what: &str,
    bytes: &[u8],
    ranges: &[Range<'_>],
    extents: &[&[i64]],
) {
    let any = import(bytes, None, &stepped(ranges, step)).unwrap_or_else(|error| panic!("{what}: {error}")).graph;
    let options = LowerOptions::default();
    let (module, _) = build(&any, "model", target, options).unwrap_or_else(|error| panic!("{what}: {error}"));
    for extents in extents {
        let extents: &[i64] = &extents.iter().map(|extent| extent * step).collect::<Vec<_>>();
        let one = graph(bytes, &fixed(ranges, extents));
        let (given_shapes, result_shapes) = shapes(&one);
        assert_eq!(any.output_shapes(&given_shapes).unwrap(), result_shapes, "{what} {extents:?}");
        let given = inputs(&one);
        let found = call(&module, &given, &result_shapes).unwrap_or_else(|error| panic!("{what} {extents:?}: {error}"));
        let (alone, _) = build(&one, "model", target, options).unwrap();
        let expected = call(&alone, &given, &result_shapes).unwrap();
        for (number, (found, expected)) in found.iter().flatten().zip(expected.iter().flatten()).enumerate() {
            let is_same = found.to_bits() == expected.to_bits();
            let is_near = tolerance > 0.0 && (found - expected).abs() <= tolerance * expected.abs().max(1.0);
            assert!(is_same || is_near, "{what} {extents:?}: element {number} is {found}, expected {expected}");
        }
    }
}

const DIMS: [Range<'_>; 2] = [("batch", 1, 16), ("words", 1, 40)];
const EXTENTS: [&[i64]; 6] = [&[1, 1], &[1, 40], &[16, 1], &[2, 3], &[7, 33], &[16, 40]];

fn elementwise() -> Vec<u8> {
    let nodes =
        vec![node("Add", &["x", "b"], &["xb"]), node("Relu", &["xb"], &["r"]), node("Mul", &["r", "z"], &["y"])];
    model(nodes, vec![filled("b", &[4])], &[("x", &["batch", "words", "4"]), ("z", &["batch", "1", "4"])], &["y"])
}

#[test]
fn an_elementwise_model_of_two_dimensions() {
    check("elementwise", &elementwise(), &DIMS, &EXTENTS);
}

/// Each row: nodes that compute `y` of `x[batch, words, 4]`, and the known values.
fn rows() -> Vec<(&'static str, Vec<Message>, Vec<Message>)> {
    let axis = |node: Message, axis: i64| with_int(node, "axis", axis);
    vec![
        ("Exp", vec![node("Exp", &["x"], &["y"])], vec![]),
        ("broadcast rows", vec![node("Mul", &["x", "r"], &["y"])], vec![filled("r", &[1, 1, 4])]),
        ("Clip", vec![node("Clip", &["x", "low"], &["y"])], vec![weights("low", &[], &[-1.5])]),
        ("MatMul", vec![node("MatMul", &["x", "w"], &["y"])], vec![filled("w", &[4, 24])]),
        (
            "two products",
            vec![
                node("MatMul", &["x", "w"], &["h"]),
                node("Add", &["h", "b"], &["hb"]),
                node("Relu", &["hb"], &["r"]),
                node("MatMul", &["r", "u"], &["y"]),
            ],
            vec![filled("w", &[4, 24]), filled("b", &[24]), filled("u", &[24, 7])],
        ),
        (
            "products with packed weights",
            vec![
                node("MatMul", &["x", "w"], &["h"]),
                node("MatMul", &["h", "u"], &["m"]),
                node("Add", &["m", "b"], &["y"]),
            ],
            vec![filled("w", &[4, 40]), filled("u", &[40, 33]), filled("b", &[33])],
        ),
        (
            "product of bytes",
            vec![
                node("QuantizeLinear", &["x", "scale", "zero"], &["q"]),
                node("MatMulInteger", &["q", "w", "zero"], &["i"]),
                with_int(node("Cast", &["i"], &["y"]), "to", 1),
            ],
            vec![
                weights("scale", &[], &[0.05]),
                bytes("zero", U8, &[], &[100]),
                bytes("w", I8, &[4, 20], &(0..80).map(|place| place * 7 % 255 - 127).collect::<Vec<_>>()),
            ],
        ),
        ("Softmax", vec![axis(node("Softmax", &["x"], &["y"]), -1)], vec![]),
        ("LogSoftmax", vec![axis(node("LogSoftmax", &["x"], &["y"]), 2)], vec![]),
        (
            "LayerNormalization",
            vec![axis(node("LayerNormalization", &["x", "scale", "bias"], &["y"]), -1)],
            vec![filled("scale", &[4]), filled("bias", &[4])],
        ),
        ("ReduceSum", vec![node("ReduceSum", &["x", "axes"], &["y"])], vec![ints("axes", &[2])]),
        ("ReduceMax", vec![node("ReduceMax", &["x", "axes"], &["y"])], vec![ints("axes", &[-1])]),
        ("ReduceMean", vec![node("ReduceMean", &["x", "axes"], &["y"])], vec![ints("axes", &[2])]),
        ("Transpose", vec![with_ints(node("Transpose", &["x"], &["y"]), "perm", &[1, 0, 2])], vec![]),
        ("Transpose last", vec![with_ints(node("Transpose", &["x"], &["y"]), "perm", &[0, 2, 1])], vec![]),
        ("Concat", vec![axis(node("Concat", &["x", "x"], &["y"]), 1)], vec![]),
        ("Slice of channels", vec![node("Slice", &["x", "one", "three", "two"], &["y"])], channel_slice()),
        ("Slice of all but one", vec![node("Slice", &["x", "zero", "last", "two"], &["y"])], channel_slice()),
        ("Unsqueeze", vec![node("Unsqueeze", &["x", "one"], &["y"])], vec![ints("one", &[1])]),
        ("Flatten", vec![axis(node("Flatten", &["x"], &["y"]), 2)], vec![]),
        ("merged rows", vec![node("Reshape", &["x", "shape"], &["y"])], vec![ints("shape", &[-1, 4])]),
        ("split channels", vec![node("Reshape", &["x", "shape"], &["y"])], vec![ints("shape", &[0, 0, 2, 2])]),
        (
            "Split",
            vec![axis(node("Split", &["x", "parts"], &["a", "b"]), 2), node("Sub", &["a", "b"], &["y"])],
            vec![ints("parts", &[2, 2])],
        ),
        (
            "heads",
            vec![
                node("Reshape", &["x", "shape"], &["h"]),
                with_ints(node("Transpose", &["h"], &["t"]), "perm", &[0, 2, 1, 3]),
                node("Mul", &["t", "t"], &["s"]),
                with_ints(node("Transpose", &["s"], &["u"]), "perm", &[0, 2, 1, 3]),
                node("Reshape", &["u", "back"], &["y"]),
            ],
            vec![ints("shape", &[0, 0, 2, 2]), ints("back", &[0, 0, 4])],
        ),
        (
            "shape arithmetic",
            vec![
                node("Shape", &["x"], &["s"]),
                axis(node("Gather", &["s", "first"], &["n"]), 0),
                axis(node("Gather", &["s", "second"], &["m"]), 0),
                node("Mul", &["n", "m"], &["nm"]),
                axis(node("Concat", &["nm", "four"], &["flat"]), 0),
                node("Reshape", &["x", "flat"], &["y"]),
            ],
            vec![ints("first", &[0]), ints("second", &[1]), ints("four", &[4])],
        ),
        ("number of words", count_nodes(), vec![ints("first", &[1])]),
        ("Expand", vec![node("Expand", &["x", "shape"], &["y"])], vec![ints("shape", &[3, 1, 1, 4])]),
        (
            "Expand to a shape",
            vec![node("Shape", &["x"], &["s"]), node("Expand", &["w", "s"], &["e"]), node("Add", &["e", "x"], &["y"])],
            vec![filled("w", &[4])],
        ),
        ("Pad", vec![node("Pad", &["x", "pads"], &["y"])], vec![ints("pads", &[0, 1, 0, 0, 2, 0])]),
        ("Tile", vec![node("Tile", &["x", "times"], &["y"])], vec![ints("times", &[1, 2, 1])]),
        ("Gather of channels", vec![axis(node("Gather", &["x", "i"], &["y"]), 2)], vec![ints("i", &[3, 0, 1])]),
        ("first word", vec![axis(node("Gather", &["x", "i"], &["y"]), 1)], vec![scalar("i", 0)]),
        ("last word", vec![axis(node("Gather", &["x", "i"], &["y"]), 1)], vec![scalar("i", -1)]),
        (
            "Einsum",
            vec![with_text(node("Einsum", &["x", "w"], &["y"]), "equation", "bwc,cd->bwd")],
            vec![filled("w", &[4, 3])],
        ),
        ("mean over words", vec![node("ReduceMean", &["x", "axes"], &["y"])], vec![ints("axes", &[1])]),
        ("sum over words", vec![node("ReduceSum", &["x", "axes"], &["y"])], vec![ints("axes", &[1])]),
        ("maximum over words", vec![node("ReduceMax", &["x", "axes"], &["y"])], vec![ints("axes", &[1])]),
        ("Softmax over words", vec![axis(node("Softmax", &["x"], &["y"]), 1)], vec![]),
        (
            "scores of words",
            vec![with_ints(node("Transpose", &["x"], &["k"]), "perm", &[0, 2, 1]), node("MatMul", &["x", "k"], &["y"])],
            vec![],
        ),
        ("attention", attention_nodes(), vec![filled("q", &[4, 8]), filled("k", &[4, 8]), filled("v", &[4, 8])]),
        ("positions", position_nodes(), vec![scalar("zero", 0), scalar("one", 1), filled("table", &[40, 4])]),
        (
            "flat places",
            flat_place_nodes(),
            vec![scalar("zero", 0), scalar("one", 1), ints("column", &[1]), ints("flat", &[-1, 4])],
        ),
        (
            "causal mask",
            causal_nodes(),
            vec![scalar("zero", 0), scalar("one", 1), ints("column", &[1]), ints("words", &[1])],
        ),
    ]
}

fn channel_slice() -> Vec<Message> {
    [("zero", 0), ("one", 1), ("two", 2), ("three", 3), ("last", -1)].map(|(name, value)| ints(name, &[value])).into()
}

fn with_text(node: Message, name: &str, value: &str) -> Message {
    node.message(5, Message::default().text(1, name).text(4, value).int(20, 3))
}

/// Divides by the number of words, as a float.
fn count_nodes() -> Vec<Message> {
    vec![
        node("Shape", &["x"], &["s"]),
        with_int(node("Gather", &["s", "first"], &["m"]), "axis", 0),
        with_int(node("Cast", &["m"], &["f"]), "to", 1),
        node("Div", &["x", "f"], &["y"]),
    ]
}

/// Softmax of scores over words, and their product with values.
fn attention_nodes() -> Vec<Message> {
    vec![
        node("MatMul", &["x", "q"], &["xq"]),
        node("MatMul", &["x", "k"], &["xk"]),
        node("MatMul", &["x", "v"], &["xv"]),
        with_ints(node("Transpose", &["xk"], &["xkt"]), "perm", &[0, 2, 1]),
        node("MatMul", &["xq", "xkt"], &["scores"]),
        with_int(node("Softmax", &["scores"], &["shares"]), "axis", -1),
        node("MatMul", &["shares", "xv"], &["y"]),
    ]
}

/// Adds the rows of a table for `Range(0, words)`.
fn position_nodes() -> Vec<Message> {
    vec![
        node("Shape", &["x"], &["s"]),
        with_int(node("Gather", &["s", "one"], &["m"]), "axis", 0),
        node("Range", &["zero", "m", "one"], &["places"]),
        with_int(node("Gather", &["table", "places"], &["rows"]), "axis", 0),
        node("Add", &["x", "rows"], &["y"]),
    ]
}

/// Gathers the rows of all words, `batch * words + word`, from a matrix of them.
fn flat_place_nodes() -> Vec<Message> {
    vec![
        node("Shape", &["x"], &["s"]),
        with_int(node("Gather", &["s", "zero"], &["n"]), "axis", 0),
        with_int(node("Gather", &["s", "one"], &["m"]), "axis", 0),
        node("Range", &["zero", "n", "one"], &["texts"]),
        node("Range", &["zero", "m", "one"], &["words"]),
        node("Mul", &["texts", "m"], &["begins"]),
        node("Unsqueeze", &["begins", "column"], &["rows"]),
        node("Add", &["rows", "words"], &["places"]),
        node("Reshape", &["x", "flat"], &["matrix"]),
        with_int(node("Gather", &["matrix", "places"], &["y"]), "axis", 0),
    ]
}

/// The words at which each word looks, as 1 and 0.
fn causal_nodes() -> Vec<Message> {
    vec![
        node("Shape", &["x"], &["s"]),
        with_int(node("Gather", &["s", "one"], &["m"]), "axis", 0),
        node("Range", &["zero", "m", "one"], &["places"]),
        node("Unsqueeze", &["places", "column"], &["rows"]),
        node("LessOrEqual", &["places", "rows"], &["sees"]),
        with_int(node("Cast", &["sees"], &["mask"]), "to", 1),
        with_ints(node("Transpose", &["x"], &["t"]), "perm", &[0, 2, 1]),
        node("MatMul", &["t", "mask"], &["y"]),
    ]
}

#[test]
fn operators_for_all_extents() {
    let only = std::env::var("RANGES_ROW").ok();
    let mut problems = Vec::new();
    for (what, nodes, known) in rows() {
        if only.as_ref().is_some_and(|only| only != what) {
            continue;
        }
        let bytes = model(nodes, known, &[("x", &["batch", "words", "4"])], &["y"]);
        let done = std::panic::catch_unwind(|| check(what, &bytes, &DIMS, &EXTENTS));
        if let Err(why) = done {
            problems.push(why.downcast_ref::<String>().cloned().unwrap_or_default());
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A batch or a text of nothing. Rows that a build for these extents refuses are left out: the
/// first and the last word of none, and a shape that is only right for some words.
#[test]
fn extents_of_nothing() {
    let ranges = [("batch", 0, 16), ("words", 0, 40)];
    let extents: [&[i64]; 3] = [&[0, 7], &[3, 0], &[2, 3]];
    let mut refused = Vec::new();
    for (what, nodes, known) in rows() {
        let bytes = model(nodes, known, &[("x", &["batch", "words", "4"])], &["y"]);
        if extents.iter().any(|extents| import(&bytes, None, &fixed(&ranges, extents)).is_err()) {
            refused.push(what);
            continue;
        }
        check(what, &bytes, &ranges, &extents);
    }
    assert_eq!(refused.len(), 3, "{refused:?}");
}

/// Kernels with loops of their own, on the CPU levels that this machine has.
#[test]
fn products_of_all_levels() {
    for target in targets() {
        for (what, nodes, known) in rows() {
            if ["attention", "products with packed weights", "product of bytes"].contains(&what) {
                let bytes = model(nodes, known, &[("x", &["batch", "words", "4"])], &["y"]);
                check_on((&target, 1), 1e-5, &format!("{what} on {}", target.cpu), &bytes, &DIMS, &EXTENTS);
            }
        }
    }
}

/// The kernels of fixed extents add in another order, or by Winograd's algorithm.
#[test]
fn convolutions_for_all_extents() {
    let dims = [("height", 1, 40), ("width", 1, 70)];
    let extents: [&[i64]; 6] = [&[1, 1], &[1, 70], &[40, 1], &[17, 16], &[9, 33], &[40, 70]];
    let rows = [
        ("3x3", [32, 16, 3, 3], [1, 1, 1, 1], 1, 1),
        ("3x3 with other pads", [16, 16, 3, 3], [0, 2, 2, 0], 1, 1),
        ("3x3 of few channels", [20, 16, 3, 3], [1, 1, 1, 1], 1, 1),
        ("1x1", [33, 16, 1, 1], [0, 0, 0, 0], 1, 1),
        ("5x1 above", [16, 16, 5, 1], [4, 0, 0, 0], 1, 1),
        ("dilated", [16, 16, 3, 3], [2, 2, 2, 2], 2, 1),
        ("of each channel", [16, 1, 3, 3], [1, 1, 1, 1], 1, 16),
        ("in groups", [32, 4, 3, 3], [1, 1, 1, 1], 1, 4),
    ];
    for (what, weights, pads, dilation, groups) in rows {
        let conv = with_ints(node("Conv", &["x", "w", "b"], &["c"]), "pads", &pads);
        let conv = with_int(with_ints(conv, "dilations", &[dilation, dilation]), "group", groups);
        let nodes = vec![conv, node("Relu", &["c"], &["y"])];
        let known = vec![filled("w", &weights), filled("b", &weights[..1])];
        let bytes = model(nodes, known, &[("x", &["2", "16", "height", "width"])], &["y"]);
        check_within(1e-3, what, &bytes, &dims, &extents);
        // Weights of Winograd's algorithm are transformed once, at build time.
        let is_transformed = graph(&bytes, &ranged(&dims))
            .values
            .iter()
            .any(|value| value.known.is_some() && value.shape.len() == 4 && value.shape[1..3] == [36, 16]);
        assert_eq!(is_transformed, matches!(what, "3x3" | "3x3 with other pads"), "{what}");
    }
    // An image of known extents keeps packed weights, for any number of images.
    let conv = with_ints(node("Conv", &["x", "w"], &["y"]), "pads", &[1, 1, 1, 1]);
    let bytes = model(vec![conv], vec![filled("w", &[32, 16, 3, 3])], &[("x", &["batch", "16", "9", "9"])], &["y"]);
    check("any number of images", &bytes, &[("batch", 1, 5)], &[&[1], &[3], &[5]]);
}

/// A small detector: it halves the image three times, and doubles parts of it again.
fn detector() -> Vec<u8> {
    let conv = |x: &str, w: &str, y: &str, stride: i64| {
        let conv = with_ints(node("Conv", &[x, w], &[y]), "pads", &[1, 1, 1, 1]);
        with_ints(conv, "strides", &[stride, stride])
    };
    let pool = with_ints(node("MaxPool", &["a1"], &["p"]), "kernel_shape", &[2, 2]);
    let nodes = vec![
        conv("x", "w1", "c1", 2),
        node("Relu", &["c1"], &["a1"]),
        with_ints(pool, "strides", &[2, 2]),
        conv("p", "w2", "c2", 2),
        with_text(node("Resize", &["c2", "", "scales"], &["up"]), "mode", "nearest"),
        with_int(node("Concat", &["up", "p"], &["cat"]), "axis", 1),
        conv("cat", "w3", "c3", 1),
        with_ints(node("ConvTranspose", &["c3", "w4"], &["t"]), "strides", &[2, 2]),
        node("Sigmoid", &["t"], &["y"]),
    ];
    let known = vec![
        filled("w1", &[16, 3, 3, 3]),
        filled("w2", &[32, 16, 3, 3]),
        filled("w3", &[16, 48, 3, 3]),
        filled("w4", &[16, 4, 2, 2]),
        weights("scales", &[4], &[1.0, 1.0, 2.0, 2.0]),
    ];
    model(nodes, known, &[("x", &["1", "3", "height", "width"])], &["y"])
}

#[test]
fn multiples_of_a_number_may_be_divided() {
    let dims = [("height", 1, 12), ("width", 1, 9)];
    let extents: [&[i64]; 5] = [&[1, 1], &[12, 9], &[1, 9], &[3, 2], &[5, 7]];
    check_on((&Target::host(), 8), 2e-3, "detector", &detector(), &dims, &extents);
    for step in [1, 2, 4] {
        let found = error_of(&detector(), &stepped(&dims, step));
        assert!(found.contains("node 'cat' (Concat)"), "{found}");
        assert!(
            found.contains("if the model divides it, `.dim_range(\"height\", (least..=most).step_by(number))`"),
            "{found}"
        );
    }
    let any = graph(&detector(), &stepped(&dims, 8));
    assert_eq!(any.argument_texts(), [["1", "3", "height", "width"], ["1", "4", "height / 2", "width / 2"]]);
    let error = any.output_shapes(&[vec![1, 3, 12, 8]]).unwrap_err().to_string();
    assert!(error.contains("the dimension 'height' is 12, and has to be a multiple of 8 from 8 to 96"), "{error}");
    let (module, _) = build(&any, "model", &Target::host(), LowerOptions::default()).unwrap();
    for (height, width) in [(12, 8), (0, 8), (104, 8)] {
        let given = [kernpack::Tensor::zeros::<f32>(&[1, 3, height, width]).unwrap()];
        let error = call(&module, &given, &[vec![1, 4, height / 8 * 4, width / 8 * 4]]).unwrap_err().to_string();
        assert!(error.contains("'height', has to be a multiple of 8 from 8 to 96"), "{error}");
    }
    for (least, step, expected) in [
        (4, 8, "the dimension 'height' is given multiples of 8, and 4 is not one"),
        (8, 0, "the step of the dimension 'height' is 0, and has to be at least 1"),
    ] {
        let dim = RangeDim { name: "height".into(), least, most: 64, step };
        let found = error_of(&detector(), &ModelOptions { ranges: vec![dim], ..ModelOptions::default() });
        assert!(found.contains(expected), "{found}");
    }
}

fn error_of(bytes: &[u8], options: &ModelOptions) -> String {
    match import(bytes, None, options) {
        Err(error) => error.to_string(),
        Ok(imported) => {
            let built = build(&imported.graph, "model", &Target::host(), LowerOptions::default());
            built.err().map(|error| error.to_string()).unwrap_or_default()
        }
    }
}

#[test]
fn ranges_that_cannot_be() {
    let own = |change: fn(&mut ModelOptions)| {
        let mut options = ranged(&[("batch", 1, 16)]);
        change(&mut options);
        options
    };
    let rows: [(ModelOptions, &str); 9] = [
        (
            ranged(&[("batch", 0, 0)]),
            "the range of the dimension 'batch' is 0 to 0, and has to be within 0 to 2147483647",
        ),
        (ranged(&[("batch", -4, -1)]), "the range of the dimension 'batch' is -4 to -1, and has to be"),
        (ranged(&[("batch", 5, 4)]), "the range of the dimension 'batch' is empty: 5 to 4"),
        (ranged(&[("batch", 1, i64::MAX)]), "to 9223372036854775807, and has to be within 0 to 2147483647"),
        (ranged(&[("rows", 1, 4)]), "the model has no dimension 'rows' that is open; it has: batch, words"),
        (
            ranged(&[("batch", 1, 4), ("batch", 1, 8)]),
            "the dimension 'batch' is given two ranges, 1 to 4 and 1 to 8: one of them is enough",
        ),
        (
            own(|options| _ = options.dims.insert("batch".to_owned(), 2)),
            "the dimension 'batch' is given a range, and one extent, a bound or a list of extents: one of them is enough",
        ),
        (
            own(|options| _ = options.up_to.insert("words".to_owned(), 2)),
            "'batch' is given a range, and 'words' a bound or a list of extents: give both a range",
        ),
        (ranged(&[("batch", 1, 16)]), "input 'x': dimension 1 ('words') is not known"),
    ];
    for (options, expected) in rows {
        let found = error_of(&elementwise(), &options);
        assert!(found.contains(expected), "{found}\n{expected}");
    }
}

/// A huge range is an error, or a model that serves it.
#[test]
fn huge_ranges() {
    let all = [("batch", 1, (1 << 31) - 1), ("words", 1, 40)];
    check("huge", &elementwise(), &all, &[&[1, 1], &[100, 7]]);
    let all = [("batch", 1, (1 << 31) - 1), ("words", 1, (1 << 31) - 1)];
    let found = error_of(&elementwise(), &ranged(&all));
    assert!(found.contains("with batch = 2147483647, words = 2147483647"), "{found}");
    assert!(found.contains("has more than 2^40 elements"), "{found}");
}

#[test]
fn ranges_with_one_extent() {
    check("one", &elementwise(), &[("batch", 3, 3), ("words", 2, 9)], &[&[3, 2], &[3, 9]]);
    let fixed = graph(&elementwise(), &ranged(&[("batch", 3, 3), ("words", 5, 5)]));
    assert!(fixed.ranges.is_none() && fixed.values[fixed.inputs[0]].shape == [3, 5, 4]);
    check("few", &elementwise(), &[("batch", 1, 2), ("words", 1, 2)], &[&[1, 1], &[1, 2], &[2, 1], &[2, 2]]);
}

#[test]
fn extents_of_calls_are_checked() {
    let any = graph(&elementwise(), &ranged(&DIMS));
    let (module, _) = build(&any, "model", &Target::host(), LowerOptions::default()).unwrap();
    let message = |x: &[i64], z: &[i64], y: &[i64]| {
        let given = [x, z].map(|shape| kernpack::Tensor::zeros::<f32>(shape).unwrap());
        call(&module, &given, &[y.to_vec()]).unwrap_err().to_string()
    };
    let rows = [
        ([0, 3, 4], [0, 1, 4], [0, 3, 4], "model: x.shape[0], the dimension 'batch', has to be 1 to 16"),
        ([17, 3, 4], [17, 1, 4], [17, 3, 4], "model: x.shape[0], the dimension 'batch', has to be 1 to 16"),
        ([2, 41, 4], [2, 1, 4], [2, 41, 4], "model: x.shape[1], the dimension 'words', has to be 1 to 40"),
        ([2, 3, 4], [3, 1, 4], [2, 3, 4], "Mismatched z.shape[0] on argument #1"),
        ([2, 3, 4], [2, 1, 4], [2, 2, 4], "Mismatched y.shape[1] on argument #2"),
    ];
    for (x, z, y, expected) in rows {
        let found = message(&x, &z, &y);
        assert!(found.contains(expected), "{found}\n{expected}");
    }
    assert!(message(&[2, 3, 4], &[3, 1, 4], &[2, 3, 4]).contains("to match x.shape[0]"));
    let shapes = |x: &[i64], z: &[i64]| any.output_shapes(&[x.to_vec(), z.to_vec()]);
    assert_eq!(shapes(&[2, 3, 4], &[2, 1, 4]).unwrap(), [[2, 3, 4]]);
    for (x, z, expected) in [
        ([2, 3, 4], [3, 1, 4], "input 'z' is [3, 1, 4], and has to be [2, 1, 4]"),
        ([17, 3, 4], [17, 1, 4], "the dimension 'batch' is 17, and has to be 1 to 16"),
    ] {
        assert_eq!(shapes(&x, &z).unwrap_err().to_string(), expected);
    }
}

/// A node that is not the same for all extents is an error with its name.
#[test]
fn nodes_that_are_refused() {
    let axis = |node: Message, axis: i64| with_int(node, "axis", axis);
    let ends = || vec![ints("zero", &[0]), ints("end", &[30]), ints("axis", &[1])];
    let rows: Vec<(Vec<Message>, Vec<Message>, &str)> = vec![
        (
            vec![node("Slice", &["x", "zero", "end", "axis"], &["y"])],
            ends(),
            "node 'y' (Slice): value 'y': a number is not a sum",
        ),
        (vec![axis(node("TopK", &["x", "k"], &["y", ""]), 1)], vec![ints("k", &[1])], "node 'y' (TopK): "),
        (
            vec![node("NonZero", &["x"], &["i"]), with_int(node("Cast", &["i"], &["y"]), "to", 1)],
            vec![],
            "data-dependent extents",
        ),
        (vec![node("Squeeze", &["x"], &["y"])], vec![], "node 'y' (Squeeze): it differs between"),
        (vec![node("Shape", &["x"], &["s"]), with_int(node("Cast", &["s"], &["y"]), "to", 1)], vec![], "known value"),
        (
            vec![node("Reshape", &["x", "half"], &["y"])],
            vec![ints("half", &[8, -1])],
            "with batch = 1, words = 1: node 'y' (Reshape): the elements of [1, 1, 4] do not fill [8, -1]",
        ),
        (
            vec![axis(node("Gather", &["x", "i"], &["y"]), 1)],
            vec![scalar("i", 3)],
            "words = 2: node 'y' (Gather): index",
        ),
    ];
    for (nodes, known, expected) in rows {
        let bytes = model(nodes, known, &[("x", &["batch", "words", "4"])], &["y"]);
        let found = error_of(&bytes, &ranged(&DIMS));
        assert!(found.contains(expected) && found.contains(".dim_in("), "{found}\n{expected}");
    }
}

/// Numbers that are formulas for all but the smallest extents.
#[test]
fn numbers_of_small_extents_are_compared() {
    let words = || with_int(with_int(node("Shape", &["x"], &["s"]), "start", 1), "end", 2);
    let rows = vec![
        (
            vec![
                words(),
                node("Max", &["s", "two"], &["m"]),
                with_int(node("Cast", &["m"], &["f"]), "to", 1),
                node("Mul", &["x", "f"], &["y"]),
            ],
            "the known value 'f' is computed in another way with batch = 1, words = 1",
        ),
        (
            vec![words(), node("Greater", &["s", "one"], &["c"]), node("Where", &["c", "x", "other"], &["y"])],
            "node 'y' (Where): it differs between batch = 8, words = 512 and batch = 1, words = 1",
        ),
    ];
    for (nodes, expected) in rows {
        let known = vec![ints("one", &[1]), ints("two", &[2]), weights("other", &[1, 1], &[2.5])];
        let bytes = model(nodes, known, &[("x", &["batch", "words"])], &["y"]);
        let found = error_of(&bytes, &ranged(&[("batch", 1, 8), ("words", 1, 512)]));
        assert!(found.contains(expected) && found.contains(".dim_in("), "{found}");
        // From 2 words on, the first is a formula, and the second one is true.
        import(&bytes, None, &ranged(&[("batch", 1, 8), ("words", 2, 512)])).unwrap();
    }
}

/// The larger one of two dimensions is a formula only if it is the same one in all calls.
#[test]
fn comparisons_of_dimensions_are_refused() {
    let extent =
        |axis: i64, name: &str| with_int(with_int(node("Shape", &["x"], &[name]), "start", axis), "end", axis + 1);
    let nodes = vec![
        extent(0, "rows"),
        extent(1, "columns"),
        node("Max", &["rows", "columns"], &["m"]),
        with_int(node("Cast", &["m"], &["f"]), "to", 1),
        node("Mul", &["x", "f"], &["y"]),
    ];
    let bytes = model(nodes, vec![], &[("x", &["batch", "words"])], &["y"]);
    for (most, least) in [(8, 1), (64, 1), (512, 1), (512, 256)] {
        let found = error_of(&bytes, &ranged(&[("batch", 1, most), ("words", least, 512)]));
        assert!(found.contains("node 'y' (Mul)") && found.contains(".dim_in("), "{most} {least}: {found}");
    }
    check("the larger one", &bytes, &[("batch", 1, 8), ("words", 8, 20)], &[&[1, 8], &[8, 8], &[3, 20]]);
}

/// The columns that are missing to a multiple of a number are the same for many extents, and the
/// sum of a formula and this remainder is not a formula.
#[test]
fn remainders_of_extents_are_refused() {
    for (by, most) in [(2, 63), (2, 9), (2, 301), (3, 63), (4, 61), (6, 301), (12, 301)] {
        let nodes = vec![
            with_int(with_int(node("Shape", &["x"], &["s"]), "start", 1), "end", 2),
            node("Mod", &["s", "by"], &["m"]),
            with_int(node("Concat", &["before", "m"], &["pads"]), "axis", 0),
            node("Pad", &["x", "pads"], &["y"]),
        ];
        let known = vec![ints("by", &[by]), ints("before", &[0, 0, 0])];
        let bytes = model(nodes, known, &[("x", &["2", "words"])], &["y"]);
        let found = error_of(&bytes, &ranged(&[("words", 1, most)]));
        assert!(found.contains("node 'y' (Pad)") && found.contains(".dim_in("), "{by} {most}: {found}");
    }
}

/// Temporary memory is that of the call, so a huge range with values between kernels serves
/// small calls. A `State` has memory for the largest extents.
#[test]
fn temporary_memory_follows_the_extents() {
    let nodes = vec![
        node("MatMul", &["x", "w"], &["h"]),
        node("MatMul", &["h", "u"], &["g"]),
        with_int(node("Softmax", &["g"], &["s"]), "axis", 1),
        node("MatMul", &["s", "u"], &["t"]),
        node("Add", &["t", "h"], &["y"]),
    ];
    let known = vec![filled("w", &[4, 8]), filled("u", &[8, 8])];
    let bytes = model(nodes, known, &[("x", &["batch", "words", "4"])], &["y"]);
    let all = [("batch", 1, 1 << 20), ("words", 1, 1 << 10)];
    check("memory", &bytes, &all, &[&[1, 1], &[3, 50], &[40, 2]]);
    let lowered = |options: &ModelOptions| {
        build(&graph(&bytes, options), "model", &Target::host(), LowerOptions::default()).unwrap().1
    };
    let (small, one) = (lowered(&ranged(&DIMS)), lowered(&fixed(&DIMS, &[16, 40])));
    assert!(small.arena >= one.arena && small.arena <= 2 * one.arena, "{} {}", small.arena, one.arena);
    assert!(lowered(&ranged(&all)).arena > 1 << 33);
}

/// The option of other languages, and the largest extents of the arguments.
#[test]
fn the_option_of_from_onnx() {
    let from_onnx = kernpack::Function::global("kernpack.graph.from_onnx").unwrap();
    let read = |range: &[i64]| {
        let batch: kernpack::Array<i64> = range.iter().copied().collect();
        let words: kernpack::Array<i64> = [1, 40].into_iter().collect();
        let ranges: kernpack::Map<kernpack::Str, kernpack::Array<i64>> =
            [("batch".into(), batch), ("words".into(), words)].into_iter().collect();
        let options: kernpack::Map<kernpack::Str, kernpack::Any> =
            [("dims_range".into(), kernpack::Any::from(ranges))].into_iter().collect();
        from_onnx.call_as::<kernpack::ObjRef<kernpack_graph::Model>>((kernpack::Bytes::from(elementwise()), options))
    };
    let model = read(&[1, 3]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(model.inputs.get(0).unwrap().shape.to_vec(), [3, 40, 4]);
    assert_eq!(model.outputs.get(0).unwrap().shape.to_vec(), [3, 40, 4]);
    let wrong = read(&[3]).err().expect("an error").to_string();
    assert!(wrong.contains("dims_range: the dimension 'batch' is given [3], and needs"), "{wrong}");
}

/// A network with a cache: places begin behind it, and each word sees those up to its own.
fn cached_nodes() -> Vec<Message> {
    let mut nodes = vec![
        node("Shape", &["cache"], &["s"]),
        with_int(node("Gather", &["s", "one"], &["past"]), "axis", 0),
        node("Shape", &["x"], &["t"]),
        with_int(node("Gather", &["t", "one"], &["words"]), "axis", 0),
        node("Add", &["past", "words"], &["all"]),
        node("Range", &["past", "all", "one"], &["places"]),
        node("Unsqueeze", &["places", "column"], &["rows"]),
        // Angles of the places.
        with_int(node("Cast", &["rows"], &["numbers"]), "to", 1),
        node("Cos", &["numbers"], &["angles"]),
        node("Mul", &["x", "angles"], &["turned"]),
        with_int(node("Concat", &["cache", "turned"], &["present"]), "axis", 1),
        // A mask of comparisons, a triangle that begins behind the cache, and a window.
        node("Range", &["zero", "all", "one"], &["others"]),
        node("LessOrEqual", &["others", "rows"], &["seen"]),
        with_int(node("Cast", &["seen"], &["mask"]), "to", 1),
        node("MatMul", &["mask", "present"], &["y"]),
        node("Unsqueeze", &["words", "first"], &["height"]),
        node("Unsqueeze", &["all", "first"], &["width"]),
        with_int(node("Concat", &["height", "width"], &["both"]), "axis", 0),
        node("ConstantOfShape", &["both"], &["zeros"]),
        with_int(node("Cast", &["zeros"], &["halves"]), "to", 1),
        node("Add", &["halves", "factor"], &["ones"]),
        with_int(node("Trilu", &["ones", "past"], &["triangle"]), "upper", 0),
        node("MatMul", &["triangle", "present"], &["z"]),
        node("Sub", &["rows", "others"], &["away"]),
        node("Less", &["away", "three"], &["near"]),
        with_int(node("Cast", &["near"], &["close"]), "to", 1),
        node("MatMul", &["close", "present"], &["w"]),
    ];
    // Rows of a table by place.
    nodes.push(node("Gather", &["table", "places"], &["picked"]));
    nodes.push(node("Add", &["x", "picked"], &["v"]));
    nodes
}

fn cached(total: &str) -> Vec<u8> {
    let scalars = [("zero", 0), ("one", 1), ("three", 3)];
    let mut known: Vec<Message> = scalars.map(|(name, value)| scalar(name, value)).into();
    known.extend([ints("column", &[1]), ints("first", &[0]), weights("factor", &[1], &[0.5])]);
    let table: Vec<f32> = (0..=255_u8).map(|place| f32::from(place) / 64.0).collect();
    known.push(weights("table", &[64, 4], &table));
    let inputs: [(&str, &[&str]); 3] =
        [("x", &["batch", "words", "4"]), ("cache", &["batch", "past", "4"]), ("given", &["batch", total])];
    let mut nodes = cached_nodes();
    nodes.push(node("Unsqueeze", &["given", "column"], &["row"]));
    nodes.push(node("MatMul", &["row", "present"], &["u"]));
    model(nodes, known, &inputs, &["present", "y", "z", "w", "v", "u"])
}

const CACHED: [Range<'static>; 3] = [("batch", 1, 3), ("words", 1, 9), ("past", 0, 40)];
const OF_CACHES: [&[i64]; 7] = [&[1, 1, 0], &[1, 9, 0], &[3, 1, 40], &[2, 3, 5], &[1, 1, 1], &[3, 9, 40], &[2, 8, 16]];

#[test]
fn positions_that_begin_at_an_extent() {
    check_within(1e-5, "cache", &cached("past + words"), &CACHED, &OF_CACHES);
}

/// Dimensions that follow from others.
#[test]
fn sums_of_dimensions() {
    let with = |name: &str, sum: &str, ranges: &[Range<'_>]| {
        let sums = [(name.to_owned(), sum.to_owned())].into();
        ModelOptions { sums, ..ranged(ranges) }
    };
    let total = with("total", "words + past", &CACHED);
    let any = import(&cached("total"), None, &total).unwrap().graph;
    assert_eq!(any.argument_texts()[2], ["batch", "words + past"]);
    let all = [vec![2, 3, 4], vec![2, 5, 4], vec![2, 8]];
    assert_eq!(any.output_shapes(&all).unwrap()[0], [2, 8, 4]);
    let wrong = [vec![2, 3, 4], vec![2, 5, 4], vec![2, 7]];
    assert!(any.output_shapes(&wrong).unwrap_err().to_string().contains("has to be [2, 8]"));
    for (name, sum, expected) in [
        ("total", "words + old", "is given the sum `words + old`, and 'old' is not a number or a dimension with"),
        ("total", "", "is given the sum ``, and '' is not a number"),
        ("rest", "words + 1", "the model has no dimension 'rest' that is open; it has: batch, past, total, words"),
        ("words", "past + 1", "'words' is given the sum `past + 1`, and an extent or a range: one of them is enough"),
        ("total", "words * 9223372036854775807 * past", "dimension 1 ('total') is not known"),
    ] {
        let found = error_of(&cached("total"), &with(name, sum, &CACHED));
        assert!(found.contains(expected), "{found}\n{expected}");
    }
    let without = error_of(&cached("total"), &ranged(&CACHED));
    assert!(without.contains("dimension 1 ('total') is not known"), "{without}");
}

/// Indices into an axis with a range are checked against the extent of the call.
#[test]
fn indices_are_checked() {
    let nodes = vec![with_int(node("Gather", &["x", "i"], &["y"]), "axis", 1)];
    let indices = Message::default().int(1, 7).message(2, Message::default().message(1, Message::default().int(1, 2)));
    let parts = nodes
        .into_iter()
        .fold(Message::default(), |graph, node| graph.message(1, node))
        .message(11, super::parts::value("x", &["batch", "words", "4"]))
        .message(11, Message::default().text(1, "i").message(2, Message::default().message(1, indices)))
        .message(12, super::structures::undeclared("y"));
    let bytes = Message::default().int(1, 8).message(7, parts).message(8, Message::default().text(1, "").int(2, 20)).0;
    let any = graph(&bytes, &ranged(&DIMS));
    let (module, _) = build(&any, "model", &Target::host(), LowerOptions::default()).unwrap();
    let run = |words: i64, indices: [i64; 2]| {
        let numbers: Vec<f32> = (0..2 * words * 4).map(|place| place as f32).collect();
        let x = kernpack::Tensor::from_slice(&numbers, &[2, words, 4]).unwrap();
        let i = kernpack::Tensor::from_slice(&indices, &[2]).unwrap();
        call(&module, &[x, i], &[vec![2, 2, 4]]).map(|results| results[0][..8].to_vec())
    };
    assert_eq!(run(5, [4, -5]).unwrap(), [16., 17., 18., 19., 0., 1., 2., 3.]);
    assert_eq!(run(40, [39, -40]).unwrap()[..4], [156., 157., 158., 159.]);
    for (words, indices) in [(5, [5, 0]), (5, [0, -6]), (1, [1, 0]), (40, [40, 40])] {
        let found = run(words, indices).unwrap_err().to_string();
        let expected = "node 'y' (Gather): index out of range: an element of input 1 ('i') is not in the range -words to words - 1";
        assert!(found.contains(expected), "{found}");
    }
}
