//! Chains in which each value is read twice. Written as a tree they double with every link, but
//! must compile in linear time.

use std::time::{Duration, Instant};

use kernpack_graph::{Constant, LowerOptions, ModelOptions, Threads, import};

use super::structures::{call, close, floats, model, run, with_int, with_ints};
use super::{Message, node, parts};

/// The number of links of each chain.
const LINKS: usize = 60;

/// Far above the time of a chain, and far below the time of one that doubles.
const LIMIT: Duration = Duration::from_secs(30);

/// One link: the nodes that compute `to` from `from`. Names with the prefix `to` are free.
type Link = fn(from: &str, to: &str) -> Vec<Message>;

/// Links by their names, with numbers that stay finite over all links, and the same as arithmetic
/// over one matrix of 8 x 8.
const KINDS: &[(&str, Link)] = &[
    ("Mul", |from, to| vec![node("Mul", &[from, from], &[to])]),
    ("Add", |from, to| vec![node("Add", &[from, from], &[&in_between(to, "sum")]), half(to, "sum")]),
    ("Mul Sigmoid", |from, to| {
        vec![node("Sigmoid", &[from], &[&in_between(to, "s")]), node("Mul", &[from, &in_between(to, "s")], &[to])]
    }),
    ("Sub Relu", |from, to| {
        vec![node("Relu", &[from], &[&in_between(to, "r")]), node("Sub", &[from, &in_between(to, "r")], &[to])]
    }),
    ("Where", |from, to| {
        let (less, negated) = (in_between(to, "less"), in_between(to, "negated"));
        vec![
            node("Greater", &[from, "half"], &[&less]),
            node("Neg", &[from], &[&negated]),
            node("Where", &[&less, &negated, from], &[to]),
        ]
    }),
    ("Max", |from, to| {
        vec![node("Neg", &[from], &[&in_between(to, "n")]), node("Max", &[from, &in_between(to, "n")], &[to])]
    }),
    ("Transpose", |from, to| {
        vec![
            with_ints(node("Transpose", &[from], &[&in_between(to, "t")]), "perm", &[1, 0]),
            node("Add", &[from, &in_between(to, "t")], &[&in_between(to, "sum")]),
            half(to, "sum"),
        ]
    }),
    ("Concat", |from, to| {
        let (wide, left, right) = (in_between(to, "wide"), in_between(to, "left"), in_between(to, "right"));
        let split = with_int(node("Split", &[&wide], &[&left, &right]), "axis", 1);
        vec![
            with_int(node("Concat", &[from, from], &[&wide]), "axis", 1),
            with_int(split, "num_outputs", 2),
            node("Mul", &[&left, &right], &[to]),
        ]
    }),
    ("ReduceMean", |from, to| {
        let mean = in_between(to, "mean");
        vec![node("ReduceMean", &[from, "last"], &[&mean]), node("Sub", &[from, &mean], &[to])]
    }),
    ("neighbours", |from, to| {
        let (front, back, around) = (in_between(to, "front"), in_between(to, "back"), in_between(to, "around"));
        vec![
            node("Slice", &[from, "zero", "one", "last"], &[&front]),
            node("Slice", &[from, "one", "eight", "last"], &[&back]),
            with_int(node("Concat", &[&back, &front], &[&around]), "axis", 1),
            node("Add", &[from, &around], &[&in_between(to, "sum")]),
            half(to, "sum"),
        ]
    }),
    ("Cast", |from, to| {
        let (whole, back) = (in_between(to, "whole"), in_between(to, "back"));
        vec![
            with_int(node("Cast", &[from], &[&whole]), "to", 6),
            with_int(node("Cast", &[&whole], &[&back]), "to", 1),
            node("Add", &[from, &back], &[&in_between(to, "sum")]),
            half(to, "sum"),
        ]
    }),
    ("Pow Sqrt", |from, to| {
        let (square, sum) = (in_between(to, "square"), in_between(to, "sum"));
        vec![
            node("Mul", &[from, from], &[&square]),
            node("Add", &[&square, from], &[&sum]),
            node("Tanh", &[&sum], &[to]),
        ]
    }),
    ("Gather", |from, to| {
        vec![node("Gather", &[from, "places"], &[&in_between(to, "moved")]), sum(from, to, "moved"), half(to, "sum")]
    }),
    ("Gather columns", |from, to| {
        let gather = with_int(node("Gather", &[from, "places"], &[&in_between(to, "moved")]), "axis", 1);
        vec![gather, node("Sub", &[from, &in_between(to, "moved")], &[&in_between(to, "sum")]), half(to, "sum")]
    }),
    ("GatherElements", |from, to| {
        vec![
            node("GatherElements", &[from, "table"], &[&in_between(to, "moved")]),
            node("Max", &[from, &in_between(to, "moved")], &[to]),
        ]
    }),
    ("GatherND", |from, to| {
        vec![node("GatherND", &[from, "rows"], &[&in_between(to, "moved")]), sum(from, to, "moved"), half(to, "sum")]
    }),
    ("Gather twice", |from, to| {
        let (one, other) = (in_between(to, "one"), in_between(to, "other"));
        vec![
            node("Gather", &[from, "places"], &[&one]),
            with_int(node("Gather", &[from, "places"], &[&other]), "axis", 1),
            node("Add", &[&one, &other], &[&in_between(to, "sum")]),
            half(to, "sum"),
        ]
    }),
    ("Gather by a row", |from, to| {
        // The row of a value is the place where it is read.
        let (place, row) = (in_between(to, "place"), in_between(to, "row"));
        vec![
            node("ReduceSum", &[from, "both"], &[&in_between(to, "all")]),
            node("Greater", &[&in_between(to, "all"), "half"], &[&in_between(to, "is_large")]),
            with_int(node("Cast", &[&in_between(to, "is_large")], &[&place]), "to", 7),
            node("Reshape", &[&place, "one"], &[&row]),
            node("Gather", &[from, &row], &[&in_between(to, "moved")]),
            sum(from, to, "moved"),
            half(to, "sum"),
        ]
    }),
    ("Slice Pad", |from, to| {
        let (cut, moved) = (in_between(to, "cut"), in_between(to, "moved"));
        vec![
            node("Slice", &[from, "one", "eight", "zero"], &[&cut]),
            node("Pad", &[&cut, "pads"], &[&moved]),
            sum(from, to, "moved"),
            half(to, "sum"),
        ]
    }),
    ("ReverseSequence", |from, to| {
        vec![
            node("ReverseSequence", &[from, "places"], &[&in_between(to, "moved")]),
            sum(from, to, "moved"),
            half(to, "sum"),
        ]
    }),
    ("Tile", |from, to| {
        let (column, moved) = (in_between(to, "column"), in_between(to, "moved"));
        vec![
            node("Slice", &[from, "zero", "one", "one"], &[&column]),
            node("Expand", &[&column, "shape"], &[&moved]),
            sum(from, to, "moved"),
            half(to, "sum"),
        ]
    }),
    ("Gather of the call", |from, to| {
        vec![node("Gather", &[from, "k"], &[&in_between(to, "moved")]), sum(from, to, "moved"), half(to, "sum")]
    }),
    ("GatherElements of the call", |from, to| {
        let moved = in_between(to, "moved");
        vec![node("GatherElements", &[from, "table_k"], &[&moved]), sum(from, to, "moved"), half(to, "sum")]
    }),
    ("Gather by itself", |from, to| {
        // Places that are computed from the value.
        let (size, places) = (in_between(to, "size"), in_between(to, "places"));
        vec![
            node("Abs", &[from], &[&size]),
            with_int(node("Cast", &[&size], &[&places]), "to", 7),
            node("GatherElements", &[from, &places], &[&in_between(to, "moved")]),
            sum(from, to, "moved"),
            half(to, "sum"),
        ]
    }),
    ("Slice of Softmax", |from, to| {
        let (cut, moved) = (in_between(to, "cut"), in_between(to, "moved"));
        vec![
            node("Softmax", &[from], &[&in_between(to, "soft")]),
            node("Gather", &[&in_between(to, "soft"), "places"], &[&cut]),
            node("Mul", &[&cut, from], &[&moved]),
            sum(from, to, "moved"),
            half(to, "sum"),
        ]
    }),
];

