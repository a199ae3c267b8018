//! Operators after a one-hot product: the rewrite to table rows does not change their results.

use kernpack::Tensor;
use kernpack_compiler::codegen::Target;
use kernpack_graph::{LowerOptions, ModelOptions, build, import};

use super::structures::with_int;
use super::{Message, ints, model, node, value, weights};

/// The rows and columns of the table. There are as many columns as indices, so that a wrong axis
/// has the same extent.
const ROWS: i64 = 3;
const COLUMNS: i64 = 4;
const INDICES: [i32; 8] = [0, 2, 1, 3, -1, 2, 0, i32::MIN];

/// The operators after the product `row`, of shape `[2, 4, 4]`, that compute `y` of the same shape.
fn behind(nodes: Vec<Message>, table: &[f32]) -> Message {
    let numbers: Vec<u8> = (0..ROWS as i32).flat_map(i32::to_le_bytes).collect();
    let range = [1, 1, ROWS].iter().fold(Message::default(), |tensor, dim| tensor.int(1, *dim));
    let graph = Message::default()
        .message(1, node("Equal", &["x", "range"], &["same"]))
        .message(1, with_int(node("Cast", &["same"], &["hot"]), "to", 1))
        .message(1, node("MatMul", &["hot", "w"], &["row"]));
    let line: Vec<f32> = (0..COLUMNS).map(|place| place as f32 / 2.0 + 0.5).collect();
    let graph = nodes
        .into_iter()
        .fold(graph, |graph, node| graph.message(1, node))
        .text(2, "text")
        .message(5, range.int(2, 6).text(8, "range").bytes(9, &numbers))
        .message(5, weights("w", &[ROWS, COLUMNS], table))
        .message(5, weights("line", &[COLUMNS], &line))
        .message(5, weights("wide_line", &[1, 1, COLUMNS], &line))
        .message(5, weights("along", &[COLUMNS, 1], &line))
        .message(5, weights("batch", &[2, 1, 1], &line[..2]))
        .message(5, weights("half", &[1], &[0.5]))
        .message(5, weights("one", &[], &[1.0]))
        .message(5, weights("w2", &[COLUMNS, COLUMNS], &[0.25; 16]));
    graph.message(11, ints("x", &[2, COLUMNS, 1]))
}

/// Returns the results of a model with its rewrites, or without them.
fn run(graph: Message, plain: bool) -> (Vec<f32>, usize) {
    let file = model(graph.message(12, value("y", &[2, COLUMNS, COLUMNS])));
    let graph = import(&file, None, &ModelOptions { plain, ..ModelOptions::default() }).unwrap().graph;
    let rows = graph.nodes.iter().filter(|node| node.op.name() == "Rows").count();
    let (module, _) = build(&graph, "text", &Target::host(), LowerOptions::default()).unwrap();
    let x = Tensor::from_slice(&INDICES, &[2, COLUMNS, 1]).unwrap();
    let y = Tensor::zeros::<f32>(&[2, COLUMNS, COLUMNS]).unwrap();
    module.function("text").unwrap().call((&x, &y)).unwrap();
    (y.view::<f32>().unwrap().to_vec(), rows)
}

fn check(what: &str, nodes: impl Fn() -> Vec<Message>, table: &[f32]) -> usize {
    let ((found, rows), (wanted, plain)) = (run(behind(nodes(), table), false), run(behind(nodes(), table), true));
    assert_eq!(plain, 0, "{what}");
    for (place, (a, b)) in found.iter().zip(&wanted).enumerate() {
        let near = a == b || (a - b).abs() <= 1e-6 * b.abs().max(1.0) || a.is_nan() && b.is_nan();
        assert!(near, "{what}: element {place} is {a}, without tables {b}\n{found:?}\n{wanted:?}");
    }
    rows
}

fn table() -> Vec<f32> {
    (0..ROWS * COLUMNS).map(|place| (place * 5 % 12) as f32 / 8.0 - 0.5).collect()
}

#[test]
fn operators_on_elements_are_computed_of_tables() {
    for name in ["Relu", "Gelu"] {
        assert_eq!(check(name, || vec![node(name, &["row"], &["y"])], &table()), 2, "{name}");
    }
    for name in ["Sub", "Max", "PRelu"] {
        for other in ["line", "wide_line", "half", "one"] {
            let rows = check(name, || vec![node(name, &["row", other], &["y"])], &table());
            assert_eq!(rows, 2, "{name} {other}");
        }
        // Operators that differ between rows of the result are kept.
        for other in ["along", "batch"] {
            assert_eq!(check(name, || vec![node(name, &["row", other], &["y"])], &table()), 1, "{name} {other}");
        }
    }
    assert_eq!(check("Clip", || vec![node("Clip", &["row", "half", "one"], &["y"])], &table()), 2);
}

/// Operators that depend on an axis: the rewrite ends before them.
#[test]
fn operators_along_axes_are_not() {
    let with_axis = |name: &str, inputs: &[&str], axis: i64| with_int(node(name, inputs, &["y"]), "axis", axis);
    type Nodes = fn() -> Vec<Message>;
    let rows: [(&str, Nodes); 9] = [
        ("BatchNormalization", || vec![node("BatchNormalization", &["row", "line", "line", "line", "line"], &["y"])]),
        ("BatchNormalization behind others", || {
            vec![
                node("Tanh", &["row"], &["t"]),
                node("BatchNormalization", &["t", "line", "line", "line", "line"], &["y"]),
            ]
        }),
        ("Trilu", || vec![node("Trilu", &["row"], &["y"])]),
        ("QuantizeLinear", || {
            let scaled = |name: &str, x: &str, y: &str| with_int(node(name, &[x, "line"], &[y]), "axis", 1);
            vec![scaled("QuantizeLinear", "row", "q"), scaled("DequantizeLinear", "q", "y")]
        }),
        ("InstanceNormalization", || vec![node("InstanceNormalization", &["row", "line", "line"], &["y"])]),
        ("LayerNormalization", || vec![node("LayerNormalization", &["row", "line"], &["y"])]),
        ("Transpose", || {
            let perm = [0, 2, 1].iter().fold(Message::default().text(1, "perm"), |list, axis| list.int(8, *axis));
            vec![node("Transpose", &["row"], &["y"]).message(5, perm.int(20, 7))]
        }),
        ("MatMul", || vec![node("MatMul", &["row", "w2"], &["y"])]),
        ("Dropout", || vec![node("Dropout", &["row"], &["d"]), node("Trilu", &["d"], &["y"])]),
    ];
    for (what, nodes) in rows {
        check(what, nodes, &table());
    }
    for axis in [1, 2] {
        for name in ["Softmax", "Hardmax"] {
            check(name, || vec![with_axis(name, &["row"], axis)], &table());
        }
    }
}

/// Zero times infinity is NaN, also if a row of the table without infinity is selected.
#[test]
fn tables_with_infinity_stay_products() {
    for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        for place in [0, 5, 11] {
            let mut table = table();
            table[place] = value;
            let options = || ModelOptions { allow_nan: true, ..ModelOptions::default() };
            let file = model(
                behind(vec![node("Neg", &["row"], &["y"])], &table)
                    .message(12, super::value("y", &[2, COLUMNS, COLUMNS])),
            );
            let graph = import(&file, None, &options()).unwrap().graph;
            assert!(graph.nodes.iter().all(|node| node.op.name() != "Rows"), "{value} at {place}");
        }
    }
}
