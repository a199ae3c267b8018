//! Nodes that may fail, before others that do not need their results: an identity drops a value,
//! but not its check.

use kernpack_compiler::ir::U64;
use kernpack_graph::{Constant, ModelOptions, import};

use super::branches::choice;
use super::checks::Built;
use super::structures::{body, bools, floats, ints, model, with_int, with_ints};
use super::{Message, node};

fn constant(name: &str, value: i64) -> Message {
    with_int(node("Constant", &[], &[name]), "value_int", value)
}

/// Nodes that compute `y` from `d`, which they do not need, with their results for `a = [12, 6]`.
type Identity = (&'static str, fn() -> Vec<Message>, [f64; 2]);

const IDENTITIES: &[Identity] = &[
    ("Mul 0", || vec![node("Mul", &["d", "zero"], &["y"])], [0.; 2]),
    ("0 Mul", || vec![node("Mul", &["zero", "d"], &["y"])], [0.; 2]),
    ("Mul Mul 0", || vec![node("Mul", &["d", "a"], &["e"]), node("Mul", &["e", "zero"], &["y"])], [0.; 2]),
    (
        "Neg Mul 0 Add",
        || vec![node("Neg", &["d"], &["e"]), node("Mul", &["e", "zero"], &["f"]), node("Add", &["f", "a"], &["y"])],
        [12., 6.],
    ),
    ("Sub itself", || vec![node("Sub", &["d", "d"], &["y"])], [0.; 2]),
    ("And 0", || vec![node("BitwiseAnd", &["d", "zero"], &["y"])], [0.; 2]),
    ("Or -1", || vec![node("BitwiseOr", &["d", "all"], &["y"])], [-1.; 2]),
    ("Xor itself", || vec![node("BitwiseXor", &["d", "d"], &["y"])], [0.; 2]),
    ("Pow 0", || vec![node("Pow", &["d", "zero"], &["y"])], [1.; 2]),
    ("Mod 1", || vec![node("Mod", &["d", "one"], &["y"])], [0.; 2]),
    ("Max", || vec![node("Max", &["d", "most"], &["y"])], [9_223_372_036_854_775_807.; 2]),
    ("Min", || vec![node("Min", &["d", "least"], &["y"])], [-9_223_372_036_854_775_808.; 2]),
    ("Clip", || vec![node("Clip", &["d", "one", "one"], &["y"])], [1.; 2]),
    ("Where true", || vec![node("Equal", &["one", "one"], &["c"]), node("Where", &["c", "a", "d"], &["y"])], [12., 6.]),
    (
        "Where false",
        || vec![node("Equal", &["one", "zero"], &["c"]), node("Where", &["c", "d", "a"], &["y"])],
        [12., 6.],
    ),
    (
        "Where alike",
        || vec![node("Greater", &["d", "one"], &["c"]), node("Where", &["c", "a", "a"], &["y"])],
        [12., 6.],
    ),
    (
        "And false",
        || {
            vec![
                node("Greater", &["d", "one"], &["b0"]),
                node("Equal", &["one", "zero"], &["c"]),
                node("And", &["b0", "c"], &["b1"]),
                node("Where", &["b1", "zero", "a"], &["y"]),
            ]
        },
        [12., 6.],
    ),
    (
        "Or true",
        || {
            vec![
                node("Greater", &["d", "one"], &["b0"]),
                node("Equal", &["one", "one"], &["c"]),
                node("Or", &["c", "b0"], &["b1"]),
                node("Where", &["b1", "a", "zero"], &["y"]),
            ]
        },
        [12., 6.],
    ),
    (
        "Equal itself",
        || vec![node("Equal", &["d", "d"], &["b0"]), node("Where", &["b0", "a", "zero"], &["y"])],
        [12., 6.],
    ),
    (
        "GreaterOrEqual itself",
        || vec![node("GreaterOrEqual", &["d", "d"], &["b0"]), node("Where", &["b0", "a", "zero"], &["y"])],
        [12., 6.],
    ),
    (
        // Integers never are, so the result is known.
        "IsNaN",
        || vec![node("IsNaN", &["d"], &["b0"]), node("Where", &["b0", "zero", "a"], &["y"])],
        [12., 6.],
    ),
];

#[test]
fn a_dropped_division_is_checked() {
    for (name, identity, expected) in IDENTITIES {
        let mut nodes = vec![
            constant("zero", 0),
            constant("one", 1),
            constant("all", -1),
            constant("most", i64::MAX),
            constant("least", i64::MIN),
            node("Div", &["a", "b"], &["d"]).text(3, "culprit"),
        ];
        nodes.extend(identity());
        let inputs = |b: i64| vec![("a", ints(&[2], &[12, 6])), ("b", ints(&[2], &[3, b]))];
        let built = Built::in_ways(1, nodes, &inputs(1), &["y"]);
        assert_eq!(built.results(&inputs(2)), Ok(vec![expected.to_vec()]), "{name}");
        let error = built.results(&inputs(0)).unwrap_err();
        assert!(error.contains("node 'culprit' (Div): division by zero"), "{name}: {error}");
    }
}

#[test]
fn a_dropped_gather_is_checked() {
    let nodes = vec![
        constant("one", 1),
        node("Equal", &["one", "one"], &["c"]),
        node("Gather", &["x", "i"], &["g"]).text(3, "culprit"),
        node("Sigmoid", &["g"], &["s"]),
        node("Where", &["c", "z", "s"], &["y"]),
    ];
    let inputs =
        |i: i64| vec![("x", floats(&[3], &[1., 2., 3.])), ("i", ints(&[2], &[0, i])), ("z", floats(&[2], &[5., 6.]))];
    let built = Built::new(nodes, &inputs(0), &["y"]);
    assert_eq!(built.results(&inputs(2)), Ok(vec![vec![5., 6.]]));
    let error = built.results(&inputs(3)).unwrap_err();
    assert!(error.contains("node 'culprit' (Gather): index out of range"), "{error}");
    // Nothing may fail here: the result is known, and no node remains.
    let plain =
        model(vec![constant("zero", 0), node("Mul", &["a", "zero"], &["y"])], &[("a", ints(&[2], &[1, 2]))], &["y"]);
    let graph = import(&plain, None, &ModelOptions::default()).unwrap().graph;
    assert!(graph.nodes.iter().all(|node| node.op.name() != "Mul"));
}

/// An axis without elements has no index: an error if there is one, but not in a branch that is not
/// selected.
#[test]
fn an_axis_without_elements() {
    for gather in [
        || node("Gather", &["x", "i"], &["g"]),
        || node("GatherElements", &["x", "i"], &["g"]),
        || node("GatherND", &["x", "j"], &["g"]),
    ] {
        let yes = body(vec![gather().text(3, "gathered")], &[], &["g"]);
        let no = body(vec![node("Identity", &["z"], &["h"])], &[], &["h"]);
        let inputs = |holds: u8| {
            vec![
                ("c", bools(&[], &[holds])),
                ("x", floats(&[0], &[])),
                ("i", ints(&[2], &[0, 0])),
                ("j", ints(&[2, 1], &[0, 0])),
                ("z", floats(&[2], &[5., 6.])),
            ]
        };
        let built = Built::new(vec![choice("c", &["y"], yes, no)], &inputs(0), &["y"]);
        assert_eq!(built.results(&inputs(0)), Ok(vec![vec![5., 6.]]));
        let error = built.results(&inputs(1)).unwrap_err();
        assert!(error.contains("node 'gathered'") && error.contains("there is nothing to choose from"), "{error}");
        // Without an index.
        let none = vec![("x", floats(&[0], &[])), ("i", ints(&[0], &[])), ("j", ints(&[0, 1], &[]))];
        assert_eq!(Built::new(vec![gather()], &none, &["g"]).results(&none), Ok(vec![vec![]]));
    }
}

#[test]
fn unsigned_indices_are_shown_as_they_are() {
    let bytes: Vec<u8> = [0, (1_u64 << 63) + 7].iter().flat_map(|index| index.to_le_bytes()).collect();
    let inputs = vec![("x", floats(&[3], &[1., 2., 3.])), ("i", Constant::new(U64, &[2], bytes).unwrap())];
    let model = model(vec![node("Gather", &["x", "i"], &["y"]).text(3, "culprit")], &inputs, &["y"]);
    let mut options = ModelOptions::default();
    options.constants.insert("i".to_owned(), inputs[1].1.clone());
    let error = import(&model, None, &options).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("index out of range: 9223372036854775815 of input 1 ('i')"), "{error}");
}

