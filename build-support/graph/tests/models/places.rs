//! Indices that follow from positions, as exporters write them: they do not mix the rows of a
//! batch, and neither do operators that are written with statements along other axes.

use kernpack_compiler::codegen::Target;
use kernpack_graph::{LowerOptions, ModelOptions, Threads, build, import};

use super::parts::{call, check, filled, graph, inputs, ints, model, scalar};
use super::structures::{with_int, with_ints};
use super::{Message, node};

fn options(most: i64) -> ModelOptions {
    ModelOptions { up_to: [("batch".to_owned(), most)].into(), ..ModelOptions::default() }
}

/// `arange(x.shape[axis])` as `name`.
fn arange(axis: &str, name: &str) -> Vec<Message> {
    let shape = format!("{name}_shape");
    let extent = format!("{name}_extent");
    vec![
        node("Shape", &["x"], &[&shape]),
        node("Gather", &[&shape, axis], &[&extent]),
        node("Range", &["zero", &extent, "one"], &[name]),
    ]
}

/// `rows` is `arange(batch)[:, None, None, None]`, and `words` `arange(length)[None, None, None]`.
fn indices() -> Vec<Message> {
    let mut nodes = arange("zero", "rows_flat");
    nodes.extend(arange("one", "words_flat"));
    nodes.push(node("Unsqueeze", &["rows_flat", "behind"], &["rows"]));
    nodes.push(node("Unsqueeze", &["words_flat", "before"], &["words"]));
    nodes
}

fn known() -> Vec<Message> {
    vec![
        scalar("zero", 0),
        scalar("one", 1),
        scalar("three", 3),
        scalar("five", 5),
        ints("last", &[-1]),
        ints("behind", &[1, 2, 3]),
        ints("before", &[0, 1, 2]),
        ints("repeats", &[1, 1, 5, 1]),
        ints("many_repeats", &[1, 1, 3000, 1]),
    ]
}

/// `x[rows, words]` as torch.export writes it. `columns` are the indices of both axes of `x`.
fn exported(columns: [&str; 2], more: Vec<Message>) -> Vec<u8> {
    let mut nodes = indices();
    nodes.extend(more);
    nodes.extend([
        node("Max", &columns, &["both"]),
        node("Shape", &["both"], &["shape"]),
        node("Expand", &[columns[0], "shape"], &["row"]),
        node("Expand", &[columns[1], "shape"], &["word"]),
        node("Unsqueeze", &["row", "last"], &["row_column"]),
        node("Unsqueeze", &["word", "last"], &["word_column"]),
        with_int(node("Concat", &["row_column", "word_column"], &["places"]), "axis", -1),
        node("GatherND", &["x", "places"], &["selected"]),
        node("Add", &["selected", "selected"], &["y"]),
    ]);
    model(nodes, known(), &[("x", &["batch", "5"])], &["y"])
}

fn operators(bytes: &[u8]) -> Vec<String> {
    let graph = graph(bytes, &options(20));
    let needed = graph.nodes.iter().map(|node| node.op.name().to_owned());
    needed.collect()
}

#[test]
fn rows_and_words_by_their_numbers_are_copies() {
    let bytes = exported(["rows", "words"], Vec::new());
    assert_eq!(operators(&bytes), ["Reshape", "Add"]);
    check(&bytes, 20, &[1, 2, 7, 20], Threads::Kernels);
    // Each word for each of five questions.
    let more = vec![node("Tile", &["words", "repeats"], &["tiled"])];
    let bytes = exported(["rows", "tiled"], more);
    assert_eq!(operators(&bytes), ["Reshape", "Expand", "Add"]);
    check(&bytes, 20, &[1, 3, 20], Threads::Kernels);
}

/// An index is that of a formula: more than a mebibyte of indices is not computed.
#[test]
fn many_indices_are_a_formula() {
    let bytes = exported(["rows", "tiled"], vec![node("Tile", &["words", "many_repeats"], &["tiled"])]);
    assert_eq!(operators(&bytes), ["Reshape", "Expand", "Add"]);
    check(&bytes, 20, &[1, 6], Threads::Kernels);
}