fn sum(from: &str, to: &str, other: &str) -> Message {
    node("Add", &[from, &in_between(to, other)], &[&in_between(to, "sum")])
}

fn in_between(to: &str, name: &str) -> String {
    format!("{to}_{name}")
}

fn half(to: &str, sum: &str) -> Message {
    node("Mul", &[&in_between(to, sum), "half"], &[to])
}

fn chain(link: Link) -> (Vec<u8>, Vec<(&'static str, Constant)>) {
    let ints = |name: &'static str, value: i64| with_ints(node("Constant", &[], &[name]), "value_ints", &[value]);
    let list = |name: &'static str, values: &[i64]| with_ints(node("Constant", &[], &[name]), "value_ints", values);
    let mut nodes = vec![ints("zero", 0), ints("one", 1), ints("eight", 8), ints("last", -1)];
    let places = [3, 1, 4, 0, 7, 6, 5, 2];
    let table: Vec<i64> = (0..64).map(|place| (place * 5 + place / 8) % 8).collect();
    nodes.extend([
        list("places", &places),
        list("both", &[0, 1]),
        list("shape", &[8, 8]),
        list("pads", &[1, 0, 0, 0]),
        list("flat", &table),
        node("Reshape", &["flat", "shape"], &["table"]),
        node("Unsqueeze", &["places", "last"], &["rows"]),
    ]);
    for number in 0..LINKS {
        nodes.extend(link(&format!("t{number}"), &format!("t{}", number + 1)));
    }
    let values: Vec<f32> = (0..64).map(|place| (place * 7 % 64) as f32 / 80.0 - 0.3).collect();
    let inputs = vec![
        ("t0", floats(&[8, 8], &values)),
        ("half", floats(&[], &[0.5])),
        ("k", super::structures::ints(&[8], &places)),
        ("table_k", super::structures::ints(&[8, 8], &table)),
    ];
    (model(nodes, &inputs, &[&format!("t{LINKS}")]), inputs)
}

#[test]
fn chains_of_values_that_are_read_twice() {
    for (name, link) in KINDS {
        let (bytes, inputs) = chain(*link);
        let start = Instant::now();
        let graph = import(&bytes, None, &ModelOptions::default()).unwrap().graph;
        let found = call(&graph, &inputs, LowerOptions::default()).unwrap();
        let took = start.elapsed();
        println!("{name}: {took:?}");
        assert!(took < LIMIT, "{name}: {took:?}");
        // Values that are known at build time are computed node by node.
        let mut known = ModelOptions::default();
        known.constants.extend(inputs.iter().map(|(name, constant)| ((*name).to_owned(), constant.clone())));
        let expected = run(&bytes, &inputs, &known);
        close(&found[0].to_floats().unwrap(), &expected[0].to_floats().unwrap());
    }
}

/// A power of integers shares its subexpressions: as a tree it has 2^31 of them.
#[test]
fn shared_parts_with_a_dimension_of_the_call() {
    let nodes = vec![
        with_int(node("Cast", &["x"], &["base"]), "to", 7),
        with_int(node("Cast", &["x"], &["narrow"]), "to", 6),
        node("Abs", &["narrow"], &["exponent"]),
        node("Pow", &["base", "exponent"], &["power"]),
        with_int(node("Cast", &["power"], &["y"]), "to", 1),
    ];
    let bytes = parts::model(nodes, vec![], &[("x", &["batch", "3"])], &["y"]);
    parts::check(&bytes, 9, &[1, 4, 9], Threads::Single);
}

/// A value that is read at its own place and at another one is computed at twice as many places
/// with each link: few links are fused, whatever the cost.
#[test]
fn links_at_other_places_share_few_kernels() {
    for wanted in ["Gather of the call", "GatherElements of the call", "Gather by itself", "ReverseSequence"] {
        let (_, link) = KINDS.iter().find(|(name, _)| *name == wanted).unwrap();
        let graph = import(&chain(*link).0, None, &ModelOptions::default()).unwrap().graph;
        let largest = graph.groups(true).iter().map(|group| group.nodes.len()).max().unwrap();
        assert!((3..=16).contains(&largest), "{wanted}: {largest} nodes");
    }
    // Links of values that are read at their own place are fused up to the limit of a kernel.
    let (_, link) = KINDS.iter().find(|(name, _)| *name == "Mul Sigmoid").unwrap();
    let graph = import(&chain(*link).0, None, &ModelOptions::default()).unwrap().graph;
    assert_eq!(graph.groups(true)[0].nodes.len(), 24);
}
