//! Models with a dynamic dimension: every extent gives the same results as a model of that size,
//! and models that cannot be split are rejected.

use kernpack::{Any, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_graph::{Graph, LowerOptions, ModelOptions, Threads, build, import};

use super::structures::{body, undeclared, with_graph, with_int, with_ints};
use super::{Message, node, weights};

/// An input or output of floats, whose extents may be names.
pub(super) fn value(name: &str, dims: &[&str]) -> Message {
    let shape = dims.iter().fold(Message::default(), |shape, dim| {
        let dim = match dim.parse() {
            Ok(extent) => Message::default().int(1, extent),
            Err(_) => Message::default().text(2, dim),
        };
        shape.message(1, dim)
    });
    let tensor = Message::default().int(1, 1).message(2, shape);
    Message::default().text(1, name).message(2, Message::default().message(1, tensor))
}

/// Small integers, whose sums of products are exact in any order.
pub(super) fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|place| ((place * 7 + place / 5 + seed) % 11) as f32 - 5.0).collect()
}

pub(super) fn filled(name: &str, dims: &[i64]) -> Message {
    let count = dims.iter().product::<i64>() as usize;
    weights(name, dims, &numbers(count, name.len()))
}

pub(super) fn scalar(name: &str, value: i64) -> Message {
    Message::default().int(2, 7).text(8, name).bytes(9, &value.to_le_bytes())
}

pub(super) fn ints(name: &str, values: &[i64]) -> Message {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Message::default().int(1, values.len() as i64).int(2, 7).text(8, name).bytes(9, &raw)
}

pub(super) fn model(nodes: Vec<Message>, known: Vec<Message>, inputs: &[(&str, &[&str])], outputs: &[&str]) -> Vec<u8> {
    let graph = nodes.into_iter().fold(Message::default(), |graph, node| graph.message(1, node));
    let graph = known.into_iter().fold(graph, |graph, known| graph.message(5, known));
    let graph = inputs.iter().fold(graph, |graph, (name, dims)| graph.message(11, value(name, dims)));
    let graph = outputs.iter().fold(graph, |graph, name| graph.message(12, undeclared(name)));
    Message::default().int(1, 8).message(7, graph).message(8, Message::default().text(1, "").int(2, 20)).0
}

fn up_to(most: i64) -> ModelOptions {
    ModelOptions { up_to: [("batch".to_owned(), most)].into(), ..ModelOptions::default() }
}

fn of(extent: i64) -> ModelOptions {
    ModelOptions { dims: [("batch".to_owned(), extent)].into(), ..ModelOptions::default() }
}

pub(super) fn graph(bytes: &[u8], options: &ModelOptions) -> Graph {
    import(bytes, None, options).unwrap().graph
}

/// Returns the results of a compiled model. `shapes` are those of its outputs.
pub(super) fn call(
    module: &kernpack::Module,
    inputs: &[Tensor],
    shapes: &[Vec<i64>],
) -> kernpack::Result<Vec<Vec<f32>>> {
    let outputs: Vec<Tensor> = shapes.iter().map(|shape| Tensor::zeros::<f32>(shape).unwrap()).collect();
    let all: Vec<Any> = inputs.iter().chain(&outputs).map(|tensor| tensor.clone().into()).collect();
    module.function("model").unwrap().call(&all[..])?;
    Ok(outputs.iter().map(|output| output.view::<f32>().unwrap().to_vec()).collect())
}

pub(super) fn inputs(graph: &Graph) -> Vec<Tensor> {
    let shapes = graph.inputs.iter().map(|id| &graph.values[*id].shape);
    let tensor = |(seed, shape): (usize, &Vec<i64>)| {
        Tensor::from_slice(&numbers(shape.iter().product::<i64>() as usize, seed), shape).unwrap()
    };
    shapes.enumerate().map(tensor).collect()
}

