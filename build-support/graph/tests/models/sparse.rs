//! Sparse weights: they are converted to dense ones, and a few bytes cannot request much memory.

use kernpack::Tensor;
use kernpack_compiler::codegen::Target;
use kernpack_graph::{LowerOptions, ModelOptions, build, import};

use super::parts::{call, graph, ints};
use super::{Message, model, node, value, weights};

/// Values at places of a tensor of these extents.
fn sparse(name: &str, dims: &[i64], values: &[f32], indices: Message) -> Message {
    let tensor = Message::default().message(1, weights(name, &[values.len() as i64], values)).message(2, indices);
    dims.iter().fold(tensor, |tensor, extent| tensor.int(3, *extent))
}

/// Rows of indices.
fn rows(values: &[i64], columns: i64) -> Message {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Message::default().int(1, values.len() as i64 / columns).int(1, columns).int(2, 7).bytes(9, &raw)
}

fn product(tensor: Message) -> Vec<u8> {
    model(
        Message::default()
            .message(1, node("MatMul", &["x", "w"], &["y"]))
            .message(15, tensor)
            .message(11, value("x", &[1, 3]))
            .message(12, value("y", &[1, 2])),
    )
}

fn run(bytes: &[u8], x: &Tensor, shape: &[i64]) -> Vec<f32> {
    let (module, _) =
        build(&graph(bytes, &ModelOptions::default()), "model", &Target::host(), LowerOptions::default()).unwrap();
    call(&module, std::slice::from_ref(x), &[shape.to_vec()]).unwrap().remove(0)
}

#[test]
fn weights_of_which_most_are_zero() {
    let x = Tensor::from_slice(&[1f32, 10., 100.], &[1, 3]).unwrap();
    for indices in [ints("", &[1, 4]), rows(&[0, 1, 2, 0], 2)] {
        let bytes = product(sparse("w", &[3, 2], &[5., 7.], indices));
        assert_eq!(run(&bytes, &x, &[1, 2]), [700., 5.]);
    }
    // In a node.
    let tensor = sparse("", &[1, 3], &[2.], ints("", &[2]));
    let constant = node("Constant", &[], &["c"])
        .message(5, Message::default().text(1, "sparse_value").message(22, tensor).int(20, 11));
    let bytes = model(
        Message::default()
            .message(1, constant)
            .message(1, node("Add", &["x", "c"], &["y"]))
            .message(11, value("x", &[1, 3]))
            .message(12, value("y", &[1, 3])),
    );
    assert_eq!(run(&bytes, &x, &[1, 3]), [1., 10., 102.]);
}

#[test]
fn sparse_weights_that_are_wrong() {
    let refused = |dims: &[i64], values: &[f32], indices: Message| {
        let bytes = product(sparse("w", dims, values, indices));
        import(&bytes, None, &ModelOptions::default()).err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (dims, values, indices, expected) in [
        (&[3, 2][..], &[5f32, 7.][..], ints("", &[1, 6]), "the index of value 1 is outside of [3, 2]"),
        (&[3, 2], &[5., 7.], ints("", &[-1, 2]), "the index of value 0 is outside of [3, 2]"),
        (&[3, 2], &[5., 7.], ints("", &[4, 4]), "the index of value 1 is not behind that of the value before"),
        (&[3, 2], &[5., 7.], rows(&[0, 0, 1, 2], 2), "the index of value 1 is outside of [3, 2]"),
        (&[3, 2], &[5., 7.], ints("", &[1]), "its indices are [1] for 2 values of [3, 2]"),
        (&[3, 2], &[5.], weights("", &[1], &[1.]), "its indices are float32, and have to be int64"),
        (
            &[1 << 20, 1 << 12],
            &[5.],
            ints("", &[1]),
            "with all elements it has 17179869184 bytes, and may have 67109888",
        ),
        (&[1 << 30, 1 << 30], &[5.], ints("", &[1]), "[1073741824, 1073741824] has more than 2^40 elements"),
        (&[-1, 2], &[5.], ints("", &[1]), "the extent -1 of [-1, 2] is negative"),
    ] {
        assert_eq!(refused(dims, values, indices), format!("sparse tensor 'w': {expected}"));
    }
}