/// As the exporter that traces a call writes it: one index into all words of all rows.
#[test]
fn rows_and_words_by_one_number_are_copies() {
    let mut nodes = indices();
    nodes.extend([
        with_int(node("Flatten", &["x"], &["flat"]), "axis", 2),
        node("Mul", &["rows", "five"], &["first"]),
        node("Add", &["words", "first"], &["place"]),
        node("Gather", &["flat", "place"], &["selected"]),
        node("Relu", &["selected"], &["y"]),
    ]);
    let bytes = model(nodes, known(), &[("x", &["batch", "5"])], &["y"]);
    assert_eq!(operators(&bytes), ["Flatten", "Reshape", "Relu"]);
    check(&bytes, 20, &[1, 2, 7, 20], Threads::Kernels);
}

/// `x[arange(batch), words]`, where the words follow from the data.
#[test]
fn rows_by_their_numbers_are_a_batch() {
    let mut nodes = arange("zero", "rows");
    nodes.extend([
        with_int(with_int(node("ArgMax", &["x"], &["words"]), "axis", 1), "keepdims", 0),
        node("Unsqueeze", &["rows", "last"], &["row_column"]),
        node("Unsqueeze", &["words", "last"], &["word_column"]),
        with_int(node("Concat", &["row_column", "word_column"], &["places"]), "axis", -1),
        node("GatherND", &["x", "places"], &["y"]),
    ]);
    let bytes = model(nodes, known(), &[("x", &["batch", "5"])], &["y"]);
    check(&bytes, 20, &[1, 2, 7, 20], Threads::Kernels);
}

/// A causal mask that is repeated for each row and head, and a bias for each head behind it: with
/// 16 rows, they have more than a mebibyte, and are nodes instead of known tensors.
#[test]
fn masks_that_repeat_are_read_once() {
    let mut nodes = arange("one", "words");
    nodes.extend([
        node("Unsqueeze", &["words", "last"], &["from"]),
        node("LessOrEqual", &["words", "from"], &["causal"]),
        node("Shape", &["x"], &["all"]),
        node("Slice", &["all", "start", "end"], &["count"]),
        with_int(node("Concat", &["count", "heads", "length", "length"], &["wide"]), "axis", 0),
        node("Expand", &["causal", "wide"], &["mask"]),
        node("Not", &["mask"], &["others"]),
        node("Where", &["others", "small", "bias"], &["biases"]),
        node("Unsqueeze", &["x", "sides"], &["scores"]),
        node("Add", &["scores", "biases"], &["masked"]),
        node("ReduceMax", &["masked", "inner"], &["y"]),
    ]);
    let mut all = known();
    all.extend([
        ints("start", &[0]),
        ints("end", &[1]),
        ints("heads", &[2]),
        ints("length", &[100]),
        ints("sides", &[1, 2]),
        ints("inner", &[3]),
        super::weights("small", &[], &[-100.0]),
        filled("bias", &[1, 2, 1, 100]),
    ]);
    let bytes = model(nodes, all, &[("x", &["batch", "100"])], &["y"]);
    let graph = graph(&bytes, &options(64));
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(names, ["Unsqueeze", "Add", "ReduceMax"]);
    let biases = graph.nodes[1].inputs[1].unwrap();
    assert_eq!(graph.values[biases].shape, [1, 2, 100, 100]);
    check(&bytes, 64, &[1, 5, 64], Threads::Kernels);
}