/// Checks that each extent gives the same results as the model compiled for it.
pub(super) fn check(bytes: &[u8], most: i64, extents: &[i64], threads: Threads) {
    let options = LowerOptions { threads, ..LowerOptions::default() };
    let cut = graph(bytes, &up_to(most));
    assert!(cut.parts.is_some());
    let (module, _) = build(&cut, "model", &Target::host(), options).unwrap();
    for extent in extents {
        let fixed = graph(bytes, &of(*extent));
        let shapes: Vec<Vec<i64>> = fixed.outputs.iter().map(|(_, id)| fixed.values[*id].shape.clone()).collect();
        let given = inputs(&fixed);
        let found = call(&module, &given, &shapes).unwrap();
        let (alone, _) = build(&fixed, "model", &Target::host(), options).unwrap();
        let expected = call(&alone, &given, &shapes).unwrap();
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            let is_near = (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
            assert!(is_near, "extent {extent}: {found}, expected {expected}");
        }
    }
}

fn perceptron() -> Vec<u8> {
    let nodes = vec![
        node("MatMul", &["x", "w"], &["h"]),
        node("Add", &["h", "b"], &["hb"]),
        node("Relu", &["hb"], &["r"]),
        node("Gemm", &["r", "u", "c"], &["scores"]),
        with_int(node("Softmax", &["scores"], &["shares"]), "axis", 1),
    ];
    let known = vec![filled("w", &[20, 48]), filled("b", &[48]), filled("u", &[48, 10]), filled("c", &[10])];
    model(nodes, known, &[("x", &["batch", "20"])], &["scores", "shares"])
}

#[test]
fn a_perceptron_for_any_number_of_rows() {
    check(&perceptron(), 100, &[1, 2, 3, 4, 5, 7, 16, 17, 64, 65, 87, 100], Threads::Kernels);
    check(&perceptron(), 5, &[1, 3, 5], Threads::Region);
    check(&perceptron(), 1, &[1], Threads::Single);
}

#[test]
fn a_convolution_network_for_any_number_of_images() {
    let nodes = vec![
        with_ints(node("Conv", &["x", "w", "b"], &["c"]), "pads", &[1; 4]),
        node("BatchNormalization", &["c", "scale", "b", "mean", "var"], &["n"]),
        node("Relu", &["n"], &["r"]),
        with_ints(with_ints(node("MaxPool", &["r"], &["p"]), "kernel_shape", &[2, 2]), "strides", &[2, 2]),
        node("Shape", &["p"], &["shape"]),
        node("Slice", &["shape", "zero", "one"], &["count"]),
        with_int(node("Concat", &["count", "open"], &["flat"]), "axis", 0),
        node("Reshape", &["p", "flat"], &["f"]),
        node("MatMul", &["f", "u"], &["y"]),
    ];
    let known = vec![
        filled("w", &[8, 3, 3, 3]),
        filled("b", &[8]),
        filled("scale", &[8]),
        filled("mean", &[8]),
        weights("var", &[8], &[1.0; 8]),
        ints("zero", &[0]),
        ints("one", &[1]),
        ints("open", &[-1]),
        filled("u", &[8 * 16, 5]),
    ];
    let bytes = model(nodes, known, &[("x", &["batch", "3", "8", "8"])], &["y"]);
    check(&bytes, 20, &[1, 2, 4, 6, 20], Threads::Kernels);
}

