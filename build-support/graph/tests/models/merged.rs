//! Models whose batch is temporarily the inner part of a merged axis: `[length, batch, ..]` as
//! `[length * batch, ..]`, as in attention with the length first.

use kernpack_graph::{ModelOptions, Threads, import};

use super::parts::{check, filled, ints, model};
use super::structures::with_ints;
use super::{Message, node, weights};

fn turned(from: &str, to: &str, perm: &[i64]) -> Message {
    with_ints(node("Transpose", &[from], &[to]), "perm", perm)
}

/// A layer like PyTorch's `TransformerEncoderLayer`: `[length, batch, width]` as rows for the
/// products, `[batch * heads, length, ..]` for the attention.
#[test]
fn attention_with_the_length_first() {
    let mut nodes = vec![turned("x", "first", &[1, 0, 2]), node("Reshape", &["first", "rows"], &["r"])];
    for part in ["q", "k", "v"] {
        let names = [format!("{part}p"), format!("{part}h"), format!("{part}a")];
        nodes.push(node("Gemm", &["r", &format!("w{part}"), "shift"], &[&names[0]]));
        nodes.push(node("Reshape", &[&names[0], "heads"], &[&names[1]]));
        nodes.push(turned(&names[1], &names[2], &[1, 0, 2]));
    }
    nodes.extend([
        turned("ka", "kt", &[0, 2, 1]),
        node("MatMul", &["qa", "kt"], &["scores"]),
        node("Mul", &["scores", "scale"], &["scaled"]),
        node("Softmax", &["scaled"], &["shares"]),
        node("MatMul", &["shares", "va"], &["mixed"]),
        turned("mixed", "back", &[1, 0, 2]),
        node("Reshape", &["back", "rows"], &["together"]),
        node("Gemm", &["together", "wo", "shift"], &["out"]),
        node("Reshape", &["out", "apart"], &["lengths"]),
        turned("lengths", "batches", &[1, 0, 2]),
        node("Add", &["batches", "x"], &["sum"]),
        node("LayerNormalization", &["sum", "gain", "shift"], &["y"]),
    ]);
    let known = vec![
        filled("wq", &[8, 8]),
        filled("wk", &[8, 8]),
        filled("wv", &[8, 8]),
        filled("wo", &[8, 8]),
        ints("rows", &[-1, 8]),
        ints("heads", &[6, -1, 4]),
        ints("apart", &[6, -1, 8]),
        weights("scale", &[], &[0.01]),
        filled("gain", &[8]),
        filled("shift", &[8]),
    ];
    let bytes = model(nodes, known, &[("x", &["batch", "6", "8"])], &["y"]);
    check(&bytes, 9, &[1, 2, 5, 9], Threads::Kernels);
}

/// Four axes in each order are merged to two, go through a product, and are split again.
#[test]
fn every_order_of_four_axes() {
    let orders = [[1, 0, 2, 3], [1, 2, 0, 3], [2, 1, 0, 3], [3, 1, 0, 2], [2, 0, 3, 1], [3, 2, 0, 1]];
    for perm in orders {
        let extents = perm.map(|axis| [-1, 2, 3, 4][axis as usize]);
        let mut inverse = [0; 4];
        for (place, axis) in perm.iter().enumerate() {
            inverse[*axis as usize] = place as i64;
        }
        let nodes = vec![
            turned("x", "t", &perm),
            node("Reshape", &["t", "merged"], &["m"]),
            node("Relu", &["m"], &["r"]),
            node("MatMul", &["r", "w"], &["p"]),
            node("Reshape", &["p", "apart"], &["a"]),
            turned("a", "y", &inverse),
        ];
        let last = extents[3];
        let known = vec![ints("merged", &[-1, last]), ints("apart", &extents), filled("w", &[last, last])];
        let bytes = model(nodes, known, &[("x", &["batch", "2", "3", "4"])], &["y"]);
        check(&bytes, 5, &[1, 3, 4, 5], Threads::Single);
    }
}

#[test]
fn what_mixes_indices_of_a_merged_axis_is_refused() {
    const OTHERS: &str = "what it gives for one index of the dimension depends on more than the inputs at that index";
    let merged = || vec![turned("x", "t", &[1, 0]), node("Reshape", &["t", "flat"], &["m"])];
    let table: [(&str, Vec<Message>, &str); 5] = [
        ("the sum of all", vec![node("ReduceSum", &["m", "zero"], &["y"])], OTHERS),
        ("softmax of all", vec![node("Softmax", &["m"], &["y"])], OTHERS),
        (
            "sums of neighbours",
            vec![node("Reshape", &["m", "pairs"], &["p"]), node("ReduceSum", &["p", "one"], &["y"])],
            OTHERS,
        ),
        ("merged back in the wrong order", vec![node("Reshape", &["m", "wrong"], &["y"])], OTHERS),
        (
            "an output of the merged axis",
            vec![node("Relu", &["m"], &["y"])],
            "output 'y': the dimension is an inner part of axis 0, and has to be the first one",
        ),
    ];
    for (what, more, expected) in table {
        let nodes = merged().into_iter().chain(more).collect();
        let known = vec![
            ints("flat", &[-1]),
            ints("zero", &[0]),
            ints("pairs", &[-1, 2]),
            ints("one", &[1]),
            ints("wrong", &[-1, 6]),
        ];
        let bytes = model(nodes, known, &[("x", &["batch", "6"])], &["y"]);
        let options = ModelOptions { up_to: [("batch".to_owned(), 8)].into(), ..ModelOptions::default() };
        let error = import(&bytes, None, &options).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "{what}: {error}");
    }
}