/// Rows by other numbers are read by them, and mix a batch.
#[test]
fn other_numbers_are_not_copies() {
    let more = || {
        vec![
            node("Neg", &["rows"], &["from_the_end"]),
            node("Sub", &["from_the_end", "one"], &["backwards"]),
            node("Mod", &["words", "three"], &["some"]),
        ]
    };
    for (columns, operator) in
        [(["backwards", "words"], "GatherND"), (["rows", "some"], ""), (["words", "rows"], "GatherND")]
    {
        let bytes = exported(columns, more());
        match import(&bytes, None, &options(4)) {
            Ok(_) => {
                assert_eq!(operator, "", "{columns:?}");
                check(&bytes, 20, &[1, 7], Threads::Kernels);
            }
            Err(error) => {
                assert!(!operator.is_empty() && error.to_string().contains("(GatherND)"), "{columns:?}: {error}");
            }
        }
    }
}

/// The steps of recurrent networks do not mix the rows of a batch.
#[test]
fn recurrent_networks_of_any_batch() {
    for (kind, gates) in [("RNN", 1), ("GRU", 3), ("LSTM", 4)] {
        for both in [false, true] {
            let directions = if both { 2 } else { 1 };
            let of_kind = node(kind, &["turned", "w", "r", "b", "", "state"], &["all", "last_state"]);
            let of_kind = with_int(of_kind, "hidden_size", 4);
            let of_kind =
                if both { super::structures::with_text(of_kind, "direction", "bidirectional") } else { of_kind };
            let nodes = vec![
                node("Shape", &["x"], &["shape"]),
                node("Slice", &["shape", "start", "end"], &["count"]),
                with_int(node("Concat", &["directions", "count", "units"], &["state_shape"]), "axis", 0),
                node("ConstantOfShape", &["state_shape"], &["state"]),
                with_ints(node("Transpose", &["x"], &["turned"]), "perm", &[1, 0, 2]),
                of_kind,
                with_ints(node("Transpose", &["all"], &["rows"]), "perm", &[2, 0, 1, 3]),
                with_ints(node("Transpose", &["last_state"], &["state_rows"]), "perm", &[1, 0, 2]),
                node("Relu", &["rows"], &["y"]),
                node("Relu", &["state_rows"], &["z"]),
            ];
            let known = vec![
                filled("w", &[directions, gates * 4, 3]),
                filled("r", &[directions, gates * 4, 4]),
                filled("b", &[directions, gates * 8]),
                ints("start", &[0]),
                ints("end", &[1]),
                ints("units", &[4]),
                ints("directions", &[directions]),
            ];
            let bytes = model(nodes, known, &[("x", &["batch", "5", "3"])], &["y", "z"]);
            check(&bytes, 20, &[1, 3, 20], Threads::Kernels);
        }
    }
}

/// Operators that are written with statements, along an axis that is not that of the batch.
#[test]
fn statements_along_other_axes() {
    let known = || vec![ints("k", &[2]), scalar("zero", 0), ints("last", &[-1])];
    let of = |nodes: Vec<Message>, dims: &[&str]| model(nodes, known(), &[("x", dims)], &["y"]);
    let top = |axis: i64| vec![with_int(node("TopK", &["x", "k"], &["y", "places"]), "axis", axis)];
    let scatter = |axis: i64| {
        vec![
            with_int(node("ArgMax", &["x"], &["best"]), "axis", 1),
            with_int(node("ReduceMax", &["x", "last"], &["most"]), "keepdims", 1),
            with_int(node("ScatterElements", &["x", "best", "most"], &["y"]), "axis", axis),
        ]
    };
    check(&of(top(1), &["batch", "5"]), 20, &[1, 7, 20], Threads::Kernels);
    check(&of(scatter(1), &["batch", "5"]), 20, &[1, 7, 20], Threads::Kernels);
    check(&of(vec![node("Det", &["x"], &["y"])], &["batch", "3", "3"]), 20, &[1, 7, 20], Threads::Kernels);
    let columns = vec![
        with_ints(node("Transpose", &["x"], &["turned"]), "perm", &[1, 0]),
        node("Unsqueeze", &["k", "last"], &["column"]),
        node("Gather", &["turned", "zero"], &["first"]),
        node("Unsqueeze", &["first", "zero"], &["update"]),
        node("ScatterND", &["turned", "column", "update"], &["scattered"]),
        with_ints(node("Transpose", &["scattered"], &["y"]), "perm", &[1, 0]),
    ];
    check(&of(columns, &["batch", "5"]), 20, &[1, 7, 20], Threads::Kernels);
    let rows = vec![
        with_int(node("Reshape", &["x", "square"], &["rows"]), "allowzero", 0),
        node("ScatterND", &["rows", "row", "rows"], &["y"]),
    ];
    let known = vec![ints("square", &[-1, 5]), ints("row", &[0])];
    let rows = model(rows, known, &[("x", &["batch", "5"])], &["y"]);
    assert!(import(&rows, None, &options(4)).is_err());
    for (nodes, operator) in [(top(0), "TopK"), (scatter(0), "ScatterElements")] {
        let error = import(&of(nodes, &["batch", "5"]), None, &options(4)).err().unwrap().to_string();
        assert!(error.contains(operator), "{error}");
    }
}