/// Links `v = Gather(v, v)`: in one kernel each of them would double the work.
#[test]
fn chains_of_places_in_themselves() {
    type Link = fn(&str, &str) -> Vec<Message>;
    let kinds: [(&str, Link); 6] = [
        ("Gather", |from, to| vec![node("Gather", &[from, from], &[to])]),
        ("GatherElements", |from, to| vec![node("GatherElements", &[from, from], &[to])]),
        ("GatherND", |from, to| {
            let places = format!("{to}_places");
            vec![node("Unsqueeze", &[from, "last"], &[&places]), node("GatherND", &[from, &places], &[to])]
        }),
        ("Mul Mod Gather", |from, to| {
            let (product, rest) = (format!("{to}_product"), format!("{to}_rest"));
            vec![
                node("Mul", &[from, from], &[&product]),
                node("Mod", &[&product, "six"], &[&rest]),
                node("Gather", &[&rest, from], &[to]),
            ]
        }),
        ("Cast GatherElements", |from, to| {
            let narrow = format!("{to}_narrow");
            vec![with_int(node("Cast", &[from], &[&narrow]), "to", 6), node("GatherElements", &[from, &narrow], &[to])]
        }),
        ("Gather of the places and others", |from, to| {
            let (sum, rest) = (format!("{to}_sum"), format!("{to}_rest"));
            vec![
                node("Add", &[from, "table"], &[&sum]),
                node("Mod", &[&sum, "six"], &[&rest]),
                node("Gather", &[from, &rest], &[to]),
            ]
        }),
    ];
    for (name, link) in kinds {
        let table = [3, 1, 4, 0, 5, 2];
        let last = || with_ints(node("Constant", &[], &["last"]), "value_ints", &[-1]);
        let mut nodes = vec![constant("six", 6), last()];
        for number in 0..60 {
            nodes.extend(link(&format!("t{number}"), &format!("t{}", number + 1)));
        }
        let inputs = vec![("t0", ints(&[6], &[5, 3, 0, 1, 2, 4])), ("table", ints(&[6], &table))];
        let start = std::time::Instant::now();
        let built = Built::in_ways(1, nodes.clone(), &inputs, &["t60"]);
        let found = built.results(&inputs).unwrap();
        let took = start.elapsed();
        assert!(took.as_secs() < 20, "{name}: {took:?}");
        // Node by node.
        let mut known = ModelOptions::default();
        known.constants.extend(inputs.iter().map(|(name, constant)| ((*name).to_owned(), constant.clone())));
        let graph = import(&model(nodes, &inputs, &["t60"]), None, &known).unwrap().graph;
        let expected = graph.values.iter().find(|value| value.name == "t60").unwrap();
        assert_eq!(found[0], expected.known.as_ref().unwrap().to_floats().unwrap(), "{name}");
    }
}
