//! The passes over the graph of a model: their order, and the graph after each of them.

use std::path::Path;

use kernpack_compiler::ir::F16;
use kernpack_graph::{Dump, ModelOptions, import};

use super::branches::choice;
use super::parts::{filled, model};
use super::structures::{body, with_int};
use super::{mlp, node, weights};

fn dumps(bytes: &[u8], options: ModelOptions) -> Vec<Dump> {
    import(bytes, None, &ModelOptions { dump: true, ..options }).unwrap().dumps
}

fn names(dumps: &[Dump], place: &str) -> Vec<&'static str> {
    dumps.iter().filter(|dump| dump.place == place).map(|dump| dump.pass).collect()
}

/// The passes in the table of the book, in its order.
fn documented() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/slow-models.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().skip_while(|line| !line.starts_with("| pass |")).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| Some(row.strip_prefix("| `")?.split_once('`')?.0.to_owned())).collect()
}

#[test]
fn each_pass_is_dumped_in_the_order_of_the_book() {
    let all = ModelOptions { weights: Some(F16), ..ModelOptions::default() };
    let found = dumps(&mlp(), all);
    assert_eq!(found[0].pass, "import");
    assert_eq!(names(&found[1..], ""), documented());
    assert_eq!(found.len(), 8);
    assert!(found.iter().all(|dump| dump.text.starts_with("graph mlp(x: f32[2, 3])\n")), "{found:?}");
    assert!(import(&mlp(), None, &ModelOptions::default()).unwrap().dumps.is_empty());
}

#[test]
fn options_select_passes() {
    let usual = names(&dumps(&mlp(), ModelOptions::default()), "");
    assert_eq!(usual.len(), 7);
    assert!(!usual.contains(&"narrow_weights"), "{usual:?}");
    let plain = ModelOptions { plain: true, ..ModelOptions::default() };
    assert_eq!(names(&dumps(&mlp(), plain.clone()), ""), ["import", "pack_matmul_weights"]);
    let narrow = ModelOptions { weights: Some(F16), ..plain };
    assert_eq!(names(&dumps(&mlp(), narrow), ""), ["import", "narrow_weights", "pack_matmul_weights"]);
}

/// A matrix that passes transpose, narrow and pack, one after the other.
#[test]
fn dumps_show_the_graph_after_each_pass() {
    let gemm = || with_int(node("Gemm", &["x", "w"], &["y"]), "transB", 1);
    let bytes = model(vec![gemm()], vec![filled("w", &[48, 20])], &[("x", &["batch", "20"])], &["y"]);
    let dims = [("batch".to_owned(), 2)].into();
    let found = dumps(&bytes, ModelOptions { dims, weights: Some(F16), ..ModelOptions::default() });
    let matrix = |dump: &Dump| -> String {
        let (_, inputs) = dump.text.split_once("Gemm(x, ").unwrap();
        inputs.split_once(')').unwrap().0.to_owned()
    };
    let found: Vec<(&str, String)> = found.iter().map(|dump| (dump.pass, matrix(dump))).collect();
    let [turned, narrow] = ["w.turned: f32[20, 48]", "w.turned: f16[20, 48]"];
    let packed = "w.turned.panels: f16[3, 20, 16]";
    let expected = [
        ("import", "w: f32[48, 20]"),
        ("flush_weights", "w: f32[48, 20]"),
        ("one_hot_to_gather", "w: f32[48, 20]"),
        ("byte_products", "w: f32[48, 20]"),
        ("transpose_weights", turned),
        ("narrow_weights", narrow),
        ("pack_matmul_weights", packed),
        ("pack_conv_weights", packed),
    ];
    assert_eq!(found, expected.map(|(pass, matrix)| (pass, matrix.to_owned())));
}

#[test]
fn graphs_for_other_extents_are_dumped_with_their_places() {
    let nodes = vec![node("MatMul", &["x", "w"], &["y"])];
    let bytes = model(nodes, vec![filled("w", &[4, 6])], &[("x", &["batch", "words", "4"])], &["y"]);
    let options = ModelOptions {
        up_to: [("batch".to_owned(), 5)].into(),
        dims_in: [("words".to_owned(), vec![2, 3])].into(),
        ..ModelOptions::default()
    };
    let found = dumps(&bytes, options);
    let mut places: Vec<&str> = found.iter().map(|dump| dump.place.as_str()).collect();
    places.dedup();
    assert_eq!(places, ["batch = 1", "words = 2, batch = 1", "words = 2", ""]);
    for place in places {
        assert_eq!(names(&found, place).len(), 7, "{place}");
    }
}

#[test]
fn branches_are_dumped_with_their_node() {
    let branch = |matrix: &str| body(vec![node("MatMul", &["x", matrix], &["out"])], &[], &["out"]);
    let nodes = vec![node("Greater", &["flag", "zero"], &["c"]), choice("c", &["y"], branch("w"), branch("v"))];
    let known = vec![filled("w", &[6, 5]), filled("v", &[6, 5]), weights("zero", &[], &[0.0])];
    let bytes = model(nodes, known, &[("x", &["3", "6"]), ("flag", &[])], &["y"]);
    let found = dumps(&bytes, ModelOptions::default());
    let mut places: Vec<&str> = found.iter().map(|dump| dump.place.as_str()).collect();
    places.dedup();
    assert_eq!(places, ["node 'choice' (If)", ""]);
    // Both branches, one after the other.
    assert_eq!(names(&found, "node 'choice' (If)").len(), 14);
}