/// Dimensions of -1, as paddle2onnx and skl2onnx write them, have the names of their inputs.
#[test]
fn dimensions_without_names() {
    let nodes = vec![node("MatMul", &["x", "w"], &["h"]), node("Add", &["h", "offsets"], &["y"])];
    let bytes = model(nodes, vec![filled("w", &[4, 3])], &[("x", &["-1", "4"]), ("offsets", &["-1", "3"])], &["y"]);
    let open = ModelOptions { up_to: [("x.0".to_owned(), 9)].into(), ..ModelOptions::default() };
    let open = graph(&bytes, &open);
    assert_eq!(open.argument_texts(), [["x.0", "4"], ["x.0", "3"], ["x.0", "3"]]);
    assert_eq!(open.output_shapes(&[vec![5, 4], vec![5, 3]]).unwrap(), [[5, 3]]);
    let error = open.output_shapes(&[vec![5, 4], vec![6, 3]]).unwrap_err().to_string();
    assert_eq!(error, "input 'offsets' is [6, 3], and has to be [5, 3]");
    let (module, _) = build(&open, "model", &Target::host(), LowerOptions::default()).unwrap();
    let fixed = ModelOptions { dims: [("offsets.0".to_owned(), 5)].into(), ..ModelOptions::default() };
    let fixed = graph(&bytes, &fixed);
    let (alone, _) = build(&fixed, "model", &Target::host(), LowerOptions::default()).unwrap();
    let given = inputs(&fixed);
    let shapes = [vec![5, 3]];
    assert_eq!(call(&module, &given, &shapes).unwrap(), call(&alone, &given, &shapes).unwrap());
    // Two of them may have different extents, and other axes are not a batch.
    let of = |dims: &[(&str, i64)]| ModelOptions {
        dims: dims.iter().map(|(name, extent)| ((*name).to_owned(), *extent)).collect(),
        ..ModelOptions::default()
    };
    assert_eq!(
        graph(&bytes, &of(&[("x.0", 4), ("offsets.0", 1)])).output_shapes(&[vec![4, 4], vec![1, 3]]).unwrap(),
        [[4, 3]]
    );
    let square = model(vec![node("Relu", &["x"], &["y"])], Vec::new(), &[("x", &["-1", "-1"])], &["y"]);
    let error = import(&square, None, &of(&[("x.0", 4)])).err().unwrap().to_string();
    let wanted = "input 'x': dimension 1 ('x.1') is not known: say `.dim(\"x.1\", extent)`";
    assert!(error.starts_with(wanted), "{error}");
    let unknown = ModelOptions { up_to: [("batch".to_owned(), 4)].into(), ..ModelOptions::default() };
    let error = import(&square, None, &unknown).err().unwrap().to_string();
    assert!(error.contains("the model has no dimension 'batch' that is open; it has: x.0, x.1"), "{error}");
}