/// Heads are merged as `[batch * heads, ..]`: two indices belong to one of the batch.
#[test]
fn attention_for_any_batch() {
    let split = |from: &str, to: &str| {
        let parts = [format!("{from}_4"), format!("{from}_t")];
        vec![
            node("Reshape", &[from, "heads"], &[&parts[0]]),
            with_ints(node("Transpose", &[&parts[0]], &[&parts[1]]), "perm", &[0, 2, 1, 3]),
            node("Reshape", &[&parts[1], "apart"], &[to]),
        ]
    };
    let mut nodes = vec![
        node("MatMul", &["x", "wq"], &["q"]),
        node("MatMul", &["x", "wk"], &["k"]),
        node("MatMul", &["x", "wv"], &["v"]),
    ];
    nodes.extend([split("q", "qh"), split("k", "kh"), split("v", "vh")].into_iter().flatten());
    nodes.extend([
        with_ints(node("Transpose", &["kh"], &["kt"]), "perm", &[0, 2, 1]),
        node("MatMul", &["qh", "kt"], &["scores"]),
        node("Mul", &["scores", "scale"], &["scaled"]),
        node("Softmax", &["scaled"], &["shares"]),
        node("MatMul", &["shares", "vh"], &["mixed"]),
        node("Reshape", &["mixed", "heads_first"], &["m4"]),
        with_ints(node("Transpose", &["m4"], &["mt"]), "perm", &[0, 2, 1, 3]),
        node("Reshape", &["mt", "together"], &["m"]),
        node("Add", &["m", "x"], &["sum"]),
        node("LayerNormalization", &["sum", "gain", "shift"], &["y"]),
    ]);
    let known = vec![
        filled("wq", &[8, 8]),
        filled("wk", &[8, 8]),
        filled("wv", &[8, 8]),
        ints("heads", &[0, 6, 2, 4]),
        ints("apart", &[-1, 6, 4]),
        ints("heads_first", &[-1, 2, 6, 4]),
        ints("together", &[-1, 6, 8]),
        weights("scale", &[], &[0.01]),
        filled("gain", &[8]),
        filled("shift", &[8]),
    ];
    let bytes = model(nodes, known, &[("x", &["batch", "6", "8"])], &["y", "shares"]);
    check(&bytes, 9, &[1, 2, 5, 9], Threads::Kernels);
}

/// Each part gets whole tensors without a batch, and values computed only from them.
#[test]
fn inputs_without_the_dimension() {
    let nodes = vec![
        node("Mul", &["by", "by"], &["square"]),
        node("Mul", &["x", "square"], &["scaled"]),
        node("Add", &["scaled", "z"], &["y"]),
    ];
    let bytes =
        model(nodes, Vec::new(), &[("x", &["batch", "3"]), ("by", &["3"]), ("z", &["batch", "1"])], &["y", "square"]);
    check(&bytes, 10, &[1, 2, 9], Threads::Kernels);
}

#[test]
fn calls_with_other_extents() {
    let nodes = vec![node("Add", &["x", "z"], &["y"])];
    let bytes = model(nodes, Vec::new(), &[("x", &["batch", "3"]), ("z", &["batch", "3"])], &["y"]);
    let (module, _) = build(&graph(&bytes, &up_to(10)), "model", &Target::host(), LowerOptions::default()).unwrap();
    let of = |x: i64, z: i64, y: i64| {
        let tensor = |extent| Tensor::zeros::<f32>(&[extent, 3]).unwrap();
        call(&module, &[tensor(x), tensor(z)], &[vec![y, 3]]).map_err(|error| error.to_string())
    };
    assert_eq!(of(10, 10, 10).unwrap(), [vec![0.0; 30]]);
    let bound = "model: x.shape[0], the dimension 'batch', has to be 1 to 10";
    for extent in [0, 11, 1000] {
        let error = of(extent, extent, extent).unwrap_err();
        assert!(error.contains(bound), "{error}");
    }
    let error = of(3, 4, 3).unwrap_err();
    assert!(error.contains("Mismatched z.shape[0] on argument #1"), "{error}");
    assert!(error.contains("expected to match x.shape[0]"), "{error}");
    let error = of(3, 3, 2).unwrap_err();
    assert!(error.contains("Mismatched y.shape[0] on argument #2"), "{error}");
}

/// The kernels of one part can run one by one; several parts only as a whole.
#[test]
fn steps_of_one_part() {
    let (module, lowered) =
        build(&graph(&perceptron(), &up_to(20)), "model", &Target::host(), LowerOptions::default()).unwrap();
    let steps = module.function("model_steps").unwrap();
    let count = i64::try_from(lowered.kernels.len()).unwrap();
    let state =
        Tensor::zeros::<u8>(&[i64::try_from(kernpack_graph::lower::state_bytes(lowered.arena)).unwrap()]).unwrap();
    let x = |extent: i64| Tensor::from_slice(&numbers(extent as usize * 20, 0), &[extent, 20]).unwrap();
    let run = |extent: i64, ranges: &[(i64, i64)]| -> kernpack::Result<Vec<f32>> {
        let outputs = [10, 10].map(|columns| Tensor::zeros::<f32>(&[extent, columns]).unwrap());
        for (first, end) in ranges {
            steps.call((&state, *first, *end, &x(extent), &outputs[0], &outputs[1]))?;
        }
        outputs[1].view::<f32>().map(|view| view.to_vec())
    };
    let one_by_one: Vec<(i64, i64)> = (0..count).map(|step| (step, step + 1)).collect();
    for extent in [16, 7] {
        let expected = call(&module, &[x(extent)], &[vec![extent, 10], vec![extent, 10]]).unwrap();
        assert_eq!(run(extent, &[(0, count)]).unwrap(), expected[1]);
    }
    assert_eq!(run(16, &one_by_one).unwrap(), run(16, &[(0, count)]).unwrap());
    let error = run(7, &one_by_one).unwrap_err().to_string();
    let expected = "model_steps: some of the kernels run for 16, 4 or 1 indices of 'batch' alone, which are one part";
    assert!(error.contains(expected), "{error}");
}

