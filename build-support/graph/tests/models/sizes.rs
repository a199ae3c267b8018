//! Models that are compiled for several extents of a dimension: a call with each of them gives the
//! same results as the model of that size.

use kernpack::{Module, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_graph::{Graph, LowerOptions, ModelOptions, Threads, build, import};

use super::node;
use super::parts::{call, filled, graph, inputs, ints, model, scalar};
use super::structures::{with_int, with_ints};

fn one_of(dim: &str, extents: &[i64]) -> ModelOptions {
    ModelOptions { dims_in: [(dim.to_owned(), extents.to_vec())].into(), ..ModelOptions::default() }
}

fn of(dims: &[(&str, i64)]) -> ModelOptions {
    let dims = dims.iter().map(|(name, extent)| ((*name).to_owned(), *extent)).collect();
    ModelOptions { dims, ..ModelOptions::default() }
}

fn built(graph: &Graph, threads: Threads) -> Module {
    build(graph, "model", &Target::host(), LowerOptions { threads, ..LowerOptions::default() }).unwrap().0
}

/// Checks that each call gives the same results as the model compiled for its extents.
fn check(bytes: &[u8], options: &ModelOptions, calls: &[&[(&str, i64)]], threads: Threads) {
    let all = graph(bytes, options);
    let module = built(&all, threads);
    for dims in calls {
        let fixed = graph(bytes, &of(dims));
        let shapes: Vec<Vec<i64>> = fixed.outputs.iter().map(|(_, id)| fixed.values[*id].shape.clone()).collect();
        let given = inputs(&fixed);
        let of_inputs: Vec<Vec<i64>> = given.iter().map(|tensor| tensor.shape().to_vec()).collect();
        assert_eq!(all.output_shapes(&of_inputs).unwrap(), shapes, "{dims:?}");
        let found = call(&module, &given, &shapes).unwrap();
        let expected = call(&built(&fixed, threads), &given, &shapes).unwrap();
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            let is_near = (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
            assert!(is_near, "{dims:?}: {found}, expected {expected}");
        }
    }
}

/// Self-attention of words, and the attention weights: the results of one word depend on all.
fn attention(batch: &str) -> Vec<u8> {
    let nodes = vec![
        node("MatMul", &["x", "wq"], &["q"]),
        node("MatMul", &["x", "wk"], &["k"]),
        with_ints(node("Transpose", &["k"], &["kt"]), "perm", &[0, 2, 1]),
        node("MatMul", &["q", "kt"], &["scores"]),
        node("Mul", &["scores", "scale"], &["scaled"]),
        node("Softmax", &["scaled"], &["shares"]),
        node("MatMul", &["shares", "x"], &["mixed"]),
        node("Reshape", &["mixed", "flat"], &["y"]),
    ];
    let known = vec![
        filled("wq", &[8, 8]),
        filled("wk", &[8, 8]),
        super::weights("scale", &[], &[0.01]),
        ints("flat", &[-1, 8]),
    ];
    model(nodes, known, &[("x", &[batch, "words", "8"])], &["y", "shares"])
}

#[test]
fn texts_of_some_lengths() {
    let calls: &[&[(&str, i64)]] = &[&[("words", 3)], &[("words", 16)], &[("words", 7)]];
    check(&attention("1"), &one_of("words", &[3, 16, 7]), calls, Threads::Kernels);
    check(&attention("1"), &one_of("words", &[16, 3]), &calls[..2], Threads::Region);
}

/// Batches of any size with texts of some lengths: rows of the first output are those of words.
#[test]
fn batches_of_texts_of_some_lengths() {
    let options = ModelOptions { up_to: [("batch".to_owned(), 9)].into(), ..one_of("words", &[3, 10]) };
    let calls: &[&[(&str, i64)]] = &[
        &[("batch", 1), ("words", 3)],
        &[("batch", 9), ("words", 10)],
        &[("batch", 5), ("words", 3)],
        &[("batch", 4), ("words", 10)],
    ];
    let bytes = attention("batch");
    check(&bytes, &options, calls, Threads::Kernels);
    let all = graph(&bytes, &options);
    let texts: Vec<String> = all.argument_texts().iter().map(|texts| texts.join(", ")).collect();
    assert_eq!(texts, ["batch, words, 8", "words * batch, 8", "batch, words, words"]);
}

/// Images of some widths, whose results have other, derived extents.
#[test]
fn images_of_some_widths() {
    let nodes = vec![
        with_ints(node("Conv", &["x", "w"], &["c"]), "strides", &[2, 2]),
        node("Relu", &["c"], &["y"]),
        node("GlobalAveragePool", &["y"], &["mean"]),
    ];
    let bytes = model(nodes, vec![filled("w", &[4, 3, 3, 3])], &[("x", &["1", "3", "9", "width"])], &["y", "mean"]);
    let options = one_of("width", &[9, 17]);
    check(&bytes, &options, &[&[("width", 9)], &[("width", 17)]], Threads::Kernels);
    let texts = graph(&bytes, &options).argument_texts();
    assert_eq!(texts, [vec!["1", "3", "9", "width"], vec!["1", "4", "4", "4 | 8"], vec!["1", "4", "1", "1"]]);
    // With a single extent there is no choice.
    assert!(graph(&bytes, &one_of("width", &[9])).sizes.is_none());
}

#[test]
fn calls_with_other_extents() {
    let module = built(&graph(&attention("1"), &one_of("words", &[4, 8, 6])), Threads::Single);
    let of = |words: i64, rows: i64, square: i64| {
        let x = Tensor::zeros::<f32>(&[1, words, 8]).unwrap();
        call(&module, &[x], &[vec![rows, 8], vec![1, square, square]]).map_err(|error| error.to_string())
    };
    assert_eq!(of(6, 6, 6).unwrap()[0], vec![0.0; 48]);
    for words in [0, 5, 9, 1000] {
        let error = of(words, words, words).unwrap_err();
        assert!(error.contains("model: x.shape[1], the dimension 'words', has to be 4, 6 or 8"), "{error}");
    }
    let error = of(4, 6, 4).unwrap_err();
    assert!(error.contains("Mismatched y.shape[0] on argument #1"), "{error}");
    let error = of(4, 4, 6).unwrap_err();
    assert!(error.contains("Mismatched shares.shape[1] on argument #2"), "{error}");
}

/// Kernels run one by one for the extent of the call.
#[test]
fn steps_of_a_call() {
    let all = graph(&attention("1"), &one_of("words", &[8, 4]));
    let (module, lowered) = build(&all, "model", &Target::host(), LowerOptions::default()).unwrap();
    let steps = module.function("model_steps").unwrap();
    let count = i64::try_from(lowered.kernels.len()).unwrap();
    let bytes = i64::try_from(kernpack_graph::lower::state_bytes(lowered.arena)).unwrap();
    let state = Tensor::zeros::<u8>(&[bytes]).unwrap();
    for words in [4, 8] {
        let fixed = graph(&attention("1"), &of(&[("words", words)]));
        let x = &inputs(&fixed)[0];
        let outputs = [vec![words, 8], vec![1, words, words]].map(|shape| Tensor::zeros::<f32>(&shape).unwrap());
        for step in 0..count {
            steps.call((&state, step, step + 1, x, &outputs[0], &outputs[1])).unwrap();
        }
        let expected = call(&module, std::slice::from_ref(x), &[vec![words, 8], vec![1, words, words]]).unwrap();
        assert_eq!(outputs[0].view::<f32>().unwrap().to_vec(), expected[0]);
    }
    let info = lowered.describe(&all, "model");
    assert!(info.contains("\"sizes\":{\"dimension\":\"words\",\"extents\":[8, 4]}"), "{info}");
    assert!(info.contains("\"shape\":[1, 8, 8],\"extents\":[\"1\",\"words\",\"8\"]"), "{info}");
}

/// Weights with the same layout for all extents are stored once.
#[test]
fn weights_are_there_once() {
    let dense = |extents: &[i64]| {
        let nodes = vec![node("MatMul", &["x", "w"], &["y"])];
        let bytes = model(nodes, vec![filled("w", &[64, 64])], &[("x", &["words", "64"])], &["y"]);
        build(&graph(&bytes, &one_of("words", extents)), "model", &Target::host(), LowerOptions::default()).unwrap().1
    };
    assert_eq!(dense(&[32, 48, 64]).weights, dense(&[32]).weights);
}

#[test]
fn what_cannot_be_compiled_for_several_extents() {
    let bytes = attention("batch");
    let error = |bytes: &[u8], options: &ModelOptions| {
        import(bytes, None, options).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let batch_of_1 = |options: ModelOptions| ModelOptions { dims: [("batch".to_owned(), 1)].into(), ..options };
    for (extents, expected) in [
        (&[][..], "the dimension 'words' is given no extent"),
        (&[4, 0], "an extent of the dimension 'words' is 0, and has to be 1 or more"),
        (&[4, 8, 4], "the dimension 'words' is given the extent 4 twice"),
        (&[3; 65], "the dimension 'words' is given 65 extents, and can have 64: each has code of its own"),
    ] {
        assert_eq!(error(&bytes, &batch_of_1(one_of("words", extents))), expected);
    }
    assert_eq!(
        error(&bytes, &one_of("width", &[4, 8])),
        "the model has no dimension 'width' that is open; it has: batch, words"
    );
    assert_eq!(
        error(&bytes, &one_of("words", &[4, 8])),
        "input 'x': dimension 0 ('batch') is not known: say `.dim(\"batch\", extent)`, or `.input(\"x\", [..])` with all extents"
    );
    let twice = ModelOptions { up_to: [("words".to_owned(), 4)].into(), ..one_of("words", &[4, 8]) };
    assert_eq!(
        error(&bytes, &twice),
        "the dimension 'words' is given one extent or a bound, and a list of extents: one of them is enough"
    );
    let mut two = one_of("words", &[4, 8]);
    two.dims_in.insert("batch".into(), vec![1, 2]);
    assert_eq!(
        error(&bytes, &two),
        "one dimension can have several extents, and not both 'batch' and 'words': say one extent, `.dim(\"words\", extent)`"
    );
    // An output that is a sequence of as many tensors as there are words.
    let nodes = vec![with_int(node("SplitToSequence", &["x", "one"], &["y"]), "axis", 0)];
    let split = model(nodes, vec![scalar("one", 1)], &[("x", &["words", "2"])], &["y"]);
    assert_eq!(
        error(&split, &one_of("words", &[2, 3])),
        "for other extents of 'words' the model has other arguments: 3 outputs with 3, 2 with 2: say one extent, `.dim(\"words\", extent)`"
    );
}

#[test]
fn shapes_of_outputs() {
    let all = graph(&attention("1"), &one_of("words", &[4, 8]));
    let error =
        |shapes: &[Vec<i64>]| all.output_shapes(shapes).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(error(&[vec![1, 5, 8]]), "the dimension 'words' is 5, and has to be 4 or 8");
    assert_eq!(error(&[vec![1, 4, 9]]), "input 'x' is [1, 4, 9], and has to be [1, 4, 8]");
    assert_eq!(error(&[vec![4, 8]]), "input 'x' has 3 dimensions, and 2 are given: [4, 8]");
    assert_eq!(error(&[]), "the model takes 1: x; 0 are given");
}