fn refused(nodes: Vec<Message>, known: Vec<Message>, dims: &[&str]) -> String {
    let bytes = model(nodes, known, &[("x", dims)], &["y"]);
    import(&bytes, None, &up_to(8)).err().map(|error| error.to_string()).unwrap_or_default()
}

const OTHERS: &str = "what it gives for one index of the dimension depends on more than the inputs at that index";
const EXTENT: &str = "what it computes depends on the extent of the dimension itself";

#[test]
fn what_cannot_be_cut_is_refused() {
    let rows: &[&str] = &["batch", "4"];
    let shape = || vec![node("Shape", &["x"], &["shape"]), node("Gather", &["shape", "first"], &["count"])];
    let and = |mut nodes: Vec<Message>, more: Vec<Message>| {
        nodes.extend(more);
        nodes
    };
    let named = |node: Message| node.text(3, "n");
    let float = |from: &str, to: &str| with_int(node("Cast", &[from], &[to]), "to", 1);
    let first = || vec![ints("first", &[0])];
    let table: Vec<(&str, String, String)> = vec![
        (
            "the mean of all rows",
            refused(vec![named(node("ReduceMean", &["x", "first"], &["y"]))], first(), rows),
            format!("node 'n' (ReduceMean): {OTHERS}"),
        ),
        (
            "the rows in another order",
            refused(
                vec![named(node("Slice", &["x", "last", "start", "first", "back"], &["y"]))],
                vec![ints("last", &[-1]), ints("start", &[-1000]), ints("first", &[0]), ints("back", &[-1])],
                rows,
            ),
            format!("node 'n' (Slice): {OTHERS}"),
        ),
        (
            "sums along the rows",
            refused(vec![named(node("CumSum", &["x", "first"], &["y"]))], vec![scalar("first", 0)], rows),
            format!("node 'n' (CumSum): {EXTENT}"),
        ),
        (
            "softmax of all rows",
            refused(vec![named(with_int(node("Softmax", &["x"], &["y"]), "axis", 0))], Vec::new(), rows),
            format!("node 'n' (Softmax): {OTHERS}"),
        ),
        (
            "the first row for all",
            refused(
                vec![node("Gather", &["x", "first"], &["one"]), named(node("Add", &["x", "one"], &["y"]))],
                first(),
                rows,
            ),
            format!("node 'one' (Gather): {OTHERS}"),
        ),
        (
            "the product with its transpose",
            refused(
                vec![node("Transpose", &["x"], &["t"]), named(node("MatMul", &["x", "t"], &["y"]))],
                Vec::new(),
                rows,
            ),
            format!("node 'n' (MatMul): {EXTENT}"),
        ),
        (
            "the number of rows as a factor",
            refused(and(shape(), vec![float("count", "c"), named(node("Mul", &["x", "c"], &["y"]))]), first(), rows),
            format!("node 'n' (Mul): {EXTENT}"),
        ),
        (
            "the number of each row",
            refused(
                and(
                    vec![node("Shape", &["x"], &["shape"]), node("Gather", &["shape", "scalar"], &["count"])],
                    vec![
                        node("Range", &["scalar", "count", "step"], &["all"]),
                        float("all", "f"),
                        node("Unsqueeze", &["f", "axis"], &["column"]),
                        named(node("Add", &["x", "column"], &["y"])),
                    ],
                ),
                vec![scalar("scalar", 0), scalar("step", 1), ints("axis", &[1])],
                rows,
            ),
            format!("node 'n' (Add): {OTHERS}"),
        ),
        (
            "a slice as long as there are rows",
            refused(
                and(shape(), vec![named(node("Slice", &["x", "first", "count", "axis"], &["y"]))]),
                vec![ints("first", &[0]), ints("axis", &[1])],
                &["batch", "500"],
            ),
            format!("node 'n' (Slice): {EXTENT}"),
        ),
        (
            "a slice from the number of rows on",
            refused(
                and(
                    shape(),
                    vec![
                        node("Add", &["count", "width"], &["end"]),
                        named(node("Slice", &["x", "count", "end", "axis"], &["y"])),
                    ],
                ),
                vec![ints("first", &[0]), ints("axis", &[1]), ints("width", &[3])],
                &["batch", "500"],
            ),
            format!("node 'n' (Slice): {EXTENT}"),
        ),
        (
            "the largest ones",
            refused(
                vec![with_int(named(node("TopK", &["x", "two"], &["y", "places"])), "axis", 0)],
                vec![ints("two", &[2])],
                rows,
            ),
            "node 'n' (TopK): it is computed as a whole, by statements".to_owned(),
        ),
        (
            "another axis",
            refused(vec![named(node("Relu", &["x"], &["y"]))], Vec::new(), &["4", "batch"]),
            "input 'x': the dimension is axis 1, and has to be the first one".to_owned(),
        ),
        (
            "a result whose first axis is another",
            refused(vec![named(node("Transpose", &["x"], &["y"]))], Vec::new(), rows),
            "output 'y': the dimension is axis 1, and has to be the first one".to_owned(),
        ),
        (
            "an axis twice",
            refused(vec![named(node("Relu", &["x"], &["y"]))], Vec::new(), &["batch", "batch"]),
            format!("input 'x': {EXTENT}"),
        ),
    ];
    let end = ": the model cannot be computed for any extent of 'batch': say one extent, `.dim(\"batch\", extent)`, or several that a call may have, `.dim_in(\"batch\", [..])`";
    let wrong: Vec<_> = table
        .into_iter()
        .map(|(what, found, expected)| (what, found, format!("{expected}{end}")))
        .filter(|(_, found, expected)| found != expected)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn loops_over_rows_are_refused() {
    let inner =
        body(vec![node("Relu", &["row"], &["next"]), node("Identity", &["next"], &["out"])], &["row"], &["out"]);
    let scan = with_int(node("Scan", &["x"], &["y"]), "num_scan_inputs", 1).text(3, "n");
    let error = refused(vec![with_graph(scan, "body", inner)], Vec::new(), &["batch", "4"]);
    assert!(error.contains("the model cannot be computed for any extent of 'batch'"), "{error}");
}

#[test]
fn bounds_that_are_none() {
    let bytes = perceptron();
    let error = |options: &ModelOptions| import(&bytes, None, options).err().unwrap().to_string();
    for bound in [0, -1, 1 << 40] {
        let expected = format!("the bound of the dimension 'batch' is {bound}, and has to be 1 to 2147483647");
        assert_eq!(error(&up_to(bound)), expected);
    }
    let both = ModelOptions { dims: [("batch".to_owned(), 4)].into(), ..up_to(4) };
    assert_eq!(error(&both), "the dimension 'batch' is given an extent and a bound: one of them is enough");
    let other = ModelOptions { up_to: [("rows".to_owned(), 4)].into(), ..ModelOptions::default() };
    assert_eq!(error(&other), "the model has no dimension 'rows' that is open; it has: batch");
    let two =
        ModelOptions { up_to: [("batch".to_owned(), 4), ("rows".to_owned(), 4)].into(), ..ModelOptions::default() };
    let expected = "each call can tell one dimension, and not both 'batch' and 'rows': say one extent, `.dim(\"rows\", extent)`, or several that a call may have, `.dim_in(\"rows\", [..])`";
    assert_eq!(error(&two), expected);
}
